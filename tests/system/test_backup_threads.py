#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Everything about backups that works with several threads, in one story; short, because it
is also run with a sanitizer that is slow."""
import os
import signal

from backupcli import PASSWORD, BackupTest, digest
from cairncli import MIB, main

INTERRUPTED = 128 + signal.SIGTERM
THREADS = ("--threads", "4", "--connections", "4")


class Threads(BackupTest):
    def test_a_life(self):
        self.init()
        self.make_volume(size=96 * MIB)
        self.write(0, os.urandom(40 * MIB))
        first = self.snapshot("data@s1")
        process = self.start("backup", "create", "data@s1", "-q", *THREADS)
        self.wait_for(lambda: self.files() or process.poll() is not None)
        process.send_signal(signal.SIGTERM)
        err = process.communicate(timeout=600)[1]
        self.assertIn(process.returncode, (0, INTERRUPTED), err)
        self.create("data@s1", *THREADS)
        for n in range(300):
            self.write(n * 31 * 4096 % (40 * MIB), os.urandom(4096))
        second = self.snapshot("data@s2")
        self.assertEqual(self.create("data@s2", *THREADS)["mode"], "changed")
        target = self.scratch / "out"
        for name, want, base in (("s1", first, None), ("s2", second, "s1")):
            made = {b["snapshot"]: b["id"] for b in self.backups()}
            known = ("--base", made[base], "--overwrite") if base else ()
            self.backup("restore", made[name], "--to", target, "--verify", *known, *THREADS)
            self.assertEqual(digest(target), want)
        other = self.scratch / "other"
        self.backup("init", "-r", other)
        self.backup("copy", "-r", other, "--from", self.repository, *THREADS,
                    env={"RESTIC_FROM_PASSWORD": PASSWORD})
        self.backup("verify", "-r", other, "--connections", "4")
        self.backup("forget", made["s1"], "--prune", "--connections", "4")
        self.backup("verify", "--connections", "4")
        self.assertEqual(self.restored("latest"), second)
        self.look_into(second)

    def look_into(self, want):
        if os.geteuid() != 0 or not os.path.exists("/dev/fuse"):
            return
        at = self.scratch / "mnt"
        at.mkdir()
        process = self.start("mount", at)
        try:
            self.wait_for(lambda: os.path.ismount(at) or process.poll() is not None)
            self.assertEqual(digest(at / "data@s2" / "volume.img"), want)
        finally:
            process.send_signal(signal.SIGTERM)
            err = process.communicate(timeout=600)[1]
        self.assertEqual(process.returncode, 0, err)


if __name__ == "__main__":
    main()
