# SPDX-License-Identifier: Apache-2.0
"""`cairn-velero-plugin` in a stock Velero server: CSI snapshots in backups, their restore and
their deletion. docs/velero.md says which sentence of the design each test is for."""
import json

import csiproxy
import velerobed

MIB = 1 << 20
BACKUP_LABEL, SNAPSHOT_LABEL = "velero.io/backup-name", "velero.io/volume-snapshot-name"


class WithoutCsiFeature(velerobed.VeleroTest):
    """Velero's own CSI actions are off: ours act."""

    FLAGS = ("--garbage-collection-frequency", "2s")

    def of_kind(self, items, kind):
        return [item for path, item in items.items() if path.startswith(kind + "/")]

    def test_plugins_are_listed(self):
        found = self.velero.run("plugin", "get")
        for name, kind in (("csi-pvc", "BackupItemActionV2"), ("csi-vs", "BackupItemActionV2"),
                           ("csi-vsc", "BackupItemActionV2"), ("csi-pvc", "RestoreItemActionV2"),
                           ("csi-vs", "RestoreItemActionV2"), ("csi-vsc", "RestoreItemActionV2"),
                           ("csi-pv", "RestoreItemActionV2"), ("csi-vsc", "DeleteItemAction"),
                           ("csi-pvc", "ItemBlockAction")):
            self.assertRegex(found, rf"cairn\.csi\.dev/{name} +{kind}")

    def check_backup(self, name, namespace):
        """What the seed says is in the tarball and in the cluster."""
        items = self.velero.items(name)
        (claim,) = self.of_kind(items, "persistentvolumeclaims")
        snapshot = claim["metadata"]["labels"][SNAPSHOT_LABEL]
        self.assertEqual(claim["metadata"]["labels"][BACKUP_LABEL], name)
        stored = items[f"volumesnapshots.snapshot.storage.k8s.io/namespaces/{namespace}/"
                       f"{snapshot}.json"]
        content = stored["status"]["boundVolumeSnapshotContentName"]
        stored = items[f"volumesnapshotcontents.snapshot.storage.k8s.io/cluster/{content}.json"]
        self.assertEqual(stored["metadata"]["labels"][BACKUP_LABEL], name)
        self.assertTrue(stored["status"]["snapshotHandle"])
        self.assertIn("volumesnapshotclasses.snapshot.storage.k8s.io/cluster/cairn.json", items)
        live = self.kube.get("-n", namespace, "volumesnapshot", snapshot)
        self.assertEqual(live["metadata"]["labels"][BACKUP_LABEL], name)
        self.assertNotIn("ownerReferences", live["metadata"])
        live = self.kube.get("volumesnapshotcontent", content)
        self.assertEqual(live["spec"]["deletionPolicy"], "Retain")
        return stored["status"]["snapshotHandle"]

    def check_list(self, name, handle):
        """csi-snapshots.json.gz beside Velero's files, which Velero does not mind."""
        self.assertFalse(self.velero.path(name, "csi-snapshots.json.gz").exists())
        self.velero.start_manager()
        velerobed.wait_until(lambda: self.velero.path(name, "csi-snapshots.json.gz").exists(), 60,
                             "the list is written")
        self.velero.processes.stop("manager")
        (entry,) = json.loads(self.velero.file(name, "csi-snapshots.json.gz"))
        self.assertEqual(entry["spec"]["source"]["persistentVolumeClaimName"], "data")
        self.assertEqual(entry["metadata"]["annotations"]["velero.io/csi-volumesnapshot-handle"],
                         handle)

    def test_backup_restore_and_deletion(self):
        self.kube.namespace("shop")
        self.csi.claim("data", namespace="shop")
        self.write("data", "shop", b"monday" * 1000)
        before = set(self.storage_snapshots())

        status = self.velero.backup("b1", "--include-namespaces", "shop")
        self.assertEqual(status["phase"], "Completed", self.velero.log("b1"))
        self.assertEqual((status.get("warnings", 0), status.get("errors", 0)), (0, 0))
        handle = self.check_backup("b1", "shop")
        self.assertEqual(set(self.storage_snapshots()) - before, {handle})
        self.assertIn("snapshot taken", self.velero.log("b1"))
        self.check_list("b1", handle)

        self.write("data", "shop", b"tuesday" * 1000)
        status = self.velero.restore("r1", "b1", "--namespace-mappings", "shop:copy")
        self.assertEqual(status["phase"], "Completed", status)
        self.wait_bound("data", "copy")
        self.assertEqual(self.read("data", "copy", 6000), b"monday" * 1000)
        restored = self.kube.get("-n", "copy", "pvc", "data")
        self.assertEqual(restored["spec"]["dataSource"]["kind"], "VolumeSnapshot")

        # The namespace goes, the backup stays.
        self.kube.delete("namespace", "shop")
        self.assertIn(handle, self.storage_snapshots())
        status = self.velero.restore("r2", "b1")
        self.assertEqual(status["phase"], "Completed", status)
        self.wait_bound("data", "shop")
        self.assertEqual(self.read("data", "shop", 6000), b"monday" * 1000)

        self.velero.delete("b1")
        self.assertFalse(self.velero.path("b1", "").exists())
        self.assertEqual(set(self.storage_snapshots()) & {handle}, set())
        left = self.kube.get("volumesnapshotcontent")["items"]
        self.assertEqual([item["metadata"]["name"] for item in left
                          if item["metadata"].get("labels", {}).get(BACKUP_LABEL) == "b1"], [])

    def test_a_volume_that_is_retained_is_not_restored_in_place_of_the_snapshot(self):
        self.kube.apply({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
                         "metadata": {"name": "retained"}, "provisioner": "cairn.csi.dev",
                         "reclaimPolicy": "Retain", "volumeBindingMode": "Immediate"})
        self.kube.namespace("kept")
        self.csi.claim("data", namespace="kept", storage_class="retained")
        volume = self.kube.get("-n", "kept", "pvc", "data")["spec"]["volumeName"]
        self.write("data", "kept", b"monday" * 1000)
        self.velero.backup("k1", "--include-namespaces", "kept")
        self.write("data", "kept", b"tuesday" * 1000)
        self.kube.delete("namespace", "kept")
        self.kube.delete("pv", volume)  # the storage's volume stays
        status = self.velero.restore("k1", "k1")
        self.assertEqual(status["phase"], "Completed", status)
        self.wait_bound("data", "kept")
        self.assertEqual(self.read("data", "kept", 6000), b"monday" * 1000)
        self.assertIsNone(self.kube.get("pv", volume))

    def test_no_snapshots_where_none_are_wanted(self):
        self.kube.namespace("quiet")
        self.csi.claim("data", namespace="quiet")
        before = self.storage_snapshots()
        policy = {"apiVersion": "v1", "kind": "ConfigMap",
                  "metadata": {"name": "skip", "namespace": velerobed.NAMESPACE},
                  "data": {"p.yaml": json.dumps({"version": "v1", "volumePolicies": [
                      {"conditions": {"csi": {}}, "action": {"type": "skip"}}]})}}
        self.kube.apply(policy)
        for name, words in (("q1", ["--snapshot-volumes=false"]),
                            ("q2", ["--resource-policies-configmap", "skip"])):
            status = self.velero.backup(name, "--include-namespaces", "quiet", *words)
            self.assertEqual(status["phase"], "Completed", self.velero.log(name))
            (claim,) = self.of_kind(self.velero.items(name), "persistentvolumeclaims")
            self.assertNotIn(SNAPSHOT_LABEL, claim["metadata"].get("labels", {}))
        pod = {"apiVersion": "v1", "kind": "Pod",
               "metadata": {"name": "user", "namespace": "quiet",
                            "annotations": {"backup.velero.io/backup-volumes": "v"}},
               "spec": {"containers": [{"name": "c", "image": "none"}], "volumes": [
                   {"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]}}
        self.kube.apply(pod)
        self.velero.backup("q3", "--include-namespaces", "quiet",
                           "--include-resources", "persistentvolumeclaims")
        self.assertEqual(self.storage_snapshots(), before)

    def test_a_backup_with_a_long_name_is_found_again_and_deleted(self):
        name = "a-name-of-more-than-sixty-three-characters-which-no-label-takes-as-it-is"
        self.kube.namespace("long")
        self.csi.claim("data", namespace="long")
        before = set(self.storage_snapshots())
        status = self.velero.backup(name, "--include-namespaces", "long")
        self.assertEqual(status["phase"], "Completed", self.velero.log(name))
        self.assertEqual(len(set(self.storage_snapshots()) - before), 1)
        status = self.velero.restore("l1", name, "--namespace-mappings", "long:longer")
        self.assertEqual(status["phase"], "Completed", status)
        self.wait_bound("data", "longer")
        self.velero.delete(name)
        self.assertEqual(set(self.storage_snapshots()), before)

    def test_a_backup_that_expires_leaves_nothing(self):
        self.kube.namespace("short")
        self.csi.claim("data", namespace="short")
        before = self.storage_snapshots()
        self.velero.run("backup", "create", "short", "--include-namespaces", "short", "--ttl", "30s",
                        "--wait")
        self.assertIn("snapshot taken", self.velero.log("short"))
        self.kube.wait_gone("-n", velerobed.NAMESPACE, "backups.velero.io", "short", seconds=180)
        velerobed.wait_until(lambda: self.storage_snapshots() == before, 60,
                             "the storage snapshot is gone")
        self.assertEqual(self.kube.get("-n", "short", "volumesnapshots")["items"], [])
        self.assertFalse(self.velero.path("short", "").exists())

    def test_restore_where_the_storage_snapshot_is_gone_and_the_driver_lists_snapshots(self):
        """The controllers see that it is missing: readyToUse of both objects is false."""
        self.kube.namespace("lost")
        self.csi.claim("data", namespace="lost")
        before = set(self.storage_snapshots())
        self.velero.backup("g1", "--include-namespaces", "lost")
        (handle,) = set(self.storage_snapshots()) - before
        (entry,) = [entry for entry in json.loads(
            self.csi.cairn("snapshot", "list", "-o", "json"))["snapshots"]
                    if entry["id"] == handle]
        self.csi.cairn("snapshot", "delete", f"{entry['volume']}@{entry['name']}")
        self.velero.restore("g1", "g1", "--namespace-mappings", "lost:lost2")

        def state():
            (found,) = self.kube.get("-n", "lost2", "volumesnapshots")["items"]
            content = self.kube.get("volumesnapshotcontent",
                                    found["spec"]["source"]["volumeSnapshotContentName"])
            return [item.get("status", {}).get("readyToUse") for item in (found, content)]
        velerobed.wait_until(lambda: state() == [False, False], 180, "both are not ready")
        claim = self.kube.get("-n", "lost2", "pvc", "data")
        self.assertEqual(claim["status"]["phase"], "Pending")
        self.kube.delete("-n", "lost2", "pvc", "data")
        self.velero.delete("g1")

    def test_a_failing_driver_fails_the_item_and_leaves_nothing(self):
        self.kube.namespace("broken")
        self.csi.claim("data", namespace="broken")
        self.bed.processes.stop("csi-snapshotter")
        try:
            status = self.velero.backup("f1", "--include-namespaces", "broken",
                                        "--csi-snapshot-timeout", "2s")
        finally:
            self.bed.processes.start("csi-snapshotter",
                                     *self.bed.processes.commands["csi-snapshotter"])
        self.assertEqual(status["phase"], "PartiallyFailed")
        self.assertEqual(status["errors"], 1, self.velero.log("f1"))
        velerobed.wait_until(
            lambda: not self.kube.get("-n", "broken", "volumesnapshots")["items"], 60,
            "the snapshot is gone")


class DriverWithoutListSnapshots(velerobed.VeleroTest):
    """The snapshotter sees the driver through a proxy that hides the capability."""

    def test_restore_where_the_storage_snapshot_is_gone_and_the_driver_does_not_list_snapshots(self):
        """Nobody can see that it is missing: readyToUse of both objects is true, and the claim waits."""
        self.kube.namespace("lost")
        self.csi.claim("data", namespace="lost")
        self.velero.backup("g2", "--include-namespaces", "lost")
        (entry,) = json.loads(self.csi.cairn("snapshot", "list", "-o", "json"))["snapshots"]
        self.csi.cairn("snapshot", "delete", f"{entry['volume']}@{entry['name']}")
        hidden = csiproxy.Proxy(self.csi.socket, self.bed.directory / "hidden.sock")
        self.addCleanup(hidden.close)
        command, environment = self.bed.processes.commands["csi-snapshotter"]
        self.bed.processes.stop("csi-snapshotter")
        self.bed.processes.start("csi-snapshotter", [
            word.replace(str(self.csi.socket), str(hidden.socket)) for word in command], environment)
        self.velero.restore("g2", "g2", "--namespace-mappings", "lost:lost2")

        def state():
            (found,) = self.kube.get("-n", "lost2", "volumesnapshots")["items"]
            content = self.kube.get("volumesnapshotcontent",
                                    found["spec"]["source"]["volumeSnapshotContentName"])
            return [item.get("status", {}).get("readyToUse") for item in (found, content)]
        velerobed.wait_until(lambda: state() == [True, True], 120, "both are ready")
        self.assertEqual(self.kube.get("-n", "lost2", "pvc", "data")["status"]["phase"], "Pending")
        self.kube.delete("-n", "lost2", "pvc", "data")
        self.velero.delete("g2")


class InTheOrderOfTheDesign(velerobed.VeleroTest):
    ORDER = ("namespaces", "storageclasses", "customresourcedefinitions",
             "volumesnapshotclasses.snapshot.storage.k8s.io",
             "volumesnapshotcontents.snapshot.storage.k8s.io",
             "volumesnapshots.snapshot.storage.k8s.io", "persistentvolumes",
             "persistentvolumeclaims", "secrets", "configmaps", "serviceaccounts", "limitranges",
             "pods", "replicasets.apps")
    FLAGS = ("--restore-resource-priorities", ",".join(ORDER))

    def test_a_restore_in_the_order_of_the_design(self):
        self.kube.namespace("order")
        self.csi.claim("data", namespace="order")
        self.write("data", "order", b"monday" * 1000)
        self.velero.backup("o1", "--include-namespaces", "order")
        self.kube.delete("namespace", "order")
        status = self.velero.restore("o1", "o1")
        self.assertEqual(status["phase"], "Completed", status)
        self.wait_bound("data", "order")
        self.assertEqual(self.read("data", "order", 6000), b"monday" * 1000)
        self.velero.delete("o1")


class WithCsiFeature(velerobed.VeleroTest):
    """Velero's own CSI actions are on: ours act where a volume policy says so."""

    FLAGS = ("--features=EnableCSI",)

    def test_never_two_snapshots_of_one_volume(self):
        self.kube.namespace("shop")
        self.csi.claim("data", namespace="shop")
        self.kube.apply({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "custom", "namespace": velerobed.NAMESPACE},
            "data": {"p.yaml": json.dumps({"version": "v1", "volumePolicies": [
                {"conditions": {"csi": {"driver": "cairn.csi.dev"}},
                 "action": {"type": "custom"}}]})}})
        for name, words, ours in (("b1", [], False),
                                  ("b2", ["--resource-policies-configmap", "custom"], True)):
            before = set(self.storage_snapshots())
            status = self.velero.backup(name, "--include-namespaces", "shop", *words)
            self.assertEqual(status["phase"], "Completed", self.velero.log(name))
            self.assertEqual(len(set(self.storage_snapshots()) - before), 1)
            self.assertEqual("snapshot taken" in self.velero.log(name), ours)
            restored = self.velero.restore(f"r-{name}", name, "--namespace-mappings",
                                           f"shop:{name}")
            self.assertEqual(restored["phase"], "Completed", restored)
            self.wait_bound("data", name)
            self.velero.delete(name)
            velerobed.wait_until(lambda: set(self.storage_snapshots()) == before, 60,
                                 "the storage snapshot is gone")


if __name__ == "__main__":
    velerobed.main()
