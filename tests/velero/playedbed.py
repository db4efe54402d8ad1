# SPDX-License-Identifier: Apache-2.0
"""A node with the data mover, and a test that writes DataUploads and DataDownloads as Velero's item
actions do."""
import base64
import json
import os
import pathlib
import subprocess
import unittest

import movernode
from movernode import LIMIT, MANAGER, NAMESPACE

# pylint: disable=wrong-import-order
import cluster
import node
import test_node
from processes import Failed, wait_until

DEPLOY = cluster.REPOSITORY / "deploy/velero"
MIB = 1 << 20
REGION, BUCKET, KEY, SECRET, PASSWORD = "us-east-1", "bkt", "testkey", "testsecret123", "pw"
SNAPSHOT, VELERO = "snapshot.storage.k8s.io/v1", "velero.io"
SUMS = "sha256sum /dev/raw; find /files -type f | sort | xargs sha256sum"


def encode(text):
    return base64.b64encode(text.encode()).decode()


def secret(name, **data):
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": NAMESPACE},
            "data": {key.replace("_", "-"): encode(value) for key, value in data.items()}}


class Played(movernode.NodeTest):
    @classmethod
    def setUpClass(cls):
        cls.programs = cluster.peers("velero-crds", "versitygw", "restic")
        cls.start_node()
        store = cls.bed.directory / "s3"
        (store / BUCKET).mkdir(parents=True)
        cls.port = movernode.start_store(cls.bed.processes, cls.programs["versitygw"], store,
                                         REGION, KEY, SECRET)
        crds = pathlib.Path(cls.programs["velero-crds"])
        cls.kube.kubectl("apply", "--server-side", "-f", crds / "v1/bases", "-f",
                         crds / "v2alpha1/bases")
        cls.kube.kubectl("apply", "--server-side", "-k", DEPLOY / "crd")
        cls.kube.wait_crds()
        cls.kube.namespace(NAMESPACE)
        cls.kube.apply([
            secret("cloud-credentials", cloud=f"[default]\naws_access_key_id={KEY}\n"
                                              f"aws_secret_access_key={SECRET}\n"),
            secret("velero-repo-credentials", repository_password=PASSWORD),
            {"apiVersion": f"{VELERO}/v1", "kind": "BackupStorageLocation",
             "metadata": {"name": "default", "namespace": NAMESPACE},
             "spec": {"provider": "aws", "objectStorage": {"bucket": BUCKET, "prefix": "some"},
                      "config": {"region": REGION, "s3ForcePathStyle": "true",
                                 "s3Url": f"http://{node.ADDRESS}:{cls.port}"}}}])
        for file in ("data-mover.yaml", "records.yaml"):
            cls.kube.apply(DEPLOY / file)
        cls.kube.discover()
        cls.start_manager()

    # ---- the cluster ----

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

    def change(self, plural, name, spec):
        """Without kubectl: on a busy machine that starts when what it is to change has ended."""
        self.kube.request("PATCH", f"/apis/{VELERO}/v2alpha1/namespaces/{NAMESPACE}/{plural}/{name}",
                          {"spec": spec}, content_type="application/merge-patch+json")

    def wait_phase(self, kind, name, *phases):
        """Its status in one of these phases, or in a last one."""
        last = {"Completed", "Failed", "Canceled", *phases}
        try:
            found = self.kube.wait(lambda one: one.get("status", {}).get("phase") in last, "-n",
                                   NAMESPACE, kind, name, seconds=LIMIT)["status"]
        except Failed as failed:
            raise AssertionError(f"{failed}\n{self.everything('default')}") from None
        self.assertIn(found["phase"], phases, f"{found}\n{self.everything('default')}")
        return found

    def left(self):
        found = [name for kind in ("jobs", "pvc", "pods", "configmaps") for name in self.named(kind)]
        for kind in ("volumesnapshot", "volumesnapshotcontent"):
            found += [f"{kind} {item['metadata']['name']}"
                      for item in self.kube.get(kind, "-A")["items"]]
        for kind in ("datauploads", "datadownloads"):
            found += [f"{kind} {item['metadata']['name']} is held"
                      for item in self.kube.get("-n", NAMESPACE, kind)["items"]
                      if item["metadata"].get("finalizers")]
        return found

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


def main():
    test_node.skip_unless_possible()
    cluster.peers_or_skip("velero-crds", "versitygw", "restic")
    unittest.main(verbosity=2)


__all__ = ["LIMIT", "MANAGER", "MIB", "NAMESPACE", "SECRET", "SNAPSHOT", "SUMS", "VELERO", "Played",
           "main", "wait_until"]
