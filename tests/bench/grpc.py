# SPDX-License-Identifier: Apache-2.0
"""gRPC: tuples a second and small calls, beside the C core and grpc-go, or CAIRN_BENCH_OTHER=DIR."""
import json
import os
import pathlib
import signal
import socket
import subprocess
import tempfile
import time

from benchlib import Report, call, tool

OTHER = os.environ.get("CAIRN_BENCH_OTHER")  # the build directory of another commit
ROUNDS = 15 if OTHER else 5
TUPLES = 10_000_000
TUPLES_SMALL = 1_000_000  # in messages of 16
CALLS = 50_000
OTHER_MOST = 1.05
SLOW = 200  # TLS connections whose reader stands still
TICK = os.sysconf("SC_CLK_TCK")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


# Both ends of everything measured, so that the rest of the machine does not get in between.
AHEAD = ["chrt", "--fifo", "5"] if os.geteuid() == 0 else []


class Server:
    """A server process; `cpu()` is what it used so far."""

    def __init__(self, *command):
        self.process = subprocess.Popen([*AHEAD, *command], stdout=subprocess.PIPE, text=True)
        if not self.process.stdout.readline().startswith("ready"):
            raise SystemExit(f"did not start: {' '.join(command)}")

    def cpu(self):
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICK

    def status(self, name):
        for line in pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith(name + ":"):
                return int(line.split()[1])
        raise SystemExit(f"no {name}")

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()


def run(*command):
    done = subprocess.run([*AHEAD, *command], stdout=subprocess.PIPE, text=True, timeout=300, check=True)
    return json.loads(done.stdout)


def certificates(top):
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
         "-keyout", f"{top}/key.pem", "-out", f"{top}/cert.pem", "-days", "2", "-subj", "/CN=bench",
         "-addext", "subjectAltName=IP:127.0.0.1"],
        check=True, stderr=subprocess.DEVNULL)
    return ["--cert", f"{top}/cert.pem", "--key", f"{top}/key.pem"], ["--ca", f"{top}/cert.pem"]


class Side:
    """One implementation: a server on a unix socket, one on TLS, a relay."""

    def __init__(self, name, top, pair, ca, server=None, client=None):
        self.name, self.program, self.ca = name, client or tool(f"grpc-{name}"), ca
        server = server or self.program
        self.unix = f"unix:{top}/{name}.sock"
        self.tls, self.front = (f"127.0.0.1:{free_port()}" for _ in range(2))
        self.servers = [
            Server(server, "serve", self.unix),
            Server(server, "serve", self.tls, *pair),
            Server(server, "serve", self.front, *pair, "--relay", self.unix),
        ]
        self.best = {}

    def keep(self, what, figures):
        """The best of all rounds: noise of the machine only ever adds."""
        for key, value in figures.items():
            known = self.best.setdefault(what, {})
            known[key] = min(value, known.get(key, value))

    def round(self):
        for what, target, options in (("unix", self.unix, []), ("TLS", self.tls, self.ca),
                                      ("relay", self.front, self.ca)):
            self.keep(what, run(self.program, "tuples", target, str(TUPLES), "1024", *options))
            self.keep(what + " 16", run(self.program, "tuples", target, str(TUPLES_SMALL), "16",
                                        *options))
        self.keep("calls", run(self.program, "calls", self.unix, str(CALLS), "64"))
        self.keep("call", run(self.program, "calls", self.unix, str(CALLS // 10), "1"))

    def stop(self):
        for server in self.servers:
            server.stop()

    def ns(self, what, key="server_cpu_s"):
        return self.best[what][key] / self.best[what]["tuples"] * 1e9


def go_relay(pair, side):
    """Nanoseconds a tuple of a relay that decodes and rebuilds, between our client and server."""
    interop = call("scripts/peers", "interop").split()[-1]
    front = f"127.0.0.1:{free_port()}"
    server = Server(interop, "relay", "-listen", front, "-cert", pair[1], "-key", pair[3],
                    "-target", side.unix)
    best = None
    for _ in range(2):
        before = server.cpu()
        run(side.program, "tuples", front, str(TUPLES), "1024", *side.ca)
        used = (server.cpu() - before) / TUPLES * 1e9
        best = used if best is None else min(best, used)
    server.stop()
    return best


def slow_streams(report, side):
    client = subprocess.Popen([side.program, "slow", side.tls, str(SLOW), *side.ca],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    if client.stdout.readline().strip() != "ready":
        raise SystemExit("slow readers did not start")
    time.sleep(2)
    report.target(f"resident with {SLOW} slow TLS streams",
                  side.servers[1].status("VmRSS") / 1024, "<=", 80, " MiB")
    client.communicate("\n", timeout=60)


def figures(report, sides):
    for what in ("unix", "unix 16", "TLS", "TLS 16", "relay", "relay 16"):
        for side in sides:
            report.figure(f"{side.name}: {what}, server CPU",
                          f"{side.ns(what):.1f} ns a tuple, client {side.ns(what, 'client_cpu_s'):.1f}, "
                          f"{side.best[what]['tuples'] / side.best[what]['wall_s'] / 1e6:.1f} M/s")
    for side in sides:
        calls, one = side.best["calls"], side.best["call"]
        report.figure(f"{side.name}: small calls, 64 in flight",
                      f"{calls['calls'] / calls['wall_s'] / 1e3:.0f} k/s, server CPU "
                      f"{calls['server_cpu_s'] / calls['calls'] * 1e6:.1f} us, p99 {calls['p99_us']:.0f} us")
        report.figure(f"{side.name}: small calls, one at a time",
                      f"p50 {one['p50_us']:.0f} us, p99 {one['p99_us']:.0f} us")


def targets(report, cairn, core):
    report.target("server encode on unix", cairn.ns("unix"), "<=", 10, " ns a tuple")
    report.target("relay with TLS, CPU of the C core / ours", core.ns("relay") / cairn.ns("relay"),
                  ">=", 2, "x")
    ours, theirs = cairn.best["calls"], core.best["calls"]
    report.target("small calls with 64 in flight, ours / the C core's",
                  theirs["wall_s"] / ours["wall_s"], ">=", 2.5, "x")
    report.target("p99 with 64 in flight, ours / the C core's", ours["p99_us"] / theirs["p99_us"],
                  "<=", 1, "x")


def measure(sides):
    """The rounds of both sides in turns; which one begins changes each time."""
    for n in range(ROUNDS):
        for side in sides if n % 2 == 0 else reversed(sides):
            side.round()


def against_other(report, top, pair, ca):
    """This build's server and client, each with the same peer as those of the other build: a
    faster peer changes what a server costs. None may be more than a twentieth above the other."""
    this, other = tool("grpc-cairn"), f"{OTHER}/tests/bench/bench-grpc-cairn"
    sides = [Side(name, top, pair, ca, server, client) for name, server, client in (
        ("cairn", this, this), ("other-server", other, this), ("other-client", this, other))]
    try:
        measure(sides)
        figures(report, sides)
        for other, key in zip(sides[1:], ("server_cpu_s", "client_cpu_s")):
            for what, best in sides[0].best.items():
                if key in best:
                    report.target(f"{what}: {key[:6]} CPU, this / the other",
                                  best[key] / other.best[what][key], "<=", OTHER_MOST, "x")
    finally:
        for side in sides:
            side.stop()


def main():
    report = Report("grpc: 10 M tuples in messages of 1024 (1 M in messages of 16), best of "
                    f"{ROUNDS}")
    with tempfile.TemporaryDirectory(prefix="cairn-bench.") as top:
        pair, ca = certificates(top)
        if OTHER:
            against_other(report, top, pair, ca)
            report.finish()
        cairn = Side("cairn", top, pair, ca)
        idle = cairn.servers[0].status("VmRSS") / 1024
        core = Side("core", top, pair, ca)
        sides = [cairn, core]
        try:
            measure(sides)
            figures(report, sides)
            targets(report, cairn, core)
            rebuilt = go_relay(pair, cairn)
            report.figure("grpc-go: relay that decodes and rebuilds", f"{rebuilt:.0f} ns a tuple")
            report.target("relay with TLS, CPU of grpc-go / ours", rebuilt / cairn.ns("relay"),
                          ">=", 10, "x")
            report.target("resident when idle", idle, "<=", 10, " MiB")
            slow_streams(report, cairn)
        finally:
            for side in sides:
                side.stop()
    report.finish()


main()
