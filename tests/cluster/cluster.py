# SPDX-License-Identifier: Apache-2.0
"""A Kubernetes cluster for a test, on loopback and in one directory.

    with Cluster() as cluster:                 # etcd, API server, controller manager: 4 s
        cluster.kube.apply({...})              # see kube.py: kubectl, requests, tokens
        cluster.processes.kill("kube-apiserver")

    Cluster(crds=True)                         # and the CRDs of snapshots
    Cluster(csi=True)                          # and `cairn driver` with the CSI controllers
    Cluster(node=True)                         # and a kubelet; this process gets its network

Several may run at a time. When the program that made it ends, however it ends, the
cluster is taken down and its directory removed.
"""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile

from controlplane import LOOPBACK, SERVICE_ADDRESS, ControlPlane
from csistack import CsiStack
from kube import Kube
from node import CONTROLLERS, Node, enter_new_network, remove_cgroups, remove_mounts
from processes import Failed, Ports, Processes, started_at

HERE = pathlib.Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
LIMIT = 3600     # seconds; no cluster lives longer, forgotten or not
LONGEST = 60     # characters of its directory's name: there are sockets below it
GUARD = "guard"  # the process that sees to that

CONTROL_PLANE = ["kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl"]


def peers(*names):
    """{name: file} of programs that scripts/peers builds."""
    done = subprocess.run([REPOSITORY / "scripts/peers", *names], stdout=subprocess.PIPE,
                          stdin=subprocess.DEVNULL, text=True, check=False)
    if done.returncode != 0:
        raise Failed(f"scripts/peers cannot build {' '.join(names)}")
    return dict(line.split(" ", 1) for line in done.stdout.splitlines())


def peers_or_skip(*names):
    """The same, for a test program: without them it ends as skipped."""
    try:
        return peers(*names)
    except Failed as why:
        print(f"skipped: {why}")
        sys.exit(77)


class Cluster:
    def __init__(self, directory=None, crds=False, csi=False, node=False, scheduler=False,
                 cairn=None, feature_gates="", apiserver_args=(), limit=LIMIT, detached=False,
                 **csi_options):
        """`detached`: it stays when the program that made it ends."""
        self.directory = pathlib.Path(directory or tempfile.mkdtemp(prefix="cairn-cluster-"))
        self.directory.mkdir(mode=0o700, exist_ok=True)
        self.directory = self.directory.resolve()
        if len(str(self.directory)) > LONGEST:
            raise Failed(f"{self.directory}: the name is too long for sockets below it")
        if (self.directory / "run").exists():
            raise Failed(f"{self.directory}: there is a cluster already")
        self.options = {"scheduler": scheduler or node, "feature_gates": feature_gates,
                        "apiserver_args": apiserver_args}
        self.wanted = {"crds": crds or csi or node, "csi": csi, "node": node}
        self.csi_options = csi_options
        self.cairn = cairn or os.environ.get("CAIRN_BIN", "cairn")
        self.limit, self.detached = limit, detached
        self.processes = Processes(self.directory)
        self.programs, self.kube, self.csi, self.node = {}, None, None, None

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *why):
        self.close()

    def start(self):
        ports = Ports()
        try:
            self.programs.update(peers(*CONTROL_PLANE))
            self.start_guard()
            if self.wanted["node"]:
                enter_new_network()
            self.start_control_plane(ports)
            if self.wanted["crds"]:
                self.add_crds()
            if self.wanted["csi"]:
                self.add_csi(**self.csi_options)
            if self.wanted["node"]:
                self.add_node()
        except BaseException:
            self.close()
            raise
        finally:
            ports.close()

    def start_guard(self):
        owner = [] if self.detached else ["--owner", os.getpid()]
        self.processes.start(GUARD, [HERE / "down", "--after", self.limit, *owner,
                                     self.directory])

    def start_control_plane(self, ports):
        if self.wanted["node"]:  # where pods look for it
            server, address, port = SERVICE_ADDRESS, "0.0.0.0", 443
            self.options["apiserver_args"] = [*self.options["apiserver_args"],
                                              "--kubelet-preferred-address-types=InternalIP",
                                              # straight to pods: there is no kube-proxy
                                              "--enable-aggregator-routing=true"]
        else:
            server, address, port = LOOPBACK, LOOPBACK, ports.take()
        authority = self.directory / "pki" / "ca.crt"
        self.kube = Kube(self.directory, self.programs["kubectl"], f"https://{server}:{port}",
                         authority)
        self.control_plane = ControlPlane(self.directory, self.processes, ports, self.programs,
                                          self.kube)
        self.control_plane.start(address, port, **self.options)

    def add_crds(self):
        """VolumeSnapshot and the like, and those that this project ships."""
        self.programs.update(peers("snapshot-crds"))
        self.kube.apply(pathlib.Path(self.programs["snapshot-crds"]))
        self.kube.apply(REPOSITORY / "deploy" / "crd")
        self.kube.wait_crds()

    def add_csi(self, **options):
        """`cairn driver` and the controllers that call it; see csistack.py."""
        self.programs.update(peers(*CsiStack.PROGRAMS))
        self.csi = CsiStack(self, **options)
        self.csi.start()

    def add_node(self):
        """A kubelet with containerd, and the snapshot controller; see node.py."""
        self.programs.update(peers("kubelet", "snapshot-controller", *CONTROLLERS))
        CsiStack(self).start_snapshot_controller()
        self.node = Node(self)
        self.node.start(build_of(self.cairn))

    def note(self, **what):
        """Remembers what take_down() needs."""
        path = self.directory / "notes.json"
        known = json.loads(path.read_text()) if path.exists() else {}
        path.write_text(json.dumps({**known, **what}))

    def close(self):
        """May be called again."""
        if self.directory.exists():
            take_down(self.directory, self.processes)


def build_of(cairn):
    """The build directory that the program is in."""
    for place in pathlib.Path(cairn).resolve().parents:
        if (place / "build.ninja").exists():
            return place
    raise Failed(f"{cairn} is in no build directory, so no image can be made of it")


def mounts_below(directory):
    with open("/proc/self/mountinfo", encoding="utf-8") as table:
        places = [line.split()[4].replace("\\040", " ") for line in table]
    return [place for place in places if place.startswith(f"{directory}/")]


def take_down(directory, processes=None, guarded=True):
    """Stops and removes everything of the cluster in `directory`."""
    processes = processes or Processes(directory)
    notes = directory / "notes.json"
    known = json.loads(notes.read_text()) if notes.exists() else {}
    if "node" in known:
        processes.kill("node")  # the first process of its namespace: all of it ends
        remove_mounts(processes)
        remove_cgroups(known["cgroup"])
    processes.stop_all(but=[GUARD])
    if "pool" in known and pathlib.Path(known["pool"]).exists():
        subprocess.run([known["cairn"], "pool", "destroy", "--yes", "--quiet", known["pool"]],
                       stdin=subprocess.DEVNULL, check=True, timeout=120)
    left = mounts_below(directory)
    if left:
        raise Failed(f"still mounted: {' '.join(left)}")
    guard, start, _ = processes.read(GUARD)
    shutil.rmtree(directory)
    # Last: until here, it would have done what we could not.
    if guarded and guard and started_at(guard) == start:
        os.kill(guard, signal.SIGKILL)
        processes.reap(GUARD)
