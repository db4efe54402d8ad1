# SPDX-License-Identifier: Apache-2.0
"""A stock Velero server beside a node whose pods use volumes, and `cairn manager --velero` with the
rights of deploy/velero/data-mover.yaml."""
import base64
import json
import os
import pathlib
import socket
import subprocess
import tempfile
import unittest

import velerobed
from velerobed import BUCKET, KEY, NAMESPACE, PEERS, REGION, SECRET

# pylint: disable=wrong-import-order
import cluster
import node
import test_node
from processes import Failed, Ports, wait_until

DEPLOY = cluster.REPOSITORY / "deploy"
MANAGER = "cairn-manager"
KINDS = ("jobs", "pvc", "volumesnapshots", "pods", "configmaps")
FOREVER = test_node.FOREVER


class Velero(velerobed.Velero):
    """Its object store is where pods reach it."""

    def start_store(self):
        ports = Ports()
        self.port = ports.take()
        ports.close()
        self.processes.start("versitygw", [
            PEERS["versitygw"], "-p", f"{node.ADDRESS}:{self.port}", "--region", REGION, "posix",
            self.store], {"ROOT_ACCESS_KEY": KEY, "ROOT_SECRET_KEY": SECRET})
        self.processes.wait_ready("versitygw", self.accepts)

    def accepts(self):
        with socket.socket() as probe:
            return probe.connect_ex((node.ADDRESS, self.port)) == 0

    def location(self):
        made = super().location()
        made["spec"]["config"]["s3Url"] = f"http://{node.ADDRESS}:{self.port}"
        return made


def skip_unless_possible():
    test_node.skip_unless_possible()


class MoverTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        directory = pathlib.Path(tempfile.mkdtemp(prefix="cairn-mover-"))
        cls.bed = cls.enterClassContext(cluster.Cluster(directory, node=True))
        cls.kube, cls.pods = cls.bed.kube, test_node.Pods(cls.bed)
        cls.pods.install()
        cls.velero = Velero(cls.bed)
        cls.velero.environment["CSI_SNAPSHOT_EARLY_FREQUENT_POLLING"] = "true"
        cls.velero.prepare()
        cls.kube.apply(DEPLOY / "velero/data-mover.yaml")
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

    @classmethod
    def restart_manager(cls):
        cls.bed.processes.kill(MANAGER)
        cls.start_manager()

    # ---- the cluster ----

    def application(self, space, claims):
        """A pod that only holds its claims: {name: mode}."""
        self.kube.namespace(space)
        for name, mode in claims.items():
            self.pods.csi.claim(name, "64Mi", mode, namespace=space, wait=False)
        container = {"name": "main", "image": node.BUSYBOX, "imagePullPolicy": "Never",
                     "command": ["/bin/sh", "-ec", FOREVER],
                     "volumeMounts": [{"name": name, "mountPath": f"/{name}"}
                                      for name, mode in claims.items() if mode != "Block"],
                     "volumeDevices": [{"name": name, "devicePath": f"/dev/{name}"}
                                       for name, mode in claims.items() if mode == "Block"]}
        self.kube.apply({"apiVersion": "v1", "kind": "Pod",
                         "metadata": {"name": "app", "namespace": space},
                         "spec": {"terminationGracePeriodSeconds": 0, "containers": [container],
                                  "volumes": [{"name": name, "persistentVolumeClaim":
                                               {"claimName": name}} for name in claims]}})
        self.wait_running(space)

    def wait_running(self, space):
        try:
            self.kube.wait(lambda pod: pod["status"]["phase"] == "Running", "-n", space, "pod",
                           "app", seconds=180)
        except Exception as failed:
            raise AssertionError(f"{failed}\n{self.everything(space)}") from None

    def execute(self, space, script):
        return self.kube.kubectl("exec", "-n", space, "app", "--", "/bin/sh", "-ec", script)

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
        """What of the data mover is still there."""
        found = []
        for kind in KINDS:
            listed = self.kube.get("-n", NAMESPACE, kind)
            found += [f"{kind} {item['metadata']['name']}" for item in listed["items"]
                      if item["metadata"]["name"].startswith("cairn-")]
        listed = self.kube.get("volumesnapshotcontent")
        found += [f"content {item['metadata']['name']}" for item in listed["items"]]
        listed = self.kube.get("volumesnapshot", "-A")
        found += [f"snapshot {item['metadata']['name']}" for item in listed["items"]]
        return found

    def volumes(self):
        return [item["metadata"]["name"] for item in self.kube.get("pv")["items"]
                if item["spec"].get("storageClassName") == "cairn"]

    def assert_nothing_left(self):
        try:
            wait_until(lambda: not self.left(), 240, "nothing is left")
        except Failed as failed:
            raise AssertionError(f"{failed}: {self.left()}\n{self.everything('default')}") from None
        snapshots = json.loads(self.bed.node.cairn("snapshot", "list", "-o", "json"))["snapshots"]
        self.assertEqual(snapshots, [])

    def everything(self, space):
        shown = [self.kube.kubectl("get", "-A", "pods,pvc,jobs,volumesnapshots,datauploads,"
                                   "datadownloads", "-o", "wide"),
                 self.kube.kubectl("get", "pv,volumesnapshotcontents", "-o", "wide"),
                 self.kube.kubectl("get", "-n", NAMESPACE, "datauploads,datadownloads", "-o",
                                   "yaml")[-6000:],
                 self.kube.kubectl("get", "-n", space, "events")[-3000:],
                 self.kube.kubectl("get", "-n", NAMESPACE, "events")[-3000:],
                 self.bed.processes.log_tail(MANAGER, 40)]
        return "\n".join(shown)

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
        return [entry["id"] for entry in json.loads(self.restic(space, "snapshots", "--json"))]


def main():
    skip_unless_possible()
    unittest.main(verbosity=2)


__all__ = ["MoverTest", "NAMESPACE", "main", "wait_until"]
