# SPDX-License-Identifier: Apache-2.0
"""A node whose pods use volumes, an object store that they reach, and `cairn manager --velero` with
the rights of deploy/velero/data-mover.yaml: what the tests of the data mover share."""
import json
import pathlib
import socket
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cluster"))

# pylint: disable=wrong-import-position
import cluster
import node
import test_node
from processes import Failed, Ports, wait_until
from rights import ACCOUNT, Audit, Rights

NAMESPACE = "velero"
MANAGER = "cairn-manager"
LIMIT = 300  # of one step; a busy machine is not a failure


def start_store(processes, program, directory, region, key, secret):
    """An S3 server at the address of the node; returns its port."""
    ports = Ports()
    port = ports.take()
    ports.close()
    processes.start("versitygw", [
        program, "-p", f"{node.ADDRESS}:{port}", "--region", region, "posix", directory],
        {"ROOT_ACCESS_KEY": key, "ROOT_SECRET_KEY": secret})

    def accepts():
        with socket.socket() as probe:
            return probe.connect_ex((node.ADDRESS, port)) == 0
    processes.wait_ready("versitygw", accepts)
    return port


class NodeTest(unittest.TestCase):
    STORAGE_CLASS = "cairn"

    @classmethod
    def start_node(cls):
        directory = pathlib.Path(tempfile.mkdtemp(prefix="cairn-mover-"))
        cls.audit = Audit(directory)
        cls.bed = cls.enterClassContext(cluster.Cluster(directory, node=True,
                                                        apiserver_args=cls.audit.words))
        cls.kube, cls.pods = cls.bed.kube, test_node.Pods(cls.bed)
        cls.pods.install()

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

    def application(self, space, claims):
        """A pod that only holds its claims: {name: mode}."""
        self.kube.namespace(space)
        for name, mode in claims.items():
            self.pods.csi.claim(name, "64Mi", mode, namespace=space, wait=False,
                                storage_class=self.STORAGE_CLASS)
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
        self.wait_running(space)

    def wait_running(self, space):
        try:
            self.kube.wait(lambda pod: pod["status"]["phase"] == "Running", "-n", space, "pod",
                           "app", seconds=LIMIT)
        except Failed as failed:
            raise AssertionError(f"{failed}\n{self.everything(space)}") from None

    def execute(self, space, script):
        return self.kube.kubectl("exec", "-n", space, "app", "--", "/bin/sh", "-ec", script)

    def volumes(self):
        return [item["metadata"]["name"] for item in self.kube.get("pv")["items"]
                if item["spec"].get("storageClassName") == self.STORAGE_CLASS]

    def named(self, kind):
        """Objects of the data mover in its namespace."""
        return [f"{kind} {item['metadata']['name']}"
                for item in self.kube.get("-n", NAMESPACE, kind)["items"]
                if item["metadata"]["name"].startswith("cairn-")]

    def left(self):
        """What of the data mover still exists."""
        raise NotImplementedError

    def everything(self, space):
        """For the message of a failure."""
        return "\n".join([
            self.kube.kubectl("get", "-A", "pods,pvc,jobs,volumesnapshots,datauploads,"
                              "datadownloads", "-o", "wide"),
            self.kube.kubectl("get", "pv,volumesnapshotcontents", "-o", "wide"),
            self.kube.kubectl("get", "-n", NAMESPACE, "datauploads,datadownloads", "-o",
                              "yaml")[-6000:],
            self.kube.kubectl("get", "-n", space, "events")[-3000:],
            self.kube.kubectl("get", "-n", NAMESPACE, "events")[-3000:],
            self.bed.processes.log_tail(MANAGER, 40)])

    def assert_nothing_left(self):
        try:
            wait_until(lambda: not self.left(), LIMIT, "nothing is left")
        except Failed as failed:
            raise AssertionError(f"{failed}: {self.left()}\n{self.everything('default')}") from None
        stored = json.loads(self.bed.node.cairn("snapshot", "list", "-o", "json"))["snapshots"]
        self.assertEqual(stored, [])

    def assert_each_right_needed(self, roles):
        """After all that the accounts of Velero's namespace do: nothing was refused to them, and
        each right of the roles is needed, also by the API server's answer without it."""
        self.maxDiff = None
        rights = Rights(self.kube, self.audit)
        self.assertEqual(rights.refused(f"{ACCOUNT}{NAMESPACE}:"), {})
        self.assertEqual(rights.in_vain(roles), {})
        counted, left = rights.removed_one_by_one(roles)
        print(f"{counted} rights of {len(roles)} roles taken away one by one")
        self.assertEqual(left, [])
