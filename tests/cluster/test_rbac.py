#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Every program of deploy/ works with the options and the rights that it is shipped with, on a real
API server; nothing is refused to it, and without any one of its rights something would be.
The rights of backups are looked at where Jobs run: test_backup_job.py."""
import base64
import contextlib
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
from controlplane import LOOPBACK, accepts
from csistack import CsiStack
from pki import SERVER
from processes import Failed, Ports, wait_until
from rights import ACCOUNT, Audit, Rights
from test_aggapi import GROUP, Stack, delta

cluster.peers_or_skip(*cluster.CONTROL_PLANE, *CsiStack.PROGRAMS, "snapshot-crds")
DEPLOY = cluster.REPOSITORY / "deploy"
OVERLAYS = ("overlays/group-snapshots", "overlays/all-generations")
# What runs nowhere, or would send requests where nothing answers.
LEFT_OUT = ("APIService", "ValidatingWebhookConfiguration", "Deployment", "StatefulSet", "Service",
            "FlowSchema", "PriorityLevelConfiguration", "PersistentVolume",
            "PersistentVolumeClaim")
ROLES = (
    "cairn-provisioner", "cairn-snapshotter", "cairn-group-snapshotter", "cairn-resizer",
    "cairn-snapshot-metadata", "cairn-snapshot-metadata-client", "cairn-snapshot-metadata-reader",
    "cairn-sessions", "cairn-manager", "cairn-session-client",
    "cairn-diffsnap", "cairn-diffsnap-reader",
    "cairn-aggapi", "cairn-aggapi-passed", "cairn-aggapi-token", "cairn-cbt-http",
    "cairn-cbt-http-caller",
    "cairn-cbt-http-lease", "cairn-discovery", "cairn-volumesnapshotdelta-creator",
)
NODE = "localhost"
DRIVER = "cairn.csi.dev"
GHOST = "ghost"
FAILED_AGAIN = "SnapshotContentCheckandUpdateFailed"
SNAPSHOTS = "snapshot.storage.k8s.io/v1"
TOO_LARGE = "1Ei"
SECRET = "0123456789abcdef0123"
BLOCK = 4096


def setUpModule():
    global BED, AUDIT  # pylint: disable=global-statement
    directory = pathlib.Path(tempfile.mkdtemp(prefix="cairn-rbac-"))
    AUDIT = Audit(directory)
    BED = unittest.enterModuleContext(cluster.Cluster(directory, crds=True,
                                                      apiserver_args=AUDIT.words))


class Shipped:
    """Containers of deploy/ as processes: their options, with addresses and files of here."""

    def __init__(self):
        self.kube, self.processes = BED.kube, BED.processes
        self.objects, self.containers = {}, {}
        self.ports, self.port = Ports(), {}
        for overlay in OVERLAYS:
            self.read(overlay)
        authority = BED.control_plane.authority
        self.authority = authority.crt
        self.pair = authority.issue("roles", "/CN=roles", SERVER,
                                    ["IP:127.0.0.1", "DNS:localhost", "DNS:cairn-aggapi.cairn.svc"])
        self.secret = BED.directory / "webhook-secret"
        self.secret.write_text(SECRET)

    def read(self, overlay):
        for item in yaml.safe_load_all(self.kube.kubectl("kustomize", DEPLOY / overlay)):
            named = (item["kind"], item["metadata"].get("namespace"), item["metadata"]["name"])
            if item["kind"] not in LEFT_OUT:
                self.objects[named] = item
            elif item["kind"] == "Deployment":
                pod = item["spec"]["template"]["spec"]
                for container in pod["containers"]:
                    # Of two overlays with a container, the one with more options.
                    kept = self.containers.get(item["metadata"]["name"])
                    if not kept or len(kept[1]["args"]) < len(container["args"]):
                        self.containers[item["metadata"]["name"]] = (
                            pod["serviceAccountName"], container)

    def apply(self):
        crds = [item for key, item in self.objects.items() if key[0] == "CustomResourceDefinition"]
        self.kube.apply(crds, "--server-side")
        self.kube.wait_crds()
        self.kube.apply([item for key, item in self.objects.items() if key[0] == "Namespace"])
        self.kube.apply(list(self.objects.values()), "--server-side")

    def words(self, name, container):
        """Its options; what is of the pod is replaced by what is here."""
        port, health = (self.ports.take() for _ in range(2))
        self.port[name] = port
        here = f"{LOOPBACK}:{port}"
        socket = BED.csi.socket
        csi = socket if name.rpartition("-")[2] in ("provisioner", "snapshotter", "resizer",
                                                    "metadata") else f"unix://{socket}"
        known = {"--csi-address": csi, "--tls-cert": self.pair[0], "--tls-key": self.pair[1],
                 "--http-endpoint": f"{LOOPBACK}:{health}", "--listen": here, "--port": port,
                 "--webhook": here, "--webhook-secret": self.secret, "--advertise": here,
                 "--session-address": here, "--session-ca": self.authority,
                 "--publish-ca": self.authority}
        made = []
        for arg in container["args"]:
            option, _, value = arg.partition("=")
            if option == "--publish-service":
                option, value = "--publish-url", f"https://{here}"
            made.append(f"{option}={known.get(option, value)}" if value else option)
        if name == "cairn-snapshot-metadata":
            made.append(f"--bind-address={LOOPBACK}")
        return made

    def start(self, name):
        account, container = self.containers[name]
        words = self.words(name, container)
        image = container["image"].rpartition("/")[2].partition(":")[0]
        program = BED.cairn if image == "cairn" else BED.programs[image]
        config = self.kube.kubeconfig_of_account("cairn", account)
        self.processes.start(name, [program, *words, f"--kubeconfig={config}"])
        if image == "cairn" and name != "cairn-discovery":
            self.processes.wait_ready(name, lambda: accepts(self.port[name]))


class EveryRight(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.kube, cls.processes = BED.kube, BED.processes
        cls.shipped = Shipped()
        cls.addClassCleanup(cls.shipped.ports.close)
        cls.shipped.apply()
        cls.make_node()
        BED.programs.update(cluster.peers(*CsiStack.PROGRAMS))
        BED.csi = cls.csi = CsiStack(BED, backend="copy", driver_args=[
            "--topology", "--sessions", "--differential-snapshots", "--snapshot-deltas"])
        cls.csi.start_driver()
        cls.csi.start_snapshot_controller()

    @classmethod
    def make_node(cls):
        """Where the volumes are; there is no kubelet."""
        cls.kube.apply([
            {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE, "labels": {
                f"topology.{DRIVER}/node": NODE}}},
            {"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": NODE},
             "spec": {"drivers": [{"name": DRIVER, "nodeID": NODE,
                                   "topologyKeys": [f"topology.{DRIVER}/node"]}]}}])

    # ---- objects ----

    def claim(self, name, size="16Mi", source=None, wait=True):
        """A claim that a scheduler has found a node for."""
        spec = {"accessModes": ["ReadWriteOnce"], "volumeMode": "Block",
                "storageClassName": "cairn", "resources": {"requests": {"storage": size}}}
        if source:
            spec["dataSource"] = source
        self.kube.apply({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "spec": spec,
                         "metadata": {"name": name, "annotations": {
                             "volume.kubernetes.io/selected-node": NODE}}})
        if wait:
            self.kube.wait(lambda made: made["status"]["phase"] == "Bound", "pvc", name)

    def resize(self, name, size):
        self.kube.kubectl("patch", "pvc", name, "-p", json.dumps(
            {"spec": {"resources": {"requests": {"storage": size}}}}))

    def events_of(self, name, reason):
        found = self.kube.get("events", "-n", "default")["items"]
        return [event for event in found if event["involvedObject"].get("name", "").startswith(name)
                and event["reason"] == reason]

    def wait_repeated(self, name, reason):
        """The event was counted up, which is a patch of it."""
        wait_until(lambda: any((event.get("count") or 0) > 1
                               for event in self.events_of(name, reason)), 120,
                   f"{reason} of {name} again")

    def status(self, plural, name, body, namespace=None, group=f"{GROUP}/v1alpha2"):
        """Somebody else writes the status: what was done is done again."""
        where = f"namespaces/{namespace}/" if namespace else ""
        self.kube.request("PATCH", f"/apis/{group}/{where}{plural}/{name}/status",
                          {"status": body}, content_type="application/merge-patch+json")

    def forget_the_error(self):
        """The snapshotter tells of an error that it finds in the status only once."""
        content = wait_until(lambda: self.events_of("snapcontent-", FAILED_AGAIN), 120,
                             "a snapshot that fails")[0]["involvedObject"]["name"]
        self.status("volumesnapshotcontents", content, {"error": None}, group=SNAPSHOTS)

    # ---- what is done with it ----

    def use_volumes(self):
        self.claim("data")
        self.csi.snapshot("before", "data")
        with open(self.csi.volume_file("data"), "r+b") as file:
            file.write(b"x" * BLOCK)
        self.csi.snapshot("after", "data")
        self.claim("restored", source={"apiGroup": "snapshot.storage.k8s.io",
                                       "kind": "VolumeSnapshot", "name": "after"})
        self.claim("cloned", source={"kind": "PersistentVolumeClaim", "name": "data"})
        self.resize("restored", "32Mi")
        self.kube.wait(lambda made: made["status"]["capacity"]["storage"] == "32Mi", "pvc",
                       "restored")
        self.snapshot_a_group()

    def group(self, name, label):
        self.kube.apply({"apiVersion": "groupsnapshot.storage.k8s.io/v1",
                         "kind": "VolumeGroupSnapshot", "metadata": {"name": name},
                         "spec": {"volumeGroupSnapshotClassName": "cairn", "source": {
                             "selector": {"matchLabels": {"group": label}}}}})

    def snapshot_a_group(self):
        self.kube.kubectl("label", "pvc", "data", "restored", "group=one")
        self.group("group", "one")
        self.kube.wait(lambda made: made.get("status", {}).get("readyToUse"),
                       "volumegroupsnapshot", "group")

    def fail_repeatedly(self):
        """Events that are told again."""
        self.claim("large", TOO_LARGE, wait=False)
        self.resize("cloned", TOO_LARGE)
        # A volume that the driver does not know.
        self.kube.apply([
            {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": GHOST},
             "spec": {"capacity": {"storage": "1Mi"}, "accessModes": ["ReadWriteOnce"],
                      "volumeMode": "Block", "storageClassName": "cairn",
                      "persistentVolumeReclaimPolicy": "Retain",
                      "csi": {"driver": DRIVER, "volumeHandle": "vol-0123456789abcdef"},
                      "claimRef": {"namespace": "default", "name": GHOST}}},
            {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": GHOST},
             "spec": {"accessModes": ["ReadWriteOnce"], "volumeMode": "Block",
                      "storageClassName": "cairn", "volumeName": GHOST,
                      "resources": {"requests": {"storage": "1Mi"}}}}])
        self.csi.snapshot(GHOST, GHOST, wait=False)
        self.kube.kubectl("label", "pvc", GHOST, "group=two")
        self.group("failing", "two")
        # The snapshotter tries again at once, for ever, and has no time for anything else.
        self.kube.wait(lambda found: any(
            item["spec"]["volumeGroupSnapshotRef"]["name"] == "failing"
            and item.get("status", {}).get("error") for item in found["items"]),
            "volumegroupsnapshotcontents")
        self.kube.delete("volumegroupsnapshot", "failing", wait=False)

    def remove_volumes(self):
        self.kube.delete("volumegroupsnapshot", "group")
        self.kube.delete("volumesnapshot", "imported", "before", "after")
        self.kube.delete("pvc", "data", "restored", "cloned", "large")
        self.kube.wait(lambda found: [item["metadata"]["name"] for item in found["items"]]
                       == [GHOST], "pv")
        self.kube.wait(lambda found: {item["spec"]["volumeSnapshotRef"]["name"]
                                      for item in found["items"]} <= {GHOST, "imported"},
                       "volumesnapshotcontents")

    def import_snapshot(self):
        """A snapshot "imported" without a class: the driver's default one counts."""
        self.kube.kubectl("annotate", "volumesnapshotclass", "cairn",
                          "snapshot.storage.kubernetes.io/is-default-class=true")
        self.kube.apply([
            {"apiVersion": SNAPSHOTS, "kind": "VolumeSnapshotContent",
             "metadata": {"name": "imported"}, "spec": {
                 "deletionPolicy": "Retain", "driver": DRIVER,
                 "source": {"snapshotHandle": self.csi.snapshot_id("after")},
                 "volumeSnapshotRef": {"namespace": "default", "name": "imported"}}},
            {"apiVersion": SNAPSHOTS, "kind": "VolumeSnapshot", "metadata": {"name": "imported"},
             "spec": {"source": {"volumeSnapshotContentName": "imported"}}}])
        self.kube.wait(lambda made: made.get("status", {}).get("readyToUse"), "volumesnapshot",
                       "imported")

    def list_blocks(self):
        """A backup application of the shipped flavour."""
        port = self.shipped.port["cairn-snapshot-metadata"]
        self.kube.apply({
            "apiVersion": f"{GROUP}/v1beta1", "kind": "SnapshotMetadataService",
            "metadata": {"name": DRIVER}, "spec": {
                "address": f"localhost:{port}", "audience": DRIVER, "caCert": base64.b64encode(
                    self.shipped.authority.read_bytes()).decode()}})
        config = self.csi.make_client("default", "lister")
        self.import_snapshot()
        for words in (["-s", "after"], ["-s", "after", "-p", "before"], ["-s", "imported"]):
            done = subprocess.run([BED.cairn, "list", "--kubeconfig", config, "-n", "default",
                                   *words], capture_output=True, text=True, check=False,
                                  timeout=120)
            self.assertEqual(done.returncode, 0, done.stderr)
        # An application may look for services by itself.
        token = self.kube.token("default", "lister")
        path = f"/apis/{GROUP}/v1beta1/snapshotmetadataservices"
        self.kube.request("GET", path, token=token)
        self.kube.ask("GET", f"{path}?watch=1&timeoutSeconds=1", token=token)

    def as_user(self, name, role, plural, body, version="v1alpha2"):
        """All that the role of a user allows, done by somebody who has it."""
        self.kube.service_account("default", name)
        self.kube.allow(f"rbac-{name}", f"default:{name}", role=role, namespace="default")
        self.kube.allow(f"rbac-{name}-reads", f"default:{name}", namespace="default",
                        role="cairn-snapshot-metadata-reader")
        token = self.kube.token("default", name)
        path = f"/apis/{GROUP}/{version}/namespaces/default/{plural}"
        body = {"apiVersion": f"{GROUP}/{version}", "metadata": {"name": name}, **body}
        wait_until(lambda: self.kube.ask("GET", path, token=token)[0] == 200, 120, "the role counts")
        self.kube.request("POST", path, body, token=token)
        self.kube.request("GET", f"{path}/{name}", token=token)
        self.kube.ask("GET", f"{path}?watch=1&timeoutSeconds=1", token=token)
        return lambda: self.kube.request("DELETE", f"{path}/{name}", token=token)

    def use_sessions(self):
        end = self.as_user("session", "cairn-session-client", "snapshotsessionrequests", {
            "kind": "SnapshotSessionRequest", "spec": {"snapshots": ["before", "after"]}})
        made = self.kube.wait(lambda found: found.get("status", {}).get("sessionState") == "Ready",
                              "snapshotsessionrequest", "session")
        self.assertTrue(made["status"]["sessionToken"])
        self.review()
        end()
        # One that ends by itself is removed by the manager.
        self.kube.apply({"apiVersion": f"{GROUP}/v1alpha2", "kind": "SnapshotSessionRequest",
                         "metadata": {"name": "old"}, "spec": {"snapshots": ["after"]}})
        self.kube.wait(lambda found: found.get("status", {}).get("sessionState") == "Ready",
                       "snapshotsessionrequest", "old")
        self.status("snapshotsessionrequests", "old", {"expiryTime": "2020-01-01T00:00:00Z"},
                    "default")
        self.kube.wait_gone("snapshotsessionrequest", "old")
        self.kube.wait(lambda found: not found["items"], "-n", "cairn", "snapshotsessiondata")
        self.leave_unclaimed()

    def leave_unclaimed(self):
        """The manager answers a DifferentialSnapshot that no controller takes."""
        self.processes.stop("cairn-diffsnap")
        self.kube.apply({"apiVersion": f"{GROUP}/v1alpha2", "kind": "DifferentialSnapshot",
                         "metadata": {"name": "unclaimed"}, "spec": {
                             "baseVolumeSnapshotName": "before",
                             "targetVolumeSnapshotName": "after"}})
        self.kube.wait(lambda found: found.get("status", {}).get("state") == "Failure",
                       "differentialsnapshot", "unclaimed")
        self.kube.delete("differentialsnapshot", "unclaimed")

    def review(self):
        """An API server asks the webhook."""
        stack = Stack(BED)
        port = self.shipped.port["cairn-manager"]
        code, data = stack.plain(port, "POST", f"/validate-snapshotsessionrequest/{SECRET}", {
            "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
                "uid": "u", "operation": "CREATE", "namespace": "default",
                "resource": {"group": GROUP, "version": "v1alpha2",
                             "resource": "snapshotsessionrequests"},
                "userInfo": {"username": f"{ACCOUNT}default:session"},
                "object": {"spec": {"snapshots": ["after"]}}}},
            {"Content-Type": "application/json"}, host=LOOPBACK)
        self.assertEqual(code, 200, data)

    def use_differential_snapshots(self):
        end = self.as_user("diff", "cairn-diffsnap-reader", "differentialsnapshots", {
            "kind": "DifferentialSnapshot", "spec": {
                "baseVolumeSnapshotName": "before", "targetVolumeSnapshotName": "after"}})

        def succeeded(found):
            return found.get("status", {}).get("state") == "Success"
        self.kube.wait(succeeded, "differentialsnapshot", "diff")
        token = self.kube.token("default", "diff", "cairn-diffsnap")
        code, data = Stack(BED).plain(self.shipped.port["cairn-diffsnap"], "GET", "/default/diff",
                                      headers={"Authorization": f"Bearer {token}"})
        self.assertEqual(code, 200, data)
        self.status("differentialsnapshots", "diff", {"state": "Failure"}, "default")
        self.kube.wait(succeeded, "differentialsnapshot", "diff")
        wait_until(lambda: any(event.get("series") for event in self.events_of("diff", "Success")),
                   180, "how often it happened is written")
        end()

    def use_deltas(self):
        stack = Stack(BED)
        stack.port = self.shipped.port["cairn-aggapi"]
        stack.register()
        stack.creator("deltas")
        token = self.kube.token("default", "deltas")
        path = f"/apis/{GROUP}/v1alpha1/namespaces/default/volumesnapshotdeltas"
        body = delta(base="before", limit=1)
        wait_until(lambda: self.kube.ask("POST", path, body, token=token)[0] == 201, 180, "a delta")
        made = self.kube.request("POST", path, body, token=token)["status"]["changedBlockDeltas"]
        fields = {"Authorization": "Bearer " + self.kube.token("default", "deltas",
                                                               f"cbt-http.{DRIVER}")}
        code, data = stack.plain(self.shipped.port["cairn-cbt-http"], "POST", "/v1/block",
                                 {"token": made[0]["dataToken"]["token"]}, fields)
        self.assertEqual((code, data), (200, b"x" * BLOCK))
        # Whoever comes directly shows a token.
        stack.plain(stack.port, "GET", "/apis", headers={"Authorization": f"Bearer {token}"})

    def use_passed_kinds(self):
        """Each verb on each CRD of the group at v1alpha1, through the aggregated API server."""
        expires = {"expiryTime": "2100-01-01T00:00:00Z", "snapshotNamespace": "default",
                   "snapshots": ["before"]}
        for plural, kind, namespace, spec in (
                ("differentialsnapshots", "DifferentialSnapshot", "default",
                 {"targetVolumeSnapshotName": "after"}),
                ("driverdiscoveries", "DriverDiscovery", None, {
                    "driverName": "x.csi.dev", "clientConfig": {"url": "https://127.0.0.1:1"}}),
                ("snapshotmetadataservices", "SnapshotMetadataService", None, {
                    "address": "a:1", "audience": "a", "caCert": "YQ=="}),
                ("snapshotservicesconfigurations", "SnapshotServicesConfiguration", None, {
                    "address": "a:1", "caCert": "YQ=="}),
                ("snapshotsessiondata", "SnapshotSessionData", "cairn", expires),
                ("snapshotsessionrequests", "SnapshotSessionRequest", "default",
                 {"snapshots": ["before"]})):
            with self.subTest(plural):
                self.pass_each_verb(plural, kind, namespace, spec)

    def pass_each_verb(self, plural, kind, namespace, spec):
        where = f"namespaces/{namespace}/" if namespace else ""
        path = f"/apis/{GROUP}/v1alpha1/{where}{plural}"
        labels = {"labels": {"passed": "yes"}}
        one = {"apiVersion": f"{GROUP}/v1alpha1", "kind": kind,
               "metadata": {"name": "passed", **labels}, "spec": spec}
        merge = {"content_type": "application/merge-patch+json"}
        ask = self.kube.request
        ask("POST", path, one)
        found = ask("GET", f"{path}/passed")
        self.assertEqual(found["apiVersion"], f"{GROUP}/v1alpha1")
        ask("PATCH", f"{path}/passed", {"metadata": {"labels": {"more": "1"}}}, **merge)
        found = ask("GET", f"{path}/passed")
        found["metadata"].pop("resourceVersion")
        ask("PUT", f"{path}/passed", {**found, "metadata": {
            **found["metadata"], "resourceVersion": ask(
                "GET", f"{path}/passed")["metadata"]["resourceVersion"]}})
        self.assertEqual([item["apiVersion"] for item in ask(
            "GET", f"{path}?labelSelector=passed%3Dyes")["items"]], [f"{GROUP}/v1alpha1"])
        self.kube.ask("GET", f"{path}?watch=1&timeoutSeconds=1")
        if plural in ("differentialsnapshots", "driverdiscoveries", "snapshotsessionrequests"):
            found = ask("GET", f"{path}/passed/status")
            self.kube.ask("PUT", f"{path}/passed/status", found)
            self.kube.ask("PATCH", f"{path}/passed/status", {}, **merge)
        ask("DELETE", f"{path}/passed")
        ask("DELETE", f"{path}?labelSelector=passed%3Dyes")

    def discover_again(self, *names):
        """DriverDiscovery found reachable twice, by each who looks at it."""
        for name in names:
            self.shipped.start(name)

            def reachable(found):
                return found.get("status", {}).get("reachable")
            self.kube.wait(reachable, "driverdiscovery", DRIVER)
            for turn in range(2):
                self.status("driverdiscoveries", DRIVER, {"reachable": False}, None)
                self.look_again(turn)
                self.kube.wait(reachable, "driverdiscovery", DRIVER)
            if name == "cairn-manager":
                self.use_sessions()
            self.processes.stop(name)

    def look_again(self, turn):
        """A new specification, which says the same: it is looked at at once."""
        trusted = self.shipped.authority.read_bytes() + b"\n" * (turn + 1)
        self.kube.kubectl("patch", "driverdiscovery", DRIVER, "--type=merge", "-p", json.dumps(
            {"spec": {"clientConfig": {"caBundle": base64.b64encode(trusted).decode()}}}))

    def test_everything_is_allowed_and_nothing_in_vain(self):
        shipped = self.shipped
        for name in ("provisioner", "snapshotter", "resizer", "snapshot-metadata", "cbt-http",
                     "aggapi", "diffsnap"):
            shipped.start(f"cairn-{name}")
        self.use_volumes()
        self.fail_repeatedly()
        self.list_blocks()
        self.use_deltas()
        self.use_passed_kinds()
        self.use_differential_snapshots()
        self.discover_again("cairn-discovery", "cairn-manager")
        self.forget_the_error()
        for name, reason in (("large", "ProvisioningFailed"), ("cloned", "VolumeResizeFailed"),
                             ("snapcontent-", FAILED_AGAIN)):
            self.wait_repeated(name, reason)
        self.remove_volumes()
        self.figures()
        self.check()

    def check(self):
        """The last requests may still be under way."""
        self.maxDiff = None

        def nothing_is_in_vain():
            return not Rights(self.kube, AUDIT).in_vain(ROLES)
        with contextlib.suppress(Failed):
            wait_until(nothing_is_in_vain, 120, "every right is used")
        rights = Rights(self.kube, AUDIT)
        self.assertEqual(rights.refused(f"{ACCOUNT}cairn:"), {})
        self.assertEqual(rights.in_vain(ROLES), {})
        for name in self.processes.names():
            if name.startswith("cairn-") or name == "driver":
                self.processes.stop(name)
        counted, left = rights.removed_one_by_one(ROLES)
        print(f"{counted} rights of {len(ROLES)} roles taken away one by one")
        self.assertEqual(left, [])

    def figures(self):
        """Memory and processor time, for the limits in deploy/."""
        for name in self.processes.names():
            pid = self.processes.pid(name)
            if not pid or not (name.startswith("cairn-") or name == "driver"):
                continue
            status = pathlib.Path(f"/proc/{pid}/status").read_text()
            ticks = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
            print(f"{name}: {int(status.partition('VmHWM:')[2].split()[0]) >> 10} MiB at most, "
                  f"{sum(map(int, ticks)) / os.sysconf('SC_CLK_TCK'):.2f} s of processor time")


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    unittest.main()
