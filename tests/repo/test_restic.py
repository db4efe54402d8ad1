#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The repository layer and restic on the same repositories.

Usage: test_restic.py [TEST...]

Both versions (Debian's and the newest) read, restore, prune and go on with what
repotool wrote, and it with what they wrote: in a directory, in S3 (versitygw)
and behind rest-server. REPOTOOL is the program.
"""
import json
import os
import shutil
import subprocess

from repoworld import (PASSWORD, TOOL, Broken, change, init_at_once, main, peer, require, same,
                       skip)

OLD = shutil.which("restic") or "/usr/bin/restic"
KINDS = ("directory", "s3", "rest")


def programs():
    if not os.path.exists(OLD):
        skip("Debian's restic is not installed")
    return OLD, peer("restic")


def restored(world, repository, program, snapshot, path, original):
    target = world.make("restored")
    repository.restic(program, "restore", snapshot, "--target", target).good()
    same(f"{target}{path}", original)


def story(world, kind):
    """Two backups by us, both by restic; restore, forget, prune and go on."""
    repository = world.repository(kind)
    volume = world.file("volume", 9_000_000, 1, zeros=3_000_000)
    other = world.file("other", 3_000_000, 2)
    repository.tool("init").good()
    repository.tool("init").bad("ALREADY_EXISTS")
    first = repository.tool("put", "/volumes/data", volume, "32K",
                            env={"REPOTOOL_PACK": "1000000"}).good().out.strip()
    copy = world.dir / "first"
    shutil.copy(volume, copy)
    change(volume, 3, 40)
    second = repository.tool("put", "/volumes/data", volume, "32K").good().out.strip()
    repository.sound_to(*programs())
    for program in programs():
        restored(world, repository, program, first, "/volumes/data", copy)
        restored(world, repository, program, second, "/volumes/data", volume)
        repository.restic(program, "backup", "--host", "h", other).good()
    mine = world.dir / "mine"
    for snapshot in repository.snapshots()[-2:]:
        repository.tool("get", snapshot, str(other), mine).good()
        same(mine, other)
    for program in programs():
        repository.restic(program, "forget", repository.snapshots()[0], "--prune",
                          "--max-unused", "0").good()
        repository.sound_to(*programs())
        repository.tool("put", "/volumes/data", volume, "16K").good()
    repository.tool("get", "latest", "/volumes/data", mine).good()
    same(mine, volume)
    repository.tool("forget", *repository.snapshots()[:2]).good()
    repository.tool("prune", "0").good()
    repository.sound_to(*programs())
    for program in programs():
        restored(world, repository, program, "latest", "/volumes/data", volume)


def in_a_directory_both_go_on_with_one_another(world):
    story(world, "directory")


def in_s3_both_go_on_with_one_another(world):
    story(world, "s3")


def behind_rest_server_both_go_on_with_one_another(world):
    story(world, "rest")


def one_of_several_inits_makes_it_for_restic(world):
    for kind in ("s3", "rest", "directory"):
        repository = world.repository(kind)
        made = init_at_once(repository, 4)
        require(made == 1, f"{kind}: {made} of 4 made it")
        repository.tool("put", "/v", world.file("race", 300_000, 1)).good()
        repository.sound_to(*programs())


def what_restic_made_is_opened_and_used(world):
    """init by restic, also with a second key, and what its own chunker cut."""
    volume = world.file("volume", 6_000_000, 4)
    for program in programs():
        repository = world.repository("directory")
        more = [] if program == OLD else ["--repository-version", "2"]
        repository.restic(program, "init", *more).good()
        repository.restic(program, "backup", "--tag", "t", volume).good()
        extra = world.dir / "password2"
        extra.write_text("second")
        repository.restic(program, "key", "add", "--new-password-file", extra).good()
        for password in (PASSWORD, "second"):
            out = world.dir / "out"
            repository.tool("get", "latest", str(volume), out,
                            env={"RESTIC_PASSWORD": password}).good()
            same(out, volume)
        repository.tool("list", env={"RESTIC_PASSWORD": "third"}).bad("UNAUTHENTICATED")
        repository.tool("put", "/v", volume).good()
        repository.sound_to(*programs())


def trees_are_what_restic_itself_would_write(world):
    """rewrite encodes every tree again and refuses one that differs."""
    repository = world.repository("directory")
    volume = world.file("volume", 1_000_000, 5)
    repository.tool("init").good()
    for path in ("/volumes/data", "/a&b<c>/it's \"q\" \\ x", "/grün/\u2028/file", "/b\x01/\u00ad"):
        repository.tool("put", path, volume).good()
    new = programs()[1]
    done = repository.restic(new, "rewrite", "--exclude", "/nothing-is-called-so").good()
    require("no snapshots were modified" in done.out, done.out + done.err)
    for snapshot in json.loads(repository.restic(new, "snapshots", "--json").good().out):
        require(snapshot["tags"] == ["repotool", "a&b"], snapshot)
        repository.restic(new, "dump", snapshot["id"], snapshot["paths"][0]).good()
    repository.restic(new, "tag", "--add", "more").good()
    repository.sound_to(*programs())


def locks_are_respected_both_ways(world):
    repository = world.repository("directory")
    small = world.file("small", 10_000, 6)
    repository.tool("init").good()
    repository.tool("put", "/v", small).good()
    for kind, may_read in (("shared", True), ("exclusive", False)):
        held = subprocess.Popen([TOOL, "hold", kind], env=repository.env, text=True,
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        require(held.stdout.readline() == "held\n", "no lock")
        for program in programs():
            repository.restic(program, "prune").bad("locked")
            done = repository.restic(program, "backup", small)
            require((done.status == 0) == may_read, f"{kind}: {done.err}")
            repository.restic(program, "unlock").good()  # a live lock stays, and so do we
        repository.tool("prune").bad("ABORTED", "locked")
        held.stdin.close()
        require(held.wait() == 0, "the lock was lost")
    for program in programs():
        restic = subprocess.Popen([program, "backup", "--stdin"], env=repository.env,
                                  stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        # A lock that is half-written ("…-tmp-…") excludes nobody yet.
        while not any(len(name) == 64 for name in os.listdir(f"{repository.location}/locks")):
            pass
        repository.tool("prune").bad("ABORTED", "locked")
        repository.tool("put", "/v", small).good()
        restic.stdin.write(b"x")
        restic.stdin.close()
        require(restic.wait() == 0, "restic failed")
    repository.tool("prune").good()


def a_lock_of_a_dead_process_does_not_stay(world):
    repository = world.repository("directory")
    repository.tool("init").good()
    held = subprocess.Popen([TOOL, "hold", "exclusive"], env=repository.env, text=True,
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    require(held.stdout.readline() == "held\n", "no lock")
    held.kill()
    held.wait()
    held.stdin.close()
    require(len(os.listdir(f"{repository.location}/locks")) == 1, "no lock was left")
    repository.tool("prune").good()
    require(not os.listdir(f"{repository.location}/locks"), "a lock was left")


def many_writers_at_a_time_lose_nothing(world):
    repository = world.repository("directory")
    files = [world.file(f"volume{i}", 2_000_000, i % 3, zeros=100_000) for i in range(6)]
    repository.tool("init").good()
    writers = [subprocess.Popen([TOOL, "put", f"/v{i}", f, "16K"],
                                env=dict(repository.env, REPOTOOL_PACK="300000"),
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
               for i, f in enumerate(files)]
    writers += [subprocess.Popen([program, "backup", files[0]], env=repository.env,
                                 stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
                for program in programs()]
    for writer in writers:
        writer.communicate()
        require(writer.returncode == 0, "a writer failed")
    require(len(repository.snapshots()) == 8, "a snapshot is missing")
    repository.tool("prune", "0").good()
    repository.sound_to(*programs())
    for program in programs():
        for i, f in enumerate(files):
            done = subprocess.run([program, "dump", "--path", f"/v{i}", "latest", f"/v{i}"],
                                  env=repository.env, stdout=subprocess.PIPE, check=True)
            require(done.stdout == f.read_bytes(), f"{program}: /v{i} differs")


def an_index_made_again_from_the_packs_is_accepted(world):
    repository = world.repository("directory")
    volume = world.file("volume", 3_000_000, 9)
    repository.tool("init").good()
    repository.tool("put", "/v", volume, "16K", env={"REPOTOOL_PACK": "400000"}).good()
    repository.restic(programs()[0], "backup", volume).good()
    for name in os.listdir(f"{repository.location}/index"):
        os.unlink(f"{repository.location}/index/{name}")
    repository.tool("check").bad("is in no index")
    repository.tool("adopt").good()
    repository.sound_to(*programs())
    for program in programs():
        repository.restic(program, "prune", "--max-unused", "0").good()
        repository.sound_to(*programs())


def a_mounted_snapshot_reads_the_same(world):
    if not os.path.exists("/dev/fuse") or not shutil.which("fusermount3", path="/bin:/usr/bin"):
        raise Broken("no FUSE on this machine")
    repository = world.repository("directory")
    volume = world.file("volume", 5_000_000, 8, zeros=2_000_000)
    repository.tool("init").good()
    repository.tool("put", "/volumes/data", volume, "48K").good()
    for program in programs():
        point = world.make("mount")
        mounted = subprocess.Popen([program, "mount", point], env=repository.env,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        try:
            while not os.path.ismount(point):
                require(mounted.poll() is None, "restic mount ended")
            same(f"{point}/snapshots/latest/volumes/data", volume)
        finally:
            subprocess.run(["umount", point], check=False)
            mounted.terminate()
            mounted.wait()


main([in_a_directory_both_go_on_with_one_another, in_s3_both_go_on_with_one_another,
      behind_rest_server_both_go_on_with_one_another, one_of_several_inits_makes_it_for_restic,
      what_restic_made_is_opened_and_used,
      trees_are_what_restic_itself_would_write, locks_are_respected_both_ways,
      a_lock_of_a_dead_process_does_not_stay, many_writers_at_a_time_lose_nothing,
      an_index_made_again_from_the_packs_is_accepted, a_mounted_snapshot_reads_the_same])
