#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What deploy/ ships, on a real kubelet: pods on volumes, snapshots of them, and backups."""
import json
import pathlib
import signal
import subprocess
import sys
import unittest

import cluster
import node
from csistack import CsiStack
from processes import Processes, wait_until

MIB = 1 << 20
DEPLOY = cluster.REPOSITORY / "deploy"
DRIVER = "cairn.csi.dev"
CBT = "cbt.storage.k8s.io"
SERVICE = "cairn-snapshot-metadata.cairn.svc"
FOREVER = "exec sleep 100000"

KILLED = """
import test_node, time
with test_node.cluster.Cluster(node=True) as bed:
    print(bed.directory, flush=True)
    pods = test_node.Pods(bed)
    pods.install()
    pods.claim("raw")
    pods.claim("files", mode="Filesystem")
    pods.start("user", "while :; do date >>/data/log; done",
               [("raw", "/dev/raw"), ("files", "/data")])
    pods.wait("user", "Running")
    print("in use", flush=True)
    time.sleep(600)
"""


def skip_unless_possible():
    why = node.why_not()
    if why:
        print(f"skipped: {why}")
        sys.exit(77)
    cluster.peers_or_skip(*cluster.CONTROL_PLANE, "kubelet", "snapshot-crds",
                          "snapshot-controller", *node.CONTROLLERS)


def setUpModule():
    global BED  # pylint: disable=global-statement
    BED = unittest.enterModuleContext(cluster.Cluster(node=True))
    Pods(BED).install()


class Pods:
    """What tests make in the cluster."""

    def __init__(self, bed):
        self.bed, self.kube = bed, bed.kube
        self.csi = CsiStack(bed)

    def install(self, resync=None):
        """What deploy/ ships, as its README says. With `resync`, the snapshotter looks at all
        snapshots so often: it forgets some that are deleted while they are being made."""
        shipped = self.kube.kubectl("kustomize", DEPLOY / "overlays/snapshot-metadata")
        if resync:
            shipped = shipped.replace("--resync-period=1m", f"--resync-period={resync}")
        self.kube.apply(shipped)
        self.kube.apply(subprocess.run([DEPLOY / "certificates"], capture_output=True, text=True,
                                       check=True, timeout=60).stdout)
        self.wait_driver()

    def wait_driver(self):
        """Its pod and those beside it are ready, and the kubelet knows the driver."""
        self.kube.wait(lambda found: found["status"].get("readyReplicas") == 1,
                       "-n", "cairn", "statefulset", "cairn-driver", seconds=180)
        for name in ("provisioner", "snapshotter", "resizer", "snapshot-metadata"):
            self.kube.wait(lambda found: found["status"].get("readyReplicas") == 1
                           and not found["status"].get("unavailableReplicas"),
                           "-n", "cairn", "deployment", f"cairn-{name}", seconds=180)
        self.kube.wait(lambda found: DRIVER in [
            driver["name"] for driver in found["spec"]["drivers"] or []], "csinode", node.NAME)

    def part(self, name):
        """The pod of one part of it."""
        found = self.kube.get("-n", "cairn", "pods", "-l", f"app.kubernetes.io/component={name}")
        return next(pod for pod in found["items"]
                    if not pod["metadata"].get("deletionTimestamp"))

    def sidecar_address(self):
        return self.part("snapshot-metadata")["status"]["podIP"]

    def start(self, name, script, volumes=(), image=node.BUSYBOX, env=(), **spec):
        """A pod that runs `script`; a volume is (claim, where): a device if it is in /dev."""
        container = {"name": "main", "image": image, "command": ["/bin/sh", "-ec", script],
                     "imagePullPolicy": "Never", "volumeMounts": [], "volumeDevices": [],
                     "env": list(env)}
        for claim, where in volumes:
            if where.startswith("/dev/"):
                container["volumeDevices"].append({"name": claim, "devicePath": where})
            else:
                container["volumeMounts"].append({"name": claim, "mountPath": where})
        self.kube.apply({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
            "spec": {"terminationGracePeriodSeconds": 0, "restartPolicy": "Never",
                     "containers": [container],
                     "volumes": [{"name": claim, "persistentVolumeClaim": {"claimName": claim}}
                                 for claim, _ in volumes], **spec}})

    def wait(self, name, phase):
        """Its log, once it is in that phase."""
        self.kube.wait(lambda pod: pod["status"]["phase"] in (phase, "Failed"), "pod", name,
                       seconds=120)
        log = self.kube.kubectl("logs", name)
        if self.kube.get("pod", name)["status"]["phase"] != phase:
            raise AssertionError(f"pod {name} failed: {log}")
        return log

    def run(self, name, script, volumes=(), **spec):
        """What it wrote; it ends and is removed."""
        self.start(name, script, volumes, **spec)
        log = self.wait(name, "Succeeded")
        self.kube.delete("pod", name)
        return log

    def execute(self, name, script):
        return self.kube.kubectl("exec", name, "--", "/bin/sh", "-ec", script)

    def claim(self, name, size="64Mi", mode="Block", source=None):
        self.csi.claim(name, size, mode, source, wait=False)

    def driver_pid(self):
        """In the node."""
        return self.bed.node.run("pgrep", "-f", "cairn driver --pool").split()[0]

    def restarts(self, name):
        pod = self.kube.get("pod", name)
        return sum(status["restartCount"] for status in pod["status"]["containerStatuses"])


class OnNode(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.bed, cls.kube, cls.node, cls.pods = BED, BED.kube, BED.node, Pods(BED)

    def remove(self, kind, *names):
        self.kube.delete(kind, *names)

    def driver_pid_or_none(self):
        try:
            return self.pods.driver_pid()
        except subprocess.CalledProcessError:
            return None


class Story(OnNode):
    def test_the_kubelet_registers_the_driver_without_a_registrar(self):
        found = self.kube.get("csinode", node.NAME)["spec"]["drivers"]
        self.assertEqual([(d["name"], d["nodeID"], d["topologyKeys"]) for d in found],
                         [(DRIVER, node.NAME, [f"topology.{DRIVER}/node"])])

    def test_pods_write_to_devices_and_to_filesystems(self):
        self.pods.claim("raw")
        self.pods.claim("files", mode="Filesystem")
        self.pods.start("writer", f"""
            dd if=/dev/urandom of=/dev/raw bs=1M seek=3 count=2 conv=fsync 2>/dev/null
            dd if=/dev/urandom of=/data/file bs=1M count=4 2>/dev/null
            sync
            {FOREVER}""", [("raw", "/dev/raw"), ("files", "/data")])
        self.pods.wait("writer", "Running")
        # Not a directory of the node that happens to be there: its own filesystem.
        mounted = wait_until(lambda: self.pods.execute("writer", "grep ' /data ' /proc/mounts"),
                             120, "mounted")
        self.assertRegex(mounted, r"^/dev/loop\d+ /data ext4 rw")
        self.assertEqual(self.pods.execute("writer", "blockdev --getsize64 /dev/raw").strip(),
                         str(64 * MIB))
        wait_until(lambda: "done" in self.pods.execute(
            "writer", "test $(stat -c %s /data/file) = 4194304 && echo done || true"), 60,
            "written")
        # What the pod wrote is what the pool holds.
        raw = self.pods.execute("writer", "sync; sha256sum /dev/raw").split()[0]
        volume = self.pods.csi.volume_id("raw")
        path = self.node.cairn("volume", "path", volume).strip()
        self.assertEqual(self.node.run("sha256sum", path).split()[0], raw)
        file = self.pods.execute("writer", "sha256sum /data/file").split()[0]
        self.remove("pod", "writer")
        # Another pod finds it.
        log = self.pods.run("reader", "sha256sum /dev/raw /data/file; grep ' /data ' /proc/mounts",
                            [("raw", "/dev/raw"), ("files", "/data")])
        self.assertIn(f"{raw}  /dev/raw", log)
        self.assertIn(f"{file}  /data/file", log)
        self.remove("pvc", "raw", "files")

    def test_backups_by_a_client_that_may_do_nothing_else(self):
        """The user stories: a full backup from a snapshot, then an incremental one, each by
        a pod that lists blocks and reads them from a claim of the snapshot."""
        self.pods.claim("data")
        self.pods.start("app", f"""
            dd if=/dev/urandom of=/dev/data bs=1M seek=1 count=5 conv=fsync 2>/dev/null
            dd if=/dev/urandom of=/dev/data bs=4k seek=10000 count=3 conv=fsync 2>/dev/null
            echo written; {FOREVER}""", [("data", "/dev/data")])
        self.pods.wait("app", "Running")
        wait_until(lambda: "written" in self.kube.kubectl("logs", "app"), 180, "written")
        self.pods.csi.snapshot("monday", "data")
        monday = self.pods.execute("app", "sha256sum /dev/data").split()[0]
        self.pods.execute("app", "dd if=/dev/urandom of=/dev/data bs=4k seek=700 count=4 "
                                 "conv=fsync 2>/dev/null")
        self.pods.csi.snapshot("tuesday", "data")
        tuesday = self.pods.execute("app", "sha256sum /dev/data").split()[0]
        # The application goes on; a snapshot stays what it was.
        self.pods.execute("app", "dd if=/dev/zero of=/dev/data bs=1M count=64 conv=fsync "
                                 "2>/dev/null")
        self.pods.claim("target")
        self.pods.csi.make_client("default", "backup")
        full = self.back_up("full", "monday", monday)
        self.assertEqual(sum(size for _, size in full), 5 * MIB + 3 * 4096)
        increment = self.back_up("increment", "tuesday", tuesday, "-p monday")
        self.assertEqual(increment, [(700 * 4096, 4 * 4096)])
        self.remove("pod", "app")
        self.remove("volumesnapshot", "monday", "tuesday")
        self.remove("pvc", "data", "target")

    def back_up(self, name, snapshot, checksum, words=""):
        """[(offset, size)] of what was copied to the claim "target", which then equals
        the snapshot."""
        self.pods.claim(f"of-{snapshot}", source=snapshot)
        address = self.pods.sidecar_address()
        script = f"""
            cairn list -n default -s {snapshot} {words} >/tmp/list
            tail -n +3 /tmp/list | while read number capacity type offset size; do
                dd if=/dev/source of=/dev/target bs=4k skip=$((offset / 4096)) \
                    seek=$((offset / 4096)) count=$((size / 4096)) conv=notrunc 2>/dev/null
                echo block $offset $size
            done
            sync
            sha256sum /dev/target"""
        # There is no DNS here; the name is the one that the certificate is for.
        log = self.pods.run(name, script, [(f"of-{snapshot}", "/dev/source"),
                                           ("target", "/dev/target")],
                            image=node.BACKUP, serviceAccountName="backup",
                            hostAliases=[{"ip": address, "hostnames": [SERVICE]}])
        self.assertIn(f"{checksum}  /dev/target", log)
        self.remove("pvc", f"of-{snapshot}")
        lines = [line.split() for line in log.splitlines() if line.startswith("block ")]
        return [(int(offset), int(size)) for _, offset, size in lines]

    def test_a_claim_grows_while_a_pod_uses_it(self):
        self.kube.apply({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
                         "metadata": {"name": "xfs"}, "provisioner": DRIVER,
                         "allowVolumeExpansion": True,
                         "volumeBindingMode": "WaitForFirstConsumer",
                         "parameters": {"csi.storage.k8s.io/fstype": "xfs"}})
        self.pods.claim("device")
        self.pods.csi.claim("tree", "320Mi", "Filesystem", storage_class="xfs", wait=False)
        self.pods.start("user", f"echo kept >/data/file; {FOREVER}",
                        [("device", "/dev/device"), ("tree", "/data")])
        self.pods.wait("user", "Running")
        before = int(self.pods.execute("user", "df -k /data | tail -n 1").split()[1])
        for claim, size in (("device", "128Mi"), ("tree", "640Mi")):
            self.kube.kubectl("patch", "pvc", claim, "-p", json.dumps(
                {"spec": {"resources": {"requests": {"storage": size}}}}))
        self.kube.wait(lambda pvc: pvc["status"]["capacity"]["storage"] == "128Mi",
                       "pvc", "device", seconds=120)
        self.kube.wait(lambda pvc: pvc["status"]["capacity"]["storage"] == "640Mi",
                       "pvc", "tree", seconds=120)
        self.assertEqual(self.pods.execute("user", "blockdev --getsize64 /dev/device").strip(),
                         str(128 * MIB))
        after = int(self.pods.execute("user", "df -k /data | tail -n 1").split()[1])
        self.assertGreater(after, before * 3 // 2)
        self.assertEqual(self.pods.execute("user", "cat /data/file").strip(), "kept")
        self.remove("pod", "user")
        self.remove("pvc", "device", "tree")
        self.remove("storageclass", "xfs")

    def test_the_driver_is_killed_with_volumes_in_use(self):
        self.pods.claim("busy")
        self.pods.claim("tree", mode="Filesystem")
        self.pods.start("worker", f"""
            while :; do date +%s%N >>/data/log; dd if=/data/log of=/dev/busy conv=fsync,notrunc \
                2>/dev/null || echo failed >>/data/failed; sleep 0.1; done""",
                        [("busy", "/dev/busy"), ("tree", "/data")])
        self.pods.wait("worker", "Running")
        pid = self.pods.driver_pid()
        self.node.run("kill", "-KILL", pid)
        wait_until(lambda: self.driver_pid_or_none() not in (None, pid), 120,
                   "another driver")
        self.pods.wait_driver()
        # The pod did not notice, and the driver takes up where it was.
        lines = int(self.pods.execute("worker", "wc -l </data/log"))
        wait_until(lambda: int(self.pods.execute("worker", "wc -l </data/log")) > lines, 120,
                   "work goes on")
        self.assertEqual(self.pods.execute("worker", "ls /data/failed 2>/dev/null || true"), "")
        self.assertEqual(self.pods.restarts("worker"), 0)
        self.pods.csi.snapshot("during", "tree")
        # The whole pod of the driver goes and comes.
        self.kube.kubectl("delete", "pod", "-n", "cairn", "cairn-driver-0", "--force",
                          "--grace-period=0")
        self.pods.wait_driver()
        self.assertEqual(self.pods.execute("worker", "ls /data/failed 2>/dev/null || true"), "")
        self.remove("pod", "worker")
        log = self.pods.run("after", "wc -l </data/log; grep ' /data ' /proc/mounts",
                            [("busy", "/dev/busy"), ("tree", "/data")])
        self.assertGreater(int(log.split()[0]), lines)
        self.remove("volumesnapshot", "during")
        self.remove("pvc", "busy", "tree")

    def test_the_kubelet_is_killed(self):
        self.pods.claim("steady")
        self.pods.start("steady", f"echo some >/dev/steady; {FOREVER}",
                        [("steady", "/dev/steady")])
        self.pods.wait("steady", "Running")
        self.node.kill_kubelet()
        self.pods.claim("later")
        log = self.pods.run("later", "dd if=/dev/later bs=1M 2>/dev/null | wc -c",
                            [("later", "/dev/later")])
        self.assertEqual(int(log), 64 * MIB)
        self.assertEqual(self.pods.execute("steady", "head -c 4 /dev/steady"), "some")
        self.assertEqual(self.pods.restarts("steady"), 0)
        self.pods.wait_driver()
        self.remove("pod", "steady")
        self.remove("pvc", "steady", "later")


class StoryOfSessions(OnNode):
    """The manager in pods, two of them, and its webhook, from deploy/sessions."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.kube.apply(DEPLOY / "sessions")
        made = subprocess.run([DEPLOY / "certificates", "sessions"], check=True,
                              capture_output=True, text=True, timeout=60).stdout
        cls.kube.apply(made, "--server-side", "--force-conflicts",
                       "--field-manager=cairn-certificates")
        for what in ("statefulset/cairn-driver", "deployment/cairn-snapshot-metadata",
                     "deployment/cairn-manager"):
            cls.kube.kubectl("rollout", "status", "-n", "cairn", what, "--timeout=180s",
                             timeout=200)
        cls.pods.wait_driver()
        # The sidecar publishes where it is and whom to trust.
        trusted = cls.kube.get("snapshotmetadataservice", DRIVER)["spec"]
        cls.kube.wait(lambda found: found["spec"]["caCert"] == trusted["caCert"],
                      "snapshotservicesconfigurations", DRIVER)

    def ask(self, account):
        """A session for the snapshot "now", asked for by `account`: what kubectl said. The API
        server waits ten seconds for a webhook, which on a busy machine is not for ever."""
        config = self.kube.kubeconfig_of_account("default", account)
        request = json.dumps({"apiVersion": f"{CBT}/v1alpha2", "kind": "SnapshotSessionRequest",
                              "metadata": {"name": account, "namespace": "default"},
                              "spec": {"snapshots": ["now"]}})

        def answered():
            done = self.kube.run("create", "-f", "-", kubeconfig=config, text=request)
            return None if "context deadline exceeded" in done.stderr else done
        return wait_until(answered, 180, "the webhook answers")

    def test_a_session_is_given_to_who_may_read_the_snapshot(self):
        self.pods.claim("data")
        self.addCleanup(self.remove, "pvc", "data")
        self.pods.run("writer", "dd if=/dev/urandom of=/dev/data bs=1M count=1 2>/dev/null",
                      [("data", "/dev/data")])
        self.addCleanup(self.remove, "volumesnapshot", "now")
        self.pods.csi.snapshot("now", "data")
        for name in ("app", "nobody"):
            self.kube.service_account("default", name)
            self.kube.allow(f"session-{name}", f"default:{name}", role="cairn-session-client",
                            namespace="default")
        self.kube.allow("reads-now", "default:app", namespace="default",
                        role="cairn-snapshot-metadata-reader")
        refused = self.ask("nobody")
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("denied the request", refused.stderr, self.manager_logs())
        done = self.ask("app")
        self.assertEqual(done.returncode, 0, done.stderr)
        made = self.kube.wait(lambda found: found.get("status", {}).get("sessionState") in
                              ("Ready", "Failed"), "snapshotsessionrequest", "app")
        self.assertEqual(made["status"]["sessionState"], "Ready", made)
        self.remove("snapshotsessionrequest", "app")

    def manager_logs(self):
        return self.kube.kubectl("logs", "-n", "cairn", "--tail=40", "-l",
                                 "app.kubernetes.io/component=manager")


class Then(OnNode):
    """After the others: what is left when all is deleted, and when the cluster is gone."""

    def test_a_killed_program_leaves_nothing(self):
        """A second node, with volumes in use, whose program is killed."""
        with subprocess.Popen([sys.executable, "-c", KILLED], cwd=cluster.HERE, text=True,
                              stdout=subprocess.PIPE) as child:
            directory = pathlib.Path(child.stdout.readline().strip())
            self.assertEqual(child.stdout.readline(), "in use\n")
            loops = node.loops_of(node.namespace_of(Processes(directory)))
            self.assertGreater(len(loops), 2)
            child.kill()
        wait_until(lambda: not directory.exists(), 120, f"{directory} is gone")
        self.assertEqual(leftovers(directory, loops), [])

    def test_a_last_one_leaves_nothing(self):
        self.pods.claim("raw")
        self.pods.claim("files", mode="Filesystem")
        self.pods.start("user", FOREVER, [("raw", "/dev/raw"), ("files", "/data")])
        self.pods.wait("user", "Running")
        loops = self.node.loops()
        self.assertGreater(len(loops), 2)
        self.remove("pod", "user")
        self.remove("pvc", "raw", "files")
        # The one that leads to the driver's socket belongs to the installation.
        self.kube.wait(lambda found: all("csi" not in pv["spec"] for pv in found["items"]), "pv")
        # Only the image of the pool itself is still attached.
        wait_until(lambda: len(self.node.loops()) == 1, 120, "volumes are detached")
        self.assertEqual(json.loads(self.node.cairn("volume", "list", "-o", "json"))["volumes"], [])
        self.kube.kubectl("delete", "-k", DEPLOY / "overlays/snapshot-metadata", timeout=120)
        wait_until(lambda: self.driver_pid_or_none() is None, 180, "the driver is gone")
        table = self.node.run("cat", "/proc/mounts")
        self.assertNotIn("kubernetes.io/csi", table)
        self.assertEqual(self.node.run("find", "/var/lib/kubelet/plugins_registry", "-type", "s"),
                         "")
        BED.close()
        self.assertFalse(BED.directory.exists())
        self.assertEqual(leftovers(BED.directory, loops), [])


def leftovers(directory, loops):
    """What a node could leave on the machine."""
    groups = pathlib.Path("/sys/fs/cgroup").glob(f"*/{node.cgroup_of(directory)}")
    return [*groups, *node.still_there(loops), *cluster.mounts_below(directory)]


if __name__ == "__main__":
    skip_unless_possible()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    unittest.main()
