# SPDX-License-Identifier: Apache-2.0
"""The volume snapshotter of `cairn-velero-plugin` and its progress objects, called as Velero calls
them, with an API server and controllers of CSI that the test plays."""
import json
import os
import signal
import threading
import time
import unittest

import veleroplugin
from csidriver import grpc
from fakekube import Refusal
from veleroplugin import BACKUP, DRIVER, PVC, SHARED, SNAPSHOTS, SNAPSHOTTER, Code, claim

NAME = "cairn.csi.dev/snapshotter"
VELERO = "/apis/velero.io/v1/namespaces/velero"
TAGS = {"velero.io/backup": "b1", "velero.io/pv": "pv", "team": "x"}
GIB = 1 << 30


class Fixture(veleroplugin.PluginTest):
    def prepare_kube(self):
        super().prepare_kube()
        self.absent = False  # the storage snapshot, for imports
        self.errors, self.lost = [], False  # of a content with a handle, before it is taken over
        self.volumes, self.deleted = 0, []
        store = self.kube.store

        def with_csi(where, item, made=False):
            result = store(where, item, made)
            what = where["plural"]
            if made and what == "volumesnapshots" and \
                    item["spec"]["source"].get("volumeSnapshotContentName"):
                threading.Thread(target=self.import_snapshot, args=(result,), daemon=True).start()
            if made and what == "volumesnapshotcontents" and \
                    item["spec"]["source"].get("snapshotHandle"):
                threading.Thread(target=self.see_content, args=(result,), daemon=True).start()
            if made and what == "persistentvolumeclaims" and item["spec"].get("dataSource"):
                threading.Thread(target=self.provision, args=(result,), daemon=True).start()
            return result
        self.kube.store = with_csi
        self.kube.put("/api/v1/persistentvolumes", self.volume("pv"))
        self.kube.put("/api/v1/persistentvolumes", self.volume("free", claimed=False))
        self.kube.put("/api/v1/namespaces/shop/persistentvolumeclaims", claim())
        self.kube.put("/apis/storage.k8s.io/v1/storageclasses", {
            "metadata": {"name": "gold"}, "provisioner": DRIVER,
            "volumeBindingMode": "Immediate"})
        self.kube.put(f"{VELERO}/backups", {**BACKUP, "spec": {"volumeSnapshotLocations": ["loc"]}})
        self.backup = self.kube.get(f"{VELERO}/backups/b1")
        self.kube.put(f"{VELERO}/volumesnapshotlocations", {
            "metadata": {"name": "loc", "namespace": "velero"}, "spec": {"provider": NAME}})

    @staticmethod
    def volume(name, claimed=True, **more):
        spec = {"csi": {"driver": DRIVER, "volumeHandle": f"handle-of-{name}",
                        "volumeAttributes": {"old": "1"}}, "storageClassName": "gold",
                "capacity": {"storage": "1Gi"}, "nodeAffinity": {"required": "old"}, **more}
        if claimed:
            spec["claimRef"] = {"namespace": "shop", "name": "data"}
        return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
                "spec": spec}

    # ---- what the controllers of CSI do ----

    def change(self, plural, ns, name, patch):
        group = None if plural.startswith("persistent") else "snapshot.storage.k8s.io"
        self.kube.change({"group": group, "plural": plural, "ns": ns, "name": name, "sub": None},
                         patch, True, None)

    def bind(self, made):
        if made["spec"]["source"].get("persistentVolumeClaimName"):
            super().bind(made)

    def import_snapshot(self, made):
        name, ns = made["metadata"]["name"], made["metadata"]["namespace"]
        status = {"error": {"message": "no such snapshot"}, "readyToUse": False} \
            if self.absent else {"readyToUse": True, "restoreSize": "2Gi",
                                 "boundVolumeSnapshotContentName": name}
        self.change("volumesnapshots", ns, name, {"status": status})

    def see_content(self, made):
        """As csi-snapshotter and the snapshot controller take over a content with a handle."""
        name = made["metadata"]["name"]
        for error in self.errors:
            self.change("volumesnapshotcontents", None, name, {"status": {
                "readyToUse": False, "error": {"message": error}}})
            time.sleep(1)
        if not self.lost:
            self.change("volumesnapshotcontents", None, name, {
                "metadata": {"finalizers": ["snapshot.storage.kubernetes.io/x-protection"]},
                "status": {"readyToUse": True,
                           "snapshotHandle": made["spec"]["source"]["snapshotHandle"]}})

    def provision(self, made):
        self.volumes += 1
        name, ns = made["metadata"]["name"], made["metadata"]["namespace"]
        self.kube.put("/api/v1/persistentvolumes", {
            "metadata": {"name": f"pv-{name}"}, "spec": {
                "csi": {"driver": DRIVER, "volumeHandle": f"new-{self.volumes}",
                        "volumeAttributes": {"new": "1"}},
                "persistentVolumeReclaimPolicy": "Delete", "nodeAffinity": {"required": "new"}}})
        self.change("persistentvolumeclaims", ns, name, {
            "spec": {"volumeName": f"pv-{name}"}, "status": {"phase": "Bound"}})

    # ---- calls ----

    def ask(self, plugin, name, /, **fields):  # pylint: disable=arguments-differ
        if name == "Init":
            request = SNAPSHOTTER.SnapshotterInitRequest(plugin=NAME, **fields)
            return plugin.channel.unary_unary(
                "/generated.VolumeSnapshotter/Init", SNAPSHOTTER.SnapshotterInitRequest.
                SerializeToString, SHARED.Empty.FromString)(request, timeout=60)
        return plugin.call(SNAPSHOTTER, "VolumeSnapshotter", name, plugin=NAME, **fields)

    def volume_id(self, plugin, item):
        text = item if isinstance(item, bytes) else json.dumps(item).encode()
        return self.ask(plugin, "GetVolumeID", persistent_volume=text).volume_id

    def create(self, plugin, **more):
        return self.ask(plugin, "CreateSnapshot", **{
            "volume_id": "handle-of-pv", "tags": TAGS, **more}).snapshot_id

    def objects(self, plural):
        return self.kube.list(f"{VELERO}/{plural}")

    def writes(self, plural):
        return [method for method, path, *_ in self.kube.requests
                if f"/{plural}" in path and method in ("PATCH", "POST", "DELETE")]

    def restore(self, plugin, snapshot_id, **more):
        return self.ask(plugin, "CreateVolumeFromSnapshot", **{
            "snapshot_id": snapshot_id, "volume_type": "gold", **more}).volume_id


class VeleroSnapshotterTest(Fixture):
    def test_ids_and_types_of_volumes(self):
        plugin = self.start_plugin()
        self.ask(plugin, "Init", config={"credentialsFile": "/x"})
        self.assertEqual(self.volume_id(plugin, self.volume("pv")), "handle-of-pv")
        self.assertEqual(self.volume_id(plugin, {"metadata": {"name": "l"}, "spec": {
            "hostPath": {"path": "/x"}}}), "")
        other = self.volume("pv")
        other["spec"]["csi"]["driver"] = "has.no.class"
        self.assertEqual(self.volume_id(plugin, other), "")
        self.assertEqual(self.ask(plugin, "GetVolumeInfo", volume_id="handle-of-pv").volume_type,
                         "gold")

    def test_the_object_is_created_before_the_snapshot_and_completed_after_it(self):
        """Approach 1: before CreateSnapshot's work; approach 2: by the snapshotter; the labels and
        fields of both."""
        plugin = self.start_plugin()
        seen = []
        bind = self.bind
        self.bind = lambda made: (seen.append(self.objects("volumepluginbackups")), bind(made))
        snapshot_id = self.create(plugin)
        self.assertEqual(snapshot_id, f"{DRIVER}_{GIB}_F_handle-1")
        ((before,),) = seen
        self.assertEqual(before["status"]["phase"], "InProgress")
        self.assertTrue(before["status"]["startTimestamp"])
        self.assertEqual(before["status"]["progress"], {"TotalBytes": GIB, "BytesDone": 0})
        (after,) = self.objects("volumepluginbackups")
        self.assertEqual(after["metadata"]["labels"], {
            "velero.io/backup-name": "b1", "velero.io/pv-name": "pv", "velero.io/volume-name": "pv",
            "velero.io/snapshot-id": snapshot_id})
        self.assertEqual(after["metadata"]["ownerReferences"][0]["uid"],
                         self.backup["metadata"]["uid"])
        self.assertEqual(after["spec"], {
            "backupName": "b1", "backupUID": self.backup["metadata"]["uid"], "location": "loc",
            "persistentVolumeName": "pv", "providerVolumeID": "handle-of-pv", "provider": NAME,
            "volumeType": "gold", "volume": "pv", "backup": "b1"})
        status = after["status"]
        self.assertEqual((status["phase"], status["snapshotID"], status["providerSnapshotID"],
                          status["message"], status["progress"]),
                         ("Completed", snapshot_id, snapshot_id, "",
                          {"TotalBytes": GIB, "BytesDone": GIB}))
        self.assertTrue(status["completionTimestamp"])
        self.assertEqual(len(self.writes("volumepluginbackups")), 2)
        (made,) = self.snapshots()
        self.assertEqual(made["metadata"]["labels"], {
            "velero.io/backup-name": "b1", "velero.io/pv-name": "pv",
            "cairn.csi.dev/velero": "snapshotter"})

    def test_a_snapshot_of_a_killed_plugin_is_found_again(self):
        self.handle = None  # the controllers do nothing
        plugin = self.start_plugin()
        waiting = threading.Thread(target=lambda: self.assertRaises(
            grpc.RpcError, self.create, plugin))
        waiting.start()
        self.wait_for(self.snapshots)
        os.kill(plugin.process.pid, signal.SIGKILL)
        waiting.join()
        (left,) = self.snapshots()
        self.handle = "handle-1"
        self.bind(left)
        other = self.start_plugin()
        self.assertEqual(self.create(other), f"{DRIVER}_{GIB}_F_handle-1")
        self.assertEqual([item["metadata"]["uid"] for item in self.snapshots()],
                         [left["metadata"]["uid"]])
        (progress,) = self.objects("volumepluginbackups")
        self.assertEqual(progress["status"]["phase"], "Completed")

    def wait_for(self, what):
        for _ in range(1200):
            if what():
                return
            threading.Event().wait(0.05)
        self.fail("not in a minute")

    def test_never_two_snapshots_of_one_volume(self):
        plugin = self.start_plugin()
        self.create(plugin)
        answer = plugin.back_up(PVC, claim(), self.backup)
        self.assertEqual(list(answer.additional_items), [])
        self.assertEqual(len(self.snapshots()), 1)
        other = {**self.backup, "metadata": {**self.backup["metadata"], "name": "b2", "uid": "u2"}}
        self.kube.put(f"{VELERO}/backups", other)
        plugin.back_up(PVC, claim(), other)
        self.assert_refused(Code.ALREADY_EXISTS, "has snapshot", self.create, plugin,
                            tags={**TAGS, "velero.io/backup": "b2"})
        self.assertEqual(len(self.snapshots()), 2)

    def test_a_failed_snapshot_says_why_and_leaves_nothing(self):
        self.handle = None
        backup = self.kube.get(f"{VELERO}/backups/b1")
        backup["spec"]["csiSnapshotTimeout"] = "200ms"
        self.kube.change({"group": "velero.io", "plural": "backups", "ns": "velero", "name": "b1",
                          "sub": None}, backup, True, None)
        plugin = self.start_plugin()
        self.assert_refused(Code.DEADLINE_EXCEEDED, "PersistentVolume pv", self.create, plugin)
        self.assertEqual(self.snapshots(), [])
        (progress,) = self.objects("volumepluginbackups")
        self.assertEqual(progress["status"]["phase"], "Failed")
        self.assertIn("VolumeSnapshot shop/velero-", progress["status"]["message"])
        self.assertTrue(progress["status"]["completionTimestamp"])
        self.assertEqual(progress["status"]["progress"]["BytesDone"], 0)

    def test_without_the_kinds_or_the_right_there_is_one_line_in_the_log(self):
        for code, reason in ((404, "NotFound"), (403, "Forbidden")):
            def refuse(method, path, code=code, reason=reason):
                if "volumeplugin" in path:
                    raise Refusal(code, reason, f"{method} is refused")
            self.kube.before = refuse
            plugin = self.start_plugin()
            snapshot_id = self.create(plugin)
            self.restore(plugin, snapshot_id)
            self.ask(plugin, "DeleteSnapshot", snapshot_id=snapshot_id)
            self.assertEqual(self.snapshots(), [])
            _, log = plugin.end()
            told = [line for line in map(json.loads, log)
                    if line["@message"] == "there are no progress objects"]
            self.assertEqual([line["@level"] for line in told], ["info"])
            self.assertFalse([line for line in map(json.loads, log)
                              if line["@level"] in ("warn", "error")])

    def test_a_volume_is_made_from_the_snapshot_and_takes_the_place_of_the_old_one(self):
        self.kube.put(f"{VELERO}/restores", {
            "metadata": {"name": "r1", "namespace": "velero"}, "spec": {"backupName": "b1"},
            "status": {"phase": "InProgress"}})
        owner = self.kube.get(f"{VELERO}/restores/r1")["metadata"]["uid"]
        plugin = self.start_plugin()
        snapshot_id = self.create(plugin)
        seen = []
        provision = self.provision
        self.provision = lambda made: (seen.append(
            (self.objects("volumepluginrestores"), made)), provision(made))
        volume = self.restore(plugin, snapshot_id, volume_type="absent")
        self.assertEqual(volume, "new-1")
        (((before,), made),) = seen
        self.assertEqual(before["status"]["phase"], "InProgress")
        self.assertEqual(made["spec"]["resources"]["requests"]["storage"], str(2 * GIB))
        self.assertEqual(made["spec"]["storageClassName"], "gold")
        (after,) = self.objects("volumepluginrestores")
        self.assertEqual(after["metadata"]["labels"], {
            "velero.io/backup-name": "b1", "velero.io/snapshot-id": snapshot_id,
            "velero.io/provider": "cairn-csi-dev-snapshotter" +
            after["metadata"]["labels"]["velero.io/provider"][-6:],
            "velero.io/restore-name": "r1"})
        self.assertEqual(after["metadata"]["ownerReferences"][0]["uid"], owner)
        self.assertEqual(after["spec"], {"snapshotID": snapshot_id, "backupName": "b1",
                                         "provider": NAME, "volumeType": "gold"})
        self.assertEqual((after["status"]["phase"], after["status"]["volumeID"],
                          after["status"]["progress"]),
                         ("Completed", "new-1", {"TotalBytes": 2 * GIB, "BytesDone": 2 * GIB}))
        # Nothing is left but the volume, which is kept for SetVolumeID.
        self.assertEqual(self.kube.list("/api/v1/namespaces/velero/persistentvolumeclaims"), [])
        self.assertEqual(len(self.kube.list(f"{SNAPSHOTS}/volumesnapshots")), 1)
        self.assertEqual(len(self.kube.list(f"{SNAPSHOTS}/volumesnapshotcontents")), 1)
        (kept,) = [item for item in self.kube.list("/api/v1/persistentvolumes")
                   if item["spec"].get("csi", {}).get("volumeHandle") == "new-1"]
        self.assertEqual(kept["spec"]["persistentVolumeReclaimPolicy"], "Retain")
        changed = json.loads(self.ask(plugin, "SetVolumeID", volume_id=volume, persistent_volume=
                                      json.dumps(self.volume("pv")).encode()).persistent_volume)
        self.assertEqual(changed["spec"]["csi"], {
            "driver": DRIVER, "volumeHandle": "new-1", "volumeAttributes": {"new": "1"}})
        self.assertEqual(changed["spec"]["nodeAffinity"], {"required": "new"})
        self.assertEqual(changed["spec"]["storageClassName"], "gold")
        self.assertIsNone(self.kube.get(f"/api/v1/persistentvolumes/{kept['metadata']['name']}"))

    def test_deletion_removes_the_progress_object_first_and_leaves_nothing(self):
        plugin = self.start_plugin()
        snapshot_id = self.create(plugin)
        self.kube.requests.clear()
        self.ask(plugin, "DeleteSnapshot", snapshot_id=snapshot_id)
        order = [path.split("/")[-2] for method, path, *_ in self.kube.requests if method == "DELETE"]
        self.assertEqual(order, ["volumepluginbackups", "volumesnapshots", "volumesnapshotcontents"])
        self.assertEqual(self.patched[-1], "Delete")
        self.assertEqual(self.objects("volumepluginbackups"), [])
        self.assertEqual(self.snapshots(), [])
        self.assertEqual(self.kube.list(f"{SNAPSHOTS}/volumesnapshotcontents"), [])

    def test_a_snapshot_that_nothing_in_the_cluster_names_is_deleted_too(self):
        plugin = self.start_plugin()
        self.ask(plugin, "DeleteSnapshot", snapshot_id=f"{DRIVER}_5_B_elsewhere")
        posted = [path for method, path, *_ in self.kube.requests
                  if method == "POST" and "volumesnapshotcontents" in path]
        self.assertEqual(len(posted), 1)
        self.assertEqual(self.kube.list(f"{SNAPSHOTS}/volumesnapshotcontents"), [])

    def test_an_error_of_the_driver_that_passes_does_not_leave_the_storage_snapshot(self):
        """A content without a handle in its status only disappears, and the snapshot stays."""
        seen, delete = [], self.kube.delete

        def note(where):
            if where["plural"] == "volumesnapshotcontents":
                seen.append(self.kube.get(f"{SNAPSHOTS}/{where['plural']}/{where['name']}"))
            return delete(where)
        self.kube.delete = note
        plugin = self.start_plugin()
        self.errors = ["rpc error: code = Unavailable desc = not now"]
        self.ask(plugin, "DeleteSnapshot", snapshot_id=f"{DRIVER}_5_B_elsewhere")
        (content,) = seen
        self.assertEqual(content["status"]["snapshotHandle"], "elsewhere")
        self.assertTrue(content["metadata"]["finalizers"])
        # The driver says that the snapshot is gone: that is success.
        self.lost = True
        for error in ("rpc error: code = NotFound desc = no", "can not find snapshot for x"):
            self.errors = [error]
            self.ask(plugin, "DeleteSnapshot", snapshot_id=f"{DRIVER}_5_B_gone")
        self.assertEqual(self.kube.list(f"{SNAPSHOTS}/volumesnapshotcontents"), [])

    def test_bad_input_is_refused_and_the_next_call_works(self):
        plugin = self.start_plugin()
        long_name = "v" * 253
        for code, text, call, fields in (
                (Code.INVALID_ARGUMENT, "no setting 'uplaod'", "Init", {"config": {"uplaod": "1"}}),
                (Code.INVALID_ARGUMENT, "upload", "Init", {"config": {"upload": "yes"}}),
                (Code.INVALID_ARGUMENT, "the volume", "GetVolumeID", {"persistent_volume": b"{"}),
                (Code.INVALID_ARGUMENT, "the volume", "GetVolumeID", {"persistent_volume": b"5"}),
                (Code.RESOURCE_EXHAUSTED, "", "GetVolumeID",
                 {"persistent_volume": b" " * (20 << 20)}),
                (Code.NOT_FOUND, "no PersistentVolume", "GetVolumeInfo", {"volume_id": "none"}),
                (Code.INVALID_ARGUMENT, "no tag", "CreateSnapshot", {"volume_id": "x"}),
                (Code.NOT_FOUND, "PersistentVolume gone", "CreateSnapshot", {
                    "volume_id": "x", "tags": {**TAGS, "velero.io/pv": "gone"}}),
                (Code.NOT_FOUND, long_name, "CreateSnapshot", {
                    "volume_id": "x", "tags": {**TAGS, "velero.io/pv": long_name}}),
                (Code.FAILED_PRECONDITION, "not volume 'x'", "CreateSnapshot", {
                    "volume_id": "x", "tags": TAGS}),
                (Code.FAILED_PRECONDITION, "it has no claim", "CreateSnapshot", {
                    "volume_id": "handle-of-free", "tags": {**TAGS, "velero.io/pv": "free"}}),
                (Code.NOT_FOUND, "", "CreateSnapshot", {
                    "volume_id": "handle-of-pv", "tags": {**TAGS, "velero.io/backup": "none"}}),
                (Code.INVALID_ARGUMENT, "not the id of a snapshot", "CreateVolumeFromSnapshot", {
                    "snapshot_id": "snap-1"}),
                (Code.FAILED_PRECONDITION, "no StorageClass", "CreateVolumeFromSnapshot", {
                    "snapshot_id": "x.io_1_F_h"}),
                (Code.INVALID_ARGUMENT, "not the id of a snapshot", "DeleteSnapshot", {}),
                (Code.INVALID_ARGUMENT, "not one of CSI", "SetVolumeID", {
                    "volume_id": "v", "persistent_volume": b'{"metadata":{"name":"l"}}'})):
            self.assert_refused(code, text, self.ask, plugin, call, **fields)
        self.assert_refused(Code.NOT_FOUND, "is not in this plugin", plugin.call, SNAPSHOTTER,
                            "VolumeSnapshotter", "DeleteSnapshot", plugin="velero.io/x")
        self.assertEqual(self.snapshots(), [])
        self.assertTrue(self.create(plugin))


if __name__ == "__main__":
    unittest.main(verbosity=2)
