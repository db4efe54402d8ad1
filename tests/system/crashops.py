# SPDX-License-Identifier: Apache-2.0
"""The operations that the crash test interrupts.

Each knows how to prepare a run of itself, what it may leave visible when it is
interrupted, and how to tell whether it was done, completely.
"""
import shutil
import subprocess
import time

from cairncli import ABORTED, BLOCK, DATA_LOSS, EXISTS, MIB, NOT_FOUND, PRECONDITION
from crashworld import Volume, require

INTERNAL = 13


class Operation:
    name = ""
    retention = "30d"
    needs_mount = False
    runs_programs = frozenset()  # other processes may be killed alone; statuses of that
    only_all = frozenset()     # back ends on which it takes --all: others have its calls too
    only = None                # the one back end on which it makes sense
    again = {0}                # statuses of doing it again when it was done
    done_in_passing = False    # other commands may do it on the side

    def set_up(self, world):
        """Something acknowledged, to be lost if anything is: three snapshots,
        the first deleted, and deltas between them."""
        keep = world.make_volume("keep")
        keep.scribble(16)
        world.make_snapshot(keep, "k0")
        keep.scribble()
        world.make_snapshot(keep, "k1")
        keep.scribble()
        world.make_snapshot(keep, "k2")
        world.delete_snapshot("keep@k0")
        world.know_delta("keep@k0", "keep@k2")
        world.know_delta("keep@k1", "keep@k2")

    def prepare(self, world, number):
        raise NotImplementedError

    def command(self, world, context):
        raise NotImplementedError

    def maybe(self, context):
        """(volumes, snapshots) that may be there or not when interrupted."""
        return (), ()

    def verify(self, world, context, visible):
        """True if it was done, False if not; anything between is broken."""
        raise NotImplementedError

    def settle(self, world, context):
        """It is done: the world knows of it from here on."""

    def finish(self, world, context):
        """Makes room for the next run."""


class VolumeCreate(Operation):
    name = "volume create"
    again = {EXISTS}
    options = ("--size", str(MIB))

    def prepare(self, world, number):
        return f"new{number}"

    def command(self, world, name):
        return ("volume", "create", name, *self.options)

    def maybe(self, name):
        return {name}, ()

    def bytes(self, world):
        return bytes(MIB)

    def verify(self, world, name, visible):
        volumes, _ = visible
        if name not in volumes:
            return False
        volume = Volume(world, name, MIB)
        volume.data = self.bytes(world)
        world.check_volume(volume, volumes[name])
        return True

    def settle(self, world, name):
        world.volumes[name] = Volume(world, name, MIB)
        world.volumes[name].data = self.bytes(world)

    def finish(self, world, name):
        world.delete_volume(name)


class CloneSnapshot(VolumeCreate):
    name = "clone snapshot"
    options = ("--from", "keep@k2")

    def bytes(self, world):
        return world.volumes["keep"].data


class CloneVolume(CloneSnapshot):
    name = "clone volume"
    options = ("--from", "keep")


class VolumeDelete(Operation):
    name = "volume delete"
    again = {NOT_FOUND}

    def prepare(self, world, number):
        name = f"old{number}"
        volume = world.make_volume(name)
        volume.scribble()
        world.make_snapshot(volume, "s1")
        volume.scribble()
        world.make_snapshot(volume, "s2")
        return name

    def command(self, world, name):
        return ("volume", "delete", name, "--with-snapshots")

    def maybe(self, name):
        return {name}, {f"{name}@s1", f"{name}@s2"}

    def verify(self, world, name, visible):
        volumes, snapshots = visible
        left = len({f"{name}@s1", f"{name}@s2"} & set(snapshots))
        require(left == (2 if name in volumes else 0), f"deleted in part: {left} snapshots are left")
        return name not in volumes

    def settle(self, world, name):
        del world.volumes[name]
        del world.snapshots[f"{name}@s1"]
        del world.snapshots[f"{name}@s2"]


class VolumeExpand(Operation):
    name = "volume expand"

    def set_up(self, world):
        super().set_up(world)
        self.new_volume(world)

    def new_volume(self, world):
        self.volume = world.make_volume("grow")
        self.volume.changing = True

    def prepare(self, world, number):
        self.volume.scribble()
        return self.volume.size + MIB

    def command(self, world, size):
        return ("volume", "expand", "grow", "--size", str(size))

    def maybe(self, size):
        return {"grow"}, ()

    def verify(self, world, size, visible):
        volumes, _ = visible
        require("grow" in volumes, "the volume is gone")
        now = volumes["grow"]["size_bytes"]
        require(now in (size - MIB, size), f"size {now}")
        with open(self.volume.path, "rb") as file:
            data = file.read()
        require(data[:size - MIB] == self.volume.data[:size - MIB], "bytes of grow")
        require(len(data) >= now, "the file is smaller than the volume")
        return now == size

    def settle(self, world, size):
        self.volume.size = size
        self.volume.data = self.volume.data.ljust(size, b"\0")

    def finish(self, world, size):
        if self.volume.size >= 8 * MIB:
            world.delete_volume("grow")
            self.new_volume(world)


class VolumeRollback(Operation):
    """After every fault the volume holds one of the two states, and a snapshot cut then
    has the right delta against the snapshot rolled to and against those made since."""
    name = "volume rollback"
    only_all = frozenset({"copy", "btrfs", "reflink"})

    def set_up(self, world):
        super().set_up(world)
        self.volume = world.make_volume("roll")
        self.volume.changing = True
        self.volume.scribble(16)
        self.old = bytes(self.volume.data)
        world.make_snapshot(self.volume, "old")
        self.looks = 0

    def prepare(self, world, number):
        self.volume.scribble()
        self.between = bytes(self.volume.data)
        world.make_snapshot(self.volume, f"between{number}")
        self.volume.scribble()
        self.new = bytes(self.volume.data)
        return number

    def command(self, world, number):
        return ("volume", "rollback", "roll@old", "--no-snapshot")

    def maybe(self, number):
        return {"roll"}, ()

    def look(self, world, number, now):
        self.looks += 1
        name = f"roll@look{self.looks}"
        world.cairn("snapshot", "create", name)
        for base, data in (("roll@old", self.old), (f"roll@between{number}", self.between)):
            world.check_covers(base, name, [
                block for block in range(len(now) // BLOCK)
                if now[block * BLOCK:(block + 1) * BLOCK] != data[block * BLOCK:(block + 1) * BLOCK]])
        world.cairn("snapshot", "delete", name)

    def verify(self, world, number, visible):
        volumes, _ = visible
        require("roll" in volumes and volumes["roll"]["size_bytes"] == MIB, "the volume is gone")
        with open(self.volume.path, "rb") as file:
            now = file.read()
        require(now in (self.old, self.new), "the volume holds a mixture")
        self.look(world, number, now)
        left = list((world.pool / "volumes").glob("*.new"))
        require(not left, f"left behind: {left}")
        return now == self.old

    def settle(self, world, number):
        self.volume.data = bytearray(self.old)

    def finish(self, world, number):
        world.delete_snapshot(f"roll@between{number}")


class KeepingRollback(VolumeRollback):
    """The way back is there before the volume changes."""
    name = "kept rollback"
    only_all = frozenset({"btrfs", "reflink"})

    def command(self, world, number):
        self.kept = f"kept{number}" if self.kept_number != number else f"kept{number}-again"
        self.kept_number = number
        return ("volume", "rollback", "roll@old", "--snapshot-first", self.kept)

    kept_number = None

    def maybe(self, number):
        return {"roll"}, {f"roll@kept{number}", f"roll@kept{number}-again"}

    def verify(self, world, number, visible):
        done = super().verify(world, number, visible)
        _, snapshots = visible
        kept = snapshots.get(f"roll@kept{number}") or snapshots.get(f"roll@kept{number}-again")
        require(kept or not done, "rolled back without a snapshot of what was there")
        if kept:
            require(world.snapshot_bytes(kept) == self.new, "bytes of the way back")
        return done

    def settle(self, world, number):
        super().settle(world, number)
        for name in world.seen()[1]:
            if name.startswith("roll@kept"):
                world.know_snapshot(name, None)

    def finish(self, world, number):
        super().finish(world, number)
        for name in [each for each in world.snapshots if each.startswith("roll@kept")]:
            world.delete_snapshot(name)


class SnapshotCreate(Operation):
    name = "snapshot create"
    again = {EXISTS}

    def set_up(self, world):
        super().set_up(world)
        self.volume = world.make_volume("data")
        self.volume.scribble(16)
        self.last = world.make_snapshot(self.volume, "first")

    def prepare(self, world, number):
        self.changed = self.volume.scribble()
        return f"data@s{number}"

    def command(self, world, name):
        return ("snapshot", "create", name)

    def maybe(self, name):
        return (), {name}

    def verify(self, world, name, visible):
        _, snapshots = visible
        if name not in snapshots:
            return False
        require(world.snapshot_bytes(snapshots[name]) == self.volume.data, f"bytes of {name}")
        world.check_covers(self.last, name, self.changed)
        return True

    def settle(self, world, name):
        world.know_snapshot(name, self.volume.data)

    def finish(self, world, name):
        world.delete_snapshot(self.last)
        self.last = name


class GroupCreate(Operation):
    """Two volumes; one has a mounted filesystem, which is frozen."""
    name = "group create"
    again = {EXISTS}
    needs_mount = True
    runs_programs = frozenset({ABORTED})  # the process that holds the freeze was killed

    def set_up(self, world):
        super().set_up(world)
        self.volume = world.make_volume("raw")
        self.mounted = world.make_volume("mounted", 8 * MIB)
        self.mounted.data = None  # the filesystem writes as it likes
        device = world.out("volume", "attach", "mounted").strip()
        mount = world.root / "mount"
        mount.mkdir()
        subprocess.run(["mkfs.ext4", "-q", device], check=True)
        subprocess.run(["mount", device, mount], check=True)
        world.mounts.append(mount)

    def prepare(self, world, number):
        self.volume.scribble()
        self.file = world.random.randbytes(3 * BLOCK)
        (world.mounts[0] / "file").write_bytes(self.file)
        return [f"raw@g{number}", f"mounted@g{number}"]

    def command(self, world, names):
        return ("snapshot", "create", *names)

    def maybe(self, names):
        return (), set(names)

    def verify(self, world, names, visible):
        _, snapshots = visible
        there = [name in snapshots for name in names]
        require(all(there) or not any(there), f"only one of {names}")
        if not all(there):
            return False
        require(world.snapshot_bytes(snapshots[names[0]]) == self.volume.data, "bytes of raw")
        require(self.file in world.snapshot_bytes(snapshots[names[1]]),
                "what was written to the filesystem is not in its snapshot")
        return True

    def settle(self, world, names):
        world.know_snapshot(names[0], self.volume.data)
        world.know_snapshot(names[1], None)

    def finish(self, world, names):
        for name in names:
            world.delete_snapshot(name)


class VolumeRename(Operation):
    name = "volume rename"
    only_all = frozenset({"btrfs", "reflink"})

    def set_up(self, world):
        super().set_up(world)
        self.volume = world.make_volume("name0")
        self.volume.scribble()
        world.make_snapshot(self.volume, "s")
        self.id = world.seen()[0]["name0"]["id"]

    def prepare(self, world, number):
        return self.volume.name, f"name{number}"

    def command(self, world, names):
        return ("volume", "rename", self.id, names[1])

    def maybe(self, names):
        return set(names), {f"{name}@s" for name in names}

    def verify(self, world, names, visible):
        volumes, snapshots = visible
        there = [name for name in names if name in volumes]
        require(len(there) == 1, f"the volume is called {there}")
        require(f"{there[0]}@s" in snapshots, "its snapshot has another volume's name")
        require(world.out("volume", "path", there[0]).rstrip("\n") == self.volume.path, "its path")
        return there[0] == names[1]

    def settle(self, world, names):
        old, new = names
        world.volumes[new] = world.volumes.pop(old, self.volume)
        self.volume.name = new
        world.snapshots[f"{new}@s"] = world.snapshots.pop(f"{old}@s", None)


class SnapshotRename(Operation):
    name = "snapshot rename"
    only_all = frozenset({"btrfs", "reflink"})

    def set_up(self, world):
        super().set_up(world)
        self.volume = world.make_volume("data")
        self.volume.scribble()
        self.name_now = world.make_snapshot(self.volume, "n0")
        self.id = world.seen()[1][self.name_now]["id"]

    def prepare(self, world, number):
        """Every second time a deleted snapshot has the name."""
        new = f"data@n{number}"
        if number % 2:
            world.make_snapshot(self.volume, f"n{number}")
            world.delete_snapshot(new)
        return self.name_now, new

    def command(self, world, names):
        return ("snapshot", "rename", self.id, names[1])

    def maybe(self, names):
        return (), set(names)

    def verify(self, world, names, visible):
        _, snapshots = visible
        there = [name for name in names if name in snapshots]
        require(len(there) == 1, f"the snapshot is called {there}")
        require(snapshots[there[0]]["id"] == self.id, "the name is another snapshot's")
        return there[0] == names[1]

    def settle(self, world, names):
        world.snapshots[names[1]] = world.snapshots.pop(names[0])
        self.name_now = names[1]


class SnapshotDelete(Operation):
    name = "snapshot delete"
    again = {NOT_FOUND}

    def set_up(self, world):
        super().set_up(world)
        self.volume = world.make_volume("data")
        self.volume.scribble(16)

    def prepare(self, world, number):
        self.base, self.target = (self.snapshot(world, f"{kind}{number}") for kind in "ab")
        world.know_delta(self.base, self.target)
        return self.base

    def snapshot(self, world, name):
        self.volume.scribble()
        return world.make_snapshot(self.volume, name)

    def command(self, world, name):
        return ("snapshot", "delete", name)

    def maybe(self, name):
        return (), {name}

    def verify(self, world, name, visible):
        _, snapshots = visible
        return name not in snapshots

    def settle(self, world, name):
        del world.snapshots[name]

    def finish(self, world, name):
        del world.deltas[self.base, self.target]
        world.delete_snapshot(self.target)


class Merge(Operation):
    """A tombstone past its time goes into its successor."""
    name = "merge"
    retention = "50ms"
    done_in_passing = True

    def set_up(self, world):
        self.volume = world.make_volume("data")
        self.volume.scribble(16)
        self.first = world.make_snapshot(self.volume, "first")

    def prepare(self, world, number):
        changed = set()
        names = []
        for kind in "ab":
            changed.update(self.volume.scribble())
            names.append(world.make_snapshot(self.volume, f"{kind}{number}"))
        self.middle, self.last = names
        self.changed = changed
        world.delete_snapshot(self.middle)
        world.know_delta(self.first, self.last)
        time.sleep(0.06)
        return number

    def command(self, world, context):
        return ("pool", "gc")

    def verify(self, world, context, visible):
        world.check_covers(self.first, self.last, self.changed)
        return not any(item["deleted"] for item in world.items("snapshot"))

    def finish(self, world, context):
        del world.deltas[self.first, self.last]
        world.delete_snapshot(self.first)
        self.first = self.last


class PoolCreate(Operation):
    """In a directory of its own; the pool of the world has no part in it."""
    name = "pool create"
    again = {EXISTS}

    def set_up(self, world):
        pass

    def prepare(self, world, number):
        place = world.root / f"new{number}"
        place.mkdir()
        (place / "foreign").write_text("not ours")
        return place

    def command(self, world, place):
        backend = ("--backend", "copy") if world.name == "copy" else ()
        return ("pool", "create", *backend, place)

    def verify(self, world, place, visible):
        done = world.run("volume", "create", "v", "--size", "1M", "--pool", place)
        require(done.status in (0, NOT_FOUND, PRECONDITION, EXISTS), f"volume: {done.err}")
        if done.status in (0, EXISTS):
            world.cairn("pool", "check", place)
        return done.status in (0, EXISTS)

    def finish(self, world, place):
        world.cairn("pool", "destroy", "--yes", place)
        require([each.name for each in place.iterdir()] == ["foreign"],
                f"left behind: {sorted(each.name for each in place.iterdir())}")
        shutil.rmtree(place)


class ImagePoolCreate(PoolCreate):
    """Where the filesystem cannot share blocks: mkfs, loop device, mount."""
    name = "image create"
    needs_mount = True
    only = "copy"
    # No right to mount; mkfs failed; mkfs said that it had not.
    runs_programs = frozenset({PRECONDITION, INTERNAL, DATA_LOSS})
    fs = "btrfs"

    def command(self, world, place):
        return ("pool", "create", "--backend", self.fs, "--size", "512M", place)


class XfsImagePoolCreate(ImagePoolCreate):
    name = "XFS image create"
    fs = "reflink"


OPERATIONS = [PoolCreate, ImagePoolCreate, XfsImagePoolCreate, VolumeCreate, CloneSnapshot,
              CloneVolume, VolumeDelete, VolumeExpand, VolumeRollback,
              KeepingRollback, VolumeRename, SnapshotRename, SnapshotCreate, GroupCreate, SnapshotDelete,
              Merge]
