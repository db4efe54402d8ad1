#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Every port of every role under attack by strangers at four addresses: the role's memory stays
within a bound, and callers at other addresses are served. CAIRN_ATTACK_CONNECTIONS and
CAIRN_ATTACK_MS make it larger. Attackers, role and caller share the processors here;
CAIRN_ATTACK_NICE=19 puts the attackers behind the others, as if they had their own.
CAIRN_ATTACK_RATIO=2 on a quiet machine: the caller waits at most twice as long as while the
attackers take the same processor time without a connection (docs/limits.md)."""
import json
import os
import pathlib
import statistics
import subprocess
import time
import unittest
import urllib.request

import grpc

from rolesbed import HOST, SECONDS, RolesTest

ATTACK = os.environ["CAIRN_ATTACK"]
CONNECTIONS = int(os.environ.get("CAIRN_ATTACK_CONNECTIONS", "600"))
MS = int(os.environ.get("CAIRN_ATTACK_MS", "200"))
CALLERS = 64  # addresses of callers
NICE = os.environ.get("CAIRN_ATTACK_NICE", "0")
RATIO = float(os.environ.get("CAIRN_ATTACK_RATIO", "0"))
ONLY = os.environ.get("CAIRN_ATTACK_KINDS", "").split()
SANITIZED = os.environ.get("CAIRN_SANITIZED") == "1"
MEMORY = 64 << 20
CROWD = 4  # NET_CROWD_STRANGERS
ROUNDS = 50
PLAIN = ("silent", "begun", "fields", "unread")
TLS = ("silent", "begun", "idle", "fields", "unread", "updates")
EVERY = os.environ.get("CAIRN_ATTACK_EVERY") == "1"
# Where the same server is attacked in full elsewhere; with CAIRN_ATTACK_EVERY=1 everything is.
SOME = TLS if EVERY else ("silent", "fields", "updates")
FEW = PLAIN if EVERY else PLAIN[:1]
# The health ports have one server; ten thousand connections attack it in full at the driver.
HEALTH = PLAIN if EVERY or CONNECTIONS <= 1000 else PLAIN[:1]
# Ten thousand of them send gigabytes.
BODIES = ("bodies",) if EVERY or CONNECTIONS <= 1000 else ()


def text_field(number, value):
    """Of a protobuf message; at most 16 KiB."""
    return bytes((number << 3 | 2, len(value) & 127 | 128, len(value) >> 7)) + value


class Overload(RolesTest):
    def attack(self, role, port, *words, kinds):
        pid = self.processes.pid(role)
        if RATIO:
            words += ("--control",)
        for kind in kinds:
            if ONLY and kind not in ONLY:
                continue
            with self.subTest(role=role, port=port, kind=kind):
                done = subprocess.run(
                    [ATTACK, "--port", str(port), "--pid", str(pid), "--kind", kind,
                     "--connections", str(CONNECTIONS), "--ms", str(MS), "--nice", NICE,
                     "--callers", str(CALLERS), *words],
                    check=True, stdout=subprocess.PIPE, timeout=600)
                found = json.loads(done.stdout)
                print(role, *words, done.stdout.decode().strip(), flush=True)
                self.assertEqual(self.processes.pid(role), pid, self.tail(role))
                self.assertGreater(found["quiet_served"], 0, "the port answers nobody")
                self.assertGreater(found["probes"], 0)
                self.assertEqual(found["served"], found["probes"],
                                 "callers from elsewhere are not served")
                if RATIO:
                    self.assertLessEqual(found["attacked_ms"], RATIO * found["control_ms"])
                if not SANITIZED:
                    grown = found["rss_peak"] - found["rss_idle"]
                    self.assertLessEqual(grown, MEMORY, "too much memory")

    def counted(self, *names):
        """Each of these counters of the role with the health port has counted something."""
        url = f"http://{self.health()}/metrics"
        with urllib.request.urlopen(url, timeout=SECONDS) as reply:
            text = reply.read().decode()
        for name in names:
            self.assertRegex(text, rf"(?m)^cairn_net_{name}_total [1-9]")

    def tail(self, role):
        return self.processes.log_text(role)[-3000:]

    def health(self):
        return f"{HOST}:{self.health_port}"

    def setUp(self):
        super().setUp()
        self.health_port = self.ports.take()

    def assert_log_is_short(self, role):
        """Whatever strangers do, they do not fill the disk."""
        self.assertLess(len(self.processes.log_text(role)), 1 << 20)

    def test_the_driver(self):
        self.start_driver("--http-endpoint", self.health())
        self.attack("driver", self.health_port, kinds=PLAIN + BODIES)
        self.counted("connections_displaced")
        self.assert_log_is_short("driver")

    def test_the_sidecar(self):
        self.start_driver()
        port = self.ports.take()
        self.start("sidecar", "sidecar", "--csi-address", self.socket, "--port", port,
                   "--bind-address", HOST, "--tls-cert", self.cert, "--tls-key", self.key,
                   "--audience", "here", "--sessions", "--http-endpoint", self.health())
        self.said("sidecar", "serving")
        self.attack("sidecar", port, "--tls", "--h2", kinds=TLS)
        self.attack("sidecar", self.health_port, kinds=HEALTH)
        self.counted("connections_calmed", "connections_displaced")
        self.assert_log_is_short("sidecar")
        self.stop_in_order("sidecar")

    def test_connections_of_an_honest_crowd(self):
        """Callers behind one address that connect at the same time, more than a crowd needs: the
        first ones have threads of normal priority. Prints how long calls take on each."""
        self.start_driver()
        port = self.ports.take()
        self.start("sidecar", "sidecar", "--csi-address", self.socket, "--port", port,
                   "--bind-address", HOST, "--tls-cert", self.cert, "--tls-key", self.key,
                   "--audience", "here", "--http-endpoint", "")
        self.said("sidecar", "the CSI driver is ready")
        token = self.kube.account("app", "reader", ["here"]).encode()
        self.kube.allow("system:serviceaccount:app:reader", "get", "volumesnapshots")
        request = b"".join(text_field(number, value) for number, value in (
            (1, token), (2, b"app"), (3, b"after")))
        trusted = grpc.ssl_channel_credentials(self.authority.crt.read_bytes())
        channels = [grpc.secure_channel(f"{HOST}:{port}", trusted, [
            ("grpc.use_local_subchannel_pool", 1)]) for _ in range(2 * CROWD)]
        calls = [channel.unary_stream("/snapshotmetadata.SnapshotMetadata/GetMetadataAllocated")
                 for channel in channels]
        for channel in channels:
            self.addCleanup(channel.close)
            grpc.channel_ready_future(channel).result(SECONDS)
        times = [[] for _ in calls]
        for _ in range(ROUNDS):
            for call, mine in zip(calls, times):
                begin = time.monotonic()
                self.assertTrue(list(call(request, timeout=SECONDS)))
                mine.append(1000 * (time.monotonic() - begin))
        found = [statistics.median(mine) for mine in times]
        print("an honest crowd: ms of a call on each connection",
              *(f"{ms:.2f}" for ms in found), flush=True)
        if RATIO:
            self.assertLessEqual(statistics.median(found[CROWD:]),
                                 RATIO * statistics.median(found[:CROWD]))

    def test_the_manager(self):
        secret = pathlib.Path(self.directory) / "webhook-secret"
        secret.write_text("0123456789abcdef0123456789abcdef")
        port = self.serve("manager", "manager", "--webhook", f"{HOST}:PORT", "--webhook-secret",
                          secret, "--http-endpoint", self.health())
        self.attack("manager", port, "--tls", kinds=TLS + BODIES)
        self.attack("manager", self.health_port, kinds=HEALTH)
        self.counted("connections_displaced")
        self.assert_log_is_short("manager")
        self.stop_in_order("manager")

    def test_diffsnap(self):
        self.start_driver()
        port = self.serve("diffsnap", "diffsnap", "--csi-address", f"unix://{self.socket}",
                          "--listen", f"{HOST}:PORT", "--advertise", f"{HOST}:PORT",
                          "--audience", "here", "--http-endpoint", self.health())
        self.attack("diffsnap", port, "--tls", kinds=SOME)
        self.attack("diffsnap", self.health_port, kinds=FEW)
        self.assert_log_is_short("diffsnap")
        self.stop_in_order("diffsnap")

    def test_cbt_http(self):
        self.start_driver()
        port = self.serve("cbt-http", "cbt-http", "--csi-address", f"unix://{self.socket}",
                          "--listen", f"{HOST}:PORT", "--publish-url", f"https://{HOST}:PORT",
                          "--publish-ca", self.authority.crt, "--http-endpoint", self.health())
        self.attack("cbt-http", port, "--tls", kinds=SOME)
        self.attack("cbt-http", self.health_port, kinds=FEW)
        self.assert_log_is_short("cbt-http")
        self.stop_in_order("cbt-http")

    def test_aggapi(self):
        self.put_front_proxy('["front-proxy"]')
        port = self.serve("aggapi", "aggapi", "--listen", f"{HOST}:PORT", "--http-endpoint",
                          self.health())
        self.attack("aggapi", port, "--tls", kinds=SOME)
        self.attack("aggapi", self.health_port, kinds=FEW)
        self.assert_log_is_short("aggapi")
        self.stop_in_order("aggapi")


if __name__ == "__main__":
    unittest.main()
