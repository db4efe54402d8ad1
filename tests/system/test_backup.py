#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Backups: what is read and stored, who may use it, and what an interrupted one leaves."""
import contextlib
import http.server
import json
import os
import pty
import random
import signal
import subprocess
import threading
import time

from backupcli import PASSWORD, RESTIC, BackupTest, TwoBackups, digest
from cairncli import (CAN_MOUNT, BLOCK, DATA_LOSS, EXISTS, INVALID, MIB, NOT_FOUND,
                      PRECONDITION, main)

UNAUTHENTICATED = 16
INTERRUPTED = 128 + signal.SIGTERM


class Story(BackupTest):
    def test_full_then_incremental_then_restored(self):
        self.backup("init")
        self.make_volume(size=64 * MIB)
        self.write(0, os.urandom(8 * MIB))
        first = self.snapshot("data@s1")
        full = self.create("data@s1")
        self.assertEqual((full["mode"], full["parent"]), ("allocated", None))
        self.assertEqual(full["bytes_read"], 8 * MIB)
        self.write(5 * BLOCK, os.urandom(BLOCK))
        self.write(40 * MIB, os.urandom(BLOCK))
        second = self.snapshot("data@s2")
        more = self.create("data@s2")
        self.assertEqual((more["mode"], more["parent"]), ("changed", full["id"]))
        self.assertEqual(more["bytes_changed"], 2 * BLOCK)
        self.assertLessEqual(more["bytes_read"], 20 << 10, "two chunks, one of them in a hole")
        self.assertLess(more["bytes_stored"], 100 << 10)
        self.assertEqual(self.restored(full["id"]), first)
        self.assertEqual(self.restored("latest", "--verify"), second)
        listed = self.backups()
        self.assertEqual([b["snapshot"] for b in listed], ["s1", "s2"])
        self.assertEqual(listed[1]["bytes_read"], more["bytes_read"])
        self.assertEqual(listed[1]["parent"], full["id"])
        if RESTIC:
            self.restic("check", "--read-data")
            self.restic("restore", more["id"], "--target", self.scratch / "out")
            self.assertEqual(digest(self.scratch / "out/data/volume.img"), second)

    def test_the_base_snapshot_may_be_gone(self):
        self.init()
        self.two_snapshots()
        full = self.create("data@s1")
        self.cairn("snapshot", "delete", "data@s1")
        more = self.create("data@s2")
        self.assertEqual((more["mode"], more["parent"]), ("changed", full["id"]))
        self.assertEqual(self.restored("latest"), digest(self.path("snapshot", "data@s2")))

    def test_what_cannot_be_told_is_read_and_said(self):
        self.init()
        self.two_snapshots()
        full = self.create("data@s1")
        self.cairn("volume", "modify", "data", "--retention", "1ms")
        self.cairn("snapshot", "delete", "data@s1")
        self.cairn("pool", "gc")
        events = self.events("create", "data@s2")
        self.assertEqual(events[-1]["mode"], "allocated")
        self.assertEqual(events[-1]["parent"], full["id"])
        self.assertTrue([e for e in events if e["event"] == "remark" and "allocated" in e["text"]])
        self.assertLess(events[-1]["bytes_new"], 200 << 10, "cut as before: the same is not stored")
        self.assertEqual(self.restored("latest"), digest(self.path("snapshot", "data@s2")))

    def test_modes_can_be_asked_for(self):
        self.init()
        self.two_snapshots()
        self.create("data@s1")
        for mode, read in [("allocated", 4 * MIB), ("full", 16 * MIB)]:
            made = self.create("data@s2", "--mode", mode)
            self.assertEqual((made["mode"], made["bytes_read"]), (mode, read))
            self.assertEqual(self.restored(made["id"]), digest(self.path("snapshot", "data@s2")))

    def test_a_parent_that_lacks_something_is_passed_over(self):
        self.init()
        self.two_snapshots()
        self.create("data@s1")
        for index in self.files("index"):
            index.unlink()
        events = self.events("create", "data@s2")
        self.assertEqual(events[-1]["mode"], "allocated")
        self.assertTrue([e for e in events if "cannot be built upon" in e.get("text", "")])
        self.assertEqual(self.restored(events[-1]["id"]), digest(self.path("snapshot", "data@s2")))

    def test_a_clone_builds_on_its_origin(self):
        self.init()
        self.two_snapshots()
        full = self.create("data@s1")
        self.cairn("volume", "create", "clone", "--from", "data@s1")
        self.write(7 * BLOCK, os.urandom(BLOCK), volume="clone")
        want = self.snapshot("clone@c1")
        made = self.create("clone@c1")
        self.assertEqual((made["mode"], made["parent"]), ("changed", full["id"]))
        self.assertEqual(self.restored(made["id"]), want)

    def test_names_with_odd_characters(self):
        self.init()
        for name in ("a/b%c", "..", "größe \"x\" \\ & <y>"):
            self.make_volume(name, size=MIB)
            self.write(0, os.urandom(MIB // 2), volume=name)
            want = self.snapshot(f"{name}@s")
            made = self.create(f"{name}@s")
            self.assertEqual(made["volume"], name)
            self.assertEqual(self.restored(made["id"]), want)
        if RESTIC:
            self.restic("check", "--read-data")


class Care(TwoBackups):
    def test_describe_and_list(self):
        told = self.json("backup", "describe", self.second[:10])
        self.assertEqual(told["id"], self.second)
        self.assertEqual(told["bytes_changed"], 4 * BLOCK)
        self.assertIn("volume=data", told["tags"])
        self.assertIn("data@s2", self.out("backup", "list"))
        self.assertEqual(self.backups("--volume", "nobody"), [])
        self.backup("describe", "ffffffffff", code=NOT_FOUND)

    def test_forgetting(self):
        self.backup("forget", code=2)
        *named, done = self.events("forget", "--keep-last", "1", "--dry-run")
        self.assertEqual((done["forgotten"], len(self.backups())), (1, 2))
        self.assertEqual([(e["event"], e["id"], e["volume"], e["snapshot"], e["dry_run"])
                          for e in named], [("forget", self.first, "data", "s1", True)])
        before = self.stored()
        self.backup("forget", "--keep-last", "1", "--prune")
        self.assertEqual([b["id"] for b in self.backups()], [self.second])
        self.assertLessEqual(self.stored(), before)
        self.assertEqual(self.restored(self.second), digest(self.path("snapshot", "data@s2")))
        self.backup("forget", self.second[:8], "--prune")
        self.assertEqual((self.backups(), self.files()), ([], []))

    def test_every_flipped_bit_is_found(self):
        self.backup("verify")
        files = [p for kind in ("data", "index", "snapshots") for p in self.files(kind)]
        for path in files:
            whole = path.read_bytes()
            place = random.randrange(len(whole))
            flipped = bytearray(whole)
            flipped[place] ^= 1 << random.randrange(8)
            path.chmod(0o600)
            path.write_bytes(flipped)
            with self.subTest(f"{path.parent.name} {place} of {len(whole)}"):
                self.backup("verify", code=DATA_LOSS)
            path.write_bytes(whole)
        self.backup("verify")

    def test_a_missing_pack_is_found(self):
        victim = max(self.files(), key=lambda p: p.stat().st_size)
        victim.unlink()
        self.backup("verify", "--quick", code=DATA_LOSS)
        self.backup("restore", self.second, "--to", self.scratch / "x", code=DATA_LOSS)
        self.assertFalse((self.scratch / "x").exists())

    def test_passwords(self):
        none = {"RESTIC_PASSWORD": ""}
        self.backup("list", env={"RESTIC_PASSWORD": "wrong"}, code=UNAUTHENTICATED)
        self.backup("list", env=none, code=INVALID, start_new_session=True)
        file = self.scratch / "password"
        file.write_text(f"  {PASSWORD}\n")
        self.backup("list", "--password-file", file, env=none)
        self.backup("list", env={**none, "RESTIC_PASSWORD_FILE": str(file)})
        self.backup("list", "--password-command", f"cat '{file}'", env=none)
        self.backup("list", "--password-command", "false", env=none, code=PRECONDITION)
        self.backup("list", "--password-command", "cat '", env=none, code=INVALID)
        self.backup("list", "--password-file", "/nowhere", env=none, code=NOT_FOUND)

    def test_repositories_that_are_none(self):
        self.backup("list", "-r", self.scratch / "nowhere", code=NOT_FOUND)
        self.backup("init", code=EXISTS)
        self.backup("create", "data@none", code=NOT_FOUND)
        self.backup("create", "none@s1", code=NOT_FOUND)
        self.backup("list", env={"CAIRN_REPOSITORY": "", "RESTIC_REPOSITORY": ""}, code=INVALID)

    def test_metrics_are_pushed(self):
        got = []

        class Gateway(http.server.BaseHTTPRequestHandler):
            def do_PUT(self):
                got.append((self.path, self.rfile.read(int(self.headers["Content-Length"])),
                            self.command))
                self.send_response(200)
                self.end_headers()

            do_POST = do_PUT

            def log_message(self, *args):
                pass

        server = http.server.HTTPServer(("127.0.0.1", 0), Gateway)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        gateway = ("--push-gateway", f"http://127.0.0.1:{server.server_port}")
        self.create("data@s2", *gateway)
        self.backup("create", "data@s2", *gateway, env={"RESTIC_PASSWORD": "wrong"}, code=None)
        server.shutdown()
        server.server_close()
        self.assertEqual(got[0][0], "/metrics/job/cairn_backup/volume/data")
        self.assertRegex(got[0][1], rb"\ncairn_backup_size_bytes 16777216\n")
        self.assertRegex(got[0][1], rb"\ncairn_backup_last_attempt_success 1\n")
        # A failure replaces nothing that is known of the last success.
        self.assertEqual([request[::2] for request in got],
                         [("/metrics/job/cairn_backup/volume/data", "PUT"),
                          ("/metrics/job/cairn_backup/volume/data", "POST")])
        self.assertRegex(got[1][1], rb"\ncairn_backup_last_attempt_success 0\n")
        self.assertNotIn(b"last_success", got[1][1])
        done = self.backup("create", "data@s2", "--push-gateway", "http://127.0.0.1:1")
        self.assertIn("metrics were not sent", done.stderr)


    def test_restics_variables(self):
        file = self.scratch / "password"
        file.write_text(PASSWORD)
        where = {"CAIRN_REPOSITORY": "", "RESTIC_REPOSITORY": str(self.repository)}
        for password in ({"RESTIC_PASSWORD": PASSWORD}, {"RESTIC_PASSWORD_FILE": str(file)},
                         {"RESTIC_PASSWORD_COMMAND": f"cat '{file}'"}):
            done = self.backup("list", env={"RESTIC_PASSWORD": "", **where, **password})
            self.assertIn("data@s2", done.stdout)
        self.backup("list", env={"CAIRN_REPOSITORY": "/nowhere", **{"RESTIC_REPOSITORY": str(
            self.repository)}}, code=NOT_FOUND)
        for size in ("3", "129", "many"):
            self.backup("list", env={"RESTIC_PACK_SIZE": size}, code=INVALID)
        self.backup("list", env={"CAIRN_S3_STYLE": "odd"}, code=INVALID)
        self.backup("list", "--password", PASSWORD, code=2)


class Progress(BackupTest):
    """Told on a terminal as a bar, in JSON as events; what stops for a while is long
    enough to be told of."""

    def setUp(self):
        super().setUp()
        self.init()
        self.make_volume(size=32 * MIB)
        self.write(0, os.urandom(20 * MIB))
        self.snapshot("data@s1")

    def halt_in_the_middle(self, process):
        self.wait_for(self.files)
        process.send_signal(signal.SIGSTOP)
        time.sleep(0.7)
        process.send_signal(signal.SIGCONT)

    def test_a_bar_on_a_terminal(self):
        ours, theirs = pty.openpty()
        process = self.start_slowly("data@s1", stderr=theirs, stdout=subprocess.PIPE)
        os.close(theirs)
        self.halt_in_the_middle(process)
        text = b""
        with contextlib.suppress(OSError):
            while part := os.read(ours, 65536):
                text += part
        os.close(ours)
        out = process.communicate(timeout=300)[0]
        self.assertEqual(process.returncode, 0)
        self.assertRegex(text.decode(), r"\r\x1b\[K\w+ \[#*-*\] +\d+ % of 20 MiB  "
                                        r"[\d.]+ [KMG]?i?B/s  \d+:\d\d left")
        self.assertTrue(text.decode().endswith("\r\x1b[K"), "it is erased at the end")
        self.assertIn("backup ", out)

    def test_events_without_one(self):
        process = self.start_slowly("data@s1", "-o", "json", stdout=subprocess.PIPE)
        self.halt_in_the_middle(process)
        out, err = process.communicate(timeout=300)
        self.assertEqual((err, process.returncode), ("", 0))
        events = [json.loads(line) for line in out.splitlines()]
        self.assertEqual(events[-1]["event"], "summary")
        told = [e for e in events if e["event"] == "progress"]
        self.assertGreater(len(told), 0)
        self.assertLessEqual({"step", "bytes_done", "bytes_total", "bytes_per_second",
                              "seconds_remaining"}, set(told[0]))
        self.assertLessEqual(told[0]["bytes_done"], told[0]["bytes_total"])


class Interrupted(BackupTest):
    def test_what_was_sent_is_not_sent_again(self):
        self.init()
        size = 72 * MIB
        self.make_volume(size=2 * size)
        self.write(0, os.urandom(size))
        want = self.snapshot("data@s1")
        for how in (signal.SIGTERM, signal.SIGKILL):
            before = len(self.files())
            process = self.start_slowly("data@s1")
            self.wait_for(lambda: len(self.files()) >= before + 4)
            process.send_signal(how)
            process.communicate(timeout=300)
            self.assertEqual(process.returncode,
                             INTERRUPTED if how == signal.SIGTERM else -signal.SIGKILL)
            self.assertEqual(self.backups(), [])
        sent = self.stored()
        made = self.create("data@s1")
        self.assertGreater(sent, 30 * MIB)
        self.assertLess(self.stored(), size * 1.05, "nothing is there twice")
        self.assertLess(made["bytes_stored"], size * 1.05 - sent + 4 * MIB)
        self.assertEqual(self.restored(made["id"]), want)
        self.assertEqual(self.files("locks"), [])
        self.backup("verify")

    def test_two_at_a_time(self):
        self.init()
        wants = {}
        for name in ("one", "two"):
            self.make_volume(name, size=32 * MIB)
            self.write(0, os.urandom(16 * MIB), volume=name)
            wants[name] = self.snapshot(f"{name}@s")
        processes = [self.start("backup", "create", f"{name}@s", "-q") for name in wants]
        for process in processes:
            self.assertEqual((process.communicate(timeout=300)[1], process.returncode), ("", 0))
        for made in self.backups():
            self.assertEqual(self.restored(made["id"]), wants[made["volume"]])
        self.backup("verify")

    def init_on_a_small_disk(self):
        if not CAN_MOUNT:
            self.skipTest("needs root and loop devices")
        small = self.scratch / "small"
        small.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24M", "none", small], check=True)
        self.mounted.append(small)
        self.repository = small / "repository"
        self.init()
        return small

    def test_a_repair_that_needs_the_reserve_says_so(self):
        """On a full disk the new index takes the place of the reserve, of which the rest stays."""
        small = self.init_on_a_small_disk()
        self.make_volume(size=16 * MIB)
        self.write(0, os.urandom(8 * MIB))
        want = self.snapshot("data@s1")
        self.create("data@s1")
        reserve = self.repository / ".cairn-reserve"
        whole = reserve.stat().st_size
        for index in self.files("index"):
            index.unlink()
        with open(small / "ballast", "ab", buffering=0) as ballast:
            for size in (1 << 16, 1 << 12):
                with self.assertRaises(OSError):
                    while True:
                        ballast.write(os.urandom(size))
        note = "the reserve, which a prune needs on a full disk, could not be made again: "
        done = self.backup("verify", "--repair", "--quick")
        self.assertIn(note, done.stderr)
        self.assertTrue(0 < reserve.stat().st_size < whole, reserve.stat().st_size)
        # The smaller one is enough for the next, which cannot make it larger, and leaves it.
        done = self.backup("verify", "--repair", "--quick")
        self.assertIn(note, done.stderr)
        self.assertGreater(reserve.stat().st_size, whole // 2)
        (small / "ballast").unlink()
        self.assertNotIn("reserve", self.backup("forget", "--prune").stderr)
        self.assertEqual(reserve.stat().st_size, whole)
        self.assertEqual(self.restored("latest"), want)

    def test_a_full_disk_loses_no_backup(self):
        self.init_on_a_small_disk()
        self.make_volume(size=64 * MIB)
        self.write(0, os.urandom(8 * MIB))
        want = self.snapshot("data@s1")
        self.create("data@s1")
        self.write(8 * MIB, os.urandom(40 * MIB))
        self.snapshot("data@s2")
        done = self.backup("create", "data@s2", code=8)
        self.assertRegex(done.stderr, "space")
        self.assertEqual([b["snapshot"] for b in self.backups()], ["s1"])
        self.assertEqual(self.restored("latest"), want)
        self.backup("verify")


if __name__ == "__main__":
    main()
