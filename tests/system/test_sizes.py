#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Never missed: sizes of volumes that change by command, by fault and by hand.

Usage: test_sizes.py [--rounds N] [--seed N] [--backend NAME]

Random operations on one volume and its clones: expanding, expanding with a call
that fails, growing the backing file by hand, writing on both sides of the
recorded size, snapshots. Each snapshot must have the recorded size and the
volume's bytes up to it, and each delta must hold every block that differs from
the base or lies past the base's size. A backing file that is shorter than its
record is an error of every command that would read it.

CAIRN_BIN is the program, CAIRN_SHIM the shim (tests/tools/shim).
"""
import argparse
import json
import os
import shutil
import subprocess
import sys

from cairncli import BIN, BLOCK, CAN_MOUNT, DATA_LOSS, MIB
from crashworld import SHIM, Broken, Host, World, require

EXTRA = 64 * 1024  # sizes are multiples of it
GROW_MAX = 12      # of these at once
SIZE_MAX = 6 * MIB


class Grown:
    """A volume, what its record says, and what its file holds past that."""

    def __init__(self, world, name, size, snapshots=()):
        self.world, self.name, self.size = world, name, size
        self.path = world.out("volume", "path", name).rstrip("\n")
        self.snapshots = list(snapshots)  # (name, bytes), oldest first

    def file_size(self):
        return os.stat(self.path).st_size

    def bytes(self):
        with open(self.path, "rb") as file:
            return file.read(self.size)

    def write(self):
        """Anywhere in the file, also past the recorded size."""
        rand = self.world.random
        with open(self.path, "r+b", buffering=0) as file:
            for _ in range(3):
                file.seek(rand.randrange(self.file_size() // BLOCK) * BLOCK)
                file.write(rand.randbytes(BLOCK) if rand.random() < 0.8 else bytes(BLOCK))
            os.fsync(file.fileno())

    def larger(self):
        return self.size + EXTRA * self.world.random.randrange(1, GROW_MAX)

    def record_size(self):
        return json.loads(self.world.out("volume", "info", self.name, "-o", "json"))["size_bytes"]

    def expand(self):
        size = self.larger()
        self.world.cairn("volume", "expand", self.name, "--size", size)
        self.size = size
        require(self.file_size() >= size, "the file is shorter than the volume")

    def expand_with_fault(self):
        rand = self.world.random
        size = self.larger()
        done = self.world.run("volume", "expand", self.name, "--size", size,
                              CAIRN_SHIM_FAIL_AT=rand.randrange(1, 12),
                              CAIRN_SHIM_FAIL_ERRNO=rand.choice(["EIO", "ENOSPC"]))
        now = self.record_size()
        require(now == (size if done.status == 0 else self.size),
                f"expand from {self.size} to {size}: status {done.status}, size {now}")
        self.size = now

    def grow_by_hand(self):
        os.truncate(self.path, self.file_size() + EXTRA * self.world.random.randrange(1, 4))

    def snapshot(self):
        name = f"{self.name}@s{len(self.snapshots)}"
        self.world.cairn("snapshot", "create", name)
        self.snapshots.append((name, self.bytes()))
        self.check_last()

    def check_last(self):
        name, data = self.snapshots[-1]
        info = json.loads(self.world.out("snapshot", "info", name, "-o", "json"))
        require(info["size_bytes"] == self.size, f"size of {name}")
        with open(self.world.out("snapshot", "path", name).rstrip("\n"), "rb") as file:
            require(file.read() == data, f"bytes of {name}")
        for base in self.snapshots[:-1]:
            check_delta(self.world, base, self.snapshots[-1])

    def shrink_by_hand(self):
        """Refused as long as it lasts; a volume is never filled up with zeros."""
        world, size = self.world, self.file_size()
        with open(self.path, "rb") as file:
            whole = file.read()
        os.truncate(self.path, self.size - EXTRA)
        for command in (("snapshot", "create", f"{self.name}@short"),
                        ("volume", "create", "short", "--from", self.name),
                        ("volume", "attach", self.name),
                        ("volume", "expand", self.name, "--size", self.size + EXTRA),
                        ("volume", "expand", self.name, "--size", self.size)):
            done = world.run(*command)
            require(done.status == DATA_LOSS,
                    f"{' '.join(map(str, command))} of a short file: status {done.status} "
                    f"{done.err.strip()}")
        require(world.run("pool", "check").status != 0, "pool check does not see a short file")
        require(self.file_size() == self.size - EXTRA, "a short file was filled up")
        with open(self.path, "r+b") as file:
            file.write(whole)
        require(self.file_size() == size, "size of what was put back")


def check_delta(world, base, target):
    """Against a comparison of all bytes."""
    (base_name, old), (target_name, new) = base, target
    covered = bytearray(-(-len(new) // BLOCK))
    for line in world.out("delta", base_name, target_name, "-o", "ndjson").splitlines():
        extent = json.loads(line)
        first = extent["byte_offset"] // BLOCK
        for block in range(first, first + -(-extent["size_bytes"] // BLOCK)):
            covered[block] = 1
    for block, seen in enumerate(covered):
        at = block * BLOCK
        if not seen:
            require(at + BLOCK <= len(old) and old[at:at + BLOCK] == new[at:at + BLOCK],
                    f"delta {base_name} ({len(old)} bytes) {target_name} ({len(new)} bytes) "
                    f"misses the block at {at}")


def check_device(world, volume):
    """A device is as large as the record says, also after growing it."""
    device = world.out("volume", "attach", volume.name).strip()
    try:
        for _ in range(2):
            size = int(subprocess.check_output(["blockdev", "--getsize64", device]))
            require(size == volume.size, f"{device} has {size} bytes, the volume {volume.size}")
            volume.expand()
        size = int(subprocess.check_output(["blockdev", "--getsize64", device]))
        require(size == volume.size, f"{device} has {size} bytes after growing to {volume.size}")
    finally:
        world.cairn("volume", "detach", volume.name)


def clone(world, volume, volumes):
    name, data = world.random.choice(volume.snapshots)
    fresh = f"clone{len(volumes)}"
    size = len(data) + EXTRA * world.random.randrange(0, 3)
    world.cairn("volume", "create", fresh, "--from", name, "--size", size)
    made = Grown(world, fresh, size, [(name, data)])
    require(made.bytes() == data.ljust(size, b"\0"), f"bytes of {fresh}")
    volumes.append(made)


def one_step(world, volumes):
    rand = world.random
    volume = rand.choice(volumes)
    act = rand.choices(["write", "snapshot", "expand", "fault", "hand", "shrink", "clone", "device"],
                       [8, 6, 3, 5, 3, 1, 2, 1])[0]
    if volume.size > SIZE_MAX and act in ("expand", "fault", "hand", "device"):
        act = "snapshot"
    if act == "write":
        volume.write()
    elif act == "snapshot":
        volume.snapshot()
    elif act == "expand":
        volume.expand()
    elif act == "fault":
        volume.expand_with_fault()
    elif act == "hand":
        volume.grow_by_hand()
    elif act == "shrink":
        volume.shrink_by_hand()
    elif act == "clone" and len(volumes) < 4 and volume.snapshots:
        clone(world, volume, volumes)
    elif act == "device" and CAN_MOUNT:
        check_device(world, volume)
    return f"{act} {volume.name} record {volume.size} file {volume.file_size()}"


def run_rounds(name, fs, options):
    host = Host(fs)
    steps = []
    try:
        world = World(name, host.place("sizes"), backend="copy" if fs is None else "auto")
        world.random.seed(options.seed)
        world.cairn("volume", "create", "data", "--size", MIB)
        volumes = [Grown(world, "data", MIB)]
        for _ in range(options.rounds):
            steps.append(one_step(world, volumes))
        checked = world.run("pool", "check")
        require(checked.status == 0, f"pool check: {checked.out}{checked.err}")
        print(f"{name}: {len(steps)} steps, "
              f"{sum(len(volume.snapshots) for volume in volumes)} snapshots", flush=True)
        world.close()
        return 0
    except Broken as problem:
        print(f"BROKEN {name}, seed {options.seed}: {problem}")
        print("\n".join(f"  {step}" for step in steps[-12:]), flush=True)
        return 1
    finally:
        host.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=70)
    parser.add_argument("--seed", type=int, default=13)
    parser.add_argument("--backend", choices=["copy", "btrfs", "reflink"])
    options = parser.parse_args()
    if not shutil.which(BIN) or not os.path.exists(SHIM):
        print(f"needs the program '{BIN}' and the shim '{SHIM}'")
        sys.exit(77)
    broken = 0
    for name, fs in (("copy", None), ("btrfs", "btrfs"), ("reflink", "xfs")):
        if options.backend in (None, name) and (fs is None or CAN_MOUNT):
            broken += run_rounds(name, fs, options)
    sys.exit(1 if broken else 0)


if __name__ == "__main__":
    main()
