#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The fault shim counts, kills and fails as its header says.

Usage: test_faultshim.py SHIM VICTIM
"""
import os
import pathlib
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

SHIM, VICTIM = (os.path.abspath(path) for path in sys.argv[1:3])


class Shim(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory(prefix="cairn-shim-")
        self.root = pathlib.Path(self.scratch.name)
        self.dir = self.root / "dir"
        self.addCleanup(self.scratch.cleanup)
        self.fresh()

    def fresh(self):
        subprocess.run(["rm", "-rf", self.dir], check=True)
        self.dir.mkdir()
        (self.dir / "seed").touch()
        (self.root / "outside").touch()
        for name in ("count", "log"):
            (self.root / name).unlink(missing_ok=True)

    def run_victim(self, mode, **settings):
        """Returns (exit status, lines printed, calls counted)."""
        self.fresh()
        env = dict(os.environ, LD_PRELOAD=SHIM, CAIRN_SHIM_COUNT=str(self.root / "count"),
                   CAIRN_SHIM_DIRS=f"/nowhere:{self.dir}", CAIRN_SHIM_LOG=str(self.root / "log"))
        env.update({f"CAIRN_SHIM_{key}": str(value) for key, value in settings.items()})
        done = subprocess.run([VICTIM, str(self.dir), mode], env=env, stdout=subprocess.PIPE,
                              text=True, timeout=60)
        count = struct.unpack("=Q", (self.root / "count").read_bytes()[:8])[0]
        return done.returncode, done.stdout.splitlines(), count

    def logged(self):
        return [line.split() for line in (self.root / "log").read_text().splitlines()]

    def test_every_call_is_counted_once(self):
        status, lines, count = self.run_victim("all")
        self.assertEqual(status, 0)
        tried = [line.split()[1] for line in lines if line != "done"]
        self.assertEqual(count, len(tried))
        self.assertEqual([int(line[0]) for line in self.logged()], list(range(1, count + 1)))
        same = {"openat": "open", "mkdirat": "mkdir", "renameat": "rename", "unlinkat": "unlink",
                "remove": "rmdir", "ioctl": "FICLONE"}
        self.assertEqual([line[2] for line in self.logged()],
                         [same.get(name, name) for name in tried])

    def test_each_call_can_fail(self):
        _, plain, count = self.run_victim("all")
        for n in range(1, count + 1):
            status, lines, _ = self.run_victim("all", FAIL_AT=n, FAIL_ERRNO="EDQUOT")
            self.assertEqual(status, 0)
            name = plain[n - 1].split()[1]
            self.assertEqual(lines[n - 1], f"failed {name} 122")
            self.assertEqual([line for line in lines if line.endswith(" 122")], [lines[n - 1]])

    def test_failing_goes_on_when_asked_to(self):
        _, lines, count = self.run_victim("all", FAIL_AT=5, FAIL_ERRNO="ENOSPC", FAIL_MODE="after")
        self.assertEqual(len([line for line in lines if line.endswith(" 28")]), count - 4)

    def test_each_call_can_be_the_last(self):
        _, plain, count = self.run_victim("all")
        for n in range(1, count + 1):
            for when, seen in (("before", n - 1), ("after", n - 1)):
                status, lines, reached = self.run_victim("all", KILL_AT=n, KILL_WHEN=when)
                self.assertEqual(status, -signal.SIGKILL)
                self.assertEqual((lines, reached), (plain[:seen], n))

    def test_before_and_after_differ_in_what_was_done(self):
        self.run_victim("all", KILL_AT=1, KILL_WHEN="before")
        self.assertFalse((self.dir / "file").exists())
        self.run_victim("all", KILL_AT=1, KILL_WHEN="after")
        self.assertTrue((self.dir / "file").exists())

    def test_children_and_their_programs_are_counted(self):
        _, _, count = self.run_victim("fork")
        self.assertEqual(count, 3)
        self.assertEqual(len({line[1] for line in self.logged()}), 3)
        status, lines, _ = self.run_victim("fork", KILL_AT=3)
        self.assertEqual(status, 0)  # only the child was killed
        self.assertNotIn("done", lines[:-1])

    def test_threads_count_without_loss(self):
        self.assertEqual(self.run_victim("threads")[2], 100)

    def test_other_directories_do_not_count(self):
        self.assertEqual(self.run_victim("outside")[2], 0)
        self.assertEqual(self.run_victim("one", DIRS=f"{self.dir}er")[2], 0)
        self.assertEqual(self.run_victim("one", DIRS=f"{self.dir}:")[2], 1)

    def test_calls_of_libraries_are_seen(self):
        try:
            import sqlite3  # noqa: F401 (only to know that it is there)
        except ImportError:
            self.skipTest("no sqlite3 module")
        program = ("import sqlite3, sys; db = sqlite3.connect(sys.argv[1]);"
                   "db.execute('create table t (x)'); db.commit()")
        env = dict(os.environ, LD_PRELOAD=SHIM, CAIRN_SHIM_COUNT=str(self.root / "count"),
                   CAIRN_SHIM_DIRS=str(self.dir), CAIRN_SHIM_LOG=str(self.root / "log"))
        subprocess.run([sys.executable, "-c", program, self.dir / "db"], env=env, check=True,
                       timeout=60)
        calls = {line[2] for line in self.logged()}
        self.assertTrue({"open", "unlink"} <= calls, calls)
        self.assertTrue(calls & {"write", "pwrite"}, calls)
        self.assertTrue(calls & {"fsync", "fdatasync"}, calls)

    def test_all_processes_can_be_killed(self):
        status, lines, _ = self.run_victim("wait", KILL_AT=1, KILL_WHOM="all")
        self.assertEqual(status, -signal.SIGKILL)
        child = next((line for line in lines if line.startswith("child ")), None)
        if child:  # it may have died before it could say so
            stat = pathlib.Path(f"/proc/{child.split()[1]}/stat")
            deadline = time.monotonic() + 60
            while stat.exists() and ") Z" not in stat.read_text():
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.01)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
