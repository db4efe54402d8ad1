#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Server, manager and Jobs are killed while a stock Velero server moves data: afterwards a backup is
right or says that it failed, and nothing of one that failed is left."""
import moverbed
from moverbed import NAMESPACE, wait_until
from moverfaults import ENDED, LIMIT, SUMS, FaultTest

PARTS = ("jobs", "pods", "pvc", "volumesnapshots")


class Kills(FaultTest):
    # ---- the server ----

    def test_the_server_is_killed_while_it_waits_for_the_data(self):
        sums = self.place("waits")
        self.faults.begin("slow", "/restic/")
        self.begin("waits")
        self.wait_phase("waits", "WaitingForPluginOperations")
        self.bed.processes.kill("velero")
        self.faults.end()
        self.velero.start("--features=EnableCSI")
        self.check_right("waits", sums)

    def test_the_server_is_killed_while_it_finalizes(self):
        sums = self.place("final")
        self.begin("final")
        self.wait_phase("final", "WaitingForPluginOperations")
        self.faults.begin("hang", f"GET /{moverbed.BUCKET}/backups/final/final.tar.gz")
        self.wait_phase("final", "Finalizing")
        self.bed.processes.kill("velero")
        self.faults.end()
        self.velero.start("--features=EnableCSI")
        self.check_right("final", sums)

    def test_the_server_is_killed_before_the_backup_is_written(self):
        """Velero cancels the data of such a backup when it starts."""
        self.place("early")
        self.faults.begin("hang", f"PUT /{moverbed.BUCKET}/backups/early/")
        self.begin("early")
        self.wait_upload("early", "Accepted", "Prepared", "InProgress", "Completed")
        wait_until(lambda: self.faults.failed, LIMIT, "the server writes")
        self.bed.processes.kill("velero")
        self.faults.end()
        self.velero.start("--features=EnableCSI")
        self.check_failed("early", "Failed")

    def test_the_server_is_killed_in_a_restore(self):
        sums = self.place("again")
        self.begin("again")
        self.assertEqual(self.end_of("again"), "Completed")
        self.faults.begin("slow", "/restic/")
        self.velero.run("restore", "create", "half", "--from-backup", "again",
                        "--namespace-mappings", "again:half")
        wait_until(lambda: self.kube.get("-n", NAMESPACE, "datadownloads")["items"], LIMIT,
                   "a DataDownload")
        self.bed.processes.kill("velero")
        self.faults.end()
        self.velero.start("--features=EnableCSI")
        phase = self.wait_phase("half", "Completed", kind="restores")
        if phase == "Completed":
            self.wait_running("half")
            self.assertEqual(self.execute("half", SUMS), sums)
        self.kube.delete("namespace", "half")
        self.assert_nothing_left()
        self.check_right("again", sums)

    # ---- the manager ----

    def picture(self, kind):
        """What the data mover has made so far; it changes with each of its steps."""
        listed = self.kube.get("-n", NAMESPACE, kind)["items"]
        requests = [(one.get("status", {}).get("phase"), bool(one["metadata"].get("finalizers")))
                    for one in listed]
        return requests, [name for part in PARTS for name in self.named(part)]

    def kill_at_every_change(self, kind, is_ended):
        """Returns how often."""
        seen, kills = None, 0

        def is_over():
            nonlocal seen, kills
            now = self.picture(kind)
            if now != seen:
                seen, kills = now, kills + 1
                self.restart_manager()
            return is_ended() and not now[1]
        wait_until(is_over, LIMIT, f"{kind} end")
        return kills

    def test_the_manager_is_killed_at_every_change(self):
        sums = self.place("steps")
        self.begin("steps")
        kills = self.kill_at_every_change(
            "datauploads", lambda: self.status("steps").get("phase") in ENDED)
        self.assertGreater(kills, 4)
        self.assertEqual(self.end_of("steps"), "Completed", self.everything("steps"))
        self.assertEqual(len(self.snapshots("steps")), 1)
        self.velero.run("restore", "create", "steps", "--from-backup", "steps",
                        "--namespace-mappings", "steps:other")
        kills = self.kill_at_every_change(
            "datadownloads", lambda: self.status("steps", "restores").get("phase") in ENDED)
        self.assertGreater(kills, 4)
        self.assertEqual(self.status("steps", "restores")["phase"], "Completed",
                         self.everything("other"))
        self.wait_running("other")
        self.assertEqual(self.execute("other", SUMS), sums)
        self.kube.delete("namespace", "other")
        self.remove("steps")

    # ---- Jobs ----

    def kill_pod(self, what):
        """When it exists; the kubelet may not have started it."""
        wait_until(lambda: self.named("pods"), LIMIT, "a pod")
        self.kube.run("delete", "pods", "-n", NAMESPACE, "-l", f"cairn.csi.dev/backup={what}",
                      "--grace-period=0", "--force")

    def kill_program(self):
        """In mid work: it has asked the object store again and again."""
        asked = self.faults.failed
        wait_until(lambda: self.faults.failed > asked + 2, LIMIT, "the store is asked")
        for pid in self.bed.node.run("pgrep", "-f", "cairn backup ").split():
            self.bed.node.run("kill", "-KILL", pid)

    def test_jobs_are_killed_at_each_step(self):
        sums = self.place("jobs")
        self.faults.begin("slow", "/restic/")
        self.begin("jobs")
        self.kill_pod("upload")
        self.kill_program()
        self.faults.end()
        self.assertEqual(self.end_of("jobs"), "Completed", self.everything("jobs"))
        self.assertEqual(len(self.snapshots("jobs")), 1)
        self.assert_nothing_left()
        self.faults.begin("slow", "/restic/")
        self.velero.run("restore", "create", "jobs", "--from-backup", "jobs",
                        "--namespace-mappings", "jobs:other")
        self.kill_pod("download")
        self.kill_program()
        self.faults.end()
        self.assertEqual(self.wait_phase("jobs", kind="restores"), "Completed",
                         self.everything("other"))
        self.wait_running("other")
        self.assertEqual(self.execute("other", SUMS), sums)
        self.kube.delete("namespace", "other")
        # Locks of killed programs count until they are old: half an hour.
        self.restic("jobs", "unlock", "--remove-all")
        self.remove("jobs")

    def test_somebody_deletes_the_job(self):
        self.place("gone")
        self.faults.begin("slow", "/restic/")
        self.begin("gone")
        self.wait_upload("gone", "InProgress")
        self.kube.kubectl("delete", "-n", NAMESPACE, "jobs", "-l", "cairn.csi.dev/backup=upload")
        self.faults.end()
        self.assertEqual(self.end_of("gone"), "PartiallyFailed", self.everything("gone"))
        self.assertIn("was deleted", self.uploads("gone")["raw"]["status"]["message"])
        self.assertEqual(self.kept("gone"), [])
        self.remove("gone")


if __name__ == "__main__":
    moverbed.main()
