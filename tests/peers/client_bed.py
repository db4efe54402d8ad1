# SPDX-License-Identifier: Apache-2.0
"""A volume with known changes on a real control plane, a sidecar before its driver, and
clients of several kinds; what the tests of clients against sidecars share."""
import base64
import json
import os
import subprocess
import unittest

import cluster
from csistack import NAMESPACE, SIDECAR, CsiStack
from processes import Ports

PEERS = cluster.peers_or_skip(*cluster.CONTROL_PLANE, *CsiStack.PROGRAMS, "snapshot-crds",
                              "csi-snapshot-metadata", "esm-iterate")
BIN = os.environ["CAIRN_BIN"]
TIMEOUT = 180
BLOCK, MIB = 4096, 1 << 20
SIZE, SMALL = 512 * MIB, 16 * MIB
DRIVER, AUDIENCE = "cairn.csi.dev", "snapshot-metadata"
DENIED, NOT_FOUND, UNAUTHENTICATED = 7, 5, 16

# Every second block is written, and again: more ranges than all buffers on the way can hold.
WRITTEN = range(0, SIZE // BLOCK, 2)
CHANGED = [*range(1, 400, 7), *range(1000, SIZE // BLOCK - 1, 2)]

# The volume whose bytes are compared is small.
SMALL_WRITTEN, SMALL_CHANGED = range(0, 2000, 3), [*range(5, 900, 10), *range(3000, 3100)]


def ranges(blocks):
    """Block numbers as ranges of bytes, touching ones merged."""
    found = []
    for block in sorted(blocks):
        if found and sum(found[-1]) == block * BLOCK:
            found[-1][1] += BLOCK
        else:
            found.append([block * BLOCK, BLOCK])
    return [tuple(item) for item in found]


def merged(tuples):
    """The same of what a service listed, which must ascend and not overlap."""
    found = []
    for offset, length in tuples:
        assert length > 0 and (not found or sum(found[-1]) <= offset), (offset, length)
        if found and sum(found[-1]) == offset:
            found[-1][1] += length
        else:
            found.append([offset, length])
    return [tuple(item) for item in found]


class SidecarBed(unittest.TestCase):
    """One cluster a class, a service account for clients, and a sidecar."""

    driver = DRIVER
    socket = None  # of the driver

    @classmethod
    def start_cluster(cls, **options):
        cls.bed = cls.enterClassContext(cluster.Cluster(**options))
        cls.kube, cls.csi, cls.processes = cls.bed.kube, cls.bed.csi, cls.bed.processes
        deploy = cluster.REPOSITORY / "deploy"
        cls.kube.apply_files(deploy / "base/namespace.yaml", deploy / "rbac",
                             deploy / "overlays/snapshot-metadata/rbac.yaml")
        cls.cert, cls.key = cls.bed.control_plane.authority.issue(
            "sidecar", "/CN=sidecar", "serverAuth", ["DNS:localhost", "IP:127.0.0.1"])
        cls.make_client()
        cls.ports = Ports()
        cls.addClassCleanup(cls.ports.close)

    @classmethod
    def make_client(cls):
        """A service account with the rights that the project ships for clients."""
        cls.kube.namespace("backup")
        cls.kube.service_account("backup", "client")
        cls.kube.allow("client-one", "backup:client", role="cairn-snapshot-metadata-client")
        cls.kube.allow("client-two", "backup:client", role="cairn-snapshot-metadata-reader",
                       namespace="default")
        cls.kube.allow_own_tokens("backup", "client")
        cls.config = cls.kube.kubeconfig_of_account("backup", "client")

    # --- the sidecar ---

    @classmethod
    def sidecar_command(cls):
        raise NotImplementedError

    @classmethod
    def start_sidecar(cls):
        cls.port, cls.http = cls.ports.take(), cls.ports.take()
        cls.kube.apply({
            "apiVersion": "cbt.storage.k8s.io/v1beta1", "kind": "SnapshotMetadataService",
            "metadata": {"name": cls.driver},
            "spec": {"address": f"localhost:{cls.port}", "audience": AUDIENCE,
                     "caCert": base64.b64encode(cls.kube.authority.read_bytes()).decode()}})
        config = cls.kube.kubeconfig_of_account(NAMESPACE, SIDECAR)
        cls.processes.start("sidecar", [
            *cls.sidecar_command(), f"--kubeconfig={config}", f"--csi-address={cls.socket}",
            f"--port={cls.port}", f"--tls-cert={cls.cert}", f"--tls-key={cls.key}",
            f"--http-endpoint=127.0.0.1:{cls.http}"])
        cls.wait_for_sidecar()

    @classmethod
    def wait_for_sidecar(cls):
        cls.processes.wait_ready("sidecar", lambda: subprocess.run(
            ["curl", "-sf", f"http://127.0.0.1:{cls.http}/health"], capture_output=True,
            check=False).returncode == 0)

    @classmethod
    def restart_sidecar(cls):
        cls.processes.restart("sidecar")
        cls.wait_for_sidecar()

    # --- clients ---

    def command(self, *args, snapshot="tuesday", program="list"):
        return [BIN, program, "-n", "default", "-s", snapshot, "--kubeconfig", str(self.config),
                *map(str, args)]

    def run_cairn(self, *args, code=0, **how):
        done = subprocess.run(self.command(*args, **how), capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=TIMEOUT, check=False)
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def run_go(self, *args, code=0, snapshot="tuesday"):
        """The program on upstream's own client library."""
        done = subprocess.run([PEERS["esm-iterate"], f"-kubeconfig={self.config}",
                               "-namespace=default", f"-snapshot={snapshot}", *map(str, args)],
                              capture_output=True, text=True, stdin=subprocess.DEVNULL,
                              timeout=TIMEOUT, check=False)
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def blocks(self, text):
        """Of a complete ndjson listing."""
        lines = text.splitlines()
        self.assertTrue(json.loads(lines[-1])["complete"])
        return merged((line["byte_offset"], line["size_bytes"])
                      for line in map(json.loads, lines[1:-1]))

    def interrupted(self, meanwhile, *args):
        """Lists with something done in the middle; the listing's blocks and its remarks."""
        with open(self.bed.directory / "said", "w+", encoding="utf-8") as said:
            listing = subprocess.Popen(
                self.command("-o", "ndjson", "--max-results", 1, *args), text=True,
                stdout=subprocess.PIPE, stderr=said, stdin=subprocess.DEVNULL)
            try:
                first = [listing.stdout.readline() for _ in range(100)]
                meanwhile()
                rest = listing.stdout.read()
                code = listing.wait(TIMEOUT)
            finally:
                listing.kill()
                listing.wait()
                listing.stdout.close()
            said.seek(0)
            text = said.read()
        return code, "".join(first) + rest, text


class ClientBed(SidecarBed):
    """With `cairn driver`: the snapshots "monday" and "tuesday" of a claim with many changes,
    and "small-monday" and "small-tuesday" of another with few."""

    @classmethod
    def setUpClass(cls):
        cls.start_cluster(csi=True)
        cls.socket = cls.csi.socket
        cls.make_volume()
        cls.start_sidecar()

    @classmethod
    def write(cls, claim, blocks):
        with open(cls.csi.volume_file(claim), "r+b", buffering=0) as file:
            for block in blocks:
                os.pwrite(file.fileno(), os.urandom(BLOCK), block * BLOCK)
            os.fsync(file.fileno())

    @classmethod
    def make_volume(cls):
        for claim, size, written, changed, prefix in (
                ("data", SIZE, WRITTEN, CHANGED, ""),
                ("small", SMALL, SMALL_WRITTEN, SMALL_CHANGED, "small-")):
            cls.csi.claim(claim, str(size))
            cls.write(claim, written)
            cls.csi.snapshot(f"{prefix}monday", claim)
            cls.write(claim, changed)
            cls.csi.snapshot(f"{prefix}tuesday", claim)
        cls.full, cls.delta = ranges({*WRITTEN, *CHANGED}), ranges(CHANGED)
        cls.monday = cls.csi.snapshot_id("monday")

    def device(self, name, snapshot=None):
        """A file with the data of a small snapshot, or of zeros."""
        path = self.bed.directory / name
        self.addCleanup(path.unlink, missing_ok=True)
        if snapshot:
            source = self.csi.cairn("snapshot", "path", self.csi.snapshot_id(snapshot)).strip()
            subprocess.run(["cp", "--reflink=never", "--sparse=always", source, path], check=True)
        else:
            path.touch()
        os.truncate(path, SMALL)
        return path
