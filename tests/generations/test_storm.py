#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Hundreds of objects of the older flavours at once: each is answered before it expires, none fails
because the controllers are busy, another tenant waits for few of them, and the memory of the manager
and its calls to the API server stay in bounds."""
import http.client
import json
import os
import pathlib
import re
import ssl
import threading
import time
import unittest
import urllib.parse
from concurrent import futures

from generations import DEPLOY, GROUP
from processes import wait_until
from test_diffsnap import DiffsnapTest
from test_sessions import SNAPSHOT, ManagerTest

# CAIRN_STORM=5000 is the whole of it, which takes a quarter of an hour.
REQUESTS = int(os.environ.get("CAIRN_STORM", "300"))
LARGE, LARGE_BYTES = 100, 200 << 10
WRITERS = 8
QUIET = ("quiet-1", "quiet-2", "quiet-3")
VERSION = f"{GROUP}/v1alpha2"


class Watch(threading.Thread):
    """States of all objects of a kind in the order in which they were written."""

    def __init__(self, storm, plural, field):
        super().__init__(daemon=True)
        self.storm, self.path, self.field = storm, f"/apis/{VERSION}/{plural}", field
        self.states, self.ended = {}, threading.Event()
        self.history = {}  # of each object: time and what its status was
        self.version = storm.kube.request("GET", f"{self.path}?limit=1")["metadata"][
            "resourceVersion"]
        self.start()

    def run(self):
        connection = self.storm.connect()
        connection.request("GET", f"{self.path}?watch=true&resourceVersion={self.version}")
        stream = connection.getresponse()
        place = 0
        for line in stream:
            if self.ended.is_set():
                return
            event = json.loads(line)
            item, place = event["object"], place + 1
            state = "Deleted" if event["type"] == "DELETED" else \
                item.get("status", {}).get(self.field, "New")
            key = item["metadata"]["namespace"], item["metadata"]["name"]
            self.states.setdefault(state, {}).setdefault(key, place)
            self.history.setdefault(key, []).append((
                f"{time.time():.1f}", state, item.get("status", {}).get("expiryTime")))

    def first(self, state):
        """{(namespace, name): place of its first event with this state}"""
        return self.states.get(state, {})


class Storm:
    """For a test of generations."""

    def connect(self):
        where = urllib.parse.urlsplit(self.kube.server)
        context = ssl.create_default_context(cafile=str(self.kube.authority))
        context.load_cert_chain(*self.kube.identity)
        return http.client.HTTPSConnection(where.hostname, where.port, context=context,
                                           timeout=600)

    def watch(self, plural, field):
        watch = Watch(self, plural, field)
        self.addCleanup(watch.ended.set)
        return watch

    def create(self, namespace, plural, kind, names, spec, **metadata):
        """All of them, from several connections."""
        def some(first):
            connection = self.connect()
            for name in names[first::WRITERS]:
                connection.request(
                    "POST", f"/apis/{VERSION}/namespaces/{namespace}/{plural}", json.dumps({
                        "apiVersion": VERSION, "kind": kind,
                        "metadata": {"name": name, **metadata}, "spec": spec}),
                    {"Content-Type": "application/json"})
                reply = connection.getresponse()
                text = reply.read()
                assert reply.status == 201, text
            connection.close()
        with futures.ThreadPoolExecutor(WRITERS) as pool:
            list(pool.map(some, range(WRITERS)))

    def calls(self, verb, resource):
        """Requests that the API server has answered."""
        text = self.kube.ask("GET", "/metrics", accept="text/plain")[1]
        return sum(float(line.rpartition(" ")[2]) for line in text.splitlines()
                   if line.startswith("apiserver_request_total{") and
                   f'resource="{resource}"' in line and re.search(f'verb="{verb}"', line))

    @classmethod
    def by_hand(cls, namespace, name, driver):
        """A ready VolumeSnapshot that no driver made."""
        content, group = f"content-{namespace}-{name}", f"/apis/{SNAPSHOT}/v1"
        objects = f"{group}/namespaces/{namespace}/volumesnapshots"
        cls.kube.request("POST", f"{group}/volumesnapshotcontents", {
            "apiVersion": f"{SNAPSHOT}/v1", "kind": "VolumeSnapshotContent",
            "metadata": {"name": content},
            "spec": {"driver": driver, "deletionPolicy": "Retain",
                     "source": {"snapshotHandle": "handle"},
                     "volumeSnapshotRef": {"namespace": namespace, "name": name}}})
        cls.kube.request("POST", objects, {
            "apiVersion": f"{SNAPSHOT}/v1", "kind": "VolumeSnapshot", "metadata": {"name": name},
            "spec": {"source": {"volumeSnapshotContentName": content}}})
        merge = {"content_type": "application/merge-patch+json"}
        cls.kube.request("PATCH", f"{group}/volumesnapshotcontents/{content}/status", {
            "status": {"snapshotHandle": "handle", "readyToUse": True}}, **merge)
        cls.kube.request("PATCH", f"{objects}/{name}/status", {
            "status": {"boundVolumeSnapshotContentName": content, "readyToUse": True}}, **merge)


class Sessions(Storm, ManagerTest):
    expiry = "15s"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        # The webhook has limits of its own, which are not looked at here.
        cls.kube.delete("validatingwebhookconfiguration", "cairn-sessions")
        for name in QUIET:
            cls.kube.namespace(name)
            cls.by_hand(name, "quiet", "cairn.csi.dev")
        cls.by_hand("default", "loud", "cairn.csi.dev")

    def ask_for(self, namespace, names, snapshot, **metadata):
        self.create(namespace, "snapshotsessionrequests", "SnapshotSessionRequest", names,
                    {"snapshots": [snapshot]}, **metadata)

    def memory(self):
        """Private memory of the manager in bytes."""
        text = pathlib.Path(f"/proc/{self.bed.processes.pid('manager')}/smaps_rollup").read_text()
        return 1024 * sum(int(line.split()[1]) for line in text.splitlines()
                          if line.startswith(("Private_Dirty:", "Private_Clean:")))

    def test_a_storm_of_requests(self):
        watch = self.watch("snapshotsessionrequests", "sessionState")
        before, lists, gets = self.memory(), self.calls("LIST", "snapshotsessiondata"), \
            self.calls("GET", "volumesnapshots")
        peak = [before]
        self.ask_for("default", [f"r-{i}" for i in range(REQUESTS)], "loud")
        for name in QUIET:
            self.ask_for(name, ["r"], "quiet")
        total = REQUESTS + len(QUIET)

        def all_ended():
            peak.append(self.memory())
            return len(watch.first("Deleted")) == total
        wait_until(all_ended, 60 + 3 * REQUESTS, "all sessions ended")
        ready, deleted = watch.first("Ready"), watch.first("Deleted")
        self.assertEqual(watch.first("Failed"), {})
        # Nothing expires before it could be used.
        self.assertEqual(set(ready), set(deleted),
                         [watch.history[key] for key in set(deleted) - set(ready)])
        # Of the tenants with one request, at least one shares its lane with nobody by chance.
        made = {key: place for key, place in watch.first("New").items() if key[0] in QUIET}
        waited = min(sum(made[key] < place < ready[key] for (namespace, _), place in ready.items()
                         if namespace == "default") for key in made)
        print(f"{REQUESTS} requests: {(max(peak) - before) >> 10} KiB at most, a request of another "
              f"tenant was served after {waited} of them")
        self.assertLess(waited, 20)
        self.assertLess(max(peak) - before, (8 << 20) + REQUESTS * (8 << 10))
        # One snapshot is read for each, and no list of all sessions.
        self.assertLess(self.calls("GET", "volumesnapshots") - gets, 2 * total)
        self.assertLess(self.calls("LIST", "snapshotsessiondata") - lists, total / 2)
        wait_until(lambda: not self.data(), 180, "no data is left")

    def test_large_requests_are_not_kept(self):
        watch = self.watch("snapshotsessionrequests", "sessionState")
        before = self.memory()
        self.ask_for("default", [f"large-{i}" for i in range(LARGE)], "loud",
                     annotations={"a": "x" * LARGE_BYTES})
        wait_until(lambda: len(watch.first("Ready")) == LARGE, 600, "all are served")
        print(f"{LARGE} of {LARGE_BYTES >> 10} KiB: {(self.memory() - before) >> 10} KiB")
        self.assertLess(self.memory() - before, LARGE * LARGE_BYTES // 2)


class Differentials(Storm, DiffsnapTest):
    """More than the controller answers in the time after which an object counts as unclaimed."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.history("data")
        cls.by_hand("default", "nobodys", "nobody.csi.dev")
        cls.kube.apply_files(*sorted((DEPLOY / "components/sessions").glob("snapshot*.yaml")),
                             DEPLOY / "components/sessions/rbac.yaml")
        cls.kube.wait_crds()
        cls.bed.processes.start("manager", [
            cls.bed.cairn, "manager", "--kubeconfig",
            cls.kube.kubeconfig_of_account("cairn", "cairn-manager"), "--unclaimed-after", "5s"])

    def test_who_waits_for_a_busy_controller_does_not_fail(self):
        watch = self.watch("differentialsnapshots", "state")
        names = [f"d-{i}" for i in range(REQUESTS)]
        both = {"baseVolumeSnapshotName": "data-1", "targetVolumeSnapshotName": "data-2"}
        self.create("default", "differentialsnapshots", "DifferentialSnapshot", names, both)
        self.create("default", "differentialsnapshots", "DifferentialSnapshot", ["unclaimed"],
                    {"targetVolumeSnapshotName": "nobodys"})
        wait_until(lambda: len(watch.first("Success")) == REQUESTS, 60 + 3 * REQUESTS,
                   "all are answered")
        wait_until(lambda: watch.first("Failure"), 120, "the one without a controller fails")
        self.assertEqual(list(watch.first("Failure")), [("default", "unclaimed")])


if __name__ == "__main__":
    unittest.main()
