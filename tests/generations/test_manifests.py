#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The manifests of the older generations: a real API server takes them as they are, they are
complete and give no undue rights, and when they are removed nothing at all is left."""
import itertools
import json
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

import yaml

import cluster
from generations import GROUP
from processes import wait_until

cluster.peers_or_skip(*cluster.CONTROL_PLANE, "snapshot-crds")
DEPLOY = pathlib.Path(__file__).resolve().parents[2] / "deploy"
OVERLAYS = ("sessions", "diffsnap", "volumesnapshotdelta")
WORKLOADS = ("Deployment", "StatefulSet")
# What Kubernetes itself writes, whatever is installed.
PASSING = ("events", "events.events.k8s.io", "leases.coordination.k8s.io/kube-system",
           "leases.coordination.k8s.io/kube-node-lease", "ipaddresses.networking.k8s.io")


class Manifests(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.bed = cls.enterClassContext(cluster.Cluster())
        cls.kube = cls.bed.kube
        cls.bed.programs.update(cluster.peers("snapshot-crds"))
        cls.kube.apply(pathlib.Path(cls.bed.programs["snapshot-crds"]))
        cls.kube.wait_crds()

    def resources(self):
        """(name, where its lists are) of all that the API server has."""
        found = []
        groups = [("", "/api/v1")] + [
            (group["name"], f"/apis/{version['groupVersion']}")
            for group in self.kube.request("GET", "/apis")["groups"]
            for version in group["versions"]]
        for group, path in groups:
            status, text = self.kube.ask("GET", path)
            if status != 200:  # an APIService without a server; it is listed itself
                continue
            found += [(f"{one['name']}.{group}".rstrip("."), f"{path}/{one['name']}")
                      for one in json.loads(text)["resources"]
                      if "list" in one["verbs"] and "/" not in one["name"]]
        return found

    def everything(self):
        """Each object there is: its resource, namespace and name."""
        found = set()
        for resource, path in self.resources():
            status, text = self.kube.ask("GET", path)
            if status == 404:  # its CRD went meanwhile
                continue
            self.assertEqual(status, 200, f"{path}: {text}")
            for item in json.loads(text)["items"]:
                namespace = item["metadata"].get("namespace", "")
                if resource not in PASSING and f"{resource}/{namespace}" not in PASSING:
                    found.add((resource, namespace, item["metadata"]["name"]))
        return found

    def install(self, name, *wanted):
        self.kube.kubectl("apply", "--server-side", "--validate=strict", "-k", DEPLOY / name)
        made = self.everything() - self.before
        for one in wanted:
            self.assertIn(one, made)
        self.kube.wait_crds()

    def remove(self, name):
        self.kube.kubectl("delete", "-k", DEPLOY / name, "--wait=true", "--timeout=120s",
                          timeout=150)
        left = None

        def is_as_before():
            nonlocal left
            left = self.everything() - self.before
            return not left
        try:
            wait_until(is_as_before, 120, "nothing is left")
        finally:
            self.assertEqual(left, set())
        self.assertEqual(self.before - self.everything(), set(), "more than ours is gone")

    def setUp(self):
        self.before = self.everything()

    def lead(self, name, account, *words):
        """`cairn manager` with the account's rights, until it has its Lease."""
        config = self.kube.kubeconfig_of_account("cairn", account)
        self.bed.processes.start(name, [self.bed.cairn, "manager", "--kubeconfig", config,
                                        "--log-level", "debug", *words])
        self.addCleanup(self.bed.processes.stop, name)
        self.kube.wait(lambda lease: lease["spec"].get("holderIdentity"),
                       "-n", "cairn", "lease", account)

    def test_sessions(self):
        self.install("sessions",
                     ("customresourcedefinitions.apiextensions.k8s.io", "",
                      f"snapshotsessiondata.{GROUP}"),
                     ("clusterroles.rbac.authorization.k8s.io", "", "cairn-manager"),
                     ("validatingwebhookconfigurations.admissionregistration.k8s.io", "",
                      "cairn-sessions"))
        self.lead("manager", "cairn-manager")
        # The webhook can not be reached here, and nothing gets past it.
        refused = self.kube.run("create", "-f", "-", text=json.dumps({
            "apiVersion": f"{GROUP}/v1alpha2", "kind": "SnapshotSessionRequest",
            "metadata": {"name": "r"}, "spec": {"snapshots": ["a"]}}))
        self.assertIn("failed calling webhook", refused.stderr)
        self.kube.apply({"apiVersion": f"{GROUP}/v1alpha2", "kind": "SnapshotSessionData",
                         "metadata": {"name": "a" * 64, "namespace": "cairn"},
                         "spec": {"expiryTime": "2100-01-01T00:00:00Z",
                                  "snapshotNamespace": "default", "snapshots": ["a"]}})
        self.bed.processes.stop("manager")
        self.remove("sessions")

    def test_differential_snapshots(self):
        self.install("diffsnap",
                     ("customresourcedefinitions.apiextensions.k8s.io", "",
                      f"differentialsnapshots.{GROUP}"),
                     ("clusterroles.rbac.authorization.k8s.io", "", "cairn-diffsnap"))
        self.kube.apply({"apiVersion": f"{GROUP}/v1alpha2", "kind": "DifferentialSnapshot",
                         "metadata": {"name": "d"}, "spec": {"targetVolumeSnapshotName": "a"}})
        self.remove("diffsnap")

    def test_volume_snapshot_deltas(self):
        flow = "flowcontrol.apiserver.k8s.io"
        self.install("volumesnapshotdelta",
                     ("customresourcedefinitions.apiextensions.k8s.io", "",
                      f"driverdiscoveries.{GROUP}"),
                     ("apiservices.apiregistration.k8s.io", "", f"v1alpha1.{GROUP}"),
                     (f"flowschemas.{flow}", "", "cairn-volumesnapshotdeltas"),
                     ("rolebindings.rbac.authorization.k8s.io", "kube-system",
                      "cairn-aggapi-authentication"))
        # As cbt-http makes them, with the rights of the pod that it is in.
        driver = self.kube.kubeconfig_of_account("cairn", "cairn-cbt-http")
        self.kube.kubectl("create", "-f", "-", kubeconfig=driver, text=json.dumps({
            "apiVersion": f"{GROUP}/v1alpha2", "kind": "DriverDiscovery",
            "metadata": {"name": "cairn.csi.dev"},
            "spec": {"driverName": "cairn.csi.dev", "clientConfig": {"service": {
                "namespace": "cairn", "name": "cairn-cbt-http", "port": 8444}}}}))
        self.kube.kubectl("create", "-f", "-", kubeconfig=driver, text=json.dumps({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": "cbt-http-cairn.csi.dev", "namespace": "cairn"}}))
        # Its controller, without the CRDs of sessions.
        self.lead("discovery", "cairn-discovery", "--no-sessions")
        self.kube.wait(lambda made: made.get("status", {}).get("reachable") is False,
                       "driverdiscovery", "cairn.csi.dev")
        self.assertNotIn("forbidden", self.bed.processes.log_text("discovery"))
        self.bed.processes.stop("discovery")
        self.remove("volumesnapshotdelta")

    # ---- one by one ----

    COMBINATIONS = [chosen for n in range(4) for chosen in itertools.combinations(OVERLAYS, n)]

    def combined(self, chosen):
        """The objects of the driver and its sidecar with these components."""
        with tempfile.TemporaryDirectory(dir=self.kube.directory) as directory:
            path = pathlib.Path(directory)
            here = os.path.relpath(DEPLOY, path)
            (path / "kustomization.yaml").write_text(json.dumps({
                "apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization",
                "resources": [f"{here}/overlays/snapshot-metadata"],
                "components": [f"{here}/components/{name}" for name in chosen]}))
            return [item for item in yaml.safe_load_all(self.kube.kubectl("kustomize", path))
                    if item]

    @staticmethod
    def args_of(objects, name):
        return next(o["spec"]["template"]["spec"]["containers"][0]["args"] for o in objects
                    if o["kind"] in WORKLOADS and o["metadata"]["name"] == name)

    def test_components_go_together_in_any_combination(self):
        flags = {"sessions": "--sessions", "diffsnap": "--differential-snapshots",
                 "volumesnapshotdelta": "--snapshot-deltas"}
        for chosen in self.COMBINATIONS:
            with self.subTest(chosen):
                objects = self.combined(chosen)
                args = self.args_of(objects, "cairn-driver")
                self.assertEqual({name for name, flag in flags.items() if flag in args},
                                 set(chosen))
                self.assertEqual("--sessions" in self.args_of(objects, "cairn-snapshot-metadata"),
                                 "sessions" in chosen)
                served = {version["served"] for o in objects
                          if o["kind"] == "CustomResourceDefinition"
                          for version in o["spec"]["versions"] if version["name"] == "v1alpha1"}
                self.assertLessEqual(served, {"volumesnapshotdelta" not in chosen})

    def test_all_of_them_are_taken_at_once(self):
        """A trial first, then for good; what `deploy/certificates all` prints completes them."""
        overlay = DEPLOY / "overlays/all-generations"
        self.addCleanup(self.kube.run, "delete", "-k", overlay, "--ignore-not-found")
        self.kube.kubectl("apply", "-f", DEPLOY / "base/namespace.yaml")
        self.kube.kubectl("apply", "-k", DEPLOY / "crd")
        self.kube.wait_crds()
        tried = self.kube.run("apply", "--server-side", "--dry-run=server", "--validate=strict",
                              "-k", overlay)
        self.assertEqual(tried.returncode, 0, tried.stderr)
        self.kube.kubectl("apply", "-k", overlay)
        made = subprocess.run([DEPLOY / "certificates", "all"], check=True, capture_output=True,
                              text=True, timeout=120).stdout
        self.kube.apply(made, "--server-side", "--force-conflicts",
                        "--field-manager=cairn-certificates")
        for _ in range(2):
            hook = self.kube.get("validatingwebhookconfiguration", "cairn-sessions")
            config = hook["webhooks"][0]["clientConfig"]
            self.assertRegex(config["service"]["path"], "^/validate-snapshotsessionrequest/.{40}")
            self.assertTrue(config["caBundle"])
            self.assertTrue(self.kube.get("apiservice", f"v1alpha1.{GROUP}")["spec"]["caBundle"])
            # Applied again, the manifests leave it as it is.
            self.kube.kubectl("apply", "-k", overlay)
        secrets = {item["metadata"]["name"] for item in
                   self.kube.get("-n", "cairn", "secrets")["items"]}
        mounted = {volume["secret"]["secretName"] for o in self.objects("overlays/all-generations")
                   if o["kind"] in WORKLOADS
                   for volume in o["spec"]["template"]["spec"].get("volumes", [])
                   if "secret" in volume}
        self.assertEqual(secrets, mounted)
        self.switch_off()
        self.remove("overlays/snapshot-metadata")

    def switch_off(self):
        """Each component by itself; the driver and the others stay."""
        left = set(OVERLAYS)
        for name in OVERLAYS:
            self.kube.kubectl("delete", "-k", DEPLOY / "components" / name, "--timeout=120s",
                              timeout=150)
            left.remove(name)
            chosen = [other for other in OVERLAYS if other in left]
            objects = self.combined(chosen)
            self.kube.kubectl("apply", "-f", "-", text=json.dumps(
                {"apiVersion": "v1", "kind": "List", "items": objects}))
            found = {(resource.partition(".")[0], name) for resource, _, name in self.everything()}
            with self.subTest(off=name):
                for o in objects:
                    self.assertIn(o["metadata"]["name"], {name for _, name in found})
                gone = {o["metadata"]["name"] for o in self.objects(f"components/{name}")}
                kept = {o["metadata"]["name"] for o in objects}
                self.assertEqual({name for _, name in found} & (gone - kept) -
                                 {f"v1alpha1.{GROUP}"}, set())
                args = self.kube.get("-n", "cairn", "statefulset", "cairn-driver")["spec"][
                    "template"]["spec"]["containers"][0]["args"]
                self.assertEqual(args, self.args_of(objects, "cairn-driver"))

    # ---- what they say ----

    def test_every_row_of_the_table_names_a_test_or_a_reason(self):
        """docs/generations.md; each test that it names exists."""
        text = (DEPLOY.parent / "docs/generations.md").read_text()
        tests = DEPLOY.parent / "tests"
        source = "".join(path.read_text() for path in [
            *tests.rglob("test_*.py"), *(tests / "unit/older").glob("*.c")])
        for name in re.findall(r"`((?:test|an?|the)_[a-z0-9_]+)`", text):
            self.assertRegex(source, rf"\b{name}\(", name)
        for row in re.findall(r"^\|(.*)\|$", text, re.MULTILINE):
            self.assertTrue(all(cell.strip() for cell in row.split(" | ")), row)

    def objects(self, name):
        return [item for item in yaml.safe_load_all(
            self.kube.kubectl("kustomize", DEPLOY / name)) if item]

    def test_no_right_is_given_to_all_or_to_nobody(self):
        for name in OVERLAYS:
            objects = self.objects(name)
            accounts = {o["metadata"]["name"] for o in objects if o["kind"] == "ServiceAccount"}
            used = {o["spec"]["template"]["spec"]["serviceAccountName"] for o in objects
                    if o["kind"] in WORKLOADS}
            bound = {s["name"] for o in objects if o["kind"].endswith("Binding")
                     for s in o["subjects"]}
            with self.subTest(name):
                self.assertEqual(accounts, used)
                self.assertEqual(bound - used, set())
            for role in (o for o in objects if o["kind"] in ("Role", "ClusterRole")):
                for rule in role["rules"]:
                    with self.subTest(name, role=role["metadata"]["name"]):
                        self.assertNotIn("*", str(rule))
                        self.assertNotIn("secrets", rule.get("resources", []))

    def test_every_program_has_its_container_probes_and_place(self):
        wanted = {"sessions": {"driver", "snapshot-metadata", "manager"},
                  "diffsnap": {"driver", "diffsnap"},
                  "volumesnapshotdelta": {"driver", "cbt-http", "aggapi", "manager"}}
        for name in OVERLAYS:
            objects = self.objects(name)
            pods = [o["spec"]["template"]["spec"] for o in objects if o["kind"] in WORKLOADS]
            containers = {c["name"]: c for pod in pods for c in pod["containers"]
                          if c["image"].startswith("localhost/cairn")}
            with self.subTest(name):
                self.assertEqual(set(containers), wanted[name])
                for container in containers.values():
                    self.assertIn("readinessProbe", container)
                    self.assertIn("requests", container["resources"])
            self.check_services(name, objects, pods)
            self.check_tokens(pods)
        place = next(o for o in self.objects("volumesnapshotdelta") if o["kind"] == "Deployment"
                     and o["metadata"]["name"] == "cairn-aggapi")["spec"]["template"]["spec"]
        self.assertEqual(set(place["affinity"]), {"nodeAffinity", "podAntiAffinity"})
        self.assertTrue(place["tolerations"])

    def check_tokens(self, pods):
        """The driver has no token, and readers of diffsnap send none of the API server."""
        for pod in pods:
            for container in pod["containers"]:
                mounted = {m["mountPath"] for m in container.get("volumeMounts", [])}
                if container["name"] == "driver":
                    self.assertIs(pod["automountServiceAccountToken"], False)
                    self.assertNotIn("/var/run/secrets/kubernetes.io/serviceaccount", mounted)
                if container["name"] == "diffsnap":
                    self.assertIn("--audience=cairn-diffsnap", container["args"])

    def check_services(self, name, objects, pods):
        """Each leads to a port that some container has, and each mount has its volume."""
        ports = {p["name"] for pod in pods for c in pod["containers"]
                 for p in c.get("ports", [])}
        for service in (o for o in objects if o["kind"] == "Service"):
            for port in service["spec"]["ports"]:
                with self.subTest(name, service=service["metadata"]["name"]):
                    self.assertIn(port["targetPort"], ports)
        for pod in pods:
            volumes = {volume["name"] for volume in pod["volumes"]} if "volumes" in pod else set()
            for container in pod["containers"]:
                for mount in container.get("volumeMounts", []):
                    self.assertIn(mount["name"], volumes)


if __name__ == "__main__":
    unittest.main()
