# SPDX-License-Identifier: Apache-2.0
"""A node for the test bed: a real kubelet with containerd, and pods that run.

The whole cluster is in a network namespace of its own, in which the API server listens
on the address that pods expect; nothing translates addresses, and there is no DNS. The
node has namespaces for mounts and processes beside that (node-init). Only cgroups and
loop devices are the machine's, and are removed by name.
"""
import contextlib
import ctypes
import hashlib
import json
import os
import pathlib
import shutil
import subprocess

from controlplane import SERVICE_ADDRESS
from image import add_busybox, image_of_busybox, image_of_program, make_image
from pki import CLIENT, SERVER
from processes import Failed, wait_until

HERE = pathlib.Path(__file__).resolve().parent
DEPLOY = HERE.parents[1] / "deploy"
CLONE_NEWNET = 0x40000000
NAME = "node"
MOUNTS = "node-mounts"  # the process that keeps the node's mount namespace
ADDRESS = "10.251.0.1"
NETWORK = "10.251.0.0/24"
BRIDGE = "cairn0"
# Without one of its own it takes the lowest of its ports', and changes as pods come and go;
# those that stay then speak to nobody for half a minute.
BRIDGE_MAC = "02:00:0a:fb:00:01"
BUSYBOX = "localhost/busybox:1"
PAUSE = "localhost/pause:1"
BACKUP = "localhost/backup:1"  # cairn and a shell
CAIRN = "localhost/cairn:0.1.0"
# Under these names deploy/base asks for them.
CONTROLLERS = {"csi-provisioner": "v5.1.0", "csi-snapshotter": "v8.6.0", "csi-resizer": "v1.14.0"}
REGISTRY = "registry.k8s.io/sig-storage"

CONTAINERD = """version = 2
root = "{node}/containerd/root"
state = "{node}/containerd/state"
disabled_plugins = [{disabled}]
[grpc]
  address = "{node}/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause}"
  stream_server_address = "127.0.0.1"
  disable_apparmor = true
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  # Nothing here gives block devices to a group, as udev does on a real node.
  device_ownership_from_security_context = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{node}/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = false
"""
NOT_NEEDED = ["snapshotter.v1.btrfs", "snapshotter.v1.zfs", "snapshotter.v1.aufs",
              "snapshotter.v1.devmapper", "internal.v1.tracing", "tracing.processor.v1.otlp"]

KUBELET = """apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
containerRuntimeEndpoint: unix://{node}/containerd.sock
failCgroupV1: false
cgroupDriver: cgroupfs
cgroupRoot: /{cgroup}
enforceNodeAllocatable: [pods]
failSwapOn: false
address: {address}
authentication:
  anonymous: {{enabled: false}}
  webhook: {{enabled: true}}
  x509: {{clientCAFile: {ca}}}
authorization: {{mode: Webhook}}
tlsCertFile: {pki}/kubelet-serving.crt
tlsPrivateKeyFile: {pki}/kubelet-serving.key
resolvConf: {node}/resolv.conf
hairpinMode: none
makeIPTablesUtilChains: false
volumePluginDir: {node}/flexvolumes
evictionHard: {{memory.available: 100Mi, nodefs.available: "1%", imagefs.available: "1%"}}
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
syncFrequency: 2s
"""

CNI = """{{"cniVersion": "0.4.0", "name": "pods", "plugins": [{{"type": "bridge", "bridge": "{bridge}",
 "isGateway": true, "ipMasq": false, "hairpinMode": true, "ipam": {{"type": "host-local",
 "dataDir": "{node}/addresses", "ranges": [[{{"subnet": "{network}"}}]],
 "routes": [{{"dst": "0.0.0.0/0"}}]}}}}]}}
"""


def enter_new_network():
    """This process, and what it starts, gets a network of its own with a loopback."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNET) != 0:
        raise Failed(f"a network namespace: {os.strerror(ctypes.get_errno())}")
    for words in (["link", "set", "lo", "up"],
                  ["address", "add", f"{SERVICE_ADDRESS}/32", "dev", "lo"],
                  ["link", "add", BRIDGE, "address", BRIDGE_MAC, "type", "bridge"],
                  ["address", "add", f"{ADDRESS}/24", "dev", BRIDGE],
                  ["link", "set", BRIDGE, "up"]):
        subprocess.run(["ip", *words], check=True)


def enter_network_of(pid):
    libc = ctypes.CDLL(None, use_errno=True)
    with open(f"/proc/{pid}/ns/net", "rb") as namespace:
        if libc.setns(namespace.fileno(), CLONE_NEWNET) != 0:
            raise Failed(f"enter a network namespace: {os.strerror(ctypes.get_errno())}")


def why_not():
    """What a node needs that is not here, or nothing."""
    if os.geteuid() != 0 or not os.path.exists("/dev/loop-control"):
        return "a node needs root and loop devices"
    for program in ("containerd", "ctr", "runc", "ip", "unshare", "nsenter", "busybox"):
        if not shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin:/sbin"):
            return f"{program} is not installed (scripts/deps peers)"
    if not os.path.exists("/usr/lib/cni/bridge"):
        return "containernetworking-plugins is not installed (scripts/deps peers)"
    return None


def cgroup_of(directory):
    return "cairn-test-" + hashlib.sha256(str(directory).encode()).hexdigest()[:8]


class Node:
    def __init__(self, cluster):
        self.cluster, self.kube, self.processes = cluster, cluster.kube, cluster.processes
        self.directory = cluster.directory / "node"
        self.cgroup = cgroup_of(cluster.directory)

    # ---- files ----

    def make_images(self, build):
        """`build` is the meson build directory that cairn is installed from."""
        images = self.directory / "images"
        images.mkdir(parents=True)
        image_of_busybox([BUSYBOX], images / "busybox.tar", ["/bin/sh"])
        image_of_busybox([PAUSE], images / "pause.tar", ["/bin/sleep", "2147483647"])
        for name, version in CONTROLLERS.items():
            image_of_program(self.cluster.programs[name], f"{REGISTRY}/{name}:{version}",
                             images / f"{name}.tar")
        root = self.directory / "rootfs"
        subprocess.run([DEPLOY / "rootfs", build, root], check=True, timeout=300)
        self.program = f"/{next(root.glob('usr/**/bin/cairn')).relative_to(root)}"
        make_image(root, [CAIRN], [self.program], images / "cairn.tar")
        add_busybox(root)
        make_image(root, [BACKUP], ["/bin/sh"], images / "backup.tar")
        shutil.rmtree(root)

    def write_files(self):
        node, pki = self.directory, self.cluster.control_plane.pki
        issue = self.cluster.control_plane.authority.issue
        crt, key = issue("kubelet", f"/O=system:nodes/CN=system:node:{NAME}", CLIENT)
        issue("kubelet-serving", f"/CN={NAME}", SERVER, [f"DNS:{NAME}", f"IP:{ADDRESS}"])
        config = self.kube.kubeconfig_of_certificate("kubelet", crt, key)
        shutil.copy(config, node / "kubelet.kubeconfig")
        (node / "address").write_text(ADDRESS)
        (node / "resolv.conf").write_text("")
        (node / "cni").mkdir()
        (node / "cni" / "pods.conflist").write_text(
            CNI.format(bridge=BRIDGE, node=node, network=NETWORK))
        (node / "containerd.toml").write_text(CONTAINERD.format(
            node=node, pause=PAUSE,
            disabled=", ".join(f'"io.containerd.{name}"' for name in NOT_NEEDED)))
        (node / "kubelet.yaml").write_text(KUBELET.format(
            node=node, pki=pki, ca=pki / "ca.crt", address=ADDRESS, cgroup=self.cgroup))

    # ---- life ----

    def start(self, build):
        self.make_images(build)
        self.write_files()
        self.cluster.note(node=str(self.directory), cgroup=self.cgroup)
        self.processes.start("node", [
            "unshare", "--mount", "--pid", "--fork", "--mount-proc", "--propagation", "slave",
            "--kill-child", HERE / "node-init", self.directory, self.cgroup,
            self.cluster.programs["kubelet"]])
        self.keep_namespace()
        self.processes.wait_ready("node", self.is_ready)
        self.kube.kubectl("label", "node", NAME, "cairn.csi.dev/pool=")

    def init_pid(self):
        """As the host knows the first process of the node."""
        pid = self.processes.pid("node")
        children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return int(children[0]) if children else None

    def keep_namespace(self):
        """What is mounted in the node can be removed also when all of it was killed.

        A process outside the node keeps the namespace. Binding /proc/PID/ns/mnt to a file is
        not reliable: the kernel refuses (EINVAL) a namespace that it takes for older than the
        caller's, and since 6.18 it compares numbers that each processor hands out by itself.
        """
        pid = wait_until(self.init_pid, 180, "the node's first process")
        wait_until(lambda: pathlib.Path(f"/proc/{pid}/exe").resolve().name == "bash", 60,
                   "the node's mount namespace")
        self.processes.start(MOUNTS, ["nsenter", "--target", pid, "--mount", "sleep", "infinity"])
        self.processes.wait_ready(MOUNTS, lambda: os.readlink(self.mounts()) ==
                                  os.readlink(f"/proc/{pid}/ns/mnt"))

    def mounts(self):
        return namespace_of(self.processes)

    def is_ready(self):
        node = self.kube.get("node", NAME)
        return node and any(condition["type"] == "Ready" and condition["status"] == "True"
                            for condition in node["status"].get("conditions", []))

    def run(self, *words, **how):
        """In the node: its mounts, its processes, its network."""
        return subprocess.run(["nsenter", "--target", str(self.init_pid()), "--mount", "--pid",
                               *map(str, words)], check=True, capture_output=True, text=True,
                              timeout=60, **how).stdout

    def cairn(self, *words):
        """What cairn says of the pool, run in the node and not in a pod."""
        return self.run(self.cluster.cairn, "--pool", "/var/lib/cairn", *words)

    def loops(self):
        return loops_of(self.mounts())

    def kill_kubelet(self):
        pid = (self.directory / "kubelet.pid").read_text().strip()
        self.run("kill", "-KILL", pid)
        wait_until(lambda: (self.directory / "kubelet.pid").read_text().strip() != pid, 120,
                   "another kubelet")


# ---- removal, by whoever takes the cluster down ----

LOOPS = ["losetup", "--list", "--json", "--output", "NAME,BACK-MAJ:MIN,BACK-INO"]
FILES = ["find", "/var/lib/cairn", "-type", "f", "-printf", "%D %i\n"]


def output_of(*words):
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=60).stdout


def list_loops():
    """{(device, device of its file, inode of its file)} of the machine."""
    found = set()
    listed = output_of(*LOOPS)  # nothing at all when there are none
    for loop in json.loads(listed)["loopdevices"] if listed.strip() else []:
        if loop["back-maj:min"]:  # none while somebody detaches it
            major, minor = loop["back-maj:min"].split(":")
            found.add((loop["name"], os.makedev(int(major), int(minor)), int(loop["back-ino"])))
    return found


def loops_of(namespace):
    """Those over files of the node's pool, and over such devices. Each was attached in
    another mount namespace, so they cannot be told by the names of their files."""
    lines = output_of("nsenter", f"--mount={namespace}", *FILES).splitlines()
    behind = {tuple(map(int, line.split())) for line in lines}
    mine, more = set(), True
    while more:
        more = {loop for loop in list_loops() - mine if loop[1:] in behind}
        mine |= more
        for name, _, _ in more:
            status = os.stat(name)
            behind.add((status.st_dev, status.st_ino))
    return mine


def still_there(loops):
    """Of loops that were a node's. One over another loop does not count: its numbers can be
    those of another node by now, and while it is there so is the one below it."""
    devices = os.stat("/dev").st_dev
    return {loop for loop in loops & list_loops() if loop[1] != devices}


def namespace_of(processes):
    """The mount namespace of the node, or None."""
    pid = processes.pid(MOUNTS)
    return f"/proc/{pid}/ns/mnt" if pid else None


def remove_mounts(processes):
    """Loop devices are told to go with their last user; the mounts go with their namespace."""
    namespace = namespace_of(processes)
    if not namespace:
        return
    mine = loops_of(namespace)
    for name, _, _ in mine:
        subprocess.run(["losetup", "--detach", name], check=False, capture_output=True)
    processes.kill(MOUNTS)
    wait_until(lambda: not still_there(mine), 120, "loop devices of the node are gone")


def remove_cgroups(name):
    for top in pathlib.Path("/sys/fs/cgroup").glob(f"*/{name}"):
        def is_gone(top=top):
            for place, _, _ in os.walk(top, topdown=False):
                with contextlib.suppress(OSError):
                    os.rmdir(place)
            return not top.exists()
        wait_until(is_gone, 180, f"{top} is gone")
