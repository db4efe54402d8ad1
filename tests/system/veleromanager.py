# SPDX-License-Identifier: Apache-2.0
"""`cairn manager --velero` with an API server that the test plays, and what its tests put there."""
import gzip
import json
import pathlib
import tempfile

from fakekube import now
from rolesbed import RolesTest, wait_until

VELERO = "/apis/velero.io/v1/namespaces/velero"
SNAPSHOTS = "/apis/snapshot.storage.k8s.io/v1"
SNAPSHOTTER = "cairn.csi.dev/snapshotter"
SECONDS = 180  # only a hang reaches it
# What Velero 1.18 writes, and reads.
OLDER = {"spec": {"backupName": "b1", "backupUID": "u", "location": "loc",
                  "persistentVolumeName": "pv", "providerVolumeID": "v", "volumeType": "gold"},
         "status": {"providerSnapshotID": "d.io_5_F_h", "phase": "Completed"}}
GROUPS = "/apis/groupsnapshot.storage.k8s.io/v1"
DEPLOYED = ("velero/records.yaml", "velero/data-mover.yaml")
MOVED = "shop,default," + "0123456789abcdef" * 4


class ManagerTest(RolesTest):
    def prepare_kube(self):
        self.root = pathlib.Path(tempfile.mkdtemp(dir=self.directory))
        self.backups = self.root / "bkt" / "pre" / "backups"
        self.backups.mkdir(parents=True)
        self.kube.put(f"{VELERO}/backupstoragelocations", {
            "metadata": {"name": "default"}, "spec": {
                "provider": "cairn.csi.dev/directory",
                "objectStorage": {"bucket": "bkt", "prefix": "pre"}}})

    def start_manager(self, *words):
        self.start("manager", "manager", "--velero", "--velero-directories", self.root,
                   "--no-leader-elect", *words)
        self.said("manager", '"leading"')

    def backup(self, name="b1", phase="Completed", stored=True, moves=False, **files):
        """A Backup, and its files in the store."""
        if stored:
            (self.backups / name).mkdir()
            (self.backups / name / "velero-backup.json").write_text("{}")
        for key, value in files.items():
            text = gzip.compress(json.dumps(value).encode())
            (self.backups / name / f"{name}-{key}.json.gz").write_bytes(text)
        return self.kube.put(f"{VELERO}/backups", {
            "metadata": {"name": name},
            "spec": {"storageLocation": "default", "snapshotMoveData": moves},
            "status": {"phase": phase}})

    def set_phase(self, plural, name, phase):
        self.kube.change({"group": "velero.io", "plural": plural, "ns": "velero", "name": name,
                          "sub": None}, {"status": {"phase": phase}}, True, None)

    def progress(self, backup="b1", volume="pv", phase="Completed"):
        return self.kube.put(f"{VELERO}/volumepluginbackups", {
            "apiVersion": "velero.io/v1", "kind": "VolumePluginBackup",
            "metadata": {"name": f"velero-{volume}", "labels": {
                "velero.io/backup-name": backup, "velero.io/pv-name": volume}},
            "spec": {"backupName": backup, "provider": SNAPSHOTTER, "volume": volume,
                     "persistentVolumeName": volume, "backup": backup},
            "status": {"phase": phase, "snapshotID": "d.io_5_F_h", "message": "",
                       "progress": {"TotalBytes": 5, "BytesDone": 5}}})

    def snapshot(self, name, backup="b1", role="item-action", old=False, location="default",
                 moved="", group=None, kept=True, **labels):
        """As a plugin leaves it; not kept: as one that was killed early."""
        made = now(-3600) if old else now()
        self.kube.put(f"{SNAPSHOTS}/namespaces/shop/volumesnapshots", {
            "metadata": {"name": name, "creationTimestamp": made, "managedFields": [1],
                         "ownerReferences": [{"kind": "VolumeGroupSnapshot", "uid": group[0]}]
                         if group else [],
                         "annotations": {"cairn.csi.dev/storage-location": location}, "labels": {
                "velero.io/backup-name": backup, "cairn.csi.dev/velero": role,
                "velero.io/pv-name": "pv", **labels}},
            "spec": {"source": {"persistentVolumeClaimName": "data"}},
            "status": {"boundVolumeSnapshotContentName": f"content-{name}", "restoreSize": "5"}})
        self.kube.put(f"{SNAPSHOTS}/volumesnapshotcontents", {
            "metadata": {"name": f"content-{name}", "labels": {
                "velero.io/backup-name": backup, "cairn.csi.dev/velero": role} if kept else {},
                         "annotations": {"cairn.csi.dev/storage-location": location,
                                         "cairn.csi.dev/moved": moved, **({
                             "cairn.csi.dev/group-snapshot-handles": json.dumps(group)}
                             if group else {})}},
            "spec": {"driver": "d.io", "deletionPolicy": "Retain", "volumeSnapshotRef": {
                "namespace": "shop", "name": name}}, "status": {"snapshotHandle": f"h-{name}"}})

    def snapshots(self):
        return [item["metadata"]["name"] for item in self.kube.list(f"{SNAPSHOTS}/volumesnapshots")]

    def objects(self, plural="volumepluginbackups"):
        return self.kube.list(f"{VELERO}/{plural}")

    def file(self, name, backup="b1"):
        path = self.backups / backup / name
        return json.loads(gzip.decompress(path.read_bytes())) if path.exists() else None

    def wait(self, what, text):
        return wait_until(what, SECONDS, text)
