#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""`cairn manager` is killed at every request that it makes for a session: once before the API
server gets the request, once after it was done and before the manager knows. Whoever comes next
ends each session as it should, with exactly one SnapshotSessionData or none."""
import base64
import json
import re
import time
import unittest
import urllib.parse

from generations import GROUP, GenerationsTest
from kube import Refused
from processes import wait_until
from relay import Relay, Trap

REQUESTS = f"/apis/{GROUP}/v1alpha2/namespaces/default/snapshotsessionrequests"
DATA = f"/apis/{GROUP}/v1alpha2/namespaces/cairn/snapshotsessiondata"
UID = f"{GROUP}/session-request-uid"
STEPS_MAX = 25
SETTLE = 2  # seconds in which a request that was to come would have


class Steps(GenerationsTest):
    driver_args = ()

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.install_sessions()
        cls.kube.apply({
            "apiVersion": f"{GROUP}/v1alpha2", "kind": "SnapshotServicesConfiguration",
            "metadata": {"name": "cairn", "labels": {f"{GROUP}/driver": "cairn.csi.dev"}},
            "spec": {"address": "cairn-driver.cairn.svc:6443", "caCert": base64.b64encode(
                cls.authority.crt.read_bytes()).decode()}})
        cls.set_expiry("10m")
        cls.history("data")
        where = urllib.parse.urlsplit(cls.kube.server)
        cls.relay = Relay(cls.bed.control_plane.authority, (where.hostname, where.port),
                          cls.kube.authority)
        cls.addClassCleanup(cls.relay.close)
        cls.start_manager()

    @classmethod
    def start_manager(cls):
        config = json.loads(cls.kube.kubeconfig_of_account("cairn", "cairn-manager").read_text())
        config["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{cls.relay.port}"
        path = cls.bed.directory / "through-the-relay.kubeconfig"
        path.write_text(json.dumps(config))
        cls.health_port = cls.port()
        cls.bed.processes.start("manager", [
            cls.bed.cairn, "manager", "--kubeconfig", path, "--log-level", "debug",
            "--no-leader-elect", "--http-endpoint", f"127.0.0.1:{cls.health_port}"])
        cls.wait_manager()

    @classmethod
    def wait_manager(cls):
        from controlplane import http_answers  # pylint: disable=import-outside-toplevel
        url = f"http://127.0.0.1:{cls.health_port}/readyz"
        cls.bed.processes.wait_ready("manager", lambda: http_answers(url))

    def revive(self):
        self.relay.arm(None)
        self.relay.forget()
        self.bed.processes.restart("manager")
        self.wait_manager()

    def create(self, name, *snapshots):
        self.kube.request("POST", REQUESTS, {
            "apiVersion": f"{GROUP}/v1alpha2", "kind": "SnapshotSessionRequest",
            "metadata": {"name": name}, "spec": {"snapshots": list(snapshots)}})

    def read(self, name):
        try:
            return self.kube.request("GET", f"{REQUESTS}/{name}")
        except Refused as refused:
            self.assertEqual(refused.status, 404)
            return None

    def finished(self, name):
        def is_so():
            made = self.read(name)
            return made if made.get("status", {}).get("sessionState") in ("Ready", "Failed") \
                else None
        return wait_until(is_so, 120, f"{name} has its end")

    def data(self):
        return self.kube.request("GET", DATA)["items"]

    def sprung(self, trap, over):
        """Whether the manager was killed; if so, another runs now. `over` says that nothing
        more is to be done for the session."""
        def known():
            if trap.sprung.is_set():
                return True
            if not over():
                return False
            return trap.sprung.wait(SETTLE) or "no"
        if wait_until(known, 120, "a step, or the end") == "no":
            self.relay.arm(None)
            return False
        self.revive()
        return True

    def every_step(self, begin, over, check):
        """Kills at each kind of request once, until there is none that was not met. The steps,
        those before the request was done and those after it."""
        return [self.steps_of("early", begin, over, check),
                self.steps_of("late", begin, over, check)]

    def steps_of(self, when, begin, over, check):
        killed = []
        stem = f"{self.id().rpartition('.')[2][5:].replace('_', '-')[:20]}-{when}"
        for turn in range(STEPS_MAX):
            name = f"{stem}-{turn}"
            trap = Trap(killed, rf"{stem}-\d+|[0-9a-f]{{64}}", when == "late",
                        lambda: self.bed.processes.kill("manager"))
            self.relay.arm(trap)
            begin(name)
            fired = self.sprung(trap, lambda name=name: over(name))
            with self.subTest(step=trap.step, when=when):
                check(name)
            if not fired:
                return killed
            killed.append(trap.step)
        self.fail(f"there is no end to them: {killed}")

    def is_finished(self, name):
        return self.read(name).get("status", {}).get("sessionState") in ("Ready", "Failed")

    def exactly_one(self, name):
        made = self.finished(name)
        self.assertEqual(made["status"]["sessionState"], "Ready", made)
        token = base64.b64decode(made["status"]["sessionToken"]).decode()
        mine = [d for d in self.data()
                if d["metadata"]["labels"][UID] == made["metadata"]["uid"]]
        self.assertEqual([d["metadata"]["name"] for d in mine], [token])
        self.assertEqual(mine[0]["spec"]["snapshots"], made["spec"]["snapshots"])
        self.kube.request("DELETE", f"{REQUESTS}/{name}")
        wait_until(lambda: not self.data(), 180, "no data is left")

    def test_a_session_on_its_way_to_ready(self):
        killed = self.every_step(lambda name: self.create(name, "data-1", "data-2"),
                                 self.is_finished, self.exactly_one)
        for steps in killed:
            for step in ("PATCH .*/status 1", "GET .*/volumesnapshots/data-2",
                         "GET .*/volumesnapshotcontents/", "POST .*/snapshotsessiondata",
                         "PATCH .*/status 2"):
                self.assertTrue([what for what in steps if re.match(step, what)], (step, killed))

    def test_a_session_on_its_way_to_failed(self):
        def failed(name):
            made = self.finished(name)
            self.assertEqual(made["status"]["sessionState"], "Failed", made)
            self.assertIn("no VolumeSnapshot", made["status"]["error"])
            self.assertEqual(self.data(), [])
            self.kube.request("DELETE", f"{REQUESTS}/{name}")
        killed = self.every_step(lambda name: self.create(name, "data-1", "none"),
                                 self.is_finished, failed)
        for steps in killed:
            self.assertGreaterEqual(len(steps), 4, killed)

    def ready(self, name):
        self.relay_trap, self.relay.trap = self.relay.trap, None
        self.create(name, "data-1")
        self.finished(name)
        time.sleep(SETTLE / 2)  # its event
        self.relay.arm(self.relay_trap)

    def nothing(self, name):
        wait_until(lambda: self.read(name) is None and not self.data(), 120, "nothing is left")

    def test_a_session_whose_request_goes(self):
        def begin(name):
            self.ready(name)
            self.kube.request("DELETE", f"{REQUESTS}/{name}")
        killed = self.every_step(begin, lambda _: not self.data(), self.nothing)
        for steps in killed:
            self.assertGreaterEqual(len(steps), 1, killed)

    def test_a_session_whose_time_is_over(self):
        self.set_expiry("10s")
        wait_until(lambda: self.bed.processes.log_text("manager").rpartition("expiry_ms")[2][:8]
                   .strip('=": ').startswith("10000"), 180, "the new setting")
        try:
            killed = self.every_step(self.ready, lambda name: self.read(name) is None and
                                     not self.data(), self.nothing)
        finally:
            self.set_expiry("10m")
        for steps in killed:
            self.assertGreaterEqual(len(steps), 2, killed)


if __name__ == "__main__":
    unittest.main()
