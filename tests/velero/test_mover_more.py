#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The data mover beside strangers and lost Jobs, and the copies of the volume snapshotter; the Velero
server is played as in test_mover_played.py."""
import json
import pathlib
import sys

from playedbed import LIMIT, MANAGER, NAMESPACE, VELERO, Played, main, wait_until

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "system"))

import veleroplugin  # pylint: disable=wrong-import-position


class Snapshotter:
    """The volume snapshotter of a plugin process, with `upload`."""

    NAME = "cairn.csi.dev/snapshotter"

    def __init__(self, test):
        self.plugin = veleroplugin.Plugin("--kubeconfig", test.kube.kubeconfig,
                                          scratch=test.bed.directory)
        self.plugin.seconds = LIMIT
        test.addCleanup(self.plugin.process.kill)
        request = veleroplugin.SNAPSHOTTER.SnapshotterInitRequest(plugin=self.NAME,
                                                                  config={"upload": "true"})
        self.plugin.channel.unary_unary(
            "/generated.VolumeSnapshotter/Init", request.SerializeToString,
            veleroplugin.SHARED.Empty.FromString)(request, timeout=LIMIT)

    def ask(self, name, **fields):
        return self.plugin.call(veleroplugin.SNAPSHOTTER, "VolumeSnapshotter", name,
                                plugin=self.NAME, **fields)


class MoverMore(Played):
    def test_a_phase_that_others_wrote_skips_no_check(self):
        """A request is taken, and checked, only by the data mover itself."""
        self.application("early", {"raw": "Block"})
        owner = self.owner("Backup", "early", {"storageLocation": "default",
                                               "snapshotMoveData": True})
        for phase in ("Accepted", "Prepared", "InProgress"):
            name = f"forged-{phase.lower()}"
            self.kube.apply({
                "apiVersion": f"{VELERO}/v2alpha1", "kind": "DataUpload",
                "metadata": {"name": name, "namespace": NAMESPACE, "ownerReferences": owner},
                "spec": {"snapshotType": "CSI", "datamover": "cairn", "operationTimeout": "10m",
                         "sourceNamespace": "early", "sourcePVC": "raw",
                         "backupStorageLocation": "default",
                         "csiSnapshot": {"volumeSnapshot": "none", "storageClass": "cairn"}},
                "status": {"phase": phase}})
            said = self.wait_phase("dataupload", name, "Failed")["message"]
            self.assertIn("there is no VolumeSnapshot 'early/none'", said)
        self.kube.delete("namespace", "early")

    def test_a_restore_that_is_pointed_elsewhere_is_refused(self):
        """The request is changed after it was checked: the volume must not reach that claim."""
        self.application("mine", {"raw": "Block"})
        backup_id = self.wait_phase("dataupload", self.upload("m1", "mine", "raw"),
                                    "Completed")["snapshotID"]
        self.assert_nothing_left()
        self.bed.processes.kill(MANAGER)
        name = self.download("m1", "mine", "mine2", "raw", backup_id, "Block")
        self.kube.namespace("thief2")
        self.kube.apply({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
                         "metadata": {"name": "raw", "namespace": "thief2"},
                         "spec": self.kube.get("-n", "mine2", "pvc", "raw")["spec"]})
        self.start_manager()
        self.wait_phase("datadownload", name, "Prepared", "InProgress")
        self.change("datadownloads", name, {"targetVolume": {"namespace": "thief2"}})
        self.assertIn("does not restore", self.wait_phase("datadownload", name,
                                                          "Failed")["message"])
        self.assert_nothing_left()
        self.kube.delete("namespace", "mine", "mine2", "thief2")
        wait_until(lambda: not self.volumes(), LIMIT, "no volume is left")

    def test_a_backup_whose_job_could_not_report_it_is_forgotten(self):
        self.application("lost", {"raw": "Block"})
        name = self.upload("l1", "lost", "raw")
        self.wait_phase("dataupload", name, "Prepared", "InProgress")
        self.bed.processes.kill(MANAGER)
        uid = self.kube.get("-n", NAMESPACE, "dataupload", name)["metadata"]["uid"]
        self.kube.wait(lambda job: job.get("status", {}).get("succeeded"), "-n", NAMESPACE, "job",
                       f"cairn-upload-{uid}", seconds=LIMIT)
        self.assertEqual(len(self.snapshots("lost")), 1)
        self.kube.run("delete", "pods", "-n", NAMESPACE, "-l", f"job-name=cairn-upload-{uid}",
                      "--grace-period=0", "--force")
        self.start_manager()
        self.assertIn("did not report", self.wait_phase("dataupload", name, "Failed")["message"])
        wait_until(lambda: not self.snapshots("lost"), LIMIT, "forgotten")
        self.assert_nothing_left()
        self.kube.delete("namespace", "lost")

    def test_snapshots_of_the_snapshotter_are_copied_and_restored_from_there(self):
        """`upload: "true"`, with the real plugin: the storage snapshot is removed behind its back."""
        self.application("copied", {"raw": "Block"})
        self.execute("copied", "dd if=/dev/urandom of=/dev/raw bs=1M count=4 conv=fsync "
                               "2>/dev/null")
        sums = self.execute("copied", "sha256sum /dev/raw")
        self.owner("Backup", "c1", {"storageLocation": "default"})
        volume = self.kube.get("-n", "copied", "pvc", "raw")["spec"]["volumeName"]
        pv = self.kube.get("pv", volume)
        snapshotter = Snapshotter(self)
        made = snapshotter.ask("CreateSnapshot", volume_id=pv["spec"]["csi"]["volumeHandle"],
                               tags={"velero.io/backup": "c1", "velero.io/pv": volume}).snapshot_id
        (backup_id,) = self.snapshots("copied")
        self.assertIn(f"_B,copied,default,{backup_id}_", made)
        wait_until(lambda: len(self.kube.get("volumesnapshotcontent")["items"]) == 1, LIMIT,
                   "the snapshot stays, the mover's objects go")
        (stored,) = json.loads(self.bed.node.cairn("snapshot", "list", "-o", "json"))["snapshots"]
        self.bed.node.cairn("snapshot", "delete", f"{stored['volume']}@{stored['name']}")

        self.owner("Restore", "c1", {"backupName": "c1"})
        self.kube.kubectl("patch", "restore", "-n", NAMESPACE, "c1", "--type=merge", "-p",
                          '{"status":{"phase":"InProgress"}}')
        handle = snapshotter.ask("CreateVolumeFromSnapshot", snapshot_id=made,
                                 volume_type="cairn").volume_id
        wanted = {**pv, "apiVersion": "v1", "kind": "PersistentVolume",
                  "metadata": {"name": "restored"}}
        wanted = json.loads(snapshotter.ask(
            "SetVolumeID", volume_id=handle,
            persistent_volume=json.dumps(wanted).encode()).persistent_volume)
        wanted.pop("status")
        self.kube.namespace("again")
        wanted["spec"]["claimRef"] = {"namespace": "again", "name": "raw"}
        wanted["spec"]["persistentVolumeReclaimPolicy"] = "Delete"
        self.kube.apply(wanted)
        self.pods.csi.claim("raw", "64Mi", "Block", namespace="again", wait=False)
        self.hold("again", {"raw": "Block"})
        self.assertEqual(self.execute("again", "sha256sum /dev/raw"), sums)
        snapshotter.ask("DeleteSnapshot", snapshot_id=made)
        wait_until(lambda: not self.snapshots("copied"), LIMIT, "the copy is forgotten")
        self.assert_nothing_left()
        self.kube.delete("namespace", "copied", "again")


if __name__ == "__main__":
    main()
