# SPDX-License-Identifier: Apache-2.0
"""A stock Velero server beside a node whose pods use volumes, and `cairn manager --velero` with the
rights of deploy/velero."""
import base64
import json
import os
import subprocess
import unittest

import movernode
import velerobed
from movernode import MANAGER, NAMESPACE
from velerobed import BUCKET, KEY, PEERS, REGION, SECRET

# pylint: disable=wrong-import-order
import cluster
import node
import test_node
from processes import wait_until

DEPLOY = cluster.REPOSITORY / "deploy"
KINDS = ("jobs", "pvc", "volumesnapshots", "pods", "configmaps")


class Velero(velerobed.Velero):
    """Its object store is where pods reach it."""

    def start_store(self):
        self.port = movernode.start_store(self.processes, PEERS["versitygw"], self.store, REGION,
                                          KEY, SECRET)

    def location(self):
        made = super().location()
        made["spec"]["config"]["s3Url"] = f"http://{node.ADDRESS}:{self.port}"
        return made


def skip_unless_possible():
    test_node.skip_unless_possible()


class MoverTest(movernode.NodeTest):
    VELERO = Velero

    @classmethod
    def setUpClass(cls):
        cls.start_node()
        cls.velero = cls.VELERO(cls.bed)
        cls.velero.environment["CSI_SNAPSHOT_EARLY_FREQUENT_POLLING"] = "true"
        cls.velero.prepare()
        for file in ("data-mover.yaml", "records.yaml"):
            cls.kube.apply(DEPLOY / "velero" / file)
        cls.kube.apply(cls.credentials())
        cls.kube.discover()
        cls.velero.start("--features=EnableCSI")
        cls.start_manager()

    @classmethod
    def credentials(cls):
        text = (cls.velero.directory / "credentials").read_bytes()
        return {"apiVersion": "v1", "kind": "Secret",
                "metadata": {"name": "cloud-credentials", "namespace": NAMESPACE},
                "data": {"cloud": base64.b64encode(text).decode()}}

    # ---- the cluster ----

    def uploads(self, backup):
        """{claim: DataUpload}"""
        listed = self.kube.get("-n", NAMESPACE, "datauploads", "-l",
                               f"velero.io/backup-name={backup}")
        return {item["spec"]["sourcePVC"]: item for item in listed["items"]}

    def back_up(self, name, space, *words):
        status = self.velero.backup(name, "--include-namespaces", space, "--snapshot-move-data",
                                    "--data-mover", "cairn", *words)
        if status["phase"] != "Completed":
            raise AssertionError(f"{status}\n{self.everything(space)}")
        return self.uploads(name)

    def left(self):
        found = [name for kind in KINDS for name in self.named(kind)]
        listed = self.kube.get("volumesnapshotcontent")
        found += [f"content {item['metadata']['name']}" for item in listed["items"]]
        listed = self.kube.get("volumesnapshot", "-A")
        found += [f"snapshot {item['metadata']['name']}" for item in listed["items"]]
        return found

    # ---- the repository ----

    def restic(self, space, *words):
        (secret,) = [item for item in self.kube.get("-n", NAMESPACE, "secrets")["items"]
                     if item["metadata"]["name"] == "velero-repo-credentials"]
        environment = {**os.environ, "RESTIC_PASSWORD": base64.b64decode(
            secret["data"]["repository-password"]).decode(), "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET, "RESTIC_CACHE_DIR": str(self.bed.directory / "cache")}
        place = f"s3:http://{node.ADDRESS}:{self.velero.port}/{BUCKET}/restic/{space}"
        done = subprocess.run([cluster.peers("restic")["restic"], "-r", place, *words], text=True,
                              env=environment, capture_output=True, timeout=300, check=False)
        if done.returncode != 0:
            raise AssertionError(f"restic {words}: {done.stdout}{done.stderr}")
        return done.stdout

    def snapshots(self, space):
        return [entry["id"] for entry in json.loads(
            self.restic(space, "snapshots", "--json", "--no-lock"))]  # a Job may be pruning


def main():
    skip_unless_possible()
    unittest.main(verbosity=2)


__all__ = ["MANAGER", "MoverTest", "NAMESPACE", "main", "wait_until"]
