# SPDX-License-Identifier: Apache-2.0
"""`cairn driver` beside a driver that copies and compares, over their sockets."""
import os
import pathlib
import signal
import subprocess
import tempfile
import time

from benchlib import (BLOCK, CAIRN, CHUNK, CHUNKS, GIB, OVERWRITES, VOLUME, Pool, Report, Time,
                      call, fill, seconds, tool)

TIB = 1 << 40
WARM_RUNS = 15
COLD_RUNS = 3
SNAPSHOTS = 3
REST_SECONDS = 3


def drop_caches():
    os.sync()
    pathlib.Path("/proc/sys/vm/drop_caches").write_text("3")


class Driver:
    """A driver process on a socket of its own."""

    def __init__(self, label, socket, *command):
        self.label, self.socket = label, socket
        self.process = subprocess.Popen([*command, "--endpoint", f"unix://{socket}"],
                                        stderr=subprocess.DEVNULL)
        for _ in range(600):
            if os.path.exists(socket):
                return
            time.sleep(0.05)
        raise SystemExit(f"{label}: nobody listens on {socket}")

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()

    def ask(self, *command):
        return call(tool("csi"), self.socket, self.process.pid, *command)

    def volume(self, name, size):
        return self.ask("volume", name, size)

    def snapshot(self, volume, name):
        """((wall, CPU, 0), id)"""
        wall, cpu, found = self.ask("snapshot", volume, name).split()
        return (int(wall) / 1e6, int(cpu) / 1e6, 0), found

    def stream(self, base, target, times=1):
        """What `times` streams took, and the bytes that the last one told of."""
        lines = [[int(n) for n in line.split()]
                 for line in self.ask("stream", base or "-", target, times).splitlines()]
        return Time([(wall / 1e6, cpu / 1e6, 0) for wall, cpu, _, _, _ in lines]), lines[-1][4]

    def cold(self, base, target, times):
        runs = []
        for _ in range(times):
            drop_caches()
            time_of, _ = self.stream(base, target)
            runs.append((time_of.wall, time_of.cpu, 0))
        return Time(runs)

    def stall(self, volume, name, device):
        quiet, during, writes, wall, found = self.ask("stall", volume, name, device).split()
        return (f"longest write {seconds(int(during) / 1e6)} of {writes} in "
                f"{seconds(int(wall) / 1e6)}; {seconds(int(quiet) / 1e6)} before"), found

    def memory(self):
        """MiB resident at rest after all that was asked of it, and its peak."""
        time.sleep(REST_SECONDS)
        fields = dict(line.split(":") for line in
                      pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines())
        return [int(fields[name].split()[0]) / 1024 for name in ("VmRSS", "VmHWM")]


def between(driver, path, volume, size, name=""):
    """Fills the volume; two snapshots around the overwrites. Their times and ids."""
    fill(path, size, CHUNK, CHUNKS, 1)
    first, one = driver.snapshot(volume, f"{name}s1")
    fill(path, size, BLOCK, OVERWRITES, 2)
    second, two = driver.snapshot(volume, f"{name}s2")
    return [first, second], one, two


def streams(driver, report, one, two, warm_runs, cold_runs):
    """Both methods, cold and warm; {name: time}, and what Delta told of."""
    times = {}
    for what, base in (("Delta", one), ("Allocated", None)):
        times[f"{what}, cold"] = driver.cold(base, two, cold_runs)
        driver.stream(base, two)
        times[what], told = driver.stream(base, two, warm_runs)
        if base:
            changed = told
        for name in (f"{what}, cold", what):
            report.figure(f"{driver.label}: {name}", times[name])
    return times, changed


def with_device(driver, report, volume, name, path):
    """How long a writer stands still while a snapshot is made."""
    device = call("losetup", "--find", "--show", "--direct-io=on", path)
    try:
        text, found = driver.stall(volume, name, device)
    finally:
        call("losetup", "--detach", device)
    report.figure(f"{driver.label}: writer during CreateSnapshot", text)
    return found


def reference(report):
    """The driver that works by the reference method; its figures."""
    program = call("scripts/peers", "defectdriver").split()[-1]
    with tempfile.TemporaryDirectory(prefix="cairn-bench.") as top:
        with Driver("reference", f"{top}/csi.sock", program, "--dir", top) as driver:
            volume = driver.volume("data", VOLUME)
            path = f"{top}/{volume}"
            runs, one, two = between(driver, path, volume, VOLUME)
            times, changed = streams(driver, report, one, two, 3, 1)
            times["CreateSnapshot"] = Time(runs)
            report.figure("reference: CreateSnapshot", times["CreateSnapshot"])
            driver.ask("delete-snapshot", one)
            with_device(driver, report, volume, "s3", path)
            return times, changed, driver.memory()


def large_reads(report):
    """The same method with reads of 256 KiB, which the reference driver does not do."""
    program = call("scripts/peers", "defectdriver").split()[-1]
    with tempfile.TemporaryDirectory(prefix="cairn-bench.") as top:
        with Driver("reference, 256 KiB reads", f"{top}/csi.sock", program, "--dir", top,
                    "--read-size", "262144") as driver:
            volume = driver.volume("data", VOLUME)
            _, one, two = between(driver, f"{top}/{volume}", volume, VOLUME)
            driver.stream(one, two)
            found, _ = driver.stream(one, two, 3)
            report.figure(f"{driver.label}: Delta", found)
            return found


def prepare(driver, pool, name, size):
    volume = driver.volume(name, size)
    path = call(CAIRN, "--pool", pool.dir, "volume", "path", volume)
    return volume, path


def ours(report):
    with Pool("btrfs") as pool, \
            Driver("cairn", f"{pool.top}/csi.sock", CAIRN, "driver", "--pool", pool.dir,
                   "--node-id", "here") as driver:
        volume, path = prepare(driver, pool, "data", VOLUME)
        runs, one, two = between(driver, path, volume, VOLUME)
        made, _ = driver.stream(one, two)
        times, changed = streams(driver, report, one, two, WARM_RUNS, COLD_RUNS)
        for n in range(SNAPSHOTS):
            fill(path, VOLUME, BLOCK, OVERWRITES, 10 + n)
            run, latest = driver.snapshot(volume, f"more{n}")
            runs.append(run)
            made, _ = driver.stream(two, latest)
        times["CreateSnapshot"] = Time(runs)
        report.figure("cairn: CreateSnapshot", times["CreateSnapshot"])
        report.figure("cairn: Delta right after it, which waits for the set", made)
        with_device(driver, report, volume, "stall", path)
        memory = driver.memory()
        big, path = prepare(driver, pool, "big", TIB)
        _, one, two = between(driver, path, big, TIB, "big ")
        driver.stream(one, two)
        for what, base in (("Delta", one), ("Allocated", None)):
            found, _ = driver.stream(base, two, WARM_RUNS)
            report.figure(f"cairn: {what} of 1 TiB", found)
            report.figure(f"cairn: {what}, 1 TiB / 8 GiB, cpu time",
                          f"{found.cpu / times[what].cpu:.3g}x")
        return times, changed, memory


def main():
    report = Report(f"csi: {VOLUME // GIB} GiB volume, 25 % allocated, 1 % of its blocks "
                    "overwritten at random; CPU is the driver's")
    mine, told, memory = ours(report)
    theirs, changed, their_memory = reference(report)
    larger = large_reads(report)
    report.target("changed bytes not reported", max(0, changed - told), "<=", 0)
    report.figure("changed bytes, reported in excess", f"{changed}, {told - changed}")
    report.ratio("Delta, cold: reference / cairn", theirs["Delta, cold"], mine["Delta, cold"],
                 ">=", 1000, by="wall")
    report.ratio("Delta, warm: reference / cairn", theirs["Delta"], mine["Delta"], ">=", 300)
    report.figure("Delta, warm: reference with 256 KiB reads / cairn, cpu time",
                  f"{larger.cpu / mine['Delta'].cpu:.4g}x")
    for what in ("Allocated, cold", "Allocated"):
        report.figure(f"{what}: reference / cairn, wall and CPU time",
                      f"{theirs[what].wall / mine[what].wall:.4g}x, "
                      f"{theirs[what].cpu / mine[what].cpu:.4g}x")
    report.ratio("CreateSnapshot: reference / cairn", theirs["CreateSnapshot"],
                 mine["CreateSnapshot"], ">=", 20, by="wall")
    for what, of, ours_is in (("peak", their_memory[1], memory[1]),
                              ("at rest", their_memory[0], memory[0])):
        report.figure(f"resident {what}, reference and cairn", f"{of:.1f} and {ours_is:.1f} MiB")
    report.figure("resident peak, cairn / reference", f"{memory[1] / their_memory[1]:.3g}x")
    report.target("resident at rest, cairn / reference", memory[0] / their_memory[0], "<=", 0.333,
                  "x")
    report.finish()


main()
