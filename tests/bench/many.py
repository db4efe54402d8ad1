# SPDX-License-Identifier: Apache-2.0
"""Does `cairn snapshot create` get slower with the number of snapshots?"""
import os

from benchlib import BLOCK, CAIRN, Pool, Report, Time, fill, runs_of

SNAPSHOTS = 10000
EDGE = 100
SIZE = 64 << 20
BLOCKS = 64  # written over and over, so that the volume's own extents stay as many


def main():
    report = Report(f"many: {SNAPSHOTS} snapshots of one volume, one block written before each")
    with Pool("btrfs") as pool:
        path = pool.volume("data", SIZE)
        fill(path, SIZE, BLOCK, BLOCKS, "every", 2)
        runs = []
        with open(path, "r+b", buffering=0) as volume:
            for n in range(SNAPSHOTS):
                os.pwrite(volume.fileno(), os.urandom(BLOCK), n % BLOCKS * 2 * BLOCK)
                os.fsync(volume.fileno())
                runs += runs_of([CAIRN, "snapshot", "create", f"data@{n}"])
        first, last = Time(runs[:EDGE]), Time(runs[-EDGE:])
        report.figure(f"the first {EDGE}", first)
        report.figure(f"the last {EDGE}", last)
        report.ratio("the last / the first", last, first, "<=", 1.5)
    report.finish()


main()
