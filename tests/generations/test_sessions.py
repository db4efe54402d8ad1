#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""`cairn manager` on a real control plane: sessions from Pending to Ready, Failed and gone, the
webhook, elections, kills, and DriverDiscovery."""
import base64
import http.client
import itertools
import json
import os
import re
import ssl
import time
import unittest
import urllib.parse
import urllib.request
from concurrent import futures

from generations import (
    DEPLOY, GROUP, HOST, WEBHOOK_PATH, GenerationsTest, webhook_secret)
from processes import wait_until

SNAPSHOT = "snapshot.storage.k8s.io"
LABEL = f"{GROUP}/driver"
UID = f"{GROUP}/session-request-uid"
# CAIRN_EXPIRED=10000 is the whole of it, which takes minutes; the rate must be below what an API
# server does by itself, or nothing is shown.
EXPIRED, RATE, WRITERS = int(os.environ.get("CAIRN_EXPIRED", "800")), 20, 4
BURST = 2 * RATE


class ManagerTest(GenerationsTest):
    expiry = "10m"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.install_sessions()
        cls.set_expiry(cls.expiry)
        cls.configure("cairn", "cairn.csi.dev")
        for name in ("app", "nobody", "one-only"):
            cls.kube.service_account("default", name)
        for name in ("app", "nobody", "one-only"):
            cls.kube.allow(f"session-{name}", f"default:{name}", role="cairn-session-client",
                           namespace="default")
        cls.kube.allow("snapshots-app", "default:app", rules=[
            (SNAPSHOT, "volumesnapshots", "get")], namespace="default")
        cls.app = cls.kube.kubeconfig_of_account("default", "app")
        cls.nobody = cls.kube.kubeconfig_of_account("default", "nobody")
        cls.config = cls.kube.kubeconfig_of_account("cairn", "cairn-manager")
        cls.webhook_port = cls.port()
        cls.webhook(cls.webhook_port)
        cls.health_ports = {}
        cls.start("manager", webhook=True)

    @classmethod
    def configure(cls, name, driver, address="cairn-driver.cairn.svc:6443"):
        cls.kube.apply({"apiVersion": f"{GROUP}/v1alpha2", "kind": "SnapshotServicesConfiguration",
                        "metadata": {"name": name, "labels": {LABEL: driver}},
                        "spec": {"address": address, "caCert": base64.b64encode(
                            cls.authority.crt.read_bytes()).decode()}})

    @classmethod
    def webhook(cls, port):
        """As deploy/sessions/webhook.yaml, but at an address of the test."""
        text = (DEPLOY / "components/sessions/webhook.yaml").read_text()
        ca = base64.b64encode(cls.authority.crt.read_bytes()).decode()
        text = re.sub(r"clientConfig:\n(      .*\n)+", "clientConfig:\n"
                      f"      url: https://{HOST}:{port}{WEBHOOK_PATH}\n"
                      f"      caBundle: {ca}\n", text)
        cls.kube.apply(text)

    @classmethod
    def start(cls, name, webhook=False, *more):
        cls.health_ports[name] = cls.port()
        words = ["--webhook", f"{HOST}:{cls.webhook_port}", "--tls-cert", cls.cert,
                 "--tls-key", cls.key, "--webhook-secret",
                 webhook_secret(cls.bed.directory)] if webhook else []
        cls.bed.processes.start(name, [
            cls.bed.cairn, "manager", "--kubeconfig", cls.config, "--log-level", "debug",
            "--http-endpoint", f"{HOST}:{cls.health_ports[name]}", *words, *more])
        cls.bed.processes.wait_ready(name, lambda: cls.answers(name))

    @classmethod
    def health(cls, name, path):
        with urllib.request.urlopen(f"http://{HOST}:{cls.health_ports[name]}{path}",
                                    timeout=60) as reply:
            return reply.read().decode()

    @classmethod
    def answers(cls, name):
        try:
            return cls.health(name, "/readyz") == "ok"
        except OSError:
            return False

    def request(self, name, *snapshots, wait=True, kubeconfig=None):
        """The request once it is Ready or Failed."""
        self.kube.kubectl("create", "-f", "-", kubeconfig=kubeconfig, text=json.dumps({
            "apiVersion": f"{GROUP}/v1alpha2", "kind": "SnapshotSessionRequest",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"snapshots": list(snapshots)}}))
        self.addCleanup(self.kube.delete, "snapshotsessionrequest", name)
        return self.finished(name) if wait else None

    def finished(self, name):
        return self.kube.wait(lambda made: made.get("status", {}).get("sessionState") in
                              ("Ready", "Failed"), "snapshotsessionrequest", name)

    def data(self, namespace="cairn"):
        return self.kube.get("-n", namespace, "snapshotsessiondata")["items"]

    def data_of(self, request):
        return [item for item in self.data()
                if item["metadata"]["labels"][UID] == request["metadata"]["uid"]]

    def fails(self, text, *args, **how):
        status = self.request(*args, **how)["status"]
        self.assertEqual(status["sessionState"], "Failed", status)
        self.assertIn(text, status["error"])
        self.assertNotIn("sessionToken", status)

    def fails_soon(self, text, name, *snapshots):
        """The manager hears a moment later of what was just configured."""
        turns = itertools.count()
        made = wait_until(lambda: (lambda one: text in one["status"].get("error", "") and one)(
            self.request(f"{name}-{next(turns)}", *snapshots)), 60, text)
        return made["metadata"]["name"]

    def by_hand(self, name, driver):
        """A ready VolumeSnapshot that no driver made."""
        self.kube.apply([
            {"apiVersion": f"{SNAPSHOT}/v1", "kind": "VolumeSnapshotContent",
             "metadata": {"name": f"content-{name}"},
             "spec": {"driver": driver, "deletionPolicy": "Retain",
                      "source": {"snapshotHandle": "handle"},
                      "volumeSnapshotRef": {"namespace": "default", "name": name}}},
            {"apiVersion": f"{SNAPSHOT}/v1", "kind": "VolumeSnapshot", "metadata": {"name": name},
             "spec": {"source": {"volumeSnapshotContentName": f"content-{name}"}}}])
        for kind, which, status in (
                ("volumesnapshotcontent", f"content-{name}",
                 {"snapshotHandle": "handle", "readyToUse": True}),
                ("volumesnapshot", name, {"boundVolumeSnapshotContentName": f"content-{name}",
                                          "readyToUse": True})):
            self.kube.kubectl("patch", kind, which, "--subresource=status", "--type=merge", "-p",
                              json.dumps({"status": status}))


class Story(ManagerTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.history("data")

    def test_a_session_becomes_ready(self):
        made = self.request("good", "data-1", "data-2", kubeconfig=self.app)
        status = made["status"]
        self.assertEqual(status["sessionState"], "Ready", status)
        self.assertEqual(status["sessionURL"], "cairn-driver.cairn.svc:6443")
        self.assertEqual(base64.b64decode(status["caCert"]), self.authority.crt.read_bytes())
        token = base64.b64decode(status["sessionToken"]).decode()
        self.assertRegex(token, "^[0-9a-f]{64}$")
        data, = self.data_of(made)
        self.assertEqual(data["metadata"]["name"], token)
        self.assertEqual(data["spec"], {"expiryTime": status["expiryTime"],
                                        "snapshotNamespace": "default",
                                        "snapshots": ["data-1", "data-2"]})
        self.assertNotIn(token, self.bed.processes.log_text("manager"))
        self.assertRegex(self.kube.kubectl("get", "snapshotsessionrequest", "good"),
                         "good +Ready +cairn-driver.cairn.svc:6443")
        wait_until(lambda: "SessionReady" in self.kube.kubectl(
            "describe", "snapshotsessionrequest", "good"), 180, "an event")
        # Ending the request ends the session.
        self.kube.delete("snapshotsessionrequest", "good")
        wait_until(lambda: not self.data_of(made), 180, "the data is gone")
        self.assertRegex(self.health("manager", "/metrics"), "cairn_session_ready_total [1-9]")

    def test_what_can_not_be_a_session_fails(self):
        self.fails("no VolumeSnapshot 'default/none'", "missing", "data-1", "none")
        self.by_hand("foreign", "other.csi.dev")
        self.fails("several drivers", "mixed", "data-1", "foreign")
        self.fails("no SnapshotServicesConfiguration", "unconfigured", "foreign")
        self.configure("other", "other.csi.dev")
        self.addCleanup(self.kube.delete, "snapshotservicesconfigurations", "other")
        self.configure("other-too", "other.csi.dev")
        self.addCleanup(self.kube.delete, "snapshotservicesconfigurations", "other-too")
        name = self.fails_soon("several SnapshotServicesConfigurations", "twice", "foreign")
        # A reason that passes.
        self.kube.delete("snapshotservicesconfigurations", "other-too")
        self.kube.wait(lambda made: made["status"]["sessionState"] == "Ready",
                       "snapshotsessionrequest", name)

    def test_an_ip_address_is_enough_of_a_configuration(self):
        """As in the proposal, which knows no annotation for the driver's namespace."""
        self.by_hand("plain", "plain.csi.dev")
        self.configure("plain", "plain.csi.dev", "10.0.0.1:6443")
        self.addCleanup(self.kube.delete, "snapshotservicesconfigurations", "plain")
        made = self.request("by-address", "plain")
        self.assertEqual(made["status"]["sessionState"], "Ready", made["status"])
        self.assertEqual(made["status"]["sessionURL"], "10.0.0.1:6443")
        data, = self.data_of(made)
        self.assertEqual(data["metadata"]["namespace"], "cairn")

    def test_a_request_that_failed_for_want_of_a_configuration_is_tried_again(self):
        self.by_hand("early", "early.csi.dev")
        self.request("quick", "early", wait=False)
        self.kube.wait(lambda made: "no SnapshotServicesConfiguration" in
                       made.get("status", {}).get("error", ""), "snapshotsessionrequest", "quick")
        self.assertEqual(self.finished("quick")["status"]["sessionState"], "Failed")
        self.request("later", "early", wait=False)
        self.kube.wait(lambda made: made.get("status", {}).get("sessionState") == "Pending",
                       "snapshotsessionrequest", "later")
        self.configure("early", "early.csi.dev")
        self.addCleanup(self.kube.delete, "snapshotservicesconfigurations", "early")
        for name in ("quick", "later"):
            made = self.kube.wait(lambda made: made["status"]["sessionState"] == "Ready",
                                  "snapshotsessionrequest", name)
            self.assertNotIn("error", made["status"])
            self.assertEqual(len(self.data_of(made)), 1)

    def test_what_is_not_ready_is_waited_for(self):
        self.kube.apply({"apiVersion": f"{SNAPSHOT}/v1", "kind": "VolumeSnapshot",
                         "metadata": {"name": "slow"},
                         "spec": {"source": {"persistentVolumeClaimName": "soon"},
                                  "volumeSnapshotClassName": "cairn"}})
        self.request("waits", "slow", wait=False)
        self.kube.wait(lambda made: made.get("status", {}).get("error"),
                       "snapshotsessionrequest", "waits")
        self.csi.claim("soon", "16Mi")
        made = self.finished("waits")
        self.assertEqual(made["status"]["sessionState"], "Ready")
        self.assertNotIn("error", made["status"])

    def test_only_who_may_read_the_snapshots_may_ask(self):
        def refused(*snapshots, config=self.nobody):
            done = self.kube.run("create", "-f", "-", kubeconfig=config, text=json.dumps({
                "apiVersion": f"{GROUP}/v1alpha2", "kind": "SnapshotSessionRequest",
                "metadata": {"name": "refused"}, "spec": {"snapshots": list(snapshots)}}))
            self.assertNotEqual(done.returncode, 0)
            return done.stderr
        self.assertIn("may not get the VolumeSnapshot", refused("data-1"))
        # Rights on single names are enough for those.
        self.kube.apply([{
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
            "metadata": {"name": "only-1"},
            "rules": [{"apiGroups": [SNAPSHOT], "resources": ["volumesnapshots"],
                       "resourceNames": ["data-1"], "verbs": ["get"]}]}, {
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": {"name": "only-1"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role",
                        "name": "only-1"},
            "subjects": [{"kind": "ServiceAccount", "name": "one-only",
                          "namespace": "default"}]}])
        config = self.kube.kubeconfig_of_account("default", "one-only")
        made = self.request("one", "data-1", kubeconfig=config)
        self.assertEqual(made["status"]["sessionState"], "Ready")
        self.assertIn("'data-2'", refused("data-1", "data-2", config=config))
        self.assertRegex(self.health("manager", "/metrics"),
                         r'cairn_session_reviews_total{result="denied"} [1-9]')

    def test_the_webhook_reads_only_reviews(self):
        from generations import Https  # pylint: disable=import-outside-toplevel
        https = Https(self.webhook_port, self.authority.crt)
        path = WEBHOOK_PATH
        self.assertEqual(https.ask(path.rpartition("/")[0], method="POST", body="{}")[0], 404)
        self.assertEqual(https.ask(path, method="POST", body="{}")[0], 400)
        self.assertEqual(https.ask(path, method="POST", body="[" * 100000)[0], 400)
        self.assertEqual(https.ask(path)[0], 405)
        self.assertEqual(https.ask("/", method="POST", body="{}")[0], 404)

    def test_a_discovery_says_whether_its_endpoint_is_there(self):
        def discover(name, **config):
            self.kube.apply({"apiVersion": f"{GROUP}/v1alpha2", "kind": "DriverDiscovery",
                             "metadata": {"name": name},
                             "spec": {"driverName": name, "clientConfig": config}})
            self.addCleanup(self.kube.delete, "driverdiscovery", name)
            return self.kube.wait(lambda made: "reachable" in made.get("status", {}),
                                  "driverdiscovery", name)["status"]
        ca = base64.b64encode(self.authority.crt.read_bytes()).decode()
        here = f"https://{HOST}:{self.webhook_port}"
        self.assertTrue(discover("there", url=here, caBundle=ca)["reachable"])
        status = discover("nobody-there", url=f"https://{HOST}:1", caBundle=ca)
        self.assertFalse(status["reachable"])
        self.assertTrue(status["message"])
        other = base64.b64encode(self.kube.authority.read_bytes()).decode()
        status = discover("somebody-else", url=here, caBundle=other)
        self.assertIn("certificate", status["message"])
        status = discover("bad-bundle", url=here, caBundle=base64.b64encode(b"x").decode())
        self.assertIn("no certificate", status["message"])
        # A changed object is looked at at once.
        self.kube.kubectl("patch", "driverdiscovery", "nobody-there", "--type=merge", "-p",
                          json.dumps({"spec": {"clientConfig": {"url": here}}}))
        self.kube.wait(lambda made: made["status"]["reachable"], "driverdiscovery",
                       "nobody-there")
        self.assertNotIn("forbidden", self.bed.processes.log_text("manager"))


class Ends(ManagerTest):
    """Expiry, elections, kills and a webhook that is down."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.history("data")

    def test_sessions_expire_and_settings_are_reloaded(self):
        # Longer than a busy machine takes to look at its data.
        self.set_expiry("20s")
        wait_until(lambda: '"expiry_ms":20000' in self.log() or "expiry_ms=20000" in self.log(),
                   180, "the new setting")
        made = self.request("short", "data-1")
        self.assertEqual(len(self.data_of(made)), 1)
        self.kube.wait_gone("snapshotsessionrequest", "short")
        wait_until(lambda: not self.data_of(made), 180, "the data is gone")
        self.set_expiry("rubbish")
        wait_until(lambda: "stay as they are" in self.log(), 180, "it is refused")
        self.set_expiry("10m")
        wait_until(lambda: "expiry_ms=600000" in self.log().rpartition("stay as")[2] or
                   '"expiry_ms":600000' in self.log().rpartition("stay as")[2], 180, "back")

    def log(self, name="manager"):
        return self.bed.processes.log_text(name)

    def test_without_the_webhook_nothing_is_created(self):
        self.bed.processes.kill("manager")
        done = self.kube.run("create", "-f", "-", kubeconfig=self.app, text=json.dumps({
            "apiVersion": f"{GROUP}/v1alpha2", "kind": "SnapshotSessionRequest",
            "metadata": {"name": "closed"}, "spec": {"snapshots": ["data-1"]}}))
        self.assertIn("failed calling webhook", done.stderr)
        self.bed.processes.restart("manager")
        self.bed.processes.wait_ready("manager", lambda: self.answers("manager"))
        self.assertIsNone(self.kube.get("snapshotsessionrequest", "closed"))

    def test_another_takes_over(self):
        self.start("second")
        wait_until(lambda: "cairn_manager_leads 1" in self.health("manager", "/metrics") or
                   "cairn_manager_leads 1" in self.health("second", "/metrics"), 120, "a leader")
        leader = "manager" if "cairn_manager_leads 1" in self.health("manager", "/metrics") \
            else "second"
        other = {"manager": "second", "second": "manager"}[leader]
        self.assertIn("cairn_manager_leads 0", self.health(other, "/metrics"))
        self.bed.processes.stop(leader)
        wait_until(lambda: "cairn_manager_leads 1" in self.health(other, "/metrics"), 120,
                   "the other leads")
        if other == "second":  # the webhook is the first one's
            self.kube.delete("validatingwebhookconfiguration", "cairn-sessions")
        made = self.request("under-the-second", "data-1")
        self.assertEqual(made["status"]["sessionState"], "Ready")
        self.bed.processes.stop(other)
        self.webhook(self.webhook_port)
        self.bed.processes.start("manager", self.bed.processes.commands["manager"][0])
        self.bed.processes.wait_ready("manager", lambda: self.answers("manager"))

    def test_a_kill_between_two_writes_leaves_one_session(self):
        """The data of a request exists, its status does not say so yet."""
        wait_until(lambda: "cairn_manager_leads 1" in self.health("manager", "/metrics"), 120,
                   "a leader")
        made = self.request("twice", "data-1")
        token = made["status"]["sessionToken"]
        self.bed.processes.kill("manager")
        self.kube.kubectl("patch", "snapshotsessionrequest", "twice", "--subresource=status",
                          "--type=merge", "-p", json.dumps({"status": {
                              "sessionState": "Pending", "sessionToken": None,
                              "sessionURL": None, "caCert": None}}))
        self.bed.processes.restart("manager")
        again = self.finished("twice")
        self.assertEqual(again["status"]["sessionToken"], token)
        self.assertEqual(len(self.data_of(again)), 1)

    def test_a_request_without_an_answer_is_not_expired(self):
        """No controller led from its beginning until its time was over."""
        made = self.request("late", "data-1")
        self.bed.processes.kill("manager")
        self.kube.kubectl("patch", "snapshotsessionrequest", "late", "--subresource=status",
                          "--type=merge", "-p", json.dumps({"status": {
                              "sessionState": "Pending", "sessionToken": None, "sessionURL": None,
                              "caCert": None, "expiryTime": "2020-01-01T00:00:00Z"}}))
        self.bed.processes.restart("manager")
        again = self.finished("late")
        self.assertEqual(again["status"]["sessionState"], "Ready")
        self.assertEqual(again["metadata"]["uid"], made["metadata"]["uid"])
        # The data that it has is that of the new time.
        token = base64.b64decode(again["status"]["sessionToken"]).decode()
        ends = {data["metadata"]["name"]: data["spec"]["expiryTime"]
                for data in self.data_of(again)}
        self.assertEqual(ends[token], again["status"]["expiryTime"])

    def test_kills_at_any_moment(self):
        """Requests come while the manager is killed again and again; each gets its end."""
        self.kube.delete("validatingwebhookconfiguration", "cairn-sessions")
        for i in range(12):
            self.request(f"storm-{i}", "data-1", "data-2", wait=False)
            time.sleep(0.05 * (i % 5))
            self.bed.processes.kill("manager")
            self.bed.processes.restart("manager")
        for i in range(12):
            made = self.finished(f"storm-{i}")
            self.assertEqual(made["status"]["sessionState"], "Ready", made)
            data, = self.data_of(made)
            self.assertEqual(base64.b64decode(made["status"]["sessionToken"]).decode(),
                             data["metadata"]["name"])
        self.webhook(self.webhook_port)

    def test_the_api_server_restarts(self):
        self.bed.processes.restart("kube-apiserver")
        wait_until(lambda: self.kube.answers("/readyz"), 180, "the API server is back")
        made = self.request("after", "data-1")
        self.assertEqual(made["status"]["sessionState"], "Ready")

    def fill(self, path, count):
        """So many sessions whose time is over, from several connections at once."""
        where = urllib.parse.urlsplit(self.kube.server)
        context = ssl.create_default_context(cafile=str(self.kube.authority))
        context.load_cert_chain(*self.kube.identity)

        def create(first):
            connection = http.client.HTTPSConnection(where.hostname, where.port, context=context)
            for i in range(first, count, WRITERS):
                connection.request("POST", path, json.dumps({
                    "apiVersion": f"{GROUP}/v1alpha2", "kind": "SnapshotSessionData",
                    "metadata": {"name": f"{i:064x}"},
                    "spec": {"expiryTime": "2020-01-01T00:00:00Z", "snapshotNamespace": "default",
                             "snapshots": ["x"]}}), {"Content-Type": "application/json"})
                reply = connection.getresponse()
                reply.read()
                assert reply.status == 201, reply.status
            connection.close()
        with futures.ThreadPoolExecutor(WRITERS) as pool:
            list(pool.map(create, range(WRITERS)))
        return where, context

    def deletions(self, where, context, path, count):
        """How long after the manager's start each of them goes, as a watch tells it."""
        version = self.kube.request("GET", f"{path}?limit=1")["metadata"]["resourceVersion"]
        connection = http.client.HTTPSConnection(where.hostname, where.port, context=context,
                                                 timeout=120)
        connection.request("GET", f"{path}?watch=true&resourceVersion={version}")
        stream, times = connection.getresponse(), []
        begun = time.monotonic()
        self.bed.processes.start("manager", [*self.bed.processes.commands["manager"][0],
                                             "--kube-api-qps", str(RATE)])
        while len(times) < count:
            if json.loads(stream.readline())["type"] == "DELETED":
                times.append(time.monotonic() - begun)
        connection.close()
        return times

    def test_thousands_expire_at_the_rate_of_the_client(self):
        path = f"/apis/{GROUP}/v1alpha2/namespaces/cairn/snapshotsessiondata"
        command = self.bed.processes.commands["manager"]
        self.bed.processes.kill("manager")
        where, context = self.fill(path, EXPIRED)
        times = self.deletions(where, context, path, EXPIRED)
        self.assertEqual(self.data(), [])
        # At any time no more than the burst and the rate since the start. On a busy machine a
        # watch tells of many at once, but of none before it went.
        for gone, after in enumerate(times, 1):
            self.assertLessEqual(gone, BURST + RATE * after)
        self.bed.processes.stop("manager")
        self.bed.processes.start("manager", *command)
        self.bed.processes.wait_ready("manager", lambda: self.answers("manager"))


if __name__ == "__main__":
    unittest.main()
