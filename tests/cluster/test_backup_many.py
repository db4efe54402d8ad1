#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""`cairn backup create --selector`: claims on two nodes, their Jobs placed by the real scheduler and
played by playedkubelet.py. Who runs the command has the rights of deploy/rbac/backup.yaml."""
import collections
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest
import urllib.request

import cluster
from nodesbed import CLASS, DEPLOY, NodesBed, enter_network
from playedkubelet import CLAIM, ROLE, PlayedKubelet
from processes import Ports, wait_until
from rights import ACCOUNT, Audit, Rights

cluster.peers_or_skip(*cluster.CONTROL_PLANE, *NodesBed.PROGRAMS, "snapshot-crds")
NODES = ("one", "two")
LONG = 300
LABELS = {"app": "db"}


def setUpModule():
    global BED, AUDIT, KUBELET  # pylint: disable=global-statement
    enter_network(len(NODES))
    directory = pathlib.Path(tempfile.mkdtemp(prefix="cairn-cluster-"))
    AUDIT = Audit(directory)
    bed = unittest.enterModuleContext(cluster.Cluster(directory, crds=True, scheduler=True,
                                                      apiserver_args=AUDIT.words))
    bed.programs.update(cluster.peers(*NodesBed.PROGRAMS))
    BED = NodesBed(bed, NODES)
    BED.start()
    KUBELET = unittest.enterModuleContext(PlayedKubelet(BED))


class Many(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.bed, cls.kube, cls.kubelet = BED, BED.kube, KUBELET
        cls.patch = BED.cluster.directory / "job-patch.json"
        cls.patch.write_text(json.dumps({"spec": {"template": {"spec": {
            "tolerations": [{"operator": "Exists"}], "terminationGracePeriodSeconds": 0}}}}))

    def setUp(self):
        self.space = self.id().rsplit(".", 1)[1].replace("_", "-")[5:65].rstrip("-")
        self.kube.namespace(self.space)
        self.kubelet.forget()
        account = f"{self.space}:backup"
        self.kube.service_account(self.space, "backup")
        self.kube.allow("backup", account, role="cairn-backup", namespace=self.space)
        self.kube.allow(f"backup-{self.space}", account, role="cairn-backup-cluster")
        self.config = self.kube.kubeconfig_of_account(self.space, "backup")

    # ---- claims ----

    def claim(self, name, node, labels=None, wait=True):
        """With the pod that chooses its node."""
        pod = self.bed.pod(f"user-{name[:40]}", self.space, claims=["data"],
                           selector={"kubernetes.io/hostname": node})
        pod["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"] = name
        self.kube.apply([
            {"apiVersion": "v1", "kind": "PersistentVolumeClaim",
             "metadata": {"name": name, "namespace": self.space,
                          "labels": LABELS if labels is None else labels},
             "spec": {"accessModes": ["ReadWriteOnce"], "volumeMode": "Block",
                      "storageClassName": CLASS, "resources": {"requests": {"storage": "16Mi"}}}},
            *([pod] if node else [])])
        if wait:
            self.kube.wait(lambda claim: claim["status"]["phase"] == "Bound",
                           "-n", self.space, "pvc", name, seconds=LONG)

    def made(self, kind):
        return [item for item in self.kube.get("-n", self.space, kind)["items"]
                if item["metadata"].get("labels", {}).get(ROLE) in ("create", "restore")
                or item["metadata"]["name"].startswith("cairn-create")]

    def assert_nothing_left(self):
        for kind in ("job", "pvc", "volumesnapshot", "lease"):
            wait_until(lambda kind=kind: not self.made(kind), LONG, f"no {kind} is left")

    # ---- cairn ----

    def words(self, *words, selector="app=db"):
        return [str(word) for word in (
            self.bed.cluster.cairn, "backup", "create", "--kubeconfig", self.config, "--namespace",
            self.space, "--selector", selector, "--repository-secret", "none", "--image", "none",
            "--job-patch", self.patch, "--ready-timeout", f"{LONG}s", "-o", "ndjson", *words)]

    def run_cairn(self, *words, status=0, **how):
        """{claim: the last event of it}, and what was written."""
        done = subprocess.run(self.words(*words, **how), stdin=subprocess.DEVNULL, text=True,
                              capture_output=True, timeout=4 * LONG, check=False)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return self.outcomes(done.stdout), done

    @staticmethod
    def outcomes(text):
        found = {}
        for event in map(json.loads, text.splitlines()):
            if event.get("event") in ("summary", "failure", "skipped", "report"):
                found[event.get("claim")] = event
        return found

    def start(self, *words, **how):
        child = subprocess.Popen(self.words(*words, **how), stdin=subprocess.DEVNULL, text=True,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(child.wait)
        self.addCleanup(child.kill)
        return child

    def jobs_of_claims(self):
        return collections.Counter(job["metadata"]["annotations"][CLAIM] for job in self.made("job"))

    # ---- tests ----

    def test_claims_by_label_each_on_its_node_within_the_limits(self):
        long = "l" * 120  # longer than a label and than a Job's name may be
        for name, node in (("a", "one"), ("b", "one"), ("c", "two"), (long, "two")):
            self.claim(name, node)
        self.claim("other", "one", labels={"app": "web"})
        found, _ = self.run_cairn("--jobs", 4, "--jobs-per-node", 1)
        self.assertEqual({claim: (event["event"], event.get("node"))
                          for claim, event in found.items() if claim},
                         {"a": ("summary", "one"), "b": ("summary", "one"), "c": ("summary", "two"),
                          long: ("summary", "two")})
        self.assertEqual([found[None][key] for key in ("backups", "failed", "skipped", "bytes_read")],
                         [4, 0, 0, 4 * 4096])
        self.assertEqual(sorted(self.kubelet.backups),
                         [("a", "one"), ("b", "one"), ("c", "two"), (long, "two")])
        self.assertEqual((self.kubelet.most["one"], self.kubelet.most["two"]), (1, 1))
        self.assert_nothing_left()

    def test_the_limits_are_reached(self):
        for name, node in (("a", "one"), ("b", "one"), ("c", "two"), ("d", "two")):
            self.claim(name, node)
        self.kubelet.hold()
        child = self.start("--jobs", 3, "--jobs-per-node", 2, "--init")
        wait_until(lambda: self.kubelet.most[None] == 3, LONG, "three Jobs at a time")
        jobs = self.made("job")
        self.assertEqual(len(jobs), 3)
        self.assertIn("--init", jobs[0]["spec"]["template"]["spec"]["containers"][0]["args"])
        self.kubelet.release()
        out, said = child.communicate(timeout=LONG)
        self.assertEqual(child.returncode, 0, said)
        self.assertEqual(self.outcomes(out)[None]["backups"], 4)
        self.assertEqual(self.kubelet.most[None], 3)
        self.assert_nothing_left()

    def test_one_that_fails_leaves_the_others_alone(self):
        for name in ("a", "b", "c"):
            self.claim(name, "one")
        self.claim("unbound", None, wait=False)
        self.kubelet.fail("b", "FAILED_PRECONDITION", "the repository is not initialised")
        found, done = self.run_cairn(status=9)
        self.assertEqual({claim: event["event"] for claim, event in found.items()},
                         {"a": "summary", "b": "failure", "c": "summary", "unbound": "skipped",
                          None: "report"})
        self.assertIn("not initialised", found["b"]["error"])
        self.assertEqual((found["b"]["code"], found["unbound"]["reason"]), (9, "it has no volume yet"))
        self.assertEqual([found[None][key] for key in ("backups", "failed", "skipped")], [2, 1, 1])
        self.assertIn("1 of 4 claims failed; 'b'", done.stdout + done.stderr)
        self.assert_nothing_left()
        done = subprocess.run([*self.words()[:-2], "-o", "table"], stdin=subprocess.DEVNULL, text=True,
                              capture_output=True, timeout=4 * LONG, check=False)
        self.assertEqual(done.returncode, 9)
        self.assertIn("2 of 4 claims backed up, 1 failed, 1 skipped", done.stdout)
        self.assertIn("b is not backed up: ", done.stderr)
        self.assert_nothing_left()

    def test_a_selector_that_chooses_nothing_is_an_error(self):
        self.claim("a", "one", labels={"app": "web"})
        for selector, status, text in (
                ("app=db", 5, f"no claim in namespace '{self.space}' matches the selector 'app=db'"),
                ("app=db&limit=1", 3, "selector"), ("app in (", 3, "selector"),
                ("=", 3, "selector")):
            with self.subTest(selector):
                _, done = self.run_cairn(status=status, selector=selector)
                self.assertIn(text, done.stdout + done.stderr)
        self.claim("unbound", None, wait=False)
        _, done = self.run_cairn(status=5)
        self.assertIn("none of the 1 claims", done.stdout + done.stderr)
        self.assert_nothing_left()

    def test_a_node_that_is_gone_fails_only_its_own(self):
        for name, node in (("a", "two"), ("b", "two"), ("c", "one")):
            self.claim(name, node)
        lost = self.bed.nodes["two"]
        lost.kill()
        self.addCleanup(lost.start)
        found, _ = self.run_cairn("--jobs", 1, "--ready-timeout", "30s", status=4)
        self.assertEqual({claim: event["event"] for claim, event in found.items() if claim},
                         {"a": "failure", "b": "failure", "c": "summary"})
        self.assertEqual((found["a"]["node"], found["a"]["code"]), ("two", 4))
        # A snapshot of the lost node stays until its snapshotter is back.
        for kind in ("job", "pvc", "lease"):
            wait_until(lambda kind=kind: not self.made(kind), LONG, f"no {kind} is left")

    def test_an_interrupt_leaves_nothing(self):
        for name, node in (("a", "one"), ("b", "one"), ("c", "two")):
            self.claim(name, node)
        self.kubelet.hold()
        child = self.start()
        wait_until(lambda: self.kubelet.most[None] == 2, LONG, "two Jobs")
        child.send_signal(signal.SIGTERM)
        out, said = child.communicate(timeout=LONG)
        self.assertEqual(child.returncode, 128 + signal.SIGTERM, said)
        found = self.outcomes(out)
        self.assertEqual({claim: event["event"] for claim, event in found.items() if claim},
                         dict.fromkeys("abc", "failure"))
        self.assertIn("interrupted before it began", found["b"]["error"])
        self.assert_nothing_left()

    def test_a_killed_run_is_taken_over_by_the_next(self):
        for name, node in (("a", "one"), ("b", "two")):
            self.claim(name, node)
        self.kubelet.hold()
        child = self.start()
        wait_until(lambda: self.kubelet.most[None] == 2, LONG, "two Jobs")
        child.kill()
        child.communicate(timeout=LONG)
        old = {job["metadata"]["name"] for job in self.made("job")}
        self.assertEqual(len(old), 2)
        self.kubelet.release()
        found, _ = self.run_cairn()
        self.assertEqual(found[None]["backups"], 2)
        self.assert_nothing_left()

    def test_two_runs_at_once_take_turns(self):
        for name, node in (("a", "one"), ("b", "two"), ("c", "one")):
            self.claim(name, node)
        both = [self.start("--lock-wait", f"{LONG}s") for _ in range(2)]
        for child in both:
            out, said = child.communicate(timeout=2 * LONG)
            self.assertEqual(child.returncode, 0, out + said)
            self.assertEqual(self.outcomes(out)[None]["backups"], 3)
        self.assertEqual(collections.Counter(claim for claim, _ in self.kubelet.backups),
                         {"a": 2, "b": 2, "c": 2})
        self.assert_nothing_left()

    def test_a_claim_that_is_deleted_meanwhile_is_skipped(self):
        for name in ("a", "b"):
            self.claim(name, "one")
        self.kubelet.hold()
        child = self.start()
        wait_until(lambda: self.kubelet.most[None] == 1, LONG, "a Job")
        self.kube.delete("-n", self.space, "pod", "user-b")
        self.kube.delete("-n", self.space, "pvc", "b")
        self.kubelet.release()
        out, said = child.communicate(timeout=LONG)
        self.assertEqual(child.returncode, 0, out + said)
        found = self.outcomes(out)
        self.assertEqual((found["a"]["event"], found["b"]["event"], found["b"].get("reason")),
                         ("summary", "skipped", "it was deleted meanwhile"))
        self.assert_nothing_left()

    def events(self, kind, name):
        """{reason: (type, note)} of the Events about an object."""
        listed = self.kube.request("GET", f"/apis/events.k8s.io/v1/namespaces/{self.space}/events")
        return {item["reason"]: (item["type"], item["note"]) for item in listed["items"]
                if (item["regarding"]["kind"], item["regarding"]["name"]) == (kind, name)
                and item["reportingController"] == "cairn.dev/backup"}

    def record(self, claim):
        notes = self.kube.get("-n", self.space, "pvc", claim)["metadata"]["annotations"]
        found = [json.loads(text) for key, text in notes.items()
                 if key.startswith("backup.cairn.csi.dev/")]
        self.assertEqual(len(found), 1)
        return found[0]

    def test_events_and_records_say_what_happened(self):
        for name in ("a", "b"):
            self.claim(name, "one")
        self.kubelet.fail("b", "FAILED_PRECONDITION", "the repository is not initialised")
        self.kubelet.summaries["a"] = {"mode": "allocated", "reason": "there is no backup to build on"}
        found, _ = self.run_cairn("--base", "keep", status=9)
        claim = "PersistentVolumeClaim"
        self.assertEqual(set(self.events(claim, "a")), {"BackupStarted", "BackupFinished"})
        self.assertEqual(set(self.events("VolumeSnapshot", self.bases()[0])), {"BackupFinished"})
        self.assertEqual(self.events(claim, "b")["BackupFailed"],
                         ("Warning", "the repository is not initialised"))
        self.assertEqual([self.record("b")[key] for key in ("ok", "backups", "failures", "success")],
                         [False, 0, 1, 0])
        self.kubelet.forget()
        self.run_cairn()
        self.kubelet.summaries["a"] = {"mode": "allocated", "reason": "the changed blocks are unknown"}
        self.run_cairn()
        self.assertEqual(self.events(claim, "a")["BackupFellBack"],
                         ("Warning", "More than what changed was read: the changed blocks are unknown"))
        self.assertNotIn("BackupFellBack", self.events(claim, "b"))
        record = self.record("a")
        self.assertEqual([record[key] for key in ("ok", "backups", "failures", "fallbacks", "mode",
                                                  "read_bytes", "repository")],
                         [True, 3, 0, 1, "allocated", 4096, "none"])
        self.assertEqual([self.record("b")[key] for key in ("ok", "backups", "failures")],
                         [True, 2, 1])
        self.assertEqual(found["a"]["mode"], "allocated")
        self.check_metrics()

    def check_metrics(self):
        """`cairn manager --backups` with the rights of deploy/, and claims that lie."""
        self.claim("liar", "one", labels={})
        stolen = self.kube.get("-n", self.space, "pvc", "a")["metadata"]["annotations"]
        self.kube.kubectl("annotate", "-n", self.space, "pvc", "liar", *(
            f"{key}={text}" for key, text in {
                **{key: text for key, text in stolen.items() if key.startswith("backup.cairn")},
                "backup.cairn.csi.dev/x": "{", "backup.cairn.csi.dev/y": "[" * 4000}.items()))
        self.kube.namespace("cairn")
        self.kube.apply(DEPLOY / "components/backup-metrics/rbac.yaml")
        ports = Ports()
        port = ports.take()
        ports.close()
        config = self.kube.kubeconfig_of_account("cairn", "cairn-backup-metrics")
        self.bed.processes.start("backup-metrics", [
            self.bed.cluster.cairn, "manager", "--backups", f"--kubeconfig={config}",
            f"--http-endpoint=127.0.0.1:{port}"])
        self.addCleanup(self.bed.processes.stop, "backup-metrics")

        def scrape(path="metrics"):
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=60) as answer:
                return answer.read().decode()

        def is_ready():
            try:
                return scrape("readyz")
            except OSError:
                return False
        wait_until(is_ready, LONG, "the metrics are ready")
        labels = f'{{volume="{self.space}/a",repository="none"}}'
        wait_until(lambda: f"cairn_backup_success_total{labels} 3\n" in scrape(), LONG, "the record")
        text = scrape()
        for line in (f"cairn_backup_fallbacks_total{labels} 1", "cairn_backup_records_current 1",
                     f"cairn_backup_read_bytes{labels} 4096", f"cairn_backup_incremental{labels} 0",
                     f"cairn_backup_last_attempt_success{labels} 1"):
            self.assertIn(f"\n{line}\n", text)
        self.assertNotIn("liar", text)
        self.run_cairn()
        wait_until(lambda: f"cairn_backup_success_total{labels} 4\n" in scrape(), LONG, "the next")
        self.kube.delete("-n", self.space, "pod", "user-b")
        self.kube.delete("-n", self.space, "pvc", "b")
        wait_until(lambda: f"{self.space}/b" not in scrape(), LONG, "no metrics of a claim that is gone")

    def bases(self):
        return [item["metadata"]["name"] for item in
                self.kube.get("-n", self.space, "volumesnapshot")["items"]
                if item["metadata"].get("labels", {}).get(ROLE) == "base"]

    def test_without_the_right_to_events_one_line_says_so(self):
        for name in ("a", "b", "c"):
            self.claim(name, "one")
        rules = self.kube.request(
            "GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles/cairn-backup")["rules"]
        for rule in rules:
            if rule["resources"] == ["events"]:
                rule["verbs"].remove("create")
        self.kube.apply({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
                         "metadata": {"name": "silent"}, "rules": rules})
        self.kube.delete("-n", self.space, "rolebinding", "backup")
        self.kube.allow("backup", f"{self.space}:backup", role="silent", namespace=self.space)
        found, done = self.run_cairn("--jobs", 1)
        self.assertEqual(found[None]["backups"], 3)
        lines = [line for line in done.stdout.splitlines() if "Events are not written" in line]
        self.assertEqual(len(lines), 1, done.stdout)
        self.assertEqual(self.events("PersistentVolumeClaim", "a"), {})
        self.assertEqual(self.record("a")["backups"], 1)


class RightsOfAllThat(unittest.TestCase):
    """After the others: the rules that only many claims and Events need."""

    def test_nothing_was_refused_and_the_rules_are_needed(self):
        rights = Rights(BED.kube, AUDIT)
        refused = {user: what for user, what in rights.refused(ACCOUNT).items()
                   if user.endswith(":backup")}
        self.assertEqual([user for user in refused if "without-the-right" not in user], [])
        in_vain = str(rights.in_vain(["cairn-backup"]))
        self.assertNotRegex(in_vain, "resource='events', verb='create'")
        self.assertNotRegex(in_vain, "resource='persistentvolumeclaims', verb='list'")
        self.assertEqual(rights.in_vain(["cairn-backup-metrics"]), {})
        self.assertEqual(rights.removed_one_by_one(["cairn-backup-metrics"]), (2, []))


if __name__ == "__main__":
    if os.geteuid() != 0:
        print("skipped: a network namespace needs root")
        sys.exit(77)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    unittest.main()
