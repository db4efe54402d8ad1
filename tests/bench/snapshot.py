# SPDX-License-Identifier: Apache-2.0
"""`cairn snapshot create` with its change set, against a copy and against btrfs itself."""
import os

from benchlib import (BLOCK, CAIRN, CHUNK, CHUNKS, OVERWRITES, VOLUME, GIB, Pool, Report, Time,
                      call, fill, runs_of, tool)

RUNS = 5
MILLION = 1 << 20


def snapshots(path, size, overwrites, name):
    """Times `snapshot create`, each after fresh overwrites."""
    runs = []
    for n in range(RUNS):
        fill(path, size, BLOCK, overwrites, 10 + n)
        runs += runs_of([CAIRN, "snapshot", "create", f"{name}@n{n}"])
    return Time(runs)


def against_copy(backend, label, limit, report):
    with Pool(backend) as pool:
        path = pool.volume("data", VOLUME)
        fill(path, VOLUME, CHUNK, CHUNKS, 1)
        pool.snapshot("data@first")
        fill(path, VOLUME, BLOCK, OVERWRITES, 2)
        pool.snapshot("data@second")
        ours = snapshots(path, VOLUME, OVERWRITES, "data")
        copy = pool.mount_point() + "/copy"
        runs = []
        for _ in range(RUNS):
            runs += runs_of(["cp", "--sparse=always", "--reflink=never", path, copy])
            os.unlink(copy)
        theirs = Time(runs)
        report.figure(f"{label}: cp --sparse=always of the volume", theirs)
        report.figure(f"{label}: cairn snapshot create", ours)
        report.ratio(f"{label}: cp / snapshot create", theirs, ours, ">=", limit, by="wall")


def against_btrfs(report):
    """A million extents: the least it can cost is a bare snapshot and one walk of both trees."""
    with Pool("btrfs") as pool:
        path = pool.volume("frag", VOLUME)
        fill(path, VOLUME, BLOCK, MILLION, "every", 2)
        previous = pool.snapshot("frag@first")
        ours = snapshots(path, VOLUME, MILLION // 100, "frag")
        bare, walk = [], []
        for n in range(RUNS):
            fill(path, VOLUME, BLOCK, MILLION // 100, 50 + n)
            copy = f"{pool.mount_point()}/bare{n}"
            bare += runs_of(["btrfs", "subvolume", "snapshot", "-r", os.path.dirname(path), copy])
            now = f"{copy}/{os.path.basename(path)}"
            walk += runs_of([tool("treewalk"), previous, now])
            previous = now
        for n in range(RUNS):
            call("btrfs", "subvolume", "delete", f"{pool.mount_point()}/bare{n}")
        bare, walk = Time(bare), Time(walk)
        report.figure("btrfs, 1M extents: btrfs subvolume snapshot", bare)
        report.figure("btrfs, 1M extents: tree walk of both", walk)
        report.figure("btrfs, 1M extents: cairn snapshot create", ours)
        report.ratio("btrfs, 1M extents: ours / bare snapshot and walk", ours, bare + walk, "<=",
                     1.5, by="wall")


def main():
    report = Report("snapshot: 8 GiB volume, 25 % allocated, 1 % of its blocks overwritten before")
    against_copy("btrfs", "btrfs", 20, report)
    against_copy("reflink", "XFS", 3, report)
    against_btrfs(report)
    report.finish()


main()
