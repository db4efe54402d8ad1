# SPDX-License-Identifier: Apache-2.0
"""How long `cairn --version` and the start of a role's program take; with CAIRN_BENCH_OTHER=DIR, the build
directory of another commit, in turns with that build."""
import os
import pathlib
import subprocess

from benchlib import CAIRN, Report, Time, runs_of, seconds, timed

OTHER = os.environ.get("CAIRN_BENCH_OTHER")
TIMES = 101
COMMANDS = (("--version",), ("driver", "--help"), ("conformance", "--list"))


def against():
    report = Report(f"start: this build and {OTHER}, in turns, CPU time")
    others = [pathlib.Path(OTHER) / place for place in ("src/cairn", "src/cmd/cairn")]
    programs = {"this": CAIRN, "other": str(next(path for path in others if path.is_file()))}
    for words in COMMANDS:
        runs = {"this": [], "other": []}
        for i in range(TIMES):
            for name in sorted(programs, reverse=i % 2):
                runs[name] += runs_of([programs[name], *words])
        for name, times in runs.items():
            report.figure(f"cairn {' '.join(words[:2])}: {name}, median and fastest",
                          f"{seconds(Time(times).cpu)}, {seconds(min(run[1] for run in times))}")
    report.finish()


def main():
    if OTHER:
        against()
        return
    report = Report("start: cairn --version, cairn conformance --list")
    time = timed([CAIRN, "--version"], TIMES)
    nothing = timed(["/bin/true"], TIMES)
    report.figure("/bin/true", nothing)
    report.figure("cairn --version", time)
    role = timed([CAIRN, "conformance", "--list"], TIMES)
    report.figure("cairn conformance --list", role)
    libraries = subprocess.run(["ldd", CAIRN], check=True, stdout=subprocess.PIPE, text=True).stdout
    report.figure("libraries loaded", len(libraries.splitlines()))
    report.target("CPU time", time.cpu * 1000, "<=", 5, " ms")
    report.finish()


main()
