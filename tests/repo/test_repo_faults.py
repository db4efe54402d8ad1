#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Repositories behind servers and lines that fail.

Usage: test_repo_faults.py [TEST...]

S3 (versitygw) and rest-server behind a proxy that cuts, answers with errors,
is slow or stalls; TLS with a certificate of our own; listings of many pages;
a disk that is full. REPOTOOL is the program.
"""
import glob
import os
import subprocess

from cutproxy import CutProxy
from repoworld import (KEYS, TOOL, Repository, change, free_port, main, peer, require, same,
                       skip)


FAKETIME = glob.glob("/usr/lib/*/faketime/libfaketime.so.1")


def shifted(when):
    """The environment of a program whose clock is wrong."""
    return {"LD_PRELOAD": FAKETIME[0], "FAKETIME": when, "DONT_FAKE_MONOTONIC": "1"}


def behind(world, kind):
    """A repository whose requests go through a proxy."""
    if kind == "s3":
        port, _ = world.s3_server()
        proxy = CutProxy(port)
        return proxy, Repository(f"s3:http://127.0.0.1:{proxy.port}/bucket/p", world.dir, KEYS)
    proxy = CutProxy(world.rest_server())
    return proxy, Repository(f"rest:http://127.0.0.1:{proxy.port}/p/", world.dir)


def survive(world, kind, mode, status=503, rounds=3):
    proxy, repository = behind(world, kind)
    repository.env.update(REPOTOOL_RETRY_MS="60000",
                          REPOTOOL_STALL_MS="1000" if mode == "stall" else "2000",
                          REPOTOOL_PACK="500000", REPOTOOL_PART="5242880")
    volume = world.file("volume", 4_000_000, 1)
    repository.tool("init").good()
    proxy.mode, proxy.status = mode, status
    for round_ in range(rounds):
        change(volume, round_, 20)
        snapshot = repository.tool("put", "/v", volume, "16K").good().out.strip()
        out = world.dir / "out"
        repository.tool("get", snapshot, "/v", out).good()
        same(out, volume)
    repository.tool("forget", repository.snapshots()[0]).good()
    repository.tool("prune", "0").good()
    repository.sound()
    if mode != "slow":
        require(proxy.harmed > 3, f"only {proxy.harmed} connections were harmed")
    proxy.mode = "pass"
    repository.sound()
    proxy.close()


def cut_connections_to_s3_are_made_again(world):
    survive(world, "s3", "cut")


def cut_connections_to_rest_server_are_made_again(world):
    survive(world, "rest", "cut")


def errors_of_s3_are_tried_again(world):
    survive(world, "s3", "error")
    survive(world, "s3", "error", 429)


def errors_of_rest_server_are_tried_again(world):
    survive(world, "rest", "error", 500)


def slow_lines_are_waited_for(world):
    survive(world, "s3", "slow")


def stalled_requests_are_given_up_and_made_again(world):
    survive(world, "s3", "stall", rounds=1)


def a_server_that_stays_away_is_a_clear_error(world):
    for kind in ("s3", "rest"):
        proxy, repository = behind(world, kind)
        volume = world.file("volume", 300_000, 2)
        repository.tool("init").good()
        kept = repository.tool("put", "/v", volume).good().out.strip()
        proxy.mode = "down"
        # One that tried for ever would be ended by the limit of a command, which is no answer.
        repository.tool("put", "/w", volume, env={"REPOTOOL_RETRY_MS": "1500"}).bad(
            "UNAVAILABLE", "tries")
        proxy.mode = "pass"
        require(repository.snapshots() == [kept], "snapshots changed")
        repository.sound()
        proxy.close()


def wrong_keys_and_buckets_are_clear_errors(world):
    port, _ = world.s3_server()
    repository = Repository(f"s3:http://127.0.0.1:{port}/bucket", world.dir, KEYS)
    repository.tool("list").bad("NOT_FOUND", "no repository")
    repository.tool("init").good()
    repository.tool("list", env={"AWS_SECRET_ACCESS_KEY": "wrong"}).bad("PERMISSION_DENIED")
    done = repository.tool("list", env={"AWS_ACCESS_KEY_ID": "nobody"}).bad()
    require("secret" not in done.err, "a key was shown")
    repository.tool("list", env={"AWS_ACCESS_KEY_ID": ""}).bad("AWS_ACCESS_KEY_ID")


def a_clock_that_is_wrong_is_put_right_by_the_server(world):
    """S3 refuses a signature of another time and says what time it is."""
    port, _ = world.s3_server()
    repository = Repository(f"s3:http://127.0.0.1:{port}/bucket", world.dir, KEYS)
    repository.tool("init").good()
    for when in ("+3h", "-3h"):
        repository.tool("put", "/v", world.file("small", 5000, 3), env=shifted(when)).good()
    repository.sound()


def a_clock_that_jumps_takes_no_live_lock_away_unnoticed(world):
    """Another host's clock is hours ahead: to it our lock is stale. It goes on, and we
    notice before we claim to have saved anything."""
    repository = world.repository("directory")
    repository.tool("init").good()
    volume = world.file("volume", 50_000, 11)
    kept = repository.tool("put", "/v", volume).good().out.strip()
    held = subprocess.Popen([TOOL, "hold", "shared"], env=repository.env, text=True,
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE)
    require(held.stdout.readline() == "held\n", "no lock")
    repository.tool("prune", env=shifted("-3h")).bad("ABORTED")  # a time to come is not stale
    repository.tool("prune", env=shifted("+3h")).good()
    _, err = held.communicate()
    require(held.returncode == 1 and "was removed by somebody else" in err, err)
    require(repository.snapshots() == [kept], "snapshots changed")
    repository.sound()


def a_certificate_of_our_own_is_trusted_when_told(world):
    cert, key = world.dir / "cert.pem", world.dir / "key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                    "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=localhost",
                    "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", key,
                    "-out", cert], check=True, stderr=subprocess.DEVNULL)
    port, _ = world.s3_server("--cert", str(cert), "--key", str(key))
    rest_port = free_port()
    world.start([peer("rest-server"), "--listen", f"127.0.0.1:{rest_port}", "--no-auth",
                 "--path", world.make("rest"), "--tls", "--tls-cert", cert, "--tls-key", key],
                rest_port)
    volume = world.file("volume", 100_000, 4)
    for location in (f"s3:https://127.0.0.1:{port}/bucket", f"rest:https://localhost:{rest_port}/"):
        repository = Repository(location, world.dir, KEYS)
        repository.tool("init").bad("UNAUTHENTICATED")
        repository.env["RESTIC_CACERT"] = str(cert)
        repository.tool("init").good()
        repository.tool("put", "/v", volume).good()
        repository.sound()


def passwords_of_rest_server_are_used_and_never_shown(world):
    port = free_port()
    directory = world.make("rest")
    (directory / ".htpasswd").write_text("backup:{SHA}" + "W6ph5Mm5Pz8GgiULbPgzG37mj9g=\n")
    world.start([peer("rest-server"), "--listen", f"127.0.0.1:{port}", "--path", directory], port)
    named = Repository(f"rest:http://backup:password@127.0.0.1:{port}/", world.dir)
    named.tool("init").good()
    named.tool("list").good()
    plain = Repository(f"rest:http://127.0.0.1:{port}/", world.dir)
    plain.tool("list").bad("UNAUTHENTICATED")
    plain.tool("list", env={"RESTIC_REST_USERNAME": "backup",
                            "RESTIC_REST_PASSWORD": "password"}).good()
    wrong = Repository(f"rest:http://backup:wr0ng@127.0.0.1:{port}/", world.dir)
    done = wrong.tool("list").bad("UNAUTHENTICATED")
    require("wr0ng" not in done.err, "a password was shown")


def listings_of_many_pages_are_read_to_the_end(world):
    port, directory = world.s3_server()
    repository = Repository(f"s3:http://127.0.0.1:{port}/bucket/deep/er", world.dir, KEYS)
    repository.tool("init").good()
    repository.tool("put", "/v", world.file("small", 50_000, 5)).good()
    for i in range(2300):
        name = f"{i * 7919:064x}"[::-1]
        where = directory / "bucket/deep/er/data" / name[:2]
        where.mkdir(parents=True, exist_ok=True)
        (where / name).write_bytes(b"x")
    done = repository.tool("check").good()
    require("unknown 2300 " in done.out, done.out)


def virtual_hosts_are_spoken_to(world):
    port, _ = world.s3_server("--virtual-domain", "localhost")
    repository = Repository(f"s3:http://localhost:{port}/bucket/p", world.dir, KEYS)
    repository.env["REPOTOOL_VIRTUAL"] = "1"
    repository.tool("init").good()
    repository.tool("put", "/v", world.file("small", 50_000, 6)).good()
    repository.sound()


def large_packs_go_in_parts(world):
    port, directory = world.s3_server()
    repository = Repository(f"s3:http://127.0.0.1:{port}/bucket", world.dir, KEYS)
    repository.env.update(REPOTOOL_PACK="14000000", REPOTOOL_PART="5242880")
    volume = world.file("volume", 30_000_000, 7)
    repository.tool("init").good()
    snapshot = repository.tool("put", "/v", volume, "1M").good().out.strip()
    sizes = [p.stat().st_size for p in (directory / "bucket/data").rglob("*") if p.is_file()]
    require(max(sizes) > 12_000_000, sizes)
    out = world.dir / "out"
    repository.tool("get", snapshot, "/v", out).good()
    same(out, volume)
    repository.sound_to(peer("restic"))


def a_full_disk_loses_nothing(world):
    point = world.make("disk")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=12m,nr_inodes=2000", "tmpfs", point],
                   check=True)
    try:
        repository = Repository(str(point / "repo"), world.dir)
        repository.env["REPOTOOL_PACK"] = "1000000"
        small, large = world.file("small", 2_000_000, 8), world.file("large", 20_000_000, 9)
        repository.tool("init").good()
        kept = repository.tool("put", "/v", small).good().out.strip()
        repository.tool("put", "/v", large).bad("RESOURCE_EXHAUSTED", "No space left")
        require(repository.snapshots() == [kept], "snapshots changed")
        repository.sound()
        repository.tool("prune", "0").good()
        repository.tool("put", "/w", world.file("other", 3_000_000, 10)).good()
        repository.sound()
    finally:
        subprocess.run(["umount", point], check=True)


if os.geteuid() != 0:
    skip("a disk of our own needs root")
if not FAKETIME:
    skip("libfaketime is not installed")
main([cut_connections_to_s3_are_made_again, cut_connections_to_rest_server_are_made_again,
      errors_of_s3_are_tried_again, errors_of_rest_server_are_tried_again,
      slow_lines_are_waited_for, stalled_requests_are_given_up_and_made_again,
      a_server_that_stays_away_is_a_clear_error, wrong_keys_and_buckets_are_clear_errors,
      a_clock_that_is_wrong_is_put_right_by_the_server,
      a_clock_that_jumps_takes_no_live_lock_away_unnoticed,
      a_certificate_of_our_own_is_trusted_when_told,
      passwords_of_rest_server_are_used_and_never_shown,
      listings_of_many_pages_are_read_to_the_end, virtual_hosts_are_spoken_to,
      large_packs_go_in_parts, a_full_disk_loses_nothing])
