#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Clients and sidecars of two makes, each with each, before `cairn driver` on a real
control plane: `cairn list` and `cairn verify`, and a Go program on upstream's pkg/iterator;
`cairn sidecar`, and upstream's. Listings must equal what the test wrote, whatever breaks."""
import json
import os
import subprocess
import tempfile
import unittest

from client_bed import (AUDIENCE, BIN, BLOCK, DENIED, NOT_FOUND, PEERS, SMALL, TIMEOUT,
                        UNAUTHENTICATED, ClientBed)
from processes import wait_until


class Clients:
    """What must hold with either sidecar."""

    def test_full_and_incremental_listings_equal_the_truth(self):
        self.assertEqual(self.blocks(self.run_cairn("-o", "ndjson").stdout), self.full)
        for base in (["-p", "monday"], ["-P", self.monday]):
            self.assertEqual(self.blocks(self.run_cairn("-o", "ndjson", *base).stdout),
                             self.delta)

    def test_upstreams_client_and_ours_write_the_same(self):
        for output in ("table", "json"):
            for base in ([], ["previous-snapshot", "monday"]):
                ours = self.run_cairn("-o", output, "--max-results", 300,
                                      *[f"--{'='.join(base)}"] if base else [])
                theirs = self.run_go("-output-format", output, "-max-results", 300,
                                     *[f"-{'='.join(base)}"] if base else [])
                self.assertEqual(ours.stdout, theirs.stdout)
                self.assertGreater(len(ours.stdout), 1000000)

    def test_a_listing_goes_on_from_where_another_ended(self):
        middle = self.full[len(self.full) // 2][0]
        rest = self.blocks(self.run_cairn("-o", "ndjson", "--starting-offset", middle).stdout)
        self.assertEqual(rest, [item for item in self.full if sum(item) > middle])

    def test_the_sidecar_is_killed_in_the_middle(self):
        def meanwhile():
            self.processes.kill("sidecar")
            self.processes.start("sidecar", *self.processes.commands["sidecar"])
        code, out, said = self.interrupted(meanwhile)
        self.assertEqual(code, 0, said)
        self.assertEqual(self.blocks(out), self.full)
        self.assertIn("trying again", said)

    def test_the_driver_is_killed_in_the_middle(self):
        def meanwhile():
            self.processes.kill("driver")
            self.processes.start("driver", *self.processes.commands["driver"])
            self.after_driver_restart()
        code, out, said = self.interrupted(meanwhile, "-p", "monday")
        self.assertEqual(code, 0, said)
        self.assertEqual(self.blocks(out), self.delta)
        if self.resumes:
            self.assertNotIn("trying again", said)

    def test_a_token_that_is_no_longer_good_in_the_middle(self):
        self.kube.service_account("backup", "short")
        self.kube.allow("short-two", "backup:short", role="cairn-snapshot-metadata-reader",
                        namespace="default")
        token = self.bed.directory / "token"
        good = ["--token-file", token, "--address", f"localhost:{self.port}", "--ca-file",
                self.kube.authority]
        old = self.kube.token("backup", "short", AUDIENCE)

        def renew(is_told):
            self.processes.kill("sidecar")
            self.kube.delete("-n", "backup", "serviceaccount", "short")
            self.kube.service_account("backup", "short")
            wait_until(lambda: not self.is_good(token.read_text()), 180, "the token is no good")
            if is_told:
                token.write_text(self.kube.token("backup", "short", AUDIENCE))
            self.processes.start("sidecar", *self.processes.commands["sidecar"])

        token.write_text(old)
        code, _, said = self.interrupted(lambda: renew(False), *good)
        self.assertEqual(code, UNAUTHENTICATED, said)
        token.write_text(self.kube.token("backup", "short", AUDIENCE))
        code, out, said = self.interrupted(lambda: renew(True), *good)
        self.assertEqual(code, 0, said)
        self.assertEqual(self.blocks(out), self.full)
        self.assertNotIn(old[:20], said)

    def is_good(self, token):
        """What the API server says of a token; for ten seconds it says what it said before."""
        return self.kube.request("POST", "/apis/authentication.k8s.io/v1/tokenreviews", {
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
            "spec": {"token": token, "audiences": [AUDIENCE]}})["status"].get("authenticated")

    def test_verify_proves_full_and_incremental_listings(self):
        source = self.device("source", "small-tuesday")
        for base, target in ([], self.device("target")), (
                ["-p", "small-monday"], self.device("base", "small-monday")):
            done = self.run_cairn("--source-device-path", source, "--target-device-path", target,
                                  "-o", "json", *base, snapshot="small-tuesday", program="verify")
            self.assertTrue(json.loads(done.stdout)["ok"])

    def test_upstreams_verifier_agrees(self):
        source, target = self.device("source", "small-tuesday"), self.device("base", "small-monday")
        self.run_go("-output-format=verify", f"-source-device-path={source}",
                    f"-target-device-path={target}", "-previous-snapshot=small-monday",
                    snapshot="small-tuesday")
        os.truncate(target, 0)
        os.truncate(target, SMALL)
        self.run_go("-output-format=verify", f"-source-device-path={source}",
                    f"-target-device-path={target}", snapshot="small-tuesday")

    def test_verify_finds_a_change_that_was_not_listed(self):
        source, target = self.device("source", "small-tuesday"), self.device("base", "small-monday")
        with open(target, "r+b") as file:
            file.seek(1500 * BLOCK)  # written before monday and not since
            file.write(b"x")
        self.run_cairn("--source-device-path", source, "--target-device-path", target,
                       "-p", "small-monday", snapshot="small-tuesday", program="verify", code=15)

    def test_who_may_not_is_told_so(self):
        self.run_cairn("--audience", "somebody-else", "--no-retry", code=UNAUTHENTICATED)
        self.run_cairn(snapshot="never", code=NOT_FOUND)
        self.kube.service_account("backup", "other")
        token = self.bed.directory / "other-token"
        token.write_text(self.kube.token("backup", "other", AUDIENCE))
        self.run_cairn("--token-file", token, code=DENIED)


class UpstreamSidecar(Clients, ClientBed):
    resumes = False

    @classmethod
    def sidecar_command(cls):
        return [PEERS["csi-snapshot-metadata"], "--kube-api-qps=500", "--kube-api-burst=1000"]

    def after_driver_restart(self):
        # It ends when it loses the driver; a kubelet would start it again.
        self.restart_sidecar()


class OurSidecar(Clients, ClientBed):
    resumes = True  # over a restart of the driver

    @classmethod
    def sidecar_command(cls):
        return [BIN, "sidecar"]

    def after_driver_restart(self):
        """Nothing: it finds the driver again."""

    def iterate(self, meanwhile):
        """Upstream's library, with something done in the middle; its status, output and errors.
        It neither retries nor resumes: Velero reads the whole device after an error."""
        with tempfile.TemporaryFile("w+") as said, subprocess.Popen(
                [PEERS["esm-iterate"], f"-kubeconfig={self.config}", "-namespace=default",
                 "-snapshot=tuesday", "-output-format=table", "-max-results=1"], text=True,
                stdout=subprocess.PIPE, stderr=said, stdin=subprocess.DEVNULL) as listing:
            first = "".join(listing.stdout.readline() for _ in range(100))
            meanwhile()
            out = first + listing.stdout.read()
            code = listing.wait(TIMEOUT)
            said.seek(0)
            return code, out, said.read()

    def test_upstreams_library_notices_no_restart_of_the_driver(self):
        truth = self.run_go("-output-format=table", "-max-results=1").stdout

        def restart():
            self.processes.kill("driver")
            self.processes.start("driver", *self.processes.commands["driver"])
        code, out, said = self.iterate(restart)
        self.assertEqual(code, 0, said)
        self.assertEqual(out, truth)

    def test_upstreams_library_notices_the_end_of_the_sidecar(self):
        truth = self.run_go("-output-format=table", "-max-results=1").stdout
        code, out, said = self.iterate(self.restart_sidecar)
        self.assertNotEqual(code, 0, said)  # never a part that looks whole
        self.assertTrue(truth.startswith(out[:out.rindex("\n")]))
        self.assertLess(len(out), len(truth))


if __name__ == "__main__":
    unittest.main()
