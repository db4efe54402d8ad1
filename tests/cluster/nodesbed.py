# SPDX-License-Identifier: Apache-2.0
"""Several nodes, each with `cairn driver` on a pool of its own, csi-provisioner and csi-snapshotter
in their --node-deployment mode and a routing sidecar, on one control plane.

There are no kubelets: a node is an object, the scheduler places pods that never run. The program is
in a network namespace in which each node has an address. Every program has exactly the rights that
deploy/overlays/nodes gives.
"""
import json
import pathlib
import socket
import subprocess

from csistack import CLASS, DEPLOY, FAST, LOUD, NAMESPACE, SIDECAR, SNAPSHOT, CsiStack
from node import enter_new_network
from pki import SERVER

DRIVER = "cairn.csi.dev"
TOPOLOGY = f"topology.{DRIVER}/node"
ROUTE = "cairn-route"
MANAGED_BY = "snapshot.storage.kubernetes.io/managed-by"
TIMEOUT = 120
PORT, ROUTE_PORT = 6443, 50052


def enter_network(nodes):
    """Before the cluster is started."""
    enter_new_network()
    for at in range(nodes):
        subprocess.run(["ip", "address", "add", f"{address_of(at)}/32", "dev", "lo"], check=True)


def address_of(at):
    return f"10.97.0.{at + 1}"


def accepts(address, port):
    with socket.socket() as probe:
        probe.settimeout(5)
        return probe.connect_ex((address, port)) == 0


class NodeParts:
    """The programs of one node."""

    def __init__(self, bed, name, address):
        self.bed, self.name, self.address = bed, name, address
        self.cluster, self.kube, self.processes = bed.cluster, bed.kube, bed.processes
        self.place = bed.cluster.directory / name
        self.place.mkdir()
        self.pool, self.socket = self.place / "pool", self.place / "csi.sock"

    def cairn(self, *words):
        return subprocess.run([self.cluster.cairn, "--pool", self.pool, *words], check=True,
                              stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True,
                              timeout=TIMEOUT).stdout

    def make_objects(self):
        """What a kubelet and a DaemonSet would make."""
        self.kube.apply({"apiVersion": "v1", "kind": "Node", "metadata": {
            "name": self.name, "labels": {TOPOLOGY: self.name, "cairn.csi.dev/pool": "",
                                          "kubernetes.io/hostname": self.name}}})
        node = self.kube.get("node", self.name)
        self.kube.apply({"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {
            "name": self.name, "ownerReferences": [{
                "apiVersion": "v1", "kind": "Node", "name": self.name,
                "uid": node["metadata"]["uid"]}]},
            "spec": {"drivers": [{"name": DRIVER, "nodeID": self.name,
                                  "topologyKeys": [TOPOLOGY]}]}})
        status = {"status": {"allocatable": {"cpu": "8", "memory": "8Gi", "pods": "99"},
                             "capacity": {"cpu": "8", "memory": "8Gi", "pods": "99"}}}
        self.kube.request("PATCH", f"/api/v1/nodes/{self.name}/status", status,
                          content_type="application/merge-patch+json")
        for account in ("cairn-provisioner", SIDECAR):
            self.kube.apply(self.bed.pod(f"{account}-{self.name}", NAMESPACE, node=self.name,
                                         account=account))

    def start_driver(self):
        if not self.pool.exists():
            self.cairn("pool", "create", "--quiet", "--backend", "copy")
        name = f"driver-{self.name}"
        self.processes.start(name, [
            self.cluster.cairn, "driver", "--pool", self.pool, "--log-level", "debug", "--endpoint",
            f"unix://{self.socket}", "--node-id", self.name, "--topology", "--node-expansion"])
        self.processes.wait_ready(name, self.socket.exists)

    def start_controllers(self):
        common = [f"--csi-address={self.socket}", LOUD, "--node-deployment", "--timeout=60s", *FAST,
                  "--retry-interval-start=100ms", "--extra-create-metadata"]
        environment = {"NODE_NAME": self.name, "NAMESPACE": NAMESPACE,
                       "POD_NAME": f"cairn-provisioner-{self.name}"}
        for name, more in {
                "csi-provisioner": ["--node-deployment-immediate-binding=false", "--enable-capacity",
                                    "--capacity-ownerref-level=0", "--capacity-poll-interval=2s",
                                    "--kube-api-capacity-qps=50", "--kube-api-capacity-burst=50",
                                    "--default-fstype=ext4"],
                "csi-snapshotter": ["--resync-period=1m"]}.items():
            config = self.kube.kubeconfig_of_account(NAMESPACE, name.replace("csi", "cairn"))
            self.processes.start(f"{name}-{self.name}", [
                self.cluster.programs[name], f"--kubeconfig={config}", *common, *more], environment)

    def kubeconfig_of_pod(self, account):
        """What a pod of the account on this node is; its token names the node."""
        token = self.kube.token(NAMESPACE, account, pod=f"{account}-{self.name}")
        return self.kube.write_kubeconfig(f"{account}-{self.name}", {"token": token}, NAMESPACE)

    def start_sidecar(self, *words):
        crt, key = self.bed.authority.issue(f"sidecar-{self.name}", "/CN=sidecar", SERVER,
                                            [f"IP:{self.address}"])
        name = f"sidecar-{self.name}"
        self.processes.start(name, [
            self.cluster.cairn, "sidecar", f"--csi-address={self.socket}", f"--port={PORT}",
            f"--kubeconfig={self.kubeconfig_of_pod(SIDECAR)}",
            f"--bind-address={self.address}", "--http-endpoint=", f"--tls-cert={crt}",
            f"--tls-key={key}", "--log-level=debug", "--resume-timeout=10s", "--route",
            f"--node-name={self.name}", f"--route-port={ROUTE_PORT}",
            f"--route-signer={DRIVER}/route", f"--route-cert={self.place}/route.crt",
            f"--route-key={self.place}/route.key", f"--route-ca={self.bed.route_ca}", *words])
        self.processes.wait_ready(name, lambda: accepts(self.address, PORT))

    def start(self):
        self.start_driver()
        self.start_controllers()
        self.start_sidecar()

    PROGRAMS = ("driver", "csi-provisioner", "csi-snapshotter", "sidecar")

    def kill(self):
        """As if the node lost its power."""
        for name in self.PROGRAMS:
            self.processes.kill(f"{name}-{self.name}")

    def endpoint(self):
        return {"addresses": [self.address], "nodeName": self.name, "conditions": {"ready": True}}


class NodesBed:
    PROGRAMS = CsiStack.PROGRAMS

    def __init__(self, cluster, names=("one", "two")):
        self.cluster, self.kube, self.processes = cluster, cluster.kube, cluster.processes
        self.authority = cluster.control_plane.authority
        self.route_ca = cluster.directory / "route-ca.crt"
        self.nodes = {name: NodeParts(self, name, address_of(at)) for at, name in enumerate(names)}

    @staticmethod
    def pod(name, namespace, node=None, claims=(), selector=None, account="default"):
        spec = {"containers": [{"name": "c", "image": "none", "volumeDevices": [
            {"name": claim, "devicePath": f"/dev/{claim}"} for claim in claims]}],
            "volumes": [{"name": claim, "persistentVolumeClaim": {"claimName": claim}}
                        for claim in claims],
            "tolerations": [{"operator": "Exists"}], "terminationGracePeriodSeconds": 0,
            "nodeSelector": selector or {}, "serviceAccountName": account,
            "automountServiceAccountToken": False}
        if node:
            spec["nodeName"] = node
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace},
                "spec": spec}

    def start_signer(self, *words):
        """`cairn manager`, which signs the certificates of nodes; this is the kubelet that gives
        the authorities to pods."""
        config = self.kube.kubeconfig_of_account(NAMESPACE, "cairn-certificates")
        self.processes.start("certificates", [
            self.cluster.cairn, "manager", f"--kubeconfig={config}", "--certificates=snapshot-metadata",
            "--route", f"--driver-name={DRIVER}", "--log-level=debug", *words])
        found = self.kube.wait(lambda found: found["data"]["ca.crt"], "-n", NAMESPACE, "configmap",
                               "cairn-route-ca")
        self.route_ca.write_text(found["data"]["ca.crt"])

    def start(self):
        self.kube.apply_files(DEPLOY / "base/namespace.yaml", DEPLOY / "rbac",
                              DEPLOY / "overlays/snapshot-metadata/rbac.yaml",
                              DEPLOY / "overlays/nodes/rbac.yaml", DEPLOY / "base/classes.yaml",
                              DEPLOY / "components/certificates/rbac.yaml")
        self.kube.apply([{"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver",
                          "metadata": {"name": DRIVER},
                          "spec": {"attachRequired": False, "storageCapacity": True}}])
        for node in self.nodes.values():
            node.make_objects()
        self.start_snapshot_controller()
        self.start_signer()
        for node in self.nodes.values():
            node.start()
        self.publish()

    def start_snapshot_controller(self):
        here = pathlib.Path(__file__).resolve().parent
        self.kube.apply(here / "snapshot-controller.yaml")
        config = self.kube.kubeconfig_of_account("kube-system", "snapshot-controller")
        self.processes.start("snapshot-controller", [
            self.cluster.programs["snapshot-controller"], f"--kubeconfig={config}", LOUD,
            "--leader-election=false", "--retry-interval-start=100ms", *FAST,
            "--enable-distributed-snapshotting"])

    def publish(self):
        """Where the sidecars are."""
        self.kube.apply({"apiVersion": "v1", "kind": "Service",
                         "metadata": {"name": ROUTE, "namespace": NAMESPACE},
                         "spec": {"clusterIP": "None", "ports": [{"name": "route", "port": 50052}]}})
        self.kube.apply({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
            "metadata": {"name": f"{ROUTE}-1", "namespace": NAMESPACE,
                         "labels": {"kubernetes.io/service-name": ROUTE}},
            "ports": [{"name": "route", "port": ROUTE_PORT, "protocol": "TCP"}],
            "endpoints": [node.endpoint() for node in self.nodes.values()]})

    # ---- what tests make ----

    def claim(self, name, namespace, size="64Mi", selector=None, wait=True):
        """A claim and the pod that wants it."""
        self.kube.apply([
            {"apiVersion": "v1", "kind": "PersistentVolumeClaim",
             "metadata": {"name": name, "namespace": namespace},
             "spec": {"accessModes": ["ReadWriteOnce"], "volumeMode": "Block",
                      "storageClassName": CLASS, "resources": {"requests": {"storage": size}}}},
            self.pod(name, namespace, claims=[name], selector=selector)])
        if wait:
            self.kube.wait(lambda claim: claim["status"]["phase"] == "Bound",
                           "-n", namespace, "pvc", name)

    def volume(self, claim, namespace):
        return self.kube.get("pv", self.kube.get("-n", namespace, "pvc", claim)["spec"]["volumeName"])

    def node_of(self, claim, namespace):
        terms = self.volume(claim, namespace)["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
        return terms[0]["matchExpressions"][0]["values"][0]

    def write(self, claim, namespace, offset, data):
        node = self.nodes[self.node_of(claim, namespace)]
        handle = self.volume(claim, namespace)["spec"]["csi"]["volumeHandle"]
        with open(node.cairn("volume", "path", handle).strip(), "r+b") as file:
            file.seek(offset)
            file.write(data)

    def content(self, name, namespace):
        found = self.kube.get("-n", namespace, "volumesnapshot", name)["status"]
        return self.kube.get("volumesnapshotcontent", found["boundVolumeSnapshotContentName"])

    make_client = CsiStack.make_client
    snapshot = CsiStack.snapshot

    def list_blocks(self, config, namespace, node, *words):
        """(exit status, blocks or error text) of a listing through the sidecar of `node`."""
        done = subprocess.run([
            self.cluster.cairn, "list", "--kubeconfig", config, "-n", namespace, "-o", "json",
            "--server-name", self.nodes[node].address, "--ca-file", self.authority.crt, "--address", f"{self.nodes[node].address}:{PORT}", *words], capture_output=True,
            text=True, check=False, timeout=TIMEOUT)
        if done.returncode:
            return done.returncode, done.stderr
        return 0, [(block.get("byte_offset", 0), block["size_bytes"])
                   for message in json.loads(done.stdout) for block in message["block_metadata"]]
