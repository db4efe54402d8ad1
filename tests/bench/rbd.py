# SPDX-License-Identifier: Apache-2.0
"""Changed blocks, snapshots and backups of a pool on Ceph beside the rbd command's."""
import json
import os
import pathlib
import random
import sys
import tempfile

from benchlib import CAIRN, Report, call, timed

sys.path.pop(0)  # this directory has a module called rbd as well
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "ceph"))
import cephbed  # noqa: E402

MIB, GIB, BLOCK = 1 << 20, 1 << 30, 4096
SPEC = "rbd/bench"


def extents(text):
    """(number, bytes) of what `rbd diff --format json` or `cairn delta -o json` lists."""
    found = json.loads(text)
    sizes = ([e["size_bytes"] for e in found["block_metadata"]] if isinstance(found, dict)
             else [int(e["length"]) for e in found])
    return len(sizes), sum(sizes)


class Volume:
    def __init__(self, io, name, size):
        import rbd
        call(CAIRN, "volume", "create", name, "--size", size)
        self.name, self.io, self.rbd = name, io, rbd
        self.image = json.loads(call(CAIRN, "volume", "info", name, "--output", "json"))["id"]

    def write(self, places, data):
        with self.rbd.Image(self.io, self.image) as image:
            for at in places:
                image.write(data(), at)

    def cut(self, snapshot):
        call(CAIRN, "snapshot", "create", f"{self.name}@{snapshot}")
        return json.loads(call(CAIRN, "snapshot", "info", f"{self.name}@{snapshot}", "--output",
                               "json"))["id"]


def compare(report, volume, title):
    base = json.loads(call(CAIRN, "snapshot", "info", f"{volume.name}@a", "-o", "json"))["id"]
    target = json.loads(call(CAIRN, "snapshot", "info", f"{volume.name}@b", "-o", "json"))["id"]
    diff = ["rbd", "diff", "--format", "json", "--from-snap", base,
            f"{SPEC}/{volume.image}@{target}"]
    ours = [CAIRN, "delta", f"{volume.name}@a", f"{volume.name}@b", "-o", "json"]
    times = {}
    for name, command in (("cairn delta", ours), ("rbd diff", diff),
                          ("rbd diff --whole-object", [*diff, "--whole-object"])):
        times[name] = timed(command, 9)
        number, size = extents(call(*command))
        report.figure(f"{title}: {name}", times[name])
        report.figure(f"{title}: {name}, to be read", f"{size / MIB:.1f} MiB in {number} extents")
    report.target(f"{title}: cairn delta, whole process", times["cairn delta"].wall * 1000, "<=",
                  20, " ms")
    report.target(f"{title}: --whole-object over cairn delta",
                  times["rbd diff --whole-object"].wall / times["cairn delta"].wall, ">=", 5, "x")


def snapshots(report, volume):
    """Names have to differ, so each run is one of its own."""
    ours = [timed([CAIRN, "snapshot", "create", f"{volume.name}@c{i}"]).wall for i in range(9)]
    theirs = [timed(["rbd", "snap", "create", "--no-progress", f"{SPEC}/{volume.image}@r{i}"]).wall
              for i in range(9)]
    report.figure("cairn snapshot create", f"{sorted(ours)[4] * 1000:.0f} ms")
    report.figure("rbd snap create", f"{sorted(theirs)[4] * 1000:.0f} ms")
    report.target("cairn snapshot create over rbd snap create",
                  sorted(ours)[4] / sorted(theirs)[4], "<=", 1.5, "x")


def backups(report, volume, scratch):
    os.environ["CAIRN_REPOSITORY"], os.environ["RESTIC_PASSWORD"] = str(scratch / "r"), "bench"
    os.environ["XDG_CACHE_HOME"] = str(scratch / "cache")
    call(CAIRN, "backup", "init")
    report.figure("cairn backup create, full", timed([CAIRN, "backup", "create", volume.name]))
    report.figure("rbd export", timed(["rbd", "export", "--no-progress", f"{SPEC}/{volume.image}@"
                                       + volume.cut("e"), str(scratch / "export")]))


def main():
    import rados
    cluster = cephbed.Cluster("bluestore")
    try:
        os.environ["CEPH_CONF"], os.environ["CAIRN_POOL"] = cluster.conf, f"rbd:{SPEC}"
        call(CAIRN, "pool", "create", f"rbd:{SPEC}")
        connection = rados.Rados(conffile=cluster.conf)
        connection.connect()
        io = connection.open_ioctx("rbd")
        io.set_namespace("bench")
        report = Report("rbd: a cluster of one monitor and one storage daemon on this machine")
        dice = random.Random(1)
        full = Volume(io, "full", "8G")
        full.write(range(0, 2 * GIB, 4 * MIB), lambda: os.urandom(4 * MIB))
        full.cut("a")
        full.write([dice.randrange(2 * GIB // BLOCK) * BLOCK for _ in range(5242)],
                   lambda: os.urandom(BLOCK))
        full.cut("b")
        compare(report, full, "8 GiB, 2 GiB of them written, 1 % of that changed")
        sparse = Volume(io, "sparse", "1T")
        sparse.cut("a")
        sparse.write([dice.randrange((1 << 40) // BLOCK) * BLOCK for _ in range(200)],
                     lambda: os.urandom(BLOCK))
        sparse.cut("b")
        compare(report, sparse, "1 TiB sparse, 200 blocks")
        snapshots(report, full)
        with tempfile.TemporaryDirectory() as scratch:
            backups(report, full, pathlib.Path(scratch))
        report.finish()
    finally:
        cluster.stop()


main()
