#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What deploy/ ships, on a real API server: it is taken, validates, and gives no undue rights."""
import base64
import copy
import signal
import subprocess
import sys
import unittest

import yaml

import cluster
from kube import Refused

PEERS = cluster.peers_or_skip(*cluster.CONTROL_PLANE, "snapshot-crds", "helm")
DEPLOY = cluster.REPOSITORY / "deploy"
SERVICES = "/apis/cbt.storage.k8s.io/v1beta1/snapshotmetadataservices"
GOOD = {
    "apiVersion": "cbt.storage.k8s.io/v1beta1", "kind": "SnapshotMetadataService",
    "metadata": {"name": "cairn.csi.dev"},
    "spec": {"address": "cairn-snapshot-metadata.cairn.svc:6443", "audience": "cairn.csi.dev",
             "caCert": "LS0tLS1CRUdJTg==", "requireBaseSnapshotForDelta": False},
}


def setUpModule():
    global KUBE  # pylint: disable=global-statement
    KUBE = unittest.enterModuleContext(cluster.Cluster(crds=True)).kube


def helm(*words):
    done = subprocess.run([PEERS["helm"], *words], capture_output=True, text=True, check=False,
                          timeout=120, env={"HOME": str(KUBE.directory)})
    if done.returncode != 0:
        raise AssertionError(done.stdout + done.stderr)
    return done.stdout


def objects_of(text):
    return [item for item in yaml.safe_load_all(text) if item]


def kustomized(overlay):
    return objects_of(KUBE.kubectl("kustomize", DEPLOY / overlay))


def by_kind(objects, kind):
    return {item["metadata"]["name"]: item for item in objects if item["kind"] == kind}


def images(objects):
    template = next(iter(by_kind(objects, "StatefulSet").values()))["spec"]["template"]["spec"]
    return {container["name"]: container["image"]
            for container in template["initContainers"] + template["containers"]}


class Resource(unittest.TestCase):
    def changed(self, **spec):
        """The good object with some fields of its spec changed, or left out when None."""
        item = copy.deepcopy(GOOD)
        for name, value in spec.items():
            if value is None:
                del item["spec"][name]
            else:
                item["spec"][name] = value
        return item

    def tearDown(self):
        KUBE.delete("snapshotmetadataservice", "--all")

    def test_good_objects_are_taken_and_kept_as_they_are(self):
        for spec in ({}, {"requireBaseSnapshotForDelta": True},
                     {"requireBaseSnapshotForDelta": None}):
            with self.subTest(spec):
                item = self.changed(**spec)
                KUBE.request("POST", SERVICES, item)
                found = KUBE.request("GET", f"{SERVICES}/cairn.csi.dev")
                self.assertEqual(found["spec"], item["spec"])
                KUBE.delete("snapshotmetadataservice", "cairn.csi.dev")

    def test_bad_objects_are_refused(self):
        cases = {
            "no address": ({"address": None}, "spec.address"),
            "no audience": ({"audience": None}, "spec.audience"),
            "no certificate": ({"caCert": None}, "spec.caCert"),
            "an address that is no text": ({"address": 7}, "spec.address"),
            "a certificate that is not base64": ({"caCert": "not base64!"}, "spec.caCert"),
            "an answer that is not yes or no":
                ({"requireBaseSnapshotForDelta": "yes"}, "spec.requireBaseSnapshotForDelta"),
        }
        for name, (spec, field) in cases.items():
            with self.subTest(name), self.assertRaises(Refused) as caught:
                KUBE.request("POST", SERVICES, self.changed(**spec))
            self.assertEqual(caught.exception.status, 422, name)
            self.assertIn(field, str(caught.exception))

    def test_an_object_without_spec_is_refused(self):
        item = copy.deepcopy(GOOD)
        del item["spec"]
        with self.assertRaises(Refused) as caught:
            KUBE.request("POST", SERVICES, item)
        self.assertEqual(caught.exception.status, 422)

    def test_unknown_fields_are_dropped(self):
        KUBE.request("POST", SERVICES, self.changed(other="x"))
        self.assertNotIn("other", KUBE.request("GET", f"{SERVICES}/cairn.csi.dev")["spec"])

    def test_the_short_name_and_columns(self):
        KUBE.apply(GOOD)
        self.assertRegex(KUBE.kubectl("get", "sms"),
                         r"NAME +ADDRESS +AUDIENCE +AGE\ncairn.csi.dev +cairn-snapshot-metadata\.")


class Manifests(unittest.TestCase):
    def test_every_overlay_is_taken_and_stays_as_it_is(self):
        for overlay in ("base", "overlays/snapshot-metadata", "overlays/group-snapshots",
                        "backup"):
            with self.subTest(overlay):
                KUBE.apply(DEPLOY / overlay)
                again = KUBE.kubectl("apply", "-k", DEPLOY / overlay)
                self.assertEqual([line for line in again.splitlines()
                                  if not line.endswith(" unchanged")], [])
        KUBE.kubectl("delete", "-k", DEPLOY / "backup", "--wait=false")
        KUBE.kubectl("delete", "-k", DEPLOY / "overlays/group-snapshots", "--wait=false")
        KUBE.apply(DEPLOY / "crd")

    def test_certificates_are_good_for_the_service(self):
        made = subprocess.run([DEPLOY / "certificates"], capture_output=True, text=True,
                              check=True, timeout=60).stdout
        KUBE.namespace("cairn")
        KUBE.apply(made)
        service = KUBE.get("snapshotmetadataservice", "cairn.csi.dev")
        self.assertEqual(service["spec"]["address"], "cairn-snapshot-metadata.cairn.svc:6443")
        secret = KUBE.get("-n", "cairn", "secret", "cairn-snapshot-metadata-tls")["data"]
        script = ('base64 -d <<<"$1" >"$0/ca"; base64 -d <<<"$2" >"$0/crt"; openssl verify '
                  '-CAfile "$0/ca" -verify_hostname cairn-snapshot-metadata.cairn.svc "$0/crt"')
        done = subprocess.run(["bash", "-c", script, KUBE.directory, service["spec"]["caCert"],
                               secret["tls.crt"]], capture_output=True, text=True, check=False)
        self.assertIn(": OK", done.stdout, done.stderr)
        KUBE.delete("snapshotmetadataservice", "cairn.csi.dev")

    def test_a_client_may_do_what_it_must_and_no_more(self):
        KUBE.apply(DEPLOY / "base" / "namespace.yaml")
        KUBE.apply(DEPLOY / "rbac")
        KUBE.namespace("backup")
        KUBE.service_account("backup", "client")
        KUBE.allow("client-everywhere", "backup:client", role="cairn-snapshot-metadata-client")
        KUBE.allow("client-here", "backup:client", role="cairn-snapshot-metadata-reader",
                   namespace="default")
        may = {("get", "volumesnapshots.snapshot.storage.k8s.io", "default"): "yes",
               ("get", "volumesnapshots.snapshot.storage.k8s.io", "backup"): "no",
               ("list", "volumesnapshots.snapshot.storage.k8s.io", "default"): "no",
               ("get", "volumesnapshotcontents.snapshot.storage.k8s.io", "default"): "yes",
               ("delete", "volumesnapshotcontents.snapshot.storage.k8s.io", "default"): "no",
               ("get", "snapshotmetadataservices.cbt.storage.k8s.io", "default"): "yes",
               ("update", "snapshotmetadataservices.cbt.storage.k8s.io", "default"): "no",
               ("get", "secrets", "default"): "no",
               ("create", "tokenreviews.authentication.k8s.io", "default"): "no"}
        for (verb, resource, namespace), answer in may.items():
            done = KUBE.run("auth", "can-i", verb, resource, "-n", namespace,
                            "--as=system:serviceaccount:backup:client")
            self.assertEqual(done.stdout.strip(), answer, (verb, resource, namespace))

    def test_nothing_of_ours_may_read_secrets(self):
        for overlay in ("overlays/group-snapshots",):
            for name, role in by_kind(kustomized(overlay), "ClusterRole").items():
                for rule in role["rules"]:
                    self.assertNotIn("secrets", rule["resources"], name)
                    self.assertNotIn("*", rule["verbs"] + rule["resources"], name)


class Chart(unittest.TestCase):
    """The chart gives the same objects as the overlays."""

    CHART = str(DEPLOY / "helm/cairn")
    GROUPS = ("controllers.groupSnapshots=true",)

    @staticmethod
    def words(settings):
        return [word for setting in settings for word in ("--set", setting)]

    def rendered(self, *settings):
        return objects_of(helm("template", "cairn", self.CHART, "--namespace", "cairn",
                               "--kube-version", "1.35.4", *self.words(settings)))

    def test_it_is_in_order(self):
        self.assertIn("0 chart(s) failed", helm("lint", "--strict", "--kube-version", "1.35.4",
                                                self.CHART))

    def test_it_gives_the_rights_of_the_overlays(self):
        chart = by_kind(self.rendered(*self.GROUPS), "ClusterRole")
        overlay = by_kind(kustomized("overlays/group-snapshots"), "ClusterRole")
        self.assertEqual({name: role["rules"] for name, role in chart.items()},
                         {name: role["rules"] for name, role in overlay.items()})

    def test_it_runs_what_the_overlays_run(self):
        chart, overlay = self.rendered(*self.GROUPS), kustomized("overlays/group-snapshots")
        self.assertEqual(images(chart), images(overlay))

    def test_it_is_installed_upgraded_and_removed(self):
        where = ["--kubeconfig", str(KUBE.kubeconfig), "--namespace", "chart"]
        settings = self.words(["driverName=chart.csi.dev", "classes.storageClass=chart",
                               "classes.snapshotClass=chart"])
        helm("install", "cairn", self.CHART, *where, "--create-namespace", *settings)
        self.assertIsNotNone(KUBE.get("-n", "chart", "statefulset", "cairn-driver"))
        service = KUBE.get("snapshotmetadataservice", "chart.csi.dev")["spec"]
        self.assertEqual(service["address"], "cairn-snapshot-metadata.chart.svc:6443")
        secret = KUBE.get("-n", "chart", "secret", "cairn-snapshot-metadata-tls")["data"]
        self.assertEqual(service["caCert"], secret["ca.crt"])
        days = subprocess.run(
            ["openssl", "x509", "-noout", "-checkend", str(366 * 86400)], check=False,
            input=base64.b64decode(secret["tls.crt"]), capture_output=True).returncode
        self.assertEqual(days, 1, "it is good for more than a year")
        helm("upgrade", "cairn", self.CHART, *where, *settings)
        self.assertEqual(KUBE.get("-n", "chart", "secret", "cairn-snapshot-metadata-tls")["data"],
                         secret, "an upgrade made another certificate")
        self.assertEqual(KUBE.get("snapshotmetadataservice", "chart.csi.dev")["spec"]["caCert"],
                         secret["ca.crt"])
        helm("upgrade", "cairn", self.CHART, *where, *self.words(
            [*self.GROUPS, "classes.isDefault=true", "pool.size=100G",
             "snapshotMetadata.enabled=false"]))
        self.assertIsNone(KUBE.get("snapshotmetadataservice", "chart.csi.dev"))
        helm("uninstall", "cairn", *where)
        self.assertIsNone(KUBE.get("-n", "chart", "statefulset", "cairn-driver"))
        self.assertIsNone(KUBE.get("clusterrole", "cairn-resizer"))

    def test_a_secret_of_ones_own_needs_its_authority(self):
        with self.assertRaises(AssertionError) as caught:
            self.rendered("snapshotMetadata.tlsSecret=mine")
        self.assertIn("caCert is needed", str(caught.exception))


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    unittest.main()
