# SPDX-License-Identifier: Apache-2.0
"""The volume snapshotter of `cairn-velero-plugin`, called as Velero calls it, with a real control plane,
the controllers of CSI and `cairn driver`, and `cairn manager --velero` with an object store; without a
Velero server. Both have exactly the rights of deploy/velero. The API server's audit log shows that
nothing was refused, and that rights to watch and to read Secrets are needed; the tests
velero/upload, velero/group and velero/manager show it of the others."""
import base64
import json
import os
import pathlib
import sys
import tempfile
import threading
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "cluster"), str(HERE.parent / "system")]

# pylint: disable=wrong-import-position
import cluster
import veleroplugin
from controlplane import LOOPBACK, accepts
from csistack import CsiStack
from processes import Ports, wait_until
from rights import ACCOUNT, Audit, Rights

PEERS = cluster.peers_or_skip(*cluster.CONTROL_PLANE, *CsiStack.PROGRAMS, "snapshot-crds",
                              "velero-crds", "versitygw")
DEPLOY = HERE.parents[1] / "deploy/velero"
NAME = "cairn.csi.dev/snapshotter"
MONDAY, TUESDAY = b"monday" * 1000, b"tuesday" * 1000
ID = "0123456789abcdef" * 4  # of a backup in the repository
ROLES = ("cairn-velero-plugin", "cairn-velero-records")
PERIOD = 2  # seconds; leftovers are swept after twice that
LIMIT = 180
HOLD = "example.org/hold"  # a finalizer: the object stays until the test takes it away
MOVER = "/apis/velero.io/v2alpha1/namespaces/velero"


class SnapshotterOnCsi(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        directory = pathlib.Path(tempfile.mkdtemp(prefix="cairn-velero-csi-"))
        cls.audit = Audit(directory)
        cls.bed = cls.enterClassContext(cluster.Cluster(directory, csi=True,
                                                        apiserver_args=cls.audit.words))
        cls.kube, cls.csi = cls.bed.kube, cls.bed.csi
        crds = pathlib.Path(PEERS["velero-crds"])
        cls.kube.kubectl("apply", "--server-side", "-f", crds / "v1/bases", "-f",
                         crds / "v2alpha1/bases")
        cls.kube.kubectl("apply", "--server-side", "-k", DEPLOY / "crd")
        cls.kube.wait_crds()
        cls.kube.discover()
        cls.kube.namespace("velero")
        cls.kube.service_account("velero", "velero")
        for file in ("plugin.yaml", "data-mover.yaml", "records.yaml"):
            cls.kube.apply(DEPLOY / file)
        cls.kube.apply({"apiVersion": "velero.io/v1", "kind": "Backup",
                        "metadata": {"name": "b1", "namespace": "velero"},
                        "spec": {"storageLocation": "default"}})
        config = cls.kube.kubeconfig_of_account("velero", "velero")
        cls.plugin = veleroplugin.Plugin("--kubeconfig", config, scratch=directory)
        cls.plugin.seconds = LIMIT
        cls.addClassCleanup(cls.plugin.process.kill)

    def ask(self, name, **fields):
        return self.plugin.call(veleroplugin.SNAPSHOTTER, "VolumeSnapshotter", name, plugin=NAME,
                                **fields)

    def configure(self, **config):
        request = veleroplugin.SNAPSHOTTER.SnapshotterInitRequest(plugin=NAME, config=config)
        self.plugin.channel.unary_unary(
            "/generated.VolumeSnapshotter/Init", request.SerializeToString,
            veleroplugin.SHARED.Empty.FromString)(request, timeout=LIMIT)

    def storage_snapshots(self):
        return [entry["id"] for entry in json.loads(
            self.csi.cairn("snapshot", "list", "-o", "json"))["snapshots"]]

    def left(self):
        """Objects that a restore must not leave."""
        return [f"{kind} {item['metadata']['name']}" for kind in (
            "pvc", "volumesnapshot", "volumesnapshotcontent", "pv")
                for item in self.kube.get("-A", kind)["items"]
                if item["metadata"].get("labels", {}).get("cairn.csi.dev/velero") == "restore"]

    def test_a_volume_is_snapshotted_restored_and_its_snapshot_deleted(self):
        self.kube.namespace("shop")
        self.csi.claim("data", namespace="shop")
        path = self.csi.volume_file("data", "shop")
        with open(path, "r+b") as file:
            file.write(MONDAY)
            os.fsync(file.fileno())
        volume = self.kube.get("-n", "shop", "pvc", "data")["spec"]["volumeName"]
        pv = self.kube.get("pv", volume)
        pv.update(apiVersion="v1", kind="PersistentVolume")
        volume_id = self.ask("GetVolumeID", persistent_volume=json.dumps(pv).encode()).volume_id
        kind = self.ask("GetVolumeInfo", volume_id=volume_id).volume_type
        tags = {"velero.io/backup": "b1", "velero.io/pv": volume}
        snapshot = self.ask("CreateSnapshot", volume_id=volume_id, tags=tags).snapshot_id
        (handle,) = self.storage_snapshots()
        self.assertTrue(snapshot.endswith(handle), snapshot)
        self.assertEqual(self.ask("CreateSnapshot", volume_id=volume_id, tags=tags).snapshot_id,
                         snapshot)
        self.assertEqual(self.storage_snapshots(), [handle])
        with open(path, "r+b") as file:
            file.write(TUESDAY)

        made = self.ask("CreateVolumeFromSnapshot", snapshot_id=snapshot,
                        volume_type=kind).volume_id
        self.assertNotEqual(made, volume_id)
        pv["spec"].pop("claimRef")
        pv["metadata"] = {"name": "restored"}
        pv = json.loads(self.ask("SetVolumeID", volume_id=made, persistent_volume=json.dumps(
            pv).encode()).persistent_volume)
        self.assertEqual(pv["spec"]["csi"]["volumeHandle"], made)
        pv.pop("status")
        self.kube.apply(pv)
        self.kube.apply({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
                         "metadata": {"name": "copy", "namespace": "shop"},
                         "spec": {"volumeName": "restored", "accessModes": ["ReadWriteOnce"],
                                  "storageClassName": kind, "volumeMode": pv["spec"]["volumeMode"],
                                  "resources": {"requests": pv["spec"]["capacity"]}}})
        self.kube.wait(lambda found: found["status"].get("phase") == "Bound",
                       "-n", "shop", "pvc", "copy")
        with open(self.csi.volume_file("copy", "shop"), "rb") as file:
            self.assertEqual(file.read(len(MONDAY)), MONDAY)
        wait_until(lambda: not self.left(), 180, "nothing of the restore is left")
        self.assertEqual(self.storage_snapshots(), [handle])
        for kind, phase in (("volumepluginbackups", "Completed"),
                            ("volumepluginrestores", "Completed")):
            (item,) = self.kube.get("-n", "velero", kind)["items"]
            self.assertEqual(item["status"]["phase"], phase)

        # The namespace goes, and the VolumeSnapshot with it; the snapshot is still restored.
        self.kube.delete("namespace", "shop")
        self.assertEqual(self.storage_snapshots(), [handle])
        self.ask("DeleteSnapshot", snapshot_id=snapshot)
        self.assertEqual(self.storage_snapshots(), [])
        self.assertEqual(self.kube.get("volumesnapshotcontent")["items"], [])
        self.assertEqual(self.kube.get("-n", "velero", "volumepluginbackups")["items"], [])

    def test_claims_of_a_group_are_cut_together_and_deleted_together(self):
        """Item actions, with the controllers of group snapshots."""
        self.kube.namespace("group")
        for name in ("one", "two"):
            self.csi.claim(name, namespace="group")
            self.kube.kubectl("label", "-n", "group", "pvc", name, "velero.io/volume-group=db")
        backup = {"metadata": self.kube.get("-n", "velero", "backups.velero.io", "b1")["metadata"],
                  "spec": {}}
        contents = []
        for name in ("one", "two"):
            item = {**self.kube.get("-n", "group", "pvc", name), "apiVersion": "v1",
                    "kind": "PersistentVolumeClaim"}
            done = self.plugin.back_up(veleroplugin.PVC, item, backup)
            contents += [self.kube.get("volumesnapshotcontent", entry.name)
                         for entry in done.additional_items
                         if entry.resource == "volumesnapshotcontents"]
        self.assertEqual(len({item["status"]["volumeGroupSnapshotHandle"] for item in contents}), 1)
        self.assertEqual(len(self.storage_snapshots()), 2)
        (group,) = self.kube.get("-n", "group", "volumegroupsnapshots")["items"]
        self.assertTrue(group["metadata"]["name"].startswith("velero-"))

        self.kube.delete("namespace", "group")
        self.assertEqual(len(self.storage_snapshots()), 2, "a deleted namespace keeps its backup")
        for item in contents:
            item.update(apiVersion="snapshot.storage.k8s.io/v1", kind="VolumeSnapshotContent")
            self.plugin.call(veleroplugin.SHARED, "DeleteItemAction", "Execute",
                             plugin=veleroplugin.VSC, item=json.dumps(item).encode(),
                             backup=json.dumps(backup).encode())
        wait_until(lambda: not self.storage_snapshots(), 120, "the storage's group is gone")
        for kind in ("volumesnapshotcontent", "volumegroupsnapshotcontent"):
            self.assertEqual(self.kube.get(kind)["items"], [])

    # ---- copies; the test plays the data mover ----

    def move(self, plural, step):
        """Waits for a request and takes it; ends it after `step`."""
        def first():
            listed = self.kube.request("GET", f"{MOVER}/{plural}")["items"]
            return next((item for item in listed if not item.get("status", {}).get("phase")), None)
        made = wait_until(first, LIMIT, f"a request in {plural}")
        for status in ({"phase": "Accepted"}, {"phase": "InProgress"},
                       {"phase": "Completed", "snapshotID": ID}):
            if status["phase"] == "Completed":
                step(made)
            self.kube.request("PATCH", f"{MOVER}/{plural}/{made['metadata']['name']}",
                              {"status": status}, content_type="application/merge-patch+json")

    def moving(self, plural, step=lambda made: None):
        thread = threading.Thread(target=self.move, args=(plural, step), daemon=True)
        thread.start()
        return thread

    def provide(self, volume):
        """A volume for the claim that a DataDownload names: of another claim, as a mover has it."""
        def step(made):
            claim = self.kube.get("-n", "velero", "pvc", made["spec"]["targetVolume"]["pvc"])
            source = self.kube.get("pv", volume)
            self.kube.apply({
                "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {
                    "name": "moved", "labels": claim["spec"].get("selector", {}).get(
                        "matchLabels", {})},
                "spec": {**{key: source["spec"][key] for key in (
                    "accessModes", "capacity", "storageClassName", "volumeMode")},
                         "csi": {"driver": source["spec"]["csi"]["driver"],
                                 "volumeHandle": "vol-moved"},
                         "persistentVolumeReclaimPolicy": "Retain",
                         "claimRef": {"namespace": "velero", "name": claim["metadata"]["name"]}}})
        return step

    def test_snapshots_are_copied_and_restored_from_the_copy(self):
        self.kube.namespace("copied")
        self.csi.claim("data", namespace="copied")
        volume = self.kube.get("-n", "copied", "pvc", "data")["spec"]["volumeName"]
        handle = self.kube.get("pv", volume)["spec"]["csi"]["volumeHandle"]
        before = set(self.storage_snapshots())
        self.configure(upload="true")
        self.addCleanup(self.configure)
        mover = self.moving("datauploads")
        snapshot = self.ask("CreateSnapshot", volume_id=handle, tags={
            "velero.io/backup": "b1", "velero.io/pv": volume}).snapshot_id
        mover.join(LIMIT)
        self.assertIn(ID, snapshot)
        # The storage's is lost.
        (stored,) = [entry for entry in json.loads(self.csi.cairn(
            "snapshot", "list", "-o", "json"))["snapshots"] if entry["id"] not in before]
        self.csi.cairn("snapshot", "delete", f"{stored['volume']}@{stored['name']}")
        self.kube.apply({"apiVersion": "velero.io/v1", "kind": "Restore",
                         "metadata": {"name": "r1", "namespace": "velero"},
                         "spec": {"backupName": "b1"}, "status": {"phase": "InProgress"}})
        mover = self.moving("datadownloads", self.provide(volume))
        made = self.ask("CreateVolumeFromSnapshot", snapshot_id=snapshot,
                        volume_type="cairn").volume_id
        mover.join(LIMIT)
        self.assertEqual(made, "vol-moved")
        self.ask("DeleteSnapshot", snapshot_id=snapshot)
        self.kube.delete("namespace", "copied")

    # ---- the manager ----

    def start_store(self):
        store = self.bed.directory / "s3"
        (store / "bkt/backups/b9").mkdir(parents=True)
        (store / "bkt/backups/b9/velero-backup.json").write_text("{}")
        ports = Ports()
        port = ports.take()
        self.bed.processes.start("versitygw", [
            PEERS["versitygw"], "-p", f"{LOOPBACK}:{port}", "--region", "r", "posix", store],
            {"ROOT_ACCESS_KEY": "key", "ROOT_SECRET_KEY": "secret123"})
        self.bed.processes.wait_ready("versitygw", lambda: accepts(port))
        ports.close()
        keys = b"[default]\naws_access_key_id=key\naws_secret_access_key=secret123\n"
        self.kube.apply([
            {"apiVersion": "v1", "kind": "Secret",
             "metadata": {"name": "cloud-credentials", "namespace": "velero"},
             "data": {"cloud": base64.b64encode(keys).decode()}},
            {"apiVersion": "velero.io/v1", "kind": "BackupStorageLocation",
             "metadata": {"name": "default", "namespace": "velero"},
             "spec": {"provider": "aws", "objectStorage": {"bucket": "bkt"},
                      "config": {"region": "r", "s3ForcePathStyle": "true",
                                 "s3Url": f"http://{LOOPBACK}:{port}"}}}])

    def is_watched_by_manager(self, resource):
        return any(event["user"]["username"] == f"{ACCOUNT}velero:cairn-velero" and
                   event["verb"] == "watch" and
                   event.get("objectRef", {}).get("resource") == resource
                   for event in self.audit.events())

    def let_go(self, resource, name):
        """Removes the test's finalizer; false if a controller has removed one of its own meanwhile,
        which must not be written again."""
        held = self.kube.get(resource, name)["metadata"]["finalizers"]
        path = f"/metadata/finalizers/{held.index(HOLD)}"
        return self.kube.run("patch", resource, name, "--type=json", "-p", json.dumps([
            {"op": "test", "path": path, "value": HOLD},
            {"op": "remove", "path": path}])).returncode == 0

    def test_the_manager_removes_leftovers_of_a_store(self):
        """Snapshots and a group of a backup that does not exist; its credentials are a Secret's."""
        labels = {"velero.io/backup-name": "none", "cairn.csi.dev/velero": "item-action"}
        self.kube.namespace("left")
        self.start_store()
        self.csi.claim("data", namespace="left")
        self.csi.snapshot("lost", "data", namespace="left")
        self.kube.kubectl("label", "-n", "left", "pvc", "data", "group=lost")
        self.kube.apply({"apiVersion": "groupsnapshot.storage.k8s.io/v1",
                         "kind": "VolumeGroupSnapshot",
                         "metadata": {"name": "lost", "namespace": "left", "labels": labels},
                         "spec": {"volumeGroupSnapshotClassName": "cairn", "source": {
                             "selector": {"matchLabels": {"group": "lost"}}}}})
        self.kube.wait(lambda made: made.get("status", {}).get("readyToUse"), "-n", "left",
                       "volumegroupsnapshot", "lost", seconds=LIMIT)
        single = self.kube.get("-n", "left", "volumesnapshot", "lost")
        member, = (found for found in self.kube.get("-n", "left", "volumesnapshots")["items"]
                   if found["metadata"].get("ownerReferences"))
        content, of_member = (self.kube.get("volumesnapshotcontent", found["status"][
            "boundVolumeSnapshotContentName"]) for found in (single, member))
        group = self.kube.get("-n", "left", "volumegroupsnapshot", "lost")["status"][
            "boundVolumeGroupSnapshotContentName"]
        handles = [self.kube.get("volumegroupsnapshotcontent", group)["status"][
            "volumeGroupSnapshotHandle"], of_member["status"]["snapshotHandle"]]
        for found in (single, member, content, of_member):
            found["metadata"].setdefault("labels", {}).update(labels)
            found["metadata"].setdefault("annotations", {})[
                "cairn.csi.dev/storage-location"] = "default"
        of_member["metadata"]["annotations"]["cairn.csi.dev/group-snapshot-handles"] = \
            json.dumps(handles)
        for found in (single, member, content, of_member):
            self.kube.kubectl("patch", found["kind"].lower(), found["metadata"]["name"], *(
                ("-n", "left") if found["kind"] == "VolumeSnapshot" else ()), "--type=merge", "-p",
                json.dumps({"metadata": {key: found["metadata"][key]
                                         for key in ("labels", "annotations")}}))
        content = content["metadata"]["name"]
        slow = (("volumesnapshotcontents", content), ("volumegroupsnapshotcontents", group))
        for words in slow:
            self.kube.kubectl("patch", *words, "--type=json", "-p", json.dumps([
                {"op": "add", "path": "/metadata/finalizers/-", "value": HOLD}]))
        config = self.kube.kubeconfig_of_account("velero", "cairn-velero")
        self.bed.processes.start("manager", [
            self.bed.cairn, "manager", "--velero", "--kubeconfig", config, "--velero-period",
            f"{PERIOD}s", "--log-level", "debug"])
        for words in slow:
            wait_until(lambda resource=words[0]: self.is_watched_by_manager(resource), LIMIT,
                       f"{words} is slow to go, and watched")
            wait_until(lambda words=words: self.let_go(*words), LIMIT, f"{words} may go")
        self.kube.wait_gone("-n", "left", "volumesnapshot", "lost", seconds=LIMIT)
        self.kube.wait_gone("-n", "left", "volumegroupsnapshot", "lost", seconds=LIMIT)
        self.kube.wait(lambda found: not found["items"], "volumegroupsnapshotcontents",
                       seconds=LIMIT)
        self.bed.processes.stop("manager")
        self.kube.delete("namespace", "left")

    # ---- after the others ----

    def test_without_any_one_right_something_is_refused(self):
        """To watch, and to read Secrets. velero/group shows that the plugin needs the one left out."""
        self.maxDiff = None
        rights = Rights(self.kube, self.audit)
        self.assertEqual(rights.refused(f"{ACCOUNT}velero:"), {})
        looked_at = {role: {str(right): why for right, why in found.items()
                            if right.verb == "watch" or right.resource == "secrets"}
                     for role, found in rights.witnesses(ROLES).items()}
        for role, found in looked_at.items():
            self.assertTrue(found, role)
            self.assertEqual([right for right, why in found.items() if not why and not (
                role == "cairn-velero-plugin" and "volumegroupsnapshotcontents" in right)], [],
                             role)


if __name__ == "__main__":
    unittest.main(verbosity=2)
