# SPDX-License-Identifier: Apache-2.0
"""Change sets: their size, walking and seeking them, and the union of 100."""
import subprocess
import tempfile

from benchlib import Report, tool

CASES = {
    "blocks": "1,000,000 random blocks of 4 KiB a set",
    "extents": "10,000 random extents of 1 MiB a set",
}
NAMES = {
    "bytes-per-set": "stored",
    "encode": "encoding, CPU",
    "walk": "walking, CPU",
    "seek": "one seek, CPU, the read included",
    "seek-of-which-read": "that read alone, CPU",
    "union": "union of 100 and its listing, CPU",
    "union-extents": "extents listed",
    "union-peak-memory": "union, peak memory",
}


def measure(case):
    with tempfile.TemporaryDirectory(prefix="cairn-bench.") as scratch:
        lines = subprocess.run([tool("block"), scratch, case], check=True, stdout=subprocess.PIPE,
                               text=True).stdout.splitlines()
    return {name: (float(value), unit) for name, value, unit in map(str.split, lines)}


def main():
    report = Report("union: change sets on 1 TiB at 4 KiB")
    for case, text in CASES.items():
        report.figure(text, "")
        figures = measure(case)
        for name, label in NAMES.items():
            value, unit = figures[name]
            number = f"{value:,.0f}" if value == int(value) else f"{value:,.3f}"
            report.figure(f"  {label}", f"{number} {unit}" if unit != "1" else number)
        if case == "blocks":
            report.target("union of 100, CPU", figures["union"][0] / 1000, "<=", 0.8, " s")
            report.target("union of 100, memory", figures["union-peak-memory"][0] / 1024, "<=", 64,
                          " MiB")
    report.finish()


main()
