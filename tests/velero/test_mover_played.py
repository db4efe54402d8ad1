#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The data mover on a node, with DataUploads and DataDownloads that the test writes as Velero's item
actions do: the Velero server is played. test_mover.py has the real one."""
from playedbed import (LIMIT, MANAGER, MIB, NAMESPACE, SECRET, SNAPSHOT, SUMS, VELERO, Played, main,
                       wait_until)


class MoverPlayed(Played):
    def test_volumes_are_moved_and_restored(self):
        claims = {"raw": "Block", "files": "Filesystem"}
        self.application("shop", claims)
        self.execute("shop", "dd if=/dev/urandom of=/dev/raw bs=1M seek=2 count=8 conv=fsync "
                             "2>/dev/null; dd if=/dev/urandom of=/files/a bs=1M count=4 "
                             "2>/dev/null; sync")
        for claim in claims:
            self.upload("b1", "shop", claim)
        first = {claim: self.wait_phase("dataupload", f"b1-{claim}", "Completed")
                 for claim in claims}
        self.assertEqual(first["raw"]["incrementalBytes"], 8 * MIB)
        self.assertEqual(first["raw"]["progress"],
                         {"bytesDone": 64 * MIB, "totalBytes": 64 * MIB})
        self.assert_nothing_left()

        self.execute("shop", "dd if=/dev/urandom of=/dev/raw bs=4k seek=9000 count=3 conv=fsync "
                             "2>/dev/null; echo tuesday >/files/b; sync")
        tuesday = self.execute("shop", SUMS)
        # The manager is killed between two steps of each.
        for claim in claims:
            self.upload("b2", "shop", claim)
            self.bed.processes.kill(MANAGER)
            self.start_manager()
        second = {claim: self.wait_phase("dataupload", f"b2-{claim}", "Completed")
                  for claim in claims}
        self.assertEqual(second["raw"]["incrementalBytes"], 3 * 4096)
        self.assertEqual(second["raw"]["dataMoverResult"], {"mode": "changed"})
        self.assertLess(second["files"]["incrementalBytes"], 2 * MIB)
        ids = {status["snapshotID"] for status in (*first.values(), *second.values())}
        self.assertEqual(self.snapshots("shop"), ids)
        self.assert_nothing_left()

        for claim, mode in claims.items():
            self.download("r1", "shop", "copy", claim, second[claim]["snapshotID"], mode)
            self.bed.processes.kill(MANAGER)
            self.start_manager()
        for claim in claims:
            self.wait_phase("datadownload", f"r1-{claim}", "Completed")
        self.hold("copy", claims)
        self.assertEqual(self.execute("copy", SUMS), tuesday)
        self.assert_nothing_left()

        for status in first.values():
            self.forget("shop", status["snapshotID"])
        wait_until(lambda: self.snapshots("shop") == {status["snapshotID"] for status
                                                      in second.values()}, LIMIT, "forgotten")
        self.assert_nothing_left()
        self.kube.delete("namespace", "shop", "copy")
        wait_until(lambda: not self.volumes(), LIMIT, "no volume is left")

    def test_a_killed_pod_begins_again_and_a_canceled_one_does_not(self):
        self.application("kills", {"raw": "Block"})
        self.execute("kills", "dd if=/dev/urandom of=/dev/raw bs=1M count=16 conv=fsync "
                              "2>/dev/null")
        name = self.upload("k1", "kills", "raw")
        self.wait_phase("dataupload", name, "Prepared", "InProgress", "Completed")
        self.kube.run("delete", "pods", "-n", NAMESPACE, "-l", "cairn.csi.dev/backup=upload",
                      "--grace-period=0", "--force")
        self.wait_phase("dataupload", name, "Completed")
        name = self.upload("k2", "kills", "raw")
        self.wait_phase("dataupload", name, "Accepted", "Prepared", "InProgress")
        uid = self.kube.get("-n", NAMESPACE, "dataupload", name)["metadata"]["uid"]
        # With its Job, what that may have stored is forgotten.
        self.kube.wait(lambda job: True, "-n", NAMESPACE, "job", f"cairn-upload-{uid}",
                       seconds=LIMIT)
        self.change("datauploads", name, {"cancel": True})
        self.wait_phase("dataupload", name, "Canceled")
        self.assert_nothing_left()
        self.kube.delete("namespace", "kills")

    def test_a_forged_upload_is_refused(self):
        """It points to a snapshot that imports another namespace's."""
        for space in ("victim", "thief"):
            self.application(space, {"raw": "Block"})
        self.pods.csi.snapshot("theirs", "raw", namespace="victim")
        theirs = self.kube.get("-n", "victim", "volumesnapshot", "theirs")
        content = self.kube.get("volumesnapshotcontent",
                                theirs["status"]["boundVolumeSnapshotContentName"])
        owner = self.owner("Backup", "cover", {"storageLocation": "default",
                                               "snapshotMoveData": True})
        self.kube.apply([
            {"apiVersion": SNAPSHOT, "kind": "VolumeSnapshotContent",
             "metadata": {"name": "import"},
             "spec": {"deletionPolicy": "Retain", "driver": content["spec"]["driver"],
                      "source": {"snapshotHandle": content["status"]["snapshotHandle"]},
                      "volumeSnapshotRef": {"name": "import", "namespace": "thief"}}},
            {"apiVersion": SNAPSHOT, "kind": "VolumeSnapshot",
             "metadata": {"name": "import", "namespace": "thief",
                          "labels": {"velero.io/backup-name": "cover"}},
             "spec": {"source": {"volumeSnapshotContentName": "import"}}}])
        self.kube.wait(lambda found: found.get("status", {}).get("readyToUse"), "-n", "thief",
                       "volumesnapshot", "import", seconds=LIMIT)
        for name, space, snapshot in (("imported", "thief", "import"),
                                      ("unlabelled", "victim", "theirs")):
            self.kube.apply({
                "apiVersion": f"{VELERO}/v2alpha1", "kind": "DataUpload",
                "metadata": {"name": name, "namespace": NAMESPACE, "ownerReferences": owner},
                "spec": {"snapshotType": "CSI", "datamover": "cairn", "operationTimeout": "10m",
                         "sourceNamespace": space, "sourcePVC": "raw",
                         "backupStorageLocation": "default",
                         "csiSnapshot": {"volumeSnapshot": snapshot, "storageClass": "cairn"}}})
            said = self.wait_phase("dataupload", name, "Failed")["message"]
            self.assertIn("is not of", said)
        self.assertIsNotNone(self.kube.get("-n", "victim", "volumesnapshot", "theirs"))
        self.assertEqual(self.kube.get("-n", NAMESPACE, "jobs")["items"], [])
        self.kube.kubectl("delete", "volumesnapshot", "-n", "thief", "import")
        self.kube.kubectl("delete", "volumesnapshotcontent", "import")
        self.kube.kubectl("delete", "volumesnapshot", "-n", "victim", "theirs")
        self.kube.delete("namespace", "victim", "thief")

    def test_without_any_one_right_something_is_refused(self):
        """After the others, which have used them."""
        self.assert_each_right_needed(["cairn-data-mover-controller", "cairn-data-mover"])

    def test_no_secret_is_logged(self):
        logged = self.bed.processes.log_text(MANAGER)
        self.assertIn("serving", logged)
        self.assertNotIn(SECRET, logged)


if __name__ == "__main__":
    main()
