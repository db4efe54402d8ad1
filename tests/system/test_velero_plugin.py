# SPDX-License-Identifier: Apache-2.0
"""`cairn-velero-plugin` as Velero starts and calls it, with an API server that the test plays."""
import json
import os
import pathlib
import subprocess
import tempfile
import threading
import unittest

from csidriver import Code, grpc, load
from rolesbed import SECONDS, RolesTest

PLUGIN = os.environ["CAIRN_VELERO_PLUGIN"]
SHARED, ACTIONS, HOST = load("velero_shared", "velero_actions", "go_plugin")
PVC, VS, VSC, PV = (f"cairn.csi.dev/csi-{name}" for name in ("pvc", "vs", "vsc", "pv"))
SNAPSHOTS = "/apis/snapshot.storage.k8s.io/v1"
DRIVER = "d.io"
BACKUP = {"metadata": {"name": "b1", "namespace": "velero", "uid": "backup-uid"}, "spec": {}}


def method(module, service, name):
    found = module.DESCRIPTOR.services_by_name[service]
    call = found.methods_by_name[name]
    # pylint: disable=protected-access
    return (f"/{found.full_name}/{name}", call.input_type._concrete_class,
            call.output_type._concrete_class)


def claim(name="data", **spec):
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": name, "namespace": "shop", "generation": 9007199254740993},
            "spec": {"volumeName": "pv", "resources": {"requests": {"storage": "1Mi"}}, **spec},
            "status": {"phase": "Bound"}}


class Plugin:
    """A plugin process, and calls to it."""

    def __init__(self, *words, environment=None, scratch=None):
        self.scratch = scratch
        self.process = subprocess.Popen(
            [PLUGIN, *map(str, words)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True,
            env={**os.environ, "VELERO_PLUGIN": "hello", "PLUGIN_PROTOCOL_VERSIONS": "2",
                 "TMPDIR": str(scratch), **(environment or {})})
        self.line = self.process.stdout.readline()
        self.channel = None
        if self.line:
            fields = self.line.split("|")
            self.socket = fields[3]
            self.channel = grpc.insecure_channel(f"unix://{self.socket}", options=[
                ("grpc.enable_retries", 0), ("grpc.max_receive_message_length", -1),
                ("grpc.max_send_message_length", -1)])
            path, request, response = method(HOST, "GRPCStdio", "StreamStdio")
            self.stdio = self.channel.unary_stream(path, request.SerializeToString,
                                                   response.FromString)(request())

    def call(self, module, service, name, /, **fields):
        path, request, response = method(module, service, name)
        return self.channel.unary_unary(path, request.SerializeToString, response.FromString)(
            request(**fields), timeout=SECONDS, wait_for_ready=True)

    def back_up(self, plugin, item, backup=None):
        return self.call(ACTIONS, "BackupItemAction", "Execute", plugin=plugin,
                         item=item if isinstance(item, bytes) else json.dumps(item).encode(),
                         backup=json.dumps(backup or BACKUP).encode())

    def end(self):
        """(exit status, lines of the log) after Velero's request to end."""
        self.call(HOST, "GRPCController", "Shutdown")
        self.channel.close()
        return self.ended()

    def ended(self):
        out, log = self.process.communicate(timeout=SECONDS)
        assert out == "", out
        return self.process.returncode, log.splitlines()


class VeleroPluginTest(RolesTest):
    def start_plugin(self, *words, **how):
        plugin = Plugin("--kubeconfig", self.config, "--log-level=debug", *words,
                        scratch=pathlib.Path(tempfile.mkdtemp(dir=self.directory)), **how)
        for step in (plugin.process.stderr.close, plugin.process.stdout.close,
                     plugin.process.wait, plugin.process.kill):  # the last one first
            self.addCleanup(step)
        return plugin

    def prepare_kube(self):
        self.handle, self.patched = "handle-1", []
        store = self.kube.store

        def with_controller(where, item, made=False):
            result = store(where, item, made)
            if made and where["plural"] == "volumesnapshots" and self.handle:
                threading.Thread(target=self.bind, args=(result,), daemon=True).start()
            if where["plural"] == "volumesnapshotcontents" and not made:
                self.patched.append(item["spec"]["deletionPolicy"])
            return result
        self.kube.store = with_controller
        self.kube.put("/api/v1/persistentvolumes", {
            "metadata": {"name": "pv"}, "spec": {"csi": {"driver": DRIVER, "volumeHandle": "v"}}})
        self.kube.put("/api/v1/persistentvolumes", {
            "metadata": {"name": "local"}, "spec": {"hostPath": {"path": "/x"}}})
        self.kube.put(f"{SNAPSHOTS}/volumesnapshotclasses", {
            "metadata": {"name": "fast"}, "driver": DRIVER, "deletionPolicy": "Delete"})

    def bind(self, made):
        """As the controllers do; readyToUse stays false."""
        name, ns = made["metadata"]["name"], made["metadata"]["namespace"]
        self.kube.put(f"{SNAPSHOTS}/volumesnapshotcontents", {
            "metadata": {"name": f"content-of-{name}"},
            "spec": {"driver": DRIVER, "deletionPolicy": "Delete", "source": {"volumeHandle": "v"},
                     "volumeSnapshotRef": {"namespace": ns, "name": name}},
            "status": {"snapshotHandle": self.handle, "restoreSize": 3 << 20,
                       "readyToUse": False}})
        where = {"group": "snapshot.storage.k8s.io", "plural": "volumesnapshots", "ns": ns,
                 "name": name, "sub": None}
        self.kube.change(where, {"status": {
            "boundVolumeSnapshotContentName": f"content-of-{name}",
            "creationTime": "2026-11-17T00:00:00Z", "readyToUse": False}}, True, None)

    def snapshots(self):
        return self.kube.list(f"{SNAPSHOTS}/volumesnapshots")

    def assert_refused(self, code, text, call, *words, **fields):
        with self.assertRaises(grpc.RpcError) as caught:
            call(*words, **fields)
        self.assertEqual(caught.exception.code(), code, caught.exception.details())
        self.assertIn(text, caught.exception.details())

    def test_a_process_lists_its_actions_and_ends_when_told(self):
        plugin = self.start_plugin("--features", "EnableCSI", "--unknown=1")
        self.assertRegex(plugin.line, r"^1\|2\|unix\|/[^|]+\|grpc\|\n$")
        self.assertEqual(os.stat(plugin.socket).st_mode & 0o777, 0o600)
        found = plugin.call(SHARED, "PluginLister", "ListPlugins").plugins
        self.assertEqual({entry.command for entry in found}, {PLUGIN})
        self.assertEqual(sorted((entry.kind, entry.name) for entry in found), [
            ("BackupItemActionV2", PVC), ("BackupItemActionV2", VS), ("BackupItemActionV2", VSC),
            ("DeleteItemAction", VSC), ("RestoreItemActionV2", PV), ("RestoreItemActionV2", PVC),
            ("RestoreItemActionV2", VS), ("RestoreItemActionV2", VSC)])
        selector = plugin.call(ACTIONS, "RestoreItemAction", "AppliesTo", plugin=PVC)
        self.assertEqual(selector.resource_selector.selector, "velero.io/volume-snapshot-name")
        self.assertEqual(plugin.end()[0], 0)
        self.assertEqual(os.listdir(plugin.scratch), [])

    def test_a_process_ends_when_velero_has_gone(self):
        plugin = self.start_plugin()
        plugin.call(SHARED, "PluginLister", "ListPlugins")
        plugin.channel.close()
        self.assertEqual(plugin.ended()[0], 0)
        self.assertEqual(os.listdir(plugin.scratch), [])

    def test_started_by_hand_it_says_what_it_is(self):
        plugin = self.start_plugin(environment={"VELERO_PLUGIN": ""})
        status, log = plugin.ended()
        self.assertEqual((status, plugin.line), (1, ""))
        self.assertIn("this is a plugin of Velero", log[0])

    def test_a_claim_gets_a_snapshot(self):
        plugin = self.start_plugin()
        answer = plugin.back_up(PVC, claim())
        (made,) = self.snapshots()
        name, content = made["metadata"]["name"], made["status"]["boundVolumeSnapshotContentName"]
        self.assertEqual(made["metadata"]["labels"], {"velero.io/backup-name": "b1"})
        self.assertNotIn("ownerReferences", made["metadata"])
        self.assertEqual(made["spec"], {"source": {"persistentVolumeClaimName": "data"},
                                        "volumeSnapshotClassName": "fast"})
        item = json.loads(answer.item)
        self.assertEqual(item["metadata"]["labels"], {"velero.io/backup-name": "b1",
                                                      "velero.io/volume-snapshot-name": name})
        self.assertEqual(item["metadata"]["generation"], 9007199254740993)
        self.assertEqual(item["spec"]["resources"]["requests"]["storage"], str(3 << 20))
        self.assertEqual([(entry.resource, entry.namespace, entry.name)
                          for entry in answer.additional_items],
                         [("volumesnapshots", "shop", name), ("volumesnapshotcontents", "", content),
                          ("volumesnapshotclasses", "", "fast")])
        kept = self.kube.get(f"{SNAPSHOTS}/volumesnapshotcontents/{content}")
        self.assertEqual(kept["metadata"]["labels"], {"velero.io/backup-name": "b1"})
        self.assertEqual(kept["spec"]["deletionPolicy"], "Retain")
        status, log = plugin.end()
        self.assertEqual(status, 0)
        for line in map(json.loads, log):
            self.assertIsInstance(line["@message"], str)
            self.assertIn(line["@level"], ("info", "debug"))
        self.assertIn("snapshot taken", [json.loads(line)["@message"] for line in log])

    def test_no_snapshot_where_none_is_wanted(self):
        self.kube.put("/api/v1/namespaces/velero/configmaps", {
            "metadata": {"name": "skip"}, "data": {"p": json.dumps({"volumePolicies": [
                {"conditions": {"csi": {}}, "action": {"type": "skip"}}]})}})
        self.kube.put("/api/v1/namespaces/shop/pods", {
            "metadata": {"name": "p", "annotations": {"backup.velero.io/backup-volumes": "a,v"}},
            "spec": {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "copied"}}]}})
        policy = {"resourcePolicy": {"kind": "configmap", "name": "skip"}}
        plugin, with_csi = self.start_plugin(), self.start_plugin("--features=EnableCSI")
        for process, item, spec, status in (
                (plugin, claim(volumeName="local"), {}, {}),
                (plugin, claim(), {"snapshotVolumes": False}, {}),
                (plugin, claim(), policy, {}),
                (plugin, claim("copied"), {}, {}),
                (plugin, claim(), {}, {"phase": "Finalizing"}),
                (plugin, {**claim(), "status": {"phase": "Pending"}}, {}, {}),
                (with_csi, claim(), {}, {}),
                (with_csi, claim(), policy, {})):
            # Exactly these bytes come back.
            text = json.dumps(item, indent=3).encode()
            answer = process.back_up(PVC, text, {**BACKUP, "spec": spec, "status": status})
            self.assertEqual((answer.item, list(answer.additional_items)), (text, []))
        self.assertEqual(self.snapshots(), [])

    def test_with_velero_s_own_actions_a_custom_policy_is_for_us(self):
        self.kube.put("/api/v1/namespaces/velero/configmaps", {
            "metadata": {"name": "ours"}, "data": {"p": json.dumps({"volumePolicies": [
                {"conditions": {"csi": {"driver": DRIVER}}, "action": {"type": "custom"}}]})}})
        plugin = self.start_plugin("--features=EnableCSI")
        backup = {**BACKUP, "spec": {"resourcePolicy": {"kind": "configmap", "name": "ours"}}}
        taken = claim()
        taken["metadata"]["annotations"] = {"velero.io/volume-snapshot-name": "theirs"}
        self.assertEqual(list(plugin.back_up(PVC, taken, backup).additional_items), [])
        self.assertEqual(len(plugin.back_up(PVC, claim(), backup).additional_items), 3)
        self.assertEqual(len(self.snapshots()), 1)

    def test_bad_input_is_refused_and_the_next_call_works(self):
        plugin = self.start_plugin()
        huge = claim()
        huge["metadata"]["annotations"] = {"x": "y" * (20 << 20)}
        moved = {**BACKUP, "spec": {"snapshotMoveData": True}}
        missing = {**BACKUP, "spec": {"resourcePolicy": {"kind": "configmap", "name": "none"}}}
        deep = b'{"metadata":{"name":"x"},"a":' + b"[" * 100000 + b"]" * 100000 + b"}"
        for code, text, name, item, backup in (
                (Code.NOT_FOUND, "is not in this plugin", "velero.io/x", claim(), BACKUP),
                (Code.NOT_FOUND, "is not in this plugin", "", claim(), BACKUP),
                (Code.INVALID_ARGUMENT, "the item", PVC, b"not JSON", BACKUP),
                (Code.INVALID_ARGUMENT, "the item", PVC, b"", BACKUP),
                (Code.INVALID_ARGUMENT, "the item", PVC, b"[1]", BACKUP),
                (Code.INVALID_ARGUMENT, "the item", PVC, b'{"metadata":5}', BACKUP),
                (Code.INVALID_ARGUMENT, "the item", PVC, deep, BACKUP),
                (Code.INVALID_ARGUMENT, "the Backup", PVC, claim(), [1]),
                (Code.RESOURCE_EXHAUSTED, "", PVC, huge, BACKUP),
                (Code.NOT_FOUND, "volume 'gone'", PVC, claim(volumeName="gone"), BACKUP),
                (Code.NOT_FOUND, "volume policies", PVC, claim(), missing),
                (Code.UNIMPLEMENTED, "snapshotMoveData", PVC, claim(), moved)):
            self.assert_refused(code, text, plugin.back_up, name, item, backup)
        self.assertEqual(self.snapshots(), [])
        self.assertEqual(len(plugin.back_up(PVC, claim()).additional_items), 3)

    def test_a_snapshot_that_is_not_taken_in_time_is_removed(self):
        self.handle = None
        plugin = self.start_plugin()
        backup = {**BACKUP, "spec": {"csiSnapshotTimeout": "200ms"}}
        self.assert_refused(Code.DEADLINE_EXCEEDED, "VolumeSnapshot shop/velero-data-",
                            plugin.back_up, PVC, claim(), backup)
        self.assertEqual(self.snapshots(), [])

    def test_deletion_sets_the_policy_first_and_leaves_nothing(self):
        plugin = self.start_plugin()
        plugin.back_up(PVC, claim())
        (content,) = self.kube.list(f"{SNAPSHOTS}/volumesnapshotcontents")
        other = json.loads(json.dumps(content))
        other["metadata"]["labels"] = {"velero.io/backup-name": "b0"}
        for item in (other, content):
            plugin.call(SHARED, "DeleteItemAction", "Execute", plugin=VSC,
                        item=json.dumps(item).encode(), backup=json.dumps(BACKUP).encode())
            left = [] if item is content else [content["metadata"]["name"]]
            self.assertEqual([entry["metadata"]["name"] for entry in
                              self.kube.list(f"{SNAPSHOTS}/volumesnapshotcontents")], left)
        self.assertEqual(self.patched, ["Retain", "Delete"])
        self.assertEqual(self.snapshots(), [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
