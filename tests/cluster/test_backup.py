#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Backups of a claim's snapshots through `cairn sidecar`, with the handles, the service and the
token that Kubernetes gives. There is no node here: the device is the driver's own file of a
Block-mode claim made from the snapshot."""
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import unittest

import cluster
from csistack import CsiStack

cluster.peers_or_skip(*cluster.CONTROL_PLANE, *CsiStack.PROGRAMS, "snapshot-crds")
MIB = 1 << 20
SPACE = "shop"
BLOCK = 4096


def digest(path):
    return hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()


class Backups(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.bed = cls.enterClassContext(cluster.Cluster(csi=True))
        cls.kube, cls.csi = cls.bed.kube, cls.bed.csi
        cls.kube.namespace(SPACE)
        cls.csi.start_sidecar()
        cls.config = cls.csi.make_client(SPACE, "backup")
        cls.kube.allow("backup-contents", f"{SPACE}:backup",
                       [("snapshot.storage.k8s.io", "volumesnapshotcontents", "get")])
        cls.scratch = pathlib.Path(cls.bed.directory)
        cls.environment = {**os.environ, "CAIRN_REPOSITORY": str(cls.scratch / "repository"),
                           "RESTIC_PASSWORD": "cluster", "CAIRN_POOL": "/nowhere"}
        cls.backup("init")

    @classmethod
    def backup(cls, *args):
        done = subprocess.run([cls.bed.cairn, "backup", *map(str, args), "-o", "json"],
                              env=cls.environment, stdin=subprocess.DEVNULL, text=True,
                              capture_output=True, timeout=300)
        if done.returncode != 0:
            raise AssertionError(f"{args}: {done.returncode} {done.stdout}{done.stderr}")
        return done.stdout

    def write(self, offset, data):
        with open(self.csi.volume_file("data", SPACE), "r+b") as file:
            file.seek(offset)
            file.write(data)
            os.fsync(file.fileno())

    def back_up(self, name):
        """Cuts, makes a device of the cut, and backs that up."""
        self.csi.snapshot(name, "data", namespace=SPACE)
        self.csi.claim(f"from-{name}", source=name, namespace=SPACE)
        device = self.csi.volume_file(f"from-{name}", SPACE)
        lines = self.backup("create", "--device", device, "--namespace", SPACE,
                            "--volume-snapshot", name, "--kubeconfig", self.config)
        return json.loads(lines.splitlines()[-1]), digest(device)

    def restored(self, name):
        target = self.scratch / "restored"
        self.backup("restore", name, "--to", target, "--verify")
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
        told = json.loads(self.backup("describe", last["id"]))
        self.assertEqual(told["volume"], f"{SPACE}/data")


if __name__ == "__main__":
    sys.exit(unittest.main())
