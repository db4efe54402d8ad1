#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Backups come back: to files, volumes and devices, mounted, and from what restic wrote."""
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import threading
import time

from backupcli import PASSWORD, RESTIC, BackupTest, TwoBackups, digest
from cairncli import (CAN_MOUNT, BLOCK, DATA_LOSS, EXISTS, INVALID, MIB, OK, PRECONDITION, main)

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "repo"))
from fakes3 import WAIT, FakeS3, Handler  # noqa: E402


class LateLook(FakeS3):
    """A prune and a restore whose first look misses the prune's lock by a hair. The prune is
    held behind its own lock until the restore steps back, and the restore's second look until
    `begun` is true."""

    def __init__(self, begun):
        super().__init__()
        self.begun, self.began = begun, False
        self.looks, self.who = 0, None
        self.pruning, self.stepped_back = threading.Event(), threading.Event()
        self.RequestHandlerClass = LateLookHandler

    def wait_until_begun(self):
        end = time.monotonic() + WAIT
        while not self.began and time.monotonic() < end:
            self.began = self.begun()
            time.sleep(0.02)


class LateLookHandler(Handler):
    def listing(self, query):
        server, prefix = self.server, query["prefix"][0]
        if server.who == "prune" and prefix.endswith("/index/"):
            server.pruning.set()
            server.stepped_back.wait(WAIT)
        if server.who == "restore" and (prefix.endswith("/locks/") or "start-after" in query):
            server.looks += 1
            if server.looks == 1:
                return super().listing(query, without="/locks/")
            if server.looks == 2:
                server.wait_until_begun()
        return super().listing(query)

    def do_DELETE(self):
        super().do_DELETE()
        if self.server.who == "restore" and "/locks/" in self.path:
            self.server.stepped_back.set()


class InS3(BackupTest):
    """What a backup asks a store for, and in how many requests."""

    def setUp(self):
        super().setUp()
        self.server = FakeS3()
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)
        self.use("repository")

    def use(self, prefix):
        self.repository = f"s3:http://127.0.0.1:{self.server.port()}/bucket/{prefix}"

    def environment(self, **more):
        return super().environment(AWS_ACCESS_KEY_ID="k", AWS_SECRET_ACCESS_KEY="s", **more)

    def requests(self, *args):
        before = len(self.server.seen)
        made = self.create(*args)
        return made, self.server.seen[before:]

    def backups_come_back(self):
        """The last one's requests; it has changed nothing."""
        self.init()
        self.two_snapshots()
        self.create("data@s1")
        made, _ = self.requests("data@s2")
        again, seen = self.requests("data@s2")
        self.assertEqual((again["mode"], again["parent"]), ("changed", made["id"]))
        self.backup("restore", again["id"], "--to", self.scratch / "out")
        self.assertEqual(digest(self.scratch / "out"), digest(self.path("snapshot", "data@s2")))
        return seen

    def test_names_are_listed_together(self):
        seen = self.backups_come_back()
        # Names, key, config, lock, packs, names again; two packs, index, snapshot; the lock is
        # looked for and removed. So small an index is not cached: what it names is read.
        small = [s for s in seen if s.startswith("GET") and "list-type" not in s
                 and not s.endswith("/config") and "/keys/" not in s]
        self.assertEqual(len(seen) - len(small), 12, seen)

    def test_trees_are_read_in_one_request(self):
        """The root is the last tree of its pack, and those that it leads to precede it."""
        self.init()
        self.two_snapshots()
        made = self.create("data@s1")
        before = len(self.server.seen)
        self.backup("restore", made["id"], "--to", self.scratch / "out")
        self.assertEqual(digest(self.scratch / "out"), digest(self.path("snapshot", "data@s1")))
        packs = [s for s in self.server.seen[before:] if "/data/" in s]
        self.assertEqual(packs.count(packs[0]), 1, packs)

    def test_names_on_several_pages(self):
        self.server.page = 2
        self.backups_come_back()

    def test_a_bucket_with_other_files_between(self):
        self.use("")
        for i in range(30):
            self.server.objects[f"junk/{i}"] = b"x"
        self.server.page = 5
        self.backups_come_back()


class Restore(TwoBackups):
    def test_to_a_file(self):
        target = self.scratch / "out"
        self.backup("restore", self.second, "--to", target)
        self.assertEqual(digest(target), digest(self.path("snapshot", "data@s2")))
        self.assertLess(target.stat().st_blocks * 512, 5 * MIB, "holes stay holes")
        self.backup("restore", self.second, "--to", target, code=EXISTS)
        self.backup("restore", self.first, "--to", target, "--overwrite", "--verify")
        self.assertEqual(digest(target), digest(self.path("snapshot", "data@s1")))
        self.assertEqual(sorted(p.name for p in self.scratch.iterdir()
                                if "partial" in p.name), [])

    def test_only_what_differs_where_the_target_is_known(self):
        target = self.scratch / "out"
        self.backup("restore", self.first, "--to", target)
        done = self.events("restore", self.second, "--to", target, "--overwrite",
                           "--base", self.first, "--verify")[-1]
        self.assertLess(done["bytes_written"], 100 << 10)
        self.assertEqual(digest(target), digest(self.path("snapshot", "data@s2")))

    def test_a_wrong_base_is_found_by_verifying(self):
        target = self.scratch / "out"
        self.backup("restore", self.first, "--to", target)
        with open(target, "r+b") as file:
            file.seek(3 * MIB)
            file.write(os.urandom(BLOCK))
        self.backup("restore", self.second, "--to", target, "--overwrite", "--base", self.first,
                    "--verify", code=DATA_LOSS)

    def test_a_base_of_another_size_is_refused(self):
        target = self.scratch / "out"
        for size in (0, MIB):
            target.write_bytes(bytes(size))
            self.backup("restore", self.second, "--to", target, "--overwrite", "--base",
                        self.first, code=PRECONDITION)
            self.assertEqual(target.read_bytes(), bytes(size), "it is as it was")

    def test_to_a_volume(self):
        self.backup("restore", self.second, "--to", "new")
        self.assertEqual(digest(self.path("volume", "new")),
                         digest(self.path("snapshot", "data@s2")))
        self.backup("restore", self.second, "--to", "new", code=EXISTS)
        self.write(9 * BLOCK, os.urandom(3 * BLOCK))
        self.write(12 * MIB, os.urandom(BLOCK))
        done = self.events("restore", self.first, "--to", "data", "--overwrite", "--verify")[-1]
        self.assertLess(done["bytes_written"], 200 << 10, "only what differs")
        self.assertEqual(digest(self.path("volume", "data")),
                         digest(self.path("snapshot", "data@s1")))

    def second_volume(self):
        """A second volume with the newest backup of all; returns that backup's id."""
        self.cairn("volume", "create", "logs", "--size", "1M")
        with open(self.path("volume", "logs"), "r+b") as file:
            file.write(b"logs" * 1000)
        self.cairn("snapshot", "create", "--set-wait", "none", "logs@l1")
        return self.create("logs@l1")["id"]

    def test_latest_is_never_of_another_volume(self):
        logs = self.second_volume()
        before = digest(self.path("volume", "data"))
        done = self.backup("restore", "latest", "--to", "data", "--overwrite", code=INVALID)
        self.assertIn("data on", done.stderr)
        self.assertIn("logs on", done.stderr)
        for name in ("logs", logs, "logs@l1"):
            self.backup("restore", name, "--to", "data", "--overwrite", code=PRECONDITION)
        self.backup("restore", "latest", "--volume", "logs", "--to", "data", "--overwrite",
                    code=PRECONDITION)
        self.assertEqual(digest(self.path("volume", "data")), before, "nothing was written")
        for name, want in (("data", "data@s2"), ("data@s1", "data@s1"), ("logs", "logs@l1")):
            self.assertEqual(self.restored(name), digest(self.path("snapshot", want)))
        self.assertEqual(self.restored("latest", "--volume", "data"),
                         digest(self.path("snapshot", "data@s2")))

    def test_the_last_line_names_what_was_restored(self):
        self.second_volume()
        done = self.backup("restore", "data@s1", "--to", "data", "--overwrite")
        self.assertRegex(done.stdout.splitlines()[-1],
                         rf"^restored data@s1 \(backup {self.first[:8]} of .*\) to volume data$")
        event = self.events("restore", "logs", "--to", self.scratch / "out")[-1]
        self.assertEqual((event["volume"], event["snapshot"]), ("logs", "l1"))

    def test_a_volume_of_another_size_is_overwritten_only_if_that_is_said(self):
        self.cairn("volume", "expand", "data", "--size", "20M")
        self.write(18 * MIB, os.urandom(BLOCK))
        self.backup("restore", "data@s2", "--to", "data", "--overwrite", code=PRECONDITION)
        self.backup("restore", "data@s2", "--to", "data", "--overwrite", "--onto-other-volume")
        with open(self.path("volume", "data"), "rb") as file:
            content = file.read()
        with open(self.path("snapshot", "data@s2"), "rb") as file:
            self.assertEqual(content, file.read() + bytes(4 * MIB))

    def test_to_a_device(self):
        if not CAN_MOUNT:
            self.skipTest("needs root and loop devices")
        image = self.scratch / "image"
        for size, code in [(8 * MIB, 11), (16 * MIB, OK)]:
            image.write_bytes(b"\xff" * size)
            device = subprocess.check_output(["losetup", "--find", "--show", image],
                                             text=True).strip()
            try:
                self.backup("restore", self.second, "--to", device, code=EXISTS)
                self.backup("restore", self.second, "--to", device, "--overwrite", "--verify",
                            code=code)
            finally:
                subprocess.run(["losetup", "--detach", device], check=True)
        self.assertEqual(digest(image), digest(self.path("snapshot", "data@s2")))

    def test_what_restic_backed_up(self):
        if not RESTIC:
            self.skipTest("there is no restic")
        (self.scratch / "in").mkdir()
        source = self.scratch / "in" / "file"
        source.write_bytes(os.urandom(3 * MIB) + bytes(2 * MIB) + os.urandom(5))
        self.restic("backup", source)
        theirs = [b for b in self.backups() if b["volume"] is None]
        self.assertEqual(len(theirs), 1)
        self.backup("restore", theirs[0]["id"], "--to", self.scratch / "x", code=INVALID)
        self.assertEqual(self.restored(theirs[0]["id"], "--path", source), digest(source))

    def test_one_goes_on_where_restic_pruned(self):
        if not RESTIC:
            self.skipTest("there is no restic")
        self.restic("forget", self.first, "--prune", "--max-unused", "0")
        self.assertEqual(self.restored(self.second), digest(self.path("snapshot", "data@s2")))
        self.write(0, os.urandom(5 * BLOCK))
        want = self.snapshot("data@s3")
        made = self.create("data@s3")
        self.assertEqual((made["mode"], made["parent"]), ("changed", self.second))
        self.assertEqual(self.restored(made["id"]), want)
        self.restic("check", "--read-data")

    def test_a_mounted_backup_is_the_volume(self):
        if os.geteuid() != 0 or not os.path.exists("/dev/fuse"):
            self.skipTest("needs root and FUSE")
        at = self.scratch / "mnt"
        at.mkdir()
        process = self.start("mount", at)
        try:
            self.wait_for(lambda: os.path.ismount(at))
            for name, snapshot in [(self.first[:8], "data@s1"), ("data@s2", "data@s2")]:
                self.assertEqual(digest(at / name / "volume.img"),
                                 digest(self.path("snapshot", snapshot)))
            want = self.read("data@s2")
            with open(at / "data@s2" / "volume.img", "rb") as file:
                for _ in range(200):
                    offset, n = random.randrange(len(want)), random.randrange(70000)
                    self.assertEqual(os.pread(file.fileno(), n, offset), want[offset:offset + n])
            self.assertIn("snapshot_id", (at / "data@s2" / "volume.json").read_text())
            with self.assertRaises(OSError):
                open(at / "data@s2" / "volume.img", "r+b")
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=300)
        self.assertFalse(os.path.ismount(at))
        self.assertEqual(self.files("locks"), [])

    def test_a_mounted_backup_of_a_file_system_can_be_mounted(self):
        """The file is a disk: ext4 on it is mounted through a loop device, read only."""
        if not CAN_MOUNT or not os.path.exists("/dev/fuse"):
            self.skipTest("needs root, loop devices and FUSE")
        image, at, inside = (self.scratch / name for name in ("image", "mnt", "inside"))
        tree = self.scratch / "tree"
        (tree / "etc").mkdir(parents=True)
        (tree / "etc" / "motd").write_text("welcome\n")
        (tree / "blob").write_bytes(os.urandom(3 * MIB))
        subprocess.run(["mke2fs", "-q", "-t", "ext4", "-d", tree, image, "16M"], check=True, stdout=subprocess.DEVNULL,
                       env={**os.environ, "PATH": f"{os.environ['PATH']}:/sbin:/usr/sbin"})
        self.make_volume("disk")
        self.write(0, image.read_bytes(), volume="disk")
        self.snapshot("disk@s1")
        self.create("disk@s1")
        at.mkdir()
        inside.mkdir()
        process = self.start("mount", at)
        try:
            self.wait_for(lambda: os.path.ismount(at))
            subprocess.run(["mount", "-o", "loop,ro", at / "disk@s1" / "volume.img", inside],
                           check=True)
            try:
                self.assertEqual((inside / "etc" / "motd").read_text(), "welcome\n")
                self.assertEqual(digest(inside / "blob"), digest(tree / "blob"))
                with self.assertRaises(OSError):
                    (inside / "new").write_text("x")
            finally:
                subprocess.run(["umount", inside], check=True)
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=300)
        self.assertEqual(process.returncode, 0)
        self.assertFalse(os.path.ismount(at))
        self.assertEqual(self.files("locks"), [])

    def test_zeros_are_punched_where_something_was(self):
        """A file, and a device that can discard: what the backup has as zeros takes no room."""
        target = self.scratch / "out"
        counts = ("bytes_written", "bytes_zeroed", "bytes_kept")
        done = self.events("restore", self.second, "--to", target)[-1]
        self.assertEqual([done[name] for name in counts], [4 * MIB, 12 * MIB, 0])
        target.write_bytes(b"\xff" * 16 * MIB)
        done = self.events("restore", self.second, "--to", target, "--overwrite")[-1]
        self.assertEqual([done[name] for name in counts], [4 * MIB, 12 * MIB, 0])
        self.assertLess(target.stat().st_blocks * 512, 5 * MIB)
        self.assertEqual(digest(target), digest(self.path("snapshot", "data@s2")))
        if not CAN_MOUNT:
            return
        target.write_bytes(b"\xff" * 16 * MIB)
        device = subprocess.check_output(["losetup", "--find", "--show", target],
                                         text=True).strip()
        try:
            self.backup("restore", self.second, "--to", device, "--overwrite", "--verify")
        finally:
            subprocess.run(["losetup", "--detach", device], check=True)
        self.assertLess(target.stat().st_blocks * 512, 5 * MIB)
        self.assertEqual(digest(target), digest(self.path("snapshot", "data@s2")))

    def test_copies_are_whole(self):
        other = self.scratch / "other"
        self.backup("init", "-r", other)
        env = {"RESTIC_FROM_PASSWORD": PASSWORD}
        for copied in (2, 0):
            done = self.events("copy", "-r", other, "--from", self.repository, env=env)[-1]
            self.assertEqual(done["copied"], copied)
        self.repository = other
        self.assertEqual(self.restored("latest"), digest(self.path("snapshot", "data@s2")))
        self.backup("verify")
        self.write(0, os.urandom(BLOCK))
        self.snapshot("data@s3")
        self.assertEqual(self.create("data@s3")["mode"], "changed", "a copy can be built upon")


class Collision(BackupTest):
    def environment(self, **extra):
        return super().environment(**{"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b",
                                      **extra})

    def partial(self):
        return [p for p in self.scratch.iterdir() if p.name.endswith(".partial")]

    def test_a_new_file_is_filled_early_and_again_when_somebody_prunes(self):
        server = LateLook(lambda: any(p.stat().st_blocks for p in self.partial()))
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        self.repository = f"s3:http://127.0.0.1:{server.port()}/bucket/path"
        self.init()
        self.two_snapshots()
        self.create("data@s2")
        server.who = "prune"
        pruning = self.start("backup", "forget", "--keep-last", "9", "--prune",
                             stdout=subprocess.DEVNULL)
        self.assertTrue(server.pruning.wait(WAIT))
        server.who = "restore"
        target = self.scratch / "out"
        self.backup("restore", "data@s2", "--to", target, "--threads", "4", "--lock-wait", "1m")
        self.assertEqual(pruning.wait(timeout=WAIT), OK, pruning.communicate()[1])
        self.assertTrue(server.began, "it did not wait for the lock's second look")
        self.assertTrue(server.stepped_back.is_set())
        self.assertGreater(server.looks, 2, "it opened the repository again")
        self.assertEqual(digest(target), digest(self.path("snapshot", "data@s2")))
        self.assertEqual(self.partial(), [])


if __name__ == "__main__":
    main()
