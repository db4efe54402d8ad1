#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The same question to the flavours of the API, each the way an application asks it on a real
control plane: the shipped gRPC service, snapshot sessions, DifferentialSnapshot, and, where it
is built, VolumeSnapshotDelta. All must tell the same blocks, and none that is missing."""
import base64
import json
import pathlib
import sys
import tempfile
import time
import unittest

import cluster
from generations import DEPLOY, DISCOVERY, GROUP, HOST, OLDER, GenerationsTest, Https, blocks
from processes import wait_until

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "system"))
import grpc  # noqa: E402
from csidriver import PROTO  # noqa: E402  pylint: disable=wrong-import-position
import importlib  # noqa: E402
import subprocess  # noqa: E402

CLIENT = cluster.peers_or_skip("dynamic-client")["dynamic-client"]
SNAPSHOT = "snapshot.storage.k8s.io"
AUDIENCE = "cairn-test"
LIMITS = (1, 7, 256)


def load(*names):
    """Modules of messages, made from the .proto files of the tree."""
    with tempfile.TemporaryDirectory() as out:
        subprocess.run(["protoc", "-I", PROTO, f"--python_out={out}",
                        *[PROTO / f"{name}.proto" for name in names]], check=True)
        sys.path.insert(0, out)
        try:
            return [importlib.import_module(f"{name}_pb2") for name in names]
        finally:
            sys.path.remove(out)


SHIPPED, SESSION = load("snapshotmetadata", "snapshot_session")


class FlavoursTest(GenerationsTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.kube.apply_files(
            *sorted((DEPLOY / "sessions").glob("snapshot*.yaml")), DEPLOY / "sessions/rbac.yaml",
            DEPLOY / "diffsnap/differentialsnapshots.yaml", DEPLOY / "diffsnap/rbac.yaml",
            DISCOVERY,
            DEPLOY / "overlays/snapshot-metadata/rbac.yaml")
        cls.kube.kubectl("wait", "--for=condition=Established", "--timeout=60s", "crd", "--all")
        cls.kube.service_account("default", "app")
        cls.kube.allow("app", "default:app", namespace="default", rules=[
            (SNAPSHOT, "volumesnapshots", "get"),
            (GROUP, "snapshotsessionrequests", "get list watch create"),
            (GROUP, "differentialsnapshots", "get list watch create")])
        cls.token = cls.kube.token("default", "app")
        cls.app = cls.kube.kubeconfig_of_account("default", "app")
        cls.config = cls.kube.kubeconfig_of_account("cairn", "cairn-driver")
        cls.start_sidecar()
        cls.start_manager()
        cls.start_diffsnap()
        cls.history("data")
        cls.history("other")

    @classmethod
    def start_sidecar(cls):
        cls.grpc_port = cls.port()
        cls.bed.processes.start("sidecar", [
            cls.bed.cairn, "sidecar", "--csi-address", cls.csi.socket, "--port", cls.grpc_port,
            "--bind-address", HOST, "--tls-cert", cls.cert, "--tls-key", cls.key,
            "--kubeconfig", cls.config, "--audience", AUDIENCE, "--http-endpoint", "",
            "--sessions", "--session-namespace", "cairn", "--v", "5"])
        credentials = grpc.ssl_channel_credentials(cls.authority.crt.read_bytes())
        cls.channel = grpc.secure_channel(f"{HOST}:{cls.grpc_port}", credentials)
        cls.addClassCleanup(cls.channel.close)
        grpc.channel_ready_future(cls.channel).result(timeout=60)

    @classmethod
    def start_manager(cls):
        config = cls.kube.kubeconfig_of_account("cairn", "cairn-manager")
        cls.kube.apply({"apiVersion": f"{GROUP}/v1alpha2", "kind": "SnapshotServicesConfiguration",
                        "metadata": {"name": "cairn",
                                     "labels": {f"{GROUP}/driver": "cairn.csi.dev"},
                                     "annotations": {f"{GROUP}/driver-namespace": "cairn"}},
                        "spec": {"address": f"{HOST}:{cls.grpc_port}", "caCert":
                                 base64.b64encode(cls.authority.crt.read_bytes()).decode()}})
        cls.bed.processes.start("manager", [cls.bed.cairn, "manager", "--kubeconfig", config,
                                            "--log-level", "debug"])

    @classmethod
    def start_diffsnap(cls):
        cls.rest_port = cls.port()
        cls.https = Https(cls.rest_port, cls.authority.crt)
        cls.bed.processes.start("diffsnap", [
            cls.bed.cairn, "diffsnap", "--csi-address", f"unix://{cls.csi.socket}",
            "--listen", f"{HOST}:{cls.rest_port}", "--advertise", f"{HOST}:{cls.rest_port}",
            "--tls-cert", cls.cert, "--tls-key", cls.key, "--kubeconfig", cls.config])

    def stream(self, module, method, /, **fields):
        service = module.DESCRIPTOR.services_by_name["SnapshotMetadata"]
        found = service.methods_by_name[method]
        # pylint: disable=protected-access
        call = self.channel.unary_stream(
            f"/{service.full_name}/{method}",
            request_serializer=found.input_type._concrete_class.SerializeToString,
            response_deserializer=found.output_type._concrete_class.FromString)
        return list(call(found.input_type._concrete_class(**fields), timeout=60))

    def refuses(self, code, *args, **fields):
        with self.assertRaises(grpc.RpcError) as caught:
            self.stream(*args, **fields)
        self.assertEqual(caught.exception.code(), code, caught.exception.details())
        return caught.exception.details()

    def session(self, name, *snapshots):
        """The token of a new session."""
        path = f"/apis/{GROUP}/v1alpha2/namespaces/default/snapshotsessionrequests"
        self.kube.request("POST", path, {
            "apiVersion": f"{GROUP}/v1alpha2", "kind": "SnapshotSessionRequest",
            "metadata": {"name": name}, "spec": {"snapshots": list(snapshots)}}, token=self.token)

        def is_ready():
            found = self.kube.request("GET", f"{path}/{name}", token=self.token)
            return found.get("status", {}).get("sessionState") == "Ready" and found
        made = wait_until(is_ready, 40, "the session is ready")
        self.assertEqual(made["status"]["sessionURL"], f"{HOST}:{self.grpc_port}")
        return base64.b64decode(made["status"]["sessionToken"]).decode()

    def tuples(self, messages, limit):
        found = set()
        for message in messages:
            self.assertLessEqual(len(message.block_metadata), limit)
            for entry in message.block_metadata:
                found |= blocks(entry.byte_offset, entry.size_bytes)
        return found

    def shipped(self, base, target, limit):
        token = self.kube.token("default", "app", AUDIENCE)
        common = {"security_token": token, "namespace": "default", "max_results": limit}
        if base:
            return self.tuples(self.stream(
                SHIPPED, "GetMetadataDelta", base_snapshot_id=self.csi.snapshot_id(base),
                target_snapshot_name=target, **common), limit)
        return self.tuples(self.stream(SHIPPED, "GetMetadataAllocated", snapshot_name=target,
                                       **common), limit)

    def in_session(self, token, base, target, limit, volume=""):
        common = {"session_token": token, "volume_id": volume, "max_results": limit}
        if base:
            messages = self.stream(SESSION, "GetDelta", base_snapshot=base,
                                   target_snapshot=target, **common)
        else:
            messages = self.stream(SESSION, "GetAllocated", snapshot=target, **common)
        self.assertEqual({m.block_metadata_type for m in messages}, {1})
        self.assertEqual({m.volume_size_bytes for m in messages}, {16 << 20})
        return self.tuples(messages, limit)

    def differential(self, base, target, limit):
        found, at = set(), ""
        query = f"target={target}" + (f"&base={base}" if base else "")
        while True:
            page = self.https.get(f"/namespaces/default/diff?{query}&maxEntries={limit}"
                                  f"&startOffset={at}", self.token)
            for entry in page["changeBlockList"]:
                found |= blocks(entry["offset"], entry["size"])
            at = page["nextOffset"]
            if not at:
                return found


    def client_go(self, *words, kubeconfig=None):
        """The program on client-go's dynamic client: its finished process."""
        return subprocess.run(
            [CLIENT, "-kubeconfig", kubeconfig or self.app, "-ca", self.authority.crt, *words],
            capture_output=True, text=True, timeout=90, check=False)


class Flavours(FlavoursTest):
    def test_each_tells_the_same_blocks(self):
        token = self.session("same", "data-1", "data-2")
        volume = self.csi.volume_id("data")
        for base in ("data-1", None):
            expected = self.truth(base, "data-2")
            self.assertTrue(expected)
            for limit in LIMITS:
                with self.subTest(base=base, limit=limit):
                    self.assertEqual(self.shipped(base, "data-2", limit), expected)
                    self.assertEqual(self.in_session(token, base, "data-2", limit), expected)
                    self.assertEqual(self.in_session(token, base, "data-2", limit, volume),
                                     expected)
                    self.assertEqual(self.differential(base, "data-2", limit), expected)

    def test_a_driver_that_speaks_only_the_shipped_flavour_is_translated(self):
        token = self.session("translated", "data-1", "data-2")
        direct = self.in_session(token, "data-1", "data-2", 7)
        command = self.bed.processes.commands["driver"][0]
        self.bed.processes.stop("driver")
        self.bed.processes.start("driver", [word for word in command if word not in OLDER])
        self.bed.processes.wait_ready("driver", self.csi.socket.exists)
        try:
            wait_until(lambda: self.works(token), 40, "the driver is back")
            for limit in LIMITS:
                self.assertEqual(self.in_session(token, "data-1", "data-2", limit), direct)
            self.refuses(grpc.StatusCode.OUT_OF_RANGE, SESSION, "GetDelta", session_token=token,
                         base_snapshot="data-1", target_snapshot="data-2",
                         starting_byte_offset=2**63 + 1)
        finally:
            self.bed.processes.stop("driver")
            self.bed.processes.start("driver", command)
            self.bed.processes.wait_ready("driver", self.csi.socket.exists)
            wait_until(lambda: self.works(token), 40, "the driver is back")

    def works(self, token):
        try:
            return self.in_session(token, "data-1", "data-2", 256)
        except grpc.RpcError as failed:
            self.assertEqual(failed.code(), grpc.StatusCode.UNAVAILABLE, failed.details())
            return None

    def test_what_a_session_is_not_good_for(self):
        token = self.session("narrow", "data-1", "data-2")
        code = grpc.StatusCode
        delta = {"session_token": token, "base_snapshot": "data-1", "target_snapshot": "data-2"}
        for wanted, fields in [
                (code.INVALID_ARGUMENT, {"session_token": ""}),
                (code.UNAUTHENTICATED, {"session_token": "0" * 64}),
                (code.UNAUTHENTICATED, {"session_token": token[:-1]}),
                (code.UNAUTHENTICATED, {"session_token": token.upper()}),
                (code.UNAUTHENTICATED, {"session_token": "x" * 5000}),
                (code.UNAUTHENTICATED, {"session_token": self.token}),
                (code.INVALID_ARGUMENT, {"base_snapshot": ""}),
                (code.INVALID_ARGUMENT, {"target_snapshot": ""}),
                (code.PERMISSION_DENIED, {"base_snapshot": "other-1"}),
                (code.PERMISSION_DENIED, {"target_snapshot": "other-2"}),
                (code.NOT_FOUND, {"volume_id": self.csi.volume_id("other")}),
                (code.INVALID_ARGUMENT, {"base_snapshot": "data-2",
                                         "target_snapshot": "data-1"}),
                (code.OUT_OF_RANGE, {"starting_byte_offset": (16 << 20) + 1})]:
            with self.subTest(**fields):
                text = self.refuses(wanted, SESSION, "GetDelta", **{**delta, **fields})
                self.assertNotIn(token, text)
        mixed = self.session("mixed", "data-1", "other-2")
        self.refuses(code.INVALID_ARGUMENT, SESSION, "GetDelta", session_token=mixed,
                     base_snapshot="data-1", target_snapshot="other-2")
        for name in ("sidecar", "manager", "driver", "diffsnap"):
            log = self.bed.processes.log_text(name)
            self.assertNotIn(token, log, f"{name} logs a session token")
            self.assertNotIn(self.token, log, f"{name} logs a token")

    def test_a_session_ends(self):
        token = self.session("ends", "data-2")
        self.assertTrue(self.in_session(token, None, "data-2", 256))
        self.kube.kubectl("delete", "snapshotsessionrequest", "ends")

        def is_over():
            try:
                self.in_session(token, None, "data-2", 256)
                return False
            except grpc.RpcError as failed:
                return failed.code() == grpc.StatusCode.UNAUTHENTICATED
        wait_until(is_over, 20, "the session is over")

    def test_an_application_on_client_go(self):
        expected = self.truth("data-1", "data-2")
        for limit in LIMITS:
            done = self.client_go("-limit", str(limit), "differential", f"go-{limit}", "data-2",
                                  "data-1")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(set().union(*[blocks(*b) for b in json.loads(done.stdout)]),
                             expected)
        done = self.client_go("differential", "go-none", "none", "data-1")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("no VolumeSnapshot 'default/none'", done.stderr)
        done = self.client_go("session", "go", "data-1", "data-2")
        self.assertEqual(done.returncode, 0, done.stderr)
        status = json.loads(done.stdout)
        self.assertEqual(status["sessionState"], "Ready")
        token = base64.b64decode(status["sessionToken"]).decode()
        self.assertEqual(self.in_session(token, "data-1", "data-2", 256), expected)
        done = self.client_go("session", "go-none", "none")
        self.assertEqual(json.loads(done.stdout)["sessionState"], "Failed", done.stderr)

    def test_guesses_cost_no_call_to_the_api_server(self):
        def reads():
            text = self.kube.ask("GET", "/metrics")[1]
            return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines()
                       if line.startswith("apiserver_request_total{") and
                       'resource="snapshotsessiondata"' in line and 'verb="GET"' in line)
        before = reads()
        for i in range(40):
            self.refuses(grpc.StatusCode.UNAUTHENTICATED, SESSION, "GetAllocated",
                         session_token=f"{i:064x}", snapshot="data-2")
        self.assertEqual(reads(), before)

    def test_an_expired_session_is_refused_before_it_is_deleted(self):
        self.bed.processes.stop("manager")
        try:
            name = "f" * 64
            self.kube.apply({"apiVersion": f"{GROUP}/v1alpha2", "kind": "SnapshotSessionData",
                             "metadata": {"name": name, "namespace": "cairn"},
                             "spec": {"expiryTime": "2020-01-01T00:00:00Z",
                                      "snapshotNamespace": "default", "snapshots": ["data-2"]}})
            time.sleep(1)
            self.refuses(grpc.StatusCode.UNAUTHENTICATED, SESSION, "GetAllocated",
                         session_token=name, snapshot="data-2")
        finally:
            self.bed.processes.start("manager", self.bed.processes.commands["manager"][0])


if __name__ == "__main__":
    unittest.main()
