#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The manifests of sessions and DifferentialSnapshot: a real API server takes them as they are,
and when they are removed nothing is left."""
import pathlib
import unittest

import cluster

cluster.peers_or_skip(*cluster.CONTROL_PLANE, "snapshot-crds")
DEPLOY = pathlib.Path(__file__).resolve().parents[2] / "deploy"
KINDS = ["crd", "clusterrole", "clusterrolebinding", "storageclass", "csidriver", "apiservice",
         "validatingwebhookconfiguration", "volumesnapshotclass", "namespace"]


class Manifests(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.bed = cls.enterClassContext(cluster.Cluster())
        cls.kube = cls.bed.kube
        cls.bed.programs.update(cluster.peers("snapshot-crds"))
        cls.kube.apply(pathlib.Path(cls.bed.programs["snapshot-crds"]))
        cls.kube.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")

    def everything(self):
        return {(item["kind"], item["metadata"]["name"])
                for kind in KINDS for item in self.kube.get(kind)["items"]}

    def come_and_go(self, name, *wanted):
        before = self.everything()
        self.kube.kubectl("apply", "--server-side", "--validate=strict", "-k", DEPLOY / name)
        made = self.everything() - before
        for one in wanted:
            self.assertIn(one, made)
        self.kube.kubectl("delete", "-k", DEPLOY / name, "--wait=true", "--timeout=120s",
                          timeout=150)
        self.assertEqual(self.everything() - before, set())

    def test_sessions(self):
        self.come_and_go(
            "sessions", ("CustomResourceDefinition", "snapshotsessiondata.cbt.storage.k8s.io"),
            ("ClusterRole", "cairn-manager"),
            ("ValidatingWebhookConfiguration", "cairn-sessions"))

    def test_differential_snapshots(self):
        self.come_and_go(
            "diffsnap",
            ("CustomResourceDefinition", "differentialsnapshots.cbt.storage.k8s.io"),
            ("ClusterRole", "cairn-diffsnap"))


if __name__ == "__main__":
    unittest.main()
