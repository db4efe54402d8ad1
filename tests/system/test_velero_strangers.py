# SPDX-License-Identifier: Apache-2.0
"""`cairn manager --velero` with what users of namespaces, strangers, operators and killed plugins leave,
and an API server that the test plays."""
import hashlib
import json
import unittest

import test_rbac
from fakekube import now
from veleromanager import DEPLOYED, GROUPS, OLDER, SNAPSHOTS, VELERO, ManagerTest

UPLOADS = "/apis/velero.io/v2alpha1/namespaces/velero/datauploads"
DOWNLOADS = "/apis/velero.io/v2alpha1/namespaces/velero/datadownloads"
CLAIMS = "/api/v1/namespaces/velero/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"
JOBS = "/apis/batch/v1/namespaces/velero/jobs"
HELD = ["cairn.csi.dev/data-mover"]


class VeleroStrangersTest(ManagerTest):
    def test_a_forged_leftover_does_not_take_the_content_of_another_snapshot(self):
        self.snapshot("theirs", "none")
        self.snapshot("forged", "none", old=True)
        self.kube.change({"group": "snapshot.storage.k8s.io", "plural": "volumesnapshots",
                          "ns": "shop", "name": "forged", "sub": None},
                         {"status": {"boundVolumeSnapshotContentName": "content-theirs"}}, True, None)
        self.start_manager()
        self.wait(lambda: "forged" not in self.snapshots(), "the forged one is gone")
        self.assertEqual(self.snapshots(), ["theirs"])
        contents = {item["metadata"]["name"]: item["spec"]["deletionPolicy"]
                    for item in self.kube.list(f"{SNAPSHOTS}/volumesnapshotcontents")}
        self.assertEqual(contents.get("content-theirs"), "Retain")

    def test_what_a_user_writes_to_a_snapshot_does_not_take_it_from_its_backup(self):
        """Labels and annotations of the namespace's object; those of the content count."""
        self.backup("good", **{"resource-list": {
            "snapshot.storage.k8s.io/v1/VolumeSnapshot": ["shop/listed"]}, "volumesnapshots": [
                {**OLDER, "status": {"providerSnapshotID": "d.io_5_F_h-named"}}]})
        self.snapshot("listed", "good", old=True)
        self.snapshot("named", "good", "snapshotter", old=True)
        self.snapshot("elsewhere", "none", old=True, location="removed")
        self.snapshot("of-none", "none", old=True)
        for name, labels in (("listed", {"velero.io/backup-name": "none"}),
                             ("named", {"velero.io/pv-name": "x"}),
                             ("elsewhere", {})):
            self.kube.change({"group": "snapshot.storage.k8s.io", "plural": "volumesnapshots",
                              "ns": "shop", "name": name, "sub": None}, {"metadata": {
                                  "labels": labels, "annotations": {
                                      "cairn.csi.dev/storage-location": "default"}}}, True, None)
        self.start_manager()
        self.wait(lambda: "of-none" not in self.snapshots(), "the leftover is gone")
        self.assertEqual(set(self.snapshots()), {"listed", "named", "elsewhere"})

    def change_content(self, name, patch):
        self.kube.change({"group": "snapshot.storage.k8s.io", "plural": "volumesnapshotcontents",
                          "ns": None, "name": f"content-{name}", "sub": None}, patch, True, None)

    def test_a_user_does_not_delete_the_storage_snapshot_of_a_restored_one(self):
        """It removes the label by which the restored VolumeSnapshot is known; the backup needs the
        storage snapshot."""
        self.backup("good", **{"resource-list": {
            "snapshot.storage.k8s.io/v1/VolumeSnapshot": ["shop/original"]}})
        self.snapshot("restored", "good", old=True)
        self.change_content("restored", {"metadata": {"labels": {"velero.io/restore-name": "r"}}})
        self.snapshot("unneeded", "none", old=True)  # the last one that is looked at
        self.start_manager()
        self.wait(lambda: "unneeded" not in self.snapshots(), "the leftover is gone")
        self.assertEqual(self.snapshots(), ["restored"])
        self.assertEqual(self.policies()["content-restored"], "Retain")

    def test_a_deleted_namespace_leaves_no_snapshot_of_an_interrupted_backup(self):
        """Its contents stay, with the policy Retain: what a backup holds must outlive the namespace."""
        self.backup("good", **{"resource-list": {
            "snapshot.storage.k8s.io/v1/VolumeSnapshot": ["shop/listed"]}, "volumesnapshots": [
                {**OLDER, "status": {"providerSnapshotID": "d.io_5_F_h-named"}}]})
        self.backup("failed", phase="Failed", stored=False)
        self.backup("runs", phase="InProgress", stored=False)
        for name, backup, role in (("listed", "good", "item-action"),
                                   ("named", "good", "snapshotter"),
                                   ("running", "runs", "item-action"),
                                   ("elsewhere", "none", "item-action"),
                                   ("grouped", "failed", "item-action"),
                                   ("restored", "failed", "item-action"),
                                   ("new", "failed", "item-action"),
                                   ("lost", "failed", "item-action"),
                                   ("unnamed", "good", "snapshotter"),
                                   ("of-none", "none", "item-action")):
            self.snapshot(name, backup, role, location="removed" if name == "elsewhere" else
                          "default")
            self.kube.delete({"group": "snapshot.storage.k8s.io", "plural": "volumesnapshots",
                              "ns": "shop", "name": name, "sub": None})
            self.change_content(name, {"metadata": {"creationTimestamp": now(
                0 if name == "new" else -3600)}, "spec": {"volumeSnapshotRef": {"uid": "gone"}}})
        self.change_content("grouped", {"status": {"volumeGroupSnapshotHandle": "g"}})
        self.change_content("restored", {"metadata": {"labels": {"velero.io/restore-name": "r"}}})
        self.start_manager()
        self.wait(lambda: set(self.policies()) == {f"content-{name}" for name in (
            "listed", "named", "running", "elsewhere", "grouped", "restored", "new")}, "they go")
        self.assertEqual(set(self.policies().values()), {"Retain"})

    def test_another_velero_of_the_cluster_keeps_its_own(self):
        """Its server is in another namespace, with a location of the same name in another bucket."""
        theirs = {"metadata": {"annotations": {"cairn.csi.dev/velero-namespace": "other"}}}
        for name in ("a-kept", "b-gone", "c-uncut", "ours"):
            self.snapshot(name, "none", old=True, kept=name != "c-uncut")
            if name != "ours":
                self.change_content(name, theirs)
                self.kube.change({"group": "snapshot.storage.k8s.io", "plural": "volumesnapshots",
                                  "ns": "shop", "name": name, "sub": None}, theirs, True, None)
        self.change_content("b-gone", {"metadata": {"creationTimestamp": now(-3600)}})
        self.kube.delete({"group": "snapshot.storage.k8s.io", "plural": "volumesnapshots",
                          "ns": "shop", "name": "b-gone", "sub": None})
        for name, ns in (("d-theirs", "other"), ("e-ours", "velero")):
            made = {"name": name, "labels": {"cairn.csi.dev/velero": "restore"},
                    "creationTimestamp": now(-3600)}
            self.kube.put(f"{SNAPSHOTS}/volumesnapshotcontents", {"metadata": made, "spec": {
                "deletionPolicy": "Retain", "volumeSnapshotRef": {"namespace": ns, "name": name}}})
            self.kube.put(VOLUMES, {"metadata": made, "spec": {
                "persistentVolumeReclaimPolicy": "Retain", "claimRef": {"namespace": ns},
                "csi": {"driver": "d.io", "volumeHandle": name}}})
        self.start_manager()
        self.wait(lambda: self.reclaimed()["e-ours"] == "Delete", "the last leftover goes")
        self.assertEqual(self.snapshots(), ["a-kept", "c-uncut"])
        self.assertEqual(self.policies(), {f"content-{name}": "Retain" for name in (
            "a-kept", "b-gone", "c-uncut")} | {"d-theirs": "Retain"})
        self.assertEqual(self.reclaimed()["d-theirs"], "Retain")

    def test_labels_of_a_user_do_not_delete_what_a_class_retains(self):
        """The content has no label of a backup: its policy stays."""
        self.snapshot("labelled", "none", old=True, kept=False)
        self.start_manager()
        self.wait(lambda: not self.snapshots(), "the VolumeSnapshot is gone")
        (content,) = self.kube.list(f"{SNAPSHOTS}/volumesnapshotcontents")
        self.assertEqual(content["spec"]["deletionPolicy"], "Retain")

    def test_a_group_that_no_claim_kept_is_removed(self):
        """Its plugin was killed between making the group and keeping it."""
        user = "system:serviceaccount:cairn:role"
        self.kube.enforced[user] = test_rbac.rules_of("cairn-velero", *DEPLOYED)
        self.backup("failed", phase="Failed", stored=False)
        self.backup("runs", phase="InProgress", stored=False)
        self.kube.put(f"{GROUPS}/volumegroupsnapshotclasses", {"metadata": {"name": "x"}})
        for name, backup, created, labels in (
                ("uncut", "failed", now(-3600), None), ("cut", "failed", now(-3600), {}),
                ("of-none", "none", now(-3600), {}), ("new", "failed", now(), {}),
                ("running", "runs", now(-3600), {}),
                ("kept", "failed", now(-3600), {"velero.io/backup-name": "failed"})):
            self.kube.put(f"{GROUPS}/namespaces/shop/volumegroupsnapshots", {
                "metadata": {"name": name, "creationTimestamp": created, "labels": {
                    "velero.io/backup-name": backup, "cairn.csi.dev/velero": "item-action"}},
                "status": {} if labels is None else {
                    "boundVolumeGroupSnapshotContentName": f"g-{name}"}})
            if labels is not None:
                self.kube.put(f"{GROUPS}/volumegroupsnapshotcontents", {
                    "metadata": {"name": f"g-{name}", "labels": labels}, "spec": {
                        "volumeGroupSnapshotRef": {"namespace": "shop", "name": name}}})
        # A member that has its labels, but not the handles of its group.
        self.snapshot("member", "failed", old=True, group=["u"])
        self.kube.change({"group": "snapshot.storage.k8s.io", "plural": "volumesnapshotcontents",
                          "ns": None, "name": "content-member", "sub": None}, {"metadata": {
                              "annotations": {"cairn.csi.dev/group-snapshot-handles": None}}},
                         True, None)
        self.start_manager()
        self.wait(lambda: {item["metadata"]["name"] for item in self.kube.list(
            f"{GROUPS}/volumegroupsnapshots")} == {"new", "running", "kept"}, "they are gone")
        (content,) = self.kube.list(f"{SNAPSHOTS}/volumesnapshotcontents")
        self.assertEqual(content["spec"]["deletionPolicy"], "Delete")  # goes with its snapshot

    def test_a_forged_upload_does_not_take_the_snapshot_of_a_backup_that_moves_nothing(self):
        owner = self.backup(**{"resource-list": {
            "snapshot.storage.k8s.io/v1/VolumeSnapshot": ["shop/kept"]}})
        claim = self.kube.put("/api/v1/namespaces/shop/persistentvolumeclaims", {
            "metadata": {"name": "data"}, "spec": {"volumeName": "pv"}})
        self.kube.put("/api/v1/persistentvolumes", {"metadata": {"name": "pv"}, "spec": {
            "csi": {"driver": "d.io", "volumeHandle": "v"},
            "claimRef": {"uid": claim["metadata"]["uid"]}}})
        self.snapshot("kept")
        (kept,) = self.kube.list(f"{SNAPSHOTS}/volumesnapshots")
        self.kube.change({"group": "snapshot.storage.k8s.io", "plural": "volumesnapshotcontents",
                          "ns": None, "name": "content-kept", "sub": None},
                         {"spec": {"source": {"volumeHandle": "v"}, "volumeSnapshotRef": {
                             "uid": kept["metadata"]["uid"]}}}, True, None)
        uploads = "/apis/velero.io/v2alpha1/namespaces/velero/datauploads"
        self.kube.put(uploads, {
            "metadata": {"name": "forged", "ownerReferences": [
                {"kind": "Backup", "name": "b1", "uid": owner["metadata"]["uid"]}]},
            "spec": {"datamover": "cairn", "snapshotType": "CSI", "sourcePVC": "data",
                     "sourceNamespace": "shop", "backupStorageLocation": "default",
                     "csiSnapshot": {"volumeSnapshot": "kept"}, "operationTimeout": "1s"}})

        def ended():
            (upload,) = self.kube.list(uploads)
            return (upload.get("status", {}).get("phase") == "Failed"
                    and not upload["metadata"].get("finalizers"))
        self.start_manager()
        self.wait(ended, "it has failed and is cleaned up")
        self.assertEqual(self.snapshots(), ["kept"])

    def cut(self, name, source=None, labels=None):
        """A VolumeSnapshot that Velero cut for Backup b1, with its content."""
        made = self.kube.put(f"{SNAPSHOTS}/namespaces/shop/volumesnapshots", {
            "metadata": {"name": name, "labels": {"velero.io/backup-name": "b1"}},
            "spec": {"source": source or {"persistentVolumeClaimName": "data"}},
            "status": {"boundVolumeSnapshotContentName": f"content-{name}"}})
        self.kube.put(f"{SNAPSHOTS}/volumesnapshotcontents", {
            "metadata": {"name": f"content-{name}", "labels": labels or {}},
            "spec": {"driver": "d.io", "deletionPolicy": "Retain",
                     "source": {"snapshotHandle": "h"} if source else {"volumeHandle": "v"},
                     "volumeSnapshotRef": {"namespace": "shop", "name": name,
                                           "uid": made["metadata"]["uid"]}},
            "status": {"snapshotHandle": f"h-{name}"}})

    def moved_by(self, uid, *names, location="default"):
        """DataUploads of Backup b1, one for each snapshot."""
        for name in names:
            self.kube.put(UPLOADS, {
                "metadata": {"name": name, "ownerReferences": [
                    {"kind": "Backup", "name": "b1", "uid": uid}]},
                "spec": {"datamover": "cairn", "snapshotType": "CSI", "sourcePVC": "data",
                         "sourceNamespace": "shop", "backupStorageLocation": location,
                         "csiSnapshot": {"volumeSnapshot": name}, "operationTimeout": "1h"}})

    def wait_failed(self, text):
        def ended():
            return all(upload.get("status", {}).get("phase") == "Failed"
                       and not upload["metadata"].get("finalizers")
                       for upload in self.kube.list(UPLOADS))
        self.wait(ended, "they have failed and are cleaned up")
        for upload in self.kube.list(UPLOADS):
            self.assertIn(text, upload["status"]["message"])

    def policies(self):
        return {item["metadata"]["name"]: item["spec"]["deletionPolicy"]
                for item in self.kube.list(f"{SNAPSHOTS}/volumesnapshotcontents")}

    def test_what_velero_cut_goes_when_the_claim_was_deleted_in_mid_backup(self):
        owner = self.backup(moves=True)
        self.cut("cut")
        self.cut("imported", {"volumeSnapshotContentName": "content-imported"})
        self.cut("kept", labels={"cairn.csi.dev/velero": "item-action"})
        self.moved_by(owner["metadata"]["uid"], "cut", "imported", "kept")
        self.start_manager()
        self.wait_failed("there is no PersistentVolumeClaim 'shop/data'")
        self.assertEqual(set(self.snapshots()), {"imported", "kept"})
        self.assertEqual(self.policies(), {"content-cut": "Delete", "content-imported": "Retain",
                                           "content-kept": "Retain"})

    def test_what_velero_cut_goes_when_the_backup_was_deleted_in_mid_backup(self):
        self.cut("cut")
        self.cut("imported", {"volumeSnapshotContentName": "content-imported"})
        self.cut("kept", labels={"cairn.csi.dev/velero": "item-action"})
        self.moved_by("gone", "cut", "imported", "kept")
        self.start_manager()
        self.wait_failed("there is no Backup 'velero/b1'")
        self.assertEqual(set(self.snapshots()), {"imported", "kept"})
        self.assertEqual(self.policies(), {"content-cut": "Delete", "content-imported": "Retain",
                                           "content-kept": "Retain"})

    def test_what_another_backup_of_the_name_cut_stays(self):
        self.backup(moves=True)
        self.cut("cut")
        self.moved_by("another", "cut")
        self.start_manager()
        self.wait_failed("Backup 'b1' is another one")
        self.assertEqual(self.snapshots(), ["cut"])
        self.assertEqual(self.policies(), {"content-cut": "Retain"})

    def restored(self, name, phase, noted="written"):
        """A DataDownload that the data mover has taken, and the volume that its Job wrote."""
        owner = self.kube.put(f"{VELERO}/restores", {"metadata": {"name": name},
                                                     "spec": {"backupName": "b1"}})
        return self.kube.put(DOWNLOADS, {
            "metadata": {"name": name, "finalizers": HELD,
                         "annotations": {"cairn.csi.dev/volume": noted} if noted else {},
                         "ownerReferences": [{"kind": "Restore", "name": name,
                                              "uid": owner["metadata"]["uid"]}]},
            "spec": {"datamover": "cairn", "snapshotID": "0123456789abcdef" * 4,
                     "targetVolume": {"namespace": "shop", "pvc": "data"}, "sourceNamespace": "shop",
                     "backupStorageLocation": "default", "operationTimeout": "1h"},
            "status": {"phase": phase}})

    def reclaimed(self):
        return {item["metadata"]["name"]: item["spec"]["persistentVolumeReclaimPolicy"]
                for item in self.kube.list(VOLUMES)}

    def test_volumes_that_forged_claims_name_keep_their_policy(self):
        """A claim with the name of a Job's, that names the volume of another one."""
        self.backup(moves=True)
        self.cut("cut")
        self.moved_by("gone", "cut")
        (upload,) = self.kube.list(UPLOADS)
        download = self.restored("canceled", "Canceling", noted=None)
        made = {f"cairn-upload-{upload['metadata']['uid']}": "theirs",
                f"cairn-download-{download['metadata']['uid']}": "others"}
        for claim, volume in made.items():
            self.kube.put(CLAIMS, {"metadata": {"name": claim}, "spec": {"volumeName": volume}})
            self.kube.put(VOLUMES, {
                "metadata": {"name": volume}, "status": {"phase": "Bound"},
                "spec": {"persistentVolumeReclaimPolicy": "Retain",
                         "claimRef": {"namespace": "shop", "name": "data"}}})
        self.start_manager()
        self.wait(lambda: not self.kube.list(CLAIMS), "the forged claims are gone")
        self.wait(lambda: not any(item["metadata"].get("finalizers") for item in (
            *self.kube.list(UPLOADS), *self.kube.list(DOWNLOADS))), "both have ended")
        self.assertEqual(self.reclaimed(), {"theirs": "Retain", "others": "Retain"})

    def test_a_restored_volume_whose_claim_was_deleted_goes(self):
        """Also where the class retains volumes; one that was handed over stays."""
        for name, phase, state in (("early", "InProgress", "Released"),
                                   ("late", "Completed", "Released"),
                                   ("canceled", "Canceling", "Bound")):
            uid = self.restored(name, phase)["metadata"]["uid"]
            self.kube.put(VOLUMES, {
                "metadata": {"name": f"cairn-download-{uid}",
                             "labels": {"cairn.csi.dev/run": uid[:8], "of": name}},
                "spec": {"persistentVolumeReclaimPolicy": "Retain",
                         "claimRef": {"namespace": "shop", "name": "data"}},
                "status": {"phase": state}})
        self.start_manager()
        self.wait(lambda: not any(item["metadata"].get("finalizers")
                                  for item in self.kube.list(DOWNLOADS)), "all have ended")
        self.assertIn("claim 'shop/data' was deleted", self.kube.get(f"{DOWNLOADS}/early")
                      ["status"]["message"])
        self.assertEqual({item["metadata"]["labels"]["of"]:
                          item["spec"]["persistentVolumeReclaimPolicy"]
                          for item in self.kube.list(VOLUMES)},
                         {"early": "Delete", "late": "Retain", "canceled": "Retain"})

    def share(self):
        """A location of a bucket to which another cluster writes."""
        self.kube.put(f"{VELERO}/backupstoragelocations", {
            "metadata": {"name": "shared"}, "spec": {
                "provider": "aws", "accessMode": "ReadOnly", "objectStorage": {"bucket": "b"},
                "config": {"region": "r", "s3Url": "http://127.0.0.1:1"}}})

    def test_nothing_is_moved_to_a_location_that_is_read_only(self):
        self.share()
        owner = self.backup(moves=True)
        claim = self.kube.put("/api/v1/namespaces/shop/persistentvolumeclaims", {
            "metadata": {"name": "data"}, "spec": {"volumeName": "pv"}})
        self.kube.put(VOLUMES, {"metadata": {"name": "pv"}, "spec": {
            "csi": {"driver": "d.io", "volumeHandle": "v"},
            "claimRef": {"uid": claim["metadata"]["uid"]}}})
        self.cut("cut")
        self.kube.change({"group": "snapshot.storage.k8s.io", "plural": "volumesnapshots",
                          "ns": "shop", "name": "cut", "sub": None},
                         {"status": {"readyToUse": True}}, True, None)
        self.moved_by(owner["metadata"]["uid"], "cut", location="shared")
        self.start_manager()
        self.wait_failed("BackupStorageLocation 'shared' is read-only")
        self.assertEqual(self.kube.list(JOBS), [])
        self.assertEqual(self.snapshots(), [])
        self.assertEqual(self.policies(), {"content-cut": "Delete"})

    def test_nothing_is_forgotten_in_a_location_that_is_read_only(self):
        where = {"group": "velero.io", "plural": "backupstoragelocations", "ns": "velero",
                 "name": "shared", "sub": None}
        self.share()
        self.kube.put("/api/v1/namespaces/velero/configmaps", {
            "metadata": {"name": "cairn-forget-x", "labels": {
                "cairn.csi.dev/forget": "true"}},
            "data": {"backupStorageLocation": "shared", "sourceNamespace": "shop",
                     "dataUploadUID": "u-1"}})
        self.start_manager()
        self.said("manager", "not forgotten in a location that is read-only")
        self.assertEqual(self.kube.list(JOBS), [])
        self.kube.change(where, {"spec": {"accessMode": "ReadWrite"}}, True, None)
        self.stop_in_order("manager")
        self.start_manager()
        self.wait(lambda: self.kube.list(JOBS), "it is forgotten")

    def test_an_upload_whose_location_was_changed_meanwhile_fails(self):
        """Its data would be where the BackupStorageLocation no longer points to."""
        owner = self.backup()
        self.kube.put(f"{VELERO}/backupstoragelocations", {
            "metadata": {"name": "moved"}, "spec": {
                "provider": "aws", "objectStorage": {"bucket": "b", "prefix": "new"},
                "config": {"region": "r", "s3Url": "http://127.0.0.1:1"}}})
        for name, repository in (("before", "another"), ("after", None)):
            upload = self.kube.put(UPLOADS, {
                "metadata": {"name": name, "finalizers": ["cairn.csi.dev/data-mover"],
                             "ownerReferences": [{"kind": "Backup", "name": "b1", "controller": True,
                                                  "uid": owner["metadata"]["uid"]}]},
                "spec": {"datamover": "cairn", "snapshotType": "CSI", "sourcePVC": "data",
                         "sourceNamespace": "shop", "backupStorageLocation": "moved",
                         "csiSnapshot": {"volumeSnapshot": "s"}, "operationTimeout": "1h"},
                "status": {"phase": "InProgress"}})
            job = f"cairn-upload-{upload['metadata']['uid']}"
            self.kube.logs[f"pod-{name}"] = "2026-11-18T00:00:00Z " + json.dumps(
                {"event": "summary", "id": "0123456789abcdef" * 4, "mode": "full",
                 "size_bytes": 5, "bytes_changed": 5}) + "\n"
            self.kube.put("/api/v1/namespaces/velero/pods", {
                "metadata": {"name": f"pod-{name}", "labels": {"job-name": job}},
                "status": {"phase": "Succeeded", "containerStatuses": [
                    {"state": {"terminated": {"exitCode": 0}}}]}})
            self.kube.put(JOBS, {
                "metadata": {"name": job, "labels": {
                    "cairn.csi.dev/repository": repository or self.repository_key()}},
                "status": {"conditions": [{"type": "Complete", "status": "True"}],
                           "completionTime": now()}})

        def status():
            return {item["metadata"]["name"]: item["status"] for item in self.kube.list(UPLOADS)}
        self.start_manager()
        self.wait(lambda: {one["phase"] for one in status().values()} <= {"Failed", "Completed"},
                  "both have ended")
        self.assertEqual(status()["after"]["phase"], "Completed", status())
        self.assertIn("'moved' was changed while the volume was moved",
                      status()["before"]["message"])

    @staticmethod
    def repository_key():
        """Of the repository that the location names now."""
        text = b"s3:http://127.0.0.1:1/b/new/restic/shop"
        return hashlib.sha256(text).hexdigest()[:16]


if __name__ == "__main__":
    unittest.main(verbosity=2)
