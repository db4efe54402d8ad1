# SPDX-License-Identifier: Apache-2.0
"""Velero's own data mover on a node of the test bed: the node agent as `velero install` makes it, in
an image that holds the stock program."""
import json
import pathlib
import shutil
import tempfile

import velerobed
from movernode import LIMIT, NAMESPACE

# pylint: disable=wrong-import-order
from image import make_image
from processes import wait_until

IMAGE = "localhost/velero:1"
KINDS = ("ServiceAccount", "ClusterRoleBinding", "DaemonSet")


def add_image(bed):
    """The program is static; kopia keeps its cache and its logs in the home directory."""
    with tempfile.TemporaryDirectory() as root:
        root = pathlib.Path(root)
        for name in ("tmp", "etc", "root"):
            (root / name).mkdir()
        shutil.copy(velerobed.PEERS["velero"], root / "velero")
        out = bed.directory / "velero.tar"
        make_image(root, [IMAGE], ["/velero"], out)
    bed.node.run("ctr", "-a", bed.node.directory / "containerd.sock", "-n", "k8s.io", "images",
                 "import", out)


def stop(test):
    """The image stays."""
    test.kube.delete("-n", NAMESPACE, "daemonset", "node-agent")
    wait_until(lambda: not test.kube.get("-n", NAMESPACE, "pods", "-l", "role=node-agent")["items"],
               LIMIT, "the node agent is gone")


def start(test):
    said = test.velero.run(
        "install", "--dry-run", "-o", "json", "--use-node-agent", "--privileged-node-agent",
        "--features", "EnableCSI", "--no-default-backup-location", "--use-volume-snapshots=false",
        "--image", IMAGE, "--secret-file", test.velero.directory / "credentials")
    made = [item for item in json.loads(said)["items"] if item["kind"] in KINDS]
    for item in made:
        if item["kind"] == "DaemonSet":
            (container,) = item["spec"]["template"]["spec"]["containers"]
            container["env"].append({"name": "HOME", "value": "/root"})
    test.kube.apply(made)
    test.kube.wait(lambda found: found["status"].get("numberReady"), "-n", NAMESPACE, "daemonset",
                   "node-agent", seconds=LIMIT)
