# SPDX-License-Identifier: Apache-2.0
"""What the tests of the older flavours share: a cluster with a driver that speaks all of
them, volumes with a known history, HTTPS requests, and blocks as sets of numbers."""
import base64
import http.client
import json
import os
import pathlib
import ssl
import unittest

import cluster
from csistack import CsiStack
from pki import SERVER, Authority
from processes import Ports, wait_until

cluster.peers_or_skip(*cluster.CONTROL_PLANE, *CsiStack.PROGRAMS, "snapshot-crds")
DEPLOY = pathlib.Path(__file__).resolve().parents[2] / "deploy"
GROUP = "cbt.storage.k8s.io"
SNAPSHOT = "snapshot.storage.k8s.io"
DISCOVERY = next((DEPLOY / "components/volumesnapshotdelta").rglob("driverdiscoveries.yaml"))
BLOCK = 4096
MIB = 1 << 20
OLDER = ("--sessions", "--differential-snapshots", "--snapshot-deltas")
HOST = "127.0.0.1"


WEBHOOK_PATH = "/validate-snapshotsessionrequest/0123456789abcdef0123"


def webhook_secret(directory):
    """A file with the secret part of that path."""
    path = directory / "webhook-secret"
    path.write_text(WEBHOOK_PATH.rpartition("/")[2])
    return path


def blocks(offset, size):
    return set(range(offset // BLOCK, (offset + size + BLOCK - 1) // BLOCK))


class Https:
    """Requests to one server, whose authority is known."""

    def __init__(self, port, authority):
        self.port = port
        self.context = ssl.create_default_context(cafile=str(authority))

    def connect(self):
        return http.client.HTTPSConnection(HOST, self.port, context=self.context, timeout=60)

    def ask(self, path, token=None, method="GET", body=None, headers=()):
        """(status, text, fields)"""
        fields = dict(headers)
        if token is not None:
            fields["Authorization"] = f"Bearer {token}"
        connection = self.connect()
        try:
            connection.request(method, path, body, fields)
            reply = connection.getresponse()
            return reply.status, reply.read().decode(), dict(reply.getheaders())
        finally:
            connection.close()

    def get(self, path, token):
        status, text, _ = self.ask(path, token)
        assert status == 200, f"{path}: {status} {text}"
        return json.loads(text)


class Roles:
    """The roles of the older flavours beside the driver of a cluster, with the rights that
    deploy/ gives. `account` of the namespace "default" is an application that may use them."""

    AUDIENCE = "cairn-test"
    DRIVER = "cairn.csi.dev"

    def __init__(self, bed, account="app", log_level="debug"):
        self.bed, self.kube, self.csi, self.processes = bed, bed.kube, bed.csi, bed.processes
        self.account, self.log_level = account, log_level
        self.ports = Ports()
        self.authority = Authority(bed.directory / "role-pki", "ca", "roles")
        self.issue()

    def issue(self):
        """The certificate of all roles; again: a new one in its place."""
        self.cert, self.key = self.authority.issue("role", "/CN=role", SERVER,
                                                   ["IP:127.0.0.1", "DNS:localhost"])

    def prepare(self):
        self.kube.apply_files(
            *sorted((DEPLOY / "components/sessions").glob("snapshot*.yaml")),
            DEPLOY / "components/sessions/rbac.yaml",
            DEPLOY / "components/diffsnap/differentialsnapshots.yaml",
            DEPLOY / "components/diffsnap/rbac.yaml",
            DISCOVERY, DEPLOY / "overlays/snapshot-metadata/rbac.yaml")
        self.kube.wait_crds()
        self.kube.service_account("default", self.account)
        self.kube.allow("roles-app", f"default:{self.account}", namespace="default", rules=[
            (SNAPSHOT, "volumesnapshots", "get"),
            (GROUP, "snapshotsessionrequests", "get list watch create"),
            (GROUP, "differentialsnapshots", "get list watch create")])
        self.token = self.kube.token("default", self.account)
        self.config = self.kube.kubeconfig_of_account("cairn", "cairn-snapshot-metadata")

    def start_sidecar(self, *more):
        self.grpc_port = self.ports.take()
        self.processes.start("sidecar", [
            self.bed.cairn, "sidecar", "--csi-address", self.csi.socket,
            "--port", self.grpc_port, "--bind-address", HOST, "--tls-cert", self.cert,
            "--tls-key", self.key, "--kubeconfig", self.config, "--audience", self.AUDIENCE,
            "--http-endpoint", "", "--sessions", "--session-namespace", "cairn",
            "--session-configuration", self.DRIVER, "--session-address",
            f"{HOST}:{self.grpc_port}", "--session-ca", self.authority.crt,
            "--log-level", self.log_level, *more])

    def start_all(self):
        self.start_sidecar()
        self.start_manager()
        self.start_diffsnap()

    def start_manager(self):
        config = self.kube.kubeconfig_of_account("cairn", "cairn-manager")
        # The sidecar has published its address.
        self.kube.wait(lambda made: made["spec"]["address"] == f"{HOST}:{self.grpc_port}",
                       "snapshotservicesconfigurations", self.DRIVER)
        self.webhook_port = self.ports.take()
        self.processes.start("manager", [
            self.bed.cairn, "manager", "--kubeconfig", config, "--log-level", self.log_level,
            "--webhook", f"{HOST}:{self.webhook_port}", "--tls-cert", self.cert,
            "--tls-key", self.key, "--webhook-secret", webhook_secret(self.bed.directory)])

    def start_diffsnap(self):
        self.rest_port = self.ports.take()
        self.https = Https(self.rest_port, self.authority.crt)
        address = f"{HOST}:{self.rest_port}"
        self.processes.start("diffsnap", [
            self.bed.cairn, "diffsnap", "--csi-address", f"unix://{self.csi.socket}",
            "--listen", address, "--advertise", address, "--tls-cert", self.cert,
            "--tls-key", self.key, "--kubeconfig",
            self.kube.kubeconfig_of_account("cairn", "cairn-diffsnap"),
            "--log-level", self.log_level])

    def session(self, name, *snapshots):
        """The token of a new session of the application."""
        path = f"/apis/{GROUP}/v1alpha2/namespaces/default/snapshotsessionrequests"
        self.kube.request("POST", path, {
            "apiVersion": f"{GROUP}/v1alpha2", "kind": "SnapshotSessionRequest",
            "metadata": {"name": name}, "spec": {"snapshots": list(snapshots)}}, token=self.token)

        def is_ready():
            found = self.kube.request("GET", f"{path}/{name}", token=self.token)
            return found.get("status", {}).get("sessionState") == "Ready" and found
        made = wait_until(is_ready, 120, "the session is ready")
        return base64.b64decode(made["status"]["sessionToken"]).decode()


class GenerationsTest(unittest.TestCase):
    driver_args = OLDER
    apiserver_args = ()

    @classmethod
    def setUpClass(cls):
        cls.bed = cls.enterClassContext(cluster.Cluster(
            csi=True, driver_args=cls.driver_args, apiserver_args=cls.apiserver_args))
        cls.kube, cls.csi = cls.bed.kube, cls.bed.csi
        cls.authority = Authority(cls.bed.directory / "role-pki", "ca", "roles")
        cls.cert, cls.key = cls.authority.issue("role", "/CN=role", SERVER,
                                                ["IP:127.0.0.1", "DNS:localhost"])
        cls.ports = []

    @classmethod
    def port(cls):
        ports = Ports()
        cls.addClassCleanup(ports.close)
        return ports.take()

    @classmethod
    def prepare_roles(cls):
        cls.roles = Roles(cls.bed)
        cls.addClassCleanup(cls.roles.ports.close)
        cls.roles.prepare()

    @classmethod
    def install_sessions(cls):
        """The kinds of snapshot sessions, and the manager's rights."""
        cls.kube.apply_files(*sorted((DEPLOY / "components/sessions").glob("snapshot*.yaml")),
                             DISCOVERY, DEPLOY / "components/sessions/rbac.yaml")
        cls.kube.wait_crds()

    @classmethod
    def set_expiry(cls, text):
        cls.kube.apply({"apiVersion": "v1", "kind": "ConfigMap",
                        "metadata": {"name": "cairn-sessions", "namespace": "cairn"},
                        "data": {"sessionExpiry": text}})

    def write(self, claim, offset, data):
        with open(self.csi.volume_file(claim), "r+b") as file:
            file.seek(offset)
            file.write(data)

    @classmethod
    def history(cls, name, size=16):
        """A claim NAME of `size` MiB and its snapshots NAME-1 and NAME-2."""
        cls.csi.claim(name, f"{size}Mi")
        path = cls.csi.volume_file(name)
        with open(path, "r+b") as file:
            for i in range(30):
                file.seek(i * 5 * BLOCK)
                file.write(os.urandom(BLOCK))
        cls.csi.snapshot(f"{name}-1", name)
        with open(path, "r+b") as file:
            for i in range(40):
                file.seek(i * 7 * BLOCK + MIB)
                file.write(os.urandom(BLOCK))
        cls.csi.snapshot(f"{name}-2", name)

    def truth(self, base, target):
        """Blocks that `cairn delta` names."""
        words = [self.csi.snapshot_id(name) for name in (base, target) if name]
        said = json.loads(self.csi.cairn("delta", *words, "--output", "json"))
        return set().union(*[blocks(e["byte_offset"], e["size_bytes"])
                             for e in said["block_metadata"]])
