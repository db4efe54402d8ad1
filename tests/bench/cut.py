# SPDX-License-Identifier: Apache-2.0
"""How long a cut on XFS holds writers up: one FICLONE, or two steps."""
import os
import statistics

from benchlib import BLOCK, Pool, Report, call, fill, tool

EXTENTS = [int(n) for n in os.environ.get("CAIRN_BENCH_EXTENTS", "100000,1000000").split(",")]
RUNS = int(os.environ.get("CAIRN_BENCH_RUNS", 3))
PIECE = 512 * 2 * BLOCK  # 512 extents: every second block is one


def cut(mode, source, target, *more):
    """(CPU, wall, longest hold) in seconds."""
    return [int(n) / 1e6 for n in call(tool("clonecut"), mode, source, target, *more).split()[:3]]


def median(runs):
    return [statistics.median(column) for column in zip(*runs)]


def show(figures):
    cpu, wall, hold = figures
    return (f"{cpu * 1000:.0f} ms CPU, {wall * 1000:.0f} ms wall, "
            f"writers held {hold * 1000:.0f} ms at a time")


def measure(extents, report):
    whole, pieces, second = [], [], []
    size = extents * 2 * BLOCK
    with Pool("reflink", "24G") as pool:
        path = pool.volume("frag", size)
        fill(path, size, BLOCK, extents, "every", 2)
        target = pool.mount_point() + "/clone"
        for n in range(RUNS):
            call("sync", "-f", path)
            whole.append(cut("whole", path, target))
            os.unlink(target)
            call("sync", "-f", path)
            pieces.append(cut("ranges", path, target, PIECE))
            fill(path, size, BLOCK, extents // 1000, 10 + n)  # 0.1 % while the first step ran
            second.append(cut("second", path, target))
            os.unlink(target)
    whole, pieces, second = median(whole), median(pieces), median(second)
    name = f"{extents:,} extents"
    report.figure(f"{name}: one FICLONE", show(whole))
    report.figure(f"{name}: first step, pieces of 512 extents", show(pieces))
    report.figure(f"{name}: second step, 0.1 % changed", show(second))
    report.target(f"{name}: FICLONE / second step, CPU time", whole[0] / second[0], ">=", 3, "x")
    report.figure(f"{name}: FICLONE / second step, held", f"{whole[2] / second[2]:.1f}x")


def main():
    report = Report("cut: a volume on XFS with every second block written")
    for extents in EXTENTS:
        measure(extents, report)
    report.finish()


main()
