#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `scripts/demo --ceph` shows: the story of a pool, on a cluster of its own."""
import json
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile

import cephbed

MIB = 1 << 20


def tell(text):
    print(f"\n# {text}", flush=True)


def show(*command):
    print("$ " + shlex.join(command), flush=True)
    subprocess.run(command, check=True)


def write(namespace, volume, *places):
    import rados
    import rbd
    facts = subprocess.run(["cairn", "volume", "info", volume, "--output", "json"], check=True,
                           capture_output=True).stdout
    with rados.Rados(conffile=os.environ["CEPH_CONF"]) as cluster:
        io = cluster.open_ioctx("rbd")
        io.set_namespace(namespace)
        with rbd.Image(io, json.loads(facts)["id"]) as image:
            for at, n in places:
                image.write(os.urandom(n), at)
        io.close()


def story(scratch):
    tell("A pool on the cluster: any host with this ceph.conf can use it.")
    show("cairn", "pool", "create", "rbd:rbd/demo")
    show("cairn", "volume", "create", "data", "--size", "256M")
    write("demo", "data", (0, 64 * MIB))
    show("cairn", "snapshot", "create", "data@monday")
    write("demo", "data", (5 * MIB, 4096), (40 * MIB, 1), (200 * MIB, 8192))
    show("cairn", "snapshot", "create", "data@tuesday")
    tell("What changed, exact to 4 KiB.")
    show("cairn", "delta", "data@monday", "data@tuesday")
    tell("The rbd command knows objects of 4 MiB when it is to be fast, and needs the base.")
    base, target = (json.loads(subprocess.run(
        ["cairn", "snapshot", "info", f"data@{day}", "--output", "json"], check=True,
        capture_output=True).stdout)["id"] for day in ("monday", "tuesday"))
    image = "vol-" + base.split("-")[1]
    show("rbd", "diff", "--whole-object", "--from-snap", base, f"rbd/demo/{image}@{target}")
    tell("The base is deleted. Its data is gone; the answer stays.")
    show("cairn", "snapshot", "delete", "data@monday")
    show("cairn", "delta", base, "data@tuesday")
    tell("A backup, read through librbd, and an increment.")
    os.environ.update(CAIRN_REPOSITORY=str(scratch / "repository"), RESTIC_PASSWORD="demo",
                      XDG_CACHE_HOME=str(scratch / "cache"))
    show("cairn", "backup", "init")
    show("cairn", "backup", "create", "data")
    write("demo", "data", (MIB, 4096))
    show("cairn", "backup", "create", "data")
    show("cairn", "backup", "restore", "data", "--to", str(scratch / "data.img"), "--verify")
    tell("Everything is taken away again.")
    show("cairn", "pool", "destroy", "--yes")


def main():
    lacking = cephbed.missing()
    if lacking:
        sys.exit(f"scripts/demo --ceph needs {lacking}: scripts/deps ceph")
    with tempfile.TemporaryDirectory(prefix="cairn-demo-") as scratch:
        scratch = pathlib.Path(scratch)
        (scratch / "bin").mkdir()
        (scratch / "bin/cairn").symlink_to(pathlib.Path(sys.argv[1]).resolve())
        tell("A Ceph cluster of one monitor and one storage daemon, with cephx, on loopback.")
        cluster = cephbed.Cluster()
        try:
            os.environ.update(PATH=f"{scratch / 'bin'}:{os.environ['PATH']}",
                              CEPH_CONF=cluster.conf, CAIRN_POOL="rbd:rbd/demo")
            story(scratch)
        finally:
            cluster.stop()


main()
