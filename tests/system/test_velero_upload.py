# SPDX-License-Identifier: Apache-2.0
"""The volume snapshotter with `upload: "true"`: snapshots are also copied to the repository, and
restored from there. The test plays the data mover; tests/velero/test_mover_more.py has the real one."""
import json
import threading
import unittest

import test_rbac
import test_velero_snapshotter as snapshotter
from csidriver import grpc
from rolesbed import SECONDS, wait_until
from test_velero_group import is_for_groups
from test_velero_snapshotter import VELERO
from veleroplugin import DRIVER, PVC, SNAPSHOTS, Code, claim

ID = "0123456789abcdef" * 4
MOVER = "/apis/velero.io/v2alpha1/namespaces/velero"
UPLOADED = f"shop,default,{ID}"


class VeleroUpload(snapshotter.Fixture):
    def prepare_kube(self):
        super().prepare_kube()
        self.fails, self.requests_seen, self.goes_on = None, [], threading.Event()
        self.goes_on.set()
        store = self.kube.store

        def with_mover(where, item, made=False):
            result = store(where, item, made)
            if made and where["plural"] in ("datauploads", "datadownloads"):
                self.requests_seen.append(result)
                threading.Thread(target=self.move, args=(where["plural"], result),
                                 daemon=True).start()
            return result
        self.kube.store = with_mover
        self.backup["spec"]["storageLocation"] = "default"
        self.kube.put(f"{VELERO}/backups", self.backup)
        self.kube.put(f"{VELERO}/restores", {
            "metadata": {"name": "r1", "namespace": "velero"}, "spec": {"backupName": "b1"},
            "status": {"phase": "InProgress"}})

    def status(self, plural, name, **status):
        self.kube.change({"group": "velero.io", "plural": plural, "ns": "velero", "name": name,
                          "sub": None}, {"status": status}, True, None)

    def move(self, plural, made):
        """What `cairn manager --velero` does."""
        name = made["metadata"]["name"]
        self.status(plural, name, phase="Accepted")
        self.status(plural, name, phase="InProgress",
                    progress={"totalBytes": 1 << 30, "bytesDone": 1 << 20})
        done = 1 << 20
        while not self.goes_on.wait(0.5):
            done += 1 << 20
            self.status(plural, name, progress={"totalBytes": 1 << 30, "bytesDone": done})
        if self.fails:
            self.status(plural, name, phase="Failed", message=self.fails)
            return
        if plural == "datadownloads":
            target = made["spec"]["targetVolume"]
            self.provision({"metadata": {"name": target["pvc"], "namespace": target["namespace"]}})
        self.status(plural, name, phase="Completed", snapshotID=ID)

    def start_uploading(self):
        plugin = self.start_plugin()
        self.ask(plugin, "Init", config={"upload": "true"})
        return plugin

    def test_the_snapshot_is_also_copied_and_stays(self):
        plugin = self.start_uploading()
        snapshot_id = self.create(plugin)
        self.assertIn(f"_F,{UPLOADED}_", snapshot_id)
        (asked,) = self.requests_seen
        spec = asked["spec"]
        self.assertEqual((spec["datamover"], spec["dataMoverConfig"], spec["sourceNamespace"],
                          spec["sourcePVC"], spec["backupStorageLocation"]),
                         ("cairn", {"keepSnapshot": "true"}, "shop", "data", "default"))
        self.assertEqual(asked["metadata"]["labels"]["velero.io/backup-uid"],
                         self.backup["metadata"]["uid"])
        self.assertEqual(asked["metadata"]["ownerReferences"][0]["kind"], "Backup")
        (snapshot,) = self.snapshots()
        self.assertEqual(spec["csiSnapshot"]["volumeSnapshot"], snapshot["metadata"]["name"])
        (progress,) = self.objects("volumepluginbackups")
        self.assertEqual(progress["status"]["phase"], "Completed")
        # A call after a crash finds both.
        self.assertEqual(self.create(plugin), snapshot_id)
        self.assertEqual(len(self.requests_seen), 1)

    def test_progress_is_updated_regularly_and_a_copy_outlives_a_killed_plugin(self):
        self.goes_on.clear()
        plugin = self.start_uploading()
        killed = []

        def call():
            try:
                self.create(plugin)
            except grpc.RpcError as error:
                killed.append(error)
        thread = threading.Thread(target=call)
        thread.start()
        seen = set()

        def progress():
            for item in self.objects("volumepluginbackups"):
                self.assertEqual(item["status"]["phase"], "InProgress")
                seen.add(item["status"]["progress"]["BytesDone"])
            return len(seen) >= 3
        wait_until(progress, SECONDS, "bytes are counted while it is copied")
        plugin.process.kill()
        thread.join(SECONDS)
        self.assertEqual(len(killed), 1)
        self.goes_on.set()
        self.assertIn(UPLOADED, self.create(self.start_uploading()))
        self.assertEqual(len(self.requests_seen), 1, "the first request is used")
        self.assertEqual(len(self.snapshots()), 1)

    def test_a_copy_that_fails_fails_the_snapshot_and_leaves_nothing(self):
        self.fails = "the bucket is full"
        plugin = self.start_uploading()
        self.assert_refused(Code.FAILED_PRECONDITION, "the bucket is full", self.create, plugin)
        self.assertEqual(self.snapshots(), [])
        self.assertEqual(self.kube.list(f"{SNAPSHOTS}/volumesnapshotcontents"), [])
        self.assertEqual(self.kube.list(f"{MOVER}/datauploads"), [])
        (progress,) = self.objects("volumepluginbackups")
        self.assertEqual(progress["status"]["phase"], "Failed")
        self.assertIn("the bucket is full", progress["status"]["message"])

    def test_the_repository_is_used_where_the_storage_snapshot_is_gone(self):
        plugin = self.start_uploading()
        snapshot_id = self.create(plugin)
        self.restore(plugin, snapshot_id)
        self.assertEqual(len(self.requests_seen), 1, "the storage's is used while it is there")
        self.absent = True
        # Another cluster knows the bucket under another name.
        self.backup["spec"]["storageLocation"] = "elsewhere"
        self.kube.put(f"{VELERO}/backups", self.backup)
        volume = self.restore(plugin, snapshot_id)
        spec = self.requests_seen[1]["spec"]
        self.assertEqual((spec["snapshotID"], spec["sourceNamespace"],
                          spec["backupStorageLocation"], spec["targetVolume"]["namespace"]),
                         (ID, "shop", "elsewhere", "velero"))
        self.assertEqual(volume, f"new-{self.volumes}")
        (kept,) = [item for item in self.kube.list("/api/v1/persistentvolumes")
                   if item["spec"].get("csi", {}).get("volumeHandle") == volume]
        self.assertEqual(kept["spec"]["persistentVolumeReclaimPolicy"], "Retain")
        self.assertEqual(self.kube.list(f"{MOVER}/datadownloads"), [])
        self.assertEqual(self.kube.list("/api/v1/namespaces/velero/persistentvolumeclaims"), [])
        self.assertEqual({item["status"]["phase"] for item
                          in self.objects("volumepluginrestores")}, {"Completed"})

    def test_progress_of_a_restore_is_updated_regularly_and_its_end_is_recorded(self):
        """Also of one that fails; the object is found by the snapshot that is restored."""
        plugin = self.start_uploading()
        snapshot_id = self.create(plugin)
        self.absent, self.fails = True, "the bucket is gone"
        self.goes_on.clear()
        thread = threading.Thread(target=lambda: self.assert_refused(
            Code.FAILED_PRECONDITION, "the bucket is gone", self.restore, plugin, snapshot_id))
        thread.start()
        seen = set()

        def progress():
            for item in self.objects("volumepluginrestores"):
                self.assertEqual(item["status"]["phase"], "InProgress")
                self.assertIsNone(item["status"].get("completionTimestamp"))
                seen.add(item["status"]["progress"]["BytesDone"])
            return len(seen) >= 3
        wait_until(progress, SECONDS, "bytes are counted while it is restored")
        self.goes_on.set()
        thread.join(SECONDS)
        (ended,) = self.objects("volumepluginrestores")
        self.assertEqual(ended["spec"]["snapshotID"], snapshot_id)
        self.assertEqual(ended["status"]["phase"], "Failed")
        self.assertIn("the bucket is gone", ended["status"]["message"])
        self.assertTrue(ended["status"]["completionTimestamp"])
        self.assertEqual(self.kube.list(f"{MOVER}/datadownloads"), [])
        self.assertEqual(self.kube.list("/api/v1/namespaces/velero/persistentvolumeclaims"), [])

    def test_deletion_asks_for_the_copy_to_be_forgotten(self):
        plugin = self.start_uploading()
        snapshot_id = self.create(plugin)
        self.backup["status"] = {"phase": "Deleting"}
        self.kube.put(f"{VELERO}/backups", self.backup)
        for _ in range(2):
            self.ask(plugin, "DeleteSnapshot", snapshot_id=snapshot_id)
            (request,) = self.kube.list("/api/v1/namespaces/velero/configmaps")
            self.assertEqual(request["data"], {
                "backupStorageLocation": "default", "sourceNamespace": "shop", "snapshotID": ID})
        self.assertEqual(self.snapshots(), [])

    def test_without_upload_nothing_is_copied(self):
        for config in ({}, {"upload": "false"}):
            plugin = self.start_uploading()
            self.ask(plugin, "Init", config=config)
            self.assertNotIn(",", self.create(plugin))
            self.assertEqual(self.requests_seen, [])

    def test_no_right_is_missing_and_none_is_there_in_vain(self):
        """Of deploy/velero/plugin.yaml, for snapshotter and item actions."""
        user = "system:serviceaccount:cairn:role"
        rules = test_rbac.rules_of("velero", "velero/plugin.yaml")
        self.kube.enforced[user] = rules
        self.kube.put("/apis/storage.k8s.io/v1/storageclasses", {
            "metadata": {"name": "late"}, "provisioner": DRIVER,
            "volumeBindingMode": "WaitForFirstConsumer"})
        self.kube.put("/apis/storage.k8s.io/v1/csinodes", {
            "metadata": {"name": "n"}, "spec": {"drivers": [{"name": DRIVER}]}})
        self.kube.put("/api/v1/nodes", {"metadata": {"name": "n", "labels": {
            "topology.kubernetes.io/zone": "z"}}})
        self.kube.put("/api/v1/namespaces/velero/configmaps", {
            "metadata": {"name": "p"}, "data": {"p": json.dumps({"volumePolicies": []})}})
        self.act_when_watched(user, {"datauploads", "datadownloads", "persistentvolumeclaims",
                                     "volumesnapshots", "volumesnapshotcontents"})
        plugin = self.start_plugin()
        self.volume_id(plugin, self.volume("pv"))
        self.ask(plugin, "GetVolumeInfo", volume_id="handle-of-pv")
        self.ask(plugin, "Init", config={"upload": "true"})
        self.fails = "once"
        self.assert_refused(Code.FAILED_PRECONDITION, "once", self.create, plugin)
        self.fails = None
        snapshot_id = self.create(plugin)
        volume = self.restore(plugin, snapshot_id, volume_type="late", volume_az="z")
        self.absent = True
        self.restore(plugin, snapshot_id)
        self.ask(plugin, "SetVolumeID", volume_id=volume,
                 persistent_volume=json.dumps(self.volume("pv")).encode())
        self.ask(plugin, "DeleteSnapshot", snapshot_id=snapshot_id)
        self.ask(plugin, "DeleteSnapshot", snapshot_id=f"{DRIVER}_5_B_elsewhere")
        other = {**self.backup, "metadata": {**self.backup["metadata"], "name": "b2", "uid": "u2"},
                 "spec": {"resourcePolicy": {"kind": "configmap", "name": "p"}}}
        plugin.back_up(PVC, claim(), other)
        self.assertEqual({rule for rule in rules - self.kube.used[user] if not is_for_groups(rule)},
                         set())


if __name__ == "__main__":
    unittest.main(verbosity=2)
