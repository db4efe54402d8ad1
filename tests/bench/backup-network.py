# SPDX-License-Identifier: Apache-2.0
"""`cairn backup` over a line of 100 Mbit/s with round trips of 20 and 100 ms."""
import os
import pathlib
import shutil
import sys

from benchlib import BUILD, CAIRN, Pool, Report, seconds

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/system"))
import slowline  # noqa: E402

# tests/repo/delayline.c makes the line and counts what passes. Random bytes, so that what is
# sent is what was read.
MIB = 1 << 20
SIZE = int(os.environ.get("CAIRN_BENCH_MIB", "128")) * MIB
DELAYLINE = str(BUILD / "tests/repo/delayline")
# The line is a program: on a busy machine it would be the program that is measured.
AHEAD = ["chrt", "--fifo", "1"] if os.geteuid() == 0 else []


def over_the_line(report, top, round_trip, way, name, *command):
    """Runs a command at the near end of the line and shows how much of the line it used."""
    log = f"{top}/log"
    if slowline.run(DELAYLINE, round_trip, f"{top}/place-{round_trip}", log,
                    [CAIRN, "backup", *command], AHEAD):
        raise SystemExit(f"failed: {' '.join(command)}")
    lines = slowline.Log(log)
    passed, busy = lines.busy(way)
    report.figure(f"{round_trip} ms: {name}",
                  f"{seconds(lines.now() / 1000)} in all, {passed / MIB:.1f} MiB on the line in "
                  f"{seconds(busy)}")
    report.target(f"{round_trip} ms: {name}, of the line", passed / busy / slowline.LINE * 100,
                  ">=", 90, " %")


def measure(report, top, round_trip):
    rest = ["-q", "-r", slowline.URL, "--retry", "1m"]
    target = f"{top}/restored.img"
    place = f"{top}/place-{round_trip}"
    slowline.run(DELAYLINE, round_trip, place, f"{top}/log", [CAIRN, "backup", "init", *rest],
                 AHEAD)
    over_the_line(report, top, round_trip, slowline.TO_SERVER, "full backup", "create", *rest,
                  "data@s")
    over_the_line(report, top, round_trip, slowline.FROM_SERVER, "restore", "restore", *rest,
                  "data", "--to", target)
    os.unlink(target)
    shutil.rmtree(place)


def main():
    report = Report(f"backup-network: {SIZE // MIB} MiB of random bytes, 100 Mbit/s")
    os.environ["RESTIC_PASSWORD"] = "bench"
    with Pool("copy") as pool:
        with open(pool.volume("data", SIZE), "r+b") as file:
            for _ in range(SIZE // MIB):
                file.write(os.urandom(MIB))
        pool.snapshot("data@s")
        for round_trip in (20, 100):
            measure(report, pool.top, round_trip)
    report.finish()


if __name__ == "__main__":
    sys.exit(main())
