# SPDX-License-Identifier: Apache-2.0
"""A stock Velero server beside a control plane with `cairn driver`: object store, plugins, and
what tests ask of it.

Velero listens on port 8080 of all addresses and cannot be told otherwise, so the program that
imports this gets a network of its own first. There is no kubelet.
"""
import gzip
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cluster"))

# pylint: disable=wrong-import-position
import cluster
from controlplane import LOOPBACK, accepts
from csistack import CsiStack
from node import enter_new_network
from processes import Failed, Ports, wait_until

VELERO = ["velero", "velero-crds", "velero-plugin-for-aws", "versitygw"]
PEERS = cluster.peers_or_skip(*cluster.CONTROL_PLANE, *CsiStack.PROGRAMS, "snapshot-crds", *VELERO)
PLUGIN = pathlib.Path(os.environ["CAIRN_VELERO_PLUGIN"])
NAMESPACE, BUCKET, REGION = "velero", "bkt", "us-east-1"
KEY, SECRET = "testkey", "testsecret123"
SECONDS = 180  # of one command; a busy machine is not a failure


class Velero:
    def __init__(self, bed):
        self.bed, self.kube, self.processes = bed, bed.kube, bed.processes
        self.directory = bed.directory / "velero"
        self.plugins, self.store = self.directory / "plugins", self.directory / "s3"
        self.environment = {"HOME": str(self.directory), "TMPDIR": str(self.directory / "tmp"),
                            "AWS_SHARED_CREDENTIALS_FILE": str(self.directory / "credentials"),
                            "AWS_EC2_METADATA_DISABLED": "true", "VELERO_NAMESPACE": NAMESPACE}

    def prepare(self):
        for part in (self.plugins, self.store / BUCKET, self.directory / "tmp"):
            part.mkdir(parents=True)
        shutil.copy(PEERS["velero-plugin-for-aws"], self.plugins)
        shutil.copy(PLUGIN, self.plugins / "cairn-velero-plugin")
        (self.directory / "credentials").write_text(
            f"[default]\naws_access_key_id={KEY}\naws_secret_access_key={SECRET}\n")
        self.start_store()
        crds = pathlib.Path(PEERS["velero-crds"])
        self.kube.kubectl("apply", "--server-side", "-f", crds / "v1/bases",
                          "-f", crds / "v2alpha1/bases")
        self.kube.wait_crds()
        self.kube.namespace(NAMESPACE)
        self.kube.apply([self.location(), self.deployment()])

    def start_store(self):
        ports = Ports()
        self.port = ports.take()
        self.processes.start("versitygw", [
            PEERS["versitygw"], "-p", f"{LOOPBACK}:{self.port}", "--region", REGION, "posix",
            self.store], {"ROOT_ACCESS_KEY": KEY, "ROOT_SECRET_KEY": SECRET})
        self.processes.wait_ready("versitygw", lambda: accepts(self.port))
        ports.close()

    def location(self):
        return {"apiVersion": "velero.io/v1", "kind": "BackupStorageLocation",
                "metadata": {"name": "default", "namespace": NAMESPACE},
                "spec": {"provider": "aws", "default": True, "objectStorage": {"bucket": BUCKET},
                         "config": {"region": REGION, "s3ForcePathStyle": "true",
                                    "s3Url": f"http://{LOOPBACK}:{self.port}",
                                    "checksumAlgorithm": ""}}}

    @staticmethod
    def deployment():
        """A restore reads it."""
        labels = {"deploy": "velero"}
        return {"apiVersion": "apps/v1", "kind": "Deployment",
                "metadata": {"name": "velero", "namespace": NAMESPACE},
                "spec": {"replicas": 0, "selector": {"matchLabels": labels},
                         "template": {"metadata": {"labels": labels},
                                      "spec": {"containers": [
                                          {"name": "velero", "image": "velero/velero"}]}}}}

    def start(self, *words):
        """The server; `words` are more of its flags."""
        self.processes.start("velero", [
            PEERS["velero"], "server", f"--kubeconfig={self.kube.kubeconfig}", "--namespace",
            NAMESPACE, "--plugin-dir", self.plugins, "--metrics-address", f"{LOOPBACK}:18085",
            "--profiler-address", f"{LOOPBACK}:16060", "--item-operation-sync-frequency", "1s",
            *words], self.environment)
        self.processes.wait_ready("velero", self.is_available)

    def is_available(self):
        found = self.kube.get("-n", NAMESPACE, "backupstoragelocations", "default")
        return found and found.get("status", {}).get("phase") == "Available" and (
            "Starting controllers" in self.processes.log_text("velero")
            or "Server started" in self.processes.log_text("velero"))

    def stop(self):
        self.processes.stop("velero")

    def start_manager(self, *words):
        """`cairn manager --velero` beside it, with its credentials."""
        self.processes.start("manager", [
            os.environ["CAIRN_BIN"], "manager", "--velero", "--kubeconfig", self.kube.kubeconfig,
            "--velero-namespace", NAMESPACE, "--velero-period", "60s", "--log-level", "info",
            *words], {**os.environ, **self.environment})
        self.processes.wait_ready(
            "manager", lambda: "leading" in self.processes.log_text("manager"))

    def progress_kinds(self):
        """The CRDs of deploy/velero, and a VolumeSnapshotLocation of ours."""
        self.kube.kubectl("apply", "--server-side", "-k",
                          pathlib.Path(__file__).resolve().parents[2] / "deploy/velero/crd")
        self.kube.wait_crds()
        self.kube.discover()
        self.kube.apply({"apiVersion": "velero.io/v1", "kind": "VolumeSnapshotLocation",
                         "metadata": {"name": "cairn", "namespace": NAMESPACE},
                         "spec": {"provider": "cairn.csi.dev/snapshotter"}})

    def run(self, *words):
        done = subprocess.run([PEERS["velero"], "--kubeconfig", self.kube.kubeconfig,
                               "--namespace", NAMESPACE, *map(str, words)], text=True,
                              env={**os.environ, **self.environment}, stdin=subprocess.DEVNULL,
                              capture_output=True, timeout=SECONDS, check=False)
        if done.returncode != 0:
            raise AssertionError(f"velero {words}: {done.stdout}{done.stderr}")
        return done.stdout

    def backup(self, name, *words):
        """Its status, when it has ended."""
        self.run("backup", "create", name, *words, "--wait")
        return self.kube.get("-n", NAMESPACE, "backups.velero.io", name)["status"]

    def restore(self, name, backup, *words):
        self.run("restore", "create", name, "--from-backup", backup, *words, "--wait")
        return self.kube.get("-n", NAMESPACE, "restores.velero.io", name)["status"]

    def delete(self, name):
        self.run("backup", "delete", name, "--confirm")
        self.kube.wait_gone("-n", NAMESPACE, "backups.velero.io", name, seconds=SECONDS)

    def file(self, backup, name):
        """A file of a backup in the object store, unpacked."""
        path = self.store / BUCKET / "backups" / backup / name
        return gzip.decompress(path.read_bytes()).decode() if path.exists() else ""

    def path(self, backup, name):
        return self.store / BUCKET / "backups" / backup / name

    def log(self, backup):
        return self.file(backup, f"{backup}-logs.gz")

    def items(self, backup):
        """{path below resources/: object} of the tarball."""
        found = {}
        with tarfile.open(self.store / BUCKET / "backups" / backup / f"{backup}.tar.gz") as tar:
            for entry in tar.getmembers():
                parts = entry.name.split("/")
                if parts[0] == "resources" and parts[2] in ("namespaces", "cluster"):
                    found["/".join(parts[1:])] = json.load(tar.extractfile(entry))
        return found


class VeleroTest(unittest.TestCase):
    """One control plane and one server for all tests of a class."""

    FLAGS, VELERO = (), Velero

    @classmethod
    def setUpClass(cls):
        directory = pathlib.Path(tempfile.mkdtemp(prefix="cairn-velero-"))
        cls.bed = cls.enterClassContext(cluster.Cluster(directory, csi=True))
        cls.kube, cls.csi = cls.bed.kube, cls.bed.csi
        cls.velero = cls.VELERO(cls.bed)
        cls.velero.prepare()
        cls.kube.discover()
        cls.velero.start(*cls.FLAGS)

    @classmethod
    def storage_snapshots(cls):
        """All that the driver has."""
        return [entry["id"] for entry in json.loads(cls.csi.cairn("snapshot", "list", "-o", "json"))["snapshots"]]

    def write(self, claim, namespace, data, offset=0):
        with open(self.csi.volume_file(claim, namespace), "r+b") as file:
            file.seek(offset)
            file.write(data)
            os.fsync(file.fileno())

    def read(self, claim, namespace, n, offset=0):
        with open(self.csi.volume_file(claim, namespace), "rb") as file:
            file.seek(offset)
            return file.read(n)

    def wait_bound(self, claim, namespace):
        self.kube.wait(lambda found: found["status"].get("phase") == "Bound",
                       "-n", namespace, "pvc", claim)


def main():
    enter_new_network()
    unittest.main(verbosity=2)


__all__ = ["Failed", "VeleroTest", "main", "wait_until"]
