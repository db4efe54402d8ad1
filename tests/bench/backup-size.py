# SPDX-License-Identifier: Apache-2.0
"""What an increment costs on volumes of 2 GiB to 1 TiB, stored, in CPU, memory and requests."""
import json
import os
import pathlib
import shutil
import subprocess
import tempfile

from benchlib import GIB, Report, tool

# Sizes are of allocated data that does not compress. All parents are synthetic: their lists and
# indexes are real, their packs sparse files (see backup_size.c), so that 1 TiB takes 3 GB of
# disk. The third increment of 2000 writes of 4 KiB is what is measured; the ones before it are
# made the same way, and the first one fills the cache of this machine.
SIZES = [int(s) for s in os.environ.get("CAIRN_BENCH_SIZES_GIB", "2 20 200 1024").split()]
WRITES = 2000
BLOCK = 4096
KIB, MIB = 1 << 10, 1 << 20
LIMITS = {2: 64, 20: 64, 200: 64, 1024: 256}  # KiB stored for a scattered write


class Repository:
    def __init__(self, scratch, gib):
        self.path, self.size, self.number = scratch / f"r{gib}", gib * GIB, 0
        self.env = {**os.environ, "CAIRN_BENCH_CACHE": str(scratch / "cache"),
                    "RESTIC_PASSWORD": "bench", "RESTIC_CACHE_DIR": str(scratch / "restic")}
        subprocess.run([tool("backup-size"), "make", self.path, str(self.size)], check=True,
                       env=self.env)

    def increment(self, workload):
        self.number += 1
        made = subprocess.run([tool("backup-size"), "increment", self.path, str(self.size),
                               str(self.number), workload], check=True, env=self.env,
                              stdout=subprocess.PIPE)
        return json.loads(made.stdout)

    def restic(self, *args):
        """Resident MiB; None where there is no restic, or it fails."""
        if not shutil.which("restic"):
            return None
        with subprocess.Popen(["restic", "-r", self.path, "--no-lock", *args], env=self.env,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = status
        return None if status else usage.ru_maxrss // 1024


def grid(size, chunk):
    """KiB for each write that a grid of one chunk size stores: what of it is touched, at most."""
    chunks = size // chunk
    touched = chunks * (1 - (1 - 1 / chunks) ** WRITES)
    return touched * chunk / WRITES / KIB


def measure(scratch, gib, report):
    repository = Repository(scratch, gib)
    try:
        third = [repository.increment("scattered") for _ in range(3)][-1]
        nothing = repository.increment("none")
        clustered = [repository.increment("clustered") for _ in range(3)][-1]
        listed = repository.restic("ls", "latest")
    finally:
        shutil.rmtree(repository.path)
        shutil.rmtree(scratch / "cache", ignore_errors=True)
        shutil.rmtree(scratch / "restic", ignore_errors=True)
    per_write = third["stored"] / WRITES / KIB
    name = f"{gib} GiB"
    report.figure(f"{name}, third increment, scattered", f"{third['chunks']} chunks in all,"
                  f" {third['cpu']:.2f} s CPU, {third['wall']:.2f} s wall,"
                  f" {third['requests']} requests")
    report.figure(f"{name}, grids of 1 and 4 MiB, computed",
                  f"{grid(gib * GIB, MIB):.0f} and {grid(gib * GIB, 4 * MIB):.0f} KiB a write")
    report.figure(f"{name}, restic ls, resident", f"{listed} MiB")
    report.target(f"{name}, KiB stored for a scattered write", per_write, "<=", LIMITS[gib])
    report.target(f"{name}, clustered writes: stored for a byte changed",
                  clustered["stored"] / clustered["changed"], "<=", 3)
    report.target(f"{name}, MiB resident", third["rss_kib"] / 1024, "<=", 256)
    report.target(f"{name}, nothing changed: CPU seconds", nothing["cpu"], "<=", 0.5)
    report.target(f"{name}, nothing changed: requests", nothing["requests"], "<=", 20)
    return third


def main():
    report = Report("increments of large volumes")
    scratch = pathlib.Path(tempfile.mkdtemp(prefix="cairn-size-"))
    try:
        made = {gib: measure(scratch, gib, report) for gib in SIZES}
    finally:
        shutil.rmtree(scratch)
    first, last = made[SIZES[0]], made[SIZES[-1]]
    for what in ("cpu", "wall"):
        report.target(f"{what} at {SIZES[-1]} GiB beside {SIZES[0]} GiB",
                      last[what] / first[what], "<=", 3, "x")
    report.finish()


if __name__ == "__main__":
    main()
