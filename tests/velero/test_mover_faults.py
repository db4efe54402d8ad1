#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Moved backups of a stock Velero server while the object store fails, or somebody interferes:
afterwards a backup is right or says that it failed, and nothing of one that failed is left."""
import moverbed
from moverbed import MANAGER, NAMESPACE, wait_until
from moverfaults import ENDED, LIMIT, FaultTest


class Faults(FaultTest):
    # ---- the object store, as the Jobs see it ----

    def check_store(self, fault, name):
        """It fails for a while, and the backup is right; it fails for good, and Velero's limit ends it."""
        sums = self.place(name)
        self.faults.begin(fault, "/restic/")
        self.begin(name)
        wait_until(lambda: self.faults.failed > 3 or (self.faults.failed and self.status(name).get(
            "phase") in ENDED), LIMIT, "the store was asked")
        self.faults.end()
        if self.end_of(name) == "Completed":
            self.check_right(name, sums)
        else:
            self.assertTrue(self.uploads(name)["raw"]["status"]["message"])
            self.check_failed(name, "PartiallyFailed")

    def test_the_store_answers_500(self):
        self.check_store("500", "error500")

    def test_the_store_answers_503(self):
        self.check_store("503", "error503")

    def test_the_store_is_slow(self):
        self.check_store("slow", "slow")

    def test_the_bucket_is_full(self):
        self.check_store("full", "full")

    def test_the_credentials_are_wrong(self):
        self.check_store("credentials", "wrong")

    def test_the_store_fails_until_the_limit_of_velero(self):
        self.place("limit")
        self.faults.begin("503", "/restic/")
        self.begin("limit", "--item-operation-timeout", "30s")
        self.assertEqual(self.end_of("limit"), "PartiallyFailed")
        self.wait_upload("limit", "Canceled", "Failed")
        self.faults.end()
        self.check_failed("limit", "PartiallyFailed")

    # ---- operators ----

    def test_the_backup_is_removed_in_mid_backup(self):
        self.place("removed")
        self.faults.begin("slow", "/restic/")
        self.begin("removed")
        self.wait_upload("removed", "InProgress")
        self.wait_phase("removed", "WaitingForPluginOperations")
        self.kube.delete("-n", NAMESPACE, "backups.velero.io", "removed")
        self.faults.end()
        self.assert_nothing_left()
        wait_until(lambda: not self.kept("removed"), LIMIT, "the repository is empty")
        self.kube.delete("namespace", "removed")

    def test_two_managers_at_once(self):
        """Neither is elected, as if an operator had started it twice."""
        sums = self.place("twice")
        self.bed.processes.start("second", *self.bed.processes.commands[MANAGER])
        self.addCleanup(self.bed.processes.stop, "second")
        self.begin("twice")
        self.assertEqual(self.end_of("twice"), "Completed", self.everything("twice"))
        self.assertEqual(len(self.snapshots("twice")), 1)
        self.check_right("twice", sums)


if __name__ == "__main__":
    moverbed.main()
