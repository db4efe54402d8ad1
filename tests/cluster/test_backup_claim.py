#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""`cairn backup create --pvc` and `restore --pvc` on a real control plane without a node: the
driver's socket publishes the volumes here. Whoever runs it has the rights of deploy/rbac and no
others."""
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import time
import unittest

from backupbed import BLOCK, MIB, SPACE, BackupTest, digest
from processes import wait_until
from rights import Rights

ROLE = "cairn.csi.dev/backup"
DRIVER = "cairn.csi.dev"
PLACE = pathlib.Path("/run/cairn-backup")


class Claims(BackupTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.kube.allow("backup-here", f"{SPACE}:backup", role="cairn-backup", namespace=SPACE)
        for role in ("cluster", "filesystem"):
            cls.kube.allow(f"backup-{role}", f"{SPACE}:backup", role=f"cairn-backup-{role}")
        cls.environment["KUBECONFIG"] = str(cls.config)

    # ---- cairn ----

    def claim_words(self, verb, *args, claim):
        return self.words(verb, "--csi-endpoint", f"unix://{self.csi.socket}", "--namespace",
                          SPACE, "--pvc", claim, *args)

    def back_up(self, *args, claim="data"):
        done = self.run_cairn(words=self.claim_words("create", *args, claim=claim))
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        return next(line for line in lines if line.get("event") == "summary")

    def fails(self, *args, claim, verb="create", status):
        """What it says when it fails as it should."""
        done = self.run_cairn(words=self.claim_words(verb, *args, claim=claim), status=status)
        return json.loads(done.stderr.splitlines()[-1])["message"]

    # ---- the cluster ----

    def claim(self, name, **how):
        self.csi.claim(name, namespace=SPACE, **how)
        self.addCleanup(self.kube.delete, "-n", SPACE, "pvc", name)

    def left(self):
        """What runs left, but for bases."""
        found = []
        for kind in ("volumesnapshot", "pvc", "job", "lease"):
            listed = self.kube.get(kind, "-n", SPACE)
            found += [f"{kind} {item['metadata']['name']}" for item in listed["items"]
                      if item["metadata"].get("labels", {}).get(ROLE) in ("create", "restore")
                      or kind == "lease"]
        return found + ([str(path) for path in PLACE.iterdir()] if PLACE.exists() else [])

    def assert_nothing_left(self):
        wait_until(lambda: not self.left(), 240, f"nothing is left; there is {self.left()}")

    def bases(self):
        listed = self.kube.get("volumesnapshot", "-n", SPACE)
        return [item["metadata"]["name"] for item in listed["items"]
                if item["metadata"].get("labels", {}).get(ROLE) == "base"]

    def require_base(self, required):
        self.kube.kubectl("patch", "snapshotmetadataservice", DRIVER, "--type=merge", "-p",
                          json.dumps({"spec": {"requireBaseSnapshotForDelta": required}}))

    # ---- tests ----

    def test_full_incremental_and_back(self):
        self.require_base(False)
        self.claim("data")
        self.write(0, os.urandom(8 * MIB))
        full = self.back_up()
        self.assertEqual((full["mode"], full["volume"]), ("allocated", f"{SPACE}/data"))
        self.assert_nothing_left()
        self.write(5 * BLOCK, os.urandom(2 * BLOCK))
        self.write(40 * MIB, os.urandom(BLOCK))
        more = self.back_up()
        self.assertEqual((more["mode"], more["parent"]), ("changed", full["id"]))
        self.assertEqual(more["bytes_changed"], 3 * BLOCK)
        self.assertLess(more["bytes_read"], MIB)
        want = digest(self.csi.volume_file("data", SPACE))
        self.assert_nothing_left()
        self.assertEqual(self.bases(), [])  # the driver needs none
        # What a restore needs is kept with the backup, and nothing that would harm it.
        told = json.loads(self.run_cairn("describe", more["id"]).stdout)["kubernetes"]
        self.assertEqual(sorted(told), ["persistentvolume", "persistentvolumeclaim",
                                        "storageclass", "volumesnapshot",
                                        "volumesnapshotcontent"])
        self.assertEqual(told["persistentvolumeclaim"]["spec"]["storageClassName"], "cairn")
        for name, item in told.items():
            self.assertLessEqual(set(item["metadata"]), {"name", "namespace", "labels",
                                                         "annotations"}, name)
        self.run_cairn(words=self.claim_words("restore", more["id"], claim="new"))
        self.addCleanup(self.kube.delete, "-n", SPACE, "pvc", "new")
        made = self.kube.get("-n", SPACE, "pvc", "new")
        self.assertEqual((made["spec"]["volumeMode"], made["spec"]["storageClassName"]),
                         ("Block", "cairn"))
        self.assertNotIn("ownerReferences", made["metadata"])
        self.assertEqual(digest(self.csi.volume_file("new", SPACE)), want)
        self.assert_nothing_left()
        said = self.fails(more["id"], claim="new", verb="restore", status=6)
        self.assertIn("there is a claim 'shop/new' already", said)

    def test_the_right_to_read_csidrivers_is_needed(self):
        """The others of deploy/rbac/backup.yaml are looked at in test_backup_job.py."""
        self.require_base(False)
        self.claim("data")
        self.back_up()
        self.assert_nothing_left()
        in_vain = Rights(self.kube, self.audit).in_vain(["cairn-backup-cluster"])
        self.assertNotIn("csidrivers", str(in_vain))

    def test_the_base_is_kept_while_the_driver_needs_it(self):
        self.claim("kept")
        self.write(0, os.urandom(MIB), "kept")
        for required in (True, None):  # absent is not known: kept
            with self.subTest(required):
                self.require_base(required)
                first = self.back_up(claim="kept")
                wait_until(lambda name=first["snapshot"]: self.bases() == [name], 60,
                           "the base is there, and none from before")
                self.write(0, os.urandom(BLOCK), "kept")
                second = self.back_up(claim="kept")
                self.assertEqual((second["mode"], second["parent"]), ("changed", first["id"]))
                wait_until(lambda name=second["snapshot"]: self.bases() == [name], 60,
                           "only the newest base is there")
        self.require_base(False)
        self.back_up(claim="kept")
        wait_until(lambda: self.bases() == [], 180, "no base is there")
        kept = self.back_up("--base", "keep", claim="kept")
        self.assertEqual(self.bases(), [kept["snapshot"]])
        # A base goes with its claim.
        self.kube.delete("-n", SPACE, "pvc", "kept")
        wait_until(lambda: self.bases() == [], 180, "the base is gone")
        self.assert_nothing_left()

    def test_a_claim_of_files_is_backed_up_and_restored(self):
        self.require_base(False)
        self.claim("files", mode="Filesystem")
        path = self.csi.volume_file("files", SPACE)
        subprocess.run(["mkfs.ext4", "-q", "-F", path], check=True)
        made = self.back_up(claim="files")
        self.run_cairn(words=self.claim_words("restore", made["id"], claim="files-new"))
        self.addCleanup(self.kube.delete, "-n", SPACE, "pvc", "files-new")
        claim = self.kube.get("-n", SPACE, "pvc", "files-new")
        self.assertEqual((claim["spec"]["volumeMode"], claim["status"]["phase"]),
                         ("Filesystem", "Bound"))
        self.assertEqual(digest(self.csi.volume_file("files-new", SPACE)), digest(path))
        self.assert_nothing_left()

    def test_what_is_wrong_is_said(self):
        self.require_base(False)
        self.assertIn("there is no claim 'shop/nothing'", self.fails(claim="nothing", status=5))
        self.claim("plain")
        for args, status, text in (
                (("--snapshot-class", "none"), 5, "there is no VolumeSnapshotClass 'none'"),
                (("--storage-class", "none"), 5, "there is no StorageClass 'none'"),
                (("--volume-snapshot", "none"), 5, "none"),
                (("--csi-endpoint", "unix:///nowhere.sock", "--ready-timeout", "60s"), 14,
                 "nowhere.sock")):
            with self.subTest(args):
                self.assertIn(text, self.fails(*args, claim="plain", status=status))
        for args, status, text in (
                (("0123abcd",), 5, "0123abcd"),):
            said = self.fails(*args, claim="other", verb="restore", status=status)
            self.assertIn(text, said)
        self.assert_nothing_left()

    def test_an_interrupt_leaves_nothing(self):
        self.require_base(False)
        self.claim("waits")
        self.write(0, os.urandom(MIB), "waits")
        self.bed.processes.signal("csi-provisioner", signal.SIGSTOP)  # no volume comes
        self.addCleanup(self.bed.processes.signal, "csi-provisioner", signal.SIGCONT)
        for signum in (signal.SIGINT, signal.SIGTERM):
            with subprocess.Popen(self.claim_words("create", claim="waits"), text=True,
                                  env=self.environment, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
                wait_until(lambda: any("pvc" in what for what in self.left()), 60,
                           "the claim is made")
                child.send_signal(signum)
                _, said = child.communicate(timeout=120)
            self.assertEqual(child.returncode, 128 + signum, said)
            self.assert_nothing_left()
        # The snapshot, for which it waits as long, is to be ready earlier.
        said = self.fails("--ready-timeout", "20s", claim="waits", status=4)
        self.assertRegex(said, "claim 'shop/cairn-waits-.*' has no volume after 20 s")
        self.assert_nothing_left()

    def test_killed_at_any_moment_the_next_run_takes_all_away(self):
        self.require_base(True)
        self.claim("killed")
        self.write(0, os.urandom(16 * MIB), "killed")
        chance = random.Random(8)
        took = time.monotonic()
        self.back_up(claim="killed")
        took = time.monotonic() - took
        for turn in range(5):
            self.write(chance.randrange(60 * 256) * BLOCK, os.urandom(BLOCK), "killed")
            with subprocess.Popen(self.claim_words("create", claim="killed"),
                                  env=self.environment, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.DEVNULL) as child:
                time.sleep(chance.uniform(0.05, took))
                child.kill()
            with self.subTest(turn):
                self.back_up(claim="killed")
                wait_until(lambda: len(self.bases()) == 1, 180, "one base")
                self.assert_nothing_left()

    def test_a_killed_restore_is_taken_away_by_the_next(self):
        self.require_base(False)
        self.claim("origin")
        self.write(0, os.urandom(8 * MIB), "origin")
        made = self.back_up(claim="origin")
        words = self.claim_words("restore", made["id"], claim="again")
        self.addCleanup(self.kube.delete, "-n", SPACE, "pvc", "again")
        chance = random.Random(3)
        for _ in range(3):
            with subprocess.Popen(words, env=self.environment, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.DEVNULL) as child:
                time.sleep(chance.uniform(0.1, 2))
                child.kill()
        self.run_cairn(words=words)
        self.assertEqual(digest(self.csi.volume_file("again", SPACE)),
                         digest(self.csi.volume_file("origin", SPACE)))
        self.assert_nothing_left()

    def test_one_run_at_a_time(self):
        self.require_base(False)
        self.claim("busy")
        self.write(0, os.urandom(MIB), "busy")
        words = self.claim_words("create", claim="busy")
        both = [subprocess.Popen(words, env=self.environment, stdin=subprocess.DEVNULL, text=True,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                for _ in range(2)]
        ended = [(child.communicate(timeout=120), child.returncode) for child in both]
        self.assertEqual([code for _, code in ended], [0, 0], ended)  # one waited
        self.assert_nothing_left()


def have_own_place():
    """Starts this program again where PLACE is its own: other runs on this machine have one, and
    each run takes back what dead ones left."""
    if os.environ.get("CAIRN_OWN_PLACE") == "1":
        return
    PLACE.mkdir(mode=0o700, exist_ok=True)
    script = 'mount -t tmpfs -o mode=700 cairn-backup "$0" && exec "$@"'
    os.execvpe("unshare", ["unshare", "--mount", "--propagation", "slave", "sh", "-c", script, PLACE,
                           sys.executable, *sys.argv], {**os.environ, "CAIRN_OWN_PLACE": "1"})


if __name__ == "__main__":
    have_own_place()
    sys.exit(unittest.main())
