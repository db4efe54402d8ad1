#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""How the client finds a service, its rights and its tokens: on a real API server with
RBAC, with objects as the snapshot controllers make them, and a scripted peer behind."""
import base64
import json
import os
import subprocess
import unittest

import cluster
from processes import Ports, wait_until

cluster.peers_or_skip(*cluster.CONTROL_PLANE, "snapshot-crds")
BIN = os.environ["CAIRN_BIN"]
SERVICE = os.environ["CAIRN_SCRIPTED_SERVICE"]
TIMEOUT = 120
DRIVER, AUDIENCE, NAME = "drv.example", "the-audience", "service.example"
SNAPSHOT = "snapshot.storage.k8s.io/v1"
INVALID, NOT_FOUND, DENIED, PRECONDITION, UNAVAILABLE = 3, 5, 7, 9, 14


def claims(token):
    """What is in a token."""
    part = token.split(".")[1]
    return json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))


class Discovery(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.bed = cls.enterClassContext(cluster.Cluster(crds=True))
        cls.kube, cls.processes = cls.bed.kube, cls.bed.processes
        cls.cert, cls.key = cls.bed.control_plane.authority.issue(
            "service", f"/CN={NAME}", "serverAuth", [f"DNS:{NAME}", "DNS:localhost"])
        cls.kube.apply(cluster.REPOSITORY / "deploy" / "rbac" / "client.yaml")
        cls.kube.namespace("backup")
        for account in ("client", "nobody", "tokenless"):
            cls.kube.service_account("backup", account)
        for account in ("client", "tokenless"):
            cls.kube.allow(f"{account}-one", f"backup:{account}",
                           role="cairn-snapshot-metadata-client")
            cls.kube.allow(f"{account}-two", f"backup:{account}", namespace="default",
                           role="cairn-snapshot-metadata-reader")
        cls.kube.allow_own_tokens("backup", "client")
        cls.config = cls.kube.kubeconfig_of_account("backup", "client")

    def setUp(self):
        self.address, self.streams = None, []
        for name in ("monday", "tuesday"):
            self.make_snapshot(name)

    def tearDown(self):
        if self.processes.is_alive("service"):
            self.processes.stop("service")
        self.kube.delete("volumesnapshots", "--all")
        self.kube.delete("volumesnapshotcontents", "--all")
        self.kube.delete("snapshotmetadataservices", "--all")

    # --- objects ---

    def set_status(self, kind, name, status, *where):
        self.kube.kubectl("patch", kind, name, *where, "--subresource=status", "--type=merge",
                          "-p", json.dumps({"status": status}))

    def make_snapshot(self, name, refers_to=None, driver=DRIVER, status=True):
        content = f"content-{name}"
        self.kube.apply([
            {"apiVersion": SNAPSHOT, "kind": "VolumeSnapshot", "metadata": {"name": name},
             "spec": {"source": {"volumeSnapshotContentName": content}}},
            {"apiVersion": SNAPSHOT, "kind": "VolumeSnapshotContent",
             "metadata": {"name": content},
             "spec": {"driver": driver, "deletionPolicy": "Retain",
                      "source": {"snapshotHandle": f"handle-{name}"},
                      "volumeSnapshotRef": {"namespace": "default",
                                            "name": refers_to or name}}}])
        if status:
            self.set_status("volumesnapshot", name, {
                "readyToUse": True, "boundVolumeSnapshotContentName": content})
            self.set_status("volumesnapshotcontent", content, {
                "readyToUse": True, "snapshotHandle": f"handle-{name}"})

    def publish(self, address, authority=None):
        self.kube.apply({
            "apiVersion": "cbt.storage.k8s.io/v1beta1", "kind": "SnapshotMetadataService",
            "metadata": {"name": DRIVER},
            "spec": {"address": address, "audience": AUDIENCE,
                     "caCert": base64.b64encode(
                         (authority or self.kube.authority).read_bytes()).decode()}})

    def serve(self, *args, port=None, publish=True):
        """Starts the scripted peer and publishes its address."""
        ports = Ports()
        port = port or ports.take()
        self.processes.start("service", [SERVICE, "--cert", self.cert, "--key", self.key, *args,
                                         f"127.0.0.1:{port}"])
        ports.close()
        mark = len(self.processes.log_text("service"))
        self.processes.wait_ready("service", lambda: f"ready 127.0.0.1:{port}" in
                                  self.processes.log_text("service"))
        self.mark = min(mark, len(self.processes.log_text("service")))
        self.address = f"127.0.0.1:{port}"
        if publish:
            self.publish(f"localhost:{port}")
        return port

    def asked(self):
        """[(offset, kind, snapshot, base, token)] of the peer's streams so far."""
        lines = self.processes.log_text("service").splitlines()
        begun = max(i for i, line in enumerate(lines) if line.startswith("ready"))
        return [line.split()[1:] for line in lines[begun:] if line.startswith("stream")]

    def list(self, *args, code=0, config=None, snapshot="tuesday"):
        done = subprocess.run(
            [BIN, "list", "-n", "default", "-s", snapshot, "--kubeconfig", config or self.config,
             "-o", "ndjson", *map(str, args)], capture_output=True, text=True,
            stdin=subprocess.DEVNULL, timeout=TIMEOUT)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertNotIn("eyJ", done.stderr)  # how tokens begin
        if code == 0:
            self.assertTrue(json.loads(done.stdout.splitlines()[-1])["complete"])
        return done

    # --- what must hold ---

    def test_a_client_with_the_shipped_rights_finds_the_service_and_gets_a_token(self):
        self.serve("--blocks", "50")
        self.list()
        (_, kind, snapshot, base, token), = self.asked()
        self.assertEqual((kind, snapshot, base), ("allocated", "tuesday", "-"))
        found = claims(token)
        self.assertEqual(found["aud"], [AUDIENCE])
        self.assertEqual(found["sub"], "system:serviceaccount:backup:client")
        self.assertLessEqual(found["exp"] - found["iat"], 700)

    def test_a_base_by_name_becomes_its_handle(self):
        self.serve("--blocks", "50")
        self.list("-p", "monday")
        self.list("-P", "of-one-that-is-gone", "-p", "monday")
        self.assertEqual([stream[1:4] for stream in self.asked()],
                         [["delta", "tuesday", "handle-monday"],
                          ["delta", "tuesday", "of-one-that-is-gone"]])

    def test_a_base_that_is_gone_is_not_found_or_falls_back(self):
        self.serve("--blocks", "50")
        self.list("-p", "sunday", code=NOT_FOUND)
        done = self.list("-p", "sunday", "--fall-back")
        self.assertEqual(json.loads(done.stdout.splitlines()[0])["kind"], "allocated")
        self.assertEqual([stream[1] for stream in self.asked()], ["allocated"])

    def test_a_broken_stream_is_taken_up_with_another_token(self):
        self.serve("--blocks", "500", "--step", "5:14", "--step", "5:16", "--step", "all:0")
        self.list()
        streams = self.asked()
        self.assertEqual(len(streams), 3)
        self.assertEqual(len({token for *_, token in streams}), 3)

    def test_a_service_that_moves_is_found_again(self):
        self.serve("--blocks", "500", "--step", "5:14")
        listing = subprocess.Popen(
            [BIN, "list", "-n", "default", "-s", "monday", "--kubeconfig", self.config, "-o",
             "ndjson"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            stdin=subprocess.DEVNULL)
        wait_until(self.asked, 120, "the listing has begun")
        self.processes.stop("service")
        self.serve("--blocks", "500", "--step", "all:0")
        out, said = listing.communicate(timeout=TIMEOUT)
        self.assertEqual(listing.returncode, 0, said)
        blocks = [json.loads(line) for line in out.splitlines()[1:-1]]
        self.assertEqual([b["byte_offset"] for b in blocks], [i * 8192 for i in range(500)])

    def test_the_api_server_may_be_away_while_a_stream_breaks(self):
        self.serve("--blocks", "500", "--step", "5:14", "--step", "5:14", "--step", "all:0")
        self.processes.start("listing", [
            BIN, "list", "-n", "default", "-s", "monday", "--kubeconfig", self.config,
            "--patience", "60s"])
        wait_until(self.asked, 120, "the listing has begun")
        self.processes.kill("kube-apiserver")
        try:
            wait_until(lambda: not self.processes.is_alive("listing"), 180, "the listing ends")
        finally:
            self.processes.restart("kube-apiserver")
            wait_until(lambda: self.kube.answers("/readyz"), 180, "the API server is back")
        text = self.processes.log_text("listing")
        self.assertEqual(text.count("VARIABLE_LENGTH"), 500, text[-300:])

    def test_from_outside_an_address_is_another_way_to_the_same_certificate(self):
        port = self.serve("--blocks", "50", publish=False)
        self.publish(f"{NAME}:{port}")  # a name that does not resolve
        self.list("--no-retry", code=UNAVAILABLE)
        self.list("--address", f"127.0.0.1:{port}")
        self.list("--address", f"127.0.0.1:{port}", "--server-name", "other.example",
                  "--no-retry", code=UNAVAILABLE)

    def test_another_authority_is_not_believed(self):
        other = self.bed.directory / "other"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                        "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=x",
                        "-keyout", f"{other}.key", "-out", other], check=True,
                       capture_output=True)
        port = self.serve("--blocks", "50", publish=False)
        self.publish(f"localhost:{port}", other)
        self.list("--no-retry", code=UNAVAILABLE)
        self.list("--ca-file", self.kube.authority)
        self.assertEqual(len(self.asked()), 1)

    def test_what_is_missing_or_forbidden_has_its_code(self):
        self.serve("--blocks", "50")
        nobody = self.kube.kubeconfig_of_account("backup", "nobody")
        tokenless = self.kube.kubeconfig_of_account("backup", "tokenless")
        self.list(snapshot="never", code=NOT_FOUND)
        self.list("--driver", "other.example", code=NOT_FOUND)
        self.assertIn("forbidden", self.list(config=nobody, code=DENIED).stderr)
        self.assertIn("token of service account backup/tokenless",
                      self.list(config=tokenless, code=DENIED).stderr)
        self.assertIn("is not a service account",
                      self.list(config=self.kube.kubeconfig, code=INVALID).stderr)
        self.assertEqual(self.asked(), [])
        self.list("--service-account", "client", "--service-account-namespace", "backup",
                  config=self.kube.kubeconfig)
        self.kube.delete("snapshotmetadataservices", DRIVER)
        self.list(code=NOT_FOUND)

    def test_a_snapshot_that_is_not_ready_is_waited_for(self):
        self.serve("--blocks", "50")
        self.make_snapshot("young", status=False)
        self.assertIn("not yet ready", self.list("--no-retry", snapshot="young",
                                             code=UNAVAILABLE).stderr)
        self.processes.start("waiting", [BIN, "list", "-n", "default", "-s", "young",
                                         "--kubeconfig", self.config])
        wait_until(lambda: "not yet ready" in self.processes.log_text("waiting"), 120, "it waits")
        self.make_snapshot("young")
        wait_until(lambda: not self.processes.is_alive("waiting"), 180, "the listing ends")
        self.assertEqual(self.processes.log_text("waiting").count("VARIABLE_LENGTH"), 50)

    def test_a_content_that_belongs_to_another_snapshot_is_refused(self):
        self.serve("--blocks", "50")
        self.make_snapshot("thief", refers_to="monday")
        self.assertIn("is not bound to", self.list("--no-retry", snapshot="thief",
                                                   code=PRECONDITION).stderr)
        self.assertEqual(self.asked(), [])


if __name__ == "__main__":
    unittest.main()
