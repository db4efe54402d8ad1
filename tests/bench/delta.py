# SPDX-License-Identifier: Apache-2.0
"""`cairn delta` against reading both snapshots, on btrfs and on XFS."""
import json
import os

from benchlib import (BLOCK, CAIRN, CHUNK, CHUNKS, OVERWRITES, VOLUME, Pool, Report, Time, call,
                      fill, runs_of, timed, tool)

COLD_RUNS = 3


def changed_bytes(base, target):
    text = call(CAIRN, "delta", base, target, "--output", "json")
    return sum(e["size_bytes"] for e in json.loads(text)["block_metadata"])


def prepare(pool, name, size):
    """A volume of that size with the standard content, and two snapshots around the overwrites."""
    path = pool.volume(name, size)
    fill(path, size, CHUNK, CHUNKS, 1)
    first = pool.snapshot(f"{name}@s1")
    fill(path, size, BLOCK, OVERWRITES, 2)
    return first, pool.snapshot(f"{name}@s2")


def cold(pool, command, times):
    runs = []
    for _ in range(times):
        pool.remount()
        runs += runs_of(command)
    return Time(runs)


def bench(backend, label, report):
    delta = [CAIRN, "delta", "data@s1", "data@s2", "--output", "ndjson"]
    with Pool(backend) as pool:
        first, second = prepare(pool, "data", VOLUME)
        both = [tool("compare"), first, second]
        loop_cold = cold(pool, both, 1)
        loop = timed(both, 3)
        differ = int(call(*both).split()[0]) * BLOCK
        told = changed_bytes("data@s1", "data@s2")
        alive = timed(delta, 15)
        alive_cold = cold(pool, delta, COLD_RUNS)
        report.figure(f"{label}: loop over 4 KiB blocks, cold", loop_cold)
        report.figure(f"{label}: loop over 4 KiB blocks, warm", loop)
        # Into a pipe: writing to /dev/null, cmp would stop at the first difference.
        report.figure(f"{label}: cmp -l, warm", timed(
            ["sh", "-c", 'cmp -l "$1" "$2" | wc -c', "sh", first, second]))
        if backend == "btrfs":
            report.figure(f"{label}: btrfs send --no-data", timed(
                ["btrfs", "-q", "send", "--no-data", "-p", os.path.dirname(first),
                 os.path.dirname(second)], 3))
        report.figure(f"{label}: cairn delta, base alive", alive)
        report.figure(f"{label}: cairn delta, base alive, cold", alive_cold)
        report.target(f"{label}: changed bytes not reported", max(0, differ - told), "<=", 0)
        report.figure(f"{label}: changed bytes, reported in excess", f"{differ}, {told - differ}")
        report.ratio(f"{label}: warm loop / delta", loop, alive, ">=", 300)
        report.ratio(f"{label}: cold loop / cold delta", loop_cold, alive_cold, ">=", 2000)
        call(CAIRN, "snapshot", "delete", "data@s1")
        gone = timed(delta, 15)
        gone_cold = cold(pool, delta, COLD_RUNS)
        report.figure(f"{label}: cairn delta, base deleted", gone)
        report.ratio(f"{label}: warm loop / delta, base deleted", loop, gone, ">=", 300)
        report.ratio(f"{label}: cold loop / cold delta, base deleted", loop_cold, gone_cold, ">=", 2000)
        prepare(pool, "big", 1 << 40)
        big = timed([CAIRN, "delta", "big@s1", "big@s2", "--output", "ndjson"], 15)
        report.figure(f"{label}: cairn delta, 1 TiB volume", big)
        report.ratio(f"{label}: delta of 1 TiB / of 8 GiB", big, alive, "<=", 1.5)


def main():
    report = Report("delta: 8 GiB volume, 25 % allocated, 1 % of its blocks overwritten at random")
    bench("btrfs", "btrfs", report)
    bench("reflink", "XFS", report)
    report.finish()


main()
