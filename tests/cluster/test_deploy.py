#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What deploy/ ships, on a real API server: it is taken, validates, and gives no undue rights."""
import base64
import copy
import itertools
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest

import yaml

import cluster
import test_backup_job
import test_kubectl
import test_rbac
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


def with_components(overlay, *components, **more):
    """An overlay of a user's, outside of deploy/; `more` of its fields."""
    with tempfile.TemporaryDirectory(dir=KUBE.directory) as place:
        def from_here(path):
            return os.path.relpath(DEPLOY / path, place)
        (pathlib.Path(place) / "kustomization.yaml").write_text(yaml.safe_dump({
            "resources": [from_here(overlay)],
            "components": [from_here(f"components/{name}") for name in components], **more}))
        return objects_of(KUBE.kubectl("kustomize", place))


def templates(objects):
    """{name: pod template} of all workloads."""
    found = {item["metadata"]["name"]: item["spec"]["template"] for item in objects
             if item["kind"] in ("Deployment", "StatefulSet", "DaemonSet")}
    found.update({item["metadata"]["name"]: item["spec"]["jobTemplate"]["spec"]["template"]
                  for item in objects if item["kind"] == "CronJob"})
    return found


def restricted_namespace(name):
    KUBE.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {
        "pod-security.kubernetes.io/enforce": "restricted",
        "pod-security.kubernetes.io/enforce-version": "latest"}}})


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
               ("list", "snapshotmetadataservices.cbt.storage.k8s.io", "default"): "yes",
               ("watch", "snapshotmetadataservices.cbt.storage.k8s.io", "default"): "yes",
               ("update", "snapshotmetadataservices.cbt.storage.k8s.io", "default"): "no",
               ("get", "secrets", "default"): "no",
               ("create", "tokenreviews.authentication.k8s.io", "default"): "no"}
        for (verb, resource, namespace), answer in may.items():
            done = KUBE.run("auth", "can-i", verb, resource, "-n", namespace,
                            "--as=system:serviceaccount:backup:client")
            self.assertEqual(done.stdout.strip(), answer, (verb, resource, namespace))

    def test_nothing_of_ours_may_read_secrets(self):
        for overlay in ("overlays/group-snapshots", "overlays/ceph", "sessions", "diffsnap", "volumesnapshotdelta",
                        "backup"):
            made = kustomized(overlay)
            for name, role in {**by_kind(made, "ClusterRole"), **by_kind(made, "Role")}.items():
                for rule in role["rules"]:
                    asked = rule["verbs"] + rule.get("resources", [])
                    self.assertNotIn("secrets", asked, name)
                    self.assertNotIn("*", asked, name)


    def test_every_role_is_looked_at(self):
        """Whether its rules are needed; see rights.py."""
        roles = {name for overlay in ("overlays/group-snapshots", "sessions", "diffsnap",
                                      "volumesnapshotdelta", "backup")
                 for kind in ("ClusterRole", "Role")
                 for name in by_kind(kustomized(overlay), kind)}
        looked_at = {*test_rbac.ROLES, *test_backup_job.RightsOfAllThat.ROLES,
                     *test_kubectl.VIEWER}
        self.assertEqual(roles, looked_at)


class Restricted(unittest.TestCase):
    """PodSecurity admission decides, in a namespace that enforces "restricted"."""

    NAMESPACE = "strict"

    @classmethod
    def setUpClass(cls):
        restricted_namespace(cls.NAMESPACE)
        KUBE.wait(lambda found: found, "-n", cls.NAMESPACE, "serviceaccount", "default")

    def create(self, spec):
        """(status, text) of a pod that is admitted and not kept."""
        spec = {**spec, "serviceAccountName": "default"}
        return KUBE.ask("POST", f"/api/v1/namespaces/{self.NAMESPACE}/pods?dryRun=All", {
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one"}, "spec": spec})

    def test_every_pod_but_the_drivers_is_admitted(self):
        for overlay in ("overlays/group-snapshots", "sessions", "diffsnap", "volumesnapshotdelta",
                        "backup", "overlays/nodes", "overlays/ceph"):
            for name, template in templates(kustomized(overlay)).items():
                with self.subTest(f"{overlay}: {name}"):
                    status, text = self.create({"restartPolicy": "Always", **template["spec"]})
                    if name == "cairn-driver":
                        self.assertEqual(status, 403)
                        self.assertIn("privileged", text)
                    else:
                        self.assertEqual(status, 201, text)

    def test_what_makes_a_pool_on_ceph_is_not_privileged(self):
        """Baseline: it is root, because nobody else may read the key, and nothing more."""
        pod = templates(kustomized("overlays/ceph"))["cairn-driver"]["spec"]
        pod = {"containers": pod["initContainers"], "serviceAccountName": "default",
               "volumes": [item for item in pod["volumes"] if "hostPath" not in item]}
        KUBE.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {
            "name": "base", "labels": {"pod-security.kubernetes.io/enforce": "baseline"}}})
        KUBE.wait(lambda found: found, "-n", "base", "serviceaccount", "default")
        status, text = KUBE.ask("POST", "/api/v1/namespaces/base/pods?dryRun=All", {
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one"},
            "spec": pod})
        self.assertEqual(status, 201, text)

    def test_jobs_of_backups_are_admitted(self):
        """The Job is made before anything is waited for; Kubernetes makes its pod."""
        where = ["-n", self.NAMESPACE]
        KUBE.apply([
            {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "data"},
             "spec": {"capacity": {"storage": "1Mi"}, "accessModes": ["ReadWriteOnce"],
                      "volumeMode": "Block", "storageClassName": "none",
                      "csi": {"driver": "cairn.csi.dev", "volumeHandle": "vol-1"},
                      "claimRef": {"namespace": self.NAMESPACE, "name": "data"}}},
            {"apiVersion": "v1", "kind": "PersistentVolumeClaim",
             "metadata": {"name": "data", "namespace": self.NAMESPACE},
             "spec": {"accessModes": ["ReadWriteOnce"], "volumeMode": "Block",
                      "storageClassName": "none", "volumeName": "data",
                      "resources": {"requests": {"storage": "1Mi"}}}},
            {"apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshotClass",
             "metadata": {"name": "none"}, "driver": "cairn.csi.dev", "deletionPolicy": "Delete"}])
        KUBE.wait(lambda claim: claim["status"]["phase"] == "Bound", *where, "pvc", "data")
        command = [os.environ.get("CAIRN_BIN", "cairn"), "backup", "create", "--kubeconfig",
                   KUBE.kubeconfig, "--namespace", self.NAMESPACE, "--pvc", "data", "--image",
                   "localhost/cairn:1", "--repository-secret", "none", "--repository-claim", "r"]
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True) as child:
            try:
                pods = KUBE.wait(lambda found: found["items"], *where, "pods")["items"]
            finally:
                child.terminate()
                _, said = child.communicate(timeout=300)
        self.assertTrue(pods[0]["spec"]["containers"][0].get("volumeDevices"), said)


class Components(unittest.TestCase):
    def test_network_policies_go_with_every_overlay(self):
        for overlay in ("overlays/group-snapshots", "sessions", "diffsnap", "volumesnapshotdelta"):
            with self.subTest(overlay):
                made = [item for item in with_components(overlay, "network-policies")
                        if item["kind"] in ("NetworkPolicy", "Namespace")]
                self.assertEqual(len(made), 13)
                KUBE.apply(made)
        made = with_components("backup", "backup-network-policies")
        KUBE.apply([item for item in made if item["kind"] == "NetworkPolicy"])

    def test_a_schedule_of_many_claims_changes_only_what_is_run(self):
        one, many = (by_kind(made, "CronJob")["cairn-backup"]["spec"]["jobTemplate"]["spec"]
                     for made in (kustomized("backup"), with_components("backup", "backup-selector")))
        container = many["template"]["spec"]["containers"][0]
        self.assertIn("--selector=$(SELECTOR)", container["args"])
        self.assertEqual([item["name"] for item in container["env"]],
                         ["SELECTOR", "CAIRN_POD", "NAMESPACE"])
        self.assertEqual(many["backoffLimit"], 0)
        known = one["template"]["spec"]["containers"][0]
        self.assertLessEqual(set(known["args"]) - {"--pvc=$(CLAIM)"}, set(container["args"]))
        for key in known.keys() - {"args", "env"}:
            self.assertEqual(container[key], known[key])
        self.assertEqual({**many["template"]["spec"], "containers": 0},
                         {**one["template"]["spec"], "containers": 0})

    def test_claims_in_filesystem_mode_have_their_binding(self):
        made = with_components("backup", "backup-filesystem", namespace="shop")
        binding = by_kind(made, "ClusterRoleBinding")["cairn-backup-filesystem-default"]
        self.assertIn(binding["roleRef"]["name"], by_kind(kustomized("rbac"), "ClusterRole"))
        account = by_kind(made, "CronJob")["cairn-backup"]["spec"]["jobTemplate"]["spec"][
            "template"]["spec"]["serviceAccountName"]
        self.assertEqual(binding["subjects"], [
            {"kind": "ServiceAccount", "name": account, "namespace": "shop"}])

    def test_cert_manager_tells_whom_to_trust(self):
        made = with_components("sessions", "cert-manager", "network-policies")
        hook = by_kind(made, "ValidatingWebhookConfiguration")["cairn-sessions"]
        self.assertEqual(hook["metadata"]["annotations"]["cert-manager.io/inject-ca-from"],
                         "cairn/cairn-manager")
        made = with_components("volumesnapshotdelta", "cert-manager")
        service = by_kind(made, "APIService")["v1alpha1.cbt.storage.k8s.io"]
        self.assertEqual(service["metadata"]["annotations"]["cert-manager.io/inject-ca-from"],
                         "cairn/cairn-aggapi")


def without_release(item):
    """An object of the chart as the overlays have it: helm's own marks are taken away."""
    text, mark = json.dumps(item), '"app.kubernetes.io/instance": "cairn"'
    item = json.loads(text.replace(f"{mark}, ", "").replace(f", {mark}", ""))
    for template in templates([item]).values():
        pod = template["spec"]
        for container in pod.get("initContainers", []) + pod["containers"]:
            container.pop("imagePullPolicy", None)
    # Labels of objects that nothing selects differ.
    item["metadata"].pop("labels", None)
    return item


def compared(objects):
    return {(item["kind"], item["metadata"].get("namespace", ""), item["metadata"]["name"]):
            without_release(item) for item in objects}


class Chart(unittest.TestCase):
    """The chart gives the same objects as the overlays."""

    CHART = str(DEPLOY / "helm/cairn")
    GROUPS = ("controllers.groupSnapshots=true",)

    @staticmethod
    def words(settings):
        return [word for setting in settings for word in ("--set", setting)]

    def rendered(self, *settings):
        return objects_of(helm("template", "cairn", self.CHART, "--namespace", "cairn",
                               "--skip-tests", "--kube-version", "1.35.4", *self.words(settings)))

    def test_it_is_in_order(self):
        self.assertIn("0 chart(s) failed", helm("lint", "--strict", "--kube-version", "1.35.4",
                                                self.CHART))

    # The overlays say which namespace is theirs, helm is told; and helm makes no CRDs.
    NOT_IN_THE_CHART = {"Namespace", "CustomResourceDefinition"}

    def test_it_gives_the_objects_of_the_overlays(self):
        """Accounts, rights, pods, services, classes and policies, field by field."""
        self.assert_same(self.rendered(*self.GROUPS, "networkPolicies.enabled=true"),
                         with_components("overlays/group-snapshots", "network-policies"))

    def assert_same(self, chart, overlay):
        """Policies of pods that only components have are not in the chart."""
        chart = compared(chart)
        overlay = {key: item for key, item in compared(overlay).items()
                   if key[0] not in self.NOT_IN_THE_CHART
                   and (key[0] != "NetworkPolicy" or key in chart)}
        self.maxDiff = None
        self.assertEqual(sorted(chart), sorted(overlay))
        for key, item in overlay.items():
            with self.subTest(key):
                self.assertEqual(chart[key], item)

    def test_it_gives_the_objects_of_several_nodes(self):
        self.assert_same(self.rendered("topology.nodes=labelled"), kustomized("overlays/nodes"))

    def test_it_gives_the_objects_of_a_pool_on_ceph(self):
        self.assert_same(self.rendered("ceph.pool=rbd:cairn"), kustomized("overlays/ceph"))
        self.assert_same(self.rendered("ceph.pool=rbd:cairn", "networkPolicies.enabled=true"),
                         with_components("overlays/ceph", "ceph-network-policies"))

    def test_the_api_server_takes_the_objects_of_several_nodes(self):
        KUBE.apply(DEPLOY / "base/namespace.yaml")
        for objects in (kustomized("overlays/nodes"),
                        with_components("overlays/ceph", "ceph-network-policies")):
            KUBE.apply(objects, "--dry-run=server")

    GENERATIONS = {"sessions": "sessions", "differentialSnapshots": "diffsnap",
                   "certificates": "certificates",
                   "volumeSnapshotDelta": "volumesnapshotdelta"}

    def enabled(self, *names):
        return [f"generations.{name}.enabled=true" for name in names]

    def test_it_gives_the_objects_of_any_combination_of_generations(self):
        self.maxDiff = None
        for n in range(5):
            for names in itertools.combinations(self.GENERATIONS, n):
                chart = compared(self.rendered(*self.enabled(*names)))
                overlay = compared(with_components(
                    "overlays/snapshot-metadata", *map(self.GENERATIONS.get, names)))
                overlay = {key: item for key, item in overlay.items()
                           if key[0] != "Namespace"
                           and key[2] != "snapshotmetadataservices.cbt.storage.k8s.io"}
                self.assertEqual(sorted(chart), sorted(overlay))
                for key, item in overlay.items():
                    with self.subTest(names, key=key):
                        self.assertEqual(chart[key], item)

    def test_generations_of_another_release_have_its_names(self):
        made = objects_of(helm(
            "template", "x", self.CHART, "--namespace", "y", "--kube-version", "1.35.4",
            *self.words([*self.enabled(*self.GENERATIONS), "driverName=x.csi.dev",
                         "generations.volumeSnapshotDelta.tolerations[0].operator=Exists",
                         "generations.volumeSnapshotDelta.affinity.podAffinity.x=y",
                         "affinity.nodeAffinity.x=y"])))
        for item in made:
            text = json.dumps(item).replace("cairn.csi.dev/pool", "")
            # Roles that people bind have the same names in every release.
            shared = item["kind"] == "ClusterRole" and item["metadata"]["name"].startswith("cairn-")
            if item["kind"] != "CustomResourceDefinition" and not shared:
                self.assertNotRegex(text, r"cairn-(?!snapshot-metadata-tls)[a-z]|cairn\.svc"
                                    r"|cairn\.csi\.dev|\"namespace\": \"cairn\"")
            self.assertIn(item["metadata"].get("namespace", "y"), ("y", "kube-system"))
        pods = templates(made)
        self.assertEqual(pods["x-aggapi"]["spec"]["affinity"], {"podAffinity": {"x": "y"}})
        self.assertEqual(pods["x-aggapi"]["spec"]["tolerations"], [{"operator": "Exists"}])
        self.assertEqual(pods["x-resizer"]["spec"]["affinity"], {"nodeAffinity": {"x": "y"}})
        done = subprocess.run([DEPLOY / "certificates", "all"], capture_output=True, text=True,
                              check=True, timeout=120,
                              env={**os.environ, "RELEASE": "x", "NAMESPACE": "y"})
        secrets = set(by_kind(objects_of(done.stdout), "Secret"))
        used = {volume["secret"]["secretName"] for pod in pods.values()
                for volume in pod["spec"].get("volumes", []) if "secret" in volume}
        self.assertEqual(secrets, used)

    def test_every_account_of_the_chart_has_one_pod(self):
        made = self.rendered(*self.GROUPS)
        used = [template["spec"]["serviceAccountName"] for template in templates(made).values()]
        self.assertEqual(sorted(used), sorted(by_kind(made, "ServiceAccount")))

    def test_it_is_installed_upgraded_and_removed(self):
        where = ["--kubeconfig", str(KUBE.kubeconfig), "--namespace", "chart"]
        settings = self.words(["driverName=chart.csi.dev", "classes.storageClass=chart",
                               "classes.snapshotClass=chart"])
        helm("install", "cairn", self.CHART, *where, "--create-namespace", *settings,
             "--set", "snapshotMetadata.generateCertificate=true")
        self.assertIsNotNone(KUBE.get("-n", "chart", "statefulset", "cairn-driver"))
        service = KUBE.get("snapshotmetadataservice", "chart.csi.dev")["spec"]
        self.assertEqual(service["address"], "cairn-snapshot-metadata.chart.svc:6443")
        secret = KUBE.get("-n", "chart", "secret", "cairn-snapshot-metadata-tls")["data"]
        self.assertEqual(service["caCert"], secret["ca.crt"])
        days = subprocess.run(
            ["openssl", "x509", "-noout", "-checkend", str(366 * 86400)], check=False,
            input=base64.b64decode(secret["tls.crt"]), capture_output=True).returncode
        self.assertEqual(days, 1, "it is good for more than a year")
        # Also when it is not asked for any more: it is in use.
        helm("upgrade", "cairn", self.CHART, *where, *settings)
        self.assertEqual(KUBE.get("-n", "chart", "secret", "cairn-snapshot-metadata-tls")["data"],
                         secret, "an upgrade made another certificate")
        self.assertEqual(KUBE.get("snapshotmetadataservice", "chart.csi.dev")["spec"]["caCert"],
                         secret["ca.crt"])
        helm("upgrade", "cairn", self.CHART, *where, *settings, *self.words(
            [*self.GROUPS, "classes.isDefault=true", "pool.size=100G",
             "snapshotMetadata.enabled=false"]))
        self.assertIsNone(KUBE.get("snapshotmetadataservice", "chart.csi.dev"))
        helm("uninstall", "cairn", *where)
        self.assertIsNone(KUBE.get("-n", "chart", "statefulset", "cairn-driver"))
        self.assertIsNone(KUBE.get("clusterrole", "cairn-resizer"))

    # Kinds of prometheus-operator and cert-manager are not here.
    FOREIGN = {"PodMonitor", "PrometheusRule", "Certificate"}

    def test_the_server_takes_every_object(self):
        """A dry run on the server, of all that the chart can make and of all overlays."""
        KUBE.apply(DEPLOY / "base" / "namespace.yaml")
        for overlay in ("sessions", "volumesnapshotdelta"):  # a dry run makes no kinds known
            KUBE.apply([item for item in kustomized(overlay)
                        if item["kind"] == "CustomResourceDefinition"])
        made = objects_of(helm("template", "cairn", self.CHART, "--namespace", "cairn",
                               "--kube-version", "1.35.4", *self.words([
                                   *self.GROUPS, *self.enabled(*self.GENERATIONS),
                                   "generations.certificates.enabled=true",
                                   "networkPolicies.enabled=true", "podDisruptionBudget.enabled=true",
                                   "monitoring.dashboard.enabled=true", "classes.isDefault=true",
                                   "imagePullSecrets[0].name=pull", "podAnnotations.a=b",
                                   "snapshotMetadata.caCert=PEM", "driver.extraArgs[0]=--max-volumes=9",
                                   "driver.updateStrategy.type=OnDelete"])))
        overlays = [str(path.parent) for path in sorted(DEPLOY.glob("**/kustomization.yaml"))
                    if "components" not in path.parts and "helm" not in path.parts]
        self.assertGreater(len(overlays), 6)
        for objects in (made, *map(kustomized, overlays)):
            text = yaml.safe_dump_all(item for item in objects if item["kind"] not in self.FOREIGN)
            with tempfile.NamedTemporaryFile("w", dir=KUBE.directory, suffix=".yaml") as file:
                file.write(text)
                file.flush()
                KUBE.kubectl("apply", "--server-side", "--force-conflicts", "--dry-run=server",
                             "--filename", file.name)

    def test_two_releases_beside_each_other_and_a_rollback(self):
        def where(name):
            return ["--kubeconfig", str(KUBE.kubeconfig), "--namespace", name]
        for name in ("one", "two"):
            helm("install", name, self.CHART, *where(name), "--create-namespace",
                 "--set", "snapshotMetadata.generateCertificate=true")
            self.addCleanup(helm, "uninstall", name, *where(name))
        secret = KUBE.get("-n", "one", "secret", "one-snapshot-metadata-tls")["data"]
        self.assertIsNotNone(KUBE.get("csidriver", "two.cairn.csi.dev"))
        role = KUBE.get("clusterrole", "cairn-backup")["metadata"]["annotations"]
        self.assertEqual(role["meta.helm.sh/release-name"], "one")
        helm("upgrade", "one", self.CHART, *where("one"), "--reuse-values", "--set", "logLevel=debug")
        helm("rollback", "one", "1", *where("one"))
        driver = KUBE.get("-n", "one", "statefulset", "one-driver")["spec"]["template"]["spec"]
        self.assertIn("--log-level=info", driver["containers"][0]["args"])
        self.assertEqual(KUBE.get("-n", "one", "secret", "one-snapshot-metadata-tls")["data"], secret)
        with self.assertRaisesRegex(AssertionError, "set pool.directory=/var/lib/one"):
            helm("upgrade", "one", self.CHART, *where("one"), "--set", "pool.directory=/elsewhere")
        with self.assertRaisesRegex(AssertionError, "set driverName=one.cairn.csi.dev"):
            helm("upgrade", "one", self.CHART, *where("one"), "--set", "driverName=x.csi.dev")

    def test_a_namespace_that_forbids_the_driver_is_refused(self):
        restricted_namespace("forbidden")
        with self.assertRaisesRegex(AssertionError, "pod-security.kubernetes.io/enforce=privileged"):
            helm("install", "forbidden", self.CHART, "--kubeconfig", str(KUBE.kubeconfig),
                 "--namespace", "forbidden")

    def test_it_makes_no_certificate_unless_told_to(self):
        """What helm makes is good for clients too."""
        made = self.rendered()
        self.assertEqual(by_kind(made, "Secret"), {})
        self.assertEqual(by_kind(made, "SnapshotMetadataService"), {})

    def test_certificates_of_the_default_path_are_of_servers_only(self):
        """As NOTES.txt says, for a release of another name."""
        done = subprocess.run([DEPLOY / "certificates", "x.csi.dev", "x-snapshot-metadata", "x"],
                              capture_output=True, text=True, check=True, timeout=60)
        secret = by_kind(objects_of(done.stdout), "Secret")["x-snapshot-metadata-tls"]
        pod = templates(objects_of(helm("template", "x", self.CHART, "--namespace", "x",
                                        "--kube-version", "1.35.4")))
        volumes = pod["x-snapshot-metadata"]["spec"]["volumes"]
        self.assertIn(secret["metadata"]["name"], [volume.get("secret", {}).get("secretName")
                                                   for volume in volumes])
        text = subprocess.run(["openssl", "x509", "-noout", "-ext", "extendedKeyUsage"],
                              input=base64.b64decode(secret["data"]["tls.crt"]), check=True,
                              capture_output=True).stdout.decode()
        self.assertIn("TLS Web Server Authentication", text)
        self.assertNotIn("Client", text)

    def test_an_authority_makes_the_service_known(self):
        made = self.rendered("snapshotMetadata.tlsSecret=mine", "snapshotMetadata.caCert=PEM")
        service = by_kind(made, "SnapshotMetadataService")["cairn.csi.dev"]["spec"]
        self.assertEqual(base64.b64decode(service["caCert"]), b"PEM")
        self.assertEqual(by_kind(made, "Secret"), {})


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    unittest.main()
