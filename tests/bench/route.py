#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""streams through a sidecar of another node against those of the same node, among many contents"""
import concurrent.futures
import http.client
import json
import os
import pathlib
import ssl
import sys
import threading
import time
import urllib.parse

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "cluster"))
os.environ["CAIRN_BIN"] = os.environ.get(
    "CAIRN_BIN") or os.environ["CAIRN_BENCH_BUILD"] + "/src/cairn"
import cluster  # noqa: E402 pylint: disable=wrong-import-position
from nodesbed import DRIVER, MANAGED_BY, NodesBed, enter_network  # noqa: E402 pylint: disable=wrong-import-position

EXTENTS, STEP, PIECE = 16384, 8192, 4096
LISTINGS = int(os.environ.get("BENCH_LISTINGS", "40"))
CONTENTS = int(os.environ.get("BENCH_CONTENTS", "10000"))
NODES = 100  # whose names the contents have; two of them exist
TARGET = 2.0
CONTENT_PATH = "/apis/snapshot.storage.k8s.io/v1/volumesnapshotcontents"


def used(bed, node):
    """(seconds of processor time, MiB resident) of the sidecar."""
    place = pathlib.Path(f"/proc/{bed.processes.pid(f'sidecar-{node}')}")
    cpu = sum(int((task / "schedstat").read_text().split()[0]) for task in (place / "task").iterdir())
    return cpu / 1e9, int((place / "statm").read_text().split()[1]) * 4096 / (1 << 20)


class Poster(threading.local):
    """A connection for each thread."""
    connection = None


def post(kube, poster, method, path, body, kind="application/json"):
    if not poster.connection:
        context = ssl.create_default_context(cafile=str(kube.authority))
        context.load_cert_chain(*kube.identity)
        where = urllib.parse.urlsplit(kube.server)
        poster.connection = http.client.HTTPSConnection(where.hostname, where.port, context=context)
    poster.connection.request(method, path, json.dumps(body), {"Content-Type": kind})
    reply = poster.connection.getresponse()
    text = reply.read()
    if reply.status >= 300:
        raise RuntimeError(text)


def add_contents(kube):
    poster = Poster()

    def add(i):
        name = f"snapcontent-{i}"
        post(kube, poster, "POST", CONTENT_PATH, {
            "apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshotContent",
            "metadata": {"name": name, "labels": {MANAGED_BY: f"node-{i % NODES}"}},
            "spec": {"driver": DRIVER, "deletionPolicy": "Retain", "source": {
                "snapshotHandle": f"snap-{i:016x}-1"},
                "volumeSnapshotRef": {"name": f"s{i}", "namespace": "default"}}})
    with concurrent.futures.ThreadPoolExecutor(16) as threads:
        list(threads.map(add, range(CONTENTS)))


def measure(bed, config, through):
    """(CPU seconds of both sidecars, seconds) of one listing."""
    before = sum(used(bed, node)[0] for node in bed.nodes)
    began = time.monotonic()
    for _ in range(LISTINGS):
        status, found = bed.list_blocks(config, "bench", through, "-s", "cut")
        if status or len(found) != EXTENTS:
            raise RuntimeError(f"{through}: {found if status else len(found)}")
    after = sum(used(bed, node)[0] for node in bed.nodes)
    return (after - before) / LISTINGS, (time.monotonic() - began) / LISTINGS


def main():
    names = ("one", "two")
    enter_network(len(names))
    with cluster.Cluster(crds=True, scheduler=True) as made:
        made.programs.update(cluster.peers(*NodesBed.PROGRAMS))
        bed = NodesBed(made, names)
        bed.start()
        bed.kube.namespace("bench")
        bed.claim("data", "bench", size="256Mi", selector={"kubernetes.io/hostname": "two"})
        handle = bed.volume("data", "bench")["spec"]["csi"]["volumeHandle"]
        with open(bed.nodes["two"].cairn("volume", "path", handle).strip(), "r+b") as file:
            for i in range(EXTENTS):
                os.pwrite(file.fileno(), b"x" * PIECE, i * STEP)
        bed.snapshot("cut", "data", "bench")
        config = bed.make_client("bench", "reader")
        for node in names:
            bed.list_blocks(config, "bench", node, "-s", "cut")
        print(f"memory of a sidecar: {used(bed, 'one')[1]:.1f} MiB with 1 content")
        before = used(bed, "one")[0]
        add_contents(bed.kube)
        time.sleep(5)
        cpu, rss = used(bed, "one")
        print(f"{CONTENTS} contents of {NODES} nodes: {rss:.1f} MiB, "
              f"{(cpu - before) * 1e6 / max(CONTENTS, 1):.0f} us of CPU for each one that is added")
        direct, direct_wall = measure(bed, config, "two")
        routed, routed_wall = measure(bed, config, "one")
        print(f"direct: {direct * 1e3:.2f} ms of CPU, {direct_wall * 1e3:.0f} ms for a listing of "
              f"{EXTENTS} blocks (client included in the second)")
        print(f"routed: {routed * 1e3:.2f} ms of CPU of both sidecars, {routed_wall * 1e3:.0f} ms")
        print(f"routed against direct: {routed / direct:.2f}x of CPU (target: at most {TARGET}x)")
        return 0 if routed <= TARGET * direct else 1


if __name__ == "__main__":
    sys.exit(main())
