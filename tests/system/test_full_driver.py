#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`cairn driver` on a pool with 0 bytes free: one that runs when the disk fills, and one started then.

  test_full_driver.py [--long]     --long: more rounds
"""
import os
import shutil
import subprocess
import sys

from cairncli import BIN, CAN_MOUNT, MIB, main
from csidriver import Code, DriverTest
from test_full import MKFS, empty, fill, make_old

ROUNDS = 1


class Base:
    """The tests, once a filesystem; the pool has one of its own."""

    class FullDriver(DriverTest):
        filesystem = "ext4"

        @classmethod
        def make_pool(cls, name):
            size, mkfs = MKFS[cls.filesystem]
            cls.disk = cls.scratch / "disk"
            cls.disk.mkdir()
            with open(cls.scratch / "image", "wb") as file:
                file.truncate(size * MIB)
            subprocess.run([*mkfs, cls.scratch / "image"], check=True, capture_output=True)
            subprocess.run(["mount", "-o", "loop", cls.scratch / "image", cls.disk], check=True)
            subprocess.run([BIN, "pool", "create", "--quiet", "--backend", cls.backend,
                            cls.disk / name], check=True)
            return cls.disk / name

        @classmethod
        def remove(cls):
            if cls.driver.process.poll() is None:
                cls.driver.kill()
            empty(cls.disk)
            subprocess.run([BIN, "pool", "destroy", "--yes", "--quiet", cls.pool], check=False)
            subprocess.run(["umount", "-l", cls.disk], check=False)
            shutil.rmtree(cls.scratch, ignore_errors=True)

        def setUp(self):
            super().setUp()
            self.addCleanup(empty, self.disk)

        def prepare(self):
            volumes = [self.create(MIB) for _ in range(3)]
            for volume in volumes:
                self.write(volume, 0, os.urandom(MIB // 2))
            return volumes, [self.snapshot(volume) for volume in volumes for _ in range(2)]

        def free_all(self, volumes, snapshots):
            """Everything that reads or frees works, and what takes space is refused."""
            listed = self.call("Controller.ListSnapshots").entries
            self.assertGreaterEqual({entry.snapshot.snapshot_id for entry in listed},
                                    set(snapshots))
            self.call("Controller.ListVolumes")
            self.assertLess(self.call("Controller.GetCapacity").available_capacity, MIB)
            self.refuses(Code.RESOURCE_EXHAUSTED, "Controller.CreateSnapshot",
                         source_volume_id=volumes[0], name=self.name())
            self.refuses(Code.RESOURCE_EXHAUSTED, "Controller.CreateVolume", name=self.name(),
                         capacity_range={"required_bytes": MIB},
                         volume_capabilities=[{"block": {}, "access_mode": {"mode": 1}}])
            for snapshot in snapshots:
                self.delete_snapshot(snapshot)
                fill(self.disk)
            for volume in volumes:
                self.insist("Controller.DeleteVolume", volume_id=volume)
            left = {entry.volume.volume_id for entry in
                    self.call("Controller.ListVolumes").entries}
            self.assertEqual(left & set(volumes), set())

        def test_a_running_driver_frees_space(self):
            for _ in range(ROUNDS):
                made = self.prepare()
                fill(self.disk)
                self.free_all(*made)
                empty(self.disk)
                self.prepare()

        def test_a_driver_started_at_0_bytes_free_frees_space(self):
            for _ in range(ROUNDS):
                made = self.prepare()
                fill(self.disk)
                self.driver.restart()
                self.free_all(*made)
                self.driver.restart()
                self.call("Controller.ListVolumes")
                empty(self.disk)
                self.prepare()

        def test_a_full_pool_without_reserve_is_freed_by_the_driver_and_beside_it(self):
            """As when the driver is upgraded on a full pool: nothing was allocated ahead."""
            volumes, snapshots = self.prepare()
            self.driver.stop()
            make_old(self.pool)
            fill(self.disk)
            self.driver.start()
            subprocess.run([BIN, "--pool", self.pool, "snapshot", "delete", snapshots[0]],
                           check=True)
            fill(self.disk)
            self.free_all(volumes, snapshots[1:])

        def test_a_full_disk_that_was_written_back_does_not_end_the_driver(self):
            """Pages of the shared index that are clean again need a block of their own where the
            filesystem copies on write: no SIGBUS when they are written to."""
            volumes, snapshots = self.prepare()
            fill(self.disk)
            for snapshot in snapshots:
                subprocess.run(["sync", "-f", self.disk], check=False)
                with open("/proc/sys/vm/drop_caches", "w", encoding="ascii") as drop:
                    drop.write("1")
                self.delete_snapshot(snapshot)
                fill(self.disk)
            self.assertIsNone(self.driver.process.poll())
            for volume in volumes:
                self.insist("Controller.DeleteVolume", volume_id=volume)


if CAN_MOUNT:
    class Copy(Base.FullDriver):
        backend = "copy"

    class Btrfs(Base.FullDriver):
        backend, filesystem = "btrfs", "btrfs"

    class Reflink(Base.FullDriver):
        backend, filesystem = "reflink", "xfs"


if __name__ == "__main__":
    if not CAN_MOUNT:
        print("needs root and loop devices")
        sys.exit(77)
    if "--long" in sys.argv:
        sys.argv.remove("--long")
        ROUNDS = 10
    else:  # it takes a minute
        Btrfs.test_a_full_pool_without_reserve_is_freed_by_the_driver_and_beside_it = None
    main()
