#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Backups by clocks that are wrong, or are set while one is made: none is lost, and
it is said."""
import glob
import os
import signal
import sys

from backupcli import BackupTest, digest
from cairncli import ABORTED, BLOCK, main

FAKETIME = glob.glob("/usr/lib/*/faketime/libfaketime.so.1")
AHEAD, BEHIND = "+400d", "-3000d"


def clock(when):
    """The environment of a program whose time of day is wrong."""
    return {"LD_PRELOAD": FAKETIME[0], "FAKETIME": when, "DONT_FAKE_MONOTONIC": "1"}


def remarks(events):
    return [e["text"] for e in events if e["event"] == "remark"]


class Clock(BackupTest):
    def setUp(self):
        super().setUp()
        self.init()
        self.make_volume()
        self.want = {}
        self.made = {}

    def cut_and_back_up(self, name, when=None):
        """The events of a backup of a new snapshot, both made at a time."""
        env = clock(when) if when else None
        self.write(len(self.want) * 3 * BLOCK, os.urandom(2 * BLOCK))
        self.cairn("snapshot", "create", f"data@{name}", env=env)
        self.want[name] = digest(self.path("snapshot", f"data@{name}"))
        events = self.events("create", f"data@{name}", env=env)
        self.made[name] = events[-1]
        return events

    def names(self):
        return {b["snapshot"] for b in self.backups()}

    def latest(self):
        return self.json("backup", "describe", "latest")["snapshot"]

    def all_are_whole(self):
        for made in self.backups():
            self.assertEqual(self.restored(made["id"]), self.want[made["snapshot"]])
        self.backup("verify")

    def test_a_backup_of_a_time_to_come(self):
        self.cut_and_back_up("s1")
        self.assertEqual(remarks(self.cut_and_back_up("s2", AHEAD)), [])
        events = self.cut_and_back_up("s3")
        self.assertRegex(" ".join(remarks(events)), "1 backup .* dated in the future")
        self.assertEqual((events[-1]["mode"], events[-1]["parent"]),
                         ("changed", self.made["s2"]["id"]), "lineage counts, not time")
        self.assertEqual(self.latest(), "s3")
        events = self.events("forget", "--keep-last", "1", "--prune")
        self.assertRegex(" ".join(remarks(events)), "1 backup is kept and not counted")
        self.assertEqual(self.names(), {"s2", "s3"}, "the newest is not lost to it")
        self.all_are_whole()

    def test_a_clock_that_fell_back(self):
        for name in ("s1", "s2"):
            self.cut_and_back_up(name)
        events = self.cut_and_back_up("s3", BEHIND)
        self.assertRegex(" ".join(remarks(events)), "2 backups .* dated in the future")
        self.assertEqual((events[-1]["mode"], events[-1]["parent"]),
                         ("changed", self.made["s2"]["id"]))
        self.assertEqual(self.latest(), "s3")
        self.backup("forget", "--keep-last", "1", "--prune", env=clock(BEHIND))
        self.assertEqual(self.names(), {"s1", "s2", "s3"}, "a wrong clock deletes nothing")
        self.backup("forget", "--keep-last", "1", "--prune")
        self.assertEqual(self.names(), {"s2", "s3"}, "it is older than its parent: kept")
        self.cut_and_back_up("s4")
        self.assertEqual((self.made["s4"]["parent"], self.latest()),
                         (self.made["s3"]["id"], "s4"))
        self.all_are_whole()

    def test_a_clock_before_all_time(self):
        self.cut_and_back_up("s1", "1970-01-01 00:00:30")
        self.cut_and_back_up("s2")
        self.assertEqual(self.made["s2"]["parent"], self.made["s1"]["id"])
        self.assertTrue(self.backups()[0]["time"].startswith("1970-01-01T"))
        self.all_are_whole()

    def test_a_clock_that_is_set_while_a_lock_is_held(self):
        """A backup that is mounted holds a lock. Whoever sees the new time sees one that
        was renewed since."""
        if os.geteuid() != 0 or not os.path.exists("/dev/fuse"):
            self.skipTest("needs root and FUSE")
        self.cut_and_back_up("s1")
        self.cut_and_back_up("s2")
        at, now = self.scratch / "mnt", self.scratch / "now"
        at.mkdir()
        now.write_text("+0\n")
        env = {"LD_PRELOAD": FAKETIME[0], "DONT_FAKE_MONOTONIC": "1",
               "FAKETIME_TIMESTAMP_FILE": str(now), "FAKETIME_NO_CACHE": "1"}
        process = self.start("mount", at, env=env)
        try:
            self.wait_for(lambda: os.path.ismount(at))
            for when in ("+3h", "-3h"):
                before = self.files("locks")
                now.write_text(f"{when}\n")
                self.wait_for(lambda: self.files("locks") and self.files("locks") != before)
                done = self.backup("forget", "--keep-last", "1", "--prune", "--lock-wait", "1s",
                                   code=ABORTED, env=clock(when))
                self.assertIn("locked", done.stderr)
            self.assertEqual(digest(at / "data@s1" / "volume.img"), self.want["s1"])
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=300)
        self.assertEqual(self.files("locks"), [])
        self.all_are_whole()


if __name__ == "__main__":
    if not FAKETIME:
        print("libfaketime is not installed")
        sys.exit(77)
    main()
