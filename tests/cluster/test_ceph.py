#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""deploy/overlays/ceph on a real API server and a real Ceph cluster: two nodes whose drivers and controllers
have the options and the rights that are shipped. One of each controller works, and when its node is lost,
the other one's goes on with the same volumes."""
import os
import pathlib
import signal
import subprocess
import sys
import unittest

import yaml

import cephbed
import cluster
from csistack import CsiStack
from processes import wait_until
from rights import ACCOUNT, Audit, Rights

LACKING = cephbed.missing()
if LACKING:
    print(f"skipped: needs {LACKING}: scripts/deps ceph")
    sys.exit(77)
cluster.peers_or_skip(*cluster.CONTROL_PLANE, *CsiStack.PROGRAMS, "snapshot-crds")
OVERLAY = cluster.REPOSITORY / "deploy/overlays/ceph"
CONTROLLERS = ("provisioner", "snapshotter", "resizer")
WORKLOADS = ("Deployment", "DaemonSet", "Service", "PersistentVolume", "PersistentVolumeClaim")
NODES = ("one", "two")
# Each node has a host name, which is what most leaders are told apart by.
ON_HOST = ["unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"']
TAKEOVER = 180  # seconds; a lease ends after 15


def setUpModule():
    global BED, AUDIT, CEPH  # pylint: disable=global-statement
    CEPH = cephbed.Cluster()
    unittest.addModuleCleanup(CEPH.stop)
    bed = cluster.Cluster(crds=True)
    AUDIT = Audit(bed.directory)
    bed.options["apiserver_args"] = AUDIT.words
    BED = unittest.enterModuleContext(bed)
    BED.programs.update(cluster.peers(*CsiStack.PROGRAMS))


class Nodes:
    """Containers of the overlay as processes, with the address of the pool and sockets of here."""

    def __init__(self):
        made = [item for item in yaml.safe_load_all(BED.kube.kubectl("kustomize", OVERLAY)) if item]
        self.pods = {item["metadata"]["name"]: item["spec"]["template"]["spec"] for item in made
                     if item["kind"] in ("Deployment", "DaemonSet")}
        BED.kube.apply([item for item in made if item["kind"] == "Namespace"])
        BED.kube.apply([item for item in made if item["kind"] not in WORKLOADS], "--server-side")
        self.pool = f"rbd:rbd/overlay:id=cairn:conf={CEPH.conf}"

    @staticmethod
    def socket(node):
        return BED.directory / f"{node}.sock"

    def pool_word(self, word):
        return word.replace("rbd:cairn:id=cairn", self.pool)

    def make_pool(self):
        """All nodes at once, as their init containers do."""
        words = map(self.pool_word, self.pods["cairn-driver"]["initContainers"][0]["args"])
        command = [BED.cairn, *words]
        running = [subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                    stderr=subprocess.STDOUT, text=True) for _ in NODES]
        return [(child.communicate(timeout=180)[0], child.returncode) for child in running]

    def start_driver(self, node):
        words = []
        for word in map(self.pool_word, self.pods["cairn-driver"]["containers"][0]["args"]):
            option = word.partition("=")[0]
            if option == "--endpoint":
                word = f"{option}=unix://{self.socket(node)}"
            if option not in ("--kubelet-registration-path", "--registration-dir",
                              "--http-endpoint", "--endpoint-group"):
                words.append(word.replace("$(NODE)", node))
        BED.processes.start(f"driver-{node}", [*ON_HOST, node, BED.cairn, *words])
        BED.processes.wait_ready(f"driver-{node}", self.socket(node).exists)

    def start_controllers(self, node):
        for part in CONTROLLERS:
            pod = self.pods[f"cairn-{part}"]
            words = [word.replace("/csi/csi.sock", str(self.socket(node)))
                     for word in pod["containers"][0]["args"]]
            config = BED.kube.kubeconfig_of_account("cairn", pod["serviceAccountName"])
            BED.processes.start(f"{part}-{node}", [
                *ON_HOST, node, BED.programs[f"csi-{part}"], *words, f"--kubeconfig={config}",
                "--leader-election-namespace=cairn"])

    @staticmethod
    def lose(node):
        for part in (*CONTROLLERS, "driver"):
            BED.processes.kill(f"{part}-{node}")

    @staticmethod
    def leaders():
        leases = BED.kube.get("-n", "cairn", "leases")["items"]
        return {lease["metadata"]["name"]: lease["spec"].get("holderIdentity", "")
                for lease in leases}

    def wait_leaders(self, before):
        """Each controller has a leader that is not the one before."""
        def are_new():
            found = self.leaders()
            return len(found) == len(CONTROLLERS) and all(
                name and name != before.get(lease) for lease, name in found.items()) and found
        return wait_until(are_new, TAKEOVER, f"other leaders than {before}")


class Overlay(unittest.TestCase):
    def resize(self, claim, size):
        BED.kube.kubectl("patch", "pvc", claim, "-p",
                         f'{{"spec":{{"resources":{{"requests":{{"storage":"{size}"}}}}}}}}')
        BED.kube.wait(lambda made: made["status"]["capacity"]["storage"] == size, "pvc", claim)

    def listed(self, nodes, kind):
        done = subprocess.run([BED.cairn, "--pool", nodes.pool, kind, "list", "-o", "json"],
                              capture_output=True, text=True, check=False, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_a_lost_node_is_replaced_by_the_other(self):
        nodes, csi = Nodes(), CsiStack(BED)
        for said, status in nodes.make_pool():
            self.assertEqual(status, 0, said)
        csi.start_snapshot_controller()
        nodes.start_driver("one")
        nodes.start_controllers("one")
        leaders = nodes.wait_leaders({})
        nodes.start_driver("two")
        nodes.start_controllers("two")
        csi.claim("data", "16Mi")
        csi.snapshot("before", "data")
        self.resize("data", "32Mi")
        nodes.lose("one")
        csi.claim("more", "16Mi")
        nodes.wait_leaders(leaders)
        csi.snapshot("after", "data")
        csi.claim("restored", "32Mi", source="before")
        self.resize("more", "32Mi")
        self.assertIn(csi.volume_id("restored"), self.listed(nodes, "volume"))
        BED.kube.delete("volumesnapshot", "before", "after")
        BED.kube.delete("pvc", "data", "more", "restored")
        BED.kube.wait(lambda found: not found["items"], "pv")
        BED.kube.wait(lambda found: not found["items"], "volumesnapshotcontents")
        self.assertNotIn("vol-", self.listed(nodes, "volume"))
        self.check_rights()

    def check_rights(self):
        """Those of leases are complete and all needed; test_rbac.py looks at the others, which are not more."""
        rights = Rights(BED.kube, AUDIT)
        self.assertEqual(rights.refused(f"{ACCOUNT}cairn:"), {})
        roles = [f"cairn-{part}" for part in CONTROLLERS]
        self.assertEqual([right for found in rights.in_vain(roles).values() for right in found
                          if "leases" in right], [])
        self.assertEqual(sum("leases" in str(right) for found in rights.witnesses(roles).values()
                             for right in found), 3 * len(CONTROLLERS))


class Image(unittest.TestCase):
    """What `scripts/image --ceph` puts into the image, with the files of the two objects where the pods have them."""

    def test_its_init_container_makes_the_pool(self):
        root = BED.directory / "root"
        build = subprocess.run([cluster.REPOSITORY / "deploy/rootfs", "--ceph",
                                os.environ["CAIRN_BUILD"], root], capture_output=True, text=True,
                               check=False, timeout=300)
        self.assertEqual(build.returncode, 0, build.stderr)
        (root / "etc/ceph").mkdir()
        conf = pathlib.Path(CEPH.conf).read_text().splitlines(keepends=True)
        (root / "etc/ceph/ceph.conf").write_text(
            "".join(line for line in conf if not line.startswith("keyring")))
        key = CEPH.run("ceph", "auth", "get", "client.cairn")
        (root / "etc/ceph/keyring").write_text(key)
        program = next(root.glob("usr/**/bin/cairn"))
        words = Nodes().pods["cairn-driver"]["initContainers"][0]["args"]
        address = "rbd:rbd/image:id=cairn"
        for command in ([*words[:-1], address], ["--pool", address, "pool", "info"]):
            done = subprocess.run(["chroot", root, f"/{program.relative_to(root)}", *command],
                                  capture_output=True, text=True, check=False, timeout=180)
            self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    unittest.main()
