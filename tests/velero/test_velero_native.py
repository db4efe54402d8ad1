# SPDX-License-Identifier: Apache-2.0
"""The volume snapshotter, its progress objects and `cairn manager --velero` with a stock Velero
server, which is also the older reader of the files that the manager writes."""
import gzip
import json

import velerobed
from velerobed import NAMESPACE, wait_until

MONDAY, TUESDAY = b"monday" * 1000, b"tuesday" * 1000


class Native(velerobed.VeleroTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.velero.progress_kinds()
        cls.velero.start_manager()

    def objects(self, kind):
        return self.kube.get("-n", NAMESPACE, kind)["items"]

    def left_in_velero(self):
        """What a restore must not leave in Velero's namespace and in the cluster."""
        return [item["metadata"]["name"] for kind in ("pvc", "volumesnapshot")
                for item in self.kube.get("-n", NAMESPACE, kind)["items"]] + [
            item["metadata"]["name"] for item in self.kube.get("pv")["items"]
            if "cairn.csi.dev/velero" in item["metadata"].get("labels", {})]

    def volumes_file(self, backup):
        return json.loads(self.velero.file(backup, f"{backup}-volumesnapshots.json.gz") or "null")

    def test_backup_restore_and_deletion_with_progress_objects(self):
        self.kube.namespace("shop")
        self.csi.claim("data", namespace="shop")
        self.write("data", "shop", MONDAY)
        before = set(self.storage_snapshots())
        status = self.velero.backup("n1", "--include-namespaces", "shop")
        self.assertEqual(status["phase"], "Completed", self.velero.log("n1"))
        self.assertEqual((status.get("warnings", 0), status.get("errors", 0),
                          status["volumeSnapshotsCompleted"]), (0, 0, 1))
        (handle,) = set(self.storage_snapshots()) - before  # never two

        volume = self.kube.get("-n", "shop", "pvc", "data")["spec"]["volumeName"]
        (progress,) = self.objects("volumepluginbackups")
        self.assertEqual(progress["spec"]["persistentVolumeName"], volume)
        self.assertEqual(progress["spec"]["location"], "cairn")
        self.assertEqual(progress["metadata"]["labels"]["velero.io/pv-name"], volume)
        self.assertEqual(progress["status"]["phase"], "Completed")
        self.assertIn(handle, progress["status"]["snapshotID"])
        sizes = progress["status"]["progress"]
        self.assertEqual(sizes["BytesDone"], sizes["TotalBytes"])
        self.assertGreater(sizes["TotalBytes"], 0)
        shown = self.kube.kubectl("-n", NAMESPACE, "get", "volumepluginbackups")
        self.assertRegex(shown, r"PHASE +BACKUP +VOLUME +STARTED +BYTES DONE +TOTAL BYTES")

        # The file becomes the newer one, and a stock Velero reads it.
        wait_until(lambda: "metadata" in self.volumes_file("n1")[0], 180, "progress is kept")
        (entry,) = self.volumes_file("n1")
        self.assertEqual(entry["metadata"]["name"], progress["metadata"]["name"])
        self.assertEqual(entry["status"]["providerSnapshotID"], progress["status"]["snapshotID"])
        self.assertIn(progress["status"]["snapshotID"],
                      self.velero.run("backup", "describe", "n1", "--details",
                                      "--colorized=false"))

        self.write("data", "shop", TUESDAY)
        status = self.velero.restore("r1", "n1", "--namespace-mappings", "shop:copy")
        self.assertEqual(status["phase"], "Completed", status)
        self.wait_bound("data", "copy")
        self.assertEqual(self.read("data", "copy", 6000), MONDAY)
        (restored,) = self.objects("volumepluginrestores")
        self.assertEqual(restored["status"]["phase"], "Completed")
        self.assertEqual(restored["metadata"]["labels"]["velero.io/restore-name"], "r1")
        wait_until(lambda: not self.left_in_velero(), 180, "nothing of the restore is left")
        self.assertIn(handle, self.storage_snapshots())

        # The namespace is lost, with the VolumeSnapshot; the backup is not.
        self.kube.delete("namespace", "shop")
        status = self.velero.restore("r2", "n1")
        self.assertEqual(status["phase"], "Completed", status)
        self.wait_bound("data", "shop")
        self.assertEqual(self.read("data", "shop", 6000), MONDAY)

        # VolumePluginRestores go with their Restores.
        self.velero.run("restore", "delete", "r1", "--confirm")
        wait_until(lambda: [item["metadata"]["labels"]["velero.io/restore-name"] for item in
                            self.objects("volumepluginrestores")] == ["r2"], 120, "r1's is gone")

        # As on another cluster with the same bucket: the object is made from the file.
        self.kube.kubectl("-n", NAMESPACE, "delete", "volumepluginbackups", "--all")
        self.velero.processes.stop("manager")
        self.velero.start_manager()
        wait_until(lambda: self.objects("volumepluginbackups"), 180, "it is created again")
        self.assertEqual(self.objects("volumepluginbackups")[0]["status"], progress["status"])

        self.velero.delete("n1")
        self.assertNotIn(handle, self.storage_snapshots())
        self.assertEqual(self.objects("volumepluginbackups"), [])
        self.assertEqual([item for item in self.kube.get("volumesnapshotcontent")["items"]
                          if item["metadata"].get("labels", {}).get("velero.io/backup-name")
                          == "n1"], [])
        self.assertFalse(self.velero.path("n1", "").exists())

    def test_older_velero_older_file(self):
        """And a backup from before the manager, which it does not change."""
        self.velero.processes.stop("manager")
        try:
            self.kube.namespace("older")
            self.csi.claim("data", namespace="older")
            self.write("data", "older", MONDAY)
            self.velero.backup("o1", "--include-namespaces", "older")
            (entry,) = self.volumes_file("o1")
            self.assertEqual(sorted(entry), ["spec", "status"])
            self.kube.kubectl("-n", NAMESPACE, "delete", "volumepluginbackups", "--all")
        finally:
            self.velero.start_manager()
        status = self.velero.restore("o1", "o1", "--namespace-mappings", "older:older2")
        self.assertEqual(status["phase"], "Completed", status)
        self.wait_bound("data", "older2")
        self.assertEqual(self.read("data", "older2", 6000), MONDAY)
        self.assertEqual(self.volumes_file("o1"), [entry])
        self.velero.delete("o1")

    def test_the_older_velero_reads_the_newer_file_without_the_cluster_s_objects(self):
        """Older Velero, newer file, as on a cluster without the CRDs of progress objects."""
        self.kube.namespace("newer")
        self.csi.claim("data", namespace="newer")
        self.write("data", "newer", MONDAY)
        self.velero.backup("w1", "--include-namespaces", "newer")
        wait_until(lambda: "metadata" in self.volumes_file("w1")[0], 180, "progress is kept")
        path = self.velero.path("w1", "w1-volumesnapshots.json.gz")
        self.assertTrue(json.loads(gzip.decompress(path.read_bytes()))[0]["kind"])
        self.velero.processes.stop("manager")
        try:
            status = self.velero.restore("w1", "w1", "--namespace-mappings", "newer:newer2")
            self.assertEqual(status["phase"], "Completed", status)
            self.wait_bound("data", "newer2")
            self.assertEqual(self.read("data", "newer2", 6000), MONDAY)
        finally:
            self.velero.start_manager()
        self.velero.delete("w1")


if __name__ == "__main__":
    velerobed.main()
