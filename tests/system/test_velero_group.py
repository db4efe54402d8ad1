# SPDX-License-Identifier: Apache-2.0
"""Item actions of `cairn-velero-plugin` for claims with Velero's group label, with an API server and
controllers of group snapshots that the test plays."""
import json
import threading
import time
import unittest

import test_rbac
import veleroplugin
from veleroplugin import BACKUP, BLOCKS, DRIVER, PVC, SHARED, SNAPSHOTS, VSC, Code, claim

GROUPS = "/apis/groupsnapshot.storage.k8s.io"
LABEL = "velero.io/volume-group"
HANDLES = ["group-1", "snap-of-v-data", "snap-of-v-log"]


def is_for_groups(rule):
    return rule[0] == "groupsnapshot.storage.k8s.io" or rule in (
        ("snapshot.storage.k8s.io", "volumesnapshots", "patch", ""),
        ("", "persistentvolumeclaims", "list", ""))


class Fixture(veleroplugin.PluginTest):
    version = "v1beta2"

    def prepare_kube(self):
        super().prepare_kube()
        self.groups = f"{GROUPS}/{self.version}"
        self.lost = False  # the driver takes no snapshot
        self.members = ("data", "log")  # that get a VolumeSnapshot
        self.policy = "Delete"
        self.errors = []  # that the driver reports before it sees a content with a handle
        self.of = None  # the content is of another VolumeGroupSnapshot
        self.handle = None  # snapshots of single claims stay unbound
        store = self.kube.store

        def with_groups(where, item, made=False):
            result = store(where, item, made)
            if made and where["plural"] == "volumegroupsnapshots" and not self.lost:
                threading.Thread(target=self.cut, args=(result,), daemon=True).start()
            if made and where["plural"] == "volumegroupsnapshotcontents" and \
                    "groupSnapshotHandles" in item["spec"].get("source", {}):
                threading.Thread(target=self.see, args=(result,), daemon=True).start()
            return result
        self.kube.store = with_groups
        self.kube.put(f"{self.groups}/volumegroupsnapshotclasses", {
            "metadata": {"name": "together"}, "driver": DRIVER, "deletionPolicy": "Delete"})
        for name in ("data", "log", "alone"):
            self.kube.put("/api/v1/persistentvolumes", {
                "metadata": {"name": f"pv-{name}"},
                "spec": {"csi": {"driver": DRIVER, "volumeHandle": f"v-{name}"}}})
            self.kube.put("/api/v1/namespaces/shop/persistentvolumeclaims", self.claim(name))

    @staticmethod
    def claim(name):
        made = claim(name, volumeName=f"pv-{name}")
        if name != "alone":
            made["metadata"]["labels"] = {LABEL: "db"}
        return made

    def change(self, group, plural, ns, name, patch):
        self.kube.change({"group": group, "plural": plural, "ns": ns, "name": name, "sub": None},
                         patch, True, None)

    # ---- what the controllers do ----

    def see(self, made):
        for error in self.errors:
            self.change("groupsnapshot.storage.k8s.io", "volumegroupsnapshotcontents", None,
                        made["metadata"]["name"], {"status": {"error": {"message": error}}})
            time.sleep(1)
        self.change("groupsnapshot.storage.k8s.io", "volumegroupsnapshotcontents", None,
                    made["metadata"]["name"], {
                        "metadata": {"finalizers": ["groupsnapshot.storage.kubernetes.io/x"]},
                        "status": {"volumeGroupSnapshotHandle": "group-1"}})

    def cut(self, made):
        name, uid = made["metadata"]["name"], made["metadata"]["uid"]
        assert made["spec"]["source"]["selector"]["matchLabels"] == {LABEL: "db"}
        self.kube.put(f"{self.groups}/volumegroupsnapshotcontents", {
            "metadata": {"name": f"gc-{name}"}, "spec": {
                "driver": DRIVER, "deletionPolicy": self.policy,
                "volumeGroupSnapshotRef": {"namespace": "shop", "name": self.of or name}},
            "status": {"volumeGroupSnapshotHandle": "group-1", "volumeSnapshotInfoList": [
                {"volumeHandle": f"v-{member}", "snapshotHandle": f"snap-of-v-{member}"}
                for member in ("data", "log")]}})
        self.change("groupsnapshot.storage.k8s.io", "volumegroupsnapshots", "shop", name, {
            "status": {"boundVolumeGroupSnapshotContentName": f"gc-{name}",
                       "creationTime": "2026-11-17T00:00:00Z"}})
        for member in self.members:
            self.kube.put(f"{SNAPSHOTS}/volumesnapshotcontents", {
                "metadata": {"name": f"c-{member}"}, "spec": {
                    "driver": DRIVER, "deletionPolicy": "Delete",
                    "volumeSnapshotRef": {"namespace": "shop", "name": f"s-{member}"}},
                "status": {"snapshotHandle": f"snap-of-v-{member}", "restoreSize": 5}})
            self.kube.put(f"{SNAPSHOTS}/namespaces/shop/volumesnapshots", {
                "metadata": {"name": f"s-{member}", "ownerReferences": [
                    {"kind": "VolumeGroupSnapshot", "name": name, "uid": uid}]},
                "spec": {"source": {"persistentVolumeClaimName": member}},
                "status": {"boundVolumeSnapshotContentName": f"c-{member}",
                           "creationTime": "2026-11-17T00:00:00Z"}})

    # ---- calls ----

    @staticmethod
    def delete_item(plugin, item):
        plugin.call(SHARED, "DeleteItemAction", "Execute", plugin=VSC,
                    item=json.dumps(item).encode(), backup=json.dumps(BACKUP).encode())

    def objects(self, plural):
        return self.kube.list(f"{self.groups}/{plural}")

    def check_group(self):
        names = {}
        for name in ("data", "log"):  # each by a process of its own
            plugin = self.start_plugin()
            done = plugin.back_up(PVC, self.claim(name))
            item = json.loads(done.item)
            names[name] = item["metadata"]["labels"]["velero.io/volume-snapshot-name"]
            self.assertEqual({(entry.resource, entry.name) for entry in done.additional_items},
                             {("volumesnapshots", f"s-{name}"),
                              ("volumesnapshotcontents", f"c-{name}")})
        self.assertEqual(names, {"data": "s-data", "log": "s-log"})
        self.assertEqual(len(self.objects("volumegroupsnapshots")), 1)


class VeleroGroup(Fixture):
    def test_claims_of_a_group_get_their_snapshots_from_one_group_snapshot(self):
        self.check_group()
        (content,) = self.objects("volumegroupsnapshotcontents")
        self.assertEqual(content["spec"]["deletionPolicy"], "Retain")
        for name in ("data", "log"):
            content = self.kube.get(f"{SNAPSHOTS}/volumesnapshotcontents/c-{name}")
            self.assertEqual(content["spec"]["deletionPolicy"], "Retain")
            self.assertEqual(content["metadata"]["labels"]["velero.io/backup-name"], "b1")
            self.assertEqual(json.loads(content["metadata"]["annotations"][
                "cairn.csi.dev/group-snapshot-handles"]), HANDLES)
            snapshot = self.kube.get(f"{SNAPSHOTS}/namespaces/shop/volumesnapshots/s-{name}")
            self.assertEqual(snapshot["metadata"]["labels"], {
                "velero.io/backup-name": "b1", "cairn.csi.dev/velero": "item-action",
                "velero.io/pv-name": f"pv-{name}"})

    def delete_contents_slowly(self):
        """VolumeGroupSnapshotContents stay for a while, so that they are watched; returns the list to
        which each deletion adds its object."""
        seen, delete = [], self.kube.delete

        def note(where):
            if where["plural"] != "volumegroupsnapshotcontents":
                return delete(where)
            seen.append(self.kube.get(f"{self.groups}/{where['plural']}/{where['name']}"))
            threading.Timer(0.5, delete, [where]).start()
            return seen[-1]
        self.kube.delete = note
        return seen

    @staticmethod
    def related(plugin, item, backup=None, name=PVC):
        found = plugin.call(BLOCKS, "ItemBlockAction", "GetRelatedItems", plugin=name,
                            item=item if isinstance(item, bytes) else json.dumps(item).encode(),
                            backup=json.dumps(backup or BACKUP).encode())
        return [(one.group, one.resource, one.namespace, one.name) for one in found.related_items]

    def test_claims_of_a_group_are_one_item_block(self):
        others = self.claim("theirs")
        others["metadata"]["namespace"] = "bank"
        self.kube.put("/api/v1/namespaces/bank/persistentvolumeclaims", others)
        second = self.claim("cache")
        second["metadata"]["labels"] = {LABEL: "web", "tier": "db"}
        self.kube.put("/api/v1/namespaces/shop/persistentvolumeclaims", second)
        plugin = self.start_plugin()
        selector = plugin.call(BLOCKS, "ItemBlockAction", "AppliesTo", plugin=PVC)
        self.assertEqual(list(selector.resource_selector.included_resources),
                         ["persistentvolumeclaims"])
        self.assertEqual(self.related(plugin, self.claim("data")),
                         [("", "persistentvolumeclaims", "shop", "log")])
        self.assertEqual(self.related(plugin, self.claim("alone")), [])
        self.assertEqual(self.related(plugin, second), [])
        keyed = {**BACKUP, "spec": {"volumeGroupSnapshotLabelKey": "tier"}}
        self.assertEqual(self.related(plugin, self.claim("data"), keyed), [])
        self.assertEqual(self.related(plugin, second, keyed), [])
        for code, text, item, name in (
                (Code.NOT_FOUND, "is not in this plugin", self.claim("data"), "x"),
                (Code.INVALID_ARGUMENT, "the item", b"not JSON", PVC),
                (Code.INVALID_ARGUMENT, "the item", b"[]", PVC)):
            self.assert_refused(code, text, self.related, plugin, item, name=name)
        self.assertEqual(len(self.related(plugin, self.claim("log"))), 1)

    def test_deletion_deletes_the_group_as_a_whole_also_from_another_cluster(self):
        """With the rights of deploy/velero/plugin.yaml; those for groups are all used."""
        user = "system:serviceaccount:cairn:role"
        rules = test_rbac.rules_of("velero", "velero/plugin.yaml")
        self.kube.enforced[user] = rules
        self.act_when_watched(user, {"volumegroupsnapshots", "volumegroupsnapshotcontents"})
        plugin = self.start_plugin()
        for name in ("data", "log"):
            plugin.back_up(PVC, self.claim(name))
        items = [self.kube.get(f"{SNAPSHOTS}/volumesnapshotcontents/c-{name}")
                 for name in ("data", "log")]
        seen = self.delete_contents_slowly()
        for item in items:
            self.delete_item(plugin, item)
        deleted, *made = seen
        self.assertEqual(deleted["spec"]["deletionPolicy"], "Delete")
        # The second content no longer finds the group: it is asked for by its handles.
        self.assertEqual([found["spec"]["source"]["groupSnapshotHandles"] for found in made],
                         [{"volumeGroupSnapshotHandle": HANDLES[0],
                           "volumeSnapshotHandles": HANDLES[1:]}])
        for plural in ("volumegroupsnapshots", "volumegroupsnapshotcontents"):
            self.assertEqual(self.objects(plural), [])
        self.assertEqual(self.snapshots(), [])
        self.assertEqual(self.kube.list(f"{SNAPSHOTS}/volumesnapshotcontents"), [])
        self.assertEqual({rule for rule in rules - self.kube.used[user] if is_for_groups(rule)},
                         set())

    def test_an_error_of_the_driver_that_passes_does_not_leave_the_group(self):
        """A content without a handle in its status only disappears, and the storage's group stays."""
        plugin = self.start_plugin()
        plugin.back_up(PVC, self.claim("data"))
        item = self.kube.get(f"{SNAPSHOTS}/volumesnapshotcontents/c-data")
        for plural, ns in (("volumegroupsnapshots", "shop"), ("volumegroupsnapshotcontents", None)):
            for one in self.objects(plural):
                self.kube.delete({"group": "groupsnapshot.storage.k8s.io", "plural": plural,
                                  "ns": ns, "name": one["metadata"]["name"], "sub": None})
        seen = self.delete_contents_slowly()
        self.errors = ["rpc error: code = Unavailable desc = not now"]
        self.delete_item(plugin, item)
        (content,) = seen
        self.assertEqual(content["status"]["volumeGroupSnapshotHandle"], "group-1")
        self.assertTrue(content["metadata"]["finalizers"])

    def test_a_group_that_cannot_be_taken_fails_and_leaves_nothing(self):
        plugin = self.start_plugin()
        self.lost = True
        short = {**BACKUP, "spec": {"csiSnapshotTimeout": "5s"}}
        self.assert_refused(Code.DEADLINE_EXCEEDED, "VolumeGroupSnapshot shop/velero-",
                            plugin.back_up, PVC, self.claim("data"), short)
        self.assertEqual(self.objects("volumegroupsnapshots"), [])
        self.kube.put("/api/v1/persistentvolumes", {
            "metadata": {"name": "pv-log"}, "spec": {"csi": {"driver": "other.io"}}})
        self.assert_refused(Code.FAILED_PRECONDITION, "claim log of the group has no volume",
                            plugin.back_up, PVC, self.claim("data"))
        self.kube.put(f"{self.groups}/volumegroupsnapshotclasses", {
            "metadata": {"name": "second"}, "driver": DRIVER})
        self.assert_refused(Code.FAILED_PRECONDITION, "2 VolumeGroupSnapshotClasses",
                            plugin.back_up, PVC, self.claim("data"))
        self.assertEqual(self.snapshots(), [])

    def test_a_group_of_which_no_claim_got_a_snapshot_is_deleted_also_if_its_class_retains(self):
        self.members, self.policy = (), "Retain"
        short = {**BACKUP, "spec": {"csiSnapshotTimeout": "10s"}}
        self.assert_refused(Code.DEADLINE_EXCEEDED, "the claim has no snapshot in it",
                            self.start_plugin().back_up, PVC, self.claim("data"), short)
        self.assertEqual(self.objects("volumegroupsnapshots"), [])
        (content,) = self.objects("volumegroupsnapshotcontents")
        self.assertEqual(content["spec"]["deletionPolicy"], "Delete")

    def test_a_group_that_another_claim_needs_stays(self):
        self.members = ("data",)
        plugin = self.start_plugin()
        plugin.back_up(PVC, self.claim("data"))
        (group,) = self.objects("volumegroupsnapshots")
        short = {**BACKUP, "spec": {"csiSnapshotTimeout": "5s"}}
        self.change("groupsnapshot.storage.k8s.io", "volumegroupsnapshots", "shop",
                    group["metadata"]["name"], {"status": {"creationTime": None}})
        self.assert_refused(Code.DEADLINE_EXCEEDED, "VolumeGroupSnapshot shop/velero-",
                            plugin.back_up, PVC, self.claim("log"), short)
        self.assertEqual(len(self.objects("volumegroupsnapshots")), 1)
        (content,) = self.objects("volumegroupsnapshotcontents")
        self.assertEqual(content["spec"]["deletionPolicy"], "Retain")

    def test_the_content_of_another_group_is_not_taken(self):
        self.of = "another"
        self.assert_refused(Code.FAILED_PRECONDITION, "its content is of another one",
                            self.start_plugin().back_up, PVC, self.claim("data"))
        (content,) = self.objects("volumegroupsnapshotcontents")
        self.assertNotIn("labels", content["metadata"])

    def test_a_claim_without_the_label_gets_a_snapshot_of_its_own(self):
        self.handle = "handle-1"
        self.start_plugin().back_up(PVC, self.claim("alone"))
        self.assertEqual(self.objects("volumegroupsnapshots"), [])
        (snapshot,) = self.snapshots()
        self.assertEqual(snapshot["spec"]["source"]["persistentVolumeClaimName"], "alone")


class VeleroGroupOlder(Fixture):
    version = "v1beta1"

    def test_a_server_that_has_the_first_version_of_the_kinds_only(self):
        self.check_group()


if __name__ == "__main__":
    unittest.main(verbosity=2)
