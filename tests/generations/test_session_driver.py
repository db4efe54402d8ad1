#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""`cairn sidecar --sessions` before a driver that knows only the flavour of snapshot sessions, and
no capability of it: what the driver says reaches the caller byte for byte, and the driver gets
its own names for what the caller named. The driver here is a server on grpcio."""
import pathlib
import sys
import types
import unittest
from concurrent import futures

import cluster
from generations import DEPLOY, GROUP, HOST, SNAPSHOT, Roles
from kube import encode
from processes import wait_until

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "system"))
import grpc  # noqa: E402
from csidriver import MODULES, SESSION  # noqa: E402  pylint: disable=wrong-import-position

cluster.peers_or_skip(*cluster.CONTROL_PLANE, "snapshot-crds")
NAME = "sessions-only.example.com"
TOKEN = "5" * 64
VOLUME = "volume/of the driver"
# Fields that nobody knows, a number in more bytes than it needs, the size before the type.
STRANGE = [bytes.fromhex("10808080080a0018011a00"), b"\xfa\x06\x03abc",
           bytes.fromhex("0880808000") + b"\x1a\x04\x08\x01\x10\x02\xfa\x06\x01x", b""]
Session, Identity = MODULES[SESSION], MODULES["Identity"]


class Driver:
    """Answers with `messages`, then with `ending`, a status; keeps what it was asked."""

    def __init__(self, socket):
        self.asked, self.messages, self.ending = [], [], None
        self.server = grpc.server(futures.ThreadPoolExecutor(8))
        info = Identity.GetPluginInfoResponse(name=NAME, vendor_version="1")
        self.serve("csi.v1.Identity", {
            "GetPluginInfo": self.unary(info.SerializeToString()),
            "Probe": self.unary(b""), "GetPluginCapabilities": self.unary(b"")})
        self.serve("SnapshotMetadata", {
            method: grpc.unary_stream_rpc_method_handler(
                lambda request, context, method=method: self.stream(method, request, context))
            for method in ("GetAllocated", "GetDelta")})
        self.server.add_insecure_port(f"unix://{socket}")
        self.server.start()

    def serve(self, service, handlers):
        self.server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(service, handlers),))

    @staticmethod
    def unary(answer):
        return grpc.unary_unary_rpc_method_handler(lambda request, context: answer)

    def stream(self, method, request, context):
        self.asked.append((method, request))
        yield from self.messages
        if self.ending:
            context.abort(*self.ending)


class SessionDriver(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.bed = cls.enterClassContext(cluster.Cluster(crds=True))
        cls.kube = cls.bed.kube
        socket = cls.bed.directory / "csi.sock"
        cls.driver = Driver(socket)
        cls.addClassCleanup(cls.driver.server.stop, None)
        cls.bed.csi = types.SimpleNamespace(socket=socket)
        cls.kube.apply_files(DEPLOY / "base/namespace.yaml", DEPLOY / "rbac")
        cls.roles = Roles(cls.bed)
        cls.addClassCleanup(cls.roles.ports.close)
        cls.roles.prepare()
        cls.roles.start_sidecar()
        cls.make_objects()
        credentials = grpc.ssl_channel_credentials(cls.roles.authority.crt.read_bytes())
        cls.channel = grpc.secure_channel(f"{HOST}:{cls.roles.grpc_port}", credentials)
        cls.addClassCleanup(cls.channel.close)
        grpc.channel_ready_future(cls.channel).result(timeout=60)
        wait_until(cls.works, 120, "the driver is found and the session known")

    @classmethod
    def works(cls):
        try:
            return cls.call("GetAllocated", snapshot="one") is not None
        except grpc.RpcError as failed:
            if failed.code() not in (grpc.StatusCode.UNAVAILABLE,
                                     grpc.StatusCode.UNAUTHENTICATED):
                raise
            return False

    @classmethod
    def make_objects(cls):
        for name in ("one", "two", "three"):
            cls.kube.apply([
                {"apiVersion": f"{SNAPSHOT}/v1", "kind": "VolumeSnapshotContent",
                 "metadata": {"name": f"content-{name}"},
                 "spec": {"driver": NAME, "deletionPolicy": "Retain",
                          "source": {"volumeHandle": VOLUME},
                          "volumeSnapshotRef": {"namespace": "default", "name": name}}},
                {"apiVersion": f"{SNAPSHOT}/v1", "kind": "VolumeSnapshot",
                 "metadata": {"name": name},
                 "spec": {"source": {"persistentVolumeClaimName": "data"}}}])
            for kind, which, status in (
                    ("volumesnapshotcontents", f"content-{name}",
                     {"snapshotHandle": f"handle/{name}", "readyToUse": True}),
                    ("namespaces/default/volumesnapshots", name,
                     {"boundVolumeSnapshotContentName": f"content-{name}", "readyToUse": True})):
                cls.kube.request("PATCH", f"/apis/{SNAPSHOT}/v1/{kind}/{which}/status",
                                 {"status": status}, content_type="application/merge-patch+json")
        cls.kube.apply({"apiVersion": f"{GROUP}/v1alpha2", "kind": "SnapshotSessionData",
                        "metadata": {"name": TOKEN, "namespace": "cairn"},
                        "spec": {"expiryTime": "2100-01-01T00:00:00Z",
                                 "snapshotNamespace": "default",
                                 "snapshots": ["one", "two", "three"]}})

    @classmethod
    def call(cls, method, **fields):
        """The messages as they came."""
        fields.setdefault("volume_id", VOLUME)
        request = getattr(Session, f"{method}Request")(session_token=TOKEN, **fields)
        stream = cls.channel.unary_stream(f"/SnapshotMetadata/{method}")
        return list(stream(request.SerializeToString(), timeout=60))

    def setUp(self):
        self.driver.asked, self.driver.messages, self.driver.ending = [], [], None

    def test_its_messages_pass_untouched(self):
        self.driver.messages = STRANGE
        self.assertEqual(self.call("GetAllocated", snapshot="one"), STRANGE)
        self.assertEqual(self.call("GetDelta", base_snapshot="one", target_snapshot="two"),
                         STRANGE)

    def test_many_messages_keep_their_order_and_borders(self):
        self.driver.messages = [bytes([i % 251]) * (i % 700) for i in range(5000)]
        self.assertEqual(self.call("GetAllocated", snapshot="two"), self.driver.messages)

    def test_it_gets_its_own_names_and_the_callers_numbers(self):
        numbers = {"starting_offset": 2**64 - 5, "max_results": 2**32 - 1}
        self.call("GetAllocated", snapshot="two", **numbers)
        self.call("GetDelta", base_snapshot="one", target_snapshot="two", volume_id=VOLUME,
                  starting_byte_offset=7, max_results=1)
        (first, allocated), (second, delta) = self.driver.asked
        self.assertEqual((first, second), ("GetAllocated", "GetDelta"))
        self.assertEqual(Session.GetAllocatedRequest.FromString(allocated),
                         Session.GetAllocatedRequest(session_token=TOKEN, volume_id=VOLUME,
                                                     snapshot="handle/two", **numbers))
        self.assertEqual(Session.GetDeltaRequest.FromString(delta),
                         Session.GetDeltaRequest(session_token=TOKEN, volume_id=VOLUME,
                                                 base_snapshot="handle/one",
                                                 target_snapshot="handle/two",
                                                 starting_byte_offset=7, max_results=1))

    def test_its_errors_are_the_callers(self):
        for code in (grpc.StatusCode.NOT_FOUND, grpc.StatusCode.OUT_OF_RANGE,
                     grpc.StatusCode.DATA_LOSS):
            with self.subTest(code=code):
                self.driver.messages, self.driver.ending = STRANGE[:2], (code, "as it says: ü")
                with self.assertRaises(grpc.RpcError) as caught:
                    self.call("GetAllocated", snapshot="one")
                self.assertEqual(caught.exception.code(), code)
                self.assertIn("as it says: ü", caught.exception.details())

    def test_its_handles_are_the_callers_names_in_its_errors(self):
        self.driver.ending = (grpc.StatusCode.NOT_FOUND, "'handle/one' is not before 'handle/two'")
        with self.assertRaises(grpc.RpcError) as caught:
            self.call("GetDelta", base_snapshot="one", target_snapshot="two")
        self.assertIn("'one' is not before 'two'", caught.exception.details())

    def test_the_volume_is_required(self):
        for method, fields in (("GetAllocated", {"snapshot": "one"}),
                               ("GetDelta", {"base_snapshot": "one", "target_snapshot": "two"})):
            with self.assertRaises(grpc.RpcError) as caught:
                self.call(method, volume_id="", **fields)
            self.assertEqual(caught.exception.code(), grpc.StatusCode.INVALID_ARGUMENT)
            self.assertIn("volume_id is missing", caught.exception.details())
        self.assertEqual(self.driver.asked, [])

    def test_nothing_reaches_it_without_a_session(self):
        stream = self.channel.unary_stream("/SnapshotMetadata/GetAllocated")
        request = Session.GetAllocatedRequest(session_token="6" * 64, snapshot="one",
                                              volume_id=VOLUME)
        with self.assertRaises(grpc.RpcError) as caught:
            list(stream(request.SerializeToString(), timeout=60))
        self.assertEqual(caught.exception.code(), grpc.StatusCode.UNAUTHENTICATED)
        self.assertEqual(self.driver.asked, [])

    def test_a_snapshot_that_is_gone_is_not_found_in_its_session(self):
        self.driver.messages = STRANGE
        self.assertEqual(self.call("GetAllocated", snapshot="three"), STRANGE)
        self.kube.delete("volumesnapshot", "three")

        def is_gone():
            try:
                self.call("GetAllocated", snapshot="three")
                return False
            except grpc.RpcError as failed:
                return failed.code() == grpc.StatusCode.NOT_FOUND
        wait_until(is_gone, 180, "it is not found")
        self.assertEqual(self.call("GetAllocated", snapshot="two"), STRANGE)

    def test_the_sidecar_tells_of_itself(self):
        made = self.kube.wait(lambda _: True, "snapshotservicesconfigurations", Roles.DRIVER)
        self.assertEqual(made["metadata"]["labels"], {f"{GROUP}/driver": NAME})
        self.assertEqual(made["metadata"]["annotations"], {f"{GROUP}/driver-namespace": "cairn"})
        self.assertEqual(made["spec"], {"address": f"{HOST}:{self.roles.grpc_port}",
                                        "caCert": encode(self.roles.authority.crt)})

    def test_its_configuration_comes_back_when_it_is_deleted(self):
        before = self.kube.wait(lambda _: True, "snapshotservicesconfigurations", Roles.DRIVER)
        self.kube.kubectl("delete", "snapshotservicesconfigurations", Roles.DRIVER)
        wait_until(lambda: [made for made in
                            self.kube.get("snapshotservicesconfigurations")["items"]
                            if made["metadata"]["uid"] != before["metadata"]["uid"] and
                            made["spec"] == before["spec"]], 90, "it is back")
        self.assertNotIn("forbidden", self.bed.processes.log_text("sidecar"))

    def test_the_shipped_flavour_is_not_made_up(self):
        """The driver does not have it: its own words are passed on."""
        self.kube.service_account("default", "app")
        token = self.kube.token("default", "app", Roles.AUDIENCE)
        shipped = self.channel.unary_stream("/snapshotmetadata.SnapshotMetadata/"
                                            "GetMetadataAllocated")
        message = b"\x0a" + bytes([len(token) & 127 | 128, len(token) >> 7]) + token.encode() + \
            b"\x12\x07default\x1a\x03one"
        with self.assertRaises(grpc.RpcError) as caught:
            list(shipped(message, timeout=60))
        self.assertEqual(caught.exception.code(), grpc.StatusCode.UNIMPLEMENTED,
                         caught.exception.details())


if __name__ == "__main__":
    unittest.main()
