# SPDX-License-Identifier: Apache-2.0
"""`cairn backup` against the sum of its parts: reading, hashing, zstd, AES, writing."""
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

from benchlib import CAIRN, Pool, Report, Time, call, runs_of, seconds, tool

# Data of two kinds, each CAIRN_BENCH_MIB long: random bytes, and the files below /usr/lib, which
# compress to about a third. A volume of this size is cut to chunks of 16 KiB.
MIB = 1 << 20
SIZE = int(os.environ.get("CAIRN_BENCH_MIB", "1024")) * MIB
CHUNK = 16 << 10
LEVEL = 3
RUNS = int(os.environ.get("CAIRN_BENCH_RUNS", "3"))
RESTIC = os.environ.get("CAIRN_BENCH_RESTIC", "yes") == "yes"
ROOT = pathlib.Path(__file__).resolve().parents[2]
AHEAD = ["chrt", "--fifo", "1"] if os.geteuid() == 0 else []
BACKUP = ["read", "hash", "compress", "encrypt", "mac", "pack-hash", "write"]
RESTORE = ["restore-read", "restore-mac", "restore-decrypt", "restore-uncompress", "restore-hash",
           "restore-write"]


def fill(path, kind):
    if kind == "random":
        with open(path, "r+b") as file:
            for _ in range(SIZE // MIB):
                file.write(os.urandom(MIB))
        return
    subprocess.run(f"tar c -C /usr/lib . 2>/dev/null | head -c {SIZE} | "
                   f"dd of='{path}' bs=1M iflag=fullblock conv=notrunc status=none",
                   shell=True, check=True)


def parts(top, image):
    """CPU seconds of each part, the median of some runs."""
    runs = []
    for _ in range(RUNS):
        made = tempfile.mkdtemp(dir=top)
        os.sync()
        text = call(*AHEAD, tool("parts"), image, CHUNK, LEVEL, made)
        runs.append({name: int(value) / 1e6
                     for name, value in (line.split() for line in text.splitlines())})
        shutil.rmtree(made)
    return {name: statistics.median(run[name] for run in runs) for name in runs[0]}


class Bed:
    """A pool in a plain directory with a snapshot in it, and repositories beside it."""

    def __init__(self, top):
        self.top = top
        self.restic = None

    def snapshot(self, kind):
        call(CAIRN, "volume", "create", kind, "--size", SIZE)
        fill(call(CAIRN, "volume", "path", kind), kind)
        call(CAIRN, "snapshot", "create", f"{kind}@s")
        return call(CAIRN, "snapshot", "path", f"{kind}@s")

    def measured(self, command):
        os.sync()
        return runs_of([*AHEAD, *command])[0]

    def backups(self, kind):
        """Full backups, each into a repository of its own; the last one stays."""
        runs = []
        for _ in range(RUNS):
            shutil.rmtree(f"{self.top}/repository", ignore_errors=True)
            call(CAIRN, "backup", "init", "-r", f"{self.top}/repository")
            runs.append(self.measured([CAIRN, "backup", "create", "-q", "-r",
                                       f"{self.top}/repository", f"{kind}@s"]))
        return runs

    def warm(self):
        """Packs were written past the page cache: without this only the first reader, ours, would
        wait for the disk."""
        for path in pathlib.Path(f"{self.top}/repository").rglob("*"):
            if path.is_file():
                path.read_bytes()

    def restore(self, image):
        target = f"{self.top}/restored.img"
        run = self.measured([CAIRN, "backup", "restore", "latest", "-q", "-r",
                             f"{self.top}/repository", "--to", target])
        if subprocess.run(["cmp", target, image], check=False).returncode:
            raise SystemExit("what was restored is not what was backed up")
        os.unlink(target)
        return run

    def restic_restore(self):
        """The same repository; restic does not sync, so that is done for it and counted."""
        target = f"{self.top}/restic-restored"
        run = self.measured(["sh", "-c", '"$0" -q -r "$1" restore latest --sparse '
                             '--target "$2" && sync -f "$2"', self.restic,
                             f"{self.top}/repository", target])
        shutil.rmtree(target)
        return run

    def restores(self, image):
        """Ours and restic's in turn, so that both meet the same disk."""
        self.warm()
        ours, theirs = [], []
        if RESTIC:
            self.restic = call(ROOT / "scripts/peers", "restic").split()[1]
            os.environ["RESTIC_CACHE_DIR"] = f"{self.top}/restic-cache"
        for _ in range(RUNS):
            ours.append(self.restore(image))
            if RESTIC:
                theirs.append(self.restic_restore())
        return ours, theirs


def show_parts(report, kind, cost, which):
    text = ", ".join(f"{name.removeprefix('restore-')} {seconds(cost[name])}" for name in which)
    report.figure(f"{kind}: parts alone", text)
    return sum(cost[name] for name in which)


def measure(report, bed, kind):
    image = bed.snapshot(kind)
    cost = parts(bed.top, image)
    alone = show_parts(report, kind, cost, BACKUP)
    full = Time(bed.backups(kind))
    stored = sum(p.stat().st_size for p in pathlib.Path(f"{bed.top}/repository").rglob("*"))
    report.figure(f"{kind}: full backup", f"{full}; parts {seconds(alone)}; stored "
                  f"{stored / MIB:.1f} MiB, zstd alone {cost['stored'] * 1e6 / MIB:.1f}")
    report.target(f"{kind}: full backup / its parts, CPU", full.cpu / alone, "<=", 1.5, "x")
    alone = show_parts(report, f"{kind}, restore", cost, RESTORE)
    ours, theirs = bed.restores(image)
    back = Time(ours)
    report.figure(f"{kind}: restore", f"{back}; parts {seconds(alone)}")
    report.target(f"{kind}: restore / its parts, CPU", back.cpu / alone, "<=", 1.3, "x")
    if theirs:
        theirs = Time(theirs)
        report.figure(f"{kind}: restic's restore and a sync", theirs)
        report.target(f"{kind}: restore: restic / ours, wall", theirs.wall / back.wall, ">=", 2,
                      "x")
    call(CAIRN, "snapshot", "delete", f"{kind}@s")
    call(CAIRN, "volume", "delete", kind)


def main():
    report = Report(f"backup-limit: {SIZE // MIB} MiB, chunks of 16 KiB, zstd level {LEVEL}")
    os.environ["RESTIC_PASSWORD"] = "bench"
    with Pool("copy") as pool:
        for kind in os.environ.get("CAIRN_BENCH_DATA", "random files").split():
            measure(report, Bed(pool.top), kind)
    report.finish()


if __name__ == "__main__":
    sys.exit(main())
