# SPDX-License-Identifier: Apache-2.0
"""What the benchmarks share: timing, scratch pools, and the report.

Times are medians of several runs, wall and CPU seconds side by side: on a
shared machine the CPU seconds are the better figure. Targets are ratios of two
things measured in the same run, or limits of size; a missed one makes the exit
status 1.
"""
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

BUILD = pathlib.Path(os.environ["CAIRN_BENCH_BUILD"])
CAIRN = str(BUILD / "src/cairn")
GIB = 1 << 30
BLOCK = 4096

# The volume of the "delta" and "snapshot" figures: 8 GiB, a quarter of it
# allocated in chunks of 1 MiB, then 1 % of its blocks overwritten at random.
VOLUME = 8 * GIB
CHUNK = 1 << 20
CHUNKS = VOLUME // 4 // CHUNK
OVERWRITES = VOLUME // BLOCK // 100


def tool(name):
    return str(BUILD / "tests/bench" / f"bench-{name}")


class Time:
    """Median wall and CPU seconds, and the largest resident size, of some runs."""

    def __init__(self, runs):
        self.wall = statistics.median(r[0] for r in runs)
        self.cpu = statistics.median(r[1] for r in runs)
        self.rss = max(r[2] for r in runs)
        self.runs = len(runs)

    def __add__(self, other):
        both = Time([(self.wall + other.wall, self.cpu + other.cpu, max(self.rss, other.rss))])
        both.runs = min(self.runs, other.runs)
        return both

    def __str__(self):
        return f"{seconds(self.wall)} wall, {seconds(self.cpu)} CPU, {self.runs} runs"


def seconds(value):
    return f"{value * 1000:.2f} ms" if value < 1 else f"{value:.2f} s"


def runs_of(command, times=1, status=0):
    """(wall, CPU, peak KiB) of each run."""
    text = subprocess.run([tool("spawn"), str(times), *command], check=True,
                          stdout=subprocess.PIPE, text=True).stdout
    runs = []
    for line in text.splitlines():
        wall, user, system, rss, code = map(int, line.split())
        if code != status:
            raise SystemExit(f"exit status {code}: {' '.join(command)}")
        runs.append((wall / 1e6, (user + system) / 1e6, rss))
    return runs


def timed(command, times=1, status=0):
    return Time(runs_of(command, times, status))


def call(*command):
    """Runs it and returns what it prints."""
    return subprocess.run([str(c) for c in command], check=True, stdout=subprocess.PIPE,
                          text=True).stdout.strip()


class Pool:
    """A scratch pool; removed with everything in it when the block ends."""

    def __init__(self, backend, size="40G"):
        self.backend, self.size = backend, size

    def __enter__(self):
        self.top = tempfile.mkdtemp(prefix="cairn-bench.")
        self.dir = f"{self.top}/pool"
        os.environ["CAIRN_POOL"] = self.dir
        size = [] if self.backend == "copy" else ["--size", self.size]
        call(CAIRN, "pool", "create", self.dir, "--backend", self.backend, *size)
        return self

    def __exit__(self, *exc):
        subprocess.run([CAIRN, "pool", "destroy", "--yes"], stdout=subprocess.DEVNULL)
        with open("/proc/self/mountinfo", encoding="utf-8") as mounts:
            if any(self.top + "/" in line for line in mounts):
                print(f"still mounted below {self.top}: not removed", file=sys.stderr)
                return
        shutil.rmtree(self.top)

    def mount_point(self):
        with open("/proc/self/mountinfo", encoding="utf-8") as mounts:
            for line in mounts:
                where = line.split()[4]
                if where.startswith(self.dir):
                    return where
        raise SystemExit(f"nothing is mounted in {self.dir}")

    def remount(self):
        """Makes all that the pool holds cold: data by a new mount, records by eviction."""
        call("umount", self.mount_point())
        call(CAIRN, "pool", "info")
        for where, _, names in os.walk(self.dir):
            for name in names:
                if os.path.ismount(where) or not os.path.isfile(f"{where}/{name}"):
                    continue
                fd = os.open(f"{where}/{name}", os.O_RDONLY)
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
                os.close(fd)

    def volume(self, name, size):
        call(CAIRN, "volume", "create", name, "--size", str(size))
        return call(CAIRN, "volume", "path", name)

    def snapshot(self, name):
        call(CAIRN, "snapshot", "create", name)
        return call(CAIRN, "snapshot", "path", name)


def fill(path, size, chunk, count, *how):
    call(tool("fill"), path, size, chunk, count, *how)


class Report:
    """Prints figures as they come and remembers targets that were missed."""

    def __init__(self, title):
        self.missed = 0
        print(f"\n== {title}")

    def figure(self, name, value):
        print(f"   {name:<58} {value}", flush=True)

    def target(self, name, value, word, limit, unit=""):
        good = value >= limit if word == ">=" else value <= limit
        self.missed += not good
        verdict = "" if good else "   MISSED"
        print(f"   {name:<58} {value:.4g}{unit} (target {word} {limit}{unit}){verdict}", flush=True)

    def ratio(self, name, slow, fast, word, limit, by="cpu"):
        """How many times longer `slow` takes; the target holds for one of the two measures."""
        pick = {"cpu": lambda t: t.cpu, "wall": lambda t: t.wall}
        other = "wall" if by == "cpu" else "cpu"
        self.figure(f"{name}, {other} time", f"{pick[other](slow) / pick[other](fast):.4g}x")
        self.target(f"{name}, {by} time", pick[by](slow) / pick[by](fast), word, limit, "x")

    def finish(self):
        if self.missed:
            print(f"   {self.missed} targets missed")
        sys.exit(1 if self.missed else 0)
