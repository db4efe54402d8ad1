# SPDX-License-Identifier: Apache-2.0
"""`cairn manager --velero` with an API server that the test plays and an object store in a
directory; tests/velero has the real ones."""
import json
import os
import subprocess
import threading
import unittest

import test_rbac
from fakekube import Refusal, now
from veleromanager import (DEPLOYED, GROUPS, MOVED, OLDER, SECONDS, SNAPSHOTS, SNAPSHOTTER, VELERO,
                           ManagerTest)


class VeleroManagerTest(ManagerTest):
    # ---- the four cases of the file ----

    def test_progress_objects_are_kept_in_an_array_that_every_velero_reads(self):
        """Newer Velero, newer file; the older reader is in tests/velero."""
        self.backup(volumesnapshots=[OLDER, {**OLDER, "spec": {
            **OLDER["spec"], "persistentVolumeName": "other"}}])
        self.progress()
        self.start_manager()
        self.wait(lambda: "kind" in self.file("b1-volumesnapshots.json.gz")[0], "it is kept")
        kept, other = self.file("b1-volumesnapshots.json.gz")
        self.assertEqual({**kept["spec"], **OLDER["spec"]}, kept["spec"])
        self.assertEqual({**kept["status"], **OLDER["status"]}, kept["status"])
        self.assertEqual((kept["apiVersion"], kept["kind"], kept["metadata"]["name"]),
                         ("velero.io/v1", "VolumePluginBackup", "velero-pv"))
        self.assertEqual((kept["spec"]["provider"], kept["status"]["progress"]),
                         (SNAPSHOTTER, {"TotalBytes": 5, "BytesDone": 5}))
        self.assertNotIn("metadata", other)
        self.stop_in_order("manager")

    def test_an_older_file_makes_no_objects(self):
        """Newer Velero, older file: metadata.name is empty."""
        self.backup(volumesnapshots=[OLDER])
        self.backup("b2", volumesnapshots=None)
        self.backup("b3", volumesnapshots=[{**OLDER, "metadata": {"name": "x"}}])
        before = (self.backups / "b1/b1-volumesnapshots.json.gz").read_bytes()
        self.start_manager()
        self.wait(self.objects, "that of the newer file is created")
        self.assertEqual([item["metadata"]["name"] for item in self.objects()], ["x"])
        self.assertEqual((self.backups / "b1/b1-volumesnapshots.json.gz").read_bytes(), before)

    def test_objects_are_created_where_another_cluster_made_the_backup(self):
        made = self.backup("b" * 70, volumesnapshots=[{
            **OLDER, "metadata": {"name": "velero-pv", "namespace": "elsewhere", "labels": {"x": "y"}},
            "status": {**OLDER["status"], "snapshotID": "d.io_5_F_h"}}])
        self.start_manager()
        self.wait(self.objects, "it is created")
        (item,) = self.objects()
        self.assertEqual(item["metadata"]["namespace"], "velero")
        self.assertEqual(item["metadata"]["ownerReferences"][0]["uid"], made["metadata"]["uid"])
        label = item["metadata"]["labels"]["velero.io/backup-name"]
        self.assertEqual((len(label), label[:57]), (63, "b" * 57))
        self.assertEqual(item["metadata"]["labels"]["velero.io/snapshot-id"], "d.io_5_F_h")
        self.assertNotIn("x", item["metadata"]["labels"])
        self.assertEqual(item["status"]["phase"], "Completed")

    def test_a_file_that_is_damaged_is_reported_and_stays(self):
        self.backup(volumesnapshots={"items": []})
        self.progress()
        self.backup("b2", volumesnapshots=[])
        (self.backups / "b2/b2-volumesnapshots.json.gz").write_bytes(b"\x1f\x8bnot gzip")
        self.progress("b2", "two")
        self.start_manager()
        for text in ("not an array", "b2-volumesnapshots.json.gz"):
            self.said("manager", text)
        self.assertEqual(self.file("b1-volumesnapshots.json.gz"), {"items": []})

    def test_objects_go_with_their_backup(self):
        self.backup(volumesnapshots=[OLDER])
        self.progress()
        self.start_manager()
        self.wait(lambda: "kind" in self.file("b1-volumesnapshots.json.gz")[0], "it is kept")
        self.set_phase("backups", "b1", "Deleting")
        self.wait(lambda: not self.objects(), "it went before the Backup did")

    # ---- csi-snapshots.json.gz ----

    def test_the_list_of_csi_snapshots_is_written_when_the_backup_has_ended(self):
        self.backup(phase="InProgress")
        self.backup("b2")  # of another cluster: no snapshots here
        self.snapshot("one")
        self.snapshot("restored", **{"velero.io/restore-name": "r"})
        self.snapshot("native", role="snapshotter")
        self.backup("b0")
        self.snapshot("zero", backup="b0")
        self.start_manager()
        self.wait(lambda: self.file("csi-snapshots.json.gz", "b0"), "that of b0 is written")
        self.assertIsNone(self.file("csi-snapshots.json.gz"))
        for phase in ("WaitingForPluginOperations", "Finalizing", "Completed"):
            self.set_phase("backups", "b1", phase)
        self.wait(lambda: self.file("csi-snapshots.json.gz"), "it is written")
        (entry,) = self.file("csi-snapshots.json.gz")
        self.assertEqual((entry["kind"], entry["metadata"]["name"], entry["metadata"]["namespace"]),
                         ("VolumeSnapshot", "one", "shop"))
        self.assertEqual(entry["metadata"]["annotations"], {
            "velero.io/csi-volumesnapshot-handle": "h-one", "velero.io/csi-driver-name": "d.io",
            "cairn.csi.dev/storage-location": "default"})
        self.assertNotIn("managedFields", entry["metadata"])
        self.assertIsNone(self.file("csi-snapshots.json.gz", "b2"))

    def test_a_file_of_a_backup_that_is_deleted_meanwhile_does_not_stay(self):
        self.backup()
        self.snapshot("one")
        asked = []

        def delete_at_the_second_look(method, path):
            if (method, path) == ("GET", f"{VELERO}/backups/b1"):
                asked.append(path)
                if len(asked) == 2:  # as Velero does it, but for what it did not list
                    (self.backups / "b1/velero-backup.json").unlink()
                    raise Refusal(404, "NotFound", "not found")
        self.kube.before = delete_at_the_second_look
        self.start_manager()
        self.wait(lambda: len(asked) >= 2 and not (self.backups / "b1").exists(), "nothing is left")

    # ---- sweeping ----

    def test_snapshots_that_no_backup_needs_are_removed(self):
        listed = {"snapshot.storage.k8s.io/v1/VolumeSnapshot": ["shop/listed"]}
        self.backup(resource_list=None)
        self.backup("good", **{"resource-list": listed, "volumesnapshots": [OLDER]})
        self.backup("failed", phase="Failed", stored=False)
        self.backup("runs", phase="InProgress", stored=False)
        self.snapshot("listed", "good", old=True)
        self.snapshot("unlisted", "good", old=True)
        self.snapshot("named", "good", "snapshotter", old=True)
        self.snapshot("unnamed", "good", "snapshotter", old=True, moved=MOVED,
                      **{"velero.io/pv-name": "x"})
        self.snapshot("of-failed", "failed", old=True)
        self.snapshot("of-none", "none", old=True)
        self.snapshot("running", "runs", old=True)
        self.snapshot("unreadable", "b1", old=True)  # its list cannot be read
        self.snapshot("new", "none")
        self.snapshot("of-another-program", "none", role="x", old=True)
        self.start_manager()
        gone = {"unlisted", "unnamed", "of-failed", "of-none"}
        self.wait(lambda: not gone & set(self.snapshots()), "leftovers are gone")
        self.assertEqual(set(self.snapshots()), {"listed", "named", "running", "unreadable", "new",
                                                 "of-another-program"})
        self.wait(lambda: {item["metadata"]["name"] for item in self.kube.list(
            f"{SNAPSHOTS}/volumesnapshotcontents")} == {
                f"content-{name}" for name in self.snapshots()}, "with their contents")
        (request,) = self.kube.list("/api/v1/namespaces/velero/configmaps")
        self.assertEqual(",".join(request["data"][key] for key in (
            "sourceNamespace", "backupStorageLocation", "snapshotID")), MOVED, "and their copies")

    def take_over(self, made):
        """As the controllers of group snapshots do with a content that has handles."""
        self.kube.change({"group": GROUPS.split("/")[2], "plural": "volumegroupsnapshotcontents",
                          "ns": None, "name": made["metadata"]["name"], "sub": None}, {
                              "metadata": {"finalizers": ["groupsnapshot.storage.kubernetes.io/x"]},
                              "status": {"volumeGroupSnapshotHandle": "elsewhere"}}, True, None)

    def test_the_snapshots_of_a_group_are_removed_only_together(self):
        """With the rights for groups, which are all needed; other tests use the other ones."""
        user = "system:serviceaccount:cairn:role"
        rules = self.kube.enforced[user] = test_rbac.rules_of("cairn-velero", *DEPLOYED)
        store = self.kube.store

        def with_controller(where, item, made=False):
            result = store(where, item, made)
            if made and "groupSnapshotHandles" in item.get("spec", {}).get("source", {}):
                threading.Thread(target=self.take_over, args=(result,), daemon=True).start()
            return result
        self.kube.store = with_controller
        self.act_when_watched(user, {"volumegroupsnapshotcontents"})
        self.backup("good", **{"resource-list": {
            "snapshot.storage.k8s.io/v1/VolumeSnapshot": ["shop/listed"]}})
        for group, names in (("whole", ("listed", "unlisted")), ("lost", ("one", "two"))):
            for name in names:
                self.snapshot(name, "good", old=True,
                              group=[group, *(f"h-{one}" for one in names)])
            self.kube.put(f"{GROUPS}/volumegroupsnapshotclasses", {"metadata": {"name": "x"}})
            self.kube.put(f"{GROUPS}/namespaces/shop/volumegroupsnapshots",
                          {"metadata": {"name": group}})
            self.kube.put(f"{GROUPS}/volumegroupsnapshotcontents", {
                "metadata": {"name": f"g-{group}"}, "spec": {
                    "driver": "d.io", "deletionPolicy": "Retain", "volumeGroupSnapshotRef": {
                        "namespace": "shop", "name": group}},
                "status": {"volumeGroupSnapshotHandle": group}})
        # Another cluster has its VolumeGroupSnapshotContent.
        self.snapshot("three", "good", old=True, group=["elsewhere", "h-three"])
        self.start_manager()
        self.wait(lambda: set(self.snapshots()) == {"listed", "unlisted"}, "the lost group is gone")
        self.wait(lambda: [item["metadata"]["name"] for item in self.kube.list(
            f"{GROUPS}/volumegroupsnapshotcontents")] == ["g-whole"], "and its content")
        self.wait(lambda: not [rule for rule in rules - self.kube.used[user]
                               if rule[0] == GROUPS.split("/")[2]], "every right is used")

    def test_nothing_is_removed_when_a_store_cannot_be_read(self):
        self.snapshot("of-none", "none", old=True)
        self.kube.put(f"{VELERO}/backupstoragelocations", {
            "metadata": {"name": "broken"}, "spec": {
                "provider": "cairn.csi.dev/directory", "objectStorage": {"bucket": "absent"}}})
        self.start_manager()
        self.said("manager", "leftovers wait")
        self.assertEqual(self.snapshots(), ["of-none"])

    def test_nothing_is_removed_without_a_location(self):
        """A location that is taken out for a time takes its Backups with it, not their data."""
        self.snapshot("of-none", "none", old=True)
        self.kube.delete({"group": "velero.io", "plural": "backupstoragelocations", "ns": "velero",
                          "name": "default", "sub": None})
        self.kube.put("/apis/velero.io/v1/namespaces/other/backupstoragelocations",
                      {"metadata": {"name": "default"}})  # the kind exists
        self.start_manager()
        self.said("manager", "leftovers wait")
        self.assertEqual(self.snapshots(), ["of-none"])

    def test_nothing_is_removed_of_a_location_that_is_not_there(self):
        """Another location is, and all of its store can be read."""
        self.snapshot("of-removed", "none", old=True, location="removed")
        self.snapshot("of-none", "none", old=True)
        self.start_manager()
        self.wait(lambda: "of-none" not in self.snapshots(), "the leftover is gone")
        self.assertEqual(self.snapshots(), ["of-removed"])

    def test_leftovers_of_interrupted_restores_are_removed(self):
        role = {"labels": {"cairn.csi.dev/velero": "restore"}, "creationTimestamp": now(-3600)}
        self.kube.put("/api/v1/namespaces/velero/persistentvolumeclaims", {
            "metadata": {"name": "c", **role}, "spec": {}})
        for name, created in (("old", role), ("new", {**role, "creationTimestamp": now()})):
            self.kube.put(f"{SNAPSHOTS}/volumesnapshotcontents", {
                "metadata": {"name": name, **created}, "spec": {
                    "driver": "d.io", "deletionPolicy": "Retain"}})
        for name, handle, labels in (("taken", "h1", role), ("user", "h1", {}),
                                     ("lost", "h2", role)):
            self.kube.put("/api/v1/persistentvolumes", {
                "metadata": {"name": name, **labels}, "spec": {
                    "persistentVolumeReclaimPolicy": "Retain",
                    "csi": {"driver": "d.io", "volumeHandle": handle}}})
        self.start_manager()
        self.wait(lambda: self.kube.get("/api/v1/persistentvolumes/lost")["spec"][
            "persistentVolumeReclaimPolicy"] == "Delete", "its volume goes")
        self.wait(lambda: [item["metadata"]["name"] for item in self.kube.list(
            "/api/v1/persistentvolumes")] == ["lost", "user"], "the object of the other goes")
        self.assertEqual(self.kube.list("/api/v1/persistentvolumeclaims"), [])
        self.assertEqual([item["metadata"]["name"] for item in
                          self.kube.list(f"{SNAPSHOTS}/volumesnapshotcontents")], ["new"])

    def test_objects_of_a_restore_that_runs_for_hours_stay(self):
        """A volume that is restored from the repository takes as long as its data do."""
        self.kube.put(f"{VELERO}/restores", {
            "metadata": {"name": "long", "creationTimestamp": now(-7200)},
            "status": {"phase": "InProgress"}})
        self.kube.put(f"{VELERO}/restores", {
            "metadata": {"name": "ended", "creationTimestamp": now(-90000)},
            "status": {"phase": "Failed"}})
        for name, created in (("before", now(-9000)), ("during", now(-3600))):
            role = {"labels": {"cairn.csi.dev/velero": "restore"}, "creationTimestamp": created}
            self.kube.put("/api/v1/namespaces/velero/persistentvolumeclaims", {
                "metadata": {"name": name, **role}, "spec": {}})
            self.kube.put("/api/v1/persistentvolumes", {
                "metadata": {"name": name, **role}, "spec": {
                    "persistentVolumeReclaimPolicy": "Retain",
                    "csi": {"driver": "d.io", "volumeHandle": name}}})
        self.start_manager()
        self.wait(lambda: self.kube.get("/api/v1/persistentvolumes/before")["spec"][
            "persistentVolumeReclaimPolicy"] == "Delete", "what is older than the Restore goes")
        self.assertEqual([item["metadata"]["name"] for item in self.kube.list(
            "/api/v1/persistentvolumeclaims")], ["during"])
        self.assertEqual(self.kube.get("/api/v1/persistentvolumes/during")["spec"][
            "persistentVolumeReclaimPolicy"], "Retain")

    def test_progress_objects_of_killed_plugins_fail_and_go_with_their_restore(self, start=True):
        self.backup()
        self.progress(phase="InProgress")
        restore = self.kube.put(f"{VELERO}/restores", {
            "metadata": {"name": "r"}, "status": {"phase": "Completed"}})
        for name, uid in (("mine", "r"), ("orphan", "gone")):
            self.kube.put(f"{VELERO}/volumepluginrestores", {
                "metadata": {"name": name, "creationTimestamp": now(-3600), "ownerReferences": [
                    {"name": uid, "uid": restore["metadata"]["uid"]}]},
                "spec": {}, "status": {"phase": "InProgress"}})
        if not start:
            self.processes.stop("manager")
        self.start_manager()
        self.wait(lambda: [(item["metadata"]["name"], item["status"]["phase"]) for item in
                           self.objects("volumepluginrestores")] == [("mine", "Failed")], "VPR")
        self.wait(lambda: self.objects()[0]["status"]["phase"] == "Failed", "VPB")
        self.assertIn("interrupted", self.objects()[0]["status"]["message"])

    def test_without_the_kinds_the_rest_works(self):
        def refuse(method, path):
            if "volumeplugin" in path:
                raise Refusal(404, "NotFound", f"{method} is refused")
        self.kube.before = refuse
        self.backup(volumesnapshots=[{**OLDER, "metadata": {"name": "x"}}])
        self.snapshot("one")
        self.start_manager()
        self.wait(lambda: self.file("csi-snapshots.json.gz"), "it is written")

    # ---- rights ----

    def test_no_right_is_missing_and_none_is_there_in_vain(self):
        """Of deploy/velero/records.yaml; the data mover in the same process has rights of its own."""
        user = "system:serviceaccount:cairn:role"
        rules = test_rbac.rules_of("cairn-velero", "velero/records.yaml")
        # The test of groups uses those for groups.
        spare = {rule for rule in rules if rule[0] == "groupsnapshot.storage.k8s.io"}
        self.kube.enforced[user] = test_rbac.rules_of("cairn-velero", *DEPLOYED)
        self.test_leftovers_of_interrupted_restores_are_removed()
        self.test_progress_objects_of_killed_plugins_fail_and_go_with_their_restore(start=False)
        self.act_when_watched(user, (), deleted={"volumesnapshotcontents"})
        self.backup("b4", volumesnapshots=[{**OLDER, "metadata": {"name": "x"}}])
        self.snapshot("four", backup="b4")
        self.wait(lambda: self.file("csi-snapshots.json.gz", "b4"), "it is written")
        self.snapshot("lost", backup="none", old=True, moved=MOVED)
        self.set_phase("backups", "b4", "Deleting")
        self.processes.stop("manager")
        self.start("manager", "manager", "--velero", "--velero-directories", self.root)
        secret = {("", "secrets", "get", "")}
        self.wait(lambda: not rules - self.kube.used[user] - spare - secret, "every rule is used")
        contents = f"{SNAPSHOTS}/volumesnapshotcontents"
        self.wait(lambda: "content-lost" not in [item["metadata"]["name"] for item in
                                                 self.kube.list(contents)], "it is gone at last")
        # While a location on S3 cannot be read, nothing is removed.
        self.kube.put(f"{VELERO}/backupstoragelocations", {"metadata": {"name": "s3"}, "spec": {
            "provider": "aws", "objectStorage": {"bucket": "b"},
            "credential": {"name": "keys", "key": "cloud"}}})
        self.backup("b5")
        self.kube.change({"group": "velero.io", "plural": "backups", "ns": "velero", "name": "b5",
                          "sub": None}, {"spec": {"storageLocation": "s3"}}, True, None)
        self.wait(lambda: secret <= self.kube.used[user], "the keys of its store are read")

    # ---- cairn velero describe ----

    def describe(self, *words, **how):
        return subprocess.run([os.environ["CAIRN_BIN"], "velero", "describe", *map(str, words)],
                              text=True, capture_output=True, stdin=subprocess.DEVNULL,
                              timeout=SECONDS, check=how.get("check", True))

    def test_one_picture_of_a_backup_also_while_it_runs(self):
        self.backup(phase="InProgress")
        self.snapshot("one")
        self.progress(phase="InProgress")
        self.kube.put("/apis/velero.io/v2alpha1/namespaces/velero/datauploads", {
            "metadata": {"name": "u", "labels": {"velero.io/backup-name": "b1"}},
            "spec": {"sourceNamespace": "shop", "sourcePVC": "data", "datamover": "cairn"},
            "status": {"phase": "InProgress", "progress": {"totalBytes": 9, "bytesDone": 4}}})
        self.kube.put("/apis/apps/v1/namespaces/velero/deployments", {
            "metadata": {"name": "velero"}, "spec": {"template": {"spec": {"containers": [
                {"args": ["server", "--restore-resource-priorities",
                          "persistentvolumeclaims,namespaces"]}]}}}})
        done = self.describe("b1", "--kubeconfig", self.config, "-o", "json")
        found = json.loads(done.stdout)
        self.assertEqual((found["name"], found["phase"], found["completed"]),
                         ("b1", "InProgress", None))
        (entry,) = found["csi_snapshots"]
        self.assertEqual((entry["namespace"], entry["claim"], entry["snapshot"], entry["handle"],
                          entry["driver"], entry["size"]),
                         ("shop", "data", "one", "h-one", "d.io", 5))
        self.assertEqual([(v["volume"], v["done"], v["total"]) for v in found["volumes"]],
                         [("pv", 5, 5)])
        self.assertEqual([(u["claim"], u["done"], u["total"]) for u in found["uploads"]],
                         [("data", 4, 9)])
        self.assertIn({"first": "volumesnapshots.snapshot.storage.k8s.io",
                       "second": "persistentvolumeclaims", "matters": True},
                      found["restore_order"])
        text = self.describe("b1", "--kubeconfig", self.config).stdout
        self.assertIn("4 B of 9 B", text)
        self.assertIn("warning:", text)

    def test_csi_snapshots_are_listed_from_the_store_alone(self):
        self.backup(volumesnapshots=[OLDER])
        self.snapshot("one")
        self.start_manager()
        self.wait(lambda: self.file("csi-snapshots.json.gz"), "it is written")
        done = self.describe("b1", "--store", self.root / "bkt/pre", "--details", "-o", "json")
        (entry,) = json.loads(done.stdout)["csi_snapshots"]
        self.assertEqual((entry["snapshot"], entry["handle"]), ("one", "h-one"))
        text = self.describe("b1", "--store", self.root / "bkt/pre", "--details").stdout
        self.assertIn("shop/data  snapshot one  handle h-one  driver d.io", text)
        self.assertIn("snapshot d.io_5_F_h", text)
        for words in (("none", "--store", self.root / "bkt/pre"),
                      ("../x", "--store", self.root / "bkt/pre"), ("b1", "--region", "x")):
            done = self.describe(*words, check=False)
            self.assertNotEqual(done.returncode, 0, words)
            self.assertTrue(done.stderr.startswith("cairn"), done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
