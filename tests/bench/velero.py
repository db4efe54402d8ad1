# SPDX-License-Identifier: Apache-2.0
"""Velero's backups of a changed volume: data mover `cairn` against Velero's own (kopia)."""
import os
import pathlib
import subprocess
import sys
import threading
import time

from benchlib import BLOCK, BUILD, CHUNK, GIB, Report, tool

os.environ["CAIRN_BIN"] = str(BUILD / "src/cairn")
os.environ["CAIRN_VELERO_PLUGIN"] = str(BUILD / "src/roles/cairn-velero-plugin")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "velero"))

# pylint: disable=wrong-import-position
import kopiamover
import moverbed
from moverbed import MANAGER, NAMESPACE, wait_until

SIZE = int(os.environ.get("CAIRN_BENCH_SIZE", 8 * GIB))
MIB = 1 << 20
LIMIT = 1800
TICKS = os.sysconf("SC_CLK_TCK")
OURS, THEIRS = "cairn", "velero"


def fields_of(pid):
    """Of /proc/PID/stat after the name, or None."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    except OSError:
        return None


def resident(pid):
    """Its memory in MiB."""
    try:
        text = pathlib.Path(f"/proc/{pid}/statm").read_text().split()
    except OSError:
        return 0
    return int(text[1]) * os.sysconf("SC_PAGE_SIZE") / MIB


def words_of(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return []


class Memory(threading.Thread):
    """Peaks of the sum of what Velero, its plugins, its agents and the data mover hold."""

    def __init__(self, bed):
        super().__init__(daemon=True)
        self.bed, self.ended = bed, threading.Event()
        self.all = self.movers = 0

    def kind(self, pid):
        words = words_of(pid)
        if not words or not words[0]:
            return None
        name = pathlib.Path(words[0]).name
        if name == "velero":  # else a command of this program
            return {"node-agent": "mover", "data-mover": "mover", "server": "server",
                    "run-plugins": "server"}.get(words[1] if len(words) > 1 else "")
        if "plugin" in name and "velero" in name:
            return "server"
        # The command of the manager, and of Jobs; not the driver and its sidecar, which serve both.
        if name in ("cairn", "cairn-manager", "cairn-backup") and {"manager", "backup"} & set(
                [name.removeprefix("cairn-"), *words[1:2]]):
            return "mover"
        return None

    def run(self):
        while not self.ended.wait(0.1):
            found = {"server": 0, "mover": 0}
            for entry in os.listdir("/proc"):
                kind = entry.isdigit() and self.kind(entry)
                if kind and self.is_of_bed(entry):
                    found[kind] += resident(entry)
            self.all = max(self.all, sum(found.values()))
            self.movers = max(self.movers, found["mover"])

    def is_of_bed(self, pid):
        """Another bed on the machine is not measured with this one."""
        try:
            return (os.readlink(f"/proc/{pid}/ns/net") == os.readlink("/proc/self/ns/net") or
                    self.bed.node.cgroup in pathlib.Path(f"/proc/{pid}/cgroup").read_text())
        except OSError:
            return False

    def stop(self):
        self.ended.set()
        self.join()


class Bench(moverbed.MoverTest):
    """Not a test: the bed of the tests of the data mover."""

    def runTest(self):  # pylint: disable=invalid-name
        pass

    def processor(self):
        """Seconds of the server with its plugins, of the manager, and of all pods."""
        used = 0
        for name in ("velero", MANAGER):
            used += sum(map(int, fields_of(self.bed.processes.pid(name))[11:15])) / TICKS
        for top in ("cpuacct", "."):
            place = pathlib.Path("/sys/fs/cgroup") / top / self.bed.node.cgroup
            if (place / "cpuacct.usage").exists():
                return used + int((place / "cpuacct.usage").read_text()) / 1e9
            if (place / "cpu.stat").exists():
                return used + int((place / "cpu.stat").read_text().split()[1]) / 1e6
        raise SystemExit("no cgroup tells the processor time of the pods")

    def stored(self):
        place = self.velero.store / moverbed.BUCKET
        return sum(entry.stat().st_size for entry in place.rglob("*") if entry.is_file())

    def watch(self, name, begun):
        """(seconds until the DataUpload existed, until it was complete, until the backup was)"""
        made = moved = None
        while True:
            upload = next(iter(self.uploads(name).values()), None)
            now = time.monotonic() - begun
            if upload and made is None:
                made = now
            if upload and moved is None and upload.get("status", {}).get("phase") == "Completed":
                moved = now
            backup = self.kube.get("-n", NAMESPACE, "backups.velero.io", name)["status"]
            if backup.get("phase") in ("Completed", "PartiallyFailed", "Failed"):
                break
            if now > LIMIT:
                raise SystemExit(f"{name} does not end: {backup}")
            time.sleep(0.1)
        if backup["phase"] != "Completed":
            raise SystemExit(f"{name}: {backup}\n{upload}\n{self.everything('shop')}")
        return made, moved, time.monotonic() - begun

    def back_up_with(self, name, mover):
        memory = Memory(self.bed)
        memory.start()
        used, stored, begun = self.processor(), self.stored(), time.monotonic()
        self.velero.run("backup", "create", name, "--include-namespaces", "shop",
                        "--snapshot-move-data", "--data-mover", mover)
        made, moved, wall = self.watch(name, begun)
        self.wait_objects_gone()
        memory.stop()
        return {"cpu": self.processor() - used, "bytes": self.stored() - stored, "wall": wall,
                "own": moved - made, "rss": memory.all, "mover": memory.movers}

    def wait_objects_gone(self):
        """What was made for it is removed, which is part of its cost."""
        wait_until(lambda: not self.left() and not [
            pod for pod in self.kube.get("-n", NAMESPACE, "pods")["items"]
            if not pod["metadata"]["name"].startswith("node-agent")], LIMIT, "nothing is left")

    def idle(self):
        """Seconds of the processor that all of it takes in a second in which nothing happens."""
        used, begun = self.processor(), time.monotonic()
        time.sleep(10)
        return (self.processor() - used) / (time.monotonic() - begun)


def fill(bench, *words):
    """In the node, to the file behind the volume."""
    volume = bench.pods.csi.volume_id("raw", namespace="shop")
    path = bench.bed.node.cairn("volume", "path", volume).strip()
    subprocess.run(["nsenter", "--target", str(bench.bed.node.init_pid()), "--mount", tool("fill"),
                    path, str(SIZE), *map(str, words)], check=True)


def show(report, what, found):
    report.figure(what, f"{found['cpu']:.2f} s CPU, {found['wall']:.1f} s wall, of which the mover "
                        f"{found['own']:.1f} s")
    report.figure("", f"{found['bytes'] / MIB:.1f} MiB stored, peak RSS {found['rss']:.0f} MiB, "
                      f"of which the mover {found['mover']:.0f} MiB")


def compare(report, theirs, ours):
    report.target("second backup: CPU less", theirs["cpu"] / ours["cpu"], ">=", 10, "x")
    report.target("second backup: bytes less", theirs["bytes"] / ours["bytes"], ">=", 10, "x")
    report.target("second backup: wall of the data mover less", theirs["own"] / ours["own"], ">=",
                  5, "x")
    report.figure("second backup: wall from create to Completed less",
                  f"{theirs['wall'] / ours['wall']:.4g}x")
    report.target("second backup: peak RSS of all", ours["rss"] / theirs["rss"], "<=", 0.25, "x")
    report.figure("second backup: peak RSS of the movers", f"{ours['mover'] / theirs['mover']:.4g}x")


def measure(bench, report):
    bench.kube.namespace("shop")
    bench.pods.csi.claim("raw", f"{SIZE}", "Block", namespace="shop", wait=False)
    bench.hold("shop", {"raw": "Block"})
    fill(bench, CHUNK, SIZE // 4 // CHUNK, 1)
    report.figure("processor time of all in a second without work", f"{bench.idle():.3f} s")
    first = {THEIRS: bench.back_up_with("velero-1", THEIRS)}
    kopiamover.stop(bench)  # `cairn` does not need it
    first[OURS] = bench.back_up_with("cairn-1", OURS)
    fill(bench, BLOCK, SIZE // BLOCK // 100, 2)
    second = {OURS: bench.back_up_with("cairn-2", OURS)}
    kopiamover.start(bench)
    second[THEIRS] = bench.back_up_with("velero-2", THEIRS)
    for mover in (THEIRS, OURS):
        show(report, f"{mover}: first backup", first[mover])
        show(report, f"{mover}: second backup", second[mover])
    compare(report, second[THEIRS], second[OURS])


def main():
    report = Report(f"velero: {SIZE / GIB:g} GiB in Block mode, a quarter allocated, 1 % changed")
    moverbed.skip_unless_possible()
    Bench.setUpClass()
    try:
        bench = Bench()
        kopiamover.add_image(bench.bed)
        kopiamover.start(bench)
        measure(bench, report)
    finally:
        Bench.doClassCleanups()
    report.finish()


main()
