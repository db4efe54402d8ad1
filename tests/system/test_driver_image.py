#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`cairn driver` on a pool whose image has shut down."""
import subprocess
import time
import unittest

from cairncli import BIN, CAN_MOUNT, MIB, TIMEOUT, main, stop_image
from csidriver import DriverTest, Failed


@unittest.skipUnless(CAN_MOUNT, "needs root and loop devices")
class ImageThatShutDown(DriverTest):
    """A driver that keeps the image open mounts it again, without being started anew."""

    backend = "reflink"

    def wait_for(self, work):
        """Tries until it succeeds; what succeeded then."""
        deadline = time.monotonic() + TIMEOUT
        while True:
            try:
                return work()
            except Failed:
                self.assertLess(time.monotonic(), deadline)
                self.assertIsNone(self.driver.process.poll())
                time.sleep(0.2)

    def test_it_works_again_when_nothing_is_attached(self):
        volume = self.create(MIB)
        self.write(volume, 0, b"x" * 4096)
        snapshot = self.snapshot(volume)
        pid = self.driver.process.pid
        stop_image(self.pool / "data")
        later = self.wait_for(lambda: self.snapshot(volume))
        self.assertEqual(pid, self.driver.process.pid)
        listed = {entry.snapshot.snapshot_id for entry in
                  self.call("Controller.ListSnapshots").entries}
        self.assertGreaterEqual(listed, {snapshot, later})

    def test_it_waits_for_the_last_device(self):
        """The device keeps the filesystem that shut down; without it, the driver recovers."""
        volume = self.create(MIB)
        device = subprocess.run([BIN, "--pool", self.pool, "volume", "attach", volume], check=True,
                                stdout=subprocess.PIPE, text=True).stdout.split()[-1]
        stop_image(self.pool / "data")
        time.sleep(8)  # longer than it takes to notice: it must not end itself
        self.assertIsNone(self.driver.process.poll())
        subprocess.run(["losetup", "--detach", device], check=True)
        self.wait_for(lambda: self.snapshot(volume))


@unittest.skipUnless(CAN_MOUNT, "needs root and loop devices")
class BtrfsImageThatShutDown(ImageThatShutDown):
    backend = "btrfs"

    def test_it_waits_for_another_namespace(self):
        """A container that was started meanwhile has a copy of the mount, and keeps what stopped."""
        volume = self.create(MIB)
        # Of the pool only: a copy of the mounts of tests that run beside would harm them.
        script = 'mount --make-private "$0" && echo here && exec sleep 600'
        with subprocess.Popen(["unshare", "--mount", "--propagation", "slave", "sh", "-c", script,
                               self.pool / "data"], stdout=subprocess.PIPE) as other:
            try:
                self.assertEqual(b"here\n", other.stdout.readline())
                stop_image(self.pool / "data")
                time.sleep(8)  # longer than it takes to notice: it must not end itself
                self.assertIsNone(self.driver.process.poll())
            finally:
                other.kill()
        self.wait_for(lambda: self.snapshot(volume))


if __name__ == "__main__":
    main()
