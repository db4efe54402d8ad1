#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Every port of every role under attack by strangers at four addresses: the role's memory stays
within a bound, and a caller at a fifth address is served. CAIRN_ATTACK_CONNECTIONS and
CAIRN_ATTACK_MS make it larger. Attackers, role and caller share the processors here;
CAIRN_ATTACK_NICE=19 puts the attackers behind the others, as if they had their own.
CAIRN_ATTACK_RATIO=2 on a quiet machine: the caller waits at most twice as long as while the
attackers take the same processor time without a connection (docs/limits.md)."""
import json
import os
import pathlib
import subprocess
import unittest
import urllib.request

from rolesbed import HOST, SECONDS, RolesTest

ATTACK = os.environ["CAIRN_ATTACK"]
CONNECTIONS = int(os.environ.get("CAIRN_ATTACK_CONNECTIONS", "600"))
MS = int(os.environ.get("CAIRN_ATTACK_MS", "200"))
NICE = os.environ.get("CAIRN_ATTACK_NICE", "0")
RATIO = float(os.environ.get("CAIRN_ATTACK_RATIO", "0"))
ONLY = os.environ.get("CAIRN_ATTACK_KINDS", "").split()
SANITIZED = os.environ.get("CAIRN_SANITIZED") == "1"
MEMORY = 64 << 20
PLAIN = ("silent", "begun", "fields", "unread")
TLS = ("silent", "begun", "idle", "fields", "unread", "updates")
SOME = ("silent", "fields", "updates")  # where the same server is attacked in full elsewhere


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
                     *words],
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
        self.attack("driver", self.health_port, kinds=PLAIN)
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
        self.attack("sidecar", self.health_port, kinds=PLAIN)
        self.counted("connections_calmed", "connections_displaced")
        self.assert_log_is_short("sidecar")
        self.stop_in_order("sidecar")

    def test_the_manager(self):
        secret = pathlib.Path(self.directory) / "webhook-secret"
        secret.write_text("0123456789abcdef0123456789abcdef")
        port = self.serve("manager", "manager", "--webhook", f"{HOST}:PORT", "--webhook-secret",
                          secret, "--http-endpoint", self.health())
        self.attack("manager", port, "--tls", kinds=TLS)
        self.attack("manager", self.health_port, kinds=PLAIN)
        self.counted("connections_displaced")
        self.assert_log_is_short("manager")
        self.stop_in_order("manager")

    def test_diffsnap(self):
        self.start_driver()
        port = self.serve("diffsnap", "diffsnap", "--csi-address", f"unix://{self.socket}",
                          "--listen", f"{HOST}:PORT", "--advertise", f"{HOST}:PORT",
                          "--audience", "here", "--http-endpoint", self.health())
        self.attack("diffsnap", port, "--tls", kinds=SOME)
        self.attack("diffsnap", self.health_port, kinds=PLAIN[:1])
        self.assert_log_is_short("diffsnap")
        self.stop_in_order("diffsnap")

    def test_cbt_http(self):
        self.start_driver()
        port = self.serve("cbt-http", "cbt-http", "--csi-address", f"unix://{self.socket}",
                          "--listen", f"{HOST}:PORT", "--publish-url", f"https://{HOST}:PORT",
                          "--publish-ca", self.authority.crt, "--http-endpoint", self.health())
        self.attack("cbt-http", port, "--tls", kinds=SOME)
        self.attack("cbt-http", self.health_port, kinds=PLAIN[:1])
        self.assert_log_is_short("cbt-http")
        self.stop_in_order("cbt-http")

    def test_aggapi(self):
        self.put_front_proxy('["front-proxy"]')
        port = self.serve("aggapi", "aggapi", "--listen", f"{HOST}:PORT", "--http-endpoint",
                          self.health())
        self.attack("aggapi", port, "--tls", kinds=SOME)
        self.attack("aggapi", self.health_port, kinds=PLAIN[:1])
        self.assert_log_is_short("aggapi")
        self.stop_in_order("aggapi")


if __name__ == "__main__":
    unittest.main()
