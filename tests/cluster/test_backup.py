#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Backups of a claim's snapshots through `cairn sidecar`, with the handles, the service and the
token that Kubernetes gives. There is no node here: the device is the driver's own file of a
Block-mode claim made from the snapshot."""
import json
import os
import sys
import unittest

from backupbed import BLOCK, MIB, SPACE, BackupTest, digest


class Backups(BackupTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.kube.allow("backup-contents", f"{SPACE}:backup",
                       [("snapshot.storage.k8s.io", "volumesnapshotcontents", "get")])

    def back_up(self, name):
        """Cuts, makes a device of the cut, and backs that up."""
        self.csi.snapshot(name, "data", namespace=SPACE)
        self.csi.claim(f"from-{name}", source=name, namespace=SPACE)
        device = self.csi.volume_file(f"from-{name}", SPACE)
        done = self.run_cairn("create", "--device", device, "--namespace", SPACE,
                              "--volume-snapshot", name, "--kubeconfig", self.config)
        return json.loads(done.stdout.splitlines()[-1]), digest(device)

    def restored(self, name):
        target = self.scratch / "restored"
        self.run_cairn("restore", name, "--to", target, "--verify")
        found = digest(target)
        target.unlink()
        return found

    def test_full_then_incremental_also_when_the_base_is_gone(self):
        self.csi.claim("data", namespace=SPACE)
        self.write(0, os.urandom(8 * MIB))
        full, monday = self.back_up("monday")
        self.assertEqual((full["mode"], full["volume"]), ("allocated", f"{SPACE}/data"))
        self.assertLess(full["bytes_read"], 9 * MIB)
        self.write(5 * BLOCK, os.urandom(2 * BLOCK))
        more, tuesday = self.back_up("tuesday")
        self.assertEqual((more["mode"], more["parent"]), ("changed", full["id"]))
        self.assertEqual(more["bytes_changed"], 2 * BLOCK)
        self.kube.delete("-n", SPACE, "volumesnapshot", "tuesday")
        self.write(20 * MIB, os.urandom(BLOCK))
        last, wednesday = self.back_up("wednesday")
        self.assertEqual((last["mode"], last["parent"]), ("changed", more["id"]))
        for backup, want in ((full, monday), (more, tuesday), (last, wednesday)):
            self.assertEqual(self.restored(backup["id"]), want)
        told = json.loads(self.run_cairn("describe", last["id"]).stdout)
        self.assertEqual(told["volume"], f"{SPACE}/data")


if __name__ == "__main__":
    sys.exit(unittest.main())
