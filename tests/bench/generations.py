# SPDX-License-Identifier: Apache-2.0
"""The four flavours of the API from one driver: blocks a second, CPU a block, and where."""
import base64
import http.client
import json
import os
import pathlib
import random
import ssl
import sys
import time

from benchlib import BLOCK, CAIRN, Report

TESTS = pathlib.Path(__file__).resolve().parents[1]
# Not this directory: it has a grpc.py of its own.
sys.path[:1] = [str(TESTS / "cluster"), str(TESTS / "generations")]
os.environ.setdefault("CAIRN_BIN", CAIRN)
# pylint: disable=wrong-import-position
import cluster  # noqa: E402
import grpc  # noqa: E402
from generations import GROUP, HOST, OLDER, Roles  # noqa: E402
from processes import Ports, wait_until  # noqa: E402
from pki import SERVER  # noqa: E402

SIZE_MIB = 4096
CHANGED = int(os.environ.get("CAIRN_BENCH_BLOCKS", "100000"))  # single blocks, none touching
STREAM_MESSAGE = 1024
PAGE = 256  # of VolumeSnapshotDelta: its default and what its proposal says
TICKS = os.sysconf("SC_CLK_TCK")
RUNS = 2
LONG_ENOUGH = 5  # seconds
PROGRAMS = ["driver", "sidecar", "diffsnap", "cbt-http", "aggapi", "kube-apiserver"]


def cpu_of(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


class Bench:
    def __init__(self, bed):
        self.bed, self.kube, self.csi = bed, bed.kube, bed.csi
        self.roles = Roles(bed, log_level="warn")
        self.ports = Ports()

    def start(self):
        self.roles.prepare()
        self.roles.start_sidecar()
        self.roles.start_manager()
        self.roles.start_diffsnap()
        self.start_deltas()
        credentials = grpc.ssl_channel_credentials(self.roles.authority.crt.read_bytes())
        self.channel = grpc.secure_channel(f"{HOST}:{self.roles.grpc_port}", credentials)
        grpc.channel_ready_future(self.channel).result(timeout=60)

    def start_deltas(self):
        """`cairn cbt-http` and `cairn aggapi` behind an APIService."""
        for file in sorted((TESTS.parent / "deploy/components").glob(
                "volumesnapshotdelta/rbac.yaml")):
            self.kube.apply(file)
        authority = self.bed.control_plane.authority
        pair = authority.issue("aggregated", "/CN=cairn-aggapi", SERVER,
                               ["DNS:cairn-aggapi.cairn.svc", "IP:127.0.0.1"])
        near, far = self.ports.take(), self.ports.take()
        common = ["--tls-cert", pair[0], "--tls-key", pair[1], "--log-level", "warn"]
        self.bed.processes.start("cbt-http", [
            self.bed.cairn, "cbt-http", "--csi-address", f"unix://{self.csi.socket}", "--listen",
            f"{HOST}:{near}", *common, "--kubeconfig",
            self.kube.kubeconfig_of_account("cairn", "cairn-cbt-http"),
            "--publish-url", f"https://{HOST}:{near}", "--publish-ca", authority.crt])
        self.bed.processes.start("aggapi", [
            self.bed.cairn, "aggapi", "--listen", f"{HOST}:{far}", *common, "--kubeconfig",
            self.kube.kubeconfig_of_account("cairn", "cairn-aggapi"),
            "--user-rate", "100000", "--user-burst", "100000", "--cache-time", "0"])
        self.kube.apply([
            {"apiVersion": "v1", "kind": "Service",
             "metadata": {"name": "cairn-aggapi", "namespace": "cairn"},
             "spec": {"type": "ExternalName", "externalName": "localhost",
                      "ports": [{"port": far}]}},
            {"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
             "metadata": {"name": f"v1alpha1.{GROUP}", "labels": {
                 "kube-aggregator.kubernetes.io/automanaged": "false"}},
             "spec": {"group": GROUP, "version": "v1alpha1", "groupPriorityMinimum": 1000,
                      "versionPriority": 10,
                      "caBundle": base64.b64encode(authority.crt.read_bytes()).decode(),
                      "service": {"namespace": "cairn", "name": "cairn-aggapi", "port": far}}}])
        self.kube.kubectl("wait", "--for=condition=Available", "apiservice", f"v1alpha1.{GROUP}",
                          "--timeout=60s")

    def make_snapshots(self):
        self.csi.claim("data", f"{SIZE_MIB}Mi")
        self.csi.snapshot("before", "data")
        chance = random.Random(1)
        places = chance.sample(range(SIZE_MIB * 256 // 2), CHANGED)
        with open(self.csi.volume_file("data"), "r+b", buffering=0) as file:
            for place in sorted(places):
                os.pwrite(file.fileno(), b"x" * BLOCK, 2 * place * BLOCK)
        self.csi.snapshot("after", "data")

    # ---- one flavour each; the answers are read and thrown away ----

    def stream(self, path, request):
        call = self.channel.unary_stream(path, request_serializer=None,
                                         response_deserializer=None)
        return sum(len(message) for message in call(request, timeout=600))

    def shipped(self):
        token = self.kube.token("default", "app", Roles.AUDIENCE)
        request = (text(1, token) + text(2, "default") + text(3, self.csi.snapshot_id("before")) +
                   text(4, "after") + number(6, STREAM_MESSAGE))
        return lambda: self.stream("/snapshotmetadata.SnapshotMetadata/GetMetadataDelta", request)

    def sessions(self):
        token = self.roles.session("bench", "before", "after")
        request = (text(1, token) + text(2, self.csi.volume_id("data")) + text(3, "before") +
                   text(4, "after") + number(6, STREAM_MESSAGE))
        return lambda: self.stream("/SnapshotMetadata/GetDelta", request)

    def differential(self):
        self.kube.apply({"apiVersion": f"{GROUP}/v1alpha2", "kind": "DifferentialSnapshot",
                         "metadata": {"name": "bench"},
                         "spec": {"baseVolumeSnapshotName": "before",
                                  "targetVolumeSnapshotName": "after"}})
        self.kube.wait(lambda made: made.get("status", {}).get("state") == "Success",
                       "differentialsnapshot", "bench")
        connection = self.connect(HOST, self.roles.rest_port, self.roles.authority.crt)

        def run():
            total, at = 0, ""
            while True:
                connection.request("GET", "/default/bench" + (f"?startOffset={at}" if at else ""), None,
                                   {"Authorization": f"Bearer {self.roles.token}"})
                body = self.read(connection)
                total += len(body)
                at = json.loads(b'{"' + body[body.rindex(b"NextOffset"):])["NextOffset"] or ""
                if not at:
                    return total
        return run

    def deltas(self):
        self.kube.allow("bench-deltas", "default:app", namespace="default", rules=[
            (GROUP, "volumesnapshotdeltas", "create"),
            ("snapshot.storage.k8s.io", "volumesnapshots", "get")])
        where = self.kube.server.split("//")[1].split(":")
        connection = self.connect(where[0], int(where[1]), self.kube.authority)
        path = f"/apis/{GROUP}/v1alpha1/namespaces/default/volumesnapshotdeltas"

        def run():
            total, at = 0, 0
            while True:
                connection.request("POST", path, json.dumps({
                    "apiVersion": f"{GROUP}/v1alpha1", "kind": "VolumeSnapshotDelta",
                    "metadata": {"name": "bench"},
                    "spec": {"baseVolumeSnapshotName": "before",
                             "targetVolumeSnapshotName": "after", "mode": "block",
                             "limit": PAGE, "offset": at}}),
                    {"Authorization": f"Bearer {self.roles.token}",
                     "Content-Type": "application/json"})
                body = self.read(connection)
                total += len(body)
                status = json.loads(body)["status"]
                if status["state"] != "Continue":
                    assert status["state"] == "Completed", status
                    return total
                at = status["continue"]
        return run

    @staticmethod
    def connect(host, port, authority):
        return http.client.HTTPSConnection(host, port, timeout=600,
                                           context=ssl.create_default_context(
                                               cafile=str(authority)))

    @staticmethod
    def read(connection):
        reply = connection.getresponse()
        body = reply.read()
        assert reply.status in (200, 201), body
        return body

    # ---- measuring ----

    def cpu(self):
        return {name: cpu_of(self.bed.processes.pid(name)) for name in PROGRAMS}

    def measure(self, run):
        """(best wall, {program: CPU seconds}, bytes) of a run; CPU is the mean of as many
        runs as the clock of processes needs to tell it."""
        walls, size = [], run()  # once for what is made once: connections, answers kept
        before, begin = self.cpu(), time.monotonic()
        while len(walls) < RUNS or time.monotonic() - begin < LONG_ENOUGH:
            start = time.monotonic()
            size = run()
            walls.append(time.monotonic() - start)
        spent = {name: (now - before[name]) / len(walls) for name, now in self.cpu().items()}
        return min(walls), spent, size


def varint(value):
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def text(field, value):
    return varint(field << 3 | 2) + varint(len(value)) + value.encode()


def number(field, value):
    return varint(field << 3) + varint(value)


def main():
    report = Report(f"generations: {CHANGED} changed blocks, four ways to ask for them")
    with cluster.Cluster(csi=True, driver_args=OLDER, cairn=CAIRN) as bed:
        bench = Bench(bed)
        bench.start()
        bench.make_snapshots()
        wait_until(lambda: bed.kube.get("driverdiscovery")["items"], 60, "the driver is found")
        results = {}
        for name, make in (("SnapshotMetadata", bench.shipped), ("sessions", bench.sessions),
                           ("DifferentialSnapshot", bench.differential),
                           ("VolumeSnapshotDelta", bench.deltas)):
            wall, spent, size = results[name] = bench.measure(make())
            ours = sum(cpu for who, cpu in spent.items() if who != "kube-apiserver")
            where = ", ".join(f"{who} {cpu / CHANGED * 1e9:.0f}"
                              for who, cpu in spent.items() if cpu / CHANGED * 1e9 >= 1)
            report.figure(name, f"{CHANGED / wall:,.0f} blocks/s, {size / CHANGED:.1f} bytes a "
                                f"block; ours {ours / CHANGED * 1e9:.0f} ns a block, "
                                f"kube-apiserver "
                                f"{spent['kube-apiserver'] / CHANGED * 1e9:.0f} ns ({where})")
        bench.ports.close()
        bench.roles.ports.close()
    direct, proxied = (results[name] for name in ("SnapshotMetadata", "VolumeSnapshotDelta"))
    report.figure("through kube-apiserver", f"{proxied[0] / direct[0]:.0f} times the wall time "
                                            f"and {sum(proxied[1].values()) / max(sum(direct[1].values()), 0.01):.0f} "
                                            f"times the CPU of the shipped service")
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
