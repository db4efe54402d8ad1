#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Group snapshots of `cairn driver`: one point in time, or nothing at all."""
import os
import subprocess
import threading
import time

from cairncli import BIN, main
from csidriver import Code, DriverTest, Failed, block, mount


class Writer(threading.Thread):
    """Writes a number to A, then to B, then the next one. Each write is down before
    the next begins, so B may never be seen with a newer number than A."""

    def __init__(self, paths, pause):
        super().__init__()
        self.paths, self.pause, self.n = paths, pause, 0
        self.stopping = threading.Event()

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *exc):
        self.stopping.set()
        self.join()

    def run(self):
        files = [os.open(path, os.O_WRONLY | os.O_SYNC) for path in self.paths]
        while not self.stopping.is_set():
            self.n += 1
            for file in files:
                os.pwrite(file, b"%016d" % self.n * 256, 0)
            time.sleep(self.pause)
        for file in files:
            os.close(file)


class GroupTest(DriverTest):
    def cut(self, volumes, name=None):
        """[snapshot id], in the order of the volumes; the group goes after the test."""
        group = self.call("GroupController.CreateVolumeGroupSnapshot",
                          name=name or self.name(), source_volume_ids=volumes).group_snapshot
        self.addCleanup(self.delete_group, group.group_snapshot_id)
        of = {s.source_volume_id: s.snapshot_id for s in group.snapshots}
        return [of[volume] for volume in volumes]

    def snapshots_of(self, volume):
        return self.call("Controller.ListSnapshots", source_volume_id=volume).entries

    def number_on_device(self, snapshot):
        with open(self.path_of("snapshot", snapshot), "rb") as image:
            return int(image.read(16).strip(b"\0") or b"0")

    def number_in_file(self, snapshot):
        text = subprocess.run(["debugfs", "-R", "cat /file", self.path_of("snapshot", snapshot)],
                              capture_output=True, check=True).stdout
        return int(text[:16])

    def check_order(self, volumes, paths, number, pause):
        cuts = aborted = 0
        with Writer(paths, pause) as writer:
            while cuts + aborted < 8:
                before = writer.n
                try:
                    first, second = map(number, self.cut(volumes))
                except Failed as failed:
                    self.assertEqual(failed.code, Code.ABORTED, failed)
                    self.assertIn("kept changing", failed.text)
                    for volume in volumes:
                        self.assertEqual(len(self.snapshots_of(volume)), cuts)
                    aborted += 1
                    continue
                cuts += 1
                self.assertLessEqual(second, first, "B is newer than A")
                self.assertLessEqual(first - second, 1)
                self.assertGreaterEqual(second, before - 1, "what was written is missing")
        return cuts


class Group(GroupTest):
    def test_order_of_writes_is_kept_on_filesystems(self):
        volumes = [self.create(capability=mount("ext4")) for _ in range(2)]
        paths = [self.use(volume, mount("ext4")) / "file" for volume in volumes]
        for path in paths:
            path.write_bytes(b"%016d" % 0 * 256)
        os.sync()
        self.assertEqual(self.check_order(volumes, paths, self.number_in_file, 0), 8)

    def test_order_of_writes_is_kept_on_devices_or_the_cut_refused(self):
        for pause, least in ((0, 0), (0.5, 1)):
            volumes = [self.create() for _ in range(2)]
            paths = [self.use(volume, block()) for volume in volumes]
            cuts = self.check_order(volumes, paths, self.number_on_device, pause)
            self.assertGreaterEqual(cuts, least)

    def test_order_of_writes_is_kept_between_a_device_and_a_filesystem(self):
        files, raw = self.create(capability=mount("ext4")), self.create()
        path, device = self.use(files, mount("ext4")) / "file", self.use(raw, block())
        path.write_bytes(b"%016d" % 0 * 256)
        os.sync()
        number = {files: self.number_in_file, raw: self.number_on_device}

        def either(snapshot):
            of = self.call("Controller.GetSnapshot", snapshot_id=snapshot).snapshot
            return number[of.source_volume_id](snapshot)

        self.check_order([files, raw], [path, device], either, 0.2)

    def test_what_somebody_else_froze_is_cut_and_stays_frozen(self):
        raw, files = self.create(), self.create(capability=mount("ext4"))
        self.use(raw, block())
        path = self.use(files, mount("ext4"))
        subprocess.run(["fsfreeze", "--freeze", path], check=True)
        try:
            self.cut([raw, files])
            self.snapshot(files)
        finally:
            subprocess.run(["fsfreeze", "--unfreeze", path], check=True)
        (path / "works").write_text("still", encoding="ascii")

    def test_a_group_is_told_repeated_and_deleted_as_one(self):
        volumes = [self.create() for _ in range(3)]
        first = self.cut(volumes, name="again")
        self.assertEqual(self.cut(list(reversed(volumes)), name="again"), first[::-1])
        self.refuses(Code.ALREADY_EXISTS, "GroupController.CreateVolumeGroupSnapshot",
                     name="again", source_volume_ids=volumes[:2])
        listed = self.snapshots_of(volumes[0])[0].snapshot
        group = listed.group_snapshot_id
        self.assertTrue(group)
        self.refuses(Code.INVALID_ARGUMENT, "Controller.DeleteSnapshot", snapshot_id=first[0])
        for call in ("Get", "Delete"):
            self.refuses(Code.INVALID_ARGUMENT, f"GroupController.{call}VolumeGroupSnapshot",
                         group_snapshot_id=group, snapshot_ids=first[:2])
        told = self.call("GroupController.GetVolumeGroupSnapshot", group_snapshot_id=group,
                         snapshot_ids=first).group_snapshot
        self.assertEqual({s.snapshot_id for s in told.snapshots}, set(first))
        self.assertEqual(len({s.creation_time.seconds for s in told.snapshots} |
                             {told.creation_time.seconds}), 1)
        self.call("GroupController.DeleteVolumeGroupSnapshot", group_snapshot_id=group,
                  snapshot_ids=first)
        self.assertEqual(len(self.snapshots_of(volumes[0])), 0)
        self.refuses(Code.NOT_FOUND, "GroupController.GetVolumeGroupSnapshot",
                     group_snapshot_id=group)

    def test_arguments(self):
        volume = self.create()
        for code, name, volumes in (
                (Code.INVALID_ARGUMENT, "", [volume]),
                (Code.INVALID_ARGUMENT, "x" * 129, [volume]),
                (Code.INVALID_ARGUMENT, "empty", []),
                (Code.INVALID_ARGUMENT, "twice", [volume, volume]),
                (Code.NOT_FOUND, "unknown", [volume, "vol-0123456789abcdef"])):
            self.refuses(code, "GroupController.CreateVolumeGroupSnapshot", name=name,
                         source_volume_ids=volumes)
        self.assertEqual(len(self.snapshots_of(volume)), 0)

    def test_a_group_after_kill_is_whole_or_not_there(self):
        volumes = [self.create() for _ in range(4)]
        for n in range(4):
            caller = threading.Thread(target=self.try_cut, args=[volumes, f"killed {n}"])
            caller.start()
            time.sleep(0.01 * n)
            self.driver.process.kill()
            self.driver.process.wait()
            caller.join()
            self.driver.restart()
            # As a sidecar does, again while what the killed one left is cleaned up.
            self.insist("GroupController.CreateVolumeGroupSnapshot", name=f"killed {n}",
                        source_volume_ids=volumes)
            made = self.cut(volumes, name=f"killed {n}")
            self.assertEqual(len(set(made)), len(volumes))
            for volume in volumes:
                self.assertEqual(len(self.snapshots_of(volume)), n + 1)

    def try_cut(self, volumes, name):
        try:
            self.call("GroupController.CreateVolumeGroupSnapshot", name=name,
                      source_volume_ids=volumes)
        except Failed:
            pass


class Half(GroupTest):
    """A cut that fails half way, on a pool whose files can be taken away."""

    backend = "copy"

    def test_a_cut_that_can_not_be_finished_is_undone(self):
        volumes = [self.create() for _ in range(3)]
        before = self.cut(volumes)
        for missing in volumes:
            disk, aside = self.pool / "volumes" / missing / "disk", self.scratch / "aside"
            disk.rename(aside)
            with self.assertRaises(Failed) as caught:
                self.cut(volumes, name=f"without {missing}")
            aside.rename(disk)
            self.assertIn(missing, caught.exception.text)
            for volume, kept in zip(volumes, before):
                self.assertEqual([e.snapshot.snapshot_id for e in self.snapshots_of(volume)],
                                 [kept])
            subprocess.run([BIN, "--pool", self.pool, "pool", "check", "--quiet"], check=True)
            # The name is free, and the cut can be made now.
            self.delete_group(self.call(
                "GroupController.CreateVolumeGroupSnapshot", name=f"without {missing}",
                source_volume_ids=volumes).group_snapshot.group_snapshot_id)


if __name__ == "__main__":
    main()
