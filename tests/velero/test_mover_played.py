#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The data mover on a node, with DataUploads and DataDownloads that the test writes as Velero's item
actions do: the Velero server is played. test_mover.py has the real one."""
import base64
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cluster"))

# pylint: disable=wrong-import-position
import cluster
import node
import test_node
from processes import Failed, Ports, wait_until

MIB = 1 << 20
NAMESPACE, BUCKET, KEY, SECRET, PASSWORD = "velero", "bkt", "testkey", "testsecret123", "pw"
MANAGER = "cairn-manager"
SNAPSHOT, VELERO = "snapshot.storage.k8s.io/v1", "velero.io"
SUMS = "sha256sum /dev/raw; find /files -type f | sort | xargs sha256sum"
LIMIT = 300  # of one step; a busy machine is not a failure


def encode(text):
    return base64.b64encode(text.encode()).decode()


def secret(name, **data):
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": NAMESPACE},
            "data": {key.replace("_", "-"): encode(value) for key, value in data.items()}}


class Played(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.programs = cluster.peers("velero-crds", "versitygw", "restic")
        directory = pathlib.Path(tempfile.mkdtemp(prefix="cairn-mover-"))
        cls.bed = cls.enterClassContext(cluster.Cluster(directory, node=True))
        cls.kube, cls.pods = cls.bed.kube, test_node.Pods(cls.bed)
        cls.pods.install()
        cls.start_store()
        crds = pathlib.Path(cls.programs["velero-crds"])
        cls.kube.kubectl("apply", "--server-side", "-f", crds / "v1/bases", "-f",
                         crds / "v2alpha1/bases")
        cls.kube.wait_crds()
        cls.kube.namespace(NAMESPACE)
        cls.kube.apply([
            secret("cloud-credentials", cloud=f"[default]\naws_access_key_id={KEY}\n"
                                              f"aws_secret_access_key={SECRET}\n"),
            secret("velero-repo-credentials", repository_password=PASSWORD),
            {"apiVersion": f"{VELERO}/v1", "kind": "BackupStorageLocation",
             "metadata": {"name": "default", "namespace": NAMESPACE},
             "spec": {"provider": "aws", "objectStorage": {"bucket": BUCKET, "prefix": "some"},
                      "config": {"region": "us-east-1", "s3ForcePathStyle": "true",
                                 "s3Url": f"http://{node.ADDRESS}:{cls.port}"}}}])
        cls.kube.apply(cluster.REPOSITORY / "deploy/velero/data-mover.yaml")
        cls.kube.discover()
        cls.start_manager()

    @classmethod
    def start_store(cls):
        ports = Ports()
        cls.port = ports.take()
        ports.close()
        (cls.bed.directory / "s3" / BUCKET).mkdir(parents=True)
        cls.bed.processes.start("versitygw", [
            cls.programs["versitygw"], "-p", f"{node.ADDRESS}:{cls.port}", "--region", "us-east-1",
            "posix", cls.bed.directory / "s3"],
            {"ROOT_ACCESS_KEY": KEY, "ROOT_SECRET_KEY": SECRET})

        def accepts():
            with socket.socket() as probe:
                return probe.connect_ex((node.ADDRESS, cls.port)) == 0
        cls.bed.processes.wait_ready("versitygw", accepts)

    @classmethod
    def start_manager(cls):
        # There is no DNS here; the certificate is for the name that the object has.
        patch = cls.bed.directory / "patch.json"
        patch.write_text(json.dumps({"spec": {"template": {"spec": {"hostAliases": [
            {"ip": cls.pods.sidecar_address(), "hostnames": [test_node.SERVICE]}]}}}}))
        config = cls.kube.kubeconfig_of_account(NAMESPACE, "cairn-velero")
        cls.bed.processes.start(MANAGER, [
            cls.bed.cairn, "manager", "--velero", "--no-leader-elect", "--kubeconfig", config,
            "--velero-image", node.CAIRN, "--velero-job-patch", patch,
            "--log-level", "debug"])

    # ---- the cluster ----

    def application(self, space, claims):
        """A pod that only holds its claims: {name: mode}."""
        self.kube.namespace(space)
        for name, mode in claims.items():
            self.pods.csi.claim(name, "64Mi", mode, namespace=space, wait=False)
        self.hold(space, claims)

    def hold(self, space, claims):
        container = {"name": "main", "image": node.BUSYBOX, "imagePullPolicy": "Never",
                     "command": ["/bin/sh", "-ec", test_node.FOREVER],
                     "volumeMounts": [{"name": name, "mountPath": f"/{name}"}
                                      for name, mode in claims.items() if mode != "Block"],
                     "volumeDevices": [{"name": name, "devicePath": f"/dev/{name}"}
                                       for name, mode in claims.items() if mode == "Block"]}
        self.kube.apply({"apiVersion": "v1", "kind": "Pod",
                         "metadata": {"name": "app", "namespace": space},
                         "spec": {"terminationGracePeriodSeconds": 0, "containers": [container],
                                  "volumes": [{"name": name, "persistentVolumeClaim":
                                               {"claimName": name}} for name in claims]}})
        self.kube.wait(lambda pod: pod["status"]["phase"] == "Running", "-n", space, "pod", "app",
                       seconds=LIMIT)

    def execute(self, space, script):
        return self.kube.kubectl("exec", "-n", space, "app", "--", "/bin/sh", "-ec", script)

    def owner(self, kind, name, spec):
        self.kube.apply({"apiVersion": f"{VELERO}/v1", "kind": kind,
                         "metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec})
        made = self.kube.get("-n", NAMESPACE, f"{kind.lower()}s.velero.io", name)
        return [{"apiVersion": f"{VELERO}/v1", "kind": kind, "name": name, "controller": True,
                 "uid": made["metadata"]["uid"]}]

    def upload(self, backup, space, claim):
        """As the item action of claims does it."""
        owner = self.owner("Backup", backup, {"storageLocation": "default",
                                              "snapshotMoveData": True})
        name = f"{backup}-{claim}"
        self.kube.apply({"apiVersion": SNAPSHOT, "kind": "VolumeSnapshot",
                         "metadata": {"name": name, "namespace": space,
                                      "labels": {"velero.io/backup-name": backup}},
                         "spec": {"volumeSnapshotClassName": "cairn",
                                  "source": {"persistentVolumeClaimName": claim}}})
        self.kube.apply({"apiVersion": f"{VELERO}/v2alpha1", "kind": "DataUpload",
                         "metadata": {"name": name, "namespace": NAMESPACE,
                                      "ownerReferences": owner},
                         "spec": {"snapshotType": "CSI", "datamover": "cairn",
                                  "csiSnapshot": {"volumeSnapshot": name, "storageClass": "cairn",
                                                  "snapshotClass": "cairn"},
                                  "sourcePVC": claim, "sourceNamespace": space,
                                  "backupStorageLocation": "default", "operationTimeout": "10m0s"}})
        return name

    def download(self, restore, space, target, claim, backup_id, mode):
        """As the item action does it, before Velero makes the claim."""
        owner = self.owner("Restore", restore, {"backupName": "b", "namespaceMapping":
                                                {space: target}})
        name = f"{restore}-{claim}"
        label = {"velero.io/dynamic-pv-restore": f"{target}.{claim}.abcde"}
        self.kube.apply({"apiVersion": f"{VELERO}/v2alpha1", "kind": "DataDownload",
                         "metadata": {"name": name, "namespace": NAMESPACE,
                                      "ownerReferences": owner},
                         "spec": {"datamover": "cairn", "snapshotID": backup_id,
                                  "targetVolume": {"namespace": target, "pvc": claim, "pv": ""},
                                  "sourceNamespace": space, "backupStorageLocation": "default",
                                  "operationTimeout": "10m0s", "snapshotSize": 64 * MIB}})
        self.kube.namespace(target)
        self.kube.apply({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
                         "metadata": {"name": claim, "namespace": target},
                         "spec": {"accessModes": ["ReadWriteOnce"], "volumeMode": mode,
                                  "storageClassName": "cairn", "selector": {"matchLabels": label},
                                  "resources": {"requests": {"storage": "64Mi"}}}})
        return name

    def wait_phase(self, kind, name, *phases):
        """Its status in one of these phases, or in a last one."""
        last = {"Completed", "Failed", "Canceled", *phases}
        try:
            found = self.kube.wait(lambda one: one.get("status", {}).get("phase") in last, "-n",
                                   NAMESPACE, kind, name, seconds=LIMIT)["status"]
        except Failed as failed:
            raise AssertionError(f"{failed}\n{self.everything()}") from None
        self.assertIn(found["phase"], phases, f"{found}\n{self.everything()}")
        return found

    def everything(self):
        return "\n".join([
            self.kube.kubectl("get", "-A", "pods,pvc,jobs,volumesnapshots", "-o", "wide"),
            self.kube.kubectl("get", "pv,volumesnapshotcontents", "-o", "wide"),
            self.kube.kubectl("get", "-n", NAMESPACE, "events")[-4000:],
            self.bed.processes.log_tail(MANAGER, 40)])

    def left(self):
        found = []
        for kind in ("jobs", "pvc", "pods", "configmaps"):
            found += [f"{kind} {item['metadata']['name']}"
                      for item in self.kube.get("-n", NAMESPACE, kind)["items"]
                      if item["metadata"]["name"].startswith("cairn-")]
        for kind in ("volumesnapshot", "volumesnapshotcontent"):
            found += [f"{kind} {item['metadata']['name']}"
                      for item in self.kube.get(kind, "-A")["items"]]
        for kind in ("datauploads", "datadownloads"):
            found += [f"{kind} {item['metadata']['name']} is held"
                      for item in self.kube.get("-n", NAMESPACE, kind)["items"]
                      if item["metadata"].get("finalizers")]
        return found

    def volumes(self):
        return [item["metadata"]["name"] for item in self.kube.get("pv")["items"]
                if item["spec"].get("storageClassName") == "cairn"]

    def assert_nothing_left(self):
        try:
            wait_until(lambda: not self.left(), LIMIT, "nothing is left")
        except Failed as failed:
            raise AssertionError(f"{failed}: {self.left()}\n{self.everything()}") from None
        stored = json.loads(self.bed.node.cairn("snapshot", "list", "-o", "json"))["snapshots"]
        self.assertEqual(stored, [])

    def snapshots(self, space):
        place = f"s3:http://{node.ADDRESS}:{self.port}/{BUCKET}/some/restic/{space}"
        done = subprocess.run(
            [self.programs["restic"], "-r", place, "snapshots", "--json",
             "--no-lock"], text=True,  # a Job may be pruning
            env={**os.environ, "RESTIC_PASSWORD": PASSWORD, "AWS_ACCESS_KEY_ID": KEY,
                 "AWS_SECRET_ACCESS_KEY": SECRET,
                 "RESTIC_CACHE_DIR": str(self.bed.directory / "cache")},
            capture_output=True, timeout=LIMIT, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return {entry["id"] for entry in json.loads(done.stdout)}

    def forget(self, space, backup_id):
        """As the DeleteItemAction asks for it."""
        self.kube.apply({"apiVersion": "v1", "kind": "ConfigMap",
                         "metadata": {"name": f"cairn-forget-{backup_id[:40]}",
                                      "namespace": NAMESPACE,
                                      "labels": {"cairn.csi.dev/forget": "true"}},
                         "data": {"backupStorageLocation": "default", "sourceNamespace": space,
                                  "snapshotID": backup_id}})

    # ---- tests ----

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
        self.kube.kubectl("patch", "dataupload", "-n", NAMESPACE, name, "--type=merge", "-p",
                          '{"spec":{"cancel":true}}')
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

    def test_no_secret_is_logged(self):
        logged = self.bed.processes.log_text(MANAGER)
        self.assertIn("serving", logged)
        self.assertNotIn(SECRET, logged)


if __name__ == "__main__":
    test_node.skip_unless_possible()
    cluster.peers_or_skip("velero-crds", "versitygw", "restic")
    unittest.main(verbosity=2)
