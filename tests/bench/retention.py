# SPDX-License-Identifier: Apache-2.0
"""What 90 days of change sets take, and what a delta over them costs."""
import os
import pathlib

from benchlib import BLOCK, CAIRN, Pool, Report, call, fill, timed

SIZE = int(os.environ.get("CAIRN_BENCH_SIZE", 1 << 30))
BACKEND = os.environ.get("CAIRN_BENCH_BACKEND", "btrfs")
DAYS = int(os.environ.get("CAIRN_BENCH_DAYS", 90))
CHANGED = SIZE // BLOCK // 100


def stored(top):
    """Bytes that the change sets occupy, file by file."""
    files = [f for f in pathlib.Path(top).rglob("sets/*") if f.is_file()]
    return sum(f.stat().st_blocks * 512 for f in files), len(files)


def human(n):
    return f"{n / 2**20:,.1f} MiB"


def main():
    hours = DAYS * 24
    report = Report(f"retention: {SIZE >> 20} MiB volume, a snapshot an hour for {DAYS} days, each "
                    "deleted when the next is cut; 1 % of the blocks overwritten at random between")
    with Pool(BACKEND, size=str(max(4 << 30, 8 * SIZE))) as pool:
        path = pool.volume("data", SIZE)
        fill(path, SIZE, 1 << 20, SIZE >> 20, "every", 1)
        call(CAIRN, "snapshot", "create", "data@0")
        for hour in range(1, hours + 1):
            fill(path, SIZE, BLOCK, CHANGED, hour)
            call(CAIRN, "snapshot", "create", f"data@{hour}")
            call(CAIRN, "snapshot", "delete", f"data@{hour - 1}")
            if hour in (24, 30 * 24, hours):
                used, files = stored(pool.dir)
                report.figure(f"{hour // 24} days: {files} sets",
                              f"{human(used)}, {used / files / CHANGED:.2f} bytes a changed block, "
                              f"{used / SIZE:.2%} of the volume")
        for days in sorted({1, 5, 30, DAYS}):
            if days <= DAYS:
                base = f"data@{hours - days * 24}"
                report.figure(f"cairn delta over {days * 24} sets, base deleted",
                              timed([CAIRN, "delta", base, f"data@{hours}", "-o", "ndjson"], 5))
    report.finish()


main()
