#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Volumes of `cairn driver` on a node in unusual ways: damaged filesystems, calls that
contradict one another, paths of all kinds, read-only by order of the controller."""
import os
import pathlib
import subprocess

from cairncli import main
from csidriver import (LARGE, NODE, SMALL, Code, DriverTest, Failed, block, mount, mounts_below,
                       read_device, write_device)


class StagingTest(DriverTest):
    def formatted(self, fs, size=SMALL):
        """A volume with a file in its filesystem, taken down again."""
        volume = self.create(size, mount(fs))
        self.stage(volume, mount(fs))
        (self.publish(volume, mount(fs)) / "file").write_text("kept", encoding="ascii")
        self.unpublish(volume)
        self.unstage(volume)
        return volume

    def refuses_stage(self, code, volume, capability):
        return self.refuses(code, "Node.NodeStageVolume", volume_id=volume,
                            volume_capability=capability,
                            staging_target_path=self.staging(volume))

    def refuses_publish(self, code, volume, capability, label="", **more):
        return self.refuses(code, "Node.NodePublishVolume", volume_id=volume,
                            volume_capability=capability, target_path=self.target(volume, label),
                            staging_target_path=self.staging(volume), **more)


class Damaged(StagingTest):
    def debugfs(self, volume, *commands):
        for command in commands:
            subprocess.run(["debugfs", "-w", "-R", command, self.path_of("volume", volume)],
                           check=True, capture_output=True)

    def is_sound(self, volume):
        return subprocess.run(["fsck.ext4", "-f", "-n", self.path_of("volume", volume)],
                              check=False, capture_output=True).returncode == 0

    def test_an_ext4_that_can_be_repaired_is(self):
        volume = self.formatted("ext4")
        self.assertTrue(self.is_sound(volume))
        self.debugfs(volume, "set_inode_field /file links_count 5", "set_super_value state 0")
        self.assertFalse(self.is_sound(volume))
        self.stage(volume, mount("ext4"))
        text = (self.publish(volume, mount("ext4")) / "file").read_text(encoding="ascii")
        self.unpublish(volume)
        self.unstage(volume)
        self.assertEqual(text, "kept")
        self.assertTrue(self.is_sound(volume))

    def test_an_ext4_that_can_not_be_repaired_is_not_mounted(self):
        volume = self.formatted("ext4")
        self.debugfs(volume, "clri <2>", "set_super_value state 0")
        text = self.refuses_stage(Code.INTERNAL, volume, mount("ext4"))
        self.assertIn("fsck", text)
        self.assertEqual(mounts_below(self.at), [])
        # It is not formatted either, and can be looked at as a device.
        self.call("Node.NodeUnstageVolume", volume_id=volume,
                  staging_target_path=self.staging(volume))
        self.use(volume, block())
        self.assertEqual(read_device(self.target(volume), 1024 + 56, 2), b"\x53\xef")

    def test_a_read_only_ext4_is_left_as_it_is(self):
        volume = self.formatted("ext4")
        self.debugfs(volume, "set_inode_field /file links_count 5", "set_super_value state 0")
        reader = mount("ext4", "SINGLE_NODE_READER_ONLY")
        self.stage(volume, reader)
        self.assertEqual((self.publish(volume, reader) / "file").read_text(encoding="ascii"),
                         "kept")
        self.unpublish(volume)
        self.unstage(volume)
        self.assertFalse(self.is_sound(volume))

    def test_logs_that_a_crash_left_are_replayed(self):
        for fs in ("xfs", "ext4"):
            volume = self.create(LARGE, mount(fs))
            self.stage(volume, mount(fs))
            path = self.publish(volume, mount(fs))
            with open(path / "file", "w", encoding="ascii") as file:
                file.write("down")
                file.flush()
                os.fsync(file.fileno())
            # XFS_IOC_GOINGDOWN, which ext4 knows as well: the log is flushed, nothing else.
            subprocess.run(["xfs_io", "-x", "-c", "shutdown -f", path], check=True)
            with self.assertRaises(OSError):
                (path / "other").write_text("no", encoding="ascii")
            told = self.call("Node.NodeGetVolumeStats", volume_id=volume, volume_path=str(path))
            self.assertTrue(told.volume_condition.abnormal, fs)
            self.assertIn("the filesystem", told.volume_condition.message)
            self.unpublish(volume)
            self.unstage(volume)
            self.assertEqual((self.use(volume, mount(fs)) / "file").read_text(encoding="ascii"),
                             "down")
            self.doCleanups()


    def test_a_filesystem_that_became_read_only_by_itself_is_told(self):
        volume = self.formatted("ext4")
        path = self.use(volume, mount("ext4"))
        stats = {"volume_id": volume, "volume_path": str(path)}
        self.assertFalse(self.call("Node.NodeGetVolumeStats", **stats).volume_condition.abnormal)
        # As after an error with errors=remount-ro: the filesystem, not the mount.
        device = subprocess.run(["findmnt", "-n", "-o", "SOURCE", path], check=True,
                                capture_output=True, text=True).stdout.strip()
        name = os.path.basename(device.split("[")[0])
        subprocess.run(["mount", "-o", "remount,errors=remount-ro", self.staging(volume)],
                       check=True)
        pathlib.Path(f"/sys/fs/ext4/{name}/trigger_fs_error").write_text("test", encoding="ascii")
        told = self.call("Node.NodeGetVolumeStats", **stats).volume_condition
        self.assertTrue(told.abnormal)
        self.assertIn("takes no writes", told.message)
        # What is mounted for writing stays so when it is requested again.
        self.stage(volume, mount("ext4"))


class Contradictions(StagingTest):
    def test_what_is_staged_is_not_staged_in_another_way(self):
        volume = self.formatted("ext4")
        writer, reader = mount("ext4"), mount("ext4", "SINGLE_NODE_READER_ONLY")
        for now, other in ((writer, reader), (reader, writer)):
            self.stage(volume, now)
            self.stage(volume, now)
            self.stage(volume, {**now, "mount": {}})  # no filesystem is named
            self.refuses_stage(Code.ALREADY_EXISTS, volume, other)
            self.refuses_stage(Code.ALREADY_EXISTS, volume, {**now, "mount": {"fs_type": "xfs"}})
            self.assertEqual(mounts_below(self.at), [self.staging(volume)])
            self.unstage(volume)

    def test_what_is_published_as_one_kind_is_not_published_as_another(self):
        volume = self.create()
        write_device(self.use(volume, block()), 0, b"data without a signature")
        self.refuses_publish(Code.ALREADY_EXISTS, volume, mount())
        self.refuses_publish(Code.ALREADY_EXISTS, volume, block(), readonly=True)
        self.refuses_stage(Code.ALREADY_EXISTS, volume, mount("ext4"))
        self.assertEqual(read_device(self.target(volume), 0, 24), b"data without a signature")
        files = self.create(capability=mount())
        self.use(files, mount())
        self.refuses_publish(Code.ALREADY_EXISTS, files, block())
        self.refuses_publish(Code.ALREADY_EXISTS, files, block(), label="2")
        self.refuses_stage(Code.ALREADY_EXISTS, files, block())
        self.refuses_publish(Code.ALREADY_EXISTS, files, mount(), readonly=True)

    def test_two_volumes_do_not_share_a_target(self):
        volumes = [self.create() for _ in range(2)]
        for volume in volumes:
            self.stage(volume, block())
            self.addCleanup(self.unstage, volume)
        path = self.publish(volumes[0], block())
        write_device(path, 0, b"first")
        self.refuses(Code.FAILED_PRECONDITION, "Node.NodePublishVolume", volume_id=volumes[1],
                     volume_capability=block(), target_path=str(path),
                     staging_target_path=self.staging(volumes[1]))
        self.refuses(Code.FAILED_PRECONDITION, "Node.NodeUnpublishVolume",
                     volume_id=volumes[1], target_path=str(path))
        self.assertEqual(read_device(path, 0, 5), b"first")
        self.unpublish(volumes[0])

    def test_a_reader_of_a_device_gets_one_that_is_read_only(self):
        volume = self.create()
        reader = block("SINGLE_NODE_READER_ONLY")
        path = self.use(volume, reader)
        self.assertEqual(read_device(path, 0, 4), bytes(4))
        with self.assertRaises(OSError):
            write_device(path, 0, b"no")

    def test_the_controller_may_order_read_only(self):
        for capability in (block(), mount("ext4")):
            volume = self.create() if "block" in capability else self.formatted("ext4")
            self.call("Controller.ControllerPublishVolume", volume_id=volume, node_id=NODE,
                      volume_capability=capability, readonly=True)
            self.addCleanup(self.call, "Controller.ControllerUnpublishVolume", volume_id=volume,
                            node_id=NODE)
            path = self.use(volume, capability)
            with self.assertRaises(OSError):
                if "block" in capability:
                    write_device(path, 0, b"no")
                else:
                    (path / "other").write_text("no", encoding="ascii")
            self.doCleanups()

    def test_what_is_read_only_is_not_grown(self):
        volume = self.formatted("ext4")
        path = self.use(volume, mount("ext4", "SINGLE_NODE_READER_ONLY"))
        self.call("Controller.ControllerExpandVolume", volume_id=volume,
                  capacity_range={"required_bytes": 2 * SMALL})
        self.refuses(Code.FAILED_PRECONDITION, "Node.NodeExpandVolume", volume_id=volume,
                     volume_path=str(path))
        space = os.statvfs(path)
        self.assertLess(space.f_blocks * space.f_frsize, SMALL)


class Growth(StagingTest):
    def test_a_btrfs_below_the_size_that_the_kernel_resizes_is_staged_again(self):
        volume = self.formatted("btrfs", 128 << 20)
        self.stage(volume, mount("btrfs"))
        text = (self.publish(volume, mount("btrfs")) / "file").read_text(encoding="ascii")
        self.unpublish(volume)
        self.unstage(volume)
        self.assertEqual(text, "kept")
        self.call("Controller.ControllerExpandVolume", volume_id=volume,
                  capacity_range={"required_bytes": 512 << 20})
        space = os.statvfs(self.use(volume, mount("btrfs")))
        self.assertGreater(space.f_blocks * space.f_frsize, 400 << 20)


class Paths(StagingTest):
    def test_through_a_link_and_with_slashes_it_is_the_same_place(self):
        volume = self.create(capability=mount())
        link = self.at / "link"
        link.symlink_to(self.at)
        self.addCleanup(link.unlink)
        staging, target = f"{link}/stage/", f"{link}/target/"
        os.mkdir(staging)
        for _ in range(3):
            self.call("Node.NodeStageVolume", volume_id=volume, volume_capability=mount(),
                      staging_target_path=staging)
        for _ in range(3):
            self.call("Node.NodePublishVolume", volume_id=volume, volume_capability=mount(),
                      staging_target_path=staging, target_path=target)
        self.assertEqual(sorted(mounts_below(self.at)),
                         [str(self.at / "stage"), str(self.at / "target")])
        self.call("Node.NodeGetVolumeStats", volume_id=volume, volume_path=str(self.at / "target"))
        for _ in range(2):
            self.call("Node.NodeUnpublishVolume", volume_id=volume, target_path=target)
        for _ in range(2):
            self.call("Node.NodeUnstageVolume", volume_id=volume, staging_target_path=staging)
        self.assertEqual(mounts_below(self.at), [])
        self.assertFalse((self.at / "target").exists())
        os.rmdir(self.at / "stage")

    def test_odd_names_are_as_good_as_others(self):
        volume = self.create(capability=mount())
        for name in ("with space", "back\\slash", "line\nbreak", "grüße 🪨", "%n", "-o ro", "x" * 255):
            place = self.at / name
            place.mkdir()
            staging, target = str(place / "stage"), str(place / "target")
            self.call("Node.NodeStageVolume", volume_id=volume, volume_capability=mount(),
                      staging_target_path=staging)
            for _ in range(2):
                self.call("Node.NodePublishVolume", volume_id=volume, volume_capability=mount(),
                          staging_target_path=staging, target_path=target)
            (pathlib.Path(target) / "file").write_text(name, encoding="utf-8")
            self.call("Node.NodeUnpublishVolume", volume_id=volume, target_path=target)
            self.call("Node.NodeUnstageVolume", volume_id=volume, staging_target_path=staging)
            self.assertFalse(os.path.lexists(target))
            self.assertEqual(mounts_below(self.at), [])
            os.rmdir(staging)
            place.rmdir()

    def test_what_can_be_no_path_is_refused(self):
        volume = self.create(capability=mount())
        self.stage(volume, mount())
        self.addCleanup(self.unstage, volume)
        for bad in ("relative/path", ".", "../up", "/" + "x" * 5000, "/x" * 40000):
            with self.subTest(bad=bad[:20]):
                self.refuses(Code.INVALID_ARGUMENT, "Node.NodePublishVolume", volume_id=volume,
                             volume_capability=mount(), target_path=bad,
                             staging_target_path=self.staging(volume))
                self.refuses(Code.INVALID_ARGUMENT, "Node.NodeStageVolume", volume_id=volume,
                             volume_capability=mount(), staging_target_path=bad)
                self.refuses(Code.INVALID_ARGUMENT, "Node.NodeUnpublishVolume",
                             volume_id=volume, target_path=bad)
                self.refuses(Code.INVALID_ARGUMENT, "Node.NodeUnstageVolume", volume_id=volume,
                             staging_target_path=bad)
                self.refuses(Code.NOT_FOUND, "Node.NodeGetVolumeStats", volume_id=volume,
                             volume_path=bad)
        # A volume that exists is not reported as missing.
        self.refuses(Code.FAILED_PRECONDITION, "Node.NodePublishVolume", volume_id=volume,
                     volume_capability=mount(), target_path=str(self.at / "no" / "parent"),
                     staging_target_path=self.staging(volume))
        self.assertEqual(mounts_below(self.at), [self.staging(volume)])

    def test_a_link_or_a_file_in_the_place_is_not_followed_or_lost(self):
        volume = self.create()
        self.stage(volume, block())
        self.addCleanup(self.unstage, volume)
        precious = self.at / "precious"
        precious.write_text("data", encoding="ascii")
        self.addCleanup(precious.unlink)
        target = pathlib.Path(self.target(volume))
        target.symlink_to(precious)
        self.addCleanup(target.unlink)
        with self.assertRaises(Failed):
            self.publish(volume, block())
        self.assertEqual(mounts_below(self.at), [])
        self.assertEqual(precious.read_text(encoding="ascii"), "data")

    def test_mount_options_are_honoured_or_refused(self):
        volume = self.formatted("ext4")
        path = self.use(volume, mount("ext4", flags=["noexec", "nodev", "nosuid", "noatime"]))
        reader = self.publish(volume, mount("ext4"), label="2", readonly=True)
        for where, how in ((path, "rw"), (reader, "ro")):
            with open("/proc/self/mountinfo", encoding="utf-8") as table:
                options = [line.split()[5] for line in table if line.split()[4] == str(where)]
            for option in ("noexec", "nodev", "nosuid", "noatime", how):
                self.assertIn(option, options[0].split(","))
        self.unpublish(volume, label="2")
        self.doCleanups()
        volume = self.formatted("ext4")
        for bad in (["no-such-option"], ["a,b"], [""], ["x" * 5000], ["errors="]):
            self.refuses_stage(Code.INVALID_ARGUMENT, volume, mount("ext4", flags=bad))
        self.assertEqual(mounts_below(self.at), [])
        with self.assertRaises(OSError):
            (self.use(volume, mount("ext4", flags=["ro"])) / "x").write_text("no", encoding="ascii")


if __name__ == "__main__":
    main()
