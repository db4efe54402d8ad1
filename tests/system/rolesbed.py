# SPDX-License-Identifier: Apache-2.0
"""What tests of the roles with a played API server share: certificates, ports, processes, a
driver with two snapshots, HTTPS requests."""
import http.client
import json
import os
import pathlib
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import threading
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cluster"))

# pylint: disable=wrong-import-position
from fakekube import FakeKube
from pki import CLIENT, SERVER, Authority
from processes import Failed, Ports, Processes, wait_until

BIN = os.environ["CAIRN_BIN"]
GROUP = "cbt.storage.k8s.io"
SECONDS = 300  # a busy machine and a sanitizer are slow; a hang is a failure
HOST = "127.0.0.1"
DRIVER = "cairn.csi.dev"
OLDER = ("--sessions", "--differential-snapshots", "--snapshot-deltas")


class RolesTest(unittest.TestCase):
    prefix = ()  # of the commands of roles

    @classmethod
    def setUpClass(cls):
        cls.directory = pathlib.Path(tempfile.mkdtemp(prefix="cairn-roles-"))
        cls.addClassCleanup(shutil.rmtree, cls.directory, ignore_errors=True)
        cls.ports = Ports()
        cls.addClassCleanup(cls.ports.close)
        cls.authority = Authority(cls.directory / "pki", "ca", "roles")
        cls.cert, cls.key = cls.authority.issue("role", "/CN=role", SERVER,
                                                ["IP:127.0.0.1", "DNS:localhost"])

    def put_front_proxy(self, names):
        """What an API server publishes about its front proxy; `names` is a JSON list."""
        self.kube.put("/api/v1/namespaces/kube-system/configmaps", {
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "extension-apiserver-authentication"},
            "data": {"requestheader-client-ca-file": self.authority.crt.read_text(),
                     "requestheader-allowed-names": names,
                     "requestheader-username-headers": '["X-Remote-User"]',
                     "requestheader-group-headers": '["X-Remote-Group"]',
                     "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]'}})

    def setUp(self):
        self.kube = FakeKube(self.directory, self.authority, self.ports.take())
        self.addCleanup(self.kube.close)
        scratch = pathlib.Path(tempfile.mkdtemp(dir=self.directory))
        self.processes = Processes(scratch)
        self.addCleanup(self.processes.stop_all)
        self.prepare_kube()
        self.config = self.kube.kubeconfig("role", self.kube.account("cairn", "role"))

    def prepare_kube(self):
        """Before anything is started."""

    def account_of(self, name):
        """The service account that a role runs as, in the namespace "cairn"."""
        return "role"

    def start(self, name, *words):
        self.processes.start(name, [
            *self.prefix, BIN, *words, "--kubeconfig", self.config_of(name), "--log-level", "info",
            "--log-format", "json"])

    def config_of(self, name):
        account = self.account_of(name)
        return self.config if account == "role" else self.kube.kubeconfig(
            account, self.kube.account("cairn", account))

    def act_when_watched(self, user, kinds, deleted=()):
        """Played controllers change objects of these kinds (plural) only when the user watches
        them, and objects of the kinds `deleted` go only then: each right to watch is needed."""
        change, delete = self.kube.change, self.kube.delete

        def is_watched(kind):
            return any(rule[1:3] == (kind, "watch") for rule in self.kube.used.get(user, ()))

        def wait(kind):
            wait_until(lambda: is_watched(kind), SECONDS, f"{kind} are watched")

        def change_late(where, item, patch, who):
            if who is None and where["plural"] in kinds:
                wait(where["plural"])
                if self.kube.key(where) not in self.kube.objects:
                    return None
            return change(where, item, patch, who)

        def delete_late(where):
            if where["plural"] not in deleted:
                return delete(where)

            def go():
                wait(where["plural"])
                delete(where)
            threading.Thread(target=go, daemon=True).start()
            return {}
        self.kube.change, self.kube.delete = change_late, delete_late

    def said(self, name, text):
        """Waits until the log of `name` holds the text."""
        self.processes.wait_ready(name, lambda: text in self.processes.log_text(name), SECONDS)

    def stop_in_order(self, name):
        """SIGTERM; the exit status is 0 and no sanitizer reports anything."""
        child = self.processes.children[name]
        child.send_signal(signal.SIGTERM)
        code = child.wait(SECONDS)
        text = self.processes.log_text(name)
        self.assertNotIn("Sanitizer", text, text[-6000:])
        self.assertEqual(code, 0, text[-3000:])

    # ---- a driver with two snapshots ----

    def start_driver(self, *words):
        """Volume "vol" with the snapshots "before" and "after", which are VolumeSnapshots of
        the namespace "app" too; `before` and `after` are their handles."""
        self.pool = pathlib.Path(tempfile.mkdtemp(dir=self.directory)) / "pool"
        self.socket = self.pool.parent / "csi.sock"
        self.cairn("pool", "create", "--quiet", "--backend", "copy")
        self.cairn("volume", "create", "vol", "--size", "1M")
        path = self.cairn("volume", "path", "vol").strip()
        for name, fill in (("before", b"1"), ("after", b"2")):
            with open(path, "r+b") as file:
                file.write(fill * 8192)
            self.cairn("snapshot", "create", f"vol@{name}")
        self.processes.start("driver", [
            *self.prefix, BIN, "driver", "--pool", self.pool, "--endpoint", f"unix://{self.socket}",
            "--node-id", "here", *(words or OLDER)])
        self.processes.wait_ready("driver", self.socket.exists, SECONDS)
        found = json.loads(self.cairn("snapshot", "list", "--output", "json"))["snapshots"]
        self.handles = {item["name"]: item["id"] for item in found}
        for item in found:
            self.kube.snapshot("app", item["name"], DRIVER, item["id"], item["volume_id"])

    def cairn(self, *words):
        return subprocess.run([BIN, "--pool", self.pool, *words], check=True, text=True,
                              stdout=subprocess.PIPE, stdin=subprocess.DEVNULL,
                              timeout=SECONDS).stdout

    def audit(self, name):
        """Lines of the audit so far."""
        lines = [line for line in self.processes.log_text(name).splitlines()
                 if line.startswith("{")]
        return [found for found in map(json.loads, lines) if "audit" in found]

    # ---- requests ----

    def ask(self, port, method, path, body=None, token=None, identity=None, headers=()):
        """(status, bytes); status 0 when there is no answer."""
        context = ssl.create_default_context(cafile=str(self.authority.crt))
        if identity:
            context.load_cert_chain(*identity)
        fields = dict(headers)
        if token is not None:
            fields["Authorization"] = f"Bearer {token}"
        if body is not None:
            fields["Content-Type"] = "application/json"
            body = body if isinstance(body, bytes) else json.dumps(body)
        connection = http.client.HTTPSConnection(HOST, port, context=context, timeout=SECONDS)
        try:
            connection.request(method, path, body, fields)
            reply = connection.getresponse()
            return reply.status, reply.read()
        except (OSError, http.client.HTTPException) as failed:
            return 0, str(failed).encode()
        finally:
            connection.close()

    def serve(self, name, *words):
        """Starts a role that listens at a port; returns the port once it answers."""
        port = self.ports.take()
        self.start(name, *[str(word).replace("PORT", str(port)) for word in words],
                   "--tls-cert", self.cert, "--tls-key", self.key)
        self.processes.wait_ready(name, lambda: self.ask(port, "GET", "/")[0], SECONDS)
        return port
