#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The test bed itself: a control plane that keeps its rules, and goes without a trace."""
import os
import pathlib
import signal
import subprocess
import sys
import unittest

import cluster
from kube import Refused
from processes import started_at, wait_until

cluster.peers_or_skip(*cluster.CONTROL_PLANE)


class Tokens(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.bed = cls.enterClassContext(cluster.Cluster(crds=True))
        cls.kube = cls.bed.kube
        cls.kube.namespace("one")
        cls.kube.service_account("one", "client")

    def review(self, token, audience):
        return self.kube.request("POST", "/apis/authentication.k8s.io/v1/tokenreviews", {
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
            "spec": {"token": token, "audiences": [audience]}})["status"]

    def test_a_token_is_good_for_its_audience_only(self):
        token = self.kube.token("one", "client", audience="mine", seconds=600)
        status = self.review(token, "mine")
        self.assertTrue(status["authenticated"])
        self.assertEqual(status["user"]["username"], "system:serviceaccount:one:client")
        self.assertFalse(self.review(token, "other").get("authenticated"))
        with self.assertRaises(Refused) as caught:
            self.kube.request("GET", "/api/v1/namespaces", token=token)
        self.assertEqual(caught.exception.status, 401)

    def test_an_account_may_what_it_was_allowed(self):
        path = "/api/v1/namespaces/one/configmaps"
        token = self.kube.token("one", "client")
        with self.assertRaises(Refused) as caught:
            self.kube.request("GET", path, token=token)
        self.assertEqual(caught.exception.status, 403)
        self.kube.allow("reader", "one:client", [("", "configmaps", "get list")], namespace="one")
        wait_until(lambda: self.kube.ask("GET", path, token=token)[0] == 200, 180, "allowed")
        self.assertEqual(self.kube.ask("GET", "/api/v1/configmaps", token=token)[0], 403)
        config = self.kube.kubeconfig_of_account("one", "client")
        self.kube.kubectl("get", "configmaps", kubeconfig=config)

    def test_the_api_server_comes_back(self):
        self.bed.processes.kill("kube-apiserver")
        self.assertFalse(self.kube.answers("/readyz"))
        self.bed.processes.restart("kube-apiserver")
        self.bed.processes.wait_ready("kube-apiserver", lambda: self.kube.answers("/readyz"))
        self.assertIsNotNone(self.kube.get("namespace", "one"))


class Leftovers(unittest.TestCase):
    def assert_gone(self, directory, pids):
        wait_until(lambda: not directory.exists(), 180, f"{directory} is gone")
        wait_until(lambda: not any(started_at(pid) for pid in pids), 180, "its processes are gone")

    def pids(self, processes):
        return [processes.pid(name) for name in processes.names()]

    def test_two_run_beside_each_other_and_leave_nothing(self):
        with cluster.Cluster() as first, cluster.Cluster() as second:
            for bed in (first, second):
                bed.kube.apply({"apiVersion": "v1", "kind": "ConfigMap",
                                "metadata": {"name": "whose"},
                                "data": {"bed": str(bed.directory)}})
            for bed in (first, second):
                found = bed.kube.get("configmap", "whose")
                self.assertEqual(found["data"]["bed"], str(bed.directory))
            pids = self.pids(first.processes) + self.pids(second.processes)
            self.assertEqual(len(pids), 2 * 4)
            self.assertNotIn(None, pids)
        self.assert_gone(first.directory, pids)
        self.assert_gone(second.directory, pids)

    def test_it_goes_when_its_program_is_killed(self):
        program = ("import cluster, time; c = cluster.Cluster(); c.start();"
                   "print(c.directory, flush=True); time.sleep(600)")
        with subprocess.Popen([sys.executable, "-c", program], cwd=cluster.HERE, text=True,
                              stdout=subprocess.PIPE) as child:
            directory = pathlib.Path(child.stdout.readline().strip())
            pids = self.pids(cluster.Processes(directory))
            self.assertEqual(len(pids), 4)
            child.kill()
        self.assert_gone(directory, pids)

    def test_up_and_down_by_hand(self):
        directory = pathlib.Path(f"/tmp/cairn-cluster-by-hand-{os.getpid()}")
        done = subprocess.run([cluster.HERE / "up", directory], capture_output=True, text=True,
                              check=True, timeout=120)
        self.assertIn(f"KUBECONFIG={directory}/admin.kubeconfig", done.stdout)
        pids = self.pids(cluster.Processes(directory))
        again = subprocess.run([cluster.HERE / "up", directory], capture_output=True, text=True,
                               check=False, timeout=120)
        self.assertNotEqual(again.returncode, 0)
        self.assertIn("there is a cluster already", again.stderr)
        subprocess.run([cluster.HERE / "down", directory], check=True, timeout=120)
        self.assert_gone(directory, pids)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    unittest.main()
