#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Group snapshots of `cairn driver` on Ceph: the tests of the other pools."""
import json
import os
import pathlib
import subprocess
import sys
import unittest

import cephbed

if __name__ == "__main__" and cephbed.missing():
    print(f"needs {cephbed.missing()}: scripts/deps ceph")
    sys.exit(77)

import test_driver_group  # noqa: E402
from csidriver import BIN  # noqa: E402


class RbdGroup(test_driver_group.Group):
    @classmethod
    def make_pool(cls, name):
        import rados
        cls.cluster = cephbed.Cluster(os.environ.get("CAIRN_CEPH_STORE", "memstore"))
        cls.addClassCleanup(cls.cluster.stop)
        os.environ["CAIRN_RUN_DIR"] = str(cls.scratch / "run")
        cls.rados = rados.Rados(conffile=cls.cluster.conf)
        cls.rados.connect()
        cls.addClassCleanup(cls.rados.shutdown)
        pool = f"rbd:rbd/{name}:conf={cls.cluster.conf}"
        subprocess.run([BIN, "pool", "create", "--quiet", pool], check=True)
        return pool

    def path_of(self, kind, which):
        """A file with the bytes of a snapshot: there is none of its own."""
        import rbd
        self.assertEqual(kind, "snapshot")
        found = json.loads(subprocess.run(
            [BIN, "--pool", self.pool, "snapshot", "info", which, "-o", "json"], check=True,
            capture_output=True, text=True).stdout)
        copy = pathlib.Path(self.scratch) / f"{found['id']}.img"
        with self.rados.open_ioctx("rbd") as io:
            io.set_namespace("pool")
            with rbd.Image(io, found["volume_id"], snapshot=found["id"], read_only=True) as image:
                with open(copy, "wb") as out:
                    out.truncate(image.size())
                    image.diff_iterate(0, image.size(), None, lambda at, n, exists: exists and (
                        os.pwrite(out.fileno(), image.read(at, n), at)))
        self.addCleanup(copy.unlink)
        return str(copy)


if __name__ == "__main__":
    unittest.main(verbosity=2)
