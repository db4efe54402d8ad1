# SPDX-License-Identifier: Apache-2.0
"""`cairn-velero-plugin` as Velero starts and calls it, with an API server that the test plays."""
import concurrent.futures
import json
import os
import subprocess
import unittest

import veleroplugin
from rolesbed import SECONDS, wait_until
from veleroplugin import (ACTIONS, BACKUP, DRIVER, PLUGIN, PV, PVC, SHARED, SNAPSHOTS, VS, VSC, Code,
                          claim)


class VeleroPluginTest(veleroplugin.PluginTest):
    def test_a_process_lists_its_actions_and_ends_when_told(self):
        plugin = self.start_plugin("--features", "EnableCSI", "--unknown=1")
        self.assertRegex(plugin.line, r"^1\|2\|unix\|/[^|]+\|grpc\|\n$")
        self.assertEqual(os.stat(plugin.socket).st_mode & 0o777, 0o600)
        found = plugin.call(SHARED, "PluginLister", "ListPlugins").plugins
        self.assertEqual({entry.command for entry in found}, {PLUGIN})
        self.assertEqual(sorted((entry.kind, entry.name) for entry in found), [
            ("BackupItemActionV2", PVC), ("BackupItemActionV2", VS), ("BackupItemActionV2", VSC),
            ("DeleteItemAction", VSC), ("DeleteItemAction", "cairn.csi.dev/dataupload"),
            ("ItemBlockAction", PVC),
            ("RestoreItemActionV2", PV), ("RestoreItemActionV2", PVC), ("RestoreItemActionV2", VS),
            ("RestoreItemActionV2", VSC),
            ("VolumeSnapshotter", "cairn.csi.dev/snapshotter")])
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
        done = subprocess.run([PLUGIN], capture_output=True, text=True, check=False, timeout=60,
                              env={"PATH": os.environ["PATH"]})
        self.assertEqual((done.returncode, done.stdout), (9, ""))
        self.assertIn("this is a plugin of Velero", done.stderr)

    def test_a_claim_gets_a_snapshot(self):
        plugin = self.start_plugin()
        answer = plugin.back_up(PVC, claim())
        (made,) = self.snapshots()
        name, content = made["metadata"]["name"], made["status"]["boundVolumeSnapshotContentName"]
        self.assertEqual(made["metadata"]["labels"], {
            "velero.io/backup-name": "b1", "velero.io/pv-name": "pv",
            "cairn.csi.dev/velero": "item-action"})
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
        self.assertEqual(kept["metadata"]["labels"], {"velero.io/backup-name": "b1",
                                                      "cairn.csi.dev/velero": "item-action"})
        self.assertEqual(kept["spec"]["deletionPolicy"], "Retain")
        for one in (made, kept):
            self.assertEqual(one["metadata"]["annotations"]["cairn.csi.dev/velero-namespace"],
                             "velero")
        status, log = plugin.end()
        self.assertEqual(status, 0)
        for line in map(json.loads, log):
            self.assertIsInstance(line["@message"], str)
            self.assertIn(line["@level"], ("info", "debug"))
        self.assertIn("snapshot taken", [json.loads(line)["@message"] for line in log])

    def test_snapshots_are_begun_in_parallel(self):
        """As many as Velero asks for at a time: none waits for the snapshot of another claim."""
        names = [f"data-{number}" for number in range(40)]
        self.handle = None  # no snapshot is bound before all of them exist
        plugin = self.start_plugin()
        with concurrent.futures.ThreadPoolExecutor(len(names)) as pool:
            done = [pool.submit(plugin.back_up, PVC, claim(name)) for name in names]
            wait_until(lambda: len(self.snapshots()) == len(names), SECONDS, "all are begun")
            self.handle = "handle-1"
            for made in self.snapshots():
                self.bind(made)
            for one in done:
                self.assertEqual(len(one.result(SECONDS).additional_items), 3)

    def test_the_content_of_another_snapshot_is_not_taken(self):
        """It would be deleted with this backup."""
        self.bound_to, self.policy = "another", "Retain"
        self.assert_refused(Code.FAILED_PRECONDITION, "its content is of another one",
                            self.start_plugin().back_up, PVC, claim())
        (content,) = self.kube.list(f"{SNAPSHOTS}/volumesnapshotcontents")
        self.assertNotIn("labels", content["metadata"])
        self.assertEqual(content["spec"]["deletionPolicy"], "Retain")
        self.assertEqual(self.snapshots(), [])

    def test_no_snapshot_where_none_is_wanted(self):
        self.kube.put("/api/v1/namespaces/velero/configmaps", {
            "metadata": {"name": "skip"}, "data": {"p": json.dumps({"volumePolicies": [
                {"conditions": {"csi": {}}, "action": {"type": "skip"}}]})}})
        self.kube.put("/api/v1/namespaces/shop/pods", {
            "metadata": {"name": "p", "annotations": {"backup.velero.io/backup-volumes": "a,v"}},
            "spec": {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "copied"}}]}})
        policy = {"resourcePolicy": {"kind": "configmap", "name": "skip"}}
        # The annotation says nothing of CSI; the volume does.
        local = claim(volumeName="local")
        local["metadata"]["annotations"] = {"volume.beta.kubernetes.io/storage-provisioner": DRIVER}
        plugin, with_csi = self.start_plugin(), self.start_plugin("--features=EnableCSI")
        for process, item, spec, status in (
                (plugin, local, {}, {}),
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

    def test_a_restored_snapshot_in_the_backup_s_namespace_is_owned_by_the_backup(self):
        made = self.kube.put("/apis/velero.io/v1/namespaces/velero/backups", {
            "metadata": {"name": "b1", "namespace": "velero"}, "spec": {}})
        plugin = self.start_plugin()
        for ns, owners in (("velero", [{"apiVersion": "velero.io/v1", "kind": "Backup", "name": "b1",
                                        "uid": made["metadata"]["uid"]}]), ("shop", None)):
            item = {"apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshot",
                    "metadata": {"name": "v", "namespace": ns, "uid": "old", "labels": {
                        "velero.io/backup-name": "b1"}, "ownerReferences": [{"uid": "older"}]},
                    "spec": {"source": {"persistentVolumeClaimName": "data"}},
                    "status": {"boundVolumeSnapshotContentName": "c"}}
            text = json.dumps(item).encode()
            answer = plugin.call(
                ACTIONS, "RestoreItemAction", "Execute", plugin=VS, item=text,
                item_from_backup=text, restore=json.dumps({
                    "metadata": {"name": "r", "namespace": "velero", "uid": "u"},
                    "spec": {"backupName": "b1"}}).encode())
            self.assertEqual(json.loads(answer.item)["metadata"].get("ownerReferences"), owners)
        # The Backup must be there: an owner that is not known would have the snapshot deleted.
        self.kube.delete({"group": "velero.io", "plural": "backups", "ns": "velero", "name": "b1"})
        item["metadata"]["namespace"] = "velero"
        self.assert_refused(
            Code.NOT_FOUND, "Backup b1", plugin.call, ACTIONS, "RestoreItemAction", "Execute",
            plugin=VS, item=json.dumps(item).encode(), item_from_backup=json.dumps(item).encode(),
            restore=json.dumps({"metadata": {"name": "r", "namespace": "velero", "uid": "u"},
                                "spec": {"backupName": "b1"}}).encode())

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
