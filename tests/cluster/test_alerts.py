#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Every alert fires when its cause is made with the real programs, and is quiet otherwise: their
metrics, as they report them, become the series of promtool. Alerts and dashboard name no metric that
no program reports."""
import base64
import http.server
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time
import unittest
import urllib.request

import yaml

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "system"))

# pylint: disable=wrong-import-position
from csidriver import Failed, Peer
from processes import wait_until
from promtool import DASHBOARD, METRIC, RULES, alerts, differs, promtool_or_skip, samples_of
from rolesbed import BIN, HOST, SECONDS, RolesTest
from pki import SERVER

MIB = 1 << 20
HOUR = 60  # minutes
LIFE = 10  # days of a certificate near its end


class Gateway:
    """A push gateway: PUT replaces the metrics of a group, POST those that it names."""

    def __init__(self, case):
        groups = self.groups = {}

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_PUT(self):
                text = self.rfile.read(int(self.headers["Content-Length"])).decode()
                volume = self.path.removeprefix("/metrics/job/cairn_backup/volume/")
                kept = groups.get(volume, {}) if self.command == "POST" else {}
                groups[volume] = {**kept, **samples_of(text, case.now, volume=volume)}
                self.send_response(200)
                self.end_headers()

            do_POST = do_PUT

            def log_message(self, *args):
                pass

        self.server = http.server.HTTPServer((HOST, 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://{HOST}:{self.server.server_port}"

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def samples(self):
        return {name: value for group in self.groups.values() for name, value in group.items()}


class Alerts(RolesTest):
    @classmethod
    def setUpClass(cls):
        promtool_or_skip()
        super().setUpClass()

    def setUp(self):
        super().setUp()
        self.now = time.time()
        self.http = {}
        self.gateway = Gateway(self)
        self.addCleanup(self.gateway.close)
        self.environment = {**os.environ, "CAIRN_REPOSITORY": str(self.directory / self.id()),
                            "RESTIC_PASSWORD": "alerts",
                            "XDG_CACHE_HOME": str(self.directory / "cache")}

    # ---- programs ----

    def begin_driver(self):
        self.http["driver"] = self.ports.take()
        self.start_driver("--http-endpoint", f"{HOST}:{self.http['driver']}")
        self.peer = Peer(self.socket)
        self.addCleanup(self.peer.close)
        self.peer.call("Identity.Probe")

    def begin_sidecar(self, days=None):
        """With a certificate that ends in so many days."""
        cert, key = self.cert, self.key
        if days:
            cert, key = self.authority.issue("short", "/CN=short", SERVER, ["IP:127.0.0.1"],
                                             days=days)
        self.http["sidecar"] = self.ports.take()
        self.start("sidecar", "sidecar", "--csi-address", self.socket, "--port",
                   str(self.ports.take()), "--bind-address", HOST, "--tls-cert", cert,
                   "--tls-key", key, "--audience", "a", "--http-endpoint",
                   f"{HOST}:{self.http['sidecar']}")
        self.said("sidecar", "the CSI driver is ready")

    def begin_keeper(self, days=None):
        """With a Secret that another authority made, for so many days."""
        if days:
            cert, key = self.authority.issue("theirs", "/CN=theirs", SERVER,
                                             ["DNS:cairn-diffsnap.cairn.svc"], days=days)
            files = {"tls.crt": cert, "tls.key": key, "ca.crt": self.authority.crt}
            self.kube.put("/api/v1/namespaces/cairn/secrets", {
                "apiVersion": "v1", "kind": "Secret",
                "metadata": {"name": "cairn-diffsnap-tls", "namespace": "cairn"},
                "data": {name: base64.b64encode(file.read_bytes()).decode()
                         for name, file in files.items()}})
        self.http["manager"] = self.ports.take()
        self.start("manager", "manager", "--certificates=all", "--http-endpoint",
                   f"{HOST}:{self.http['manager']}")
        self.said("manager", "is left alone" if days else "certificate created")
        wait_until(lambda: any(name.startswith("cairn_certificates_expiry_") and value
                               for name, value in self.scrape("manager").items()), SECONDS,
                   "the Secrets are looked at")

    def scrape(self, *roles):
        found = {}
        for role in roles or self.http:
            with urllib.request.urlopen(f"http://{HOST}:{self.http[role]}/metrics",
                                        timeout=SECONDS) as reply:
                found.update(samples_of(reply.read().decode(), self.now, pod=role))
        return found

    def backup(self, *words, status=0, **environment):
        done = subprocess.run([BIN, "--pool", self.pool, "backup", *map(str, words)], text=True,
                              env={**self.environment, **environment}, capture_output=True,
                              stdin=subprocess.DEVNULL, timeout=SECONDS, check=False)
        self.assertEqual(done.returncode == 0, status == 0, done.stderr)

    def pushed(self, *words, **how):
        self.backup("create", *words, "--push-gateway", self.gateway.url, **how)
        return self.gateway.samples()

    def written(self, *words, **how):
        """What a run leaves in the file for node_exporter."""
        file = self.directory / "metrics.prom"
        self.backup(*words, "--metrics-file", file, **how)
        return samples_of(file.read_text(), self.now, instance="host")

    def assert_firing(self, phases, minute, want):
        self.assertEqual(differs(phases, minute, want), "")

    # ---- what must hold ----

    def test_names_and_quiet(self):
        """In good order nothing fires, and every metric of a query is reported."""
        self.begin_driver()
        self.begin_sidecar()
        self.begin_keeper()
        self.http["diffsnap"] = self.ports.take()
        self.serve("diffsnap", "diffsnap", "--csi-address", f"unix://{self.socket}", "--listen",
                   f"{HOST}:PORT", "--advertise", f"{HOST}:PORT", "--http-endpoint",
                   f"{HOST}:{self.http['diffsnap']}")
        self.backup("init")
        found = {**self.pushed("vol@before"), **self.written("verify"),
                 **self.written("forget", "--keep-last", "5"), **self.scrape()}
        self.assert_firing([(2 * HOUR, found)], HOUR, {})
        queries = [rule["expr"] for group in yaml.safe_load(RULES.read_text())["groups"]
                   for rule in group["rules"]]
        queries += [target["expr"] for panel in json.loads(DASHBOARD.read_text())["panels"]
                    for target in panel["targets"]]
        reported = {name.split("{")[0] for name in found}
        for query in queries:
            for name in METRIC.findall(query):
                self.assertIn(name, reported, query)
        # Labels that rules and panels select by.
        labels = {label for name in found for label in re.findall(r'([a-z_]+)="', name)}
        for query in queries:
            for label in re.findall(r"([a-z_]+)=~?\"", query):
                self.assertIn(label, labels, query)

    def test_backups(self):
        self.begin_driver()
        self.backup("init")
        good = self.pushed("vol@before")
        self.assert_firing([(30 * HOUR, good)], 25 * HOUR, {})
        self.assert_firing([(30 * HOUR, good)], 27 * HOUR, {"CairnBackupTooOld": 1})
        bad = self.pushed("vol@after", status=1, RESTIC_PASSWORD="wrong")
        self.assert_firing([(HOUR, good), (HOUR, bad)], HOUR + 30, {"CairnBackupFailed": 1})
        well = self.pushed("vol@after")
        self.assert_firing([(HOUR, bad), (HOUR, well)], HOUR + 30, {})
        full = self.pushed("vol@after", "--mode", "allocated")
        self.assert_firing([(HOUR, good), (HOUR, well), (HOUR, full)], 2 * HOUR + 30,
                         {"CairnBackupFellBackToFull": 1})
        # A first backup reads everything, and is no fall-back.
        self.assert_firing([(HOUR, good)], 30, {})

    def test_backups_of_a_host(self):
        self.begin_driver()
        self.backup("init")
        bad = self.written("create", "vol@before", status=1, RESTIC_PASSWORD="wrong")
        self.assert_firing([(2 * HOUR, bad)], HOUR, {"CairnBackupFailed": 1})
        # One that never succeeded is old as well, but promtool's time begins at 0.
        self.assert_firing([(30 * HOUR, bad)], 27 * HOUR,
                         {"CairnBackupFailed": 1, "CairnBackupTooOld": 1})

    def test_a_damaged_repository(self):
        self.begin_driver()
        self.backup("init")
        self.backup("create", "vol@before")
        pack = max(pathlib.Path(self.environment["CAIRN_REPOSITORY"]).glob("data/*/*"),
                   key=lambda path: path.stat().st_size)
        pack.chmod(0o600)
        with open(pack, "r+b") as file:
            file.write(b"x" * 64)
        bad = self.written("verify", status=1)
        self.assert_firing([(2 * HOUR, bad)], HOUR, {"CairnVerifyFailed": 1})

    def test_forgetting(self):
        self.begin_driver()
        self.backup("init")
        bad = self.written("forget", "--keep-last", "1", status=1, RESTIC_PASSWORD="wrong")
        self.assert_firing([(2 * HOUR, bad)], HOUR, {"CairnForgetFailed": 1})

    @unittest.skipUnless(os.geteuid() == 0, "mounts a small filesystem")
    def test_a_full_pool(self):
        small = self.directory / "small"
        small.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64M", "none", small], check=True)
        self.addCleanup(subprocess.run, ["umount", "--lazy", small], check=True)
        self.directory = small
        self.begin_driver()
        self.assert_firing([(2 * HOUR, self.scrape())], HOUR, {})
        for share, want in ((0.05, {"CairnPoolNearlyFull": 1}),
                            (0.01, {"CairnPoolNearlyFull": 1, "CairnPoolFull": 1})):
            disk = os.statvfs(small)
            free = disk.f_bavail * disk.f_frsize
            leave = int(disk.f_blocks * disk.f_frsize * share)
            with open(small / f"filler-{share}", "wb") as file:
                os.posix_fallocate(file.fileno(), 0, free - leave)
            self.assert_firing([(2 * HOUR, self.scrape())], HOUR, want)

    def test_a_certificate_near_its_end(self):
        self.begin_driver()
        self.begin_sidecar(days=LIFE)
        found = self.scrape("sidecar")
        self.assert_firing([(2 * HOUR, found)], HOUR, {"CairnCertificateNearEnd": 1})

    def test_a_certificate_that_nobody_renews(self):
        self.begin_keeper(days=LIFE)
        self.assert_firing([(2 * HOUR, self.scrape("manager"))], HOUR,
                           {"CairnCertificateNotRenewed": 1})

    def test_a_driver_that_is_gone(self):
        self.begin_driver()
        self.begin_sidecar()
        self.assert_firing([(2 * HOUR, self.scrape("sidecar"))], HOUR, {})
        self.processes.kill("driver")
        wait_until(lambda: any(name.startswith("cairn_sidecar_driver_ready") and value == 0
                               for name, value in self.scrape("sidecar").items()), SECONDS,
                   "the sidecar notices")
        self.assert_firing([(2 * HOUR, self.scrape("sidecar"))], HOUR,
                         {"CairnDriverNotReady": 1})

    def test_a_driver_that_fails(self):
        self.begin_driver()
        phases = [(15, self.scrape("driver"))]
        for file in (self.pool / "sets").rglob("*"):
            if file.is_file():
                file.chmod(0o600)
                file.write_bytes(b"x" * file.stat().st_size)
        for _ in range(25):
            with self.assertRaises(Failed):
                self.peer.stream("SnapshotMetadata.GetMetadataDelta",
                                 base_snapshot_id=self.handles["before"],
                                 target_snapshot_id=self.handles["after"])
            phases.append((1, self.scrape("driver")))
        self.assert_firing(phases, 15 + 24, {"CairnDriverErrors": 1})
        # Errors of callers do not count.
        quiet = [(15, phases[-1][1])]
        for _ in range(25):
            with self.assertRaises(Failed):
                self.peer.call("Controller.CreateSnapshot", name="x", source_volume_id="no")
            quiet.append((1, self.scrape("driver")))
        self.assert_firing(quiet, 15 + 24, {})

    def test_each_alert_has_its_cause_here(self):
        text = pathlib.Path(__file__).read_text()
        self.assertEqual([name for name in alerts() if f'"{name}"' not in text], [])


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    unittest.main()
