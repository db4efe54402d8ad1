# SPDX-License-Identifier: Apache-2.0
"""csi-driver-host-path on the node of a test bed: a driver that this project did not write, without a
SnapshotMetadata service. It keeps Block volumes as files, Filesystem volumes as directories, and one
snapshot of a volume at a time."""
import concurrent.futures

import grpc

import cluster
import node
from processes import wait_until

NAME, CLASS = "hostpath.csi.k8s.io", "hostpath"


def objects(snapshot_class_labels):
    """The driver's objects and its two classes."""
    return [
        {"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": NAME},
         "spec": {"attachRequired": False, "podInfoOnMount": True,
                  "volumeLifecycleModes": ["Persistent"]}},
        {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": CLASS},
         "provisioner": NAME, "volumeBindingMode": "Immediate"},
        {"apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshotClass",
         "metadata": {"name": CLASS, "labels": snapshot_class_labels},
         "driver": NAME, "deletionPolicy": "Delete"}]


def text(number, value):
    """A string of a message; all here are shorter than 128 bytes."""
    return bytes([number << 3 | 2, len(value)]) + value.encode()


class Registrar:
    """What node-driver-registrar does: it tells the kubelet where the driver is."""

    def __init__(self, place, endpoint):
        info = text(1, "CSIPlugin") + text(2, NAME) + text(3, str(endpoint)) + text(4, "1.0.0")
        methods = {name: grpc.unary_unary_rpc_method_handler(
            lambda _, __, answer=answer: answer, lambda request: request, lambda answer: answer)
            for name, answer in (("GetInfo", info), ("NotifyRegistrationStatus", b""))}
        self.server = grpc.server(concurrent.futures.ThreadPoolExecutor(2))
        self.server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(
            "pluginregistration.Registration", methods),))
        self.server.add_insecure_port(f"unix:{place}")
        self.server.start()


class HostPath:
    def __init__(self, bed):
        self.bed, self.kube, self.processes = bed, bed.kube, bed.processes
        self.socket, self.state = bed.directory / "hp.sock", bed.directory / "hp-state"

    def start(self):
        programs = cluster.peers("hostpathplugin", "csi-provisioner", "csi-snapshotter")
        self.state.mkdir()
        self.kube.apply(objects({"velero.io/csi-volumesnapshot-class": "true"}))
        init = self.bed.node.init_pid()
        # In the node, as a pod of the driver would be.
        self.processes.start("hostpath", [
            "nsenter", "--target", init, "--mount", "--pid", programs["hostpathplugin"],
            "-drivername", NAME, "-endpoint", f"unix://{self.socket}", "-nodeid", node.NAME,
            "-statedir", self.state, "-enable-topology=false", "-v=4"])
        self.processes.wait_ready("hostpath", self.socket.exists)
        self.registrar = Registrar(
            f"/proc/{init}/root/var/lib/kubelet/plugins_registry/hp.sock", self.socket)
        for name, more in (("csi-provisioner", ["--extra-create-metadata"]),
                           ("csi-snapshotter", [])):
            self.processes.start(f"hostpath-{name}", [
                programs[name], f"--kubeconfig={self.kube.kubeconfig}",
                f"--csi-address={self.socket}", "--leader-election=false", "--timeout=60s",
                "--retry-interval-start=100ms", "-v=2", *more])
        wait_until(lambda: NAME in [driver["name"] for driver in self.kube.get(
            "csinode", node.NAME)["spec"]["drivers"] or []], 180, "the kubelet knows the driver")

    def files(self):
        """Volumes and snapshots that it has."""
        return sorted(entry.name for entry in self.state.iterdir() if entry.name != "state.json")
