# SPDX-License-Identifier: Apache-2.0
"""Memory of `cairn delta` on a change set of ten million extents."""
import glob
import os
import subprocess

from benchlib import BLOCK, CAIRN, Pool, Report, call, timed, tool

EXTENTS = 10_000_000
MIB = 1024


def main():
    report = Report(f"stream: a delta of {EXTENTS:,} extents")
    with Pool("auto", "2G") as pool:
        size = 2 * BLOCK * EXTENTS
        path = pool.volume("data", size)
        pool.snapshot("data@s1")
        with open(path, "r+b", buffering=0) as volume:
            volume.write(b"x" * BLOCK)
        pool.snapshot("data@s2")
        # Forty gigabytes of data would say nothing more: the set is put in place of the real one.
        sets = [name for name in glob.glob(f"{pool.dir}/**/sets/set-*", recursive=True)
                if os.path.getsize(name) > 0]
        latest = max(sets, key=os.path.getmtime)
        if int(call(tool("makeset"), latest, EXTENTS)) != size:
            raise SystemExit("the set describes another volume")
        report.figure("stored bytes an extent", f"{os.path.getsize(latest) / EXTENTS:.2f}")
        for output in ("table", "json", "ndjson"):
            time = timed([CAIRN, "delta", "data@s1", "data@s2", "--output", output], 3)
            report.figure(f"--output {output}", time)
            report.figure(f"--output {output}, CPU an extent", f"{time.cpu / EXTENTS * 1e9:.0f} ns")
            report.target(f"--output {output}, peak resident memory", time.rss / MIB, "<=", 64,
                          " MiB")
        shown = subprocess.run(f"'{CAIRN}' delta data@s1 data@s2 --output ndjson | wc -l",
                               shell=True, check=True, stdout=subprocess.PIPE, text=True).stdout
        report.target("extents printed", int(shown), ">=", EXTENTS)
    report.finish()


main()
