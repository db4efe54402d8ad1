# SPDX-License-Identifier: Apache-2.0
"""The volume snapshotter of `cairn-velero-plugin`, called as Velero calls it, with a real control plane,
the controllers of CSI and `cairn driver`; without a Velero server."""
import json
import os
import pathlib
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "cluster"), str(HERE.parent / "system")]

# pylint: disable=wrong-import-position
import cluster
import veleroplugin
from csistack import CsiStack
from processes import wait_until

PEERS = cluster.peers_or_skip(*cluster.CONTROL_PLANE, *CsiStack.PROGRAMS, "snapshot-crds",
                              "velero-crds")
CRDS = HERE.parents[1] / "deploy/velero/crd"
NAME = "cairn.csi.dev/snapshotter"
MONDAY, TUESDAY = b"monday" * 1000, b"tuesday" * 1000


class SnapshotterOnCsi(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        directory = pathlib.Path(tempfile.mkdtemp(prefix="cairn-velero-csi-"))
        cls.bed = cls.enterClassContext(cluster.Cluster(directory, csi=True))
        cls.kube, cls.csi = cls.bed.kube, cls.bed.csi
        cls.kube.kubectl("apply", "--server-side", "-f",
                         pathlib.Path(PEERS["velero-crds"]) / "v1/bases")
        cls.kube.kubectl("apply", "--server-side", "-k", CRDS)
        cls.kube.wait_crds()
        cls.kube.discover()
        cls.kube.namespace("velero")
        cls.kube.apply({"apiVersion": "velero.io/v1", "kind": "Backup",
                        "metadata": {"name": "b1", "namespace": "velero"}, "spec": {}})
        cls.plugin = veleroplugin.Plugin("--kubeconfig", cls.kube.kubeconfig, scratch=directory)
        cls.addClassCleanup(cls.plugin.process.kill)

    def ask(self, name, **fields):
        return self.plugin.call(veleroplugin.SNAPSHOTTER, "VolumeSnapshotter", name, plugin=NAME,
                                **fields)

    def storage_snapshots(self):
        return [entry["id"] for entry in json.loads(
            self.csi.cairn("snapshot", "list", "-o", "json"))["snapshots"]]

    def left(self):
        """Objects that a restore must not leave."""
        return [f"{kind} {item['metadata']['name']}" for kind in (
            "pvc", "volumesnapshot", "volumesnapshotcontent", "pv")
                for item in self.kube.get("-A", kind)["items"]
                if item["metadata"].get("labels", {}).get("cairn.csi.dev/velero") == "restore"]

    def test_a_volume_is_snapshotted_restored_and_its_snapshot_deleted(self):
        self.kube.namespace("shop")
        self.csi.claim("data", namespace="shop")
        path = self.csi.volume_file("data", "shop")
        with open(path, "r+b") as file:
            file.write(MONDAY)
            os.fsync(file.fileno())
        volume = self.kube.get("-n", "shop", "pvc", "data")["spec"]["volumeName"]
        pv = self.kube.get("pv", volume)
        pv.update(apiVersion="v1", kind="PersistentVolume")
        volume_id = self.ask("GetVolumeID", persistent_volume=json.dumps(pv).encode()).volume_id
        kind = self.ask("GetVolumeInfo", volume_id=volume_id).volume_type
        tags = {"velero.io/backup": "b1", "velero.io/pv": volume}
        snapshot = self.ask("CreateSnapshot", volume_id=volume_id, tags=tags).snapshot_id
        (handle,) = self.storage_snapshots()
        self.assertTrue(snapshot.endswith(handle), snapshot)
        self.assertEqual(self.ask("CreateSnapshot", volume_id=volume_id, tags=tags).snapshot_id,
                         snapshot)
        self.assertEqual(self.storage_snapshots(), [handle])
        with open(path, "r+b") as file:
            file.write(TUESDAY)

        made = self.ask("CreateVolumeFromSnapshot", snapshot_id=snapshot,
                        volume_type=kind).volume_id
        self.assertNotEqual(made, volume_id)
        pv["spec"].pop("claimRef")
        pv["metadata"] = {"name": "restored"}
        pv = json.loads(self.ask("SetVolumeID", volume_id=made, persistent_volume=json.dumps(
            pv).encode()).persistent_volume)
        self.assertEqual(pv["spec"]["csi"]["volumeHandle"], made)
        pv.pop("status")
        self.kube.apply(pv)
        self.kube.apply({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
                         "metadata": {"name": "copy", "namespace": "shop"},
                         "spec": {"volumeName": "restored", "accessModes": ["ReadWriteOnce"],
                                  "storageClassName": kind, "volumeMode": pv["spec"]["volumeMode"],
                                  "resources": {"requests": pv["spec"]["capacity"]}}})
        self.kube.wait(lambda found: found["status"].get("phase") == "Bound",
                       "-n", "shop", "pvc", "copy")
        with open(self.csi.volume_file("copy", "shop"), "rb") as file:
            self.assertEqual(file.read(len(MONDAY)), MONDAY)
        wait_until(lambda: not self.left(), 60, "nothing of the restore is left")
        self.assertEqual(self.storage_snapshots(), [handle])
        for kind, phase in (("volumepluginbackups", "Completed"),
                            ("volumepluginrestores", "Completed")):
            (item,) = self.kube.get("-n", "velero", kind)["items"]
            self.assertEqual(item["status"]["phase"], phase)

        # The namespace goes, and the VolumeSnapshot with it; the snapshot is still restored.
        self.kube.delete("namespace", "shop")
        self.assertEqual(self.storage_snapshots(), [handle])
        self.ask("DeleteSnapshot", snapshot_id=snapshot)
        self.assertEqual(self.storage_snapshots(), [])
        self.assertEqual(self.kube.get("volumesnapshotcontent")["items"], [])
        self.assertEqual(self.kube.get("-n", "velero", "volumepluginbackups")["items"], [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
