#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A process that is stopped in the middle of a commit: others say so and end."""
import os
import signal
import subprocess
import sys
import unittest

from cairncli import CliTest

UNAVAILABLE = 14

# Takes the catalogue's lock for writing, as a commit does.
HOLDER = """
import sqlite3, sys, time
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("held", flush=True)
time.sleep(3600)
"""


class StoppedWriter(CliTest):
    def setUp(self):
        super().setUp()
        self.make_volume(size=1 << 20)
        for name in ("data@s1", "data@s2"):
            self.cairn("snapshot", "create", name)
        self.holder = subprocess.Popen([sys.executable, "-c", HOLDER, self.pool / "catalogue.db"],
                                       stdout=subprocess.PIPE, text=True)
        self.addCleanup(self.release)
        self.assertEqual(self.holder.stdout.readline(), "held\n")
        os.kill(self.holder.pid, signal.SIGSTOP)

    def release(self):
        self.holder.kill()
        self.holder.wait()
        self.holder.stdout.close()

    def test_commands_end_with_a_clear_error(self):
        commands = [("volume", "create", "more", "--size", "1M"),
                    ("volume", "create", "copy", "--from", "data@s1"),
                    ("snapshot", "create", "data@s3"),
                    ("snapshot", "delete", "data@s1"),
                    ("volume", "expand", "data", "--size", "2M"),
                    ("volume", "modify", "data", "--retention", "1d")]
        # Side by side, since each waits; the pool's own lock keeps some in turn.
        children = [self.start(*command) for command in commands]
        for command, child in zip(commands, children):
            with self.subTest(command=" ".join(command)):
                _, err = child.communicate(timeout=300)
                self.assertIn(child.returncode, (UNAVAILABLE, 10), err)
                if child.returncode == UNAVAILABLE:
                    self.assertIn("locked by another process", err)
        self.assertIn(UNAVAILABLE, [child.returncode for child in children])
        self.assertEqual(len(self.items("snapshot")), 2)  # readers are not held up
        self.release()
        self.cairn("snapshot", "create", "data@s3")


if __name__ == "__main__":
    unittest.main()
