#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Restores that are killed at each call that changes a volume's data, and taken up again.

After a kill the volume is absent, whole, or marked: a marked one is neither attached nor
snapshotted, and the same restore finishes it without a flag.
"""
import json
import os
import pathlib
import signal
import struct
import sys

from backupcli import BackupTest, digest
from cairncli import EXISTS, MIB, NOT_FOUND, OK, PRECONDITION, main

SHIM = os.environ.get("CAIRN_SHIM")
SIZE = 4 * MIB


class Resume(BackupTest):
    def setUp(self):
        super().setUp()
        self.init()
        self.make_volume(size=SIZE)
        self.write(0, os.urandom(2 * MIB))
        self.write(3 * MIB, os.urandom(MIB // 2))
        self.want = self.snapshot("data@s1")
        self.first = self.create("data@s1")["id"]

    def shim(self, **settings):
        counter = self.scratch / "count"
        counter.unlink(missing_ok=True)
        return {"LD_PRELOAD": SHIM, "CAIRN_SHIM_COUNT": str(counter),
                "CAIRN_SHIM_DIRS": str(self.pool / "volumes"),
                **{key: str(value) for key, value in settings.items()}}

    def calls(self):
        return struct.unpack("=Q", pathlib.Path(self.scratch / "count").read_bytes()[:8])[0]

    def info(self, volume):
        done = self.cairn("volume", "info", volume, "-o", "json", code=None)
        if done.returncode == NOT_FOUND:
            return None
        self.assertEqual(done.returncode, OK, done.stderr)
        return json.loads(done.stdout)

    def restore(self, volume, *args, code=OK, env=None):
        return self.backup("restore", self.first, "--to", volume, "--threads", "1", *args,
                           code=code, env=env)

    def check_marked(self, volume):
        """Nothing takes it for whole, and other restores still need their flags."""
        self.assertIn("unfinished restore",
                      self.cairn("volume", "attach", volume, code=PRECONDITION).stderr)
        self.assertIn("unfinished restore",
                      self.cairn("snapshot", "create", f"{volume}@x", code=PRECONDITION).stderr)
        self.cairn("volume", "create", "clone", "--from", volume, code=PRECONDITION)

    def kill_everywhere(self, volume, prepare, args):
        prepare()
        self.restore(volume, *args, env=self.shim(CAIRN_SHIM_KILL_AT=10 ** 9))
        marked = 0
        calls = self.calls()
        for n in range(1, calls + 1):
            prepare()
            self.restore(volume, *args, code=None, env=self.shim(CAIRN_SHIM_KILL_AT=n))
            info = self.info(volume)
            if info and info["restoring"]:
                marked += 1
                self.assertEqual(info["restoring"], self.first)
                self.check_marked(volume)
                self.restore(volume)
            elif info and digest(self.path("volume", volume)) != self.want:
                self.assertTrue(args, f"killed at call {n}: half a volume looks whole")
                self.restore(volume, code=EXISTS)
                self.restore(volume, *args)
            elif not info:
                self.restore(volume)
            self.assertIsNone(self.info(volume)["restoring"])
            self.assertEqual(digest(self.path("volume", volume)), self.want)
        self.assertGreater(marked, 2, "no kill came in the middle")

    def test_to_a_new_volume(self):
        def prepare():
            if self.info("new"):
                self.cairn("volume", "delete", "new")
        self.kill_everywhere("new", prepare, ())

    def test_over_the_volume(self):
        def prepare():
            self.write(0, os.urandom(MIB))
            self.write(3 * MIB, bytes(MIB))
        self.kill_everywhere("data", prepare, ("--overwrite",))

    def test_over_a_file(self):
        """Killed anywhere, it is the old file, the new one, or says that it is neither."""
        target = self.scratch / "image" / "old"
        target.parent.mkdir()
        old = os.urandom(3 * MIB)
        env = {"CAIRN_SHIM_DIRS": str(target.parent)}

        def restore(*args, **shim):
            return self.restore(target, *args, code=None, env={**self.shim(**shim), **env})

        target.write_bytes(old)
        self.assertEqual(restore("--overwrite", CAIRN_SHIM_KILL_AT=10 ** 9).returncode, OK)
        self.assertEqual(digest(target), self.want)
        marked = 0
        for n in range(1, self.calls() + 1):
            target.write_bytes(old)
            restore("--overwrite", CAIRN_SHIM_KILL_AT=n)
            content = target.read_bytes()
            if content.startswith(b"cairn: unfinished restore of backup " + self.first.encode()):
                marked += 1
                self.restore(target)
            elif content == old:
                self.restore(target, code=EXISTS)
                continue
            self.assertEqual(digest(target), self.want, f"killed at call {n}")
        self.assertGreater(marked, 2, "no kill came in the middle")
        self.assertEqual([p.name for p in target.parent.iterdir()], ["old"])

    def test_a_new_file_is_taken_up_and_other_files_are_left_alone(self):
        target = self.scratch / "image" / "new"
        target.parent.mkdir()
        theirs = target.parent / "new.partial"
        theirs.write_bytes(b"theirs")
        env = {**self.shim(CAIRN_SHIM_KILL_AT=10 ** 9), "CAIRN_SHIM_DIRS": str(target.parent)}
        self.restore(target, env=env)
        calls = self.calls()
        target.unlink()
        env.update(self.shim(CAIRN_SHIM_KILL_AT=calls - 2), CAIRN_SHIM_DIRS=str(target.parent))
        self.restore(target, code=-signal.SIGKILL, env=env)
        self.assertFalse(target.exists())
        done = self.events("restore", self.first, "--to", target)[-1]
        self.assertGreater(done["bytes_kept"], MIB)
        self.assertEqual(digest(target), self.want)
        self.assertEqual(theirs.read_bytes(), b"theirs")
        self.assertEqual(sorted(p.name for p in target.parent.iterdir()), ["new", "new.partial"])

    def test_what_was_written_is_not_fetched_again(self):
        self.restore("new", env=self.shim(CAIRN_SHIM_KILL_AT=10 ** 9))
        self.cairn("volume", "delete", "new")
        self.restore("new", code=-signal.SIGKILL,
                     env=self.shim(CAIRN_SHIM_KILL_AT=self.calls()))
        self.assertEqual(self.info("new")["restoring"], self.first)
        done = self.events("restore", self.first, "--to", "new", "--verify")[-1]
        self.assertGreater(done["bytes_kept"], MIB)
        self.assertEqual(digest(self.path("volume", "new")), self.want)

    def test_another_backup_over_an_unfinished_one_is_whole(self):
        self.write(MIB, os.urandom(MIB))
        want = self.snapshot("data@s2")
        second = self.create("data@s2")["id"]
        self.restore("new", env=self.shim(CAIRN_SHIM_KILL_AT=10 ** 9))
        self.cairn("volume", "delete", "new")
        self.restore("new", code=-signal.SIGKILL,
                     env=self.shim(CAIRN_SHIM_KILL_AT=self.calls()))
        self.backup("restore", second, "--to", "new", code=EXISTS)
        self.backup("restore", second, "--to", "new", "--overwrite", code=PRECONDITION)
        self.backup("restore", second, "--to", "new", "--overwrite", "--onto-other-volume")
        self.assertEqual(digest(self.path("volume", "new")), want)
        self.assertIsNone(self.info("new")["restoring"])

    def test_a_base_is_not_believed_on_an_unfinished_restore(self):
        """The volume held the base until the first restore began."""
        self.write(0, os.urandom(2 * MIB))
        base = self.snapshot("data@s2") and self.create("data@s2")["id"]
        self.write(MIB, os.urandom(MIB // 2))
        want = self.snapshot("data@s3")
        third = self.create("data@s3")["id"]
        self.backup("restore", base, "--to", "data", "--overwrite")
        self.restore("data", "--overwrite", env=self.shim(CAIRN_SHIM_KILL_AT=10 ** 9))
        self.backup("restore", base, "--to", "data", "--overwrite")
        self.restore("data", "--overwrite", code=-signal.SIGKILL,
                     env=self.shim(CAIRN_SHIM_KILL_AT=self.calls()))
        self.assertEqual(self.info("data")["restoring"], self.first)
        self.backup("restore", third, "--to", "data", "--overwrite", "--base", base)
        self.assertEqual(digest(self.path("volume", "data")), want)


if __name__ == "__main__":
    if not SHIM:
        print("CAIRN_SHIM is not set")
        sys.exit(77)
    main()
