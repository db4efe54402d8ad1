#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two CSI drivers on one pool on Ceph: controller calls and changed blocks, with kills."""
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock

import cephbed

if __name__ == "__main__" and cephbed.missing():
    print(f"needs {cephbed.missing()}: scripts/deps ceph")
    sys.exit(77)

from csidriver import Code, Driver, Failed, block, mount  # noqa: E402

BIN = os.environ.get("CAIRN_BIN", "cairn")
MIB = 1 << 20
BLOCK = 4096
ROUNDS = int(os.environ.get("CAIRN_CEPH_ROUNDS", "3"))
LIMIT = 300  # seconds; only a hang reaches it


class DriversTest(unittest.TestCase):
    def setUp(self):
        import rados
        self.cluster = cephbed.Cluster(os.environ.get("CAIRN_CEPH_STORE", "memstore"))
        self.addCleanup(self.cluster.stop)
        self.pool = f"rbd:rbd/drivers:conf={self.cluster.conf}"
        self.run_cairn("pool", "create", self.pool)
        self.rados = rados.Rados(conffile=self.cluster.conf)
        self.rados.connect()
        self.addCleanup(self.rados.shutdown)
        self.drivers = [self.start_driver(n) for n in range(2)]

    def run_cairn(self, *args):
        done = subprocess.run([BIN, *args], env={**os.environ, "CAIRN_POOL": self.pool},
                              capture_output=True, text=True, timeout=LIMIT)
        self.assertEqual(done.returncode, 0, f"{args}: {done.stdout}{done.stderr}")
        return done.stdout

    def start_driver(self, number):
        scratch = pathlib.Path(tempfile.mkdtemp(prefix=f"cairn-driver{number}-"))
        self.addCleanup(shutil.rmtree, scratch, ignore_errors=True)
        driver = Driver(scratch, self.pool)
        with unittest.mock.patch.dict(os.environ, CAIRN_RUN_DIR=str(scratch / "run")):
            driver.start()
        self.addCleanup(lambda: driver.process.poll() is None and driver.kill())
        return driver

    def call(self, number, name, /, **fields):
        """Tries again what a client of CSI tries again."""
        deadline = time.monotonic() + LIMIT
        while True:
            driver = self.drivers[number]
            try:
                if name.startswith("SnapshotMetadata."):
                    return driver.peer.stream(name, **fields)
                return driver.peer.call(name, **fields)
            except (Failed, ValueError) as failed:  # ValueError: the channel was closed by a kill
                code = getattr(failed, "code", Code.UNAVAILABLE)
                if "Channel closed" in str(failed):  # by the kill, on this side
                    code = Code.UNAVAILABLE
                if code not in (Code.ABORTED, Code.UNAVAILABLE) or time.monotonic() > deadline:
                    raise
                time.sleep(0.3)



class TwoDrivers(DriversTest):
    def write(self, volume, at, data):
        import rbd
        io = self.rados.open_ioctx("rbd")
        io.set_namespace("drivers")
        with rbd.Image(io, volume) as image:
            image.write(data, at)
        io.close()

    def work(self, number):
        """One volume after another, each by both drivers in turn."""
        dice = random.Random(number)
        for i in range(ROUNDS):
            volume = self.call(number, "Controller.CreateVolume", name=f"pvc-{number}-{i}",
                               capacity_range={"required_bytes": 8 * MIB},
                               volume_capabilities=[block()]).volume.volume_id
            image = json.loads(self.run_cairn("volume", "info", f"pvc-{number}-{i}", "--output",
                                              "json"))["id"]
            self.write(image, 0, b"a" * 4 * MIB)
            first = self.snap(number, volume, f"s-{number}-{i}-0")
            at = dice.randrange(0, MIB // BLOCK) * BLOCK
            self.write(image, at, b"b" * BLOCK)
            second = self.snap(1 - number, volume, f"s-{number}-{i}-1")
            self.call(number, "Controller.DeleteSnapshot", snapshot_id=first)
            answers = self.call(1 - number, "SnapshotMetadata.GetMetadataDelta",
                                base_snapshot_id=first, target_snapshot_id=second)
            found = [(b.byte_offset, b.size_bytes) for a in answers for b in a.block_metadata]
            self.assertEqual(found, [(at, BLOCK)])
            self.call(1 - number, "Controller.DeleteSnapshot", snapshot_id=second)
            self.call(1 - number, "Controller.DeleteVolume", volume_id=volume)

    def snap(self, number, volume, name):
        answer = self.call(number, "Controller.CreateSnapshot", source_volume_id=volume, name=name)
        return answer.snapshot.snapshot_id

    def test_both_at_once_with_kills(self):
        faults, stop = [], threading.Event()

        def guarded(number):
            try:
                self.work(number)
            except Exception as fault:  # pylint: disable=broad-except
                faults.append(repr(fault))

        threads = [threading.Thread(target=guarded, args=(n,)) for n in range(2)]
        for thread in threads:
            thread.start()
        dice = random.Random(7)
        for _ in range(ROUNDS):
            if any(thread.is_alive() for thread in threads):
                stop.wait(1 + dice.random())
                self.drivers[dice.randrange(2)].restart()
        for thread in threads:
            thread.join()
        self.assertEqual(faults, [])
        for driver in self.drivers:
            self.assertEqual(driver.stop(), 0)
        self.assertIn("no fault", self.run_cairn("pool", "check"))


@unittest.skipUnless(os.path.exists("/dev/fuse") and os.path.exists("/dev/loop-control"),
                     "needs /dev/fuse and loop devices")
class AnyNode(DriversTest):
    """Drivers of two nodes: a volume is used on either, on one at a time. btrfs (of 256 MiB, which it grows from),
    because ext4 grows only for who has CAP_SYS_RESOURCE."""

    def setUp(self):
        super().setUp()
        self.at = [driver.socket.parent / "staging" for driver in self.drivers]
        for place in self.at:
            place.mkdir()
            self.addCleanup(self.remove, place)

    def remove(self, place):
        """What a test that failed left on a node, while its Ceph cluster is up."""
        if place.is_mount():
            subprocess.run(["umount", place], check=False, timeout=LIMIT)
            subprocess.run([BIN, "volume", "detach", "pvc"], check=False, timeout=LIMIT, env={
                **os.environ, "CAIRN_POOL": self.pool, "CAIRN_RUN_DIR": str(place.parent / "run")})

    def node(self, number, name, /, **fields):
        return self.call(number, f"Node.{name}", volume_id=self.volume, **fields)

    def stage(self, number):
        self.node(number, "NodeStageVolume", volume_capability=mount("btrfs"),
                  staging_target_path=str(self.at[number]))

    def unstage(self, number):
        """Again, as a kubelet does, while another mount namespace has a copy of the mount, or the export of the
        volume still holds it after a snapshot."""
        deadline = time.monotonic() + LIMIT
        while True:
            try:
                self.node(number, "NodeUnstageVolume", staging_target_path=str(self.at[number]))
                return
            except Failed as failed:
                if failed.code != Code.FAILED_PRECONDITION or time.monotonic() > deadline:
                    raise
                time.sleep(0.3)

    def test_a_volume_is_staged_on_any_node_and_on_one_at_a_time(self):
        made = self.call(0, "Controller.CreateVolume", name="pvc", volume_capabilities=[mount("btrfs")],
                         capacity_range={"required_bytes": 256 * MIB}).volume
        self.assertEqual(len(made.accessible_topology), 0)
        self.volume = made.volume_id
        self.stage(0)
        (self.at[0] / "word").write_text("from node 0")
        with self.assertRaises(Failed) as caught:
            self.stage(1)
        self.assertEqual(caught.exception.code, Code.FAILED_PRECONDITION, caught.exception)
        self.unstage(0)
        self.stage(1)
        self.assertEqual((self.at[1] / "word").read_text(), "from node 0")
        # The controllers may be on the other node.
        self.call(0, "Controller.ControllerExpandVolume", volume_id=self.volume,
                  volume_capability=mount("btrfs"), capacity_range={"required_bytes": 512 * MIB})
        self.node(1, "NodeExpandVolume", volume_path=str(self.at[1]),
                  volume_capability=mount("btrfs"), capacity_range={"required_bytes": 512 * MIB})
        space = os.statvfs(self.at[1])
        self.assertGreater(space.f_blocks * space.f_frsize, 400 * MIB)
        (self.at[1] / "word").write_text("from node 1")
        cut = self.call(0, "Controller.CreateSnapshot", source_volume_id=self.volume, name="s")
        self.unstage(1)
        self.stage(0)
        self.assertEqual((self.at[0] / "word").read_text(), "from node 1")
        self.unstage(0)
        self.call(1, "Controller.DeleteSnapshot", snapshot_id=cut.snapshot.snapshot_id)
        self.call(1, "Controller.DeleteVolume", volume_id=self.volume)
        self.assertIn("no fault", self.run_cairn("pool", "check"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
