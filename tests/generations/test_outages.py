#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What comes and goes under the roles of the older flavours: the API server, the front proxy's
authority, certificates past their time. All roles run at once, none is restarted."""
import base64
import ssl
import unittest

import grpc
from generations import GROUP, HOST
from kube import Refused, encode
from pki import CLIENT, Authority
from processes import wait_until
from test_aggapi import AUDIENCE, DELTAS, delta
from test_flavours import FlavoursTest

ROLES = ("driver", "sidecar", "manager", "diffsnap", "cbt-http", "aggapi")
TRUST = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
SERVICE = f"/apis/apiregistration.k8s.io/v1/apiservices/v1alpha1.{GROUP}"
DISCOVERIES = f"/apis/{GROUP}/v1alpha2/driverdiscoveries"
MERGE = {"content_type": "application/merge-patch+json"}
FORGED = {"X-Remote-User": "somebody", "X-Remote-Group": "system:masters",
          "Content-Type": "application/json"}
GONE = 0  # instead of a status: the connection ended


class Outages(FlavoursTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.pids = cls.running()

    @classmethod
    def running(cls):
        return {name: cls.bed.processes.pid(name) for name in ROLES}

    def tearDown(self):
        self.assertEqual(self.running(), self.pids, "a role ended")

    def all_answer(self, token):
        expected = self.truth("data-1", "data-2")
        self.assertEqual(self.shipped("data-1", "data-2", 256), expected)
        self.assertEqual(self.in_session(token, "data-1", "data-2", 256), expected)
        self.assertEqual(self.differential("data-1", "data-2", 256), expected)
        self.assertEqual(self.deltas("data-1", "data-2", 256), expected)

    # ---- the API server ----

    def ask_without_api_server(self, token):
        """Each ends, with an answer or with an error; the tests' own limits tell a hang."""
        try:
            self.in_session(token, "data-1", "data-2", 256, volume=self.volume)
        except grpc.RpcError as failed:
            self.assertIn(failed.code(), (grpc.StatusCode.UNAVAILABLE,
                                          grpc.StatusCode.UNAUTHENTICATED), failed.details())
        status, text, _ = self.https.ask("/namespaces/default/diff?base=data-1&target=data-2",
                                         self.token)
        self.assertIn(status, (200, 500, 503), text)
        question = {"toSnapshotId": self.handle, "maxEntries": 1, "user": "somebody",
                    "namespace": "default", "target": "data-2"}
        fields = {"Authorization": f"Bearer {self.aggapi_token}"}
        status, text = self.stack.plain(self.stack.sidecar_port, "POST", "/v1/deltas", question,
                                        fields)
        self.assertIn(status, (200, 500, 503), text)
        status, text = self.stack.plain(self.stack.port, "POST", DELTAS, delta(), {
            "Authorization": f"Bearer {self.token}", "Content-Type": "application/json"})
        self.assertIn(status, (500, 503, 504), text)

    def test_the_api_server_goes_and_comes_back(self):
        token = self.session("before", "data-1", "data-2")
        self.all_answer(token)
        self.handle, self.volume = self.csi.snapshot_id("data-2"), self.csi.volume_id("data")
        self.aggapi_token = self.kube.token("cairn", "cairn-aggapi", AUDIENCE)
        command = self.bed.processes.commands["kube-apiserver"][0]
        self.bed.processes.kill("kube-apiserver")
        self.ask_without_api_server(token)
        self.bed.processes.start("kube-apiserver", command)
        wait_until(lambda: self.kube.answers("/readyz"), 180, "the API server is back")
        self.kube.kubectl("wait", "--for=condition=Available", "apiservice",
                          f"v1alpha1.{GROUP}", "--timeout=180s", timeout=200)
        wait_until(lambda: self.works(token), 180, "the sidecar answers")
        self.all_answer(token)
        self.watches_went_on()

    def watches_went_on(self):
        """What is new since then is noticed, by each who watches something."""
        token = self.session("after", "data-1", "data-2")  # the manager, then the sidecar
        wait_until(lambda: self.works(token), 120, "the sidecar knows it")
        self.kube.apply({"apiVersion": f"{GROUP}/v1alpha2", "kind": "DifferentialSnapshot",
                         "metadata": {"name": "after"},
                         "spec": {"targetVolumeSnapshotName": "data-2"}})
        self.kube.wait(lambda made: made.get("status", {}).get("state") == "Success",
                       "differentialsnapshot", "after")
        self.assertEqual(self.https.ask("/default/after", self.token)[0], 200)
        self.kube.delete("differentialsnapshot", "after")
        wait_until(lambda: self.https.ask("/default/after", self.token)[0] == 404, 60,
                   "diffsnap forgets it")
        self.kube.delete("snapshotsessionrequest", "after")
        wait_until(lambda: self.is_over(token), 180, "the sidecar forgets it")
        status = self.discover("second", f"https://{HOST}:1")
        self.assertFalse(status["reachable"])
        # An object of another name is not the driver's, whatever it says.
        self.kube.request("POST", DISCOVERIES, self.discovery("twin", self.roles.DRIVER,
                                                              f"https://{HOST}:1"))
        self.kube.wait(lambda made: not made.get("status", {}).get("reachable", True),
                       "driverdiscovery", "twin")
        self.assertEqual(self.kube.ask("POST", DELTAS, delta(base="data-1", target="data-2"))[0],
                         201)
        self.kube.request("DELETE", f"{DISCOVERIES}/twin")

    @staticmethod
    def discovery(name, driver, url, ca=None):
        config = {"url": url, **({"caBundle": encode(ca)} if ca else {})}
        return {"apiVersion": f"{GROUP}/v1alpha2", "kind": "DriverDiscovery",
                "metadata": {"name": name},
                "spec": {"driverName": driver, "clientConfig": config}}

    def discover(self, name, url, ca=None):
        """What the manager says of a new DriverDiscovery."""
        self.kube.request("POST", DISCOVERIES, self.discovery(name, name, url, ca))
        self.addCleanup(self.kube.request, "DELETE", f"{DISCOVERIES}/{name}")
        return self.kube.wait(lambda made: "reachable" in made.get("status", {}),
                              "driverdiscovery", name)["status"]

    # ---- whom to believe ----

    def forged(self, identity, fields=None):
        return self.stack.plain(self.stack.port, "POST", DELTAS,
                                delta(base="data-1", target="data-2", limit=1),
                                fields or FORGED, identity)

    def trust(self, **data):
        self.kube.request("PATCH", TRUST, {"data": {
            key.replace("_", "-"): value for key, value in data.items()}}, **MERGE)

    def test_another_front_proxy_is_believed_once_the_config_map_names_it(self):
        front = self.bed.control_plane.front
        known = self.kube.request("GET", TRUST)["data"]
        other = Authority(self.bed.directory / "front-2", "ca", "another front proxy")
        identity = other.issue("proxy", "/CN=other-proxy", CLIENT)
        self.assertNotEqual(self.forged(identity)[0], 201)
        self.trust(requestheader_client_ca_file=front.crt.read_text() + other.crt.read_text(),
                   requestheader_allowed_names='["front-proxy-client","other-proxy"]',
                   requestheader_username_headers='["X-Remote-User","X-Other-User"]')
        wait_until(lambda: self.forged(identity)[0] == 201, 120, "the new authority counts")
        fields = {**FORGED, "X-Other-User": "somebody"}
        del fields["X-Remote-User"]
        self.assertEqual(self.forged(identity, fields)[0], 201)
        # A name that the authority signed and the API server does not name.
        stranger = other.issue("stranger", "/CN=somebody-else", CLIENT)
        self.assertEqual(self.forged(stranger)[0], 401)
        self.assertTrue(self.deltas("data-1", "data-2", 256))
        self.trust(**{key.replace("-", "_"): known[key] for key in known
                      if key.startswith("requestheader")})
        wait_until(lambda: self.forged(identity)[0] in (GONE, 401), 120, "it counts no more")
        self.assertTrue(self.deltas("data-1", "data-2", 256))

    # ---- past their time ----

    def test_a_front_proxy_with_an_expired_certificate_is_refused(self):
        front = self.bed.control_plane.front
        crt, key = front.issue("late", "/CN=front-proxy-client", CLIENT)
        self.assertEqual(self.forged((crt, key))[0], 201)
        status, text = self.forged((front.expired(crt, key), key))
        self.assertEqual(status, GONE)
        self.assertIn(b"certificate expired", text)

    def test_an_expired_authority_of_the_aggregated_server(self):
        known = self.kube.request("GET", SERVICE)["spec"]["caBundle"]
        expired = self.stack.authority.expired()
        self.kube.request("PATCH", SERVICE, {"spec": {"caBundle": encode(expired)}}, **MERGE)
        try:
            def is_told():
                status, text = self.kube.ask("POST", DELTAS, delta(target="data-2"))
                return status == 503 and "certificate has expired" in text
            wait_until(is_told, 180, "callers are told why")
        finally:
            self.kube.request("PATCH", SERVICE, {"spec": {"caBundle": known}}, **MERGE)
        wait_until(self.deltas_or_none, 180, "with the right one, it is believed")

    def test_an_expired_authority_of_a_drivers_sidecar(self):
        url, expired = f"https://{HOST}:{self.stack.sidecar_port}", self.stack.authority.expired()
        self.assertTrue(self.discover("in-time", url, self.stack.authority.crt)["reachable"])
        status = self.discover("late", url, expired)
        self.assertFalse(status["reachable"])
        self.assertRegex(status["message"], "caBundle.* expired")
        # Who asks is told the same.
        place = f"{DISCOVERIES}/{self.roles.DRIVER}"
        self.kube.request("PATCH", place, {"spec": {"clientConfig": {
            "caBundle": encode(expired)}}}, **MERGE)

        def is_told():
            status, text = self.kube.ask("POST", DELTAS, delta(base="data-1", target="data-2"))
            return status == 400 and "the caBundle's certificates have all expired" in text
        wait_until(is_told, 180, "the refusal says why")
        self.kube.request("PATCH", place, {"spec": {"clientConfig": {
            "caBundle": encode(self.stack.published)}}}, **MERGE)
        wait_until(self.deltas_or_none, 120, "with the right one, it is reached")

    def deltas_or_none(self):
        try:
            return self.deltas("data-1", "data-2", 256)
        except (AssertionError, Refused):
            return None

    # ---- new ones ----

    def test_new_certificates_are_served_without_a_restart(self):
        ports = {"sidecar": self.grpc_port, "diffsnap": self.roles.rest_port,
                 "manager": self.roles.webhook_port, "aggapi": self.stack.port,
                 "cbt-http": self.stack.sidecar_port}
        old = {name: ssl.get_server_certificate((HOST, port)) for name, port in ports.items()}
        self.roles.issue()
        self.stack.issue()
        new = [path.read_text() for path in (self.roles.cert, self.stack.pair[0])]
        for name, port in ports.items():
            with self.subTest(name):
                wait_until(lambda port=port: ssl.get_server_certificate((HOST, port)) in new, 120,
                           f"{name} has the new one")
                self.assertNotIn(old[name], new)
        self.all_answer(self.session("renewed", "data-1", "data-2"))

    def test_new_authorities_are_published(self):
        other = Authority(self.bed.directory / "next-ca", "ca", "the next one")
        text = self.stack.authority.crt.read_text() + other.crt.read_text()
        self.stack.published.write_text(text)
        self.kube.wait(lambda made: base64.b64decode(made["spec"]["clientConfig"]["caBundle"])
                       .decode() == text, "driverdiscovery", self.roles.DRIVER, seconds=30)
        self.assertTrue(self.deltas("data-1", "data-2", 256))


if __name__ == "__main__":
    unittest.main()
