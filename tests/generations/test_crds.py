#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The CRDs of sessions, DifferentialSnapshot and DriverDiscovery on a real API server: what
they take, what they refuse, and that both versions show the same object."""
import base64
import pathlib
import unittest

import cluster
from kube import Refused

cluster.peers_or_skip(*cluster.CONTROL_PLANE)
DEPLOY = pathlib.Path(__file__).resolve().parents[2] / "deploy"
GROUP = "cbt.storage.k8s.io"
CRDS = [*sorted((DEPLOY / "components/sessions").glob("snapshot*.yaml")),
        DEPLOY / "components/diffsnap/differentialsnapshots.yaml",
        *(DEPLOY / "components/volumesnapshotdelta").rglob("driverdiscoveries.yaml")]
PEM = base64.b64encode(b"-----BEGIN CERTIFICATE-----").decode()
TIME = "2026-11-16T00:00:00Z"

# kind: (plural, namespaced, a good spec, bad specs, a changed spec that is refused)
KINDS = {
    "SnapshotSessionRequest": ("snapshotsessionrequests", True, {"snapshots": ["a", "b"]}, [
        None, {}, {"snapshots": []}, {"snapshots": ["a", "a"]}, {"snapshots": ["A"]},
        {"snapshots": [""]}, {"snapshots": "a"}, {"snapshots": [f"s{i}" for i in range(257)]},
    ], {"snapshots": ["a", "c"]}),
    "SnapshotServicesConfiguration": ("snapshotservicesconfigurations", False, {
        "address": "cairn.storage.svc:6443", "caCert": PEM}, [
        {}, {"address": "cairn:1"}, {"caCert": PEM}, {"address": "https://cairn:1", "caCert": PEM},
        {"address": "cairn", "caCert": PEM}, {"address": "cairn:1", "caCert": "%"},
    ], None),
    "SnapshotSessionData": ("snapshotsessiondata", True, {
        "expiryTime": TIME, "snapshotNamespace": "default", "snapshots": ["a"]}, [
        {"snapshotNamespace": "default", "snapshots": ["a"]},
        {"expiryTime": "soon", "snapshotNamespace": "default", "snapshots": ["a"]},
        {"expiryTime": TIME, "snapshots": ["a"]},
        {"expiryTime": TIME, "snapshotNamespace": "default"},
    ], {"expiryTime": TIME, "snapshotNamespace": "default", "snapshots": ["b"]}),
    "DifferentialSnapshot": ("differentialsnapshots", True, {
        "baseVolumeSnapshotName": "a", "targetVolumeSnapshotName": "b", "volumeId": "v",
        "startOffset": "0", "parameters": {"dataTokens": "true"}}, [
        {}, {"baseVolumeSnapshotName": "a"}, {"targetVolumeSnapshotName": ""},
        {"targetVolumeSnapshotName": "b", "mode": "File"},
        {"targetVolumeSnapshotName": "b", "parameters": {"a": 1}},
        {"targetVolumeSnapshotName": "b/c"},
    ], {"targetVolumeSnapshotName": "c"}),
    "DriverDiscovery": ("driverdiscoveries", False, {
        "driverName": "cairn.csi.dev", "clientConfig": {
            "service": {"namespace": "cairn", "name": "cbt-http"}, "caBundle": PEM}}, [
        {}, {"driverName": "a"}, {"driverName": "a", "clientConfig": {}},
        {"driverName": "a", "clientConfig": {"url": "http://x"}},
        {"driverName": "a", "clientConfig": {"url": "https://user@x/"}},
        {"driverName": "a", "clientConfig": {"url": "https://x", "service": {
            "namespace": "a", "name": "b"}}},
        {"driverName": "a", "clientConfig": {"service": {"namespace": "a"}}},
        {"driverName": "a", "clientConfig": {"service": {
            "namespace": "a", "name": "b", "port": 65536}}},
        {"driverName": "a", "clientConfig": {"url": "https://x", "caBundle": "%"}},
    ], {"driverName": "b", "clientConfig": {"url": "https://x"}}),
}


class Crds(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.bed = cls.enterClassContext(cluster.Cluster())
        cls.kube = cls.bed.kube
        cls.kube.apply_files(*CRDS)
        cls.kube.wait_crds()

    def path(self, kind, version="v1alpha2", name=""):
        plural, namespaced = KINDS[kind][:2]
        where = "namespaces/default/" if namespaced else ""
        return f"/apis/{GROUP}/{version}/{where}{plural}{'/' if name else ''}{name}"

    def make(self, kind, name, spec, version="v1alpha2"):
        found = {"apiVersion": f"{GROUP}/{version}", "kind": kind, "metadata": {"name": name}}
        if spec is not None:
            found["spec"] = spec
        return self.kube.request("POST", self.path(kind, version), found)

    def test_good_objects_are_the_same_in_both_versions(self):
        for kind, (_, _, spec, _, _) in KINDS.items():
            with self.subTest(kind):
                made = self.make(kind, "good", spec, "v1alpha1")
                self.addCleanup(self.kube.request, "DELETE", self.path(kind, name="good"))
                other = self.kube.request("GET", self.path(kind, "v1alpha2", "good"))
                self.assertEqual(made["spec"], other["spec"])
                self.assertEqual(made["metadata"]["uid"], other["metadata"]["uid"])

    def test_bad_objects_are_refused(self):
        for kind, (_, _, _, bad, _) in KINDS.items():
            for version in ("v1alpha1", "v1alpha2"):
                for spec in bad:
                    with self.subTest(kind, version=version, spec=spec):
                        with self.assertRaises(Refused) as refused:
                            self.make(kind, "bad", spec, version)
                        self.assertEqual(refused.exception.status, 422, refused.exception)

    def test_what_was_asked_for_stays(self):
        for kind, (_, _, spec, _, changed) in KINDS.items():
            if changed is None:
                continue
            with self.subTest(kind):
                self.make(kind, "stays", spec)
                self.addCleanup(self.kube.request, "DELETE", self.path(kind, name="stays"))
                with self.assertRaises(Refused) as refused:
                    self.kube.request("PATCH", self.path(kind, name="stays"), {"spec": changed},
                                      content_type="application/merge-patch+json")
                self.assertEqual(refused.exception.status, 422, refused.exception)
                self.assertIn("immutable", str(refused.exception))

    def test_defaults(self):
        made = self.make("DifferentialSnapshot", "defaults", {"targetVolumeSnapshotName": "b"})
        self.assertEqual(made["spec"]["mode"], "Block")
        made = self.make("DriverDiscovery", "defaults", KINDS["DriverDiscovery"][2])
        self.assertEqual(made["spec"]["clientConfig"]["service"]["port"], 443)

    def test_a_status_is_its_own_subresource_with_its_own_rules(self):
        for kind, good, bad in [
                ("SnapshotSessionRequest",
                 {"sessionState": "Ready", "sessionToken": PEM, "expiryTime": TIME},
                 {"sessionState": "Done"}),
                ("DifferentialSnapshot", {"state": "Success", "url": "host:1/a/b"},
                 {"state": "Perhaps"}),
                ("DriverDiscovery", {"reachable": False, "message": "no"}, {"reachable": "no"})]:
            with self.subTest(kind):
                self.make(kind, "status", {**KINDS[kind][2]})
                path = self.path(kind, name="status")
                self.addCleanup(self.kube.request, "DELETE", path)
                how = {"content_type": "application/merge-patch+json"}
                ignored = self.kube.request("PATCH", path, {"status": good}, **how)
                self.assertNotIn("status", ignored)
                kept = self.kube.request("PATCH", f"{path}/status", {"status": good}, **how)
                self.assertEqual(kept["status"], good)
                with self.assertRaises(Refused):
                    self.kube.request("PATCH", f"{path}/status", {"status": bad}, **how)

    def test_kubectl_shows_and_explains_them(self):
        self.make("DifferentialSnapshot", "shown", {"baseVolumeSnapshotName": "monday",
                                                    "targetVolumeSnapshotName": "tuesday"})
        text = self.kube.kubectl("get", "diffsnap", "shown")
        self.assertRegex(text, r"NAME +BASE +TARGET +STATE +URL +AGE")
        self.assertRegex(text, r"shown +monday +tuesday")
        for plural in (what[0] for what in KINDS.values()):
            self.assertIn("DESCRIPTION", self.kube.kubectl("explain", f"{plural}.spec"))


if __name__ == "__main__":
    unittest.main()
