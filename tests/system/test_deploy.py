#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What deploy/ ships gives each pod what it needs and no more: an account of its own, limits, a
NetworkPolicy, the PodSecurity standard "restricted". tests/cluster asks a real API server."""
import fnmatch
import pathlib
import sys
import unittest

try:
    import yaml
except ImportError:
    print("skipped: python3-yaml is not installed")
    sys.exit(77)

DEPLOY = pathlib.Path(__file__).resolve().parents[2] / "deploy"
COMPONENT = "app.kubernetes.io/component"
SERVER_USAGES = {"digital signature", "server auth"}
# Of volumes that "restricted" allows, those that are used here.
VOLUMES = {"secret", "persistentVolumeClaim", "emptyDir"}
NODE_DRIVER = "cairn-driver"


def shipped():
    """Every object of deploy/ but the chart's, which the API server's tests compare."""
    found = []
    for path in sorted(DEPLOY.rglob("*.yaml")):
        if "helm" not in path.parts and path.name != "kustomization.yaml":
            found += [item for item in yaml.safe_load_all(path.read_text()) if item]
    return found


OBJECTS = shipped()


def of_kind(kind):
    return {item["metadata"]["name"]: item for item in OBJECTS if item["kind"] == kind}


def templates():
    """{name of the workload: its pod template}"""
    found = {}
    for kind in ("Deployment", "StatefulSet"):
        found.update({name: item["spec"]["template"] for name, item in of_kind(kind).items()})
    found.update({name: item["spec"]["jobTemplate"]["spec"]["template"]
                  for name, item in of_kind("CronJob").items()})
    return found


def containers(pod):
    return pod.get("initContainers", []) + pod["containers"]


class Pods(unittest.TestCase):
    def each(self, but=()):
        for name, template in templates().items():
            if name not in but:
                with self.subTest(name):
                    yield template["spec"]

    def test_all_but_the_drivers_are_restricted(self):
        for pod in self.each(but=[NODE_DRIVER]):
            for field in ("hostNetwork", "hostPID", "hostIPC"):
                self.assertNotIn(field, pod)
            self.assertLessEqual({key for volume in pod.get("volumes", []) for key in volume
                                  if key != "name"}, VOLUMES)
            for container in containers(pod):
                context = {**pod.get("securityContext", {}), **container["securityContext"]}
                self.assertIs(context["runAsNonRoot"], True)
                self.assertGreater(context["runAsUser"], 0)
                self.assertEqual(context["seccompProfile"], {"type": "RuntimeDefault"})
                self.assertIs(context["allowPrivilegeEscalation"], False)
                self.assertIs(context["readOnlyRootFilesystem"], True)
                self.assertEqual(context["capabilities"], {"drop": ["ALL"]})

    def test_every_container_has_requests_and_limits(self):
        for pod in self.each():
            for container in containers(pod):
                for what in ("requests", "limits"):
                    self.assertEqual(sorted(container["resources"][what]), ["cpu", "memory"],
                                     container["name"])

    def test_diffsnap_has_an_audience_of_its_own(self):
        """Else a token for the API server would do, or one for another service."""
        (container,) = containers(templates()["cairn-diffsnap"]["spec"])
        self.assertIn("--audience=cairn-diffsnap", container["args"])

    def test_no_port_is_the_nodes(self):
        for pod in self.each():
            self.assertNotIn("hostNetwork", pod)
            for container in containers(pod):
                for port in container.get("ports", []):
                    self.assertNotIn("hostPort", port)

    def test_every_pod_has_an_account_of_its_own(self):
        accounts = of_kind("ServiceAccount")
        taken = {}
        for name, template in templates().items():
            pod = template["spec"]
            account = pod.get("serviceAccountName")
            if account is None:
                self.assertIs(pod["automountServiceAccountToken"], False, name)
                continue
            self.assertNotIn(account, taken, f"{name} shares an account with {taken.get(account)}")
            taken[account] = name
            # No token by accident: an account gives none, and a pod that needs one says so.
            self.assertIs(accounts[account]["automountServiceAccountToken"], False)
            self.assertIs(pod["automountServiceAccountToken"], name != NODE_DRIVER)

    def test_the_driver_has_no_rights(self):
        for kind in ("ClusterRoleBinding", "RoleBinding"):
            for item in of_kind(kind).values():
                self.assertNotIn(NODE_DRIVER, [who["name"] for who in item["subjects"]])

    def test_only_the_driver_writes_where_its_socket_is(self):
        volume = of_kind("PersistentVolume")["cairn-socket"]["spec"]
        driver = templates()[NODE_DRIVER]["spec"]
        paths = {entry["name"]: entry.get("hostPath", {}).get("path")
                 for entry in driver["volumes"]}
        self.assertEqual(volume["hostPath"]["path"], paths["socket"])
        for pod in self.each(but=[NODE_DRIVER]):
            for container in containers(pod):
                for mount in container.get("volumeMounts", []):
                    if mount["name"] == "socket":
                        self.assertIs(mount["readOnly"], True)
                        self.assertIn(65533, pod["securityContext"]["supplementalGroups"])
        self.assertIn("--endpoint-group=65533", driver["containers"][0]["args"])

    def test_the_image_of_backups_stands_in_one_place(self):
        """`images:` of kustomize reaches the image of containers, and no variable."""
        backup = templates()["cairn-backup"]["spec"]["containers"][0]
        variables = {entry["name"]: entry.get("value") for entry in backup["env"]}
        self.assertNotIn(backup["image"], variables.values())
        self.assertIn("CAIRN_POD", variables)


class Network(unittest.TestCase):
    @staticmethod
    def selects(policy, labels):
        selector = policy["spec"]["podSelector"]
        wanted = selector.get("matchLabels", {}).items()
        present = [entry["key"] for entry in selector.get("matchExpressions", [])]
        return set(wanted) <= set(labels.items()) and all(key in labels for key in present)

    def policy_of(self, labels):
        found = [policy for policy in of_kind("NetworkPolicy").values()
                 if self.selects(policy, labels)]
        self.assertEqual(len(found), 1, labels)
        self.assertEqual(found[0]["spec"]["policyTypes"], ["Ingress", "Egress"])
        return found[0]["spec"]

    def test_every_pod_has_one_policy_for_its_ports(self):
        for name, template in templates().items():
            with self.subTest(name):
                spec = self.policy_of(template["metadata"]["labels"])
                ports = {port["name"]: port for container in template["spec"]["containers"]
                         for port in container.get("ports", [])}
                allowed = [port["port"] for rule in spec.get("ingress", [])
                           for port in rule["ports"]]
                self.assertEqual(sorted(allowed), sorted(ports))

    def test_metrics_are_for_scrapers(self):
        for name, template in templates().items():
            spec = self.policy_of(template["metadata"]["labels"])
            probed = {probe["httpGet"]["port"] for container in template["spec"]["containers"]
                      for probe in (container.get("readinessProbe"), container.get("livenessProbe"))
                      if probe}
            for rule in spec.get("ingress", []):
                for port in rule["ports"]:
                    self.assertEqual("from" in rule, port["port"] in probed, (name, port))

    def test_whoever_asks_nothing_of_kubernetes_connects_to_nobody(self):
        spec = self.policy_of(templates()[NODE_DRIVER]["metadata"]["labels"])
        self.assertNotIn("egress", spec)

    def test_jobs_of_backups_have_one(self):
        spec = self.policy_of({"app.kubernetes.io/managed-by": "cairn",
                               "cairn.csi.dev/backup": "create"})
        self.assertNotIn("ingress", spec)


class Certificates(unittest.TestCase):
    def test_cert_manager_makes_every_secret_of_a_server_and_for_servers_only(self):
        made = {item["spec"]["secretName"]: item["spec"]
                for item in of_kind("Certificate").values() if not item["spec"].get("isCA")}
        wanted = {volume["secret"]["secretName"] for template in templates().values()
                  for volume in template["spec"].get("volumes", []) if "secret" in volume}
        self.assertEqual(set(made), wanted)
        for name, spec in made.items():
            self.assertEqual(set(spec["usages"]), SERVER_USAGES)
            service = name.removesuffix("-tls")
            self.assertIn(f"{service}.cairn.svc", spec["dnsNames"])
            self.assertIn(service, of_kind("Service"))


class Overlays(unittest.TestCase):
    """A patch that lists arguments takes away those of the base that it does not repeat."""

    def patches(self):
        for path in sorted(DEPLOY.rglob("kustomization.yaml")):
            for patch in yaml.safe_load(path.read_text()).get("patches", []):
                text = patch.get("patch") or (path.parent / patch["path"]).read_text()
                yield path, patch, yaml.safe_load(text)

    def test_arguments_are_only_added(self):
        added = 0
        for path, patch, content in self.patches():
            with self.subTest(path=path, target=patch.get("target")):
                # What is merged replaces lists.
                self.assertTrue(isinstance(content, list) or "spec" not in content)
                tested = set()  # an argument whose value was tested may be changed alone
                for step in content if isinstance(content, list) else []:
                    if "/args" not in step["path"]:
                        continue
                    if step["op"] == "test":
                        tested.add(step["path"])
                    elif step["path"] not in tested:
                        self.assertEqual((step["op"], step["path"].rpartition("/")[2]),
                                         ("add", "-"))
                        added += 1
        self.assertGreater(added, 0)

    def test_group_snapshots_keep_the_resync_period(self):
        snapshotter = templates()["cairn-snapshotter"]["spec"]["containers"][0]
        self.assertEqual(snapshotter["name"], "snapshotter")
        self.assertIn("--resync-period=1m", snapshotter["args"])
        group = [content for path, _, content in self.patches()
                 if path.parent.name == "group-snapshots"]
        self.assertEqual([[step["op"] for step in content] for content in group],
                         [["test", "add"]])


class Image(unittest.TestCase):
    def test_what_it_is_built_from_is_pinned(self):
        text = (DEPLOY / "Containerfile").read_text()
        self.assertRegex(text, r"(?m)^ARG BASE=\S+@sha256:[0-9a-f]{64}$")
        self.assertRegex(text, r"(?m)^ARG DATE=\d{8}T\d{6}Z$")
        self.assertRegex(text, r"(?m)^USER [1-9]")

    def test_builds_and_history_are_left_out_and_no_source_is(self):
        """Patterns of .dockerignore match the whole path, or with **/ its end."""
        patterns = (DEPLOY.parent / ".dockerignore").read_text().split()

        def is_left_out(path):
            parts = path.split("/")
            return any(fnmatch.fnmatch(parts[-1 if pattern.startswith("**/") else 0],
                                       pattern.removeprefix("**/")) for pattern in patterns)
        for path in (".git", "build/gcc/src/cairn", "tests/cluster/__pycache__"):
            self.assertTrue(is_left_out(path), path)
        for path in DEPLOY.parent.rglob("*"):
            path = str(path.relative_to(DEPLOY.parent))
            if path.split("/")[0] in ("src", "deploy", "scripts", "man", "debian", "include"):
                self.assertEqual(is_left_out(path), "__pycache__" in path, path)


if __name__ == "__main__":
    unittest.main()
