#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What somebody without the right gets from the earlier flavours of the API: nothing."""
import base64
import http.client
import http.server
import json
import ssl
import threading
import time
import unittest

from fakekube import Refusal
from rolesbed import Authority, CLIENT, GROUP, HOST, SECONDS, RolesTest, wait_until

AUDIENCE = "cbt-http.cairn.csi.dev"
DIFFERENTIAL = f"/apis/{GROUP}/v1alpha2/namespaces/app/differentialsnapshots"


class Diffsnap(RolesTest):
    AUDIENCE = "diffsnap"

    def setUp(self):
        super().setUp()
        self.start_driver()
        self.port = self.serve(
            "diffsnap", "diffsnap", "--csi-address", f"unix://{self.socket}", "--listen",
            f"{HOST}:PORT", "--advertise", f"{HOST}:PORT", "--audience", self.AUDIENCE)
        self.user = "system:serviceaccount:app:reader"
        self.token = self.kube.account("app", "reader", [self.AUDIENCE])

    def make_object(self, name="d"):
        self.kube.put(DIFFERENTIAL, {
            "apiVersion": f"{GROUP}/v1alpha2", "kind": "DifferentialSnapshot",
            "metadata": {"name": name}, "spec": {
                "baseVolumeSnapshotName": "before", "targetVolumeSnapshotName": "after"}})
        wait_until(lambda: self.state(name) == "Success", SECONDS, "the object is a success")

    def state(self, name):
        return (self.kube.get(f"{DIFFERENTIAL}/{name}").get("status") or {}).get("state")

    def test_an_object_is_not_a_way_around_the_right_to_its_snapshots(self):
        self.make_object()
        self.kube.allow(self.user, "get", "differentialsnapshots")
        self.assertEqual(self.ask(self.port, "GET", "/app/d", token=self.token)[0], 403)
        self.kube.allow(self.user, "get", "volumesnapshots", "after")

        def base_is_asked_for():
            self.assertEqual(self.ask(self.port, "GET", "/app/d", token=self.token)[0], 403)
            return any(review["name"] == "before" for review in self.kube.access_reviews)
        wait_until(base_is_asked_for, SECONDS, "the right to the base is asked for")
        self.kube.allow(self.user, "get", "volumesnapshots", "before")
        wait_until(lambda: self.ask(self.port, "GET", "/app/d", token=self.token)[0] == 200,
                   SECONDS, "who may read both snapshots reads")
        asked = {(review["resource"], review["name"]) for review in self.kube.access_reviews}
        self.assertIn(("volumesnapshots", "before"), asked)
        self.assertIn(("volumesnapshots", "after"), asked)

    def test_a_base_that_goes_before_the_controller_sees_its_own_status(self):
        """The status has the handle of the base, by which the object goes on."""
        status = f"{DIFFERENTIAL}/d/status"

        def hold(method, path):
            if method == "PATCH" and path == status:
                self.kube.held.add("differentialsnapshots")

        def patches():
            return [path for method, path, *_ in self.kube.requests
                    if method == "PATCH" and path == status]
        self.kube.before = hold
        self.make_object()
        self.kube.delete({"group": "snapshot.storage.k8s.io", "plural": "volumesnapshots",
                          "ns": "app", "name": "before"})
        wait_until(lambda: len(patches()) > 1, SECONDS, "the controller judges the old version")
        self.kube.before = lambda method, path: None
        self.kube.held.clear()
        self.kube.allow(self.user, "get", "differentialsnapshots")
        self.kube.allow(self.user, "get", "volumesnapshots")
        wait_until(lambda: self.ask(self.port, "GET", "/app/d", token=self.token)[0] == 200,
                   SECONDS, "its blocks can be read")
        self.assertEqual(self.state("d"), "Success")

    def test_our_own_refusal_says_nothing_of_a_token(self):
        """401 for the role's credentials is not a bad token of the caller, and not kept."""
        self.kube.allow(self.user, "get", "volumesnapshots")
        path = "/namespaces/app/diff?base=before&target=after"

        def refuse(method, path):
            if path.endswith("/tokenreviews"):
                raise Refusal(401, "Unauthorized", "Unauthorized")
        self.kube.before = refuse
        self.assertEqual(self.ask(self.port, "GET", path, token=self.token)[0], 500)
        self.kube.before = lambda method, path: None
        self.assertEqual(self.ask(self.port, "GET", path, token=self.token)[0], 200)

    def test_a_token_is_not_believed_past_its_end(self):
        self.kube.allow(self.user, "get", "volumesnapshots")
        path = "/namespaces/app/diff?base=before&target=after"
        for life in (3, 10, 30, 90):  # a busy machine may need longer than a token lives
            end = time.time() + life
            token = self.kube.account("app", "reader", [self.AUDIENCE], seconds=life)
            status = self.ask(self.port, "GET", path, token=token)[0]
            if time.time() < end - 1:
                break
        self.assertEqual(status, 200)
        del self.kube.tokens[token]
        time.sleep(max(0, end + 1 - time.time()))
        self.assertEqual(self.ask(self.port, "GET", path, token=token)[0], 401)

    def test_a_token_that_can_be_none_is_refused_without_a_question(self):
        for token in ("\u00ff\u00fe", "x" * 20000):
            before = len(self.kube.token_reviews)
            path = "/namespaces/app/diff?target=after"
            status, _ = self.ask(self.port, "GET", path, token=token)
            self.assertIn(status, (401, 400, 431))
            self.assertEqual(len(self.kube.token_reviews), before)

    def test_who_read_what_is_written_down(self):
        path = "/namespaces/app/diff?base=before&target=after"
        self.ask(self.port, "GET", path)
        self.ask(self.port, "GET", path, token=self.token)
        refused = self.audit("diffsnap")[-2:]
        self.assertEqual([(line["decision"], line["user"], line["code"]) for line in refused],
                         [("refused", "", "UNAUTHENTICATED"),
                          ("refused", self.user, "PERMISSION_DENIED")])
        self.kube.allow(self.user, "get", "volumesnapshots")

        def is_read():
            return self.ask(self.port, "GET", path, token=self.token)
        wait_until(lambda: is_read()[0] == 200, SECONDS, "the right counts")
        size = len(is_read()[1])
        line = self.audit("diffsnap")[-1]
        self.assertEqual((line["decision"], line["user"], line["namespace"], line["snapshot"],
                          line["base"], line["bytes"], line["code"]),
                         ("allowed", self.user, "app", "after", "before", size, "OK"))
        self.assertTrue(line["peer"].startswith(f"{HOST}:"))
        self.assertNotIn(self.token, self.processes.log_text("diffsnap"))

    def test_another_audience_is_refused(self):
        self.kube.allow(self.user, "get", "volumesnapshots")
        token = self.kube.account("app", "reader", ["other"])
        path = "/namespaces/app/diff?target=after"
        self.assertEqual(self.ask(self.port, "GET", path, token=token)[0], 401)


class Deltas(RolesTest):
    """`cairn aggapi` and `cairn cbt-http`; the front proxy is played by the test."""

    PATH = f"/apis/{GROUP}/v1alpha1/namespaces/app/volumesnapshotdeltas"
    http_words = ()

    def setUp(self):
        super().setUp()
        self.start_driver()
        self.put_front_proxy('["front-proxy"]')
        self.proxy = self.authority.issue("proxy", "/CN=front-proxy", CLIENT)
        self.user = "system:serviceaccount:app:reader"
        for account in ("role", "cairn-aggapi"):
            self.kube.allow(f"system:serviceaccount:cairn:{account}", "post", "/v1/deltas")
        self.kube.allow(self.user, "create", "volumesnapshotdeltas")
        self.http_port = self.serve(
            "cbt-http", "cbt-http", "--csi-address", f"unix://{self.socket}", "--listen",
            f"{HOST}:PORT", "--publish-url", f"https://{HOST}:PORT", "--publish-ca",
            self.authority.crt, *self.http_words)
        self.port = self.serve("aggapi", "aggapi", "--listen", f"{HOST}:PORT",
                               *self.aggapi_words())

    def aggapi_words(self):
        return ()

    def create(self, base="before", target="after", user=None):
        """(status, the object or what was said instead)"""
        status, text = self.ask(
            self.port, "POST", self.PATH, {
                "apiVersion": f"{GROUP}/v1alpha1", "kind": "VolumeSnapshotDelta",
                "metadata": {"name": "d"}, "spec": {
                    "targetVolumeSnapshotName": target,
                    **({"baseVolumeSnapshotName": base} if base else {})}},
            identity=self.proxy, headers={"X-Remote-User": user or self.user,
                                          "X-Remote-Group": "system:authenticated"}.items())
        return status, json.loads(text)

    def test_only_who_may_get_both_snapshots_gets_blocks_and_tokens(self):
        status, said = self.create()
        self.assertEqual(status, 403, said)
        self.assertNotIn("changedBlockDeltas", json.dumps(said))
        self.kube.allow(self.user, "get", "volumesnapshots", "after")

        def base_is_asked_for():
            self.assertEqual(self.create()[0], 403)
            return any(review["name"] == "before" for review in self.kube.access_reviews)
        wait_until(base_is_asked_for, SECONDS, "the right to the base is asked for")
        self.kube.allow(self.user, "get", "volumesnapshots", "before")
        wait_until(lambda: self.create()[0] == 201, SECONDS, "who may read both gets them")
        status, said = self.create()
        self.assertIn("token", json.dumps(said["status"]), said)

    def test_whatever_is_refused_is_written_down(self):
        stranger = "system:serviceaccount:app:stranger"
        self.assertEqual(self.create(user=stranger)[0], 403)
        self.assertEqual(self.ask(self.port, "POST", self.PATH, {})[0], 401)
        self.assertEqual(self.ask(self.port, "POST", self.PATH, {}, identity=self.proxy,
                                  headers=[("X-Remote-User", self.user)])[0], 400)
        sessions = self.PATH.replace("volumesnapshotdeltas", "snapshotsessionrequests")
        self.assertEqual(self.ask(self.port, "POST", sessions, {}, identity=self.proxy,
                                  headers=[("X-Remote-User", stranger)])[0], 403)
        self.assertEqual(
            [(line["audit"], line["decision"], line["user"], line["namespace"], line["code"])
             for line in self.audit("aggapi")],
            [("VolumeSnapshotDelta", "refused", stranger, "app", "PERMISSION_DENIED"),
             ("VolumeSnapshotDelta", "refused", "", "app", "UNAUTHENTICATED"),
             ("VolumeSnapshotDelta", "refused", self.user, "app", "INVALID_ARGUMENT"),
             ("create snapshotsessionrequests", "refused", stranger, "app",
              "PERMISSION_DENIED")])

    def test_who_asks_a_driver_for_pages_is_written_down(self):
        token = self.kube.account("app", "reader", [AUDIENCE])
        self.assertEqual(self.ask(self.http_port, "POST", "/v1/deltas", {})[0], 401)
        self.assertEqual(self.ask(self.http_port, "POST", "/v1/deltas", {}, token=token)[0], 403)
        self.data_token()
        self.assertEqual(
            [(line["audit"], line["decision"], line["user"], line["snapshot"], line["base"])
             for line in self.audit("cbt-http")],
            [("/v1/deltas", "refused", "", "", ""),
             ("/v1/deltas", "refused", self.user, "", ""),
             ("/v1/deltas", "allowed", "system:serviceaccount:cairn:role", "after", "before")])

    # ---- data tokens ----

    def data_token(self):
        self.kube.allow(self.user, "get", "volumesnapshots")
        status, said = self.create()
        self.assertEqual(status, 201, said)
        return said["status"]["changedBlockDeltas"][0]["dataToken"]

    def block(self, data_token, token=None):
        return self.ask(self.http_port, "POST", "/v1/block", {"token": data_token}, token=token)

    def test_a_data_token_is_of_use_to_its_user_only(self):
        data = self.data_token()["token"]
        mine = self.kube.account("app", "reader", [AUDIENCE])
        other = self.kube.account("app", "other", [AUDIENCE])
        self.kube.allow("system:serviceaccount:app:other", "get", "volumesnapshots")
        self.assertEqual(self.block(data)[0], 401)
        self.assertEqual(self.block(data, self.kube.account("app", "reader"))[0], 401)
        self.assertEqual(self.block(data, other)[0], 401)
        status, text = self.block(data, mine)
        self.assertEqual((status, text), (200, b"2" * 4096))
        lines = [line for line in self.audit("cbt-http") if line["audit"] == "/v1/block"]
        self.assertEqual([line["decision"] for line in lines],
                         ["refused", "refused", "refused", "allowed"])
        self.assertEqual((lines[-1]["user"], lines[-1]["snapshot"], lines[-1]["bytes"]),
                         (self.user, "after", 4096))
        self.assertEqual(self.audit("aggapi")[-1]["user"], self.user)
        for name in ("aggapi", "cbt-http", "driver"):
            self.assertNotIn(data.partition(".")[0], self.processes.log_text(name))
        forged = data.partition(".")[0] + ".app:before:"
        self.assertEqual(self.block(forged, mine)[0], 401)

    def test_a_data_token_ends_with_the_right_to_the_snapshots(self):
        data = self.data_token()["token"]
        mine = self.kube.account("app", "reader", [AUDIENCE])
        self.assertEqual(self.block(data, mine)[0], 200)
        self.kube.rules = [rule for rule in self.kube.rules if rule[2] != "volumesnapshots"]
        wait_until(lambda: self.block(data, mine)[0] == 403, SECONDS, "the right is gone")

    def test_data_tokens_are_short_lived(self):
        self.assertIn(self.data_token()["ttl"], ("10m0s", "600s"))

    # ---- the front proxy ----

    def test_a_connection_ends_with_the_authority_that_it_was_made_with(self):
        context = ssl.create_default_context(cafile=str(self.authority.crt))
        context.load_cert_chain(*self.proxy)
        connection = http.client.HTTPSConnection(HOST, self.port, context=context,
                                                 timeout=SECONDS)
        self.addCleanup(connection.close)

        def status():
            connection.request("GET", f"/apis/{GROUP}/v1alpha1", headers={
                "X-Remote-User": "admin", "X-Remote-Group": "system:masters"})
            reply = connection.getresponse()
            reply.read()
            return reply.status
        self.kube.allow("admin", "get", f"/apis/{GROUP}/v1alpha1")
        self.assertEqual(status(), 200)
        other = Authority(self.directory / f"pki-{self.port}", "ca", "other")
        path = "/api/v1/namespaces/kube-system/configmaps"
        found = self.kube.get(f"{path}/extension-apiserver-authentication")
        found["data"]["requestheader-client-ca-file"] = other.crt.read_text()
        self.kube.put(path, found)
        wait_until(lambda: status() == 401, SECONDS, "the old proxy is not believed any more")

    # ---- drivers ----

    def test_what_one_driver_is_sent_is_of_no_use_at_another(self):
        """A driver's sidecar keeps the token of the aggregated server and replays it."""
        caught = []
        self.kube.allow(self.user, "get", "volumesnapshots")

        class Evil(http.server.BaseHTTPRequestHandler):
            def do_POST(self):  # pylint: disable=invalid-name
                caught.append(self.headers.get("Authorization"))
                self.send_response(503)
                self.end_headers()

            def log_message(self, *words):
                pass
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.cert, self.key)
        evil = http.server.ThreadingHTTPServer((HOST, self.ports.take()), Evil)
        evil.socket = context.wrap_socket(evil.socket, server_side=True)
        threading.Thread(target=evil.serve_forever, daemon=True).start()
        self.addCleanup(evil.server_close)
        self.addCleanup(evil.shutdown)
        self.discover("evil.example", f"https://{HOST}:{evil.server_port}")
        self.kube.snapshot("app", "bait", "evil.example")

        def is_caught():
            self.create(base=None, target="bait")
            return caught
        wait_until(is_caught, SECONDS, "the driver is asked")
        question = {"toSnapshotId": self.handles["after"], "maxEntries": 1, "user": "x",
                    "namespace": "app", "target": "after"}
        status, _ = self.ask(self.http_port, "POST", "/v1/deltas", question,
                             headers=[("Authorization", caught[0])])
        self.assertEqual(status, 401)

    def discover(self, name, url, driver=None):
        self.kube.put(f"/apis/{GROUP}/v1alpha1/driverdiscoveries", {
            "apiVersion": f"{GROUP}/v1alpha1", "kind": "DriverDiscovery",
            "metadata": {"name": name}, "spec": {
                "driverName": driver or name, "clientConfig": {
                    "url": url, "caBundle": base64.b64encode(
                        self.authority.crt.read_bytes()).decode()}}})

    def test_an_object_of_another_name_is_not_the_drivers(self):
        self.kube.allow(self.user, "get", "volumesnapshots")
        self.kube.snapshot("app", "bait", "other.example")
        self.discover("something-else", f"https://{HOST}:{self.http_port}", "other.example")
        status, said = self.create(base=None, target="bait")
        self.assertEqual(status, 404, said)


class Webhook(RolesTest):
    """Reviews of `cairn manager`."""

    PATH = "/validate-snapshotsessionrequest"
    SECRET = "0123456789abcdefABCDEF"

    def setUp(self):
        super().setUp()
        secret = self.directory / "webhook-secret"
        secret.write_text(self.SECRET + "\n")
        self.port = self.serve("manager", "manager", "--webhook", f"{HOST}:PORT",
                               "--webhook-secret", secret)
        self.kube.allow("ann", "get", "volumesnapshots", "one")

    def review(self, path, *snapshots):
        """(status, what the review allows, or None)"""
        status, text = self.ask(self.port, "POST", path, {
            "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
                "uid": "u", "namespace": "app", "operation": "CREATE",
                "resource": {"group": GROUP, "version": "v1alpha2",
                             "resource": "snapshotsessionrequests"},
                "userInfo": {"username": "ann"},
                "object": {"spec": {"snapshots": list(snapshots)}}}})
        return status, json.loads(text)["response"]["allowed"] if status == 200 else None

    def test_nobody_but_the_api_server_is_told_what_a_user_may_do(self):
        self.assertEqual(self.review(f"{self.PATH}/{self.SECRET}", "one"), (200, True))
        asked = len(self.kube.access_reviews)
        for path in (self.PATH, f"{self.PATH}/", f"{self.PATH}/{self.SECRET}x",
                     f"{self.PATH}/{self.SECRET[:-1]}", f"{self.PATH}/{self.SECRET}/"):
            self.assertEqual(self.review(path, "two"), (404, None), path)
        self.assertEqual(len(self.kube.access_reviews), asked)

    def test_each_name_is_asked_for(self):
        """A right without a name says nothing of rules that name one."""
        self.assertEqual(self.review(f"{self.PATH}/{self.SECRET}", "one", "two"), (200, False))
        names = [review["name"] for review in self.kube.access_reviews]
        self.assertEqual(names, ["one", "two"])


if __name__ == "__main__":
    unittest.main()
