# SPDX-License-Identifier: Apache-2.0
"""What a start of cairn-velero-plugin costs until its handshake: processor time, which other work on
the machine does not change, time, and memory."""
import os
import pathlib
import statistics
import subprocess
import tempfile
import time

from benchlib import Report

BUILD = pathlib.Path(os.environ["CAIRN_BENCH_BUILD"])
RUNS = int(os.environ.get("CAIRN_BENCH_RUNS", 50))
# A plugin of others to compare with, such as velero-plugin-for-aws of scripts/peers.
OTHER = os.environ.get("CAIRN_BENCH_OTHER_PLUGIN")


def start(program, scratch):
    """(seconds and seconds of the processor until the handshake, peak RSS and private memory in MiB)
    of one process."""
    begun = time.monotonic()
    with subprocess.Popen([program], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, env={
                              "VELERO_PLUGIN": "hello", "PLUGIN_PROTOCOL_VERSIONS": "2",
                              "PLUGIN_MIN_PORT": "10000", "PLUGIN_MAX_PORT": "25000",
                              "TMPDIR": scratch, "HOME": scratch}) as child:
        line = child.stdout.readline()
        took = time.monotonic() - begun
        assert line.startswith(b"1|2|"), line
        status = pathlib.Path(f"/proc/{child.pid}/status").read_text()
        maps = pathlib.Path(f"/proc/{child.pid}/smaps_rollup").read_text()
        child.kill()
        usage = os.wait4(child.pid, 0)[2]
        child.returncode = 0

    def field(text, name):
        return next(int(row.split()[1]) for row in text.splitlines() if row.startswith(name)) / 1024
    private = field(maps, "Private_Dirty:") + field(maps, "Private_Clean:")
    return took, usage.ru_utime + usage.ru_stime, field(status, "VmHWM:"), private


def measure(report, name, program):
    with tempfile.TemporaryDirectory() as scratch:
        start(program, scratch)  # fills the page cache
        runs = [start(program, scratch) for _ in range(RUNS)]
    took, used, peak, private = (statistics.median(column) for column in zip(*runs))
    report.figure(f"{name}: until the handshake", f"{took * 1000:.1f} ms, "
                  f"fastest {min(run[0] for run in runs) * 1000:.1f} ms")
    report.figure(f"{name}: processor time of a start", f"{used * 1000:.1f} ms")
    report.figure(f"{name}: peak RSS, private memory", f"{peak:.1f} MiB, {private:.1f} MiB")
    return used, peak


def main():
    report = Report(f"velero-plugin: {RUNS} starts, medians")
    used, peak = measure(report, "cairn", BUILD / "src/roles/cairn-velero-plugin")
    report.target("cairn: processor time of a start", used * 1000, "<=", 20, " ms")
    report.target("cairn: peak RSS", peak, "<=", 8, " MiB")
    if OTHER:
        measure(report, pathlib.Path(OTHER).name, OTHER)
    report.finish()


main()
