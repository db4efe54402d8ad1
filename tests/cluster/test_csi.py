#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""`cairn driver` under the controllers of Kubernetes: claims, snapshots, restores, growth."""
import json
import pathlib
import signal
import subprocess
import sys
import unittest

import cluster
from csistack import CsiStack
from processes import wait_until

cluster.peers_or_skip(*cluster.CONTROL_PLANE, *CsiStack.PROGRAMS, "snapshot-crds")
MIB = 1 << 20
GROUP = "groupsnapshot.storage.k8s.io"


def loop_files():
    """What stands behind the loop devices of the machine."""
    found = subprocess.run(["losetup", "--list", "--noheadings", "--output", "BACK-FILE"],
                           capture_output=True, text=True, check=True).stdout
    return found.splitlines()


class Story(unittest.TestCase):
    """One cluster; each test has a namespace of its own."""

    @classmethod
    def setUpClass(cls):
        cls.bed = cls.enterClassContext(cluster.Cluster(csi=True))
        cls.kube, cls.csi = cls.bed.kube, cls.bed.csi

    def setUp(self):
        self.space = self.id().rsplit(".", 1)[1].replace("_", "-")[:60].rstrip("-")
        self.kube.namespace(self.space)

    def tearDown(self):
        """No controller was refused anything: their rights are complete."""
        for name in [*CsiStack.PROGRAMS, "sidecar"]:
            if self.bed.processes.is_alive(name):
                log = self.bed.processes.log_text(name)
                self.assertNotIn("forbidden", log, f"{name} lacks a right")

    def claim(self, name, **how):
        self.csi.claim(name, namespace=self.space, **how)

    def snapshot(self, name, claim):
        self.csi.snapshot(name, claim, namespace=self.space)

    def write(self, claim, offset, data):
        with open(self.csi.volume_file(claim, self.space), "r+b") as file:
            file.seek(offset)
            file.write(data)

    def volumes(self):
        """{id: size} of the pool."""
        listed = json.loads(self.csi.cairn("volume", "list", "--output", "json"))
        return {volume["id"]: volume["size_bytes"] for volume in listed["volumes"]}

    def remove(self, kind, *names):
        self.kube.delete("-n", self.space, kind, *names)

    def test_claim_snapshot_restore_and_removal(self):
        self.claim("data")
        self.write("data", 5 * MIB, b"first" * 1000)
        self.snapshot("monday", "data")
        self.write("data", 9 * MIB, b"second" * 1000)
        self.snapshot("tuesday", "data")
        self.claim("restored", source="monday")
        restored = self.csi.volume_file("restored", self.space).read_bytes()
        self.assertEqual(restored[5 * MIB:5 * MIB + 5000], b"first" * 1000)
        self.assertFalse(any(restored[9 * MIB:10 * MIB]))
        ids = {self.csi.volume_id(name, self.space) for name in ("data", "restored")}
        self.assertLessEqual(ids, set(self.volumes()))
        self.remove("pvc", "restored")
        self.remove("volumesnapshot", "monday", "tuesday")
        self.remove("pvc", "data")
        wait_until(lambda: not ids & set(self.volumes()), 180, "the volumes are gone")
        self.kube.wait(lambda found: not [
            item for item in found["items"]
            if item["spec"]["volumeSnapshotRef"]["namespace"] == self.space],
            "volumesnapshotcontent")
        self.kube.wait(lambda found: not [
            item for item in found["items"]
            if item["spec"]["claimRef"]["namespace"] == self.space], "pv")

    def test_growth(self):
        self.claim("grows")
        self.kube.kubectl("patch", "-n", self.space, "pvc", "grows", "-p", json.dumps(
            {"spec": {"resources": {"requests": {"storage": "100Mi"}}}}))
        volume = self.csi.volume_id("grows", self.space)
        wait_until(lambda: self.volumes()[volume] == 100 * MIB, 180, "the volume has grown")
        # What is left to do needs a node, and the claim says so.
        self.kube.wait(lambda claim: claim["status"]["capacity"]["storage"] == "100Mi" or
                       "FileSystemResizePending" in json.dumps(claim["status"]),
                       "-n", self.space, "pvc", "grows")

    def test_a_group_is_cut_as_one(self):
        for name in ("left", "right"):
            self.claim(name)
            self.kube.kubectl("label", "-n", self.space, "pvc", name, "group=both")
        self.kube.apply({"apiVersion": f"{GROUP}/v1", "kind": "VolumeGroupSnapshot",
                         "metadata": {"name": "both", "namespace": self.space},
                         "spec": {"volumeGroupSnapshotClassName": "cairn",
                                  "source": {"selector": {"matchLabels": {"group": "both"}}}}})
        self.kube.wait(lambda made: made.get("status", {}).get("readyToUse"),
                       "-n", self.space, "volumegroupsnapshot", "both")
        found = self.kube.wait(
            lambda found: len(found["items"]) == 2 and all(
                item.get("status", {}).get("readyToUse") for item in found["items"]),
            "-n", self.space, "volumesnapshots")
        self.assertEqual({item["status"]["volumeGroupSnapshotName"] for item in found["items"]},
                         {"both"})
        self.remove("volumegroupsnapshot", "both")
        self.kube.wait(lambda found: not found["items"], "-n", self.space, "volumesnapshots")

    def test_a_client_lists_what_changed(self):
        """The sidecar and the client have the rights that deploy/ gives, and no others."""
        self.claim("listed")
        self.write("listed", 0, b"a" * 8192)
        self.snapshot("one", "listed")
        self.write("listed", 40 * MIB, b"b" * 4096)
        self.snapshot("two", "listed")
        self.csi.start_sidecar()
        config = self.csi.make_client(self.space, "reader")

        def blocks(*words):
            done = subprocess.run([self.bed.cairn, "list", "--kubeconfig", config,
                                   "-n", self.space, "-o", "json", *words], capture_output=True,
                                  text=True, check=False, timeout=60)
            self.assertEqual(done.returncode, 0, done.stderr)
            return [(block.get("byte_offset", 0), block["size_bytes"])
                    for message in json.loads(done.stdout)
                    for block in message["block_metadata"]]
        self.assertEqual(blocks("-s", "two"), [(0, 8192), (40 * MIB, 4096)])
        self.assertEqual(blocks("-s", "two", "-p", "one"), [(40 * MIB, 4096)])

    def test_the_driver_is_killed_meanwhile(self):
        self.bed.processes.kill("driver")
        self.claim("patient", wait=False)
        self.bed.processes.restart("driver")
        # The controllers end when they lose the driver; a kubelet would start them again.
        for name in ("csi-provisioner", "csi-resizer", "csi-snapshotter"):
            self.bed.processes.restart(name)
        self.kube.wait(lambda claim: claim["status"]["phase"] == "Bound",
                       "-n", self.space, "pvc", "patient")


class Leftovers(unittest.TestCase):
    def test_nothing_is_left_of_a_cluster_in_use(self):
        with cluster.Cluster(csi=True) as bed:
            bed.csi.claim("data")
            bed.csi.snapshot("kept", "data")
            device = bed.csi.cairn("volume", "attach", bed.csi.volume_id("data")).strip()
            self.assertTrue(pathlib.Path(device).is_block_device())
            directory = str(bed.directory)
            self.assertTrue(any(directory in file for file in loop_files()))
        self.assertFalse(bed.directory.exists())
        self.assertEqual(cluster.mounts_below(bed.directory), [])
        self.assertEqual([file for file in loop_files() if directory in file], [])


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    unittest.main()
