#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""`cairn sidecar` before `cairn driver` under the real controllers: listings against what the
test wrote, and what goes wrong in the middle, each with its code. The sidecar has the rights
of deploy/rbac and no others; no token reaches a log."""
import base64
import json
import os
import signal
import subprocess
import sys
import time
import unittest

import cluster
import wire
from bed import AUDIENCE, PROGRAMS, Bed, Client, Outcome, eventually
from controlplane import ISSUER
from csistack import CsiStack
from pki import openssl

cluster.peers_or_skip(*PROGRAMS, *CsiStack.PROGRAMS, "esm-iterate")
DRIVER = "cairn.csi.dev"
BLOCK = 4096
BLOCKS = 32768  # of a volume: 128 MiB
LEEWAY = 60


def blocks(tuples):
    return {block for offset, size in tuples
            for block in range(offset // BLOCK, (offset + size + BLOCK - 1) // BLOCK)}


def encode(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class Story(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.bed = cls.enterClassContext(Bed(csi=True))
        cls.kube, cls.csi = cls.bed.kube, cls.bed.cluster.csi
        cls.sidecar = cls.bed.cairn(cls.csi.socket)
        cls.bed.add_service(DRIVER, f"localhost:{cls.sidecar.port}")
        cls.sidecar.start()
        cls.sidecar.wait_ready()
        cls.slow = Client(cls.sidecar.port, cls.bed.authority, window=8192)
        cls.addClassCleanup(cls.slow.close)
        cls.csi.claim("data", "128Mi", namespace="one")
        cls.first = {1, 2, 3, 1000, BLOCKS - 1}
        cls.write(cls.first)
        cls.csi.snapshot("monday", "data", namespace="one")
        cls.second = set(range(0, BLOCKS, 2))  # every other block: many extents
        cls.write(cls.second)
        cls.csi.snapshot("tuesday", "data", namespace="one")
        cls.monday = cls.csi.snapshot_id("monday", "one")

    @classmethod
    def tearDownClass(cls):
        cls.sidecar.close()

    @classmethod
    def write(cls, numbers):
        with open(cls.csi.volume_file("data", "one"), "r+b") as file:
            for number in numbers:
                os.pwrite(file.fileno(), os.urandom(BLOCK), number * BLOCK)
            os.fsync(file.fileno())

    def allocated(self, snapshot="monday", token=None, namespace="one", **more):
        return self.sidecar.client.allocated(token or self.bed.token, namespace, snapshot, **more)

    def delta(self, base=None, target="tuesday", token=None, **more):
        return self.sidecar.client.delta(token or self.bed.token, "one", base or self.monday,
                                         target, **more)

    def many(self, token=None):
        """A stream of some 16000 messages, begun by a caller that has little room for them."""
        return self.slow.stream("GetMetadataDelta", wire.delta_request(
            token or self.bed.token, "one", self.monday, "tuesday", max_results=1))

    def code(self, outcome, code):
        self.assertEqual(outcome.code, code, outcome)

    def test_listings_are_what_was_written(self):
        full, changed = self.allocated(), self.delta()
        self.code(full, "OK")
        self.code(changed, "OK")
        self.assertEqual(blocks(full.tuples), self.first)
        self.assertEqual(blocks(changed.tuples), self.second)
        self.assertEqual({wire.read_message(m)[:2] for m in changed.messages},
                         {(wire.VARIABLE, BLOCKS * BLOCK)})
        self.assertEqual(blocks(self.allocated("tuesday").tuples), self.first | self.second)

    def test_a_listing_is_resumed_in_the_middle(self):
        stream = self.many()
        part = [pair for _ in range(100) for pair in wire.read_message(next(stream))[2]]
        stream.cancel()
        end = part[-1][0] + part[-1][1]
        rest = self.delta(offset=end)
        self.code(rest, "OK")
        self.assertEqual(part + rest.tuples, self.delta().tuples)

    def test_the_driver_is_killed_in_the_middle(self):
        stream = self.many()
        part = [pair for _ in range(100) for pair in wire.read_message(next(stream))[2]]
        self.bed.processes.kill("driver")
        eventually(lambda: self.sidecar.health() == 503)
        self.bed.processes.start("driver", *self.bed.processes.commands["driver"])
        rest = Outcome(stream)
        self.code(rest, "OK")
        self.assertEqual(part + rest.tuples, sorted(set(part + rest.tuples)))
        self.assertEqual(blocks(part + rest.tuples), self.second)
        eventually(lambda: self.sidecar.health() == 200)
        self.code(self.delta(), "OK")
        for name in ("csi-provisioner", "csi-resizer", "csi-snapshotter"):
            self.bed.processes.restart(name)

    def test_the_api_server_is_down_for_a_while(self):
        self.code(self.delta(), "OK")
        self.bed.processes.kill("kube-apiserver")
        eventually(lambda: self.delta().code == "UNAVAILABLE")
        self.assertEqual(self.sidecar.health(), 200)  # it is not the sidecar that fails
        self.bed.processes.start("kube-apiserver",
                                 *self.bed.processes.commands["kube-apiserver"])
        eventually(lambda: self.kube.answers("/readyz"))
        eventually(lambda: self.delta().code == "OK")

    def forged(self, seconds):
        """A token of "one:client" that expires sooner than the API server gives any. It lets
        a token live for LEEWAY longer than that says, because clocks differ."""
        account = self.kube.get("-n", "one", "serviceaccount", "client")["metadata"]
        now = int(time.time())
        head = encode(json.dumps({"alg": "ES256", "typ": "JWT",
                                  "kid": self.key_id()}).encode())
        body = encode(json.dumps({
            "aud": [AUDIENCE], "iss": ISSUER, "iat": now - 2 * LEEWAY,
            "nbf": now - 2 * LEEWAY, "exp": now + seconds - LEEWAY,
            "sub": "system:serviceaccount:one:client",
            "kubernetes.io": {"namespace": "one", "serviceaccount": {
                "name": "client", "uid": account["uid"]}}}).encode())
        key = self.bed.directory / "pki" / "sa.key"
        der = openssl("dgst", "-sha256", "-sign", key, input=f"{head}.{body}".encode()).stdout
        # ASN.1: a sequence of two integers, of up to 33 bytes each
        size = der[3]
        parts = der[4:4 + size], der[6 + size:]
        return f"{head}.{body}.{encode(b''.join(p[-32:].rjust(32, bytes(1)) for p in parts))}"

    def key_id(self):
        head = self.bed.token.split(".")[0]
        return json.loads(base64.urlsafe_b64decode(head + "=" * (-len(head) % 4)))["kid"]

    def test_the_token_expires_in_the_middle(self):
        token = self.forged(4)
        stream = self.many(token)
        for _ in range(10):
            next(stream)
        eventually(lambda: self.delta(token=token).code == "UNAUTHENTICATED")
        rest = Outcome(stream)  # what began while it was good goes on
        self.code(rest, "OK")
        self.assertEqual(len(rest.tuples) + 10, len(self.second))
        self.assertNotIn(token, self.sidecar.log())

    def test_a_snapshot_is_deleted(self):
        self.csi.snapshot("short", "data", namespace="one")
        self.code(self.allocated("short"), "OK")
        handle = self.csi.snapshot_id("short", "one")
        self.kube.delete("-n", "one", "volumesnapshot", "short")
        eventually(lambda: self.allocated("short").code == "NOT_FOUND")
        # As a base its change sets still answer.
        self.write({7})
        self.csi.snapshot("later", "data", namespace="one")
        changed = self.delta(handle, "later")
        self.code(changed, "OK")
        self.assertEqual(blocks(changed.tuples), {7})

    def test_an_application_on_the_go_client_library(self):
        program = cluster.peers("esm-iterate")["esm-iterate"]
        self.bed.add_caller("go")
        self.kube.apply(cluster.REPOSITORY / "deploy/rbac/client.yaml")
        self.kube.allow("go-client", "one:go", role="cairn-snapshot-metadata-client")
        self.kube.allow_own_tokens("one", "go")
        config = self.kube.kubeconfig_of_account("one", "go")
        for words, truth in ((["--snapshot=monday"], self.first),
                             (["--snapshot=tuesday", "--previous-snapshot=monday"], self.second),
                             (["--snapshot=tuesday", f"--previous-snapshot-id={self.monday}"],
                              self.second)):
            done = subprocess.run(
                [program, f"--kubeconfig={config}", "--namespace=one", "--output-format=json",
                 "--service-account=go", "--service-account-namespace=one", *words],
                stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
            self.assertEqual(done.returncode, 0, done.stderr)
            found = [(pair.get("byte_offset", 0), pair["size_bytes"])
                     for message in json.loads(done.stdout)
                     for pair in message.get("block_metadata", [])]
            self.assertEqual(blocks(found), truth)

    def test_the_wrong_audience(self):
        for audience in ("another", None):
            token = self.kube.token("one", "client", audience)
            self.code(self.allocated(token=token), "UNAUTHENTICATED")
        self.code(self.allocated(token="nonsense"), "UNAUTHENTICATED")

    def test_no_right(self):
        self.bed.add_caller("nobody", rules=False)
        token = self.kube.token("one", "nobody", AUDIENCE)
        self.code(self.allocated(token=token), "PERMISSION_DENIED")
        self.code(self.delta(token=token), "PERMISSION_DENIED")

    def test_a_right_is_taken_away(self):
        self.bed.add_caller("short-lived")
        token = self.kube.token("one", "short-lived", AUDIENCE)
        self.code(self.allocated(token=token), "OK")
        self.kube.delete("-n", "one", "rolebinding", "reader-short-lived")
        eventually(lambda: self.allocated(token=token).code == "PERMISSION_DENIED")
        self.kube.delete("-n", "one", "serviceaccount", "short-lived")
        eventually(lambda: self.allocated(token=token).code == "UNAUTHENTICATED")

    def test_another_namespace(self):
        self.code(self.allocated(namespace="two"), "PERMISSION_DENIED")
        self.csi.claim("theirs", "8Mi", namespace="two")
        self.csi.snapshot("theirs", "theirs", namespace="two")
        self.code(self.delta(self.csi.snapshot_id("theirs", "two")), "PERMISSION_DENIED")

    def test_another_drivers_snapshot(self):
        name = self.bed.snapshot(driver="else.cairn.test")
        outcome = self.allocated(name)
        self.code(outcome, "INVALID_ARGUMENT")
        self.assertIn(f"does not belong to the CSI driver '{DRIVER}'", outcome.text)

    def test_the_certificate_is_replaced(self):
        before = self.certificate()
        self.bed.cluster.control_plane.authority.issue(
            "sidecar", "/CN=renewed", "serverAuth", ["IP:127.0.0.1", "DNS:localhost"])
        eventually(lambda: self.certificate() != before)
        self.code(self.allocated(), "OK")

    def certificate(self):
        import ssl
        return ssl.get_server_certificate(("127.0.0.1", self.sidecar.port))

    def test_nothing_secret_is_in_the_log(self):
        self.code(self.allocated(), "OK")
        self.code(self.allocated("no-such"), "NOT_FOUND")
        log = self.sidecar.log()
        self.assertIn("system:serviceaccount:one:client", log)
        self.assertNotIn(self.bed.token, log)
        self.assertNotIn(self.bed.token.split(".")[2], log)
        self.assertNotIn("forbidden", log)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    unittest.main()
