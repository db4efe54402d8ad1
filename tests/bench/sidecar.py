# SPDX-License-Identifier: Apache-2.0
"""sidecar: relayed tuples, new streams and slow callers, beside the Go sidecar."""
import ctypes
import os
import pathlib
import json
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
# This directory last: it has a grpc.py of its own.
sys.path[:1] = [str(ROOT / "tests/cluster"), str(ROOT / "tests/peers/sidecar")]
sys.path.append(str(ROOT / "tests/bench"))

from benchlib import CAIRN, Report, tool  # noqa: E402

os.environ["CAIRN_BIN"] = CAIRN

from bed import AUDIENCE, DRIVER, Bed, Sidecar  # noqa: E402

ROUNDS = 3
TUPLES = 10_000_000
SNAPSHOTS = 20  # that new streams choose among
CALLERS = 4
STARTS = {"upstream": 40, "upstream, no limits": 2000, "cairn": 20000}
IN_FLIGHT = 16
SLOW = 500
SLOW_SECONDS = 20
LIBC = ctypes.CDLL(None, use_errno=True)


def cpu_of(pid):
    """Seconds, to the nanosecond: the ticks of /proc/PID/stat are 6 % of a round here."""
    clock = ctypes.c_int()
    if LIBC.clock_getcpuclockid(pid, ctypes.byref(clock)) != 0:
        raise SystemExit(f"no clock of process {pid}")
    return time.clock_gettime(clock.value)


def status_of(pid, name):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) / 1024
    raise SystemExit(f"no {name}")


class Stage:
    """The control plane, the driver, the snapshots, and the callers' tokens."""

    def __init__(self, bed):
        self.bed = bed
        self.socket = bed.directory / "bench.sock"
        self.driver = subprocess.Popen([tool("sidecar"), "driver", self.socket, DRIVER],
                                       stdout=subprocess.PIPE, text=True)
        if self.driver.stdout.readline().strip() != "ready":
            raise SystemExit("the driver did not start")
        bed.snapshot(name="large", handle=f"tuples-{TUPLES}")
        bed.snapshot(name="endless", handle=f"tuples-{1 << 40}")
        self.small = [bed.snapshot(name=f"small-{i}", handle="tuples-4")
                      for i in range(SNAPSHOTS)]
        self.tokens = bed.directory / "tokens"
        lines = []
        for i in range(CALLERS):
            bed.add_caller(f"caller{i}")
            lines.append(bed.kube.token("one", f"caller{i}", AUDIENCE))
        self.tokens.write_text("\n".join(lines))

    def sidecar(self, kind):
        bed = self.bed
        words = {
            "cairn": [CAIRN, "sidecar", "--log-level=warn"],
            "upstream": [bed.programs["csi-snapshot-metadata"]],
            "upstream, no limits": [bed.programs["csi-snapshot-metadata"],
                                    "--kube-api-qps=1000", "--kube-api-burst=2000"],
        }[kind]
        sidecar = Sidecar(bed, words, bed.name("sidecar"), self.socket, bed.ports)
        sidecar.start()
        sidecar.wait_ready()
        sidecar.pid = bed.processes.pid(sidecar.name)
        return sidecar

    def call(self, sidecar, mode, *words):
        done = subprocess.run(self.words(sidecar, mode, *words), stdout=subprocess.PIPE,
                              text=True, timeout=600, check=True)
        return json.loads(done.stdout.splitlines()[-1])

    def words(self, sidecar, mode, *words):
        return [tool("sidecar"), mode, f"127.0.0.1:{sidecar.port}", *map(str, words),
                "--ca", self.bed.authority, "--tokens", self.tokens]

    def api_requests(self):
        """Requests of the sidecar, which alone reviews tokens and reads snapshots here."""
        total = 0
        for line in self.bed.kube.ask("GET", "/metrics")[1].splitlines():
            if line.startswith("apiserver_request_total{") and any(
                    f'resource="{name}"' in line for name in (
                        "tokenreviews", "subjectaccessreviews", "snapshotmetadataservices",
                        "volumesnapshots", "volumesnapshotcontents", "volumesnapshotclasses")):
                total += float(line.rsplit(" ", 1)[1])
        return total

    def api_cpu(self):
        return cpu_of(self.bed.processes.pid("kube-apiserver"))

    def close(self):
        self.driver.terminate()
        self.driver.wait(10)


def relay(report, stage):
    """CPU a tuple, throughput and peak memory, round by round side by side."""
    best = {}
    for per in (1024, 256):
        sides = {kind: stage.sidecar(kind) for kind in ("cairn", "upstream")}
        for _ in range(ROUNDS):
            for kind, sidecar in sides.items():
                before = cpu_of(sidecar.pid)
                figures = stage.call(sidecar, "tuples", "large", per)
                assert figures["tuples"] == TUPLES
                best.setdefault((kind, per), []).append(
                    ((cpu_of(sidecar.pid) - before) / TUPLES * 1e9,
                     TUPLES / figures["wall_s"] / 1e6))
        peak = {kind: status_of(sidecar.pid, "VmHWM") for kind, sidecar in sides.items()}
        for sidecar in sides.values():
            sidecar.close()
        ours, theirs = ([statistics.median(column) for column in zip(*best[kind, per])]
                        for kind in ("cairn", "upstream"))
        for name, figures in (("cairn", ours), ("upstream", theirs)):
            report.figure(f"{name}: {per} a message",
                          f"{figures[0]:.1f} ns of CPU a tuple, {figures[1]:.2f} M tuples/s, "
                          f"peak {peak[name]:.0f} MiB")
        report.target(f"{per} a message: CPU a tuple, upstream / ours", theirs[0] / ours[0], ">=",
                      25, "x")
        report.target(f"{per} a message: tuples a second, ours / upstream", ours[1] / theirs[1],
                      ">=", 8, "x")
        report.target(f"{per} a message: peak memory, ours / upstream",
                      peak["cairn"] / peak["upstream"], "<=", 0.25, "x")


def starts(report, stage):
    found = {}
    for kind, count in STARTS.items():
        sidecar = stage.sidecar(kind)
        own, api, requests = cpu_of(sidecar.pid), stage.api_cpu(), stage.api_requests()
        figures = stage.call(sidecar, "starts", ",".join(stage.small), count, IN_FLIGHT)
        own, api = cpu_of(sidecar.pid) - own, stage.api_cpu() - api
        requests = stage.api_requests() - requests
        found[kind] = {"rate": count / figures["wall_s"], "api": api / count,
                       "requests": requests / count}
        report.figure(f"{kind}: new streams, {IN_FLIGHT} at a time",
                      f"{found[kind]['rate']:.4g}/s, p50 {figures['p50_ms']:.1f} ms, "
                      f"p99 {figures['p99_ms']:.1f} ms")
        report.figure(f"{kind}: for a new stream",
                      f"{own / count * 1000:.3f} ms of CPU, of the API server "
                      f"{api / count * 1000:.3f} ms and {requests / count:.3f} requests")
        sidecar.close()
    ours, lifted = found["cairn"], found["upstream, no limits"]
    report.target("new streams a second, ours / upstream's", ours["rate"] /
                  found["upstream"]["rate"], ">=", 500, "x")
    report.target("new streams a second, ours / upstream's without limits", ours["rate"] /
                  lifted["rate"], ">=", 5, "x")
    report.target("CPU of the API server, ours / upstream's", ours["api"] / lifted["api"], "<=",
                  0.2, "x")
    report.target("requests to the API server, ours / upstream's", ours["requests"] /
                  lifted["requests"], "<=", 0.2, "x")


def slow(report, stage):
    """Resident memory with many callers that read one message a second."""
    for kind in ("cairn", "upstream, no limits"):
        sidecar = stage.sidecar(kind)
        client = subprocess.Popen(stage.words(sidecar, "slow", "endless", SLOW),
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if client.stdout.readline().strip() != "ready":
            raise SystemExit("the slow callers did not start")
        time.sleep(SLOW_SECONDS)
        used = status_of(sidecar.pid, "VmRSS")
        read = json.loads(client.communicate("\n", timeout=120)[0].splitlines()[-1])
        report.figure(f"{kind}: {SLOW} slow callers", f"{used:.0f} MiB after {SLOW_SECONDS} s, "
                      f"{read['messages'] / SLOW:.0f} messages read by each")
        if kind == "cairn":
            report.target(f"resident with {SLOW} slow callers", used, "<=", 128, " MiB")
        sidecar.close()


def main():
    report = Report(f"sidecar: {TUPLES // 1000000} M tuples, medians of {ROUNDS}; new streams of "
                    f"{CALLERS} callers on {SNAPSHOTS} snapshots")
    with Bed() as bed:
        stage = Stage(bed)
        try:
            for part in (relay, starts, slow):
                if not sys.argv[1:] or part.__name__ in sys.argv[1:]:
                    part(report, stage)
        finally:
            stage.close()
    report.finish()


main()
