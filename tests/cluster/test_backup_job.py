#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""`cairn backup create --pvc` and `restore --pvc` by Jobs that run for real: a kubelet with
containerd, the driver and the sidecar as deploy/ ships them, a repository behind rest-server.
Who runs the command has the rights of deploy/rbac/backup.yaml, and the Job's pod those of a
backup application."""
import base64
import concurrent.futures
import contextlib
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import yaml

import cluster
import node
import test_node
from pki import SERVER
from nodesbed import accepts
from processes import Failed, Ports, wait_until
from rights import ACCOUNT, Audit, Rights

MIB = 1 << 20
BLOCK = 4096
SPACE = "default"
ROLE = "cairn.csi.dev/backup"
DEPLOY = cluster.REPOSITORY / "deploy"
SECRET = "repository"
PASSWORD = "a secret of the repository"
FOREVER = test_node.FOREVER
LINES_SHOWN = 60  # of a log


def skip_unless_possible():
    test_node.skip_unless_possible()
    cluster.peers_or_skip("rest-server")


def setUpModule():
    global BED, AUDIT  # pylint: disable=global-statement
    directory = pathlib.Path(tempfile.mkdtemp(prefix="cairn-cluster-"))
    AUDIT = Audit(directory)
    BED = unittest.enterModuleContext(cluster.Cluster(directory, node=True,
                                                      apiserver_args=AUDIT.words))
    test_node.Pods(BED).install(resync="5s")


class Jobs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.bed, cls.kube, cls.pods = BED, BED.kube, test_node.Pods(BED)
        cls.start_repository()
        cls.make_accounts()
        cls.scratch = BED.directory
        cls.environment = {**os.environ, "CAIRN_POOL": "/nowhere", "KUBECONFIG": str(cls.config),
                           "CAIRN_IMAGE": node.CAIRN}
        for name in ("CAIRN_REPOSITORY", "RESTIC_REPOSITORY", "RESTIC_PASSWORD"):
            cls.environment.pop(name, None)
        cls.own = {**cls.environment, "CAIRN_REPOSITORY": cls.location,
                   "RESTIC_PASSWORD": PASSWORD}
        cls.cairn("init", environment=cls.own)

    @classmethod
    def start_repository(cls):
        """On the node's address: pods reach it, and so do we."""
        program = cluster.peers("rest-server")["rest-server"]
        ports = Ports()
        port = ports.take()
        ports.close()
        (BED.directory / "rest").mkdir()
        BED.processes.start("rest-server", [program, "--listen", f"{node.ADDRESS}:{port}",
                                            "--no-auth", "--path", BED.directory / "rest"])
        cls.location = f"rest:http://{node.ADDRESS}:{port}/volumes"
        BED.processes.wait_ready("rest-server", lambda: accepts(node.ADDRESS, port))
        encode = base64.b64encode
        cls.kube.apply({"apiVersion": "v1", "kind": "Secret",
                        "metadata": {"name": SECRET, "namespace": SPACE},
                        "data": {"CAIRN_REPOSITORY": encode(cls.location.encode()).decode(),
                                 "RESTIC_PASSWORD": encode(PASSWORD.encode()).decode()}})

    @classmethod
    def make_accounts(cls):
        cls.pods.csi.make_client(SPACE, "reader")  # of the Job's pod
        cls.kube.service_account(SPACE, "user")
        cls.kube.allow("user-here", f"{SPACE}:user", role="cairn-backup", namespace=SPACE)
        for role in ("cluster", "filesystem"):
            cls.kube.allow(f"user-{role}", f"{SPACE}:user", role=f"cairn-backup-{role}")
        cls.config = cls.kube.kubeconfig_of_account(SPACE, "user")

    # ---- cairn ----

    @classmethod
    def cairn(cls, *args, environment=None, status=0, output="json"):
        done = subprocess.run([BED.cairn, "backup", *map(str, args), "-o", output], text=True,
                              env=environment or cls.environment, stdin=subprocess.DEVNULL,
                              capture_output=True, timeout=400, check=False)
        if done.returncode != status:
            raise AssertionError(f"{done.args}: {done.returncode} {done.stdout}{done.stderr}")
        return done

    def words(self, claim):
        # There is no DNS here; the certificate is for the name that the object has.
        address = self.pods.sidecar_address()
        return ["create", "--namespace", SPACE, "--pvc", claim, "--repository-secret", SECRET,
                "--service-account", "reader", "--metadata-address", f"{address}:6443"]

    def back_up(self, claim, *args):
        done = self.cairn(*self.words(claim), *args)
        return [json.loads(line) for line in done.stdout.splitlines()][-1]

    def restore(self, backup, claim, *args, **how):
        return self.cairn("restore", backup, "--namespace", SPACE, "--pvc", claim,
                          "--repository-secret", SECRET, *args, **how)

    # ---- the cluster ----

    def left(self):
        found = []
        for kind in ("volumesnapshot", "pvc", "job", "lease", "pod"):
            listed = self.kube.get(kind, "-n", SPACE)
            found += [f"{kind} {item['metadata']['name']}" for item in listed["items"]
                      if item["metadata"].get("labels", {}).get(ROLE) in ("create", "restore")
                      or item["metadata"]["name"].startswith("cairn-create")]
        return found

    def assert_nothing_left(self):
        # The snapshotter may find what it has forgotten only when it looks at all again.
        try:
            wait_until(lambda: not self.left(), 240, "nothing is left")
        except Failed as failed:
            raise AssertionError(f"{failed}\n{self.what_is_left()}") from None

    def what_is_left(self):
        """With what the controllers and the driver have said of it."""
        found = self.left()
        shown = self.kube.get("volumesnapshot", "-n", SPACE)["items"]
        shown += self.kube.get("volumesnapshotcontent")["items"]
        words = {item["metadata"]["uid"] for item in shown}
        words |= {item["metadata"]["name"] for item in shown}
        logs = [BED.processes.log_text("snapshot-controller"),
                *(self.kube.kubectl("logs", "-n", "cairn", what) for what in
                  ("deployment/cairn-snapshotter", "statefulset/cairn-driver"))]
        lines = [line for log in logs for line in
                 [line for line in log.splitlines() if any(word in line for word in words)]
                 [-LINES_SHOWN:]]
        return "\n".join([str(found), *map(json.dumps, shown), *lines])

    def bases(self):
        listed = self.kube.get("volumesnapshot", "-n", SPACE)
        return [item["metadata"]["name"] for item in listed["items"]
                if item["metadata"].get("labels", {}).get(ROLE) == "base"]

    def require_base(self, required):
        self.kube.kubectl("patch", "snapshotmetadataservice", "cairn.csi.dev", "--type=merge",
                          "-p", json.dumps({"spec": {"requireBaseSnapshotForDelta": required}}))

    def remove(self, kind, *names):
        self.kube.delete(kind, *names)

    def application(self, name, script, mode="Block"):
        """A pod that wrote to the claim of that name and stays."""
        self.pods.claim(name, mode=mode)
        self.addCleanup(self.remove, "pvc", name)
        where = "/dev/data" if mode == "Block" else "/data"
        self.pods.start(f"app-{name}", f"{script}; sync; echo written; {FOREVER}",
                        [(name, where)])
        self.addCleanup(self.remove, "pod", f"app-{name}")
        self.pods.wait(f"app-{name}", "Running")
        wait_until(lambda: "written" in self.kube.kubectl("logs", f"app-{name}"), 180, "written")

    def run_in(self, name, script):
        return self.pods.execute(f"app-{name}", script)

    def sum_of(self, claim):
        """Of a claim that no pod uses."""
        log = self.pods.run(f"sum-{claim}", "sha256sum /dev/data", [(claim, "/dev/data")])
        return log.split()[0]

    # ---- tests ----

    def test_the_story(self):
        self.require_base(False)
        self.application("data", "dd if=/dev/urandom of=/dev/data bs=1M seek=2 count=8 "
                                 "conv=fsync 2>/dev/null")
        full = self.back_up("data")
        self.assertEqual((full["mode"], full["volume"]), ("allocated", f"{SPACE}/data"))
        self.assertEqual(full["bytes_changed"], 8 * MIB)
        self.assert_nothing_left()
        self.run_in("data", "dd if=/dev/urandom of=/dev/data bs=4k seek=9000 count=3 "
                            "conv=fsync 2>/dev/null")
        more = self.back_up("data", "--snapshot-class", "cairn")
        self.assertEqual((more["mode"], more["parent"]), ("changed", full["id"]))
        self.assertEqual(more["bytes_changed"], 3 * BLOCK)
        self.assertLess(more["bytes_read"], MIB)
        self.assertEqual(self.bases(), [])
        want = self.run_in("data", "sha256sum /dev/data").split()[0]
        # The application goes on; a backup stays what it was.
        self.run_in("data", "dd if=/dev/zero of=/dev/data bs=1M count=4 conv=fsync 2>/dev/null")
        self.restore(more["id"], "new", "--verify")
        self.addCleanup(self.remove, "pvc", "new")
        made = self.kube.get("pvc", "new")
        self.assertNotIn("ownerReferences", made["metadata"])
        self.assertEqual((made["spec"]["volumeMode"], made["spec"]["resources"]["requests"]),
                         ("Block", {"storage": str(64 * MIB)}))
        self.assertEqual(self.sum_of("new"), want)
        self.assert_nothing_left()
        # Nobody who looks at what was made sees the password.
        self.assertNotIn(PASSWORD, self.kube.kubectl("get", "pod,job,event,pvc", "-A", "-o",
                                                     "json"))
        listed = json.loads(self.cairn("list", environment=self.own).stdout)["backups"]
        self.assertEqual([(one["volume"], one["host"]) for one in listed[-2:]],
                         [(f"{SPACE}/data", SPACE)] * 2)

    def test_files_come_back_as_files(self):
        self.require_base(True)
        self.application("files", "dd if=/dev/urandom of=/data/file bs=1M count=3 2>/dev/null",
                         mode="Filesystem")
        want = self.run_in("files", "sha256sum /data/file").split()[0]
        made = self.back_up("files")
        self.assertEqual(self.bases(), [made["snapshot"]])
        self.restore(made["id"], "files-new")
        self.addCleanup(self.remove, "pvc", "files-new")
        log = self.pods.run("reader", "sha256sum /data/file; grep ' /data ' /proc/mounts",
                            [("files-new", "/data")])
        self.assertIn(want, log)
        self.assertRegex(log, r"/dev/loop\d+ /data ext4")
        self.assert_nothing_left()
        self.assertEqual(self.bases(), [made["snapshot"]])
        # The next one builds on the base and replaces it.
        self.run_in("files", "dd if=/dev/urandom of=/data/more bs=4k count=2 2>/dev/null; sync")
        more = self.back_up("files")
        self.assertEqual((more["mode"], more["parent"]), ("changed", made["id"]))
        wait_until(lambda: self.bases() == [more["snapshot"]], 180, "one base")
        self.require_base(False)
        self.remove("volumesnapshot", more["snapshot"])

    def test_what_is_wrong_is_said(self):
        self.require_base(False)
        claims = [f"wrong-{i}" for i in range(4)]
        for claim in claims:
            self.application(claim, "true")
        secret, image, account, parent = map(self.words, claims)
        quick = ["--ready-timeout", "45s"]
        cases = (
            (self.words("nothing"), 5, "there is no claim 'default/nothing'"),
            ([*secret, "--repository-secret", "none", *quick], 9, 'secret "none" not found'),
            ([*image, "--image", "localhost/none:1", *quick], 4, "localhost/none:1"),
            ([*account, "--service-account", "none", *quick], 4,
             'serviceaccount "none" not found'),
            ([*parent, "--parent", "0123abcd"], 5, "0123abcd"),
        )
        # They wait; a claim is backed up by one run at a time.
        with concurrent.futures.ThreadPoolExecutor(len(cases)) as pool:
            runs = [pool.submit(self.cairn, *args, status=status) for args, status, _ in cases]
        for run, (_, _, text) in zip(runs, cases):
            with self.subTest(text):
                said = json.loads(run.result().stderr.splitlines()[-1])["message"]
                self.assertIn(text, said)
        done = self.restore("0123abcd", "target", status=5)
        self.assertIn("0123abcd", done.stderr)
        self.assertIsNone(self.kube.get("pvc", "target"))
        self.assert_nothing_left()

    def test_interrupts_and_kills(self):
        self.require_base(False)
        self.application("cut", "dd if=/dev/urandom of=/dev/data bs=1M count=24 conv=fsync "
                                "2>/dev/null")
        chance = random.Random(1)
        with self.begin("cut") as child:
            wait_until(lambda: any("pod" in what for what in self.left()), 180, "a pod")
            time.sleep(chance.uniform(0, 3))
            child.send_signal(signal.SIGINT)
            _, said = child.communicate(timeout=120)
        self.assertEqual(child.returncode, 128 + signal.SIGINT, said)
        self.assert_nothing_left()
        for turn in range(3):
            with self.begin("cut") as child:
                time.sleep(chance.uniform(0.1, 8))
                child.kill()
            with self.subTest(turn):
                self.back_up("cut")
                self.assert_nothing_left()

    @contextlib.contextmanager
    def begin(self, claim, *args):
        """A backup that goes on meanwhile, and not after the block, also when that fails."""
        with subprocess.Popen([BED.cairn, "backup", *self.words(claim), *map(str, args)],
                              env=self.environment, stdin=subprocess.DEVNULL, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
            try:
                yield child
            finally:
                child.kill()

    def patch_file(self, name, patch):
        path = self.scratch / name
        path.write_text(json.dumps(patch))
        return path

    def test_what_a_killed_run_leaves_goes_without_another(self):
        self.require_base(False)
        self.application("alone", "dd if=/dev/urandom of=/dev/data bs=1M count=2 conv=fsync "
                                  "2>/dev/null")
        patch = self.patch_file("soon.json", {"spec": {"ttlSecondsAfterFinished": 3}})
        # Before and after its pod can start; the first waits for a claim until its deadline.
        for kind in ("job", "pvc"):
            with self.subTest(kind), self.begin("alone", "--job-patch", patch, "--timeout",
                                                "40s") as child:
                wait_until(lambda kind=kind: any(what.startswith(kind) for what in self.left()),
                           60, kind)
                child.kill()
                child.communicate()
                self.assert_nothing_left()

    def test_a_job_that_takes_too_long(self):
        self.require_base(False)
        self.application("late", "true")
        # Its pod cannot be scheduled anywhere.
        patch = self.patch_file("nowhere.json", {"spec": {"template": {"spec": {
            "nodeSelector": {"is": "nowhere"}}}}})
        done = self.cairn(*self.words("late"), "--job-patch", patch, "--timeout", "6s", status=4)
        self.assertIn("did not end within 6 s", done.stderr)
        done = self.cairn(*self.words("late"), "--job-patch", patch, "--ready-timeout", "30s",
                          status=4)
        self.assertIn("Unschedulable", done.stderr)
        self.assert_nothing_left()

    def test_a_run_that_was_killed_after_its_backup_counts(self):
        self.require_base(True)
        self.application("late-kill", "dd if=/dev/urandom of=/dev/data bs=1M count=2 conv=fsync "
                                      "2>/dev/null")
        with self.begin("late-kill") as child:
            # From its claim on the Job needs nobody.
            wait_until(lambda: any("pvc" in what for what in self.left()), 180, "a claim")
            child.send_signal(signal.SIGSTOP)
            wait_until(lambda: any(job["status"].get("succeeded") for job in self.kube.get(
                "job", "-n", SPACE)["items"]), 120, "the Job has ended")
            child.kill()
            child.communicate()
        made = json.loads(self.cairn("list", environment=self.own).stdout)["backups"][-1]
        self.assertEqual(made["volume"], f"{SPACE}/late-kill")
        done = self.cairn(*self.words("late-kill"))
        self.assertIn(f"VolumeSnapshot '{made['snapshot']}' is the base now", done.stdout)
        more = json.loads(done.stdout.splitlines()[-1])
        self.assertEqual((more["mode"], more["parent"], more["bytes_changed"]),
                         ("changed", made["id"], 0))
        wait_until(lambda: self.bases() == [more["snapshot"]], 180, "one base")
        self.require_base(False)
        self.remove("volumesnapshot", more["snapshot"])
        self.assert_nothing_left()

    def test_a_repository_on_a_claim(self):
        self.require_base(False)
        self.application("kept-here", "dd if=/dev/urandom of=/dev/data bs=1M count=2 conv=fsync "
                                      "2>/dev/null")
        self.pods.claim("store", size="256Mi", mode="Filesystem")
        self.addCleanup(self.remove, "pvc", "store")
        self.pods.run("init", "cairn backup init -r /store >/dev/null", [("store", "/store")],
                      image=node.BACKUP, env=[{"name": "RESTIC_PASSWORD", "value": "x"}])
        self.kube.apply({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "only-password"},
                         "stringData": {"RESTIC_PASSWORD": "x"}})
        where = ["--repository-secret", "only-password", "--repository-claim", "store"]
        made = self.back_up("kept-here", *where)
        self.restore(made["id"], "kept-new", *where)
        self.addCleanup(self.remove, "pvc", "kept-new")
        self.assertEqual(self.sum_of("kept-new"),
                         self.run_in("kept-here", "sha256sum /dev/data").split()[0])
        # A wrong password is said as one, and not tried again.
        self.kube.apply({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "only-password"},
                         "stringData": {"RESTIC_PASSWORD": "y"}})
        done = self.cairn(*self.words("kept-here"), *where, status=16)
        self.assertIn("password", done.stderr)
        self.assert_nothing_left()

    def test_certificates_of_the_repository_come_from_the_secret(self):
        self.require_base(False)
        self.application("trusted", "true")
        crt, key = BED.control_plane.authority.issue(
            "rest", "/CN=rest", SERVER, [f"IP:{node.ADDRESS}"])
        ports = Ports()
        port = ports.take()
        ports.close()
        BED.processes.start("rest-tls", [cluster.peers("rest-server")["rest-server"], "--listen",
                                         f"{node.ADDRESS}:{port}", "--no-auth", "--tls",
                                         "--tls-cert", crt, "--tls-key", key, "--path",
                                         self.scratch / "rest"])
        authority = BED.control_plane.authority.crt.read_text()
        self.kube.apply({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "trusting"},
                         "stringData": {"RESTIC_PASSWORD": PASSWORD, "authority": authority}})
        made = self.back_up("trusted", "--repository-secret", "trusting", "--secret-ca",
                            "authority", "--repository",
                            f"rest:https://{node.ADDRESS}:{port}/volumes")
        self.assertEqual(made["volume"], f"{SPACE}/trusted")
        self.assert_nothing_left()

    def test_the_cronjob_that_is_shipped(self):
        """deploy/backup as it is, but for the address that DNS would give."""
        self.require_base(False)
        self.application("data", "dd if=/dev/urandom of=/dev/data bs=1M count=2 conv=fsync "
                                 "2>/dev/null")
        secret = self.kube.get("secret", SECRET)["data"]
        self.kube.apply({"apiVersion": "v1", "kind": "Secret", "data": secret,
                         "metadata": {"name": "backup-repository", "namespace": SPACE}})
        shipped = list(yaml.safe_load_all(self.kube.kubectl("kustomize", DEPLOY / "backup")))
        address = self.pods.sidecar_address()
        for item in shipped:
            if item["kind"] != "CronJob":
                continue
            item["spec"]["suspend"] = True  # none of them at its hour, if that comes meanwhile
            if item["metadata"]["name"] == "cairn-backup":
                pod = item["spec"]["jobTemplate"]["spec"]["template"]["spec"]
                pod["containers"][0]["args"].append(f"--metadata-address={address}:6443")
        self.kube.apply(shipped, "--server-side")
        for name in ("cairn-backup", "cairn-backup-forget"):
            job = f"once-{name}"
            self.kube.kubectl("create", "job", job, f"--from=cronjob/{name}")
            self.addCleanup(self.remove, "job", job)
            self.kube.wait(lambda found: any(
                condition["type"] in ("Complete", "Failed") and condition["status"] == "True"
                for condition in found["status"].get("conditions", [])), "job", job, seconds=180)
            log = self.kube.kubectl("logs", f"job/{job}")
            self.assertIn("succeeded", self.kube.get("job", job)["status"], log)
            if name == "cairn-backup":
                said = json.loads(log.splitlines()[-1])
                self.assertEqual((said["event"], said["volume"]), ("summary", f"{SPACE}/data"))
        self.assert_nothing_left()

    def test_the_api_server_goes_away_and_comes_back(self):
        self.require_base(False)
        self.application("away", "dd if=/dev/urandom of=/dev/data bs=1M count=8 conv=fsync "
                                 "2>/dev/null")
        with self.begin("away") as child:
            wait_until(lambda: any("pod" in what for what in self.left()), 180, "a pod")
            BED.processes.kill("kube-apiserver")
            time.sleep(6)
            BED.processes.restart("kube-apiserver")
            out, said = child.communicate(timeout=180)
        self.assertEqual(child.returncode, 0, said)
        self.assertIn(f"of {SPACE}/away@", out)
        self.assert_nothing_left()


class RightsOfAllThat(unittest.TestCase):
    """After the others: of the rights of deploy/ for backups, each was needed."""

    ROLES = ("cairn-backup", "cairn-backup-cluster", "cairn-backup-filesystem",
             "cairn-backup-job-token")
    # Read without a Job only: test_backup_claim.py; of a snapshot that was named: test_nodes.py
    ELSEWHERE = ("csidrivers", "get volumesnapshotcontents")

    def test_nothing_was_refused_and_nothing_is_in_vain(self):
        self.maxDiff = None
        rights = Rights(BED.kube, AUDIT)
        for account in ("user", "reader", "cairn-backup", "cairn-backup-job"):
            self.assertEqual(rights.refused(f"{ACCOUNT}{SPACE}:{account}"), {})
        self.assertEqual(rights.in_vain(self.ROLES, self.ELSEWHERE), {})
        counted, left = rights.removed_one_by_one(self.ROLES)
        print(f"{counted} rights of {len(self.ROLES)} roles taken away one by one")
        self.assertEqual(left, [])


if __name__ == "__main__":
    skip_unless_possible()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    unittest.main()
