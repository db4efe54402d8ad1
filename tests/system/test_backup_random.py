#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Random cycles: write, snapshot, back up, kill, go on, delete, forget, restore.

Every backup that is listed restores to the bytes of its snapshot, whatever was
killed (backups, restores, prunes) and deleted on the way. --long runs for an hour, --seconds N as long as one
likes; --seed N repeats a run as far as the machine's timing lets it.
"""
import collections
import os
import random
import signal
import sys
import time

from backupcli import RESTIC, BackupTest, digest
from cairncli import BLOCK, MIB, main

SIZE = 24 * MIB
SECONDS = 15
LONG_SECONDS = 3600


class RandomCycles(BackupTest):
    seconds = SECONDS
    seed = None

    def setUp(self):
        super().setUp()
        self.seed = RandomCycles.seed or random.randrange(1 << 32)
        random.seed(self.seed)
        self.layout = random.choice(((), ("--segment-size", "64K")))
        self.truth = {}  # snapshot's name: hash of its bytes
        self.live = []
        self.n = 0
        self.count = collections.Counter()

    def scribble(self):
        for _ in range(random.choice((1, 5, 40))):
            offset = random.randrange(SIZE // BLOCK) * BLOCK
            length = random.choice((BLOCK, BLOCK, 4 * BLOCK, 50000, MIB))
            data = bytes(length) if random.random() < 0.2 else os.urandom(length)
            self.write(offset, data[:SIZE - offset])

    def cut(self):
        self.n += 1
        name = f"s{self.n}"
        self.truth[name] = self.snapshot(f"data@{name}")
        self.live.append(name)

    def kill_at_random(self, what, *args):
        """Runs something of backups for a while, and ends it by a signal."""
        process = self.start("backup", what, *args, "-q")
        time.sleep(random.random() * 1.2)
        process.send_signal(random.choice((signal.SIGKILL, signal.SIGKILL, signal.SIGTERM)))
        process.communicate(timeout=300)
        self.count[f"{what}, {'killed' if process.returncode else 'done before the kill'}"] += 1
        return process.returncode

    def back_up(self):
        snapshot = f"data@{random.choice(self.live[-3:])}"
        if random.random() < 0.4:
            self.kill_at_random("create", snapshot, *self.layout)
        made = self.create(snapshot)
        self.count[f"create, {made['mode']}"] += 1
        return made

    def check(self, backup):
        how = random.choice(("file", "file", "volume", "overwrite", "killed"))
        want = self.truth[backup["snapshot"]]
        self.count["restore"] += 1
        if how == "killed":
            target = self.scratch / "killed"
            self.kill_at_random("restore", backup["id"], "--to", target)
            if target.exists():
                self.assertEqual(digest(target), want, "a file appears when it is whole")
                target.unlink()
            how = "file"
        if how == "file":
            self.assertEqual(self.restored(backup["id"]), want)
            return
        name = "data" if how == "overwrite" else f"new{self.n}"
        self.backup("restore", backup["id"], "--to", name, "--overwrite", "--verify")
        self.cairn("snapshot", "create", "--set-wait", "none", f"{name}@check{self.n}")
        self.assertEqual(self.snapshot_digest(f"{name}@check{self.n}"), want)
        self.cairn("snapshot", "delete", f"{name}@check{self.n}")
        if how == "volume":
            self.cairn("volume", "delete", name)

    def snapshot_digest(self, name):
        return digest(self.path("snapshot", name))

    def tidy(self):
        if len(self.live) > 2 and random.random() < 0.6:
            gone = self.live.pop(random.randrange(len(self.live) - 1))
            self.cairn("snapshot", "delete", f"data@{gone}")
        if random.random() < 0.25:
            keep = ("--keep-last", random.randrange(1, 5), "--prune")
            self.count["forget and prune"] += 1
            if random.random() < 0.4:
                self.kill_at_random("forget", *keep)
            if RESTIC and random.random() < 0.5:
                self.restic("unlock")
                self.restic("forget", *keep, "--group-by", "paths")
            else:
                self.backup("forget", *keep)

    def test_every_backup_restores_to_its_snapshot(self):
        self.init()
        self.make_volume(size=SIZE)
        self.write(0, os.urandom(SIZE // 3))
        end = time.monotonic() + RandomCycles.seconds
        rounds = 0
        with self.subTest(seed=self.seed):
            while time.monotonic() < end or rounds < 2:
                self.scribble()
                self.cut()
                self.check(self.back_up())
                self.check(random.choice(self.backups()))
                self.tidy()
                rounds += 1
            for backup in self.backups():
                self.assertEqual(self.restored(backup["id"]), self.truth[backup["snapshot"]])
            self.backup("verify")
            if RESTIC:
                self.restic("unlock")
                self.restic("check", "--read-data")
        print(f"seed {self.seed}: {rounds} rounds, {len(self.backups())} backups left")
        for what, times in sorted(self.count.items()):
            print(f"{times:6} {what}")


if __name__ == "__main__":
    if "--long" in sys.argv:
        sys.argv.remove("--long")
        RandomCycles.seconds = LONG_SECONDS
    for option in ("seed", "seconds"):
        if f"--{option}" in sys.argv:
            place = sys.argv.index(f"--{option}")
            setattr(RandomCycles, option, int(sys.argv[place + 1]))
            del sys.argv[place:place + 2]
    main()
