#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The chart without a cluster: every value, the schema, names, the archive, rules and dashboard."""
import copy
import json
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

import yaml

import cluster
from promtool import DASHBOARD, METRIC, RULES, alerts, try_rules

HELM = cluster.peers_or_skip("helm")["helm"]
TREE = cluster.REPOSITORY
CHART = TREE / "deploy/helm/cairn"
VALUES = yaml.safe_load((CHART / "values.yaml").read_text())
SCHEMA = json.loads((CHART / "values.schema.json").read_text())


def helm(*words, chart=CHART, status=0):
    done = subprocess.run([HELM, words[0], *map(str, words[1:]), chart, "--kube-version", "1.35.4"],
                          capture_output=True, text=True, check=False, timeout=120, env={"HOME": tempfile.gettempdir()})
    if (done.returncode == 0) != (status == 0):
        raise AssertionError(done.stdout + done.stderr)
    return done.stdout + (done.stderr if status else "")


def rendered(values, release="cairn", namespace="cairn", **how):
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        yaml.safe_dump(values, file)
        file.flush()
        text = helm("template", release, "--namespace", namespace, "--values", file.name, **how)
    return text if how.get("status") else [item for item in yaml.safe_load_all(text) if item]


def named(objects):
    return {(item["kind"], item["metadata"].get("namespace"), item["metadata"]["name"]): item
            for item in objects}


def all_of_it():
    """Values with everything on that can be on at once."""
    values = copy.deepcopy(VALUES)
    values.update(driverName="other.csi.dev", imagePullSecrets=[{"name": "pull"}],
                  podLabels={"a": "b"}, podAnnotations={"c": "d"}, logLevel="debug",
                  tolerations=[{"operator": "Exists"}], kubeletDirectory="/var/lib/k0s/kubelet",
                  affinity={"nodeAffinity": {}}, updateStrategy={"type": "Recreate"})
    values["image"].update(repository="registry.example/cairn", digest="sha256:" + "a" * 64,
                           pullPolicy="Always")
    values["driver"].update(extraArgs=["--max-volumes=10"], affinity={"nodeAffinity": {}},
                            updateStrategy={"type": "OnDelete"})
    values["pool"].update(directory="/srv/pool", size="10G", backend="btrfs", retention="30d")
    values["controllers"]["groupSnapshots"] = True
    values["snapshotMetadata"].update(port=7443, audience="me", caCert="PEM", extraArgs=["--v=5"],
                                      certManagerIssuer={"name": "i", "kind": "Issuer"})
    values["classes"].update(storageClass="s", snapshotClass="t", fsType="xfs", isDefault=True)
    for generation in values["generations"].values():
        generation["enabled"] = True
    for part in ("networkPolicies", "podDisruptionBudget"):
        values[part]["enabled"] = True
    for part in values["monitoring"].values():
        part["enabled"] = True
    return values


class Template(unittest.TestCase):
    def test_lint(self):
        self.assertIn("0 chart(s) failed", helm("lint", "--strict"))

    def test_everything_at_once(self):
        made = rendered(all_of_it())
        kinds = {item["kind"] for item in made}
        self.assertLessEqual({"PodMonitor", "PrometheusRule", "PodDisruptionBudget", "Certificate",
                              "NetworkPolicy", "VolumeGroupSnapshotClass", "APIService"}, kinds)
        text = json.dumps(made)
        self.assertIn("registry.example/cairn@sha256:" + "a" * 64, text)
        self.assertNotIn("localhost/cairn", text)
        for item in made:
            pod = item["spec"].get("template", {}).get("spec") if item["kind"] in (
                "Deployment", "StatefulSet") else None
            if pod:
                self.assertEqual(pod["imagePullSecrets"], [{"name": "pull"}], item["metadata"])

    def test_every_single_value_can_be_changed(self):
        """Each leaf of the values, alone; what it changes is another test's."""
        full = all_of_it()

        def leaves(value, path=()):
            if isinstance(value, dict) and value and path[-1:] != ("affinity",):
                for key, inner in value.items():
                    yield from leaves(inner, (*path, key))
            else:
                yield path, value
        default = dict(leaves(VALUES))
        changed = [(path, value) for path, value in leaves(full) if default.get(path) != value]
        self.assertGreater(len(changed), 30)
        for path, value in changed:
            values = inner = {}
            for key in path[:-1]:
                inner[key] = {}
                inner = inner[key]
            inner[path[-1]] = value
            with self.subTest(path):
                self.assertTrue(rendered(values))

    def test_every_object_is_labelled(self):
        for item in rendered(all_of_it()):
            if item["kind"] in ("CustomResourceDefinition", "ConfigMap") or \
                    "generation" in item["metadata"]["name"]:
                continue
            labels = item["metadata"].get("labels", {})
            if "helm.sh/chart" in labels:
                for name in ("name", "instance", "version", "managed-by", "part-of"):
                    self.assertIn(f"app.kubernetes.io/{name}", labels, item["metadata"]["name"])

    def test_an_empty_tag_is_the_charts_version(self):
        made = rendered({"image": {"tag": ""}})
        version = yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"]
        self.assertIn(f'"localhost/cairn:{version}"', json.dumps(made))

    def test_service_names_exist(self):
        made = rendered({})
        services = {item["metadata"]["name"] for item in made if item["kind"] == "Service"}
        for item in made:
            if item["kind"] == "StatefulSet":
                self.assertIn(item["spec"]["serviceName"], services)

    def test_containers_have_resources_and_a_confined_security_context(self):
        for item in rendered({}):
            if item["kind"] not in ("Deployment", "StatefulSet"):
                continue
            for container in item["spec"]["template"]["spec"]["containers"]:
                self.assertIn("limits", container["resources"])
                self.assertTrue(container["securityContext"]["readOnlyRootFilesystem"])


class SeveralNodes(unittest.TestCase):
    def pods(self, values, release="cairn"):
        return {(item["kind"], item["metadata"]["name"]): item["spec"]["template"]["spec"]
                for item in rendered(values, release) if item["kind"] in (
                    "Deployment", "StatefulSet", "DaemonSet")}

    def test_every_node_has_its_parts(self):
        labelled = self.pods({"topology": {"nodes": "labelled"}}, "x")
        self.assertEqual(sorted(labelled), [
            ("DaemonSet", "x-driver"), ("DaemonSet", "x-provisioner"),
            ("DaemonSet", "x-snapshot-metadata"), ("DaemonSet", "x-snapshotter"),
            ("Deployment", "x-certificates"), ("Deployment", "x-resizer")])
        sidecar = labelled["DaemonSet", "x-snapshot-metadata"]["containers"][0]["args"]
        self.assertIn("--route-service=x-route", sidecar)
        self.assertIn("--route-signer=x.cairn.csi.dev/route", sidecar)
        for pod in labelled.values():
            self.assertIn(pod.get("nodeSelector"), ({"cairn.csi.dev/pool": ""}, None))
        for pod in self.pods({"topology": {"nodes": "all"}}).values():
            self.assertIn(pod.get("nodeSelector"), ({"kubernetes.io/os": "linux"}, None))

    def test_rights_are_of_the_release(self):
        made = rendered({"topology": {"nodes": "all"}}, "x", "y")
        for item in made:
            if item["kind"] in ("ClusterRole", "Role") and "route" in item["metadata"]["name"]:
                self.assertNotIn("cairn-route", json.dumps(item))
        roles = {(item["kind"], item["metadata"]["name"]) for item in made}
        for item in made:
            if "roleRef" in item:
                self.assertIn((item["roleRef"]["kind"], item["roleRef"]["name"]), roles)
                for subject in item["subjects"]:
                    self.assertIn(("ServiceAccount", subject["name"]), roles)
        capacity = named(made)["CSIDriver", None, "x.cairn.csi.dev"]["spec"]
        self.assertTrue(capacity["storageCapacity"])

    def test_without_the_sidecar_nothing_of_routes_is_made(self):
        made = rendered({"topology": {"nodes": "all"}, "snapshotMetadata": {"enabled": False}})
        self.assertNotIn("route", json.dumps(made))

    def test_what_does_not_work_on_several_nodes_is_refused(self):
        for values, word in (({"controllers": {"groupSnapshots": True}}, "groupSnapshots"),
                             ({"generations": {"sessions": {"enabled": True}}}, "generations"),
                             ({"topology": {"nodes": "some"}}, "schema")):
            with self.subTest(values):
                self.assertIn(word, rendered({"topology": {"nodes": "all"}, **values}, status=1))


class Ceph(unittest.TestCase):
    """One pool for all nodes."""

    VALUES = {"ceph": {"pool": "rbd:one/two", "user": "me"}, "driverName": "x.csi.dev"}

    def test_addresses_names_and_files_come_from_the_values(self):
        made = named(rendered(self.VALUES, "x", "y"))
        pod = made["DaemonSet", "y", "x-driver"]["spec"]["template"]["spec"]
        self.assertEqual(pod["initContainers"][0]["args"][-1], "rbd:one/two:id=me")
        args = pod["containers"][0]["args"]
        self.assertIn("--pool=rbd:one/two:id=me", args)
        self.assertNotIn("--topology", args)
        self.assertNotIn("hostPath", pod["volumes"][0])
        for container in pod["initContainers"] + pod["containers"]:
            self.assertIn({"name": "ceph", "mountPath": "/etc/ceph", "readOnly": True},
                          container["volumeMounts"])
        for values, expected in (({}, ["x-ceph", "x-ceph"]),
                                 ({"configMap": "a", "secret": "b"}, ["a", "b"])):
            values = {"ceph": {**self.VALUES["ceph"], **values}}
            pod = named(rendered(values, "x", "y"))["DaemonSet", "y", "x-driver"]
            sources = pod["spec"]["template"]["spec"]["volumes"][0]["projected"]["sources"]
            self.assertEqual([sources[0]["configMap"]["name"], sources[1]["secret"]["name"]],
                             expected)

    def test_each_controller_has_the_lease_of_its_driver(self):
        for release, name in (("x", "x.csi.dev"), ("x", ""), ("cairn", "")):
            made = rendered({**self.VALUES, "driverName": name}, release, "y")
            lease = (name or f"{release}.cairn.csi.dev").removeprefix("cairn.").replace(".", "-")
            found = [rule["resourceNames"] for item in made if item["kind"] == "Role"
                     for rule in item["rules"] if "resourceNames" in rule]
            self.assertEqual(found, [[f"{prefix}{lease}"] for prefix in (
                "", "external-snapshotter-leader-", "external-resizer-")])
            accounts = {item["metadata"]["name"] for item in made
                        if item["kind"] == "ServiceAccount"}
            for item in made:
                self.assertLessEqual({subject["name"] for subject in item.get("subjects", [])},
                                     accounts)

    def test_all_nodes_or_those_with_the_label(self):
        for nodes, expected in (("one", {"cairn.csi.dev/pool": ""}),
                                ("labelled", {"cairn.csi.dev/pool": ""}),
                                ("all", {"kubernetes.io/os": "linux"})):
            made = rendered({**self.VALUES, "topology": {"nodes": nodes}})
            self.assertNotIn("route", json.dumps(made))
            for item in made:
                if item["kind"] in ("Deployment", "DaemonSet"):
                    self.assertEqual(item["spec"]["template"]["spec"]["nodeSelector"], expected)
                if item["kind"] == "Deployment":
                    self.assertEqual(item["spec"]["replicas"], 2)

    def test_what_does_not_go_with_it_is_refused(self):
        for values, word in (({"pool": {"size": "1G"}}, "pool.size"),
                             ({"pool": {"directory": "/srv"}}, "pool.directory"),
                             ({"controllers": {"groupSnapshots": True}}, "groupSnapshots"),
                             ({"generations": {"sessions": {"enabled": True}}}, "generations"),
                             ({"ceph": {"pool": "cairn"}}, "schema"),
                             ({"ceph": {"pool": "rbd:a:id=b"}}, "schema"),
                             ({"ceph": {"pool": "rbd:a", "user": ""}}, "schema")):
            with self.subTest(values):
                self.assertIn(word, rendered({**self.VALUES, **values}, status=1))


class Refusals(unittest.TestCase):
    def test_every_object_of_the_schema_refuses_unknown_values(self):
        def objects(value, path=()):
            yield path
            for key, inner in value.items():
                if isinstance(inner, dict) and inner and key not in (
                        "nodeSelector", "updateStrategy", "requests", "limits", "labels"):
                    yield from objects(inner, (*path, key))
        for path in objects(VALUES):
            values = inner = {}
            for key in path:
                inner[key] = {}
                inner = inner[key]
            inner["unknownValue"] = 1
            with self.subTest(path):
                self.assertIn("unknownValue", rendered(values, status=1))

    def test_bad_values_are_refused(self):
        for values in ({"driverName": "Has Spaces"}, {"image": {"digest": "sha256:1"}},
                       {"image": {"tag": 1}}, {"pool": {"backend": "zfs"}},
                       {"pool": {"directory": "relative"}}, {"logLevel": "loud"},
                       {"snapshotMetadata": {"port": 0}}, {"imagePullSecrets": ["name"]},
                       {"classes": {"fsType": "vfat"}}, {"test": {"size": "much"}},
                       {"updateStrategy": {"type": "OnDelete"}}):
            with self.subTest(values):
                self.assertIn("schema", rendered(values, status=1))

    def test_the_schema_knows_every_value(self):
        def compare(value, schema, path):
            while "$ref" in schema:
                schema = SCHEMA["definitions"][schema["$ref"].rsplit("/", 1)[1]]
            if isinstance(value, dict) and "properties" in schema:
                for key, inner in value.items():
                    self.assertIn(key, schema["properties"], path)
                    compare(inner, schema["properties"][key], (*path, key))
        compare(VALUES, SCHEMA, ())


class Releases(unittest.TestCase):
    def test_two_releases_share_nothing(self):
        values = {"networkPolicies": {"enabled": True}, "controllers": {"groupSnapshots": True},
                  "snapshotMetadata": {"caCert": "PEM"}}
        shared = {key[2] for key in set(named(rendered(values, "cairn", "cairn"))) &
                  set(named(rendered(values, "second", "second")))}
        # The second leaves these out when the first has them.
        self.assertEqual(shared, {"cairn-backup", "cairn-backup-cluster", "cairn-backup-filesystem",
                                  "cairn-snapshot-metadata-client",
                                  "cairn-snapshot-metadata-reader", "cairn-viewer",
                                  "cairn-viewer-cluster"})
        self.assertEqual(
            [item for item in rendered({**values, "clientRoles": {"create": False}}, "second")
             if item["metadata"]["name"].startswith("cairn-")], [])

    def test_managers_may_use_what_they_are_told_to_use(self):
        made = rendered({"generations": {name: {"enabled": True} for name in (
            "sessions", "volumeSnapshotDelta", "certificates")}}, "second", "second")
        allowed = {(resource, name) for item in made if item["kind"] == "Role"
                   for rule in item["rules"] for resource in rule["resources"]
                   for name in rule.get("resourceNames", [])}
        self.assertIn(("configmaps", "second-sessions"), allowed)
        for part in ("manager", "discovery", "certificates"):
            pod = named(made)["Deployment", "second", f"second-{part}"]["spec"]["template"]["spec"]
            self.assertIn("--release=second", pod["containers"][0]["args"])
            self.assertIn(("leases", f"second-{part}"), allowed)
            if part == "manager":
                self.assertIn("--config-map=second-sessions", pod["containers"][0]["args"])

    def test_two_releases_use_different_directories_of_the_node(self):
        def paths(release):
            return {volume["hostPath"]["path"] for item in rendered({}, release)
                    if item["kind"] == "StatefulSet"
                    for volume in item["spec"]["template"]["spec"]["volumes"]
                    if volume["name"] in ("pool", "socket")}
        self.assertEqual(paths("cairn") & paths("second"), set())

    def test_roles_that_backups_bind_keep_their_names(self):
        bound = set()
        for path in (TREE / "deploy/backup").glob("*.yaml"):
            for item in yaml.safe_load_all(path.read_text()):
                if item and item.get("roleRef", {}).get("kind") == "ClusterRole":
                    bound.add(item["roleRef"]["name"])
        roles = {item["metadata"]["name"] for item in rendered({}, "other")
                 if item["kind"] == "ClusterRole"}
        self.assertLessEqual(bound, roles)


class Archive(unittest.TestCase):
    def setUp(self):
        self.place = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.place)

    def test_a_copy_without_links_has_the_crd_and_refuses_what_it_lacks(self):
        shutil.copytree(CHART, self.place / "cairn", symlinks=True)
        for path in (self.place / "cairn").rglob("*"):
            self.assertFalse(path.is_symlink() and "generations" not in path.parts, path)
        for link in (self.place / "cairn/generations").iterdir():
            link.unlink()
        crds = list((self.place / "cairn/charts/crds/crds").glob("*.yaml"))
        self.assertEqual(len(crds), 1)
        self.assertTrue(rendered({}, chart=self.place / "cairn"))
        self.assertIn("scripts/chart", rendered({"generations": {"sessions": {"enabled": True}}},
                                                chart=self.place / "cairn", status=1))

    def test_the_crd_is_the_one_of_the_manifests(self):
        name = "cbt.storage.k8s.io_snapshotmetadataservices.yaml"
        self.assertEqual((CHART / "charts/crds/crds" / name).read_text(),
                         (TREE / "deploy/crd" / name).read_text())

    def test_a_value_leaves_the_crd_out(self):
        for install in (True, False):
            text = helm("template", "cairn", "--include-crds", "--set", f"crds.install={install}"
                        .lower())
            self.assertEqual("kind: CustomResourceDefinition" in text, install)

    def test_the_archive_is_whole_and_repeatable(self):
        made = []
        for name in ("a", "b"):
            done = subprocess.run([TREE / "scripts/chart", self.place / name], check=True,
                                  capture_output=True, text=True)
            made.append(pathlib.Path(done.stdout.strip()))
        self.assertEqual(made[0].read_bytes(), made[1].read_bytes())
        # The same objects as from the tree; everything but certificates, which are made anew.
        self.assertEqual(rendered(all_of_it(), chart=made[0]), rendered(all_of_it()))


def metrics_of_the_sources():
    """Names of metrics that programs report: texts of the sources, and those with a prefix."""
    names = set()
    for path in (TREE / "src").rglob("*.[ch]"):
        names |= set(re.findall(r'"((?:cairn|csi|process|snapshot)_[a-z0-9_]+)"', path.read_text()))
    text = "".join((TREE / "src/backup" / name).read_text()
                   for name in ("metrics_file.c", "pushgateway.c"))
    for name in re.findall(r'"([a-z_]+)"', text):
        names |= {f"cairn_backup_{name}", f"cairn_backup_verify_{name}",
                  f"cairn_backup_forget_{name}"}
    return names


class Monitoring(unittest.TestCase):
    def test_queries_name_metrics_that_exist(self):
        known = metrics_of_the_sources()
        queries = [rule["expr"] for group in yaml.safe_load(RULES.read_text())["groups"]
                   for rule in group["rules"]]
        queries += [target["expr"] for panel in json.loads(DASHBOARD.read_text())["panels"]
                    for target in panel["targets"]]
        self.assertGreater(len(queries), 15)
        for query in queries:
            for name in METRIC.findall(query):
                base = re.sub(r"_(count|bucket|sum)$", "", name)
                self.assertTrue(name in known or base in known, f"{name} in: {query}")

    def test_every_alert_fires_and_is_quiet(self):
        cases = TREE / "tests/cluster/alerts-test.yaml"
        tried = {case["alertname"] for test in yaml.safe_load(cases.read_text())["tests"]
                 for case in test["alert_rule_test"]}
        self.assertEqual(tried, set(alerts()))
        status, said = try_rules(cases.read_text())
        self.assertEqual(status, 0, said)

    def test_the_rules_come_through_the_chart(self):
        rule = next(item for item in rendered(all_of_it()) if item["kind"] == "PrometheusRule")
        self.assertEqual(rule["spec"], yaml.safe_load(RULES.read_text()))

    def test_what_to_do_is_written(self):
        text = (TREE / "docs/operations.md").read_text()
        for group in yaml.safe_load(RULES.read_text())["groups"]:
            for rule in group["rules"]:
                self.assertIn(rule["alert"], text)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    unittest.main()
