#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Volumes of `cairn driver` on a node: block devices and filesystems in use."""
import concurrent.futures
import os
import pathlib
import re
import signal
import struct
import subprocess
import threading
import time

from cairncli import MIB, main
from csidriver import (LARGE, SMALL, Code, DriverTest, Failed, block, mount, mounts_below,
                       read_device, wait_until, write_device)

# ext4 grows while it is mounted only for who has CAP_SYS_RESOURCE.
with open("/proc/self/status", encoding="ascii") as status:
    MAY_GROW_EXT4 = int(status.read().split("CapEff:")[1].split()[0], 16) >> 24 & 1

# Before Linux 6.7 a second btrfs of one id could not be mounted beside the first.
BTRFS_CLONES_MOUNT = tuple(map(int, re.findall(r"\d+", os.uname().release)[:2])) >= (6, 7)

SIZES = {"ext4": SMALL, "xfs": LARGE, "btrfs": LARGE}


class Block(DriverTest):
    def test_data_written_is_there_after_it_is_published_again(self):
        volume = self.create()
        data = os.urandom(4096)
        self.stage(volume, block())
        write_device(self.publish(volume, block()), 8192, data)
        self.unpublish(volume)
        self.unstage(volume)
        self.assertEqual(read_device(self.use(volume, block()), 8192, 4096), data)

    def test_a_read_only_device_refuses_writes_and_can_be_written_again_later(self):
        volume = self.create()
        self.stage(volume, block())
        path = self.publish(volume, block(), readonly=True)
        with self.assertRaises(OSError):
            write_device(path, 0, bytes(4096))
        self.refuses(Code.FAILED_PRECONDITION, "Node.NodePublishVolume", volume_id=volume,
                     volume_capability=block(), staging_target_path=self.staging(volume),
                     target_path=self.target(volume, "2"))
        self.unpublish(volume)
        write_device(self.publish(volume, block()), 0, bytes(4096))
        self.unpublish(volume)
        self.unstage(volume)

    def test_a_published_device_is_not_taken_away(self):
        volume = self.create()
        path = self.use(volume, block())
        write_device(path, 0, b"a" * 4096)
        self.refuses(Code.FAILED_PRECONDITION, "Node.NodePublishVolume", volume_id=volume,
                     volume_capability=block(), staging_target_path=self.staging(volume),
                     target_path=self.target(volume, "2"), readonly=True)
        self.refuses(Code.FAILED_PRECONDITION, "Node.NodeUnstageVolume", volume_id=volume,
                     staging_target_path=self.staging(volume))
        self.refuses(Code.FAILED_PRECONDITION, "Controller.DeleteVolume", volume_id=volume)
        write_device(path, 4096, b"b" * 4096)
        self.assertEqual(read_device(path, 0, 8192), b"a" * 4096 + b"b" * 4096)

    def test_deletion_waits_for_a_detach_that_is_under_way(self):
        volume = self.create()
        self.stage(volume, block())
        self.publish(volume, block())
        self.unpublish(volume)  # still staged, so still attached
        later = threading.Timer(0.3, self.unstage, [volume])
        later.start()
        self.addCleanup(later.join)
        for _ in range(60):
            began = time.monotonic()
            try:
                self.call("Controller.DeleteVolume", volume_id=volume)
                break
            except Failed as failure:  # the unstaging takes longer on a busy machine
                self.assertIn(failure.code, (Code.ABORTED, Code.FAILED_PRECONDITION))
                if failure.code == Code.FAILED_PRECONDITION:
                    self.assertGreater(time.monotonic() - began, 1.5)
        self.refuses(Code.NOT_FOUND, "Controller.ControllerGetVolume", volume_id=volume)

    def test_what_is_not_staged_is_not_published(self):
        volume = self.create()
        for staging in ("", self.staging(volume)):
            for capability in (block(), mount()):
                self.refuses(Code.FAILED_PRECONDITION, "Node.NodePublishVolume",
                             volume_id=volume, volume_capability=capability,
                             staging_target_path=staging, target_path=self.target(volume))
        self.assertFalse(os.path.lexists(self.target(volume)))

    def test_growing_is_seen_by_whoever_has_the_device(self):
        volume = self.create()
        path = self.use(volume, block())
        reply = self.call("Controller.ControllerExpandVolume", volume_id=volume,
                          capacity_range={"required_bytes": 2 * SMALL},
                          volume_capability=block())
        self.assertEqual((reply.capacity_bytes, reply.node_expansion_required),
                         (2 * SMALL, False))
        write_device(path, 2 * SMALL - 4096, b"x" * 4096)
        self.refuses(Code.OUT_OF_RANGE, "Node.NodeExpandVolume", volume_id=volume,
                     volume_path=str(path), capacity_range={"required_bytes": 3 * SMALL})
        usage = self.call("Node.NodeGetVolumeStats", volume_id=volume, volume_path=str(path)).usage
        self.assertEqual([u.total for u in usage], [2 * SMALL])

    def test_two_targets_unless_a_single_writer_is_asked_for(self):
        volume = self.create()
        capability = block("SINGLE_NODE_MULTI_WRITER")
        self.use(volume, capability)
        write_device(self.publish(volume, capability, label="2"), 0, b"x" * 4096)
        self.assertEqual(read_device(self.target(volume), 0, 4096), b"x" * 4096)
        self.unpublish(volume, label="2")
        self.refuses(Code.FAILED_PRECONDITION, "Node.NodePublishVolume", volume_id=volume,
                     volume_capability=block("SINGLE_NODE_SINGLE_WRITER"),
                     staging_target_path=self.staging(volume),
                     target_path=self.target(volume, "2"))

    def test_calls_may_be_repeated_and_race(self):
        volume = self.create()

        def race(call, *args, **how):
            def once(_):
                try:
                    call(*args, **how)
                    return True
                except Failed as failed:
                    self.assertEqual(failed.code, Code.ABORTED, failed)
                    return False
            with concurrent.futures.ThreadPoolExecutor(8) as pool:
                self.assertIn(True, list(pool.map(once, range(16))))

        pathlib.Path(self.staging(volume)).mkdir()
        race(self.call, "Node.NodeStageVolume", volume_id=volume, volume_capability=mount(),
             staging_target_path=self.staging(volume))
        race(self.publish, volume, mount("ext4", "SINGLE_NODE_SINGLE_WRITER"))
        self.assertEqual(mounts_below(self.at).count(self.target(volume)), 1)
        race(self.call, "Node.NodeUnpublishVolume", volume_id=volume,
             target_path=self.target(volume))
        self.assertFalse(os.path.lexists(self.target(volume)))
        race(self.call, "Node.NodeUnstageVolume", volume_id=volume,
             staging_target_path=self.staging(volume))
        self.assertEqual(mounts_below(self.at), [])
        pathlib.Path(self.staging(volume)).rmdir()

    def test_what_is_not_the_volumes_is_left_alone(self):
        volume = self.create()
        other = self.at / "other"
        other.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", other], check=True)
        precious = self.at / "file"
        precious.write_text("data", encoding="ascii")
        self.refuses(Code.FAILED_PRECONDITION, "Node.NodeUnpublishVolume", volume_id=volume,
                     target_path=str(other))
        self.refuses(Code.FAILED_PRECONDITION, "Node.NodeUnstageVolume", volume_id=volume,
                     staging_target_path=str(other))
        self.refuses(Code.FAILED_PRECONDITION, "Node.NodeUnpublishVolume", volume_id=volume,
                     target_path=str(precious))
        self.assertTrue(os.path.ismount(other))
        self.assertTrue(precious.exists())
        subprocess.run(["umount", other], check=True)
        other.rmdir()
        precious.unlink()

    def test_arguments(self):
        volume = self.create()
        some = {"volume_id": volume, "volume_capability": block(),
                "staging_target_path": self.staging(volume), "target_path": self.target(volume)}
        needs = {"Node.NodeStageVolume": ("volume_id", "staging_target_path",
                                          "volume_capability"),
                 "Node.NodeUnstageVolume": ("volume_id", "staging_target_path"),
                 "Node.NodePublishVolume": ("volume_id", "target_path", "volume_capability"),
                 "Node.NodeUnpublishVolume": ("volume_id", "target_path")}
        for call, names in needs.items():
            known = self.driver.peer.method(call)[1].DESCRIPTOR.fields_by_name
            fields = {k: v for k, v in some.items() if k in known}
            for name in names:
                self.refuses(Code.INVALID_ARGUMENT, call,
                             **{k: v for k, v in fields.items() if k != name})
            for odd in ("vol-0123456789abcdef", "nothing", "../x", "v" * 1000):
                self.refuses(Code.NOT_FOUND, call, **{**fields, "volume_id": odd})
        self.refuses(Code.NOT_FOUND, "Node.NodeGetVolumeStats", volume_id=volume,
                     volume_path="/nowhere")



class NodeExpansion(DriverTest):
    driver_args = ("--node-expansion",)

    def size_of(self, volume):
        return self.call("Controller.ControllerGetVolume", volume_id=volume).volume.capacity_bytes

    def test_the_node_grows_volumes_and_the_controller_does_not_report_that_it_can(self):
        can = [c.rpc.type for c in self.call("Controller.ControllerGetCapabilities").capabilities]
        self.assertNotIn(9, can)  # EXPAND_VOLUME
        self.assertIn(1, can)
        volume = self.create()
        path = self.use(volume, block())
        for least in (2, 2, 1):  # repeated, and an older request
            reply = self.call("Node.NodeExpandVolume", volume_id=volume, volume_path=str(path),
                              capacity_range={"required_bytes": least * SMALL})
            self.assertEqual(reply.capacity_bytes, 2 * SMALL)
        write_device(path, 2 * SMALL - 4096, b"x" * 4096)
        self.assertEqual(self.size_of(volume), 2 * SMALL)
        # A request that is refused changes nothing.
        self.refuses(Code.NOT_FOUND, "Node.NodeExpandVolume", volume_id=volume,
                     volume_path=str(self.at), capacity_range={"required_bytes": 3 * SMALL})
        self.assertEqual(self.size_of(volume), 2 * SMALL)

    def test_a_filesystem_grows_with_its_volume(self):
        volume = self.create(LARGE, mount("xfs"))
        path = self.use(volume, mount("xfs"))
        self.call("Node.NodeExpandVolume", volume_id=volume, volume_path=str(path),
                  capacity_range={"required_bytes": 2 * LARGE})
        space = os.statvfs(path)
        self.assertGreater(space.f_blocks * space.f_frsize, 1.7 * LARGE)


class Filesystem(DriverTest):
    def each(self):
        for fs, size in SIZES.items():
            yield fs, size
            self.doCleanups()

    def test_files_are_there_after_it_is_published_again(self):
        for fs, size in self.each():
            volume = self.create(size, mount(fs))
            self.stage(volume, mount(fs))
            (self.publish(volume, mount(fs)) / "file").write_text("kept", encoding="ascii")
            self.unpublish(volume)
            self.unstage(volume)
            path = self.use(volume, mount(fs, flags=["noatime"]))
            self.assertEqual((path / "file").read_text(encoding="ascii"), "kept")
            kind = subprocess.run(["stat", "-f", "-c", "%T", path], capture_output=True,
                                  text=True, check=True).stdout
            self.assertIn(fs[:3], kind)

    def test_read_only_is_honoured_beside_a_writer(self):
        for fs, size in self.each():
            volume = self.create(size, mount(fs))
            path = self.use(volume, mount(fs))
            reader = self.publish(volume, mount(fs), label="2", readonly=True)
            (path / "file").write_text("seen", encoding="ascii")
            self.assertEqual((reader / "file").read_text(encoding="ascii"), "seen")
            with self.assertRaises(OSError):
                (reader / "other").write_text("no", encoding="ascii")
            self.unpublish(volume, label="2")

    def test_a_volume_to_be_read_only_is_mounted_so(self):
        volume = self.create(capability=mount("ext4"))
        self.refuses(Code.FAILED_PRECONDITION, "Node.NodeStageVolume", volume_id=volume,
                     volume_capability=mount("ext4", "SINGLE_NODE_READER_ONLY"),
                     staging_target_path=self.staging(volume))
        self.stage(volume, mount("ext4"))
        self.unstage(volume)
        path = self.use(volume, mount("ext4", "SINGLE_NODE_READER_ONLY"))
        with self.assertRaises(OSError):
            (path / "file").write_text("no", encoding="ascii")

    def test_a_clone_is_mounted_beside_its_origin_and_a_restored_one_is_grown(self):
        for fs, size in self.each():
            volume = self.create(size, mount(fs))
            path = self.use(volume, mount(fs))
            (path / "file").write_text("here", encoding="ascii")
            cut = self.snapshot(volume)
            restored = self.create(2 * size, mount(fs), volume_content_source={
                "snapshot": {"snapshot_id": cut}})
            clone = self.create(size, mount(), volume_content_source={
                "volume": {"volume_id": volume}})
            if fs != "btrfs" or BTRFS_CLONES_MOUNT:
                self.assertEqual((self.use(restored, mount(fs)) / "file").read_text(
                    encoding="ascii"), "here")
                space = os.statvfs(self.target(restored))
                self.assertGreater(space.f_blocks * space.f_frsize, 1.7 * size)
                self.assertEqual((self.use(clone, mount()) / "file").read_text(
                    encoding="ascii"), "here")

    def test_a_restored_btrfs_is_grown(self):
        volume = self.create(LARGE, mount("btrfs"))
        self.stage(volume, mount("btrfs"))
        self.unstage(volume)
        restored = self.create(2 * LARGE, mount("btrfs"), volume_content_source={
            "snapshot": {"snapshot_id": self.snapshot(volume)}})
        space = os.statvfs(self.use(restored, mount("btrfs")))
        self.assertGreater(space.f_blocks * space.f_frsize, 1.7 * LARGE)

    def test_growing_is_seen_inside_while_it_is_in_use(self):
        for fs, size in self.each():
            volume = self.create(size, mount(fs))
            path = self.use(volume, mount(fs))
            reply = self.call("Controller.ControllerExpandVolume", volume_id=volume,
                              capacity_range={"required_bytes": 2 * size})
            self.assertTrue(reply.node_expansion_required)
            if fs == "ext4" and not MAY_GROW_EXT4:
                self.grows_when_it_is_used_again(volume, path, size)
                continue
            reply = self.call("Node.NodeExpandVolume", volume_id=volume, volume_path=str(path))
            self.assertEqual(reply.capacity_bytes, 2 * size)
            stats = self.call("Node.NodeGetVolumeStats", volume_id=volume,
                              volume_path=str(path))
            self.assertGreater(stats.usage[0].total, 1.7 * size)
            self.assertFalse(stats.volume_condition.abnormal)
            self.assertEqual([u.unit for u in stats.usage], [1, 2])

    def grows_when_it_is_used_again(self, volume, path, size):
        (path / "file").write_text("here", encoding="ascii")
        self.assertIn("Permission denied", self.refuses(
            Code.INTERNAL, "Node.NodeExpandVolume", volume_id=volume, volume_path=str(path)))
        self.assertEqual((path / "file").read_text(encoding="ascii"), "here")
        self.unpublish(volume)
        self.unstage(volume)
        self.stage(volume, mount("ext4"))
        path = self.publish(volume, mount("ext4"))
        space = os.statvfs(path)
        self.assertGreater(space.f_blocks * space.f_frsize, 1.7 * size)
        self.assertEqual((path / "file").read_text(encoding="ascii"), "here")

    def test_what_holds_something_else_is_not_formatted(self):
        volume = self.create()
        self.stage(volume, block())
        path = self.publish(volume, block())
        # A partition table of one Linux partition.
        write_device(path, 446, struct.pack("<B3xB3xII", 0, 0x83, 2048, 2048) + bytes(48) +
                     b"\x55\xaa")
        before = read_device(path, 0, MIB)
        self.unpublish(volume)
        self.unstage(volume)
        self.refuses(Code.FAILED_PRECONDITION, "Node.NodeStageVolume", volume_id=volume,
                     volume_capability=mount("ext4"), staging_target_path=self.staging(volume))
        self.assertEqual(read_device(self.use(volume, block()), 0, MIB), before)

    def test_another_filesystem_than_asked_for_is_refused(self):
        volume = self.create(capability=mount("ext4"))
        self.stage(volume, mount("ext4"))
        self.unstage(volume)
        self.assertIn("ext4", self.refuses(
            Code.FAILED_PRECONDITION, "Node.NodeStageVolume", volume_id=volume,
            volume_capability=mount("xfs"), staging_target_path=self.staging(volume)))
        self.call("Node.NodeUnstageVolume", volume_id=volume,
                  staging_target_path=self.staging(volume))
        os.rmdir(self.staging(volume))


class Killed(DriverTest):
    """kill -9 with volumes in use."""

    def test_volumes_in_use_stay_usable_and_can_be_taken_down(self):
        raw, files = self.create(), self.create(capability=mount("ext4"))
        device, path = self.use(raw, block()), self.use(files, mount("ext4"))
        stop, written = threading.Event(), []

        def write():
            n = 0
            while not stop.is_set():
                n += 1
                write_device(device, 0, n.to_bytes(8, "big") * 512)
                (path / "file").write_text(str(n), encoding="ascii")
                written.append(n)

        writer = threading.Thread(target=write)
        writer.start()
        try:
            for _ in range(3):
                seen = len(written)
                self.driver.restart()
                wait_until(lambda: len(written) > seen + 3)
                self.snapshot(raw)
                self.snapshot(files)
        finally:
            stop.set()
            writer.join()
        self.assertEqual(int.from_bytes(read_device(device, 0, 8), "big"), written[-1])
        # Repeated calls find everything as it was.
        self.stage(files, mount("ext4"))
        self.publish(files, mount("ext4"))
        self.publish(raw, block())
        self.assertEqual(mounts_below(self.at).count(str(path)), 1)

    def restart_with(self, tools):
        """The driver, killed and started with other tools than the system's."""
        before = os.environ["PATH"]
        os.environ["PATH"] = f"{tools}:{before}" if tools else before
        try:
            self.driver.restart()
        finally:
            os.environ["PATH"] = before

    def stuck_tools(self):
        tools = self.scratch / "tools"
        tools.mkdir(exist_ok=True)
        for name in ("resize2fs", "xfs_growfs", "btrfs"):
            (tools / name).write_text(f"#!/bin/sh\necho $$ >{tools}/new && mv {tools}/new "
                                      f"{tools}/began\nexec sleep 600\n", encoding="ascii")
            (tools / name).chmod(0o755)
        (tools / "began").unlink(missing_ok=True)
        return tools

    def test_what_was_mounted_and_not_grown_yet_is_grown(self):
        for fs, size in SIZES.items():
            volume = self.create(size, mount(fs))
            self.stage(volume, mount(fs))
            self.unstage(volume)
            restored = self.create(2 * size, mount(fs), volume_content_source={
                "snapshot": {"snapshot_id": self.snapshot(volume)}})
            tools = self.stuck_tools()
            self.restart_with(tools)
            caller = threading.Thread(target=self.try_stage, args=[restored, mount(fs)])
            caller.start()
            wait_until((tools / "began").exists)
            self.driver.process.kill()
            self.driver.process.wait()
            caller.join()
            os.kill(int((tools / "began").read_text(encoding="ascii")), signal.SIGKILL)
            self.restart_with(None)
            self.assertEqual(mounts_below(self.at), [self.staging(restored)])
            space = os.statvfs(self.use(restored, mount(fs)))
            self.assertGreater(space.f_blocks * space.f_frsize, 1.7 * size, fs)
            self.doCleanups()

    def try_stage(self, volume, capability):
        try:
            self.stage(volume, capability)
        except Failed:
            pass

    def test_what_was_published_and_not_read_only_yet_becomes_so(self):
        volume = self.create(capability=mount("ext4"))
        self.use(volume, mount("ext4"))
        reader = self.publish(volume, mount("ext4"), label="2", readonly=True)
        # As it is between the two steps of publishing it.
        subprocess.run(["mount", "-o", "remount,bind,rw", reader], check=True)
        self.driver.restart()
        self.publish(volume, mount("ext4"), label="2", readonly=True)
        with self.assertRaises(OSError):
            (reader / "file").write_text("no", encoding="ascii")
        self.unpublish(volume, label="2")

    def test_a_missing_tool_is_not_a_missing_volume(self):
        volume = self.create(LARGE, mount("xfs"))
        before = os.environ["PATH"]
        empty = self.scratch / "empty"
        empty.mkdir()
        os.environ["PATH"] = str(empty)
        try:
            self.driver.restart()
        finally:
            os.environ["PATH"] = before
        self.assertIn("mkfs.xfs", self.refuses(
            Code.FAILED_PRECONDITION, "Node.NodeStageVolume", volume_id=volume,
            volume_capability=mount("xfs"), staging_target_path=self.staging(volume)))
        self.driver.restart()
        self.use(volume, mount("xfs"))

    def test_a_crash_in_the_middle_of_calls_leaves_nothing_behind(self):
        volumes = [self.create(capability=mount("ext4")) for _ in range(3)]
        for round_ in range(3):
            def work(volume):
                try:
                    self.stage(volume, mount("ext4"))
                    self.publish(volume, mount("ext4"))
                    self.unpublish(volume)
                    self.unstage(volume)
                except (Failed, OSError):
                    pass
            workers = [threading.Thread(target=work, args=[v]) for v in volumes]
            for worker in workers:
                worker.start()
            threading.Event().wait(0.05 * (round_ + 1))
            self.driver.process.kill()
            self.driver.process.wait()
            for worker in workers:
                worker.join()
            self.driver.restart()
            for volume in volumes:
                self.stage(volume, mount("ext4"))
                self.publish(volume, mount("ext4"))
                self.unpublish(volume)
                self.unstage(volume)
        self.assertEqual(mounts_below(self.at), [])


if __name__ == "__main__":
    main()
