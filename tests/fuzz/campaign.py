# SPDX-License-Identifier: Apache-2.0
"""Runs fuzz targets until each has used a given processor time; see scripts/fuzz.

libFuzzer can only be told how long to run by the clock, which on a busy machine
says little. So each target is run in slices, and what a slice used is taken
from the kernel when it has ended.
"""
import argparse
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

SOURCE = pathlib.Path(__file__).resolve().parent
SLICE_SECONDS = 60
INPUT_SECONDS = 25   # an input that takes longer counts as a crash
RSS_MIB = 2048
INTERRUPTED = 72     # what libFuzzer exits with after SIGINT


class Target:
    def __init__(self, name, build):
        self.name = name
        self.program = build / "fuzz/tests/fuzz" / f"fuzz-{name}"
        self.corpus = build / "fuzz-corpus" / name
        self.crashes = build / "fuzz-crashes" / name
        self.corpus.mkdir(parents=True, exist_ok=True)
        self.crashes.mkdir(parents=True, exist_ok=True)
        self.seeds = SOURCE / "corpus" / name
        self.cpu = self.wall = 0.0
        self.executions = self.added = 0
        self.found = []
        self.child = None  # while a slice runs

    def slice(self, seconds):
        """One run of so many seconds."""
        before = set(self.crashes.iterdir())
        command = [str(self.program), f"-max_total_time={seconds}", f"-timeout={INPUT_SECONDS}",
                   f"-rss_limit_mb={RSS_MIB}", "-print_final_stats=1",
                   f"-artifact_prefix={self.crashes}/", str(self.corpus), str(self.seeds)]
        with tempfile.TemporaryFile() as log:
            start = time.monotonic()
            child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            self.child = child
            _, status, usage = os.wait4(child.pid, 0)
            self.child = None
            child.returncode = os.waitstatus_to_exitcode(status)
            self.wall += time.monotonic() - start
            self.cpu += usage.ru_utime + usage.ru_stime
            log.seek(0)
            text = log.read().decode("utf-8", "replace")
        self.executions += stat(text, "number_of_executed_units")
        self.added += stat(text, "new_units_added")
        new = sorted(set(self.crashes.iterdir()) - before)
        self.found += new
        if child.returncode not in (0, INTERRUPTED) and not new:
            self.found.append("no input was kept")
        if self.found:
            print(f"{self.name}: ended with {child.returncode}: {', '.join(map(str, new))}\n"
                  f"{text[-3000:]}", flush=True)

    def row(self):
        rate = self.executions / self.cpu if self.cpu else 0
        return (f"{self.name:<16} {self.cpu:>8.0f} {self.wall:>8.0f} {self.executions:>12,} "
                f"{rate:>9,.0f} {self.added:>7} {len(list(self.corpus.iterdir())):>7} "
                f"{len(self.found):>7}")


def stat(text, name):
    found = re.search(rf"^stat::{name}: *(\d+)", text, re.MULTILINE)
    return int(found.group(1)) if found else 0


class Campaign:
    """Gives slices to the target that has used least, so that all get their share
    also when the campaign is ended early, by SIGTERM or SIGINT."""

    def __init__(self, targets, cpu_seconds):
        self.targets, self.cpu_seconds = targets, cpu_seconds
        self.lock = threading.Lock()
        self.busy = set()
        self.ended = False

    def end(self, *_):
        self.ended = True
        for target in self.targets:
            if target.child:
                target.child.send_signal(signal.SIGINT)

    def take(self):
        with self.lock:
            ready = [t for t in self.targets if t not in self.busy and not t.found and
                     t.cpu < self.cpu_seconds]
            if self.ended or not ready:
                return None
            target = min(ready, key=lambda t: t.cpu)
            self.busy.add(target)
            return target

    def work(self):
        while target := self.take():
            target.slice(min(int(self.cpu_seconds - target.cpu) + 1, SLICE_SECONDS))
            with self.lock:
                self.busy.remove(target)

    def run(self, jobs):
        threads = [threading.Thread(target=self.work) for _ in range(jobs)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


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
    campaign = Campaign(targets, options.cpu_seconds)
    signal.signal(signal.SIGTERM, campaign.end)
    signal.signal(signal.SIGINT, campaign.end)
    campaign.run(options.jobs)
    print("target              CPU s   wall s   executions   a CPU s   added  corpus crashes")
    for target in targets:
        print(target.row())
    crashes = sum(len(t.found) for t in targets)
    print(f"{sum(t.cpu for t in targets):.0f} s of processor time, "
          f"{sum(t.executions for t in targets):,} executions, {crashes} crashes")
    sys.exit(1 if crashes else 0)


main()
