#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Two `cairn aggapi` behind one APIService: whichever answers, pages go on; one that is killed in
the middle of requests takes those with it and no others, and nothing hangs."""
import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import threading
import unittest
import urllib.request

from generations import HOST, GenerationsTest, blocks
from node import enter_new_network
from processes import wait_until
from test_aggapi import BLOCK, DELTAS, Stack, delta

# An EndpointSlice holds no loopback addresses, so these are the loopback device's as well.
HOSTS = ["192.0.2.1", "192.0.2.2"]
NAMES = ["aggapi-1", "aggapi-2"]
FLIGHT = 16      # requests that are on their way when one is killed
ANSWER_TIME = 90  # seconds; more is a hang: the API server itself gives up after 60
BROKEN = (500, 502, 503, 504)


class TwoReplicas(Stack):
    """Each at an address of its own, both in the EndpointSlice of the Service."""

    hosts = [HOST, *HOSTS]

    def start(self, *options):
        self.prepare()
        self.sidecar_port, _ = self.start_sidecar("cbt-http")
        self.port, self.health = self.ports.take(), {}
        for name, host in zip(NAMES, HOSTS):
            self.health[name] = self.ports.take()
            self.start_aggapi(name, "--http-endpoint", f"{HOST}:{self.health[name]}", *options,
                              host=host, port=self.port)
        self.register()

    def service(self):
        return [{"apiVersion": "v1", "kind": "Service",
                 "metadata": {"name": "cairn-aggapi", "namespace": "cairn"},
                 "spec": {"ports": [{"name": "https", "port": self.port}]}},
                self.slice(HOSTS)]

    def slice(self, ready):
        """What the endpoints of a Service are made known by."""
        return {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
                "metadata": {"name": "cairn-aggapi-1", "namespace": "cairn", "labels": {
                    "kubernetes.io/service-name": "cairn-aggapi",
                    "endpointslice.kubernetes.io/managed-by": "test"}},
                "addressType": "IPv4", "ports": [{"name": "https", "port": self.port}],
                "endpoints": [{"addresses": [host], "conditions": {"ready": host in ready}}
                              for host in HOSTS]}

    def answered(self, name):
        """How many requests for deltas the replica has answered."""
        with urllib.request.urlopen(f"http://{HOST}:{self.health[name]}/metrics",
                                    timeout=60) as reply:
            text = reply.read().decode()
        return sum(int(float(n)) for n in re.findall(
            r'cairn_aggapi_requests_total{kind="delta",code="\w+"} (\S+)', text))

    def waiting(self, name):
        """How many connections of the replica lead to the sidecar."""
        mine = set()
        for link in pathlib.Path(f"/proc/{self.processes.pid(name)}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):  # closed meanwhile
                mine.add(os.readlink(link))
        rows = [line.split() for line in
                pathlib.Path("/proc/self/net/tcp").read_text().splitlines()[1:]]
        return sum(f"socket:[{row[9]}]" in mine and row[3] == "01" and
                   int(row[2].split(":")[1], 16) == self.sidecar_port for row in rows)


class Replicas(GenerationsTest):
    # Straight to endpoints: there is no kube-proxy.
    apiserver_args = ["--enable-aggregator-routing=true"]

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.stack = TwoReplicas(cls.bed)
        cls.addClassCleanup(cls.stack.ports.close)
        cls.stack.start("--user-rate", "0", "--cache-time", "0s")
        cls.history("data")

    def entries(self, status):
        return set().union(*[blocks(entry["offset"] * BLOCK, BLOCK)
                             for entry in status["changedBlockDeltas"]])

    def ask(self, offset):
        return self.kube.ask("POST", DELTAS, delta(base="data-1", target="data-2", limit=5,
                                                   offset=offset))

    def test_pages_go_on_whichever_replica_answers(self):
        before = [self.stack.answered(name) for name in NAMES]
        found, offset = set(), 0
        while offset is not None:
            code, text = self.ask(offset)
            self.assertEqual(code, 201, text)
            status = json.loads(text)["status"]
            found |= self.entries(status)
            offset = status["continue"] if status["state"] == "Continue" else None
        self.assertEqual(found, self.truth("data-1", "data-2"))

        def both_answer():
            self.assertEqual(self.ask(0)[0], 201)
            return all(self.stack.answered(name) > n for name, n in zip(NAMES, before))
        wait_until(both_answer, 180, "both take part")

    def in_flight(self, answers):
        """Threads that ask, and kubectl that does."""
        def ask(i):
            try:
                answers[i] = self.ask(i)
            except OSError as failed:
                answers[i] = (0, str(failed))
        threads = [threading.Thread(target=ask, args=(i,)) for i in range(FLIGHT)]
        for thread in threads:
            thread.start()
        return threads

    def kill_in_the_middle(self):
        """The first replica, while the driver's sidecar keeps all waiting. How many requests
        were in each, and what all of them got."""
        answers = {}
        self.bed.processes.signal("cbt-http", signal.SIGSTOP)
        try:
            before = [self.stack.waiting(name) for name in NAMES]
            self.assertEqual(before, [0, 0])
            threads = self.in_flight(answers)
            wait_until(lambda: sum(map(self.stack.waiting, NAMES)) == FLIGHT, 120,
                       "all are on their way")
            inside = [self.stack.waiting(name) for name in NAMES]
            self.bed.processes.kill(NAMES[0])
        finally:
            self.bed.processes.signal("cbt-http", signal.SIGCONT)
        for thread in threads:
            thread.join(ANSWER_TIME)
            self.assertFalse(thread.is_alive(), "a request hangs")
        return inside, answers

    def run_again(self, name, host):
        if not self.bed.processes.is_alive(name):
            self.bed.processes.start(name, self.bed.processes.commands[name][0])
        self.bed.processes.wait_ready(name, lambda: self.stack.plain(
            self.stack.port, "GET", "/readyz", host=host)[0] == 200)

    def forget_connections(self):
        """New processes have none to the sidecar yet, so each that is there is a request."""
        for name, host in zip(NAMES, HOSTS):
            self.bed.processes.kill(name)
            self.run_again(name, host)

    def test_one_is_killed_in_the_middle_of_requests(self):
        self.addCleanup(self.run_again, NAMES[0], HOSTS[0])
        self.forget_connections()
        inside, answers = self.kill_in_the_middle()
        self.assertGreater(min(inside), 0, inside)
        codes = [code for code, _ in answers.values()]
        # Nothing that was in the other is lost, and nothing that was in it counts as done.
        self.assertEqual(codes.count(201), inside[1], (inside, codes))
        for code, text in answers.values():
            self.assertIn(code, (201, *BROKEN), text)
            if code == 201:
                self.assertTrue(json.loads(text)["status"]["changedBlockDeltas"])
            else:
                self.assertIn("error trying to reach service", text)  # the API server's word
        # Until somebody says that it is gone, an answer or an error; kubectl's too.
        codes = [self.ask(0)[0] for _ in range(12)]
        self.assertLessEqual(set(codes), {201, 503})
        self.assertIn(201, codes)
        wait_until(lambda: self.kubectl_creates(), 180, "kubectl comes through")
        # With its endpoint out, as a failed readiness probe takes it, none fails.
        self.kube.apply(self.stack.slice(HOSTS[1:]))
        wait_until(lambda: [self.ask(0)[0] for _ in range(6)] == 6 * [201], 60,
                   "the other answers all")
        for i in range(12):
            code, text = self.ask(i)
            self.assertEqual(code, 201, text)
        self.kube.kubectl("wait", "--for=condition=Available", "apiservice",
                          "v1alpha1.cbt.storage.k8s.io", "--timeout=120s")
        # It comes back, and takes its share again.
        self.run_again(NAMES[0], HOSTS[0])
        self.kube.apply(self.stack.slice(HOSTS))

        def takes_part():
            self.assertEqual(self.ask(0)[0], 201)
            return self.stack.answered(NAMES[0]) > 0
        wait_until(takes_part, 180, "it takes part again")

    def kubectl_creates(self):
        try:
            done = self.kube.run("create", "-o", "json", "-f", "-", timeout=ANSWER_TIME,
                                 text=json.dumps(delta("k", base="data-1", target="data-2")))
        except subprocess.TimeoutExpired:
            self.fail("kubectl hangs")
        if done.returncode != 0:
            self.assertTrue(done.stderr.strip(), "kubectl fails without a word")
            return False
        found = self.entries(json.loads(done.stdout)["status"])
        self.assertEqual(found, self.truth("data-1", "data-2"))
        return True


if __name__ == "__main__":
    enter_new_network()
    for address in HOSTS:
        subprocess.run(["ip", "address", "add", f"{address}/32", "dev", "lo"], check=True)
    unittest.main()
