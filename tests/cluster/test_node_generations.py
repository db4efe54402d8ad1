#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""All generations of the API as deploy/ ships them, in pods of a real kubelet, with certificates that
`cairn manager --certificates` keeps: each tells the blocks that a pod changed."""
import base64
import http.client
import json
import pathlib
import socket
import ssl
import sys
import unittest

import cluster
from processes import wait_until
from test_node import DEPLOY, FOREVER, Pods, skip_unless_possible

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "system"))
import grpc  # noqa: E402
from csidriver import load  # noqa: E402  pylint: disable=wrong-import-position

SHIPPED, SESSION = load("snapshotmetadata", "snapshot_session")
GROUP = "cbt.storage.k8s.io"
OLD = f"{GROUP}/v1alpha1"
BLOCK = 4096
DEPLOYMENTS = {"snapshot-metadata": 1, "manager": 1, "diffsnap": 1, "cbt-http": 1, "aggapi": 2,
               "discovery": 2, "certificates": 1}


def setUpModule():
    global BED  # pylint: disable=global-statement
    BED = unittest.enterModuleContext(cluster.Cluster(
        node=True, apiserver_args=["--enable-aggregator-routing=true"]))


def blocks(offset, size):
    return set(range(offset // BLOCK, (offset + size + BLOCK - 1) // BLOCK))


class Generations(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.kube, cls.pods = BED.kube, Pods(BED)
        cls.kube.apply(DEPLOY / "overlays/all-generations")
        cls.kube.apply(DEPLOY / "components/certificates")
        cls.pods.wait_driver()
        cls.wait_roles()
        # There is no DNS here; the names are those that the certificates are for.
        address = cls.pods.part("cbt-http")["status"]["podIP"]
        cls.kube.kubectl("-n", "cairn", "patch", "deployment", "cairn-aggapi", "-p", json.dumps(
            {"spec": {"template": {"spec": {"hostAliases": [
                {"ip": address, "hostnames": ["cairn-cbt-http.cairn.svc"]}]}}}}))
        cls.wait_roles()
        cls.kube.kubectl("wait", "--for=condition=Available", "apiservice", f"v1alpha1.{GROUP}",
                         "--timeout=120s", timeout=150)
        cls.make_history()
        cls.make_application()

    @classmethod
    def wait_roles(cls):
        for name, replicas in DEPLOYMENTS.items():
            cls.kube.wait(lambda found: found["status"].get("observedGeneration") ==
                          found["metadata"]["generation"] and
                          found["status"].get("updatedReplicas") == found["spec"]["replicas"] and
                          found["status"].get("readyReplicas") == found["spec"]["replicas"] and
                          not found["status"].get("unavailableReplicas"),
                          "-n", "cairn", "deployment", f"cairn-{name}", seconds=300)
            found = cls.kube.get("-n", "cairn", "deployment", f"cairn-{name}")
            assert found["spec"]["replicas"] >= replicas, name

    @classmethod
    def make_history(cls):
        cls.pods.claim("data")
        cls.pods.start("writer", f"""
            dd if=/dev/urandom of=/dev/data bs=1M seek=1 count=5 conv=fsync 2>/dev/null
            echo written; {FOREVER}""", [("data", "/dev/data")])
        cls.pods.wait("writer", "Running")
        wait_until(lambda: "written" in cls.kube.kubectl("logs", "writer"), 180, "written")
        cls.pods.csi.snapshot("monday", "data")
        cls.pods.execute("writer", "dd if=/dev/urandom of=/dev/data bs=4k seek=700 count=4 "
                                   "conv=fsync 2>/dev/null")
        cls.pods.csi.snapshot("tuesday", "data")
        cls.changed = set(range(700, 704))

    @classmethod
    def make_application(cls):
        kube = cls.kube
        kube.service_account("default", "app")
        for role in ("cairn-session-client", "cairn-diffsnap-reader",
                     "cairn-volumesnapshotdelta-creator", "cairn-snapshot-metadata-reader"):
            kube.allow(f"app-{role}", "default:app", namespace="default", role=role)
        kube.allow("app-differential", "default:app", namespace="default", rules=[
            (GROUP, "differentialsnapshots", "create get"),
            ("snapshot.storage.k8s.io", "volumesnapshots", "get")])
        cls.token = kube.token("default", "app")

    def address(self, part):
        return self.pods.part(part)["status"]["podIP"]

    def stream(self, module, method, ca, /, **fields):
        service = module.DESCRIPTOR.services_by_name["SnapshotMetadata"]
        found = service.methods_by_name[method]
        target = f"{self.address('snapshot-metadata')}:6443"
        name = "cairn-snapshot-metadata.cairn.svc"
        with grpc.secure_channel(target, grpc.ssl_channel_credentials(ca),
                                 [("grpc.ssl_target_name_override", name)]) as channel:
            # pylint: disable=protected-access
            call = channel.unary_stream(
                f"/{service.full_name}/{method}",
                request_serializer=found.input_type._concrete_class.SerializeToString,
                response_deserializer=found.output_type._concrete_class.FromString)
            return set().union(*[
                blocks(entry.byte_offset, entry.size_bytes)
                for message in call(found.input_type._concrete_class(**fields), timeout=60)
                for entry in message.block_metadata])

    def created(self, plural, kind, name, spec, state):
        """The status of a new object at v1alpha1, once `state` of it is set."""
        path = f"/apis/{OLD}/namespaces/default/{plural}"
        self.kube.request("POST", path, {"apiVersion": OLD, "kind": kind,
                                         "metadata": {"name": name}, "spec": spec},
                          token=self.token)
        return wait_until(lambda: (lambda one: one.get("status", {}).get(state) not in
                                   (None, "Pending") and one["status"])(
            self.kube.request("GET", f"{path}/{name}", token=self.token)), 120, "it is judged")

    def test_snapshot_metadata(self):
        service = self.kube.get("snapshotmetadataservice", "cairn.csi.dev")["spec"]
        self.assertEqual(self.stream(
            SHIPPED, "GetMetadataDelta", base64.b64decode(service["caCert"]), namespace="default",
            security_token=self.kube.token("default", "app", service["audience"]),
            base_snapshot_id=self.pods.csi.snapshot_id("monday"),
            target_snapshot_name="tuesday"), self.changed)

    def test_a_session(self):
        status = self.created("snapshotsessionrequests", "SnapshotSessionRequest", "session",
                              {"snapshots": ["monday", "tuesday"]}, "sessionState")
        self.assertEqual(status["sessionState"], "Ready", status)
        self.assertEqual(status["sessionURL"], "cairn-snapshot-metadata.cairn.svc:6443")
        self.assertEqual(self.stream(
            SESSION, "GetDelta", base64.b64decode(status["caCert"]),
            session_token=base64.b64decode(status["sessionToken"]).decode(),
            volume_id=self.pods.csi.volume_id("data"), base_snapshot="monday",
            target_snapshot="tuesday"), self.changed)
        # The webhook is asked: who may not read the snapshots gets no session.
        self.kube.service_account("default", "stranger")
        self.kube.allow("stranger", "default:stranger", namespace="default",
                        role="cairn-session-client")
        token = self.kube.token("default", "stranger")
        for version in ("v1alpha1", "v1alpha2"):
            code, text = self.kube.ask(
                "POST", f"/apis/{GROUP}/{version}/namespaces/default/snapshotsessionrequests",
                {"apiVersion": f"{GROUP}/{version}", "kind": "SnapshotSessionRequest",
                 "metadata": {"name": "stolen"}, "spec": {"snapshots": ["monday"]}}, token=token)
            self.assertEqual(code, 403, text)

    def test_a_differential_snapshot(self):
        status = self.created("differentialsnapshots", "DifferentialSnapshot", "differential",
                              {"baseVolumeSnapshotName": "monday",
                               "targetVolumeSnapshotName": "tuesday"}, "state")
        self.assertEqual(status["state"], "Success", status)
        host, _, path = status["url"].partition("/")
        name, _, port = host.partition(":")
        secret = self.kube.get("-n", "cairn", "secret", "cairn-diffsnap-tls")
        context = ssl.create_default_context(
            cadata=base64.b64decode(secret["data"]["ca.crt"]).decode())
        with socket.create_connection((self.address("diffsnap"), int(port)), 60) as plain:
            connection = http.client.HTTPSConnection(name)
            connection.sock = context.wrap_socket(plain, server_hostname=name)
            token = self.kube.token("default", "app", "cairn-diffsnap")
            connection.request("GET", f"/{path}", headers={"Authorization": f"Bearer {token}"})
            reply = connection.getresponse()
            page = json.loads(reply.read())
        self.assertEqual(reply.status, 200, page)
        self.assertIsNone(page["NextOffset"])
        self.assertEqual(set().union(*[blocks(entry["Offset"], entry["Size"])
                                       for entry in page["ChangeBlockList"]]), self.changed)

    def test_a_delta(self):
        status = self.kube.request(
            "POST", f"/apis/{OLD}/namespaces/default/volumesnapshotdeltas",
            {"apiVersion": OLD, "kind": "VolumeSnapshotDelta", "metadata": {"name": "delta"},
             "spec": {"baseVolumeSnapshotName": "monday", "targetVolumeSnapshotName": "tuesday",
                      "mode": "block"}}, token=self.token)["status"]
        self.assertEqual(status["state"], "Completed", status)
        self.assertEqual(set().union(*[
            blocks(entry["offset"] * entry["blockSizeBytes"], entry["blockSizeBytes"])
            for entry in status["changedBlockDeltas"]]), self.changed)


if __name__ == "__main__":
    skip_unless_possible()
    unittest.main()
