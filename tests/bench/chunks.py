# SPDX-License-Identifier: Apache-2.0
"""Chunks that follow the volume beside chunks of one size: the tables of decision 050."""
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys

from benchlib import BLOCK, CAIRN, Pool, Report, call, timed, tool

# Three workloads on volumes of four times what is allocated at their front, ten rounds of 1 %.
# Blocks differ but compress well: what is measured is the price of chunks, and repositories
# of ten full copies need no disk of that size. What would be stored of data that does not
# compress is what is new, and what the format adds to a chunk (see chunks.c).
MIB = 1 << 20
ALLOCATED = int(os.environ.get("CAIRN_BENCH_CHUNKS_MIB", "2048")) * MIB
ROUNDS = 10
BLOCKS = ALLOCATED // BLOCK // 100
PER_CHUNK = 32 + 41
ROOT = pathlib.Path(__file__).resolve().parents[2]
KINDS = {"ours": None, "64 KiB": "64K", "1 MiB": "1M"}


def block():
    return os.urandom(32) * (BLOCK // 32)


class Workload:
    """Where each round writes, as tests/bench/chunks.c has it."""

    def __init__(self, name):
        self.name = name
        self.random = random.Random(name)
        self.end = ALLOCATED // BLOCK

    def place(self):
        blocks = ALLOCATED // BLOCK
        if self.name == "appending":
            self.end += 1
            return self.end - 1
        if self.name == "uniform" or self.random.random() >= 0.95:
            return self.random.randrange(blocks)
        hot = self.random.randrange(blocks // 20)
        return hot // 16 * 16 * 20 + hot % 16

    def write(self, path):
        fd = os.open(path, os.O_RDWR)
        for _ in range(BLOCKS):
            os.pwrite(fd, block(), self.place() * BLOCK)
        os.fsync(fd)
        os.close(fd)


def fill(path):
    fd = os.open(path, os.O_RDWR)
    for offset in range(0, ALLOCATED, 4 * MIB):
        os.pwrite(fd, b"".join(block() for _ in range(4 * MIB // BLOCK)), offset)
    os.fsync(fd)
    os.close(fd)


class Restic:
    def __init__(self, scratch):
        line = call(ROOT / "scripts/peers", "restic")
        self.program = line.split()[1]
        self.scratch = scratch

    def command(self, repository, *args):
        return [self.program, "-q", "--no-cache", "-r", repository, *args]

    def json(self, repository, *args):
        return json.loads(call(*self.command(repository, *args)))

    def tree_size(self, repository):
        """Stored bytes of the trees of the newest snapshot."""
        lengths = {}
        for name in os.listdir(f"{repository}/index"):
            for pack in self.json(repository, "cat", "index", name)["packs"]:
                lengths.update((b["id"], b["length"]) for b in pack["blobs"]
                               if b["type"] == "tree")
        root = self.json(repository, "snapshots", "--json", "latest")[0]["tree"]
        inner = self.json(repository, "cat", "blob", root)["nodes"][0]["subtree"]
        return lengths[root] + lengths[inner]


class Repository:
    def __init__(self, pool, workload, kind):
        self.path = f"{pool.top}/{workload}-{KINDS[kind]}"
        self.kind = kind
        self.cut = ["--fixed-chunks", KINDS[kind]] if KINDS[kind] else []
        self.made = []
        call(CAIRN, "backup", "init", "-r", self.path)

    def back_up(self, snapshot):
        text = call(CAIRN, "backup", "create", snapshot, "-r", self.path, *self.cut, "-o", "json")
        self.made.append(json.loads(text.splitlines()[-1]))

    def stored(self, n):
        """What backup n adds where nothing compresses; trees at 35 bytes a chunk."""
        made = self.made[n]
        return made["bytes_new"] + made["chunks_new"] * (PER_CHUNK + 40) + made["chunks"] * 35

    def index_size(self):
        return sum(p.stat().st_size for p in pathlib.Path(self.path, "index").iterdir())


def speeds(pool, restic, repository, want):
    """MiB a second of CPU of a restore, by us and by restic; both must be right."""
    ours, theirs = f"{pool.top}/restored.img", f"{pool.top}/restored"
    times = {ours: timed([CAIRN, "backup", "restore", "latest", "-q", "-r", repository.path,
                          "--to", ours]),
             f"{theirs}/data/volume.img": timed(restic.command(
                 repository.path, "restore", "latest", "--sparse", "--target", theirs))}
    for path in times:
        if subprocess.run(["cmp", path, want], check=False).returncode != 0:
            raise SystemExit(f"{path} is not what was backed up")
    os.unlink(ours)
    shutil.rmtree(theirs)
    return [ALLOCATED / MIB / run.cpu for run in times.values()]


def row(pool, restic, repository, image):
    made, mib = repository.made, lambda n: f"{n / MIB:.1f}"
    changed = sum(m["bytes_changed"] for m in made[1:])
    grown = sum(repository.stored(n) for n in range(1, len(made)))
    memory = timed(restic.command(repository.path, "ls", "latest"))
    ours, theirs = speeds(pool, restic, repository, image)
    return [repository.kind, mib(repository.stored(1)), mib(repository.stored(len(made) - 1)),
            f"{grown / changed:.1f}", str(made[-1]["chunks"]), mib(repository.index_size()),
            mib(restic.tree_size(repository.path)), f"{memory.rss // 1024}", f"{theirs:.0f}",
            f"{ours:.0f}"]


def run(pool, restic, name):
    path = pool.volume("data", 4 * ALLOCATED)
    workload = Workload(name)
    fill(path)
    repositories = [Repository(pool, name, kind) for kind in KINDS]
    for n in range(ROUNDS + 1):
        if n:
            workload.write(path)
        image = pool.snapshot(f"data@s{n}")
        for repository in repositories:
            repository.back_up(f"data@s{n}")
    for repository in repositories:
        print("|", " | ".join([name, *row(pool, restic, repository, image)]), "|", flush=True)
        shutil.rmtree(repository.path)
    for n in range(ROUNDS + 1):
        call(CAIRN, "snapshot", "delete", f"data@s{n}")
    call(CAIRN, "volume", "delete", "data")


def main():
    Report(f"chunks: {ALLOCATED // MIB} MiB of data, 1 % of its blocks written in each of "
           f"{ROUNDS} rounds")
    print("Planned, data that does not compress:", flush=True)
    print(call(tool("chunks"), ROUNDS, ALLOCATED), flush=True)
    print("Real repositories; MiB, and MiB a second of CPU for restores of the last backup:")
    print("| workload | chunks | first | tenth | stored for a byte changed | chunks then | index "
          "| tree | restic ls: RSS | restic restores | cairn restores |")
    print("|---|---|---|---|---|---|---|---|---|---|---|", flush=True)
    os.environ["RESTIC_PASSWORD"] = "bench"
    with Pool("btrfs", "30G") as pool:
        restic = Restic(pool.top)
        for name in ("uniform", "hot", "appending"):
            run(pool, restic, name)


if __name__ == "__main__":
    sys.exit(main())
