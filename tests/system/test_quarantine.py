#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A way back from quarantine that is killed, or fails, at each of its calls.

The data are in quarantine then, or a record wants them: what a record denies is removed sooner or later.
"""
import os
import shutil
import struct
import subprocess

from cairncli import BIN, TIMEOUT, CliTest, main

SHIM = os.environ.get("CAIRN_SHIM", "faultshim.so")


class Quarantine(CliTest):
    def prepare(self):
        """The data of a deleted snapshot in quarantine."""
        self.two_snapshots()
        self.cairn("snapshot", "create", "data@s3")
        self.id = self.json("snapshot", "info", "data@s2")["id"]
        stored = self.pool / "snapshots" / self.id
        shutil.copytree(stored, self.scratch / "kept")
        self.cairn("snapshot", "delete", "data@s2")
        self.assertFalse(stored.exists())
        shutil.move(self.scratch / "kept", stored)
        self.cairn("pool", "check", "--repair")
        shutil.copytree(self.pool, self.scratch / "before")

    def restore(self, settings):
        """How many calls it made."""
        counter = self.scratch / "count"
        counter.unlink(missing_ok=True)
        shutil.rmtree(self.pool)
        shutil.copytree(self.scratch / "before", self.pool)
        env = dict(os.environ, LD_PRELOAD=SHIM, CAIRN_SHIM_COUNT=str(counter),
                   CAIRN_SHIM_DIRS=str(self.pool), **settings)
        subprocess.run([BIN, "--pool", self.pool, "pool", "quarantine", "--restore", self.id],
                       env=env, timeout=TIMEOUT, capture_output=True, check=False)
        return struct.unpack("=Q", counter.read_bytes()[:8])[0]

    def assert_safe(self, call):
        stored = self.pool / "snapshots" / self.id
        live = self.id in {item["id"] for item in self.items("snapshot")}
        self.assertTrue(stored.exists() or stored.with_name(f"{self.id}.aside").exists(), call)
        self.assertTrue(live or not stored.exists(), call)

    def try_each(self, settings):
        self.prepare()
        call, calls = 0, 0
        while calls >= call:  # fewer: it came to its end
            call += 1
            calls = self.restore({key: str(call) if value is None else value
                                  for key, value in settings.items()})
            self.assert_safe(call)
            self.cairn("pool", "quarantine", "--restore", self.id, code=None)
            self.assert_safe(call)
        self.cairn("pool", "check")
        self.assertIn("data@s2", self.out("snapshot", "list"))

    def test_killed(self):
        self.try_each({"CAIRN_SHIM_KILL_AT": None})

    def test_without_space(self):
        self.try_each({"CAIRN_SHIM_FAIL_AT": None, "CAIRN_SHIM_FAIL_ERRNO": "ENOSPC"})


if __name__ == "__main__":
    main()
