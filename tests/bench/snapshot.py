# SPDX-License-Identifier: Apache-2.0
"""`cairn snapshot create` with its change set, against a copy and against btrfs itself."""
import os

from benchlib import (BLOCK, CAIRN, CHUNK, CHUNKS, OVERWRITES, VOLUME, Pool, Report, Time,
                      call, fill, runs_of, tool)

RUNS = 5
VOLUMES = 3
MILLION = 1 << 20


def create(name):
    return runs_of([CAIRN, "snapshot", "create", "--set-wait", "none", name])


def copy(pool, path):
    target = pool.mount_point() + "/copy"
    run = runs_of(["cp", "--sparse=always", "--reflink=never", path, target])
    os.unlink(target)
    return run


def against_copy(backend, label, limit, report):
    """Each time on a fresh volume: every round of overwrites makes a volume more fragmented."""
    ours, warm, cold = [], [], []
    with Pool(backend) as pool:
        for n in range(VOLUMES):
            path = pool.volume(f"data{n}", VOLUME)
            fill(path, VOLUME, CHUNK, CHUNKS, 1 + n)
            pool.snapshot(f"data{n}@s1")
            fill(path, VOLUME, BLOCK, OVERWRITES, 100 + n)
            ours += create(f"data{n}@s2")
            copy(pool, path)
            warm += copy(pool, path)
            pool.remount()
            cold += copy(pool, path)
            for name in ("s1", "s2"):
                call(CAIRN, "snapshot", "delete", f"data{n}@{name}")
            call(CAIRN, "volume", "delete", f"data{n}")
    ours, warm, cold = Time(ours), Time(warm), Time(cold)
    report.figure(f"{label}: cp --sparse=always, cold", cold)
    report.figure(f"{label}: cp --sparse=always, warm", warm)
    report.figure(f"{label}: cairn snapshot create", ours)
    report.ratio(f"{label}: cold cp / snapshot create", cold, ours, ">=", limit, by="wall")
    report.ratio(f"{label}: warm cp / snapshot create", warm, ours, ">=", limit)


def overwrite(path, seed):
    """Rewrites 1 % and commits, so that neither side pays for writing down what changed."""
    fill(path, VOLUME, BLOCK, MILLION // 100, seed)
    call("sync", "-f", path)


def against_btrfs(report):
    """A million extents: the least it can cost is a bare snapshot and one walk of both trees."""
    ours, bare, walk = [], [], []
    with Pool("btrfs") as pool:
        path = pool.volume("frag", VOLUME)
        fill(path, VOLUME, BLOCK, MILLION, "every", 2)
        previous = pool.snapshot("frag@first")
        where, name = os.path.split(path)
        for n in range(RUNS):
            overwrite(path, 10 + n)
            ours += create(f"frag@n{n}")
            overwrite(path, 50 + n)
            target = f"{pool.mount_point()}/bare{n}"
            bare += runs_of(["btrfs", "subvolume", "snapshot", "-r", where, target])
            walk += runs_of([tool("treewalk"), previous, f"{target}/{name}"])
            previous = f"{target}/{name}"
        for n in range(RUNS):
            call("btrfs", "subvolume", "delete", f"{pool.mount_point()}/bare{n}")
    ours, bare, walk = Time(ours), Time(bare), Time(walk)
    report.figure("btrfs, 1M extents: btrfs subvolume snapshot", bare)
    report.figure("btrfs, 1M extents: tree walk of both", walk)
    report.figure("btrfs, 1M extents: cairn snapshot create", ours)
    report.ratio("btrfs, 1M extents: ours / bare snapshot and walk", ours, bare + walk, "<=", 1.5)


def main():
    report = Report("snapshot: 8 GiB volume, 25 % allocated, 1 % of its blocks overwritten before")
    against_copy("btrfs", "btrfs", 20, report)
    against_copy("reflink", "XFS", 3, report)
    against_btrfs(report)
    report.finish()


main()
