# SPDX-License-Identifier: Apache-2.0
"""What the tests of the older flavours share: a cluster with a driver that speaks all of
them, volumes with a known history, HTTPS requests, and blocks as sets of numbers."""
import http.client
import json
import os
import pathlib
import ssl
import unittest

import cluster
from csistack import CsiStack
from pki import SERVER, Authority

cluster.peers_or_skip(*cluster.CONTROL_PLANE, *CsiStack.PROGRAMS, "snapshot-crds")
DEPLOY = pathlib.Path(__file__).resolve().parents[2] / "deploy"
GROUP = "cbt.storage.k8s.io"
DISCOVERY = next((DEPLOY / "volumesnapshotdelta").rglob("driverdiscoveries.yaml"))
BLOCK = 4096
MIB = 1 << 20
OLDER = ("--sessions", "--differential-snapshots", "--snapshot-deltas")
HOST = "127.0.0.1"


def blocks(offset, size):
    return set(range(offset // BLOCK, (offset + size + BLOCK - 1) // BLOCK))


class Https:
    """Requests to one server, whose authority is known."""

    def __init__(self, port, authority):
        self.port = port
        self.context = ssl.create_default_context(cafile=str(authority))

    def ask(self, path, token=None, method="GET", body=None, headers=()):
        """(status, text, fields)"""
        fields = dict(headers)
        if token is not None:
            fields["Authorization"] = f"Bearer {token}"
        connection = http.client.HTTPSConnection(HOST, self.port, context=self.context,
                                                 timeout=60)
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


class GenerationsTest(unittest.TestCase):
    driver_args = OLDER

    @classmethod
    def setUpClass(cls):
        cls.bed = cls.enterClassContext(cluster.Cluster(csi=True, driver_args=cls.driver_args))
        cls.kube, cls.csi = cls.bed.kube, cls.bed.csi
        cls.authority = Authority(cls.bed.directory / "role-pki", "ca", "roles")
        cls.cert, cls.key = cls.authority.issue("role", "/CN=role", SERVER,
                                                ["IP:127.0.0.1", "DNS:localhost"])
        cls.ports = []

    @classmethod
    def port(cls):
        from processes import Ports  # pylint: disable=import-outside-toplevel
        ports = Ports()
        cls.addClassCleanup(ports.close)
        return ports.take()

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
