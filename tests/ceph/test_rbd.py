#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The pool on Ceph: the commands, and what changed against what the test wrote."""
import contextlib
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import cephbed

BIN = os.environ.get("CAIRN_BIN", "cairn")
BLOCK = 4096
MIB = 1 << 20
TIMEOUT = 300  # seconds; only a hang reaches it
STEPS = int(os.environ.get("CAIRN_CEPH_STEPS", "40"))
SEED = int(os.environ.get("CAIRN_CEPH_SEED", "0")) or random.randrange(1, 1 << 32)

INVALID, NOT_FOUND, EXISTS, DENIED, NO_SPACE = 3, 5, 6, 7, 8
PRECONDITION, ABORTED, UNIMPLEMENTED, UNAVAILABLE = 9, 10, 12, 14

cluster = None


def setUpModule():
    global cluster
    cluster = cephbed.Cluster(os.environ.get("CAIRN_CEPH_STORE", "memstore"))


def tearDownModule():
    if cluster:
        cluster.stop()


class RbdTest(unittest.TestCase):
    def setUp(self):
        import rados
        self.scratch = pathlib.Path(tempfile.mkdtemp(prefix="cairn-rbd-"))
        self.addCleanup(shutil.rmtree, self.scratch, ignore_errors=True)
        self.namespace = self.id().rsplit(".", 1)[1].replace("_", "-")
        self.pool = f"rbd:rbd/{self.namespace}:conf={cluster.conf}"
        self.rados = rados.Rados(conffile=cluster.conf)
        self.rados.connect()
        self.addCleanup(self.rados.shutdown)
        self.cairn("pool", "create", self.pool)
        self.io = self.rados.open_ioctx("rbd")
        self.io.set_namespace(self.namespace)
        self.addCleanup(self.io.close)

    def environment(self, **extra):
        return {**os.environ, "CAIRN_POOL": self.pool, "RESTIC_PASSWORD": "secret",
                "CAIRN_REPOSITORY": str(self.scratch / "repository"),
                "XDG_CACHE_HOME": str(self.scratch / "cache"), **extra}

    def cairn(self, *args, code=0, env=None):
        done = subprocess.run([BIN, *map(str, args)], env=self.environment(**(env or {})),
                              stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=TIMEOUT)
        if code is not None:
            self.assertEqual(done.returncode, code, f"{args}: {done.stdout}{done.stderr}")
        return done

    def json(self, *args, **how):
        return json.loads(self.cairn(*args, "--output", "json", **how).stdout)

    @contextlib.contextmanager
    def image(self, volume, snapshot=None):
        import rbd
        with rbd.Image(self.io, volume, snapshot=snapshot,
                       read_only=snapshot is not None) as image:
            yield image

    def make_volume(self, name, size, *more):
        self.cairn("volume", "create", name, *(["--size", size] if size else []), *more)
        return self.json("volume", "info", name)["id"]

    def cut(self, name):
        self.cairn("snapshot", "create", name)
        return self.json("snapshot", "info", name)["id"]

    def delta(self, base, target, zeros=None, **how):
        """The blocks of the target that may differ, as a set of numbers; `zeros` receives
        those that are said to be zero."""
        blocks = set()
        for line in self.cairn("delta", base, target, "--output", "ndjson",
                               **how).stdout.splitlines():
            extent = json.loads(line)
            first = extent["byte_offset"] // BLOCK
            last = (extent["byte_offset"] + extent["size_bytes"] - 1) // BLOCK
            blocks.update(range(first, last + 1))
            if zeros is not None and extent["zero"]:
                zeros.update(range(first, last + 1))
        return blocks

    def assert_clean(self):
        self.assertIn("no fault", self.cairn("pool", "check").stdout)


def changed_blocks(base, target):
    """The blocks in which the contents differ; the shorter one ends in zeros."""
    base = base.ljust(len(target), b"\0")
    return {at // BLOCK for at in range(0, len(target), BLOCK)
            if base[at:at + BLOCK] != target[at:at + BLOCK]}


class Story(RbdTest):
    def test_changes_also_after_the_base_is_gone(self):
        volume = self.make_volume("data", "64M")
        with self.image(volume) as image:
            image.write(b"a" * 8 * MIB, 0)
        first = self.cut("data@first")
        with self.image(volume) as image:
            image.write(b"b", 5000)
            image.write(b"c" * BLOCK, 6 * MIB)
        self.cut("data@second")
        self.assertEqual(self.delta("data@first", "data@second"), {1, 6 * MIB // BLOCK})
        self.cairn("snapshot", "delete", "data@first")
        self.assertEqual(self.delta(first, "data@second"), {1, 6 * MIB // BLOCK})
        with self.image(volume) as image:
            self.assertEqual([snap["name"] for snap in image.list_snaps()],
                             [self.json("snapshot", "info", "data@second")["id"]])
        self.assert_clean()

    def test_clones_outlive_what_they_come_from(self):
        volume = self.make_volume("data", "16M")
        with self.image(volume) as image:
            image.write(b"a" * MIB, 4 * MIB)
        self.cut("data@s")
        clone = self.make_volume("clone", None, "--from", "data@s")
        with self.image(clone) as image:
            image.write(b"b" * BLOCK, 4 * MIB + BLOCK)
        self.cut("clone@t")
        self.assertEqual(self.delta("data@s", "clone@t"), {4 * MIB // BLOCK + 1})
        self.cairn("volume", "delete", "data", "--with-snapshots")
        with self.image(clone) as image:
            self.assertEqual(image.read(4 * MIB, 3 * BLOCK),
                             b"a" * BLOCK + b"b" * BLOCK + b"a" * BLOCK)
        self.assert_clean()
        self.cairn("volume", "delete", "clone", "--with-snapshots")
        self.assert_clean()
        self.assertEqual(cluster.run("rbd", "ls", f"rbd/{self.namespace}"), "")

    def test_a_volume_is_deleted_and_its_snapshot_stays(self):
        volume = self.make_volume("data", "8M")
        with self.image(volume) as image:
            image.write(b"x" * BLOCK, 0)
        snapshot = self.cut("data@s")
        self.cairn("volume", "delete", "data", "--keep-snapshots")
        again = self.make_volume("data", None, "--from", snapshot)
        with self.image(again) as image:
            self.assertEqual(image.read(0, BLOCK), b"x" * BLOCK)
        self.assert_clean()
        self.cairn("snapshot", "delete", snapshot)
        self.assert_clean()

    def test_backup_and_restore(self):
        volume = self.make_volume("data", "32M")
        with self.image(volume) as image:
            image.write(os.urandom(3 * MIB), MIB)
        self.cairn("backup", "init")
        self.cairn("backup", "create", "data")
        with self.image(volume) as image:
            image.write(os.urandom(BLOCK), 2 * MIB)
            expected = image.read(0, 32 * MIB)
        second = self.cairn("backup", "create", "data")
        self.assertNotIn("full", second.stdout + second.stderr)
        restored = self.scratch / "data.img"
        self.cairn("backup", "restore", "data", "--to", restored, "--verify")
        self.assertEqual(restored.read_bytes(), expected)
        self.assert_clean()

    def test_a_volume_in_use_is_neither_deleted_nor_rolled_back(self):
        volume = self.make_volume("data", "8M")
        self.cut("data@s")
        with self.image(volume) as image:
            image.write(b"x" * BLOCK, 0)
            for command in (("volume", "delete", "data", "--with-snapshots"),
                            ("volume", "rollback", "data@s", "--no-snapshot")):
                self.assertIn("open for writing", self.cairn(*command, code=PRECONDITION).stderr)
        self.cairn("volume", "rollback", "data@s", "--no-snapshot")
        with self.image(volume) as image:
            self.assertEqual(image.read(0, BLOCK), bytes(BLOCK))
        self.assert_clean()

    def test_a_group_is_one_point_in_time_or_refused(self):
        """A writer writes n to both volumes in turn: what is cut differs by one at most."""
        names = [self.make_volume(name, "4M") for name in ("a", "b")]
        stop, written = threading.Event(), []

        def write():
            with self.image(names[0]) as a, self.image(names[1]) as b:
                while not stop.is_set():
                    n = len(written)
                    for image in (a, b):
                        image.write(n.to_bytes(8, "little"), 0)
                        image.flush()
                    written.append(n)
                    time.sleep(dice.random() * 0.3)

        dice = random.Random(SEED)
        writer = threading.Thread(target=write)
        writer.start()
        try:
            for i in range(4):
                done = self.cairn("snapshot", "create", f"a@g{i}", f"b@g{i}", code=None)
                self.assertIn(done.returncode, (0, ABORTED), done.stderr)
                if done.returncode == 0:
                    first, second = (self.read_first(f"{v}@g{i}") for v in "ab")
                    self.assertIn(first - second, (0, 1))
        finally:
            stop.set()
            writer.join()
        self.assert_clean()

    def read_first(self, snapshot):
        identity = self.json("snapshot", "info", snapshot)["id"]
        volume = "vol-" + identity.split("-")[1]
        with self.image(volume, identity) as image:
            return int.from_bytes(image.read(0, 8), "little")

    def test_errors_are_clear(self):
        self.assertIn("already", self.cairn("pool", "create", self.pool, code=EXISTS).stderr)
        elsewhere = f"rbd:rbd/nothing:conf={cluster.conf}"
        self.assertIn("no pool", self.cairn("volume", "list", env={"CAIRN_POOL": elsewhere},
                                            code=NOT_FOUND).stderr)
        self.assertIn("'none'", self.cairn("volume", "list", code=NOT_FOUND, env={
            "CAIRN_POOL": f"rbd:none:conf={cluster.conf}"}).stderr)
        keyring = self.scratch / "keyring"
        cluster.run("ceph-authtool", str(keyring), "--create-keyring", "--gen-key", "-n",
                    "client.admin")
        denied = self.cairn("volume", "list", code=DENIED,
                            env={"CEPH_ARGS": f"--keyring {keyring}"})
        self.assertIn("Permission denied", denied.stderr)
        self.cairn("volume", "create", "bad", "--size", "1000", code=3)
        self.cairn("volume", "list", env={"CAIRN_POOL": "rbd:a/b/c"}, code=3)

    def test_a_user_of_least_rights(self):
        pool = f"{self.pool}:id=cairn"
        self.cairn("volume", "create", "data", "--size", "4M", env={"CAIRN_POOL": pool})
        self.cairn("snapshot", "create", "data@s", env={"CAIRN_POOL": pool})
        self.assertEqual(self.delta("data@s", "data@s", env={"CAIRN_POOL": pool}), set())
        self.cairn("pool", "destroy", "--yes", pool)
        left = cluster.run("rados", "-p", "rbd", "-N", self.namespace, "ls").split()
        self.assertEqual([name for name in left if not name.startswith("rbd_")], [])

    def test_destroying_keeps_what_is_used_or_foreign(self):
        import rbd
        volume = self.make_volume("data", "4M")
        snapshot = self.cut("data@s")
        rbd.RBD().create(self.io, "vol-data.1", MIB)
        with self.image(volume):
            refused = self.cairn("pool", "destroy", "--yes", self.pool, code=PRECONDITION)
        self.assertIn("open for writing", refused.stderr)
        with self.image(volume, snapshot):
            pass
        self.cairn("pool", "check", "--repair")
        self.assertIn("vol-data.1", rbd.RBD().list(self.io))
        self.cairn("pool", "destroy", "--yes", self.pool)
        self.assertEqual(rbd.RBD().list(self.io), ["vol-data.1"])

    def test_an_existing_image_is_adopted(self):
        import rbd
        maker = rbd.RBD()
        maker.create(self.io, "csi-vol-1", 16 * MIB, features=rbd.RBD_FEATURE_LAYERING)
        with self.image("csi-vol-1") as image:
            image.write(b"a" * MIB, 0)
            self.assertIn("open for writing",
                          self.cairn("volume", "adopt", "csi-vol-1", code=PRECONDITION).stderr)
            image.create_snap("theirs")
        self.assertIn("snapshots",
                      self.cairn("volume", "adopt", "csi-vol-1", code=PRECONDITION).stderr)
        with self.image("csi-vol-1") as image:
            image.remove_snap("theirs")
        self.make_volume("taken", "4M")
        self.cairn("volume", "adopt", "csi-vol-1", "--name", "taken", code=EXISTS)
        self.cairn("volume", "adopt", "nothing", code=NOT_FOUND)
        self.assertIn("csi-vol-1", maker.list(self.io))
        volume = self.json("volume", "adopt", "csi-vol-1", "--name", "data")["id"]
        first = self.cut("data@first")
        with self.image(volume) as image:
            image.write(b"b" * BLOCK, 2 * BLOCK)
        self.cut("data@second")
        self.cairn("snapshot", "delete", "data@first")
        self.assertEqual(self.delta(first, "data@second"), {2})
        self.assert_clean()
        self.cairn("volume", "delete", "data", "--with-snapshots")
        self.assertNotIn(volume, maker.list(self.io))

    def test_a_killed_process_does_not_block_the_next(self):
        self.make_volume("data", "8M")
        pool = self.pool
        for i in range(3):
            process = subprocess.Popen([BIN, "snapshot", "create", f"data@k{i}"],
                                       env=self.environment(CAIRN_POOL=pool),
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(0.06 * (i + 1))
            process.send_signal(signal.SIGKILL)
            process.wait()
            self.cairn("snapshot", "create", f"data@after{i}")
        self.assert_clean()


class Corners(RbdTest):
    def sets(self):
        return [o.key for o in self.io.list_objects() if o.key.startswith("cairn.set.")]

    def test_a_change_set_of_several_objects(self):
        """A storage daemon accepts 128 MiB an object; with a lower limit, sets have more parts."""
        small = {"CEPH_ARGS": "--osd-max-object-size=8192"}
        volume = self.make_volume("data", "256M")
        with self.image(volume) as image:
            for at in range(0, 256 * MIB, 4 * MIB):
                image.write(b"x" * 4 * MIB, at)
        first = self.cut("data@first")
        dice = random.Random(SEED)
        blocks = set(dice.sample(range(256 * MIB // BLOCK), 6000))
        with self.image(volume) as image:
            for block in blocks:
                image.write(b"y" * BLOCK, block * BLOCK)
        self.cairn("snapshot", "create", "data@second", env=small)
        self.assertEqual(self.delta(first, "data@second", env=small), blocks)
        self.assertGreaterEqual(len([name for name in self.sets() if "/" in name]), 1)
        self.assertEqual(self.delta(first, "data@second"), blocks)
        self.assert_clean()
        self.cairn("pool", "destroy", "--yes", self.pool)
        self.assertEqual(self.sets(), [])

    def test_a_pool_is_made_twice_at_once(self):
        """One pool with one id, whoever is first."""
        for turn in range(5):
            pool = f"rbd:rbd/twice{turn}:conf={cluster.conf}"
            both = [subprocess.Popen([BIN, "pool", "create", pool], env=self.environment(),
                                     stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
                    for _ in range(2)]
            seen = set()
            while any(process.poll() is None for process in both):
                seen.add(self.pool_id(f"twice{turn}"))
            seen.add(self.pool_id(f"twice{turn}"))
            seen.discard(None)
            for process in both:
                self.assertIn(process.returncode, (0, EXISTS), process.stderr.read())
                process.stderr.close()
            self.assertEqual(len(seen), 1)

    def pool_id(self, namespace):
        """Of a pool that can be used."""
        import rados
        with self.rados.open_ioctx("rbd") as io:
            io.set_namespace(namespace)
            try:
                text = io.read("cairn.pool").decode()
            except rados.ObjectNotFound:
                return None
        lines = dict(line.split(None, 1) for line in text.splitlines() if " " in line)
        return lines["id"] if lines["state"] == "ready" else None

    def test_a_volume_in_quarantine_keeps_its_snapshots(self):
        import rbd
        volume = self.make_volume("data", "8M")
        with self.image(volume) as image:
            image.write(b"q" * BLOCK, 0)
        snapshot = self.cut("data@s")
        rbd.RBD().rename(self.io, volume, volume + ".aside")
        clone = self.make_volume("clone", None, "--from", snapshot)
        with self.image(clone) as image:
            self.assertEqual(image.read(0, BLOCK), b"q" * BLOCK)
        rbd.RBD().rename(self.io, volume + ".aside", volume)
        self.assert_clean()


class Faults(RbdTest):
    def set_ratios(self, nearfull, backfillfull, full):
        for name, ratio in (("full", "0.99"), ("backfillfull", "0.98"), ("nearfull", nearfull),
                            ("backfillfull", backfillfull), ("full", full)):
            cluster.run("ceph", "osd", f"set-{name}-ratio", ratio)
        wanted = float(full) < 0.5
        deadline = time.monotonic() + TIMEOUT
        # "nearfull" and "backfillfull" come first, and do not refuse anything.
        while bool(re.search(r"\bfull\b", cluster.run("ceph", "osd", "pool", "ls", "detail"))) \
                != wanted:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.2)

    def test_a_full_cluster_refuses_at_once_and_lets_delete(self):
        volume = self.make_volume("data", "64M")
        with self.image(volume) as image:
            image.write(os.urandom(16 * MIB), 0)
        first = self.cut("data@first")
        with self.image(volume) as image:
            image.write(b"b" * BLOCK, 0)
        self.cut("data@second")
        self.addCleanup(self.set_ratios, "0.85", "0.90", "0.95")
        self.set_ratios("0.00001", "0.00002", "0.00003")
        refused = self.cairn("volume", "create", "more", "--size", "8M", code=NO_SPACE)
        self.assertIn("No space left", refused.stderr)
        self.assertEqual(self.delta(first, "data@second"), {0})
        self.cairn("snapshot", "delete", "data@first")
        self.assertEqual(self.delta(first, "data@second"), {0})
        self.cairn("volume", "delete", "data", "--with-snapshots")
        self.set_ratios("0.85", "0.90", "0.95")
        more = self.make_volume("more", "8M")  # removes what could not be removed before
        self.assertEqual(cluster.run("rbd", "ls", f"rbd/{self.namespace}").split(), [more])
        self.assert_clean()

    def test_the_monitor_is_gone_for_a_while(self):
        self.make_volume("data", "8M")
        cluster.mon.send_signal(signal.SIGSTOP)
        try:
            gone = self.cairn("volume", "list", code=UNAVAILABLE)
            self.assertIn("connect to Ceph", gone.stderr)
        finally:
            cluster.mon.send_signal(signal.SIGCONT)
        self.cut("data@s")
        self.assert_clean()


class Fuzz(RbdTest):
    """Random operations; no block that differs may be missing from a delta."""

    def test_random_operations(self):
        print(f"seed {SEED}, {STEPS} steps", file=sys.stderr)
        self.dice = random.Random(SEED)
        self.volumes = {}    # name: [id, contents]
        self.snapshots = {}  # id: (volume name, contents, live)
        self.line = {}       # id: id of the predecessor, or None
        self.head = {}       # volume name: id of its last snapshot, or None
        self.serial = self.compared = 0
        self.add_volume()
        for _ in range(STEPS):
            self.dice.choices((self.write, self.snap, self.forget, self.clone, self.grow,
                               self.rollback, self.compare, self.drop),
                              (30, 25, 6, 5, 5, 3, 20, 2))[0]()
        self.compare()
        self.assert_clean()
        print(f"{self.compared} changed blocks compared, 0 missed", file=sys.stderr)

    def name(self, prefix):
        self.serial += 1
        return f"{prefix}{self.serial}"

    def add_volume(self):
        name, size = self.name("v"), self.dice.randrange(1, 24) * MIB // 2
        self.volumes[name] = [self.make_volume(name, size), bytearray(size)]
        self.head[name] = None

    def pick(self):
        if not self.volumes:
            self.add_volume()
        return self.dice.choice(sorted(self.volumes))

    def live(self):
        return sorted(s for s, (_, _, live) in self.snapshots.items() if live)

    def write(self):
        name = self.pick()
        identity, content = self.volumes[name]
        with self.image(identity) as image:
            for _ in range(self.dice.randrange(1, 12)):
                n = self.dice.choice((1, 512, BLOCK, 65536, MIB))
                n = min(n, len(content))
                at = self.dice.randrange(0, len(content) - n + 1)
                at -= at % self.dice.choice((1, 512, BLOCK))
                kind = self.dice.randrange(4)
                if kind == 0:
                    image.write_zeroes(at, n)
                    content[at:at + n] = bytes(n)
                elif kind == 1:
                    image.discard(at, n)
                    content[at:at + n] = image.read(at, n)
                else:
                    data = self.dice.randbytes(n)
                    image.write(data, at)
                    content[at:at + n] = data

    def snap(self):
        name = self.pick()
        identity = self.cut(f"{name}@{self.name('s')}")
        self.snapshots[identity] = (name, bytes(self.volumes[name][1]), True)
        self.line[identity] = self.head[name]
        self.head[name] = identity
        with self.image(self.volumes[name][0]) as image:
            self.assertEqual(image.read(0, image.size()), bytes(self.volumes[name][1]))

    def forget(self):
        live = self.live()
        if live:
            gone = self.dice.choice(live)
            name, content, _ = self.snapshots[gone]
            self.cairn("snapshot", "delete", gone)
            self.snapshots[gone] = (name, content, False)

    def clone(self):
        live = self.live()
        if live and len(self.volumes) < 5:
            source = self.dice.choice(live)
            name, content = self.name("c"), self.snapshots[source][1]
            self.volumes[name] = [self.make_volume(name, None, "--from", source),
                                  bytearray(content)]
            self.head[name] = source

    def grow(self):
        name = self.pick()
        content = self.volumes[name][1]
        if len(content) < 20 * MIB:
            content.extend(bytes(self.dice.randrange(1, 9) * 512 * 1024))
            self.cairn("volume", "expand", name, "--size", len(content))

    def rollback(self):
        live = [s for s in self.live() if self.snapshots[s][0] in self.volumes]
        if live:
            to = self.dice.choice(live)
            name, content, _ = self.snapshots[to]
            self.cairn("volume", "rollback", to, "--no-snapshot")
            now = self.volumes[name][1]
            now[:] = content.ljust(len(now), b"\0")

    def drop(self):
        if len(self.volumes) > 1:
            name = self.pick()
            self.cairn("volume", "delete", name, "--keep-snapshots")
            del self.volumes[name]

    def ancestors(self, snapshot):
        while self.line.get(snapshot):
            snapshot = self.line[snapshot]
            yield snapshot

    def compare(self):
        for target in self.dice.sample(self.live(), min(3, len(self.live()))):
            for base in list(self.ancestors(target))[:3]:
                real = changed_blocks(self.snapshots[base][1], self.snapshots[target][1])
                zeros = set()
                missed = real - self.delta(base, target, zeros)
                self.assertEqual(missed, set(), f"{base} to {target}, seed {SEED}")
                content = self.snapshots[target][1]
                wrong = {b for b in zeros if any(content[b * BLOCK:(b + 1) * BLOCK])}
                self.assertEqual(wrong, set(), f"zeros of {target}, seed {SEED}")
                self.compared += len(real)


class Million(RbdTest):
    """Many changed blocks: what is written is fresh noise, so every block of it differs.

    The file CAIRN_CEPH_TALLY keeps the sum over several runs: a run that was interrupted is
    continued by the next, with another seed and a cluster of its own."""

    GOAL = int(os.environ.get("CAIRN_CEPH_BLOCKS", "20000"))
    SIZE = 512 * MIB
    TALLY = os.environ.get("CAIRN_CEPH_TALLY")

    def tally(self):
        if self.TALLY and os.path.exists(self.TALLY):
            return json.loads(pathlib.Path(self.TALLY).read_text())
        return {"compared": 0, "more": 0}

    def add_to_tally(self, compared, more):
        tally = self.tally()
        tally = {"compared": tally["compared"] + compared, "more": tally["more"] + more}
        fresh = pathlib.Path(self.TALLY + ".new")
        fresh.write_text(json.dumps(tally))
        fresh.replace(self.TALLY)
        return tally

    def test_no_block_is_missed(self):
        dice = random.Random(SEED)
        volume = self.make_volume("data", self.SIZE)
        turn, base, tally = 0, self.cut("data@t0"), self.tally()
        compared = tally["compared"]
        while compared < self.GOAL:
            written = set()
            with self.image(volume) as image:
                while len(written) < min(50000, self.GOAL):
                    n = dice.choice((1, 512, BLOCK, 3 * BLOCK, 65536, MIB))
                    at = dice.randrange(0, self.SIZE - n)
                    image.write(os.urandom(n), at)
                    written.update(range(at // BLOCK, (at + n - 1) // BLOCK + 1))
            turn += 1
            target = self.cut(f"data@t{turn}")
            self.cairn("snapshot", "delete", base)
            found = self.delta(base, target)
            self.assertEqual(written - found, set(), f"turn {turn}, seed {SEED}")
            if self.TALLY:
                tally = self.add_to_tally(len(written), len(found - written))
            else:
                tally = {"compared": compared + len(written),
                         "more": tally["more"] + len(found - written)}
            compared = tally["compared"]
            base = target
        print(f"{compared} changed blocks, 0 missed, {tally['more']} more reported",
              file=sys.stderr)
        self.assert_clean()


@unittest.skipUnless(os.environ.get("CAIRN_CEPH_STORE") == "bluestore",
                     "the storage daemon must keep its data when it is killed")
class Outage(RbdTest):
    """The storage daemon is killed under load and comes back: what was acknowledged is there."""

    def test_the_storage_daemon_is_killed(self):
        self.make_volume("data", "8M")
        acknowledged, faults, stop = [], [], threading.Event()

        def work():
            for i in range(10000):
                if stop.is_set():
                    return
                done = self.cairn("snapshot", "create", f"data@o{i}", code=None)
                if done.returncode == 0:
                    acknowledged.append(f"o{i}")
                elif done.returncode not in (ABORTED, UNAVAILABLE):
                    faults.append((done.returncode, done.stderr))

        thread = threading.Thread(target=work)
        thread.start()
        for _ in range(2):
            time.sleep(3)
            cluster.osd.kill()
            cluster.osd.wait()
            cluster.start_osd()
        before = len(acknowledged)
        deadline = time.monotonic() + TIMEOUT
        while len(acknowledged) < before + 3 and time.monotonic() < deadline:
            time.sleep(0.2)
        stop.set()
        thread.join()
        self.assertEqual(faults, [])
        self.assertGreaterEqual(len(acknowledged), before + 3)
        names = {s["name"] for s in self.json("snapshot", "list", "data")["snapshots"]}
        self.assertEqual(set(acknowledged) - names, set())
        self.assert_clean()


class Together(RbdTest):
    """Several processes at once, some of them killed."""

    ROUNDS = int(os.environ.get("CAIRN_CEPH_ROUNDS", "4"))

    def test_four_at_once(self):
        faults = []

        def work(number):
            dice = random.Random(SEED + number)
            for i in range(self.ROUNDS):
                name = f"w{number}-{i}"
                for command in (("volume", "create", name, "--size", "4M"),
                                ("snapshot", "create", f"{name}@a"),
                                ("snapshot", "create", f"{name}@b"),
                                ("delta", f"{name}@a", f"{name}@b"),
                                ("snapshot", "delete", f"{name}@a"),
                                ("volume", "delete", name, "--with-snapshots")):
                    process = subprocess.Popen([BIN, *command], env=self.environment(),
                                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                               text=True)
                    if number == 0 and dice.randrange(3) == 0:
                        time.sleep(dice.random() * 0.2)
                        process.kill()
                    text = process.communicate(timeout=TIMEOUT)[1]
                    good = (0, ABORTED, UNAVAILABLE, -signal.SIGKILL)
                    if number == 0:  # what was killed was not made, or is there already
                        good += (NOT_FOUND, EXISTS, PRECONDITION)
                    if process.returncode not in good:
                        faults.append((command, process.returncode, text))

        threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(faults, [])
        self.assert_clean()


if __name__ == "__main__":
    lacking = cephbed.missing()
    if lacking:
        print(f"needs {lacking}: scripts/deps ceph")
        sys.exit(77)
    unittest.main(verbosity=2)
