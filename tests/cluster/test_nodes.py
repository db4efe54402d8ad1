#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""One installation on several nodes: claims, snapshots and streams, each on the node of the volume."""
import base64
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest

import cluster
from nodesbed import DRIVER, MANAGED_BY, TOPOLOGY, NodesBed, enter_network
from processes import wait_until
from rights import Audit, Rights

cluster.peers_or_skip(*cluster.CONTROL_PLANE, *NodesBed.PROGRAMS, "snapshot-crds")
MIB = 1 << 20
NODES = ("one", "two")
LONG = 180


class Nodes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        enter_network(len(NODES))
        directory = pathlib.Path(tempfile.mkdtemp(prefix="cairn-cluster-"))
        cls.audit = Audit(directory)
        bed = cls.enterClassContext(cluster.Cluster(directory, crds=True, scheduler=True,
                                                    apiserver_args=cls.audit.words))
        bed.programs.update(cluster.peers(*NodesBed.PROGRAMS))
        cls.bed = NodesBed(bed, NODES)
        cls.bed.start()
        cls.kube, cls.processes = cls.bed.kube, cls.bed.processes

    def setUp(self):
        self.space = self.id().rsplit(".", 1)[1].replace("_", "-")[5:65].rstrip("-")
        self.kube.namespace(self.space)

    def tearDown(self):
        """No program was refused anything: the rights of deploy/overlays/nodes are complete."""
        for name in self.processes.names():
            if name.startswith(("csi-", "sidecar", "certificates")):
                self.assertNotIn("forbidden", self.processes.log_text(name), name)

    def claim(self, name, node, **how):
        self.bed.claim(name, self.space, selector={"kubernetes.io/hostname": node}, **how)

    def write(self, claim, offset, data):
        self.bed.write(claim, self.space, offset, data)

    def one_on_each(self):
        """A claim data-NODE on each, with the snapshots a-NODE and b-NODE."""
        for at, node in enumerate(NODES):
            claim = f"data-{node}"
            self.claim(claim, node)
            self.write(claim, at * MIB, b"a" * 4096)
            self.bed.snapshot(f"a-{node}", claim, self.space)
            self.write(claim, (8 + at) * MIB, b"b" * 4096)
            self.bed.snapshot(f"b-{node}", claim, self.space)

    def test_claims_snapshots_and_streams_are_on_the_volumes_node(self):
        self.one_on_each()
        config = self.bed.make_client(self.space, "reader")
        for at, node in enumerate(NODES):
            self.assertEqual(self.bed.node_of(f"data-{node}", self.space), node)
            content = self.bed.content(f"b-{node}", self.space)
            self.assertEqual(content["metadata"]["labels"][MANAGED_BY], node)
            handle = content["status"]["snapshotHandle"]
            for other in NODES:
                listed = self.bed.nodes[other].cairn("snapshot", "list", "-o", "json")
                self.assertEqual(handle in listed, other == node)
                self.assertEqual(
                    self.bed.list_blocks(config, self.space, other, "-s", f"b-{node}"),
                    (0, [(at * MIB, 4096), ((8 + at) * MIB, 4096)]))
                self.assertEqual(
                    self.bed.list_blocks(config, self.space, other, "-s", f"b-{node}", "-p",
                                         f"a-{node}"), (0, [((8 + at) * MIB, 4096)]))

    def test_a_certificate_is_for_the_node_of_the_pod_and_only_for_sidecars(self):
        node = self.bed.nodes["one"]
        crt = (node.place / "route.crt").read_bytes()
        shown = subprocess.run(["openssl", "x509", "-noout", "-ext", "subjectAltName,extendedKeyUsage"],
                               input=crt, capture_output=True, check=True).stdout.decode()
        self.assertEqual(shown.count("DNS:"), 1)
        self.assertIn("DNS:one.cairn-route", shown)
        request = subprocess.run(
            ["openssl", "req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-noenc",
             "-keyout", "/dev/null", "-subj", "/CN=two", "-addext", "subjectAltName=DNS:two.cairn-route"],
            capture_output=True, check=True).stdout
        for name, token, why in (
                ("of-no-node", self.kube.token("cairn", "cairn-snapshot-metadata"), "name a node"),
                ("of-another", None, "only system:serviceaccount:cairn:cairn-snapshot-metadata"),
                ("of-one", self.kube.token("cairn", "cairn-snapshot-metadata",
                                           pod="cairn-snapshot-metadata-one"), None)):
            self.kube.request("POST", "/apis/certificates.k8s.io/v1/certificatesigningrequests", {
                "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
                "metadata": {"name": name}, "spec": {
                    "request": base64.b64encode(request).decode(), "signerName": f"{DRIVER}/route",
                    "usages": ["digital signature", "server auth", "client auth"]}}, token=token)
            found = self.kube.wait(
                lambda found: found.get("status", {}).get("certificate") or any(
                    condition["type"] == "Denied"
                    for condition in found.get("status", {}).get("conditions", [])),
                "certificatesigningrequest", name)["status"]
            if why:
                self.assertNotIn("certificate", found)
                self.assertIn(why, found["conditions"][0]["message"])
                continue
            shown = subprocess.run(["openssl", "x509", "-noout", "-ext", "subjectAltName"],
                                   input=base64.b64decode(found["certificate"]), capture_output=True,
                                   check=True).stdout.decode()
            self.assertIn("DNS:one.cairn-route", shown)
            self.assertNotIn("two", shown)

    def test_the_space_of_each_node_is_known_and_heeded(self):
        def by_node(found):
            return {item["nodeTopology"]["matchLabels"][TOPOLOGY]: item for item in found["items"]
                    if item["storageClassName"] == "cairn"}
        found = by_node(self.kube.wait(lambda found: set(by_node(found)) == set(NODES),
                                       "-n", "cairn", "csistoragecapacities", seconds=LONG))
        for node, item in found.items():
            self.assertEqual(item["maximumVolumeSize"], item["capacity"])
            owner = item["metadata"]["ownerReferences"][0]
            self.assertEqual((owner["kind"], owner["name"]), ("Pod", f"cairn-provisioner-{node}"))
        self.claim("large", "one", size="8Pi", wait=False)

        def is_refused(pod):
            return any("enough free storage" in condition.get("message", "")
                       for condition in pod.get("status", {}).get("conditions", []))
        self.kube.wait(is_refused, "-n", self.space, "pod", "large", seconds=LONG)
        self.assertEqual(self.kube.get("-n", self.space, "pvc", "large")["status"]["phase"], "Pending")

    def test_a_caller_without_rights_gets_the_same_refusal_everywhere(self):
        self.one_on_each()
        self.kube.namespace("elsewhere")
        config = self.bed.make_client("elsewhere", "stranger")
        said = {self.bed.list_blocks(config, self.space, node, "--no-retry", "--driver", DRIVER,
                                     "-s", f"b-{of}")
                for node in NODES for of in NODES}
        self.assertTrue(all(status for status, _ in said), said)
        texts = {text.replace("b-one", "X").replace("b-two", "X") for _, text in said}
        self.assertEqual(len(texts), 1, texts)
        self.assertIn("PERMISSION_DENIED", texts.pop())

    def test_a_volume_grows_where_it_is_whichever_node_has_the_resizer(self):
        self.claim("data", "two")
        config = self.kube.kubeconfig_of_account("cairn", "cairn-resizer")
        self.processes.start("csi-resizer", [
            self.bed.cluster.programs["csi-resizer"], f"--kubeconfig={config}", "--v=4",
            "--leader-election=false", f"--csi-address={self.bed.nodes['one'].socket}",
            "--retry-interval-start=100ms"])
        self.addCleanup(self.processes.stop, "csi-resizer")
        self.kube.kubectl("patch", "-n", self.space, "pvc", "data", "-p",
                          '{"spec": {"resources": {"requests": {"storage": "128Mi"}}}}')
        volume = self.bed.volume("data", self.space)["metadata"]["name"]
        self.kube.wait(lambda volume: volume["spec"]["capacity"]["storage"] == "128Mi", "pv", volume)
        # The rest is the kubelet's: NodeExpandVolume (driver/node).
        self.kube.wait(lambda claim: any(
            condition["type"] == "FileSystemResizePending"
            for condition in claim["status"].get("conditions", [])), "-n", self.space, "pvc", "data")

    def back_up(self, claim, *words):
        """Starts a backup with the rights of deploy/rbac/backup.yaml, and ends it once the Job's
        pod has a node: no kubelet runs it. Returns the terms of the Job's affinity, the node of
        its pod and that of its claim."""
        name = f"backup-{claim}"
        patch = self.bed.cluster.directory / "job-patch.json"
        patch.write_text(json.dumps({"spec": {"template": {"spec": {
            "tolerations": [{"operator": "Exists"}], "terminationGracePeriodSeconds": 0}}}}))
        self.processes.start(name, [
            self.bed.cluster.cairn, "backup", "create", "--kubeconfig", self.backup_account(),
            "--namespace", self.space, "--pvc", claim, "--repository-secret", "none", "--image", "none",
            "--job-patch", patch, "--ready-timeout", f"{LONG}s", *words])

        def made(kind):
            return [item for item in self.kube.get("-n", self.space, kind)["items"]
                    if item["metadata"].get("labels", {}).get("cairn.csi.dev/backup") == "create"]
        try:
            # The pod is bound to its node after the claim to its volume.
            self.processes.wait_ready(name, lambda: any(
                "nodeName" in item["spec"] for item in made("pod")), LONG)
            job, pod, copy = made("job")[0], made("pod")[0], made("pvc")[0]["metadata"]["name"]
            found = (job["spec"]["template"]["spec"]["affinity"]["nodeAffinity"][
                "requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"],
                     pod["spec"]["nodeName"], self.bed.node_of(copy, self.space))
        finally:
            self.processes.stop(name)
        self.assertNotIn("forbidden", self.processes.log_text(name))
        for kind in ("job", "pvc", "volumesnapshot"):
            wait_until(lambda kind=kind: not made(kind), LONG, f"no {kind} of the backup is left")
        return found

    def backup_account(self):
        account = f"{self.space}:backup"
        self.kube.service_account(self.space, "backup")
        self.kube.allow("backup", account, role="cairn-backup", namespace=self.space)
        self.kube.allow("backup-cluster", account, role="cairn-backup-cluster")
        return self.kube.kubeconfig_of_account(self.space, "backup")

    def test_a_backup_runs_where_the_snapshot_is(self):
        for node in NODES:
            self.claim(f"data-{node}", node)
            terms = self.bed.volume(f"data-{node}", self.space)["spec"]["nodeAffinity"]["required"]
            self.assertEqual(self.back_up(f"data-{node}"),
                             (terms["nodeSelectorTerms"], node, node))
        # The claim is made again on another node than that of its snapshot.
        self.bed.snapshot("old", "data-two", self.space)
        self.kube.delete("-n", self.space, "pod", "data-two")
        self.kube.delete("-n", self.space, "pvc", "data-two")
        self.claim("data-two", "one")
        self.assertEqual(
            self.back_up("data-two", "--volume-snapshot", "old"),
            ([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["two"]}]}],
             "two", "two"))

    def test_a_node_that_is_gone_takes_only_its_own_with_it(self):
        self.one_on_each()
        config = self.bed.make_client(self.space, "reader")
        lost = self.bed.nodes["two"]
        lost.kill()
        status, text = self.bed.list_blocks(config, self.space, "one", "--no-retry", "-s", "b-two")
        self.assertNotEqual(status, 0)
        self.assertIn("UNAVAILABLE", text)
        self.assertIn("two", text)
        self.assertEqual(self.bed.list_blocks(config, self.space, "one", "-s", "b-one"),
                         (0, [(0, 4096), (8 * MIB, 4096)]))
        self.claim("more", "one")
        self.bed.snapshot("c-one", "data-one", self.space)
        self.bed.snapshot("c-two", "data-two", self.space, wait=False)
        lost.start()
        self.kube.wait(lambda made: made.get("status", {}).get("readyToUse"),
                       "-n", self.space, "volumesnapshot", "c-two", seconds=LONG)
        wait_until(lambda: self.bed.list_blocks(config, self.space, "one", "-s", "c-two")[0] == 0,
                   LONG, "a stream of the node that is back")

    def test_without_any_rule_of_the_overlay_something_is_refused(self):
        """Last: each rule that only several nodes need was used, and nothing works without it."""
        self.claim("data", "one")
        self.write("data", 0, b"a" * 4096)
        self.bed.snapshot("old", "data", self.space)
        content = self.bed.content("old", self.space)["metadata"]["name"]
        self.kube.kubectl("label", "volumesnapshotcontent", content, f"{MANAGED_BY}-")
        config = self.bed.make_client(self.space, "reader")
        self.assertEqual(self.bed.list_blocks(config, self.space, "two", "-s", "old"),
                         (0, [(0, 4096)]))
        rights = Rights(self.kube, self.audit)
        roles = ("cairn-route", "cairn-route-request", "cairn-route-signer")
        # The API server asks for these inside, without a line in the log.
        self.assertEqual(rights.in_vain(roles, ("signers",)), {})
        self.assertEqual(rights.removed_one_by_one(roles)[1], [])


if __name__ == "__main__":
    if os.geteuid() != 0:
        print("skipped: a network namespace needs root")
        sys.exit(77)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    unittest.main()
