# SPDX-License-Identifier: Apache-2.0
"""`cairn driver` on a pool of its own, with the controllers of Kubernetes that call it.

The controllers have exactly the rights that deploy/rbac gives; the snapshot
controller, which is the cluster's and not ours, has those of snapshot-controller.yaml.
There is no kubelet: volumes are made, cut and deleted, but not mounted.
"""
import pathlib
import subprocess

from controlplane import LOCAL_NAMES, LOOPBACK, accepts
from kube import encode
from pki import SERVER
from processes import Ports

HERE = pathlib.Path(__file__).resolve().parent
DEPLOY = HERE.parents[1] / "deploy"
NAMESPACE = "cairn"
SIDECAR = "cairn-snapshot-metadata"  # and its account
CLASS = "cairn"
LOUD = "--v=4"
FAST = ["--kube-api-qps=200", "--kube-api-burst=400"]
GROUPS = "--feature-gates=CSIVolumeGroupSnapshot=true"
POOL_SIZE = "8G"

SNAPSHOT = "snapshot.storage.k8s.io"

# As deploy/base/classes.yaml, but a claim gets its volume without a pod.
CLASSES = [
    {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": CLASS},
     "provisioner": "cairn.csi.dev", "allowVolumeExpansion": True,
     "volumeBindingMode": "Immediate"},
    {"apiVersion": f"{SNAPSHOT}/v1", "kind": "VolumeSnapshotClass", "metadata": {"name": CLASS},
     "driver": "cairn.csi.dev", "deletionPolicy": "Delete"},
]


class CsiStack:
    PROGRAMS = ["csi-provisioner", "csi-resizer", "csi-snapshotter", "snapshot-controller"]

    def __init__(self, cluster, backend="btrfs", driver_args=(), groups=True):
        self.cluster, self.kube, self.processes = cluster, cluster.kube, cluster.processes
        self.backend, self.driver_args = backend, driver_args
        self.gates = [GROUPS] if groups else []
        self.pool, self.socket = cluster.directory / "pool", cluster.directory / "csi.sock"

    def cairn(self, *words):
        """What cairn writes; of the pool, unless the caller names another."""
        return subprocess.run([self.cluster.cairn, "--pool", self.pool, *words], check=True,
                              stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True,
                              timeout=120).stdout

    def start_driver(self):
        size = [] if self.backend == "copy" else ["--size", POOL_SIZE, "--thin"]
        self.cluster.note(cairn=self.cluster.cairn, pool=str(self.pool))
        self.cairn("pool", "create", "--quiet", "--backend", self.backend, *size)
        self.processes.start("driver", [
            self.cluster.cairn, "driver", "--pool", self.pool, "--log-level", "debug",
            "--endpoint", f"unix://{self.socket}", "--node-id", "localhost", *self.driver_args])
        self.processes.wait_ready("driver", self.socket.exists)

    def start_snapshot_controller(self):
        self.kube.apply(HERE / "snapshot-controller.yaml")
        config = self.kube.kubeconfig_of_account("kube-system", "snapshot-controller")
        self.processes.start("snapshot-controller", [
            self.cluster.programs["snapshot-controller"], f"--kubeconfig={config}", LOUD,
            "--leader-election=false", "--retry-interval-start=100ms", *FAST, *self.gates])

    def start_controllers(self):
        common = [f"--csi-address={self.socket}", LOUD,
                  "--leader-election=false", "--timeout=60s", *FAST]
        for name, more in {
                "csi-provisioner": ["--extra-create-metadata", "--default-fstype=ext4",
                                    "--retry-interval-start=100ms"],
                "csi-snapshotter": ["--extra-create-metadata", "--retry-interval-start=100ms",
                                    "--resync-period=1m", *self.gates],
                "csi-resizer": ["--retry-interval-start=100ms"]}.items():
            mine = self.kube.kubeconfig_of_account(NAMESPACE, name.replace("csi", "cairn"))
            self.processes.start(name, [self.cluster.programs[name], f"--kubeconfig={mine}",
                                        *common, *more])

    def start(self):
        self.kube.apply_files(
            DEPLOY / "base" / "namespace.yaml", DEPLOY / "base" / "csidriver.yaml",
            DEPLOY / "rbac", DEPLOY / "overlays/group-snapshots/group.yaml")
        self.kube.apply(CLASSES)
        self.start_driver()
        self.start_snapshot_controller()
        self.start_controllers()

    def start_sidecar(self, *words, audience="cairn.csi.dev"):
        """`cairn sidecar` with the rights that deploy/ gives it; clients find it by the
        SnapshotMetadataService of the driver."""
        authority = self.cluster.control_plane.authority
        crt, key = authority.issue("sidecar", "/CN=sidecar", SERVER, LOCAL_NAMES)
        self.kube.apply(DEPLOY / "overlays/snapshot-metadata/rbac.yaml")
        ports = Ports()
        port, http = ports.take(), ports.take()
        self.processes.start("sidecar", [
            self.cluster.cairn, "sidecar", f"--csi-address={self.socket}", f"--port={port}",
            f"--kubeconfig={self.kube.kubeconfig_of_account(NAMESPACE, SIDECAR)}",
            f"--bind-address={LOOPBACK}", f"--http-endpoint={LOOPBACK}:{http}",
            f"--tls-cert={crt}", f"--tls-key={key}", "--log-level=debug", *words])
        self.processes.wait_ready("sidecar", lambda: accepts(port))
        ports.close()
        self.kube.apply({
            "apiVersion": "cbt.storage.k8s.io/v1beta1", "kind": "SnapshotMetadataService",
            "metadata": {"name": "cairn.csi.dev"},
            "spec": {"address": f"localhost:{port}", "audience": audience,
                     "caCert": encode(authority.crt), "requireBaseSnapshotForDelta": False}})
        return f"localhost:{port}"

    def make_client(self, namespace, name):
        """The kubeconfig of an account that may list blocks of snapshots in `namespace`."""
        account = f"{namespace}:{name}"
        self.kube.service_account(namespace, name)
        self.kube.allow(f"{namespace}-{name}", account, role="cairn-snapshot-metadata-client")
        self.kube.allow(f"{name}-reader", account, namespace=namespace,
                        role="cairn-snapshot-metadata-reader")
        self.kube.allow_own_tokens(namespace, name)
        return self.kube.kubeconfig_of_account(namespace, name)

    # ---- what tests make ----

    def claim(self, name, size="64Mi", mode="Block", source=None, namespace="default", wait=True,
              storage_class=CLASS):
        """A PersistentVolumeClaim; `source` is the name of a VolumeSnapshot."""
        spec = {"accessModes": ["ReadWriteOnce"], "volumeMode": mode,
                "storageClassName": storage_class, "resources": {"requests": {"storage": size}}}
        if source:
            spec["dataSource"] = {"apiGroup": SNAPSHOT, "kind": "VolumeSnapshot", "name": source}
        self.kube.apply({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
                         "metadata": {"name": name, "namespace": namespace}, "spec": spec})
        if wait:
            self.kube.wait(lambda claim: claim["status"]["phase"] == "Bound",
                           "-n", namespace, "pvc", name)

    def snapshot(self, name, claim, namespace="default", wait=True):
        self.kube.apply({"apiVersion": f"{SNAPSHOT}/v1", "kind": "VolumeSnapshot",
                         "metadata": {"name": name, "namespace": namespace},
                         "spec": {"volumeSnapshotClassName": CLASS,
                                  "source": {"persistentVolumeClaimName": claim}}})
        if wait:
            self.kube.wait(lambda made: made.get("status", {}).get("readyToUse"),
                           "-n", namespace, "volumesnapshot", name)

    def volume_id(self, claim, namespace="default"):
        """What the driver calls the volume of a claim."""
        name = self.kube.get("-n", namespace, "pvc", claim)["spec"]["volumeName"]
        return self.kube.get("pv", name)["spec"]["csi"]["volumeHandle"]

    def snapshot_id(self, snapshot, namespace="default"):
        found = self.kube.get("-n", namespace, "volumesnapshot", snapshot)["status"]
        content = self.kube.get("volumesnapshotcontent", found["boundVolumeSnapshotContentName"])
        return content["status"]["snapshotHandle"]

    def volume_file(self, claim, namespace="default"):
        """The file that holds the volume's bytes, to write to without a kubelet."""
        volume = self.volume_id(claim, namespace)
        return pathlib.Path(self.cairn("volume", "path", volume).strip())
