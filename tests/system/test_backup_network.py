#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Backups over a line of 100 Mbit/s with a round trip of 100 ms: tests/repo/delayline.c, since
netem is not in every kernel. What passes is counted by the line itself."""
import os
import pathlib
import signal
import sys
import tempfile

import slowline
from backupcli import BackupTest, digest
from cairncli import MIB, main

DELAYLINE = os.environ.get("CAIRN_DELAYLINE")
LOG = os.environ.get("CAIRN_LINE_LOG")
SIZE = 16 * MIB
LIMIT = 4 * MIB


class SlowLine(BackupTest):
    """Runs at the near end."""

    def setUp(self):
        super().setUp()
        self.repository = slowline.URL + self._testMethodName
        self.place = pathlib.Path(os.environ["CAIRN_LINE_PLACE"]) / self._testMethodName
        # A server may come up after us.
        self.backup("init", "--retry", "60s")

    def fill(self, size):
        self.make_volume(size=2 * size)
        self.write(0, os.urandom(size))
        self.want = self.snapshot("data@s1")

    def begun(self):
        """Lines of the log up to here are over."""
        return slowline.Log(LOG).now() + 100

    def packs(self):
        """Those that are whole: the server shows others, too, and takes them away again."""
        return [p for p in (self.place / "data").rglob("*")
                if len(p.name) == 64 and p.stat().st_size >= 4 * MIB]

    def test_what_is_killed_is_not_sent_again(self):
        size = 40 * MIB  # what was sent of less is not looked for
        self.fill(size)
        process = self.start_slowly("data@s1", "-q")
        self.wait_for(lambda: len(self.packs()) >= 2)
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=300)
        kept = sum(p.stat().st_size for p in self.packs())
        made = self.create("data@s1")
        self.assertLess(made["bytes_stored"], 1.05 * size - kept)
        process = self.start("backup", "restore", "data", "--limit-download", "8M", "--to",
                             self.scratch / "out")
        self.wait_for(lambda: sum(p.stat().st_blocks for p in self.scratch.glob("out.*")) > 4096)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=300)
        self.assertFalse((self.scratch / "out").exists())
        done = self.events("restore", "data", "--to", self.scratch / "out")[-1]
        self.assertGreater(done["bytes_kept"], MIB)
        self.assertEqual(digest(self.scratch / "out"), self.want)

    def test_limits_are_kept_evenly(self):
        self.fill(SIZE)
        since = self.begun()
        self.create("data@s1", "--limit-upload", str(LIMIT))
        log = slowline.Log(LOG)
        self.assertGreater(sum(row[slowline.TO_SERVER] for row in log.lines
                               if row[0] >= since), SIZE)
        # Half a second more than two would be one in which the line itself was held up.
        self.assertLess(log.most(slowline.TO_SERVER, 2, since), 2.5 * LIMIT)
        since = self.begun()
        target = self.scratch / "out"
        self.backup("restore", "data", "--to", target, "--limit-download", str(LIMIT))
        self.assertEqual(digest(target), self.want)
        self.assertLess(slowline.Log(LOG).most(slowline.FROM_SERVER, 2, since), 2.5 * LIMIT)


def outside():
    if os.geteuid() != 0 or not os.path.exists("/dev/net/tun"):
        return 77
    with tempfile.TemporaryDirectory(prefix="cairn-line.") as top:
        return slowline.run(DELAYLINE, 100, f"{top}/place", f"{top}/log",
                            [sys.executable, os.path.abspath(__file__)],
                            CAIRN_LINE_LOG=f"{top}/log", CAIRN_LINE_PLACE=f"{top}/place")


if __name__ == "__main__":
    if LOG:
        main()
    elif not DELAYLINE:
        print("CAIRN_DELAYLINE is not set")
        sys.exit(77)
    else:
        sys.exit(outside())
