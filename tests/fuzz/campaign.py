# SPDX-License-Identifier: Apache-2.0
"""Runs fuzz targets until each has used a given processor time; see scripts/fuzz.

libFuzzer can only be told how long to run by the clock, which on a busy machine
says little. So each target is run in slices, and what a slice used is taken
from the kernel when it has ended.
"""
import argparse
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

SOURCE = pathlib.Path(__file__).resolve().parent
SLICE_SECONDS = 120
INPUT_SECONDS = 25   # an input that takes longer counts as a crash
RSS_MIB = 2048


class Target:
    def __init__(self, name, build):
        self.name = name
        self.program = build / "fuzz/tests/fuzz" / f"fuzz-{name}"
        self.corpus = build / "fuzz-corpus" / name
        self.crashes = build / "fuzz-crashes" / name
        self.seeds = SOURCE / "corpus" / name
        self.cpu = self.wall = 0.0
        self.executions = self.added = self.slices = 0
        self.found = []

    def slice(self, seconds):
        """One run of so many seconds; true when it ended as it should."""
        before = set(self.crashes.iterdir())
        command = [str(self.program), f"-max_total_time={seconds}", f"-timeout={INPUT_SECONDS}",
                   f"-rss_limit_mb={RSS_MIB}", "-print_final_stats=1",
                   f"-artifact_prefix={self.crashes}/", str(self.corpus), str(self.seeds)]
        with tempfile.TemporaryFile() as log:
            start = time.monotonic()
            child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            _, status, usage = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
            self.wall += time.monotonic() - start
            self.cpu += usage.ru_utime + usage.ru_stime
            log.seek(0)
            text = log.read().decode("utf-8", "replace")
        self.slices += 1
        self.executions += stat(text, "number_of_executed_units")
        self.added += stat(text, "new_units_added")
        new = sorted(set(self.crashes.iterdir()) - before)
        self.found += new
        if child.returncode == 0:
            return True
        print(f"{self.name}: ended with {child.returncode}: {', '.join(map(str, new))}\n"
              f"{text[-3000:]}", flush=True)
        if not new:
            self.found.append("no input was kept")
        return False

    def run(self, cpu_seconds):
        self.corpus.mkdir(parents=True, exist_ok=True)
        self.crashes.mkdir(parents=True, exist_ok=True)
        while self.cpu < cpu_seconds:
            left = int(cpu_seconds - self.cpu) + 1
            if not self.slice(min(left, SLICE_SECONDS)):
                break
        return self

    def row(self):
        rate = self.executions / self.cpu if self.cpu else 0
        return (f"{self.name:<16} {self.cpu:>8.0f} {self.wall:>8.0f} {self.executions:>12,} "
                f"{rate:>9,.0f} {self.added:>7} {len(list(self.corpus.iterdir())):>7} "
                f"{len(self.found):>7}")


def stat(text, name):
    found = re.search(rf"^stat::{name}: *(\d+)", text, re.MULTILINE)
    return int(found.group(1)) if found else 0


def main():
    parser = argparse.ArgumentParser(prog="scripts/fuzz")
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--cpu-seconds", type=float, default=60)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("targets", nargs="*")
    options = parser.parse_intermixed_args()
    have = sorted(p.name for p in (SOURCE / "corpus").iterdir())
    for name in options.targets:
        if name not in have:
            sys.exit(f"scripts/fuzz: no target is called '{name}' (see --list)")
    targets = [Target(name, options.build) for name in options.targets or have]
    print("target              CPU s   wall s   executions     a CPU s   added  corpus crashes",
          flush=True)
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for done in concurrent.futures.as_completed(
                [pool.submit(t.run, options.cpu_seconds) for t in targets]):
            print(done.result().row(), flush=True)
    crashes = sum(len(t.found) for t in targets)
    print(f"{sum(t.cpu for t in targets):.0f} s of processor time, "
          f"{sum(t.executions for t in targets):,} executions, {crashes} crashes")
    sys.exit(1 if crashes else 0)


main()
