# SPDX-License-Identifier: Apache-2.0
"""`cairn backup` beside restic and kopia on the same image, over ten incrementals."""
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys

from benchlib import BLOCK, CAIRN, GIB, Pool, Report, Time, call, runs_of, seconds

# 8 GiB, the first quarter of it random bytes, the rest a hole; each round rewrites 1 % of that
# quarter in blocks of 4 KiB, uniformly at random.
VOLUME = 8 * GIB
ALLOCATED = VOLUME // 4
BLOCKS = ALLOCATED // BLOCK // 100
ROUNDS = 10
MIB = 1 << 20
ROOT = pathlib.Path(__file__).resolve().parents[2]
# CAIRN_BENCH_PEERS=restic leaves the others out.
PEERS = os.environ.get("CAIRN_BENCH_PEERS", "restic kopia kopia-fixed").split()


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


def rewrite(path, seed):
    chosen = random.Random(seed).sample(range(ALLOCATED // BLOCK), BLOCKS)
    fd = os.open(path, os.O_RDWR)
    for block in chosen:
        os.pwrite(fd, os.urandom(BLOCK), block * BLOCK)
    os.fsync(fd)
    os.close(fd)


class Tool:
    """One backup program with a repository of its own."""

    def __init__(self, name, pool):
        self.name = name
        self.repository = f"{pool.top}/{name}"
        self.source = f"{pool.mount_point()}/source"
        self.runs = {}
        self.growth = {}

    def back_up(self, label, image):
        """Times a backup of the image and measures by how much the repository grows."""
        self.prepare(image)
        before = size_of(self.repository)
        self.runs[label] = Time(runs_of(self.command(image)))
        self.growth[label] = size_of(self.repository) - before
        return self.runs[label]

    def prepare(self, image):
        """The same path each time, as those who look at paths want it."""
        os.makedirs(self.source, exist_ok=True)
        call("cp", "--reflink=always", image, f"{self.source}/disk.img")


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
        return [CAIRN, "backup", "restore", "latest", "-q", "-r", self.repository, "--to", target]


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
        os.environ.update(KOPIA_PASSWORD="bench", KOPIA_CHECK_FOR_UPDATES="false",
                          KOPIA_CACHE_DIRECTORY=f"{pool.top}/{name}-cache",
                          KOPIA_LOG_DIR=f"{pool.top}/{name}-log")
        call(self.program, "repository", "create", "filesystem", f"--path={self.repository}",
             *how, *self.config)

    def command(self, image):
        return [self.program, "snapshot", "create", self.source, *self.config]


def peers_of(pool):
    made = {"restic": lambda: Restic(pool), "kopia": lambda: Kopia("kopia", pool),
            "kopia-fixed": lambda: Kopia("kopia-fixed", pool,
                                         "--object-splitter=FIXED-128K")}
    return [made[name]() for name in PEERS]


def summary(pool, repository):
    return json.loads(call(CAIRN, "backup", "list", "-r", repository, "-o", "json"))["backups"]


def show(report, tool, label):
    run = tool.runs[label]
    report.figure(f"{tool.name}: {label}",
                  f"{seconds(run.wall)} wall, {seconds(run.cpu)} CPU, {run.rss // 1024} MiB RSS, "
                  f"stored {tool.growth[label] / MIB:.1f} MiB")


def restores(report, pool, ours, others, want):
    targets = {"cairn": f"{pool.top}/restored.img", "restic": f"{pool.top}/restored"}
    times = {}
    for tool in [ours, *others]:
        if tool.name not in targets:
            continue
        times[tool.name] = Time(runs_of(tool.restore(targets[tool.name])))
        report.figure(f"{tool.name}: restore", times[tool.name])
    if subprocess.run(["cmp", targets["cairn"], want]).returncode != 0:
        raise SystemExit("what was restored is not what was backed up")
    if "restic" in times:
        report.ratio("restore: restic / cairn", times["restic"], times["cairn"], ">=", 1)
    shutil.rmtree(targets["restic"], ignore_errors=True)
    os.unlink(targets["cairn"])


def compare(report, ours, others):
    for other in others:
        name = other.name
        report.target(f"incremental: CPU of {name} / ours",
                      other.runs["first"].cpu / ours.runs["first"].cpu, ">=", 20, "x")
        report.target(f"incremental: wall of {name} / ours",
                      other.runs["first"].wall / ours.runs["first"].wall, ">=", 20, "x")
        if name == "restic":
            report.target("full: CPU of restic / ours",
                          other.runs["full"].cpu / ours.runs["full"].cpu, ">=", 1.5, "x")
            report.figure("full: wall of restic / ours",
                          f"{other.runs['full'].wall / ours.runs['full'].wall:.2f}x")
            for label, limit in (("first", 10), ("last", 20)):
                report.target(f"{label} incremental: growth of restic / ours",
                              other.growth["first"] / ours.growth[label], ">=", limit, "x")


def ten_rounds(report, pool, path, ours, others):
    for n in range(ROUNDS + 1):
        if n:
            rewrite(path, n)
        image = pool.snapshot(f"data@s{n}")
        label = {0: "full", 1: "first", ROUNDS: "last"}.get(n, f"round {n}")
        ours.back_up(label, f"data@s{n}")
        show(report, ours, label)
        if n < 2:
            for other in others:
                other.back_up(label, image)
                show(report, other, label)
    return image


def main():
    report = Report("backup: 8 GiB, a quarter of it allocated, 1 % of that rewritten each time")
    os.environ["RESTIC_PASSWORD"] = "bench"
    with Pool("btrfs", "30G") as pool:
        path = pool.volume("data", VOLUME)
        fill(path)
        ours, others = Cairn(pool), peers_of(pool)
        image = ten_rounds(report, pool, path, ours, others)
        made = summary(pool, ours.repository)
        report.target("what was read / what the new chunks cover",
                      made[1]["bytes_read"] / (made[1]["bytes_stored"]), "<=", 1.2, "x")
        report.target("peak of memory", max(r.rss for r in ours.runs.values()) / 1024, "<=", 128,
                      " MiB")
        compare(report, ours, others)
        restores(report, pool, ours, others, image)
    report.finish()


if __name__ == "__main__":
    sys.exit(main())
