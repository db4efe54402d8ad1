# SPDX-License-Identifier: Apache-2.0
"""Sidecars on a real control plane: ours and the Go one, before a driver that does what a
test tells it. The driver runs in the test's own process, on a real socket."""
import base64
import concurrent.futures
import contextlib
import http.client
import os
import pathlib
import threading
import time

os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
import grpc  # noqa: E402

import cluster  # noqa: E402
import wire  # noqa: E402
from processes import Failed, Ports, wait_until  # noqa: E402

DRIVER = "scripted.cairn.test"
AUDIENCE = "cairn-test-audience"
ACCOUNT = "sidecar"
HOME = "sidecar-home"
SNAPSHOTS = "/apis/snapshot.storage.k8s.io/v1"
DEPLOY = cluster.REPOSITORY / "deploy"
PROGRAMS = (*cluster.CONTROL_PLANE, "snapshot-crds", "csi-snapshot-metadata")
IDENTITY, METADATA = "csi.v1.Identity", "csi.v1.SnapshotMetadata"


def three(_request, _context):
    """Three messages of ten tuples."""
    for i in range(3):
        yield wire.message([((i * 10 + k) * 8192, 4096) for k in range(10)])


class Driver:
    """A CSI driver: `script(request, context)` yields the bytes of messages."""

    def __init__(self, socket, name=DRIVER, script=three):
        self.socket, self.name, self.script = socket, name, script
        self.asked = []
        self.server = None

    def stream(self, delta):
        def handle(data, context):
            request = wire.csi_request(data, delta)
            self.asked.append(request)
            yield from self.script(request, context)
        return grpc.unary_stream_rpc_method_handler(handle)

    def start(self):
        unary = grpc.unary_unary_rpc_method_handler
        self.server = grpc.server(concurrent.futures.ThreadPoolExecutor(128), options=[
            ("grpc.max_send_message_length", -1), ("grpc.so_reuseport", 0)])
        self.server.add_generic_rpc_handlers((
            grpc.method_handlers_generic_handler(IDENTITY, {
                "GetPluginInfo": unary(lambda *_: wire.text(1, self.name)),
                "Probe": unary(lambda *_: b""),
                "GetPluginCapabilities": unary(
                    lambda *_: wire.text(1, wire.text(1, wire.number(1, 4))))}),
            grpc.method_handlers_generic_handler(METADATA, {
                "GetMetadataAllocated": self.stream(False),
                "GetMetadataDelta": self.stream(True)})))
        pathlib.Path(self.socket).unlink(missing_ok=True)
        self.server.add_insecure_port(f"unix:{self.socket}")
        self.server.start()

    def stop(self):
        if self.server:
            self.server.stop(0).wait()
            self.server = None


class Outcome:
    """How a stream ended: name of the code, text, and the messages before that."""

    def __init__(self, stream):
        self.messages = []
        try:
            for message in stream:
                self.messages.append(message)
            self.code, self.text = "OK", ""
        except grpc.RpcError as why:
            self.code, self.text = why.code().name, why.details()

    @property
    def tuples(self):
        return [pair for message in self.messages for pair in wire.read_message(message)[2]]

    def __repr__(self):
        return f"{self.code}: {self.text} ({len(self.messages)} messages)"


class Client:
    def __init__(self, port, authority, host="127.0.0.1", window=None):
        """`window`: bytes that it takes before they are read."""
        options = [("grpc.max_receive_message_length", 64 << 20), ("grpc.enable_retries", 0)]
        if window:
            options += [("grpc.http2.lookahead_bytes", window), ("grpc.http2.bdp_probe", 0)]
        self.channel = grpc.secure_channel(
            f"{host}:{port}", grpc.ssl_channel_credentials(pathlib.Path(authority).read_bytes()),
            options=options)

    def stream(self, method, request, timeout=60):
        return self.channel.unary_stream(f"/snapshotmetadata.SnapshotMetadata/{method}")(
            request, timeout=timeout)

    def allocated(self, *request, timeout=60, **more):
        return Outcome(self.start(*request, timeout=timeout, **more))

    def delta(self, *request, timeout=60, **more):
        return Outcome(self.stream("GetMetadataDelta", wire.delta_request(*request, **more),
                                   timeout))

    def start(self, *request, timeout=60, **more):
        return self.stream("GetMetadataAllocated", wire.allocated_request(*request, **more),
                           timeout)

    def serving(self):
        """The health service's answer: 1 is SERVING."""
        reply = self.channel.unary_unary("/grpc.health.v1.Health/Check")(b"", timeout=60)
        return dict(wire.fields(reply)).get(1, 0)

    def close(self):
        self.channel.close()


class Sidecar:
    """A running sidecar, ours or the Go one."""

    def __init__(self, bed, words, name, socket, ports, http=True):
        self.bed, self.name, self.socket = bed, name, socket
        self.port, self.http_port = ports.take(), ports.take()
        self.words = [*words, f"--kubeconfig={bed.config}", f"--csi-address={socket}",
                      f"--port={self.port}", f"--tls-cert={bed.cert[0]}",
                      f"--tls-key={bed.cert[1]}"]
        if http:
            self.words.append(f"--http-endpoint=127.0.0.1:{self.http_port}")
        self.client = Client(self.port, bed.authority)

    def start(self, *more):
        self.bed.processes.start(self.name, [*self.words, *more])

    def http(self, path):
        """(status, body); None when nobody listens."""
        try:
            with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.http_port,
                                                               timeout=60)) as connection:
                connection.request("GET", path)
                reply = connection.getresponse()
                return reply.status, reply.read().decode()
        except OSError:
            return None

    def health(self):
        reply = self.http("/health")
        return reply[0] if reply else None

    def metrics(self):
        return self.http("/metrics")[1]

    def metric(self, name):
        """The value of one series, by its full name with labels."""
        for line in self.metrics().splitlines():
            if line.startswith(f"{name} "):
                return float(line.rsplit(" ", 1)[1])
        return None

    def wait_ready(self):
        self.bed.processes.wait_ready(self.name, lambda: self.health() == 200)

    def is_alive(self):
        return self.bed.processes.is_alive(self.name)

    def wait_gone(self, seconds=60):
        wait_until(lambda: not self.is_alive(), seconds, f"{self.name} ends")

    def log(self):
        return self.bed.processes.log_text(self.name)

    def close(self):
        self.client.close()
        self.bed.processes.kill(self.name)


class Bed:
    """A control plane with one caller ("one:client"), and objects made by hand."""

    def __init__(self, **cluster_options):
        self.cluster = cluster.Cluster(**(cluster_options or {"crds": True}))
        self.count = 0
        self.lock = threading.Lock()

    def __enter__(self):
        self.cluster.__enter__()
        try:
            self.prepare()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *why):
        self.close()

    def close(self):
        self.ports.close()
        self.cluster.close()

    def prepare(self):
        self.kube, self.processes = self.cluster.kube, self.cluster.processes
        self.ports = Ports()
        self.directory = self.cluster.directory
        authority = self.cluster.control_plane.authority
        self.authority = authority.crt
        self.cert = authority.issue("sidecar", "/CN=sidecar", "serverAuth",
                                    ["IP:127.0.0.1", "IP:127.0.0.2", "DNS:localhost"])
        self.programs = cluster.peers("csi-snapshot-metadata")
        for namespace in (HOME, "one", "two"):
            self.kube.namespace(namespace)
        self.kube.service_account(HOME, ACCOUNT)
        self.kube.apply(DEPLOY / "rbac" / "snapshot-metadata.yaml")
        self.kube.allow("sidecar-test", f"{HOME}:{ACCOUNT}", role="cairn-snapshot-metadata")
        self.config = self.kube.kubeconfig_of_account(HOME, ACCOUNT)
        self.add_caller("client")
        self.token = self.kube.token("one", "client", AUDIENCE)
        self.add_service(DRIVER)
        self.kube.apply({"apiVersion": "snapshot.storage.k8s.io/v1",
                         "kind": "VolumeSnapshotClass", "metadata": {"name": "plain"},
                         "driver": DRIVER, "deletionPolicy": "Delete"})

    def add_service(self, driver, address="localhost:1"):
        self.kube.apply({"apiVersion": "cbt.storage.k8s.io/v1beta1",
                         "kind": "SnapshotMetadataService", "metadata": {"name": driver},
                         "spec": {"address": address, "audience": AUDIENCE,
                                  "caCert": base64.b64encode(
                                      self.authority.read_bytes()).decode()}})

    def add_caller(self, name, rules=True):
        self.kube.service_account("one", name)
        if rules:
            self.kube.allow(f"reader-{name}", f"one:{name}",
                            [("snapshot.storage.k8s.io", "volumesnapshots", "get")],
                            namespace="one")

    def name(self, what):
        with self.lock:
            self.count += 1
            return f"{what}{self.count}"

    # ---- objects ----

    def put_status(self, path, status):
        self.kube.request("PATCH", f"{path}/status", {"status": status},
                          content_type="application/merge-patch+json")

    def content(self, name, namespace, snapshot, handle, volume="vol", driver=DRIVER, uid=None,
                status=True):
        source = {"volumeHandle": volume} if volume else {"snapshotHandle": handle}
        reference = {"namespace": namespace, "name": snapshot}
        if uid:
            reference["uid"] = uid
        self.kube.request("POST", f"{SNAPSHOTS}/volumesnapshotcontents", {
            "apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshotContent",
            "metadata": {"name": name},
            "spec": {"driver": driver, "deletionPolicy": "Retain", "source": source,
                     "volumeSnapshotRef": reference}})
        if status:
            self.put_status(f"{SNAPSHOTS}/volumesnapshotcontents/{name}",
                            {"snapshotHandle": handle, "readyToUse": True})

    def snapshot(self, namespace="one", name=None, handle=None, klass="plain", status=True,
                 content_status=True, bound=None, refers_to=None, **content):
        """A VolumeSnapshot with its content, as controllers would leave them. Its name."""
        name = name or self.name("snap")
        spec = {"source": {"persistentVolumeClaimName": "claim"}}
        if klass:
            spec["volumeSnapshotClassName"] = klass
        made = self.kube.request("POST", f"{SNAPSHOTS}/namespaces/{namespace}/volumesnapshots", {
            "apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshot",
            "metadata": {"name": name}, "spec": spec})
        self.content(f"content-{namespace}-{name}", namespace, refers_to or name,
                     handle or f"h-{name}", uid=None if refers_to else made["metadata"]["uid"],
                     status=content_status, **content)
        if status:
            self.put_status(f"{SNAPSHOTS}/namespaces/{namespace}/volumesnapshots/{name}", {
                "readyToUse": True,
                "boundVolumeSnapshotContentName": bound or f"content-{namespace}-{name}"})
        return name

    def reviews(self):
        """How many TokenReviews the API server was asked for."""
        total = 0
        for line in self.kube.ask("GET", "/metrics")[1].splitlines():
            if line.startswith("apiserver_request_total") and 'resource="tokenreviews"' in line:
                total += float(line.rsplit(" ", 1)[1])
        return total

    # ---- sidecars ----

    def driver(self, **how):
        return Driver(self.directory / f"{self.name('d')}.sock", **how)

    def cairn(self, driver, **how):
        # A short time for answers, so that tests need not wait long.
        return Sidecar(self, [self.cluster.cairn, "sidecar", "-v=4", "--cache-time=2s",
                              "--bind-address=127.0.0.1"], self.name("cairn-sidecar"),
                       getattr(driver, "socket", driver), self.ports, **how)

    def upstream(self, driver, **how):
        return Sidecar(self, [self.programs["csi-snapshot-metadata"], "-v=4"],
                       self.name("go-sidecar"), getattr(driver, "socket", driver), self.ports,
                       **how)


def eventually(condition, seconds=180, what="it becomes so"):
    return wait_until(condition, seconds, what)


__all__ = ["AUDIENCE", "Bed", "Client", "DRIVER", "Driver", "Failed", "Outcome", "PROGRAMS",
           "Sidecar", "eventually", "grpc", "three", "time", "wire"]
