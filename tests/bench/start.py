# SPDX-License-Identifier: Apache-2.0
"""How long `cairn --version` and the start of a role's program take."""
import subprocess

from benchlib import CAIRN, Report, timed


def main():
    report = Report("start: cairn --version, cairn conformance --list")
    time = timed([CAIRN, "--version"], 101)
    nothing = timed(["/bin/true"], 101)
    report.figure("/bin/true", nothing)
    report.figure("cairn --version", time)
    role = timed([CAIRN, "conformance", "--list"], 101)
    report.figure("cairn conformance --list", role)
    libraries = subprocess.run(["ldd", CAIRN], check=True, stdout=subprocess.PIPE, text=True).stdout
    report.figure("libraries loaded", len(libraries.splitlines()))
    report.target("CPU time", time.cpu * 1000, "<=", 5, " ms")
    report.finish()


main()
