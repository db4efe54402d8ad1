#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The data mover `cairn` in a stock Velero server on a node: Jobs move volumes to the repository of
their namespace, and back."""
import moverbed
from moverbed import NAMESPACE, wait_until

MIB = 1 << 20
SUMS = "sha256sum /dev/raw; find /files -type f | sort | xargs sha256sum"


class Story(moverbed.MoverTest):
    def test_the_story(self):
        self.application("shop", {"raw": "Block", "files": "Filesystem"})
        self.execute("shop", "dd if=/dev/urandom of=/dev/raw bs=1M seek=2 count=8 conv=fsync "
                             "2>/dev/null; dd if=/dev/urandom of=/files/a bs=1M count=4 "
                             "2>/dev/null; sync")
        monday = self.execute("shop", SUMS)
        first = self.back_up("b1", "shop")
        self.assertEqual(first["raw"]["status"]["incrementalBytes"], 8 * MIB)
        self.assertEqual(first["raw"]["status"]["progress"],
                         {"bytesDone": 64 * MIB, "totalBytes": 64 * MIB})
        self.assert_nothing_left()

        self.execute("shop", "dd if=/dev/urandom of=/dev/raw bs=4k seek=9000 count=3 conv=fsync "
                             "2>/dev/null; echo tuesday >/files/b; sync")
        tuesday = self.execute("shop", SUMS)
        second = self.back_up("b2", "shop")
        # Velero has deleted the first snapshot.
        self.assertEqual(second["raw"]["status"]["incrementalBytes"], 3 * 4096)
        self.assertEqual(second["raw"]["status"]["dataMoverResult"], {"mode": "changed"})
        self.assertLess(second["files"]["status"]["incrementalBytes"], 2 * MIB)
        said = self.velero.run("backup", "describe", "b2", "--details", "--colorized=false")
        self.assertRegex(said, r"Data Mover: +cairn")
        self.assertRegex(said, rf"Incremental data Size \(bytes\): +{3 * 4096}")
        self.assertRegex(said, rf"{64 * MIB} of {64 * MIB} complete \(Bytes\)")
        self.assert_nothing_left()
        moved = {claim: upload["status"]["snapshotID"] for backup in (first, second)
                 for claim, upload in ((f"{backup is first}{name}", backup[name])
                                       for name in backup)}
        self.assertEqual(set(self.snapshots("shop")), set(moved.values()))
        self.assertEqual(len(moved), 4)
        self.restic("shop", "check")

        status = self.velero.restore("r1", "b1", "--namespace-mappings", "shop:old")
        self.assertEqual(status["phase"], "Completed", f"{status}\n{self.everything('old')}")
        self.wait_running("old")
        self.assertEqual(self.execute("old", SUMS), monday)
        self.kube.delete("namespace", "shop", "old")
        status = self.velero.restore("r2", "b2")
        self.assertEqual(status["phase"], "Completed", f"{status}\n{self.everything('shop')}")
        self.wait_running("shop")
        self.assertEqual(self.execute("shop", SUMS), tuesday)
        volume = self.kube.get("pv", self.kube.get("-n", "shop", "pvc", "files")["spec"]
                               ["volumeName"])
        self.assertEqual(volume["spec"]["persistentVolumeReclaimPolicy"], "Delete")
        self.assert_nothing_left()

        self.velero.delete("b1")
        wait_until(lambda: len(self.snapshots("shop")) == 2, 180, "b1's data are forgotten")
        self.velero.delete("b2")
        wait_until(lambda: not self.snapshots("shop"), 180, "b2's data are forgotten")
        self.restic("shop", "check")
        self.kube.delete("namespace", "shop")
        self.assert_nothing_left()
        wait_until(lambda: not self.volumes(), 120, "no volume is left")

    def begin(self, name, space):
        """A backup that goes on; its DataUpload, once it exists."""
        self.velero.run("backup", "create", name, "--include-namespaces", space,
                        "--snapshot-move-data", "--data-mover", "cairn")
        return wait_until(lambda: next(iter(self.uploads(name).values()), None), 120,
                          "a DataUpload")

    def phase(self, name):
        return self.uploads(name)["raw"].get("status", {}).get("phase")

    def wait_end(self, name):
        wait_until(lambda: self.kube.get("-n", NAMESPACE, "backups.velero.io", name)["status"]
                   .get("phase") in ("Completed", "PartiallyFailed", "Failed"), 240, "its end")
        return self.kube.get("-n", NAMESPACE, "backups.velero.io", name)["status"]["phase"]

    def test_killed_and_canceled(self):
        self.application("kills", {"raw": "Block"})
        self.execute("kills", "dd if=/dev/urandom of=/dev/raw bs=1M count=16 conv=fsync "
                              "2>/dev/null")
        for number, phase in enumerate(("Accepted", "Prepared", "InProgress")):
            self.begin(f"k{number}", "kills")
            wait_until(lambda name=f"k{number}", phase=phase: self.phase(name) in (
                phase, "Prepared", "InProgress", "Completed"), 120, phase)
            self.restart_manager()
            self.assertEqual(self.wait_end(f"k{number}"), "Completed", self.everything("kills"))
        self.begin("pod", "kills")
        wait_until(lambda: self.phase("pod") in ("Prepared", "InProgress"), 120, "a Job")
        self.kube.kubectl("delete", "pods", "-n", NAMESPACE, "-l",
                          "cairn.csi.dev/backup=upload", "--grace-period=0", "--force")
        self.assertEqual(self.wait_end("pod"), "Completed", self.everything("kills"))
        upload = self.begin("stop", "kills")
        # Not by kubectl: on a busy machine the upload would be complete before that has started.
        self.kube.request("PATCH", f"/apis/velero.io/v2alpha1/namespaces/{NAMESPACE}/datauploads/"
                          f"{upload['metadata']['name']}", {"spec": {"cancel": True}},
                          content_type="application/merge-patch+json")
        self.assertEqual(self.wait_end("stop"), "PartiallyFailed")
        self.assertEqual(self.phase("stop"), "Canceled")
        self.assert_nothing_left()
        self.kube.delete("namespace", "kills")

    def forged(self, name, spec, backup):
        made = {"apiVersion": "velero.io/v2alpha1", "kind": "DataUpload",
                "metadata": {"name": name, "namespace": NAMESPACE, "ownerReferences": [
                    {"apiVersion": "velero.io/v1", "kind": "Backup", "controller": True,
                     "name": backup["metadata"]["name"], "uid": backup["metadata"]["uid"]}]},
                "spec": {"snapshotType": "CSI", "datamover": "cairn", "operationTimeout": "10m",
                         "backupStorageLocation": "default", **spec}}
        self.kube.apply(made)
        return self.kube.wait(lambda found: found.get("status", {}).get("phase") == "Failed",
                              "-n", NAMESPACE, "dataupload", name)

    def test_a_forged_upload_is_refused(self):
        """It points to a snapshot that imports another namespace's."""
        for space in ("victim", "thief"):
            self.application(space, {"raw": "Block"})
        self.velero.run("backup", "create", "cover", "--include-namespaces", "thief",
                        "--snapshot-volumes=false", "--snapshot-move-data", "--wait")
        cover = self.kube.get("-n", NAMESPACE, "backups.velero.io", "cover")
        self.pods.csi.snapshot("theirs", "raw", namespace="victim")
        theirs = self.kube.get("-n", "victim", "volumesnapshot", "theirs")
        content = self.kube.get("volumesnapshotcontent",
                                theirs["status"]["boundVolumeSnapshotContentName"])
        self.kube.apply([
            {"apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshotContent",
             "metadata": {"name": "import"},
             "spec": {"deletionPolicy": "Retain", "driver": content["spec"]["driver"],
                      "source": {"snapshotHandle": content["status"]["snapshotHandle"]},
                      "volumeSnapshotRef": {"name": "import", "namespace": "thief"}}},
            {"apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshot",
             "metadata": {"name": "import", "namespace": "thief",
                          "labels": {"velero.io/backup-name": "cover"}},
             "spec": {"source": {"volumeSnapshotContentName": "import"}}}])
        self.kube.wait(lambda found: found.get("status", {}).get("readyToUse"), "-n", "thief",
                       "volumesnapshot", "import")
        for name, spec in (
                ("imported", {"sourceNamespace": "thief", "sourcePVC": "raw",
                              "csiSnapshot": {"volumeSnapshot": "import", "storageClass": "cairn"}}),
                ("unlabelled", {"sourceNamespace": "victim", "sourcePVC": "raw", "csiSnapshot": {
                    "volumeSnapshot": "theirs", "storageClass": "cairn"}})):
            self.forged(name, spec, cover)
            said = self.kube.get("-n", NAMESPACE, "dataupload", name)["status"]["message"]
            self.assertIn("is not of", said)
        self.assertEqual([what for what in self.left() if what.startswith(("jobs", "pvc"))], [])
        self.assertIsNotNone(self.kube.get("-n", "victim", "volumesnapshot", "theirs"))
        self.kube.kubectl("delete", "volumesnapshot", "-n", "thief", "import")
        self.kube.kubectl("delete", "volumesnapshotcontent", "import")
        self.kube.kubectl("delete", "volumesnapshot", "-n", "victim", "theirs")
        self.kube.delete("namespace", "victim", "thief")

    def test_no_secret_is_logged(self):
        logged = self.bed.processes.log_text(moverbed.MANAGER)
        self.assertIn("serving", logged)
        self.assertNotIn("testsecret123", logged)


if __name__ == "__main__":
    moverbed.main()
