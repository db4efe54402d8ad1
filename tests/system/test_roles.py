#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Every role that talks to an API server, from its start to SIGTERM, with an API server that
is played by the test: it ends in order, leading and not leading, with nothing that a sanitizer
reports."""
import threading
import unittest

from rolesbed import GROUP, HOST, SECONDS, RolesTest, wait_until
from fakekube import now

LEASES = "/apis/coordination.k8s.io/v1/namespaces/cairn/leases"


class Manager(RolesTest):
    def make_work(self, n):
        """Requests of sessions, each of which costs the leader several writes."""
        for i in range(n):
            self.kube.put(f"/apis/{GROUP}/v1alpha2/namespaces/app/snapshotsessionrequests", {
                "apiVersion": f"{GROUP}/v1alpha2", "kind": "SnapshotSessionRequest",
                "metadata": {"name": f"r{i}"}, "spec": {"snapshots": ["absent"]}})

    def test_a_leader_stops_in_order(self):
        self.make_work(40)
        self.start("manager", "manager")
        self.said("manager", '"leading"')
        wait_until(lambda: self.kube.list(LEASES), SECONDS, "the lease is held")
        self.make_work(80)
        self.stop_in_order("manager")
        lease = self.kube.list(LEASES)[0]
        self.assertFalse(lease["spec"].get("holderIdentity"), "the lease was not given back")

    def test_a_leader_of_discoveries_only_stops_in_order(self):
        self.start("manager", "manager", "--no-sessions")
        self.said("manager", '"leading"')
        with open(f"/proc/{self.processes.pid('manager')}/limits", encoding="ascii") as limits:
            self.assertRegex(limits.read(), r"Max core file size +0 +0 ")
        self.stop_in_order("manager")

    def test_one_that_does_not_lead_stops_in_order(self):
        self.kube.put(LEASES, {
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": "cairn-manager", "namespace": "cairn"},
            "spec": {"holderIdentity": "another", "leaseDurationSeconds": 3600,
                     "acquireTime": now(), "renewTime": now()}})
        self.make_work(20)
        self.start("manager", "manager")
        self.said("manager", '"serving"')
        wait_until(lambda: ("GET", f"{LEASES}/cairn-manager", None) in self.kube.requests,
                   SECONDS, "the lease is looked at")
        self.stop_in_order("manager")

    def test_without_an_election_it_stops_in_order(self):
        self.make_work(20)
        self.start("manager", "manager", "--no-leader-elect")
        self.said("manager", '"leading"')
        self.stop_in_order("manager")


class Servers(RolesTest):
    """The roles beside a driver, under load when the signal comes."""

    def setUp(self):
        super().setUp()
        self.start_driver()
        self.put_front_proxy("[]")

    def stop_under_load(self, name, port, path):
        """Callers with bad tokens, good ones and none, until the server has gone."""
        token = self.kube.account("app", "reader")
        over = threading.Event()

        def call(number):
            while not over.is_set():
                which = (None, f"bad-{number}", token)[number % 3]
                self.ask(port, "GET", path, token=which)
        threads = [threading.Thread(target=call, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        try:
            wait_until(lambda: len(self.kube.token_reviews) > 3, SECONDS, "tokens are reviewed")
            self.stop_in_order(name)
        finally:
            over.set()
            for thread in threads:
                thread.join()

    def test_diffsnap(self):
        port = self.serve("diffsnap", "diffsnap", "--csi-address", f"unix://{self.socket}",
                          "--listen", f"{HOST}:PORT", "--advertise", f"{HOST}:PORT")
        self.stop_under_load("diffsnap", port, "/namespaces/app/diff?target=after")

    def test_aggapi(self):
        port = self.serve("aggapi", "aggapi", "--listen", f"{HOST}:PORT")
        self.stop_under_load("aggapi", port, f"/apis/{GROUP}/v1alpha1")

    def test_cbt_http_that_leads_and_one_that_does_not(self):
        ports = [self.serve(name, "cbt-http", "--csi-address", f"unix://{self.socket}",
                            "--listen", f"{HOST}:PORT", "--publish-url", f"https://{HOST}:PORT",
                            "--leader-election") for name in ("one", "two")]
        wait_until(lambda: self.kube.list(LEASES), SECONDS, "one leads")
        for name, port in zip(("two", "one"), reversed(ports)):
            self.ask(port, "POST", "/v1/deltas", {}, token="bad")
            self.ask(port, "POST", "/v1/block", {"token": "x"}, token="bad")
            self.stop_in_order(name)

    def test_sidecar(self):
        port = self.ports.take()
        self.start("sidecar", "sidecar", "--csi-address", self.socket, "--port", str(port),
                   "--bind-address", HOST, "--tls-cert", self.cert, "--tls-key", self.key,
                   "--audience", "a", "--http-endpoint", "", "--sessions",
                   "--session-namespace", "cairn")
        self.said("sidecar", "the CSI driver is ready")
        self.stop_in_order("sidecar")

    def test_driver(self):
        self.stop_in_order("driver")


if __name__ == "__main__":
    unittest.main()
