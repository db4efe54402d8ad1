# SPDX-License-Identifier: Apache-2.0
"""`cairn backup` beside restic and kopia on the same image, over ten incrementals."""
import json
import os
import pathlib
import random
import shutil
import statistics
import subprocess
import sys

from benchlib import BLOCK, CAIRN, GIB, Pool, Report, Time, call, runs_of, seconds

# 8 GiB, the first quarter of it random bytes, the rest a hole; each round rewrites 1 % of that
# quarter in blocks of 4 KiB, uniformly at random. CAIRN_BENCH_GIB makes it smaller, to try things.
VOLUME = int(os.environ.get("CAIRN_BENCH_GIB", "8")) * GIB
ALLOCATED = VOLUME // 4
BLOCKS = ALLOCATED // BLOCK // 100
ROUNDS = 10
CHUNK = 16 << 10  # what a volume of this size is cut to first: docs/decisions/050
MIB = 1 << 20
ROOT = pathlib.Path(__file__).resolve().parents[2]
# CAIRN_BENCH_PEERS=restic leaves the others out.
PEERS = os.environ.get("CAIRN_BENCH_PEERS", "restic kopia kopia-fixed").split()
# The others store gigabytes each time: three incrementals of theirs, and a median.
PEER_ROUNDS = 3
RESTORES = 3
# Everything that is measured, so that the rest of the machine does not get in between.
AHEAD = ["chrt", "--fifo", "1"] if os.geteuid() == 0 else []


def peer(name):
    line = subprocess.run([ROOT / "scripts/peers", name], check=True, stdout=subprocess.PIPE,
                          text=True).stdout
    return line.split()[1]


def size_of(directory):
    return sum(p.stat().st_size for p in pathlib.Path(directory).rglob("*") if p.is_file())


def fill(path):
    fd = os.open(path, os.O_RDWR)
    for offset in range(0, ALLOCATED, 16 * MIB):
        os.pwrite(fd, os.urandom(16 * MIB), offset)
    os.fsync(fd)
    os.close(fd)


def chosen(seed):
    return random.Random(seed).sample(range(ALLOCATED // BLOCK), BLOCKS)


def rewrite(path, seed):
    fd = os.open(path, os.O_RDWR)
    for block in chosen(seed):
        os.pwrite(fd, os.urandom(BLOCK), block * BLOCK)
    os.fsync(fd)
    os.close(fd)


def measured(command):
    """What others left to be written is not ours to wait for."""
    os.sync()
    return runs_of([*AHEAD, *command])[0]


class Reads:
    """Bytes read from the disk that the pool is on, by whomever: the kernel counts them."""

    def __init__(self, pool):
        with open("/proc/self/mountinfo", encoding="utf-8") as mounts:
            device = next(line.split(" - ")[1].split()[1] for line in mounts
                          if line.split()[4] == pool.mount_point())
        self.file = f"/sys/block/{os.path.basename(device)}/stat"
        self.before = self.now()

    def now(self):
        with open(self.file, encoding="utf-8") as file:
            return int(file.read().split()[2]) * 512

    def bytes(self):
        return self.now() - self.before


class Tool:
    """One backup program with a repository of its own."""

    def __init__(self, name, pool):
        self.name = name
        self.repository = f"{pool.top}/{name}"
        self.source = f"{pool.mount_point()}/source"
        self.environment = {}
        self.full = None
        self.incrementals = []  # (wall, CPU, peak KiB) of each
        self.growth = []
        self.restores = []

    def back_up(self, image):
        """Times a backup of the image and measures by how much the repository grows."""
        self.prepare(image)
        before = size_of(self.repository)
        os.environ.update(self.environment)
        run = measured(self.command(image))
        self.growth.append(size_of(self.repository) - before)
        if self.full is None:
            self.full = run
        else:
            self.incrementals.append(run)
        return run

    def prepare(self, image):
        """The same path each time, as those who look at paths want it."""
        os.makedirs(self.source, exist_ok=True)
        call("cp", "--reflink=always", image, f"{self.source}/disk.img")

    def first(self):
        """The first incrementals, as many as everybody makes."""
        return Time(self.incrementals[:PEER_ROUNDS])

    def peak(self):
        return max(run[2] for run in [self.full, *self.incrementals, *self.restores]) / 1024


class Cairn(Tool):
    def __init__(self, pool, fixed=None):
        super().__init__(f"cairn-{fixed}" if fixed else "cairn", pool)
        self.fixed = ["--fixed-chunks", fixed] if fixed else []
        call(CAIRN, "backup", "init", "-r", self.repository)

    def prepare(self, image):
        pass

    def command(self, image):
        return [CAIRN, "backup", "create", "-q", "-r", self.repository, *self.fixed, image]

    def restore(self, target):
        return [CAIRN, "backup", "restore", "latest", "-q", "-r", self.repository, "--to",
                f"{target}.img"]


class Restic(Tool):
    def __init__(self, pool):
        super().__init__("restic", pool)
        self.program = peer("restic")
        os.environ["RESTIC_CACHE_DIR"] = f"{pool.top}/restic-cache"
        call(self.program, "-q", "-r", self.repository, "init")

    def command(self, image):
        return [self.program, "-q", "-r", self.repository, "backup", self.source]

    def restore(self, target):
        return [self.program, "-q", "-r", self.repository, "restore", "latest", "--sparse",
                "--target", target]


class Kopia(Tool):
    def __init__(self, name, pool, *how):
        super().__init__(name, pool)
        self.program = peer("kopia")
        self.config = [f"--config-file={pool.top}/{name}.config", "--no-progress"]
        self.environment = {"KOPIA_PASSWORD": "bench", "KOPIA_CHECK_FOR_UPDATES": "false",
                            "KOPIA_CACHE_DIRECTORY": f"{pool.top}/{name}-cache",
                            "KOPIA_LOG_DIR": f"{pool.top}/{name}-log"}
        os.environ.update(self.environment)
        subprocess.run([self.program, "repository", "create", "filesystem",
                        f"--path={self.repository}", *how, *self.config], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def command(self, image):
        return [self.program, "snapshot", "create", "--log-level=error", self.source,
                *self.config]


def peers_of(pool):
    made = {"restic": lambda: Restic(pool), "kopia": lambda: Kopia("kopia", pool),
            "kopia-fixed": lambda: Kopia("kopia-fixed", pool,
                                         "--object-splitter=FIXED-128K")}
    return [made[name]() for name in PEERS]


def show(report, tool, label, run):
    wall, cpu, rss = run
    report.figure(f"{tool.name}: {label}",
                  f"{seconds(wall)} wall, {seconds(cpu)} CPU, {rss // 1024} MiB RSS, "
                  f"stored {tool.growth[-1] / MIB:.1f} MiB")


def ten_rounds(report, pool, path, ours, others):
    """Returns the last image, and what the disk read for the first incremental."""
    reads = 0
    for n in range(ROUNDS + 1):
        if n:
            rewrite(path, n)
        image = pool.snapshot(f"data@s{n}")
        label = f"incremental {n}" if n else "full"
        if n == 1:
            pool.remount()  # cold: every byte comes from the disk
        before = Reads(pool)
        show(report, ours, label, ours.back_up(f"data@s{n}"))
        reads = before.bytes() if n == 1 else reads
        for other in others if n <= PEER_ROUNDS else []:
            show(report, other, label, other.back_up(image))
    return image, reads


def same(a, b):
    return subprocess.run([*AHEAD, "cmp", a, b], check=False).returncode == 0


def remove(target):
    shutil.rmtree(target, ignore_errors=True)
    pathlib.Path(f"{target}.img").unlink(missing_ok=True)


def restores(report, pool, ours, restic, want):
    target = f"{pool.top}/restored"
    for n in range(RESTORES):
        for tool in (ours, restic):
            tool.restores.append(measured(tool.restore(target)))
            if tool is ours and n == 0 and not same(f"{target}.img", want):
                raise SystemExit("what was restored is not what was backed up")
            remove(target)
    for tool in (ours, restic):
        report.figure(f"{tool.name}: restore", Time(tool.restores))
    both(report, "restore: restic / ours", Time(restic.restores), Time(ours.restores), 1)


def both(report, name, slow, fast, limit):
    report.target(f"{name}, CPU", slow.cpu / fast.cpu, ">=", limit, "x")
    report.target(f"{name}, wall", slow.wall / fast.wall, ">=", limit, "x")


def compare(report, ours, others):
    for other in others:
        both(report, f"incremental: {other.name} / ours", other.first(), ours.first(), 20)
    for other in others:
        if other.name != "restic":
            continue
        both(report, "full: restic / ours", Time([other.full]), Time([ours.full]), 1.5)
        grown = statistics.median(other.growth[1:])
        for label, at, limit in (("first", 1, 10), ("tenth", ROUNDS, 20)):
            report.target(f"{label} incremental: growth of restic / ours",
                          grown / ours.growth[at], ">=", limit, "x")


def main():
    report = Report(f"backup: {VOLUME // GIB} GiB, a quarter of it allocated, 1 % of that rewritten "
                    "each time")
    os.environ["RESTIC_PASSWORD"] = "bench"
    with Pool("btrfs", "60G") as pool:
        path = pool.volume("data", VOLUME)
        fill(path)
        ours, others = Cairn(pool), peers_of(pool)
        image, reads = ten_rounds(report, pool, path, ours, others)
        covered = len({block * BLOCK // CHUNK for block in chosen(1)}) * CHUNK
        report.target("first incremental: read from the disk / its chunks", reads / covered, "<=",
                      1.2, "x")
        made = json.loads(call(CAIRN, "backup", "list", "-r", ours.repository, "-o", "json"))
        report.figure("first incremental: read as it says itself / its chunks",
                      f"{made['backups'][1]['bytes_read'] / covered:.3f}x")
        compare(report, ours, others)
        for other in others:
            if other.name == "restic":
                restores(report, pool, ours, other, image)
        report.target("peak of memory", ours.peak(), "<=", 128, " MiB")
    report.finish()


if __name__ == "__main__":
    sys.exit(main())
