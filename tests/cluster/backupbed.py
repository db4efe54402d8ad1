# SPDX-License-Identifier: Apache-2.0
"""What the tests of backups without a node share: a control plane with the driver and the
sidecar, an account that may list changed blocks, and a repository in a directory."""
import hashlib
import os
import pathlib
import subprocess
import tempfile
import unittest

import cluster
from csistack import CsiStack
from rights import Audit

cluster.peers_or_skip(*cluster.CONTROL_PLANE, *CsiStack.PROGRAMS, "snapshot-crds")
MIB = 1 << 20
BLOCK = 4096
SPACE = "shop"


def digest(path):
    return hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()


class BackupTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        directory = pathlib.Path(tempfile.mkdtemp(prefix="cairn-cluster-"))
        cls.audit = Audit(directory)
        cls.bed = cls.enterClassContext(cluster.Cluster(directory, csi=True,
                                                        apiserver_args=cls.audit.words))
        cls.kube, cls.csi = cls.bed.kube, cls.bed.csi
        cls.kube.namespace(SPACE)
        cls.csi.start_sidecar()
        cls.config = cls.csi.make_client(SPACE, "backup")
        cls.scratch = pathlib.Path(cls.bed.directory)
        cls.environment = {**os.environ, "CAIRN_REPOSITORY": str(cls.scratch / "repository"),
                           "RESTIC_PASSWORD": "cluster", "CAIRN_POOL": "/nowhere"}
        cls.run_cairn("init")

    @classmethod
    def words(cls, *args):
        return [cls.bed.cairn, "backup", *map(str, args), "-o", "json"]

    @classmethod
    def run_cairn(cls, *args, words=None, status=0):
        """`cairn backup ARGS`, or the whole command, when it has ended as it should."""
        done = subprocess.run(words or cls.words(*args), env=cls.environment, text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=300,
                              check=False)
        if done.returncode != status:
            raise AssertionError(f"{done.args}: {done.returncode} {done.stdout}{done.stderr}")
        return done

    def write(self, offset, data, claim="data"):
        with open(self.csi.volume_file(claim, SPACE), "r+b") as file:
            file.seek(offset)
            file.write(data)
            os.fsync(file.fileno())
