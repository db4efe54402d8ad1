# SPDX-License-Identifier: Apache-2.0
"""A stock Velero server and the plugin are killed in each phase, and what they need fails: afterwards
a backup is right or says that it failed, and nothing is left of one that failed."""
import os
import pathlib
import signal

import velerobed
from controlplane import LOOPBACK
from s3faults import FaultyStore
from velerobed import BUCKET, NAMESPACE, wait_until

ENDED = ("Completed", "PartiallyFailed", "Failed", "FailedValidation")
MONDAY, LIMIT = b"monday" * 1000, 240


class Velero(velerobed.Velero):
    """Its object store fails on demand."""

    def start_store(self):
        super().start_store()
        self.faults = FaultyStore(LOOPBACK, (LOOPBACK, self.port))

    def location(self):
        made = super().location()
        made["spec"]["config"]["s3Url"] = f"http://{LOOPBACK}:{self.faults.server_address[1]}"
        return made


class Bed(velerobed.VeleroTest):
    VELERO = Velero

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.addClassCleanup(cls.velero.faults.close)
        cls.velero.start_manager("--velero-period", "5s")  # a leftover is old after 10 s

    def setUp(self):
        self.space = f"s{self.id().rsplit('.', 1)[1][5:].replace('_', '-')}"[:40].rstrip("-")
        self.kube.namespace(self.space)
        self.csi.claim("data", namespace=self.space)
        self.write("data", self.space, MONDAY)
        self.before = set(self.storage_snapshots())

    # ---- parts that are stopped ----

    def again(self, *names):
        for name in names:
            if not self.bed.processes.is_alive(name):
                self.bed.processes.start(name, *self.bed.processes.commands[name])

    def stopped(self, name):
        self.bed.processes.stop(name)
        self.addCleanup(self.again, name)

    def plugins(self):
        """Processes of the plugin."""
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and os.readlink(entry / "exe") == str(
                        self.velero.plugins / "cairn-velero-plugin"):
                    found.append(int(entry.name))
            except OSError:
                continue
        return found

    def kill_server(self):
        self.bed.processes.kill("velero")
        wait_until(lambda: not self.plugins(), 180, "no plugin outlives its server")

    def start_server(self):
        self.velero.start(*self.FLAGS)

    # ---- backups ----

    def begin(self, name, *words):
        self.velero.run("backup", "create", name, "--include-namespaces", self.space, *words)

    def phase(self, name, kind="backups"):
        found = self.kube.get("-n", NAMESPACE, f"{kind}.velero.io", name)
        return (found or {}).get("status", {}).get("phase")

    def wait_end(self, name, kind="backups"):
        return wait_until(lambda: self.phase(name, kind) in ENDED and self.phase(name, kind),
                          LIMIT, f"{name} ends")

    def snapshots(self):
        return self.kube.get("-n", self.space, "volumesnapshots")["items"]

    def wait_plugin_waits(self):
        """The plugin has made a VolumeSnapshot and waits for it."""
        wait_until(self.snapshots, LIMIT, "a VolumeSnapshot")

    def left(self):
        """What a backup that failed must not leave."""
        contents = [item["metadata"]["name"] for item in
                    self.kube.get("volumesnapshotcontent")["items"]
                    if item["spec"]["volumeSnapshotRef"].get("namespace") in (self.space, NAMESPACE)]
        claims = [item["metadata"]["name"] for item in self.kube.get("-n", NAMESPACE, "pvc")["items"]]
        volumes = [item["metadata"]["name"] for item in self.kube.get("pv")["items"]
                   if "cairn.csi.dev/velero" in item["metadata"].get("labels", {})]
        return ([item["metadata"]["name"] for item in self.snapshots()] + contents + claims + volumes
                + sorted(set(self.storage_snapshots()) - self.before))

    def assert_nothing_left(self):
        try:
            wait_until(lambda: not self.left(), LIMIT, "nothing is left")
        except velerobed.Failed as failed:
            raise AssertionError(f"{failed}: {self.left()}\n"
                                 f"{self.bed.processes.log_tail('manager', 30)}") from None

    def check_works(self, name):
        """A backup is taken, restored and deleted as if nothing had been."""
        status = self.velero.backup(name, "--include-namespaces", self.space)
        self.assertEqual(status["phase"], "Completed", self.velero.log(name))
        self.restore_and_delete(name)

    def restore_and_delete(self, name):
        copy = f"c{self.space}"[:60]
        status = self.velero.restore(name, name, "--namespace-mappings", f"{self.space}:{copy}")
        self.assertEqual(status["phase"], "Completed", status)
        self.wait_bound("data", copy)
        self.assertEqual(self.read("data", copy, 6000), MONDAY)
        self.kube.delete("namespace", copy)
        self.velero.delete(name)
        self.assert_nothing_left()

    def check_failed(self, name, *phases):
        self.assertIn(self.wait_end(name), phases)
        self.assert_nothing_left()
        self.velero.delete(name)
        self.check_works(f"{name}-again")


class ItemActions(Bed):
    def test_the_server_is_killed_while_a_snapshot_is_taken(self):
        self.stopped("csi-snapshotter")
        self.begin("k1")
        self.wait_plugin_waits()
        self.kill_server()
        self.again("csi-snapshotter")
        self.start_server()
        self.check_failed("k1", "Failed")

    def test_the_plugin_is_killed_in_mid_call(self):
        self.stopped("csi-snapshotter")
        self.begin("k2")
        self.wait_plugin_waits()
        for pid in self.plugins():
            os.kill(pid, signal.SIGKILL)
        self.again("csi-snapshotter")
        self.check_failed("k2", "PartiallyFailed", "Failed")

    def test_the_server_is_killed_while_it_writes_the_backup(self):
        self.velero.faults.begin("hang", f"PUT /{BUCKET}/backups/k3/")
        self.addCleanup(self.velero.faults.end)
        self.begin("k3")
        wait_until(lambda: self.velero.faults.failed, LIMIT, "the server writes")
        self.assertEqual(len(self.snapshots()), 1)
        self.kill_server()
        self.velero.faults.end()
        self.start_server()
        self.check_failed("k3", "Failed")

    def test_the_server_is_killed_before_the_backup_begins(self):
        self.kill_server()
        self.begin("k4")
        self.start_server()
        self.assertEqual(self.wait_end("k4"), "Completed")
        self.restore_and_delete("k4")

    def test_the_server_is_killed_in_a_restore(self):
        self.assertEqual(self.velero.backup("k5", "--include-namespaces", self.space)["phase"],
                         "Completed")
        self.stopped("csi-provisioner")
        self.velero.run("restore", "create", "k5", "--from-backup", "k5", "--namespace-mappings",
                        f"{self.space}:half")
        wait_until(lambda: self.kube.get("-n", "half", "pvc", "data"), LIMIT, "a claim")
        self.kill_server()
        self.again("csi-provisioner")
        self.start_server()
        # Velero leaves what it has restored, and says so; or was through already.
        self.assertIn(self.wait_end("k5", "restores"), ("Failed", "Completed", "PartiallyFailed"))
        self.kube.delete("namespace", "half")
        self.velero.run("restore", "delete", "k5", "--confirm")
        self.kube.wait_gone("-n", NAMESPACE, "restores.velero.io", "k5", seconds=LIMIT)
        self.restore_and_delete("k5")

    def test_the_server_is_killed_while_it_deletes_the_backup(self):
        self.assertEqual(self.velero.backup("k6", "--include-namespaces", self.space)["phase"],
                         "Completed")
        self.stopped("csi-snapshotter")
        self.velero.run("backup", "delete", "k6", "--confirm")
        wait_until(lambda: self.phase("k6") == "Deleting", LIMIT, "Deleting")
        self.kill_server()
        self.again("csi-snapshotter")
        self.start_server()
        self.velero.delete("k6")  # a second request, as a user makes it
        self.assert_nothing_left()
        self.check_works("k6-again")

    def test_the_snapshot_controller_is_down(self):
        self.stopped("snapshot-controller")
        self.begin("k7", "--csi-snapshot-timeout", "5s")
        self.assertEqual(self.wait_end("k7"), "PartiallyFailed")
        self.again("snapshot-controller")
        self.check_failed("k7", "PartiallyFailed")

    def test_the_backup_is_removed_in_mid_backup(self):
        """By hand, not by a request to delete it. If its files are in the store, Velero brings it back
        when it expires, to be deleted: until then its snapshot stays."""
        self.stopped("csi-snapshotter")
        self.begin("k8", "--ttl", "1m")
        self.wait_plugin_waits()
        self.kube.delete("-n", NAMESPACE, "backups.velero.io", "k8")
        self.again("csi-snapshotter")
        wait_until(lambda: self.phase("k8") in ENDED or not self.left(), LIMIT, "an end of it")
        if self.phase("k8") in ENDED:
            # The server takes it for one that is running until it is started again.
            self.kill_server()
            self.start_server()
            self.velero.delete("k8")
        self.assert_nothing_left()
        self.check_works("k8-again")


class Native(Bed):
    """The same with the volume snapshotter and progress objects."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.velero.progress_kinds()

    def progress(self, kind):
        return {item["status"].get("phase") for item in self.kube.get("-n", NAMESPACE, kind)["items"]}

    def test_the_server_is_killed_while_a_snapshot_is_taken(self):
        self.stopped("csi-snapshotter")
        self.begin("n1")
        self.wait_plugin_waits()
        self.assertEqual(self.progress("volumepluginbackups"), {"InProgress"})
        self.kill_server()
        self.again("csi-snapshotter")
        self.start_server()
        self.check_failed("n1", "Failed")
        wait_until(lambda: not self.progress("volumepluginbackups"), LIMIT, "no progress object")

    def test_the_server_is_killed_in_a_restore(self):
        self.assertEqual(self.velero.backup("n2", "--include-namespaces", self.space)["phase"],
                         "Completed")
        self.stopped("csi-provisioner")
        self.velero.run("restore", "create", "n2", "--from-backup", "n2", "--namespace-mappings",
                        f"{self.space}:half2")
        wait_until(lambda: self.kube.get("-n", NAMESPACE, "pvc")["items"], LIMIT, "a claim")
        self.kill_server()
        self.again("csi-provisioner")
        self.start_server()
        self.assertEqual(self.wait_end("n2", "restores"), "Failed")
        wait_until(lambda: "InProgress" not in self.progress("volumepluginrestores"), LIMIT,
                   "its progress object says so")
        self.kube.delete("namespace", "half2")
        self.velero.run("restore", "delete", "n2", "--confirm")
        self.kube.wait_gone("-n", NAMESPACE, "restores.velero.io", "n2", seconds=LIMIT)
        self.restore_and_delete("n2")

    def test_the_server_is_killed_while_it_deletes_the_backup(self):
        self.assertEqual(self.velero.backup("n3", "--include-namespaces", self.space)["phase"],
                         "Completed")
        self.stopped("csi-snapshotter")
        self.velero.run("backup", "delete", "n3", "--confirm")
        wait_until(lambda: self.phase("n3") == "Deleting", LIMIT, "Deleting")
        self.kill_server()
        self.again("csi-snapshotter")
        self.start_server()
        self.velero.delete("n3")
        self.assert_nothing_left()


class Store(Bed):
    """What Velero writes fails; the plugin's part must go with it."""

    def check(self, fault, *phases):
        name = f"s-{fault}"
        self.velero.faults.begin(fault, f"PUT /{BUCKET}/backups/{name}/")
        self.addCleanup(self.velero.faults.end)
        self.begin(name)
        phase = self.wait_end(name)
        self.assertIn(phase, phases)
        self.assertGreater(self.velero.faults.failed, 0)
        self.velero.faults.end()
        if phase != "Completed":
            self.check_failed(name, phase)
        else:
            self.restore_and_delete(name)

    def test_the_store_answers_500(self):
        self.check("500", "Failed")

    def test_the_store_answers_503(self):
        self.check("503", "Failed")

    def test_the_bucket_is_full(self):
        self.check("full", "Failed")

    def test_the_credentials_are_wrong(self):
        self.check("credentials", "Failed")

    def test_the_store_is_slow(self):
        self.check("slow", "Completed")


if __name__ == "__main__":
    velerobed.main()
