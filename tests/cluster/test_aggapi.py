#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""VolumeSnapshotDelta through a real API server: `cairn aggapi` and `cairn cbt-http`."""
import base64
import concurrent.futures
import http.client
import json
import pathlib
import random
import re
import signal
import ssl
import sys
import unittest

import yaml

import cluster
from csistack import CsiStack
from kube import Refused
from processes import wait_until

cluster.peers_or_skip(*cluster.CONTROL_PLANE, *CsiStack.PROGRAMS, "snapshot-crds")
DEPLOY = cluster.REPOSITORY / "deploy/components/volumesnapshotdelta"
GROUP = "cbt.storage.k8s.io"
DELTAS = f"/apis/{GROUP}/v1alpha1/namespaces/default/volumesnapshotdeltas"
BLOCK = 4096
MIB = 1 << 20
AUDIENCE = "cbt-http.cairn.csi.dev"


def encode(path):
    return base64.b64encode(pathlib.Path(path).read_bytes()).decode()


class Stack:
    """Both programs behind an APIService, with the rights that deploy/ gives."""

    hosts = ["127.0.0.1"]

    def __init__(self, bed):
        self.bed, self.kube, self.processes = bed, bed.kube, bed.processes
        self.authority = bed.control_plane.authority
        self.ports = cluster.Ports()
        self.published = bed.directory / "published-ca.crt"

    def start(self, *options):
        """`options` are the aggregated server's."""
        self.prepare()
        self.sidecar_port, _ = self.start_sidecar("cbt-http")
        self.port = self.start_aggapi("aggapi", *options)
        self.register()

    def prepare(self):
        """What both programs need to start."""
        built = yaml.safe_load_all(self.kube.kubectl("kustomize", DEPLOY))
        self.kube.apply([item for item in built
                         if item["kind"] in ("CustomResourceDefinition", "FlowSchema")])
        self.kube.apply(DEPLOY / "rbac.yaml")
        self.kube.wait_crds()
        self.issue()
        self.published.write_bytes(self.authority.crt.read_bytes())

    def issue(self):
        """The certificate of both; again: a new one in its place."""
        self.pair = self.authority.issue(
            "aggregated", "/CN=cairn-aggapi", "serverAuth",
            ["DNS:cairn-aggapi.cairn.svc", *[f"IP:{host}" for host in self.hosts]])

    def start_sidecar(self, name, *more, published=True):
        """Its port, and the one for health."""
        port, health = self.ports.take(), self.ports.take()
        if published:
            more = [*more, "--publish-url", f"https://127.0.0.1:{port}",
                    "--publish-ca", self.published]
        config = self.kube.kubeconfig_of_account("cairn", "cairn-cbt-http")
        self.processes.start(name, [
            self.bed.cairn, "cbt-http", "--csi-address", f"unix://{self.bed.csi.socket}",
            "--listen", f"127.0.0.1:{port}", "--tls-cert", self.pair[0], "--tls-key", self.pair[1],
            "--kubeconfig", config, "--log-level", "debug",
            "--http-endpoint", f"127.0.0.1:{health}", *more])
        return port, health

    def start_aggapi(self, name, *more, host="127.0.0.1", port=None):
        port = port or self.ports.take()
        config = self.kube.kubeconfig_of_account("cairn", "cairn-aggapi")
        self.processes.start(name, [
            self.bed.cairn, "aggapi", "--listen", f"{host}:{port}", "--tls-cert", self.pair[0],
            "--tls-key", self.pair[1], "--kubeconfig", config, "--log-level", "debug",
            *more])
        self.processes.wait_ready(name, lambda: self.plain(port, "GET", "/readyz",
                                                           host=host)[0] == 200)
        return port

    def creator(self, name):
        """Lets the account `name` of the namespace "default" compare snapshots there."""
        self.kube.service_account("default", name)
        self.kube.allow(f"{name}-deltas", f"default:{name}", namespace="default",
                        role="cairn-volumesnapshotdelta-creator")
        self.kube.allow(f"{name}-snapshots", f"default:{name}", namespace="default",
                        rules=[("snapshot.storage.k8s.io", "volumesnapshots", "get")])

    def service(self):
        """A Service of type ExternalName leads to loopback."""
        return [{"apiVersion": "v1", "kind": "Service",
                 "metadata": {"name": "cairn-aggapi", "namespace": "cairn"},
                 "spec": {"type": "ExternalName", "externalName": "localhost",
                          "ports": [{"port": self.port}]}}]

    def register(self):
        self.kube.apply([
            *self.service(),
            {"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
             "metadata": {"name": f"v1alpha1.{GROUP}", "labels": {
                 "kube-aggregator.kubernetes.io/automanaged": "false"}},
             "spec": {"group": GROUP, "version": "v1alpha1", "groupPriorityMinimum": 1000,
                      "versionPriority": 10, "caBundle": encode(self.authority.crt),
                      "service": {"namespace": "cairn", "name": "cairn-aggapi",
                                  "port": self.port}}}])
        self.kube.kubectl("wait", "--for=condition=Available", "apiservice",
                          f"v1alpha1.{GROUP}", "--timeout=180s", timeout=200)

    def plain(self, *args, **how):
        """A request past the API server: (status, bytes); status 0 when there is no answer."""
        reply, data = self.exchange(*args, **how)
        return reply.status if reply else 0, data

    def exchange(self, port, method, path, body=None, headers=None, identity=None,
                 host="127.0.0.1"):
        """The same: (reply, bytes)."""
        context = ssl.create_default_context(cafile=str(self.authority.crt))
        if identity:
            context.load_cert_chain(*identity)
        connection = http.client.HTTPSConnection(host, port, context=context, timeout=120)
        try:
            connection.request(method, path, None if body is None else json.dumps(body),
                               headers or {})
            reply = connection.getresponse()
            return reply, reply.read()
        except (OSError, http.client.HTTPException) as failed:
            return None, str(failed).encode()
        finally:
            connection.close()


def delta(name="d", base=None, target="after", **spec):
    spec["targetVolumeSnapshotName"] = target
    if base:
        spec["baseVolumeSnapshotName"] = base
    return {"apiVersion": f"{GROUP}/v1alpha1", "kind": "VolumeSnapshotDelta",
            "metadata": {"name": name}, "spec": spec}


class Story(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.bed = cls.enterClassContext(cluster.Cluster(csi=True,
                                                        driver_args=["--snapshot-deltas"]))
        cls.kube, cls.csi = cls.bed.kube, cls.bed.csi
        cls.stack = Stack(cls.bed)
        cls.addClassCleanup(cls.stack.ports.close)
        cls.stack.start()
        cls.make_snapshots()

    @classmethod
    def make_snapshots(cls):
        """Two snapshots, and the numbers of the blocks in which they differ."""
        cls.csi.claim("data", "64Mi")
        file = cls.csi.volume_file("data")
        chance = random.Random(7)
        cls.allocated = set(chance.sample(range(64 * MIB // BLOCK), 700))
        cls.changed = set(chance.sample(sorted(cls.allocated), 290))
        cls.write(file, cls.allocated, b"a")
        cls.csi.snapshot("before", "data")
        cls.write(file, cls.changed, b"b")
        cls.csi.snapshot("after", "data")

    @staticmethod
    def write(file, blocks, letter):
        with open(file, "r+b") as volume:
            for block in blocks:
                volume.seek(block * BLOCK)
                volume.write(letter * BLOCK)

    def ask(self, body, **how):
        return self.kube.request("POST", DELTAS, body, **how)

    def refused(self, status, body, path=DELTAS, **how):
        with self.assertRaises(Refused) as caught:
            self.kube.request("POST", path, body, **how)
        self.assertEqual(caught.exception.status, status, caught.exception.reply)
        self.assertEqual(caught.exception.reply["kind"], "Status")
        return caught.exception.reply

    def pages(self, limit, **spec):
        """All block numbers, page by page."""
        found, offset = [], 0
        while True:
            status = self.ask(delta(limit=limit, offset=offset, **spec))["status"]
            self.assertLessEqual(len(status["changedBlockDeltas"]), limit)
            found += [entry["offset"] for entry in status["changedBlockDeltas"]]
            self.assertTrue(all(entry["blockSizeBytes"] == BLOCK
                                for entry in status["changedBlockDeltas"]))
            if status["state"] == "Completed":
                return found
            self.assertEqual(status["state"], "Continue")
            offset = status["continue"]

    def test_pages_of_every_size_hold_what_changed_and_nothing_else(self):
        for limit in (7, 256):
            with self.subTest(limit=limit):
                self.assertEqual(self.pages(limit, base="before"), sorted(self.changed))
        self.assertLessEqual(self.allocated, set(self.pages(256)))

    def test_a_page_has_256_entries_unless_told_otherwise(self):
        status = self.ask(delta(base="before"))["status"]
        self.assertEqual(len(status["changedBlockDeltas"]), 256)
        self.assertEqual((status["limit"], status["state"]), (256, "Continue"))
        status = self.ask(delta(base="before", limit=100000))["status"]
        self.assertEqual((status["limit"], status["effectiveLimit"]), (100000, 256))

    def test_a_data_token_gives_that_block_and_any_other_gives_nothing(self):
        self.stack.creator("fetcher")
        own = self.kube.token("default", "fetcher")
        wait_until(lambda: self.kube.ask("POST", DELTAS, delta(base="before", limit=1),
                                         token=own)[0] == 201, 120, "the right counts")
        status = self.ask(delta(base="before", limit=1), token=own)["status"]
        token = status["changedBlockDeltas"][0]["dataToken"]
        fields = {"Authorization": "Bearer " + self.kube.token("default", "fetcher", AUDIENCE)}
        self.assertEqual(token["ttl"], "10m0s")
        port = self.stack.sidecar_port
        code, data = self.stack.plain(port, "POST", "/v1/block", {"token": token["token"]},
                                      fields)
        self.assertEqual((code, data), (200, b"b" * BLOCK))
        self.assertEqual(self.stack.plain(port, "POST", "/v1/block",
                                          {"token": token["token"]})[0], 401)
        text = token["token"]
        forged = text[:-1] + ("A" if text[-1] != "A" else "B")
        for wrong in (forged, "", "x" * 100):
            code, data = self.stack.plain(port, "POST", "/v1/block", {"token": wrong}, fields)
            self.assertIn(code, (400, 401), data)
            self.assertNotIn(b"bbbb", data)

    def test_kubectl_creates_explains_and_validates(self):
        made = self.kube.kubectl("create", "-o", "json", "-f", "-",
                                 text=json.dumps(delta("k", base="before", limit=3)))
        self.assertEqual(len(json.loads(made)["status"]["changedBlockDeltas"]), 3)
        self.assertIn("targetVolumeSnapshotName", self.kube.kubectl(
            "explain", "volumesnapshotdelta.spec", f"--api-version={GROUP}/v1alpha1"))
        self.assertIn("volumesnapshotdeltas", self.kube.kubectl(
            "api-resources", f"--api-group={GROUP}", "--cached=false"))
        refused = self.kube.run("create", "-f", "-", text=json.dumps(delta("k", lmit=3)))
        self.assertNotEqual(refused.returncode, 0)
        self.assertRegex(refused.stderr, 'unknown field "(spec.)?lmit"')

    def test_unknown_fields_are_refused_or_warned_of_as_told(self):
        body = delta(base="before", limit=1, lmit=3)
        reply = self.refused(400, body, path=f"{DELTAS}?fieldValidation=Strict")
        self.assertIn('unknown field "spec.lmit"', reply["message"])
        for how in ("Warn", "Ignore"):
            made = self.kube.request("POST", f"{DELTAS}?fieldValidation={how}", body)
            self.assertEqual(len(made["status"]["changedBlockDeltas"]), 1)

    def test_the_schema_is_in_the_api_servers_openapi(self):
        def found():
            text = self.kube.ask("GET", "/openapi/v2")[1]
            return "io.k8s.storage.cbt.v1alpha1.VolumeSnapshotDelta" in text
        wait_until(found, 90, "/openapi/v2 has the kind")
        code, text = self.kube.ask("GET", f"/openapi/v3/apis/{GROUP}/v1alpha1")
        self.assertEqual(code, 200)
        self.assertIn("VolumeSnapshotDeltaSpec", text)

    def test_requests_take_the_place_of_low_workloads(self):
        self.ask(delta(base="before", limit=1))
        self.assertRegex(self.kube.ask("GET", "/metrics")[1],
                         r'apiserver_flowcontrol_dispatched_requests_total{'
                         r'flow_schema="cairn-volumesnapshotdeltas",'
                         r'priority_level="workload-low"} [1-9]')

    def test_only_creation_is_allowed(self):
        for method, path in (("GET", DELTAS), ("GET", f"{DELTAS}/d"), ("DELETE", f"{DELTAS}/d"),
                             ("PUT", f"{DELTAS}/d"), ("DELETE", DELTAS),
                             ("GET", f"/apis/{GROUP}/v1alpha1/volumesnapshotdeltas")):
            with self.subTest(method=method, path=path):
                with self.assertRaises(Refused) as caught:
                    self.kube.request(method, path, {} if method == "PUT" else None)
                self.assertEqual(caught.exception.status, 405)
                self.assertEqual(caught.exception.reply["reason"], "MethodNotAllowed")

    def test_what_is_wrong_or_missing_is_refused(self):
        self.assertEqual(self.refused(404, delta(target="nothing"))["details"]["kind"],
                         "VolumeSnapshot")
        self.refused(404, delta(base="nothing"))
        self.refused(422, delta(limit=-1))
        self.refused(422, delta(mode="file"))
        self.refused(400, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}})
        self.refused(415, delta(), content_type="application/yaml")
        self.refused(400, delta(), path=f"{DELTAS}?fieldValidation=Sometimes")

    def test_what_leads_to_no_driver_is_refused(self):
        group = "snapshot.storage.k8s.io"
        self.kube.apply([
            {"apiVersion": f"{group}/v1", "kind": "VolumeSnapshotContent",
             "metadata": {"name": "content-foreign"},
             "spec": {"driver": "other.csi.dev", "deletionPolicy": "Retain",
                      "source": {"snapshotHandle": "handle"},
                      "volumeSnapshotRef": {"namespace": "default", "name": "foreign"}}},
            *[{"apiVersion": f"{group}/v1", "kind": "VolumeSnapshot", "metadata": {"name": name},
               "spec": {"source": {"volumeSnapshotContentName": f"content-{name}"}}}
              for name in ("foreign", "hollow")]])
        for kind, name, status in (
                ("volumesnapshotcontent", "content-foreign", {"snapshotHandle": "handle"}),
                ("volumesnapshot", "foreign",
                 {"boundVolumeSnapshotContentName": "content-foreign"}),
                ("volumesnapshot", "hollow",
                 {"boundVolumeSnapshotContentName": "content-hollow"})):
            self.kube.kubectl("patch", kind, name, "--subresource=status", "--type=merge", "-p",
                              json.dumps({"status": {**status, "readyToUse": True}}))
        reply = self.refused(404, delta(target="foreign"))
        self.assertIn("no DriverDiscovery 'other.csi.dev'", reply["message"])
        self.refused(400, delta(base="before", target="foreign"))
        self.assertIn("content-hollow", self.refused(404, delta(target="hollow"))["message"])

    def test_an_offset_beyond_the_volume_is_the_objects_failure(self):
        status = self.ask(delta(base="before", offset=1 << 40))["status"]
        self.assertEqual(status["state"], "Failed")
        self.assertIn("OUT_OF_RANGE", status["error"])

    def test_an_error_names_volumesnapshots(self):
        status = self.ask(delta(base="after", target="before"))["status"]
        self.assertEqual(status["state"], "Failed")
        self.assertIn("'after' and 'before': the base is newer", status["error"])
        self.assertNotIn("snap-", status["error"])

    def test_a_dry_run_asks_nobody(self):
        made = self.kube.request("POST", f"{DELTAS}?dryRun=All", delta(base="before"))
        self.assertNotIn("status", made)

    def test_rights_are_those_of_the_user(self):
        self.kube.service_account("default", "plain")
        token = self.kube.token("default", "plain")
        self.refused(403, delta(base="before"), token=token)
        self.kube.allow("deltas", "default:plain", role="cairn-volumesnapshotdelta-creator",
                        namespace="default")
        wait_until(lambda: "volumesnapshots" in json.dumps(self.kube.ask(
            "POST", DELTAS, delta(base="before", limit=1), token=token)), 120,
            "the right to the snapshots is missing")
        self.refused(403, delta(base="before"), token=token)
        self.stack.creator("plain")
        wait_until(lambda: self.kube.ask("POST", DELTAS, delta(base="before", limit=1),
                                         token=token)[0] == 201, 120, "the right counts")
        other = DELTAS.replace("/default/", "/kube-system/")
        self.refused(403, delta(base="before"), path=other, token=token)

    def test_a_secret_is_handed_on_only_to_who_may_read_it(self):
        self.kube.apply({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "pass"},
                         "stringData": {"user": "u", "key": "guarded-value"}})
        self.stack.creator("half")
        self.kube.allow("aggapi-secret", "cairn:cairn-aggapi", [("", "secrets", "get")],
                        namespace="default")
        token = self.kube.token("default", "half")
        body = delta(base="before", volumeSnapshotDeltaSecretRef={"name": "pass"}, limit=1)
        wait_until(lambda: self.kube.ask("POST", DELTAS, delta(limit=1), token=token)[0] == 201,
                   120, "the right counts")
        self.assertIn("may not get secrets 'pass' in 'default'",
                      self.refused(403, body, token=token)["message"])
        self.assertEqual(self.ask(body)["status"]["state"], "Continue")
        for name in ("aggapi", "cbt-http", "driver"):
            self.assertNotIn("guarded-value", self.bed.processes.log_text(name))

    def test_headers_without_the_proxys_certificate_are_refused(self):
        forged = {"X-Remote-User": "admin", "X-Remote-Group": "system:masters",
                  "Content-Type": "application/json"}
        code, text = self.stack.plain(self.stack.port, "POST", DELTAS, delta(base="before"), forged)
        self.assertEqual(code, 401, text)
        own = self.stack.authority.issue("pretender", "/CN=front-proxy-client", "clientAuth")
        code, text = self.stack.plain(self.stack.port, "POST", DELTAS, delta(base="before"), forged,
                                      own)
        self.assertNotIn(code, (200, 201), text)

    def test_a_token_is_enough_for_who_comes_directly(self):
        self.stack.creator("direct")
        fields = {"Authorization": "Bearer " + self.kube.token("default", "direct"),
                  "Content-Type": "application/json"}
        wait_until(lambda: self.stack.plain(self.stack.port, "POST", DELTAS,
                                            delta(base="before", limit=1), fields)[0] == 201,
                   120, "the right counts")

    def test_the_sidecar_answers_the_aggregated_server_only(self):
        question = {"toSnapshotId": self.csi.snapshot_id("after"), "maxEntries": 1,
                    "user": "somebody", "namespace": "default", "target": "after"}
        port = self.stack.sidecar_port
        self.assertEqual(self.stack.plain(port, "POST", "/v1/deltas", question)[0], 401)
        stranger = self.kube.token("default", "default", AUDIENCE)
        fields = {"Authorization": f"Bearer {stranger}"}
        self.assertEqual(self.stack.plain(port, "POST", "/v1/deltas", question, fields)[0], 403)
        wrong = self.kube.token("cairn", "cairn-aggapi")  # another audience
        fields = {"Authorization": f"Bearer {wrong}"}
        self.assertEqual(self.stack.plain(port, "POST", "/v1/deltas", question, fields)[0], 401)
        fields = {"Authorization": "Bearer " + self.kube.token("cairn", "cairn-aggapi", AUDIENCE)}
        code, text = self.stack.plain(port, "POST", "/v1/deltas", question, fields)
        self.assertEqual(code, 200, text)
        self.assertEqual(len(json.loads(text)["changedBlocks"]), 1)

    def test_a_user_who_asks_too_often_is_told_to_wait(self):
        port = self.stack.start_aggapi("aggapi-slow", "--user-rate", "1", "--user-burst", "2")
        self.addCleanup(self.bed.processes.stop, "aggapi-slow")
        self.stack.creator("eager")
        fields = {"Authorization": "Bearer " + self.kube.token("default", "eager"),
                  "Content-Type": "application/json"}

        def code():
            return self.stack.plain(port, "POST", DELTAS, delta(base="before", limit=1), fields)[0]
        wait_until(lambda: code() == 201, 120, "the right counts")

        def refused():
            """Several at once: on a busy machine one after the other may take a second each."""
            with concurrent.futures.ThreadPoolExecutor(8) as pool:
                asked = [pool.submit(self.stack.exchange, port, "POST", DELTAS,
                                     delta(base="before", limit=1), fields) for _ in range(8)]
            answers = [run.result() for run in asked]
            return next((both for both in answers if both[0] and both[0].status == 429), None)
        reply, text = wait_until(refused, 120, "it is too much")
        status = json.loads(text)
        self.assertEqual((reply.status, status["reason"]), (429, "TooManyRequests"))
        self.assertGreaterEqual(int(reply.getheader("retry-after")), 1)
        self.assertEqual(status["details"]["retryAfterSeconds"],
                         int(reply.getheader("retry-after")))
        # Others are not held up by it.
        self.stack.creator("calm")
        fields["Authorization"] = "Bearer " + self.kube.token("default", "calm")
        wait_until(lambda: code() == 201, 120, "somebody else is served")

    def test_equal_requests_are_answered_from_memory(self):
        health = self.stack.ports.take()
        port = self.stack.start_aggapi("aggapi-memory", "--cache-time", "1h", "--http-endpoint",
                                       f"127.0.0.1:{health}")
        self.addCleanup(self.bed.processes.stop, "aggapi-memory")
        self.stack.creator("again")
        fields = {"Authorization": "Bearer " + self.kube.token("default", "again"),
                  "Content-Type": "application/json"}

        def page(**spec):
            code, text = self.stack.plain(port, "POST", DELTAS, delta(base="before", **spec),
                                          fields)
            return json.loads(text)["status"] if code == 201 else None

        def from_memory():
            connection = http.client.HTTPConnection("127.0.0.1", health, timeout=60)
            connection.request("GET", "/metrics")
            text = connection.getresponse().read().decode()
            connection.close()
            return float(re.search(r"^cairn_aggapi_cached_total (\S+)$", text, re.M)[1])
        first = wait_until(lambda: page(limit=3), 120, "the right counts")
        self.assertEqual(from_memory(), 0)
        self.assertEqual(page(limit=3), first)  # the very same tokens
        self.assertEqual(from_memory(), 1)
        self.assertNotEqual(page(limit=4), first)
        self.assertNotEqual(page(limit=3, offset=5), first)
        self.assertEqual(from_memory(), 1)

    def test_another_sidecar_leads_when_the_first_is_gone(self):
        first_port, first = self.stack.start_sidecar("lead-1", "--leader-election",
                                                     published=False)
        self.bed.processes.wait_ready("lead-1", lambda: self.is_ready(first))
        second_port, second = self.stack.start_sidecar("lead-2", "--leader-election",
                                                       published=False)
        self.addCleanup(self.bed.processes.stop, "lead-2")
        wait_until(lambda: self.answers(second), 120, "the second lives")
        self.assertFalse(self.is_ready(second))
        question = {"toSnapshotId": self.csi.snapshot_id("after"), "maxEntries": 1,
                    "user": "somebody", "namespace": "default", "target": "after"}
        fields = {"Authorization": "Bearer " + self.kube.token("cairn", "cairn-aggapi", AUDIENCE)}
        self.assertEqual(self.stack.plain(first_port, "POST", "/v1/deltas", question, fields)[0],
                         200)
        self.assertEqual(self.stack.plain(second_port, "POST", "/v1/deltas", question, fields)[0],
                         503)
        self.bed.processes.kill("lead-1")  # its Lease stays, and runs out
        wait_until(lambda: self.is_ready(second), 180, "the second leads")
        self.assertEqual(self.stack.plain(second_port, "POST", "/v1/deltas", question, fields)[0],
                         200)

    @staticmethod
    def health(port, path):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        try:
            connection.request("GET", path)
            return connection.getresponse().status
        except OSError:
            return 0
        finally:
            connection.close()

    def is_ready(self, port):
        return self.health(port, "/readyz") == 200

    def answers(self, port):
        return self.health(port, "/healthz") == 200

    def test_no_log_holds_a_token(self):
        token = self.ask(delta(base="before", limit=1))["status"]["changedBlockDeltas"][0]
        for name in ("aggapi", "cbt-http"):
            log = self.bed.processes.log_text(name)
            self.assertNotIn(token["dataToken"]["token"], log)
            self.assertNotIn("eyJ", log)  # how every such token begins

    def test_stops_in_order(self):
        _, health = self.stack.start_sidecar("passing", published=False)
        wait_until(lambda: self.answers(health), 180, "it lives")
        self.bed.processes.signal("passing", signal.SIGTERM)
        wait_until(lambda: not self.bed.processes.is_alive("passing"), 120, "it ends")
        self.assertIn("stopping", self.bed.processes.log_text("passing"))


if __name__ == "__main__":
    unittest.main(verbosity=2, argv=sys.argv)
