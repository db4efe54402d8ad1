#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Backups of a cluster that is lost, with all its volumes and snapshots, are restored on another one
that has the same bucket."""
import pathlib
import shutil
import tempfile

import moverbed
from moverbed import NAMESPACE, wait_until
from velerobed import BUCKET

MONDAY = "dd if=/dev/urandom of=/dev/raw bs=1M seek=2 count=8 conv=fsync 2>/dev/null; sync"
SUMS = "sha256sum /dev/raw"
LIMIT = 240


class Velero(moverbed.Velero):
    """Its object store outlives the cluster."""

    kept = None

    def start_store(self):
        (self.store / BUCKET).rmdir()
        self.store.rmdir()
        self.store = self.kept
        (self.store / BUCKET).mkdir(exist_ok=True)
        super().start_store()

    def location(self):
        made = super().location()
        made["status"] = {"phase": "Available"}  # else backups are read a minute later
        return made


class Bed(moverbed.MoverTest):
    VELERO = Velero

    @classmethod
    def restart_server(cls, *words):
        cls.velero.stop()
        cls.velero.start(*words)

    @classmethod
    def add_snapshotter(cls):
        """Progress objects, and a VolumeSnapshotLocation that also copies."""
        cls.velero.progress_kinds()
        cls.kube.kubectl("patch", "-n", NAMESPACE, "volumesnapshotlocation", "cairn", "--type=merge",
                         "-p", '{"spec":{"config":{"upload":"true"}}}')
        cls.kube.apply(moverbed.DEPLOY / "velero/records.yaml")


class First(Bed):
    def make(self):
        """Backups "moved" and "copied" of one namespace, with what they hold."""
        self.application("shop", {"raw": "Block"})
        self.execute("shop", MONDAY)
        sums = self.execute("shop", SUMS)
        self.back_up("moved", "shop")
        self.assert_nothing_left()
        self.add_snapshotter()
        self.restart_server()  # without Velero's own CSI actions: the snapshotter is called
        status = self.velero.backup("copied", "--include-namespaces", "shop")
        self.assertEqual(status["phase"], "Completed", self.velero.log("copied"))
        (progress,) = self.kube.get("-n", NAMESPACE, "volumepluginbackups")["items"]
        self.assertEqual(progress["status"]["phase"], "Completed")
        wait_until(lambda: "VolumePluginBackup" in self.velero.file(
            "copied", "copied-volumesnapshots.json.gz"), LIMIT, "progress is kept")
        password = self.kube.get("-n", NAMESPACE, "secret", "velero-repo-credentials")
        return {"sums": sums, "progress": progress, "password": password["data"]}


class Second(Bed):
    @classmethod
    def setUpClass(cls):
        Velero.kept = pathlib.Path(tempfile.mkdtemp(prefix="cairn-bucket-"))
        cls.addClassCleanup(shutil.rmtree, Velero.kept)
        First.setUpClass()
        try:
            cls.made = First("make").make()
        finally:
            First.doClassCleanups()
        super().setUpClass()

    def find(self, *words):
        return self.kube.get("-n", NAMESPACE, *words)

    def test_backups_of_a_lost_cluster_are_restored_and_deleted(self):
        for name in ("moved", "copied"):
            wait_until(lambda name=name: (self.find("backups.velero.io", name) or {}).get(
                "status", {}).get("phase") == "Completed", LIMIT, f"{name} is known here")
        self.assertEqual(self.find("secret", "velero-repo-credentials")["data"],
                         self.made["password"], "both clusters have Velero's standard password")

        status = self.velero.restore("moved", "moved")
        self.assertEqual(status["phase"], "Completed", f"{status}\n{self.everything('shop')}")
        self.wait_running("shop")
        self.assertEqual(self.execute("shop", SUMS), self.made["sums"])
        self.kube.delete("namespace", "shop")

        # Progress objects are made here from the file in the bucket.
        self.add_snapshotter()
        self.restart_manager()
        wait_until(lambda: self.find("volumepluginbackups")["items"], LIMIT, "it is created")
        (progress,) = self.find("volumepluginbackups")["items"]
        self.assertEqual(progress["status"], self.made["progress"]["status"])
        self.assertEqual(progress["spec"], self.made["progress"]["spec"])

        # The storage snapshot is gone with its cluster: the copy is restored.
        self.restart_server()
        status = self.velero.restore("copied", "copied")
        self.assertEqual(status["phase"], "Completed", f"{status}\n{self.everything('shop')}")
        self.wait_running("shop")
        self.assertEqual(self.execute("shop", SUMS), self.made["sums"])
        self.kube.delete("namespace", "shop")

        for name in ("moved", "copied"):
            self.velero.delete(name)
        wait_until(lambda: not self.snapshots("shop"), LIMIT, "the repository is empty")
        self.restic("shop", "check")
        self.assertEqual(self.find("volumepluginbackups")["items"], [])
        self.assert_nothing_left()
        wait_until(lambda: not self.volumes(), LIMIT, "no volume is left")
        self.assertEqual(list((self.velero.store / BUCKET / "backups").glob("*")), [])


if __name__ == "__main__":
    moverbed.main()
