# SPDX-License-Identifier: Apache-2.0
"""This build against another one (CAIRN_BENCH_OTHER=DIR): delta, snapshot and many, in turns."""
import os
import shutil
import subprocess
import sys
import tempfile

from benchlib import BLOCK, CAIRN, CHUNK, Report, Time, call, fill, runs_of

SIZE = 2 << 30
DELTAS = 60
CUTS = 9
MANY = int(os.environ.get("CAIRN_BENCH_SNAPSHOTS", 400))
EDGE = 100
LIMIT = 1.05


class Side:
    """One build and a pool of its own."""

    def __init__(self, program, backend):
        self.program = program
        self.top = tempfile.mkdtemp(prefix="cairn-bench.")
        self.pool = f"{self.top}/pool"
        self.call("pool", "create", self.pool, "--backend", backend, "--size", "6G")

    def command(self, *args):
        return [self.program, "--pool", self.pool, *args]

    def call(self, *args):
        return call(*self.command(*args))

    def runs(self, *args, times=1):
        return runs_of(self.command(*args), times)

    def volume(self, name, size):
        self.call("volume", "create", name, "--size", str(size))
        return self.call("volume", "path", name)

    def close(self):
        subprocess.run(self.command("pool", "destroy", "--yes"), stdout=subprocess.DEVNULL)
        with open("/proc/self/mountinfo", encoding="utf-8") as mounts:
            if not any(self.top + "/" in line for line in mounts):
                shutil.rmtree(self.top)


def in_turns(sides, times, step):
    """Runs of each side; who begins changes each time."""
    runs = [[], []]
    for n in range(times):
        for i in (0, 1) if n % 2 == 0 else (1, 0):
            runs[i] += step(sides[i], n)
    return [Time(r) for r in runs]


def judge(report, name, times):
    this, other = times
    report.figure(f"{name}: this build", this)
    report.figure(f"{name}: the other", other)
    report.target(f"{name}: this / the other, CPU time", this.cpu / other.cpu, "<=", LIMIT, "x")


def bench(backend, other, report):
    sides = [Side(CAIRN, backend), Side(other, backend)]
    try:
        paths = {side: side.volume("data", SIZE) for side in sides}
        for side in sides:
            fill(paths[side], SIZE, CHUNK, SIZE // 4 // CHUNK, 1)
            side.call("snapshot", "create", "data@s")

        def cut(side, n):
            fill(paths[side], SIZE, BLOCK, SIZE // BLOCK // 100, 100 + n)
            call("sync", "-f", paths[side])
            return side.runs("snapshot", "create", f"data@s{n}")

        judge(report, f"{backend}: snapshot create, 1 % changed", in_turns(sides, CUTS, cut))
        judge(report, f"{backend}: delta over {CUTS} sets", in_turns(
            sides, DELTAS, lambda side, _: side.runs("delta", "data@s", f"data@s{CUTS - 1}",
                                                     "-o", "ndjson")))
        judge(report, f"{backend}: delta over 1 set", in_turns(
            sides, DELTAS, lambda side, _: side.runs("delta", "data@s0", "data@s1",
                                                     "-o", "ndjson")))
    finally:
        for side in sides:
            side.close()


def many(other, report):
    sides = [Side(CAIRN, "btrfs"), Side(other, "btrfs")]
    try:
        paths = {side: side.volume("data", 64 << 20) for side in sides}
        for side in sides:
            fill(paths[side], 64 << 20, BLOCK, 64, "every", 2)

        def cut(side, n):
            with open(paths[side], "r+b", buffering=0) as volume:
                os.pwrite(volume.fileno(), os.urandom(BLOCK), n % 64 * 2 * BLOCK)
                os.fsync(volume.fileno())
            return side.runs("snapshot", "create", f"data@m{n}")

        in_turns(sides, MANY - EDGE, cut)
        judge(report, f"many: the last {EDGE} of {MANY}",
              in_turns(sides, EDGE, lambda side, n: cut(side, MANY + n)))
    finally:
        for side in sides:
            side.close()


def main():
    build = os.environ.get("CAIRN_BENCH_OTHER")
    if not build:
        sys.exit("CAIRN_BENCH_OTHER is not set: the build directory of another commit")
    other = f"{build}/src/cairn"
    report = Report(f"against: {call(other, '--version')}, in turns")
    bench("btrfs", other, report)
    bench("reflink", other, report)
    many(other, report)
    report.finish()


main()
