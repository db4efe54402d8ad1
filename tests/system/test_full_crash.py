#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A deletion at 0 bytes free without a reserve, killed or failing at its calls.

The commit is made with blocks of the catalogue's own files (pool/catalogue/catalogue_room.h). Wherever it ends,
every other snapshot is there with its bytes, and the deletion can be repeated.

  test_full_crash.py [--all]     --all: at each call, on more filesystems
"""
import os
import shutil
import struct
import subprocess
import sys

import test_full
from cairncli import BIN, TIMEOUT, main

SHIM = os.environ.get("CAIRN_SHIM", "faultshim.so")
ALL = False
PLACES = 5  # without --all


class Copy(test_full.Copy):
    def prepare_full(self):
        self.prepare()
        self.forget_reserve()
        test_full.fill(self.disk)
        self.victim = self.json("snapshot", "info", "data@s2")["id"]
        subprocess.run(["umount", self.disk], check=True)
        shutil.copyfile(self.scratch / "image", self.scratch / "before")

    def mount_again(self):
        """The disk as it was before the first deletion."""
        if self.disk.is_mount():
            subprocess.run(["umount", self.disk], check=True)
        shutil.copyfile(self.scratch / "before", self.scratch / "image")
        subprocess.run(["mount", "-o", "loop", self.scratch / "image", self.disk], check=True)

    def delete(self, **settings):
        """How many calls it made."""
        counter = self.scratch / "count"
        counter.unlink(missing_ok=True)
        env = dict(os.environ, LD_PRELOAD=SHIM, CAIRN_SHIM_COUNT=str(counter), CAIRN_SHIM_DIRS=str(self.pool),
                   **{key: str(value) for key, value in settings.items()})
        self.done = subprocess.run([BIN, "--pool", self.pool, "snapshot", "delete", self.victim], env=env,
                                   timeout=TIMEOUT, capture_output=True, text=True, check=False)
        return struct.unpack("=Q", counter.read_bytes()[:8])[0]

    def assert_safe(self, what):
        found = {item["name"] for item in self.items("snapshot") if item["volume"] == "data"}
        self.assertLessEqual({"s0", "s1", "s3", "s4"}, found, what)
        for name in ("s0", "s1", "s3", "s4"):
            self.assertEqual(self.read(f"data@{name}"), self.truth[name], f"{what}: {name}")
        if "s2" in found:
            self.assertNotEqual(self.done.returncode, 0, what)
            self.cairn("snapshot", "delete", self.victim)
        test_full.empty(self.disk)
        self.cairn("pool", "check")
        self.assertEqual(len(self.items("snapshot")), 7, what)

    def try_calls(self, **settings):
        self.prepare_full()
        self.mount_again()
        calls = self.delete()
        self.assertEqual(self.done.returncode, 0, self.done.stderr)
        step = 1 if ALL else max(1, calls // PLACES)
        for call in range(1, calls + 1, step):
            self.mount_again()
            self.delete(**{key: call if value is None else value for key, value in settings.items()})
            self.assert_safe(f"{settings} at call {call} of {calls}")

    def test_killed(self):
        self.try_calls(CAIRN_SHIM_KILL_AT=None)

    def test_failing(self):
        self.try_calls(CAIRN_SHIM_FAIL_AT=None, CAIRN_SHIM_FAIL_ERRNO="EIO")


class Btrfs(Copy):
    backend, filesystem = "btrfs", "btrfs"


class Reflink(Copy):
    backend, filesystem = "reflink", "xfs"


for _name in list(vars(test_full.Copy.__mro__[1])):
    if _name.startswith("test_"):
        setattr(Copy, _name, None)

if __name__ == "__main__":
    if "--all" in sys.argv:
        sys.argv.remove("--all")
        ALL = True
    else:
        del Btrfs, Reflink
    main()
