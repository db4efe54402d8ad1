#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Debian's restic and the newest on what `cairn backup` writes of volumes, files and keys."""
import os
import re
import shutil
import subprocess

from backupcli import BackupTest, digest
from cairncli import MIB, TIMEOUT, main
from remote import build_peers, programs


class Restic(BackupTest):
    """Each version that is at hand, both ways."""

    def with_each(self, what):
        for program in programs():
            version = subprocess.run([program, "version"], capture_output=True, text=True,
                                     timeout=TIMEOUT).stdout.split()[1]
            with self.subTest(version):
                shutil.rmtree(self.repository, ignore_errors=True)
                self.init()
                what(lambda *args, **how: self.restic(*args, program=program, **how))

    def test_tags_keys_files_and_volumes(self):
        self.make_volume(size=16 * MIB)
        self.write(0, os.urandom(2 * MIB))
        image = self.scratch / "disk.img"
        image.write_bytes(os.urandom(MIB + 77))
        second = self.scratch / "second"
        second.write_text("second")

        def story(restic):
            self.backup("create", "data", "--tag", "first")
            self.backup("create", "data", "--tag", "second")
            self.backup("create", "--file", image, "--volume-name", "disk", "--tag", "first")
            self.assertEqual(len(re.findall(r"volume=disk", restic("snapshots", "--tag", "first"))), 1)
            restic("tag", "--add", "kept", "--tag", "second")
            self.assertEqual([b["tags"] for b in self.backups("--tag", "kept")],
                             [["second", "kept"]])
            self.backup("key", "add", "--new-password-file", second)
            restic("key", "list")
            restic("key", "add", "--new-password-file", second)
            self.assertEqual(len(self.json("backup", "key", "list")["keys"]), 3)
            restic("check", "--read-data")
            out = self.scratch / "out"
            shutil.rmtree(out, ignore_errors=True)
            restic("restore", "latest", "--tag", "first", "--path", "/disk", "--target", out)
            self.assertEqual(digest(out / "disk/volume.img"), digest(image))
            restic("forget", "--tag", "first", "--keep-last", "1", "--prune")
            restic("check", "--read-data")
            self.backup("verify")
            self.assertEqual(self.restored("disk"), digest(image))
            self.assertEqual(self.restored("data"), digest(self.path("volume", "data")))

        self.with_each(story)


if __name__ == "__main__":
    build_peers()
    main()
