# SPDX-License-Identifier: Apache-2.0
"""A pool on one back end, the truth about it, and cairn run with faults.

The truth is kept by the test: bytes of every volume and snapshot, and what the
delta of acknowledged pairs was. `World.check()` holds the pool to it.
"""
import hashlib
import json
import os
import pathlib
import random
import shutil
import signal
import struct
import subprocess
import tempfile

from cairncli import BIN, BLOCK, MIB

SHIM = os.environ.get("CAIRN_SHIM", "faultshim.so")
TIMEOUT = 600  # seconds; a hang is a failure
THAW_TIMEOUT = 120  # a filesystem that stays frozen so long stays frozen for ever


class Broken(AssertionError):
    """A promise that did not hold."""


def require(condition, text):
    if not condition:
        raise Broken(text)


class Run:
    """How a command ended."""

    def __init__(self, done, calls):
        self.status = done.returncode
        self.out = done.stdout
        self.err = done.stderr
        self.calls = calls
        self.killed = done.returncode == -signal.SIGKILL


class Volume:
    """A volume and what it holds."""

    def __init__(self, world, name, size):
        self.world, self.name, self.size = world, name, size
        self.path = world.out("volume", "path", name).rstrip("\n")
        self.data = bytearray(size)
        self.changing = False  # its size and bytes are the operation's business

    def scribble(self, blocks=3):
        """Writes random blocks; returns which changed."""
        changed = sorted(self.world.random.sample(range(self.size // BLOCK), blocks))
        with open(self.path, "r+b", buffering=0) as file:
            for block in changed:
                fresh = self.world.random.randbytes(BLOCK)
                file.seek(block * BLOCK)
                file.write(fresh)
                self.data[block * BLOCK:(block + 1) * BLOCK] = fresh
        return changed


class World:
    def __init__(self, name, root, backend="auto", retention="30d"):
        self.name = name
        self.root = root
        self.pool = root / "pool"
        self.counter = root / "count"
        self.random = random.Random(4711)
        self.volumes = {}    # name -> Volume
        self.snapshots = {}  # "volume@name" -> digest of its bytes, or None: not known
        self.deltas = {}     # (base, target) -> output
        self.paths = {}      # snapshot id -> path
        self.mounts = []     # filesystems that must never stay frozen
        self.cairn("pool", "create", "--backend", backend, "--retention", retention, self.pool)

    # ---- running cairn

    def environment(self, settings):
        env = {key: value for key, value in os.environ.items() if not key.startswith("CAIRN_")}
        env["CAIRN_POOL"] = str(self.pool)
        if settings:
            self.counter.unlink(missing_ok=True)
            env.update(LD_PRELOAD=SHIM, CAIRN_SHIM_COUNT=str(self.counter),
                       CAIRN_SHIM_DIRS=str(self.root))
            env.update({key: str(value) for key, value in settings.items()})
        return env

    def run(self, *args, **settings):
        """Runs cairn under the shim with these settings (CAIRN_…)."""
        done = subprocess.run([BIN, *map(str, args)], env=self.environment(settings),
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=TIMEOUT)
        calls = 0
        if settings and self.counter.exists():
            calls = struct.unpack("=Q", self.counter.read_bytes()[:8])[0]
        return Run(done, calls)

    def cairn(self, *args, codes=(0,)):
        done = self.run(*args)
        require(done.status in codes,
                f"cairn {' '.join(map(str, args))}: status {done.status}: {done.err.strip()}")
        return done

    def out(self, *args):
        return self.cairn(*args).out

    def items(self, kind):
        text = self.out(kind, "list", "--all", "-o", "ndjson")
        return [json.loads(line) for line in text.splitlines()]

    def restart(self):
        """As after a kill of everything: somebody opens the pool for writing."""
        self.cairn("pool", "gc")

    # ---- making what is known

    def make_volume(self, name, size=MIB):
        self.cairn("volume", "create", name, "--size", size)
        self.volumes[name] = Volume(self, name, size)
        return self.volumes[name]

    def know_snapshot(self, full_name, data):
        self.snapshots[full_name] = None if data is None else hashlib.sha256(data).digest()

    def make_snapshot(self, volume, name):
        self.cairn("snapshot", "create", f"{volume.name}@{name}")
        self.know_snapshot(f"{volume.name}@{name}", volume.data)
        return f"{volume.name}@{name}"

    def delete_snapshot(self, full_name):
        self.cairn("snapshot", "delete", full_name)
        del self.snapshots[full_name]

    def delete_volume(self, name, *options):
        self.cairn("volume", "delete", name, *options)
        del self.volumes[name]
        for full_name in [each for each in self.snapshots if each.split("@")[0] == name]:
            del self.snapshots[full_name]

    def know_delta(self, base, target):
        self.deltas[base, target] = self.out("delta", base, target, "-o", "ndjson")

    # ---- holding the pool to it

    def seen(self):
        """Names of volumes, and of live snapshots with their records."""
        volumes = {item["name"]: item for item in self.items("volume") if not item["deleted"]}
        snapshots = {f"{item['volume']}@{item['name']}": item
                     for item in self.items("snapshot") if not item["deleted"]}
        return volumes, snapshots

    def snapshot_bytes(self, record):
        path = self.paths.get(record["id"])
        if path is None:
            path = self.paths[record["id"]] = \
                self.out("snapshot", "path", record["id"]).rstrip("\n")
        with open(path, "rb") as file:
            return file.read()

    def check(self, maybe_volumes=(), maybe_snapshots=()):
        """Everything known is there and right, nothing else is visible but what
        the interrupted command was about. Returns what is visible."""
        checked = self.run("pool", "check")
        require(checked.status == 0, f"pool check: {checked.out}{checked.err}")
        volumes, snapshots = self.seen()
        for kind, seen, known, maybe in (
                ("volume", volumes, self.volumes, maybe_volumes),
                ("snapshot", snapshots, self.snapshots, maybe_snapshots)):
            lost = set(known) - set(seen) - set(maybe)
            extra = set(seen) - set(known) - set(maybe)
            require(not lost, f"lost {kind} {sorted(lost)}")
            require(not extra, f"unknown {kind} {sorted(extra)}")
        for name, volume in self.volumes.items():
            if name in volumes and not volume.changing:
                self.check_volume(volume, volumes[name])
        for full_name, digest in self.snapshots.items():
            if full_name in snapshots and digest:
                data = self.snapshot_bytes(snapshots[full_name])
                require(hashlib.sha256(data).digest() == digest, f"bytes of {full_name}")
        for (base, target), before in self.deltas.items():
            now = self.out("delta", base, target, "-o", "ndjson")
            require(now == before, f"delta {base} {target} was {before}, is {now}")
        self.check_not_frozen()
        return volumes, snapshots

    def check_volume(self, volume, record):
        require(record["size_bytes"] == volume.size, f"size of {volume.name}")
        if volume.data is not None:
            require(pathlib.Path(volume.path).read_bytes() == volume.data,
                    f"bytes of {volume.name}")

    def check_covers(self, base, target, blocks):
        covered = set()
        for line in self.out("delta", base, target, "-o", "ndjson").splitlines():
            extent = json.loads(line)
            first = extent["byte_offset"] // BLOCK
            covered.update(range(first, first + -(-extent["size_bytes"] // BLOCK)))
        missed = set(blocks) - covered
        require(not missed, f"delta {base} {target} misses blocks {sorted(missed)}")

    def check_not_frozen(self):
        for mount in self.mounts:
            probe = ["dd", "if=/dev/zero", f"of={mount}/probe", "bs=1", "count=1", "conv=fsync",
                     "status=none"]
            child = subprocess.Popen(probe)
            try:
                require(child.wait(THAW_TIMEOUT) == 0, f"{mount} cannot be written")
            except subprocess.TimeoutExpired:
                child.kill()
                subprocess.run(["fsfreeze", "--unfreeze", mount], check=False)
                child.wait()
                raise Broken(f"{mount} stays frozen") from None

    def close(self, code=0):
        for mount in self.mounts:
            subprocess.run(["umount", mount], check=False)
        for name in self.volumes:
            self.run("volume", "detach", name)
        done = self.run("pool", "destroy", "--yes", self.pool)
        require(code is None or done.status == code, f"pool destroy: {done.err.strip()}")


def fast_directory():
    """In memory, where there is room: every command waits for its syncs, and a
    kill needs no disk to be survived."""
    shm = "/dev/shm"
    if os.path.ismount(shm) and os.access(shm, os.W_OK) and \
            shutil.disk_usage(shm).free > 2 << 30:
        return shm
    return None


class Host:
    """A scratch directory on the filesystem that a back end needs."""

    def __init__(self, fs):
        self.fs = fs
        self.scratch = pathlib.Path(tempfile.mkdtemp(prefix="cairn-crash-", dir=fast_directory()))
        self.dir = self.scratch
        if fs:
            image = self.scratch / "image"
            image.touch()
            os.truncate(image, 1024 * MIB)
            subprocess.run([f"mkfs.{fs}", "-q", image], check=True, stdout=subprocess.DEVNULL)
            self.dir = self.scratch / "fs"
            self.dir.mkdir()
            subprocess.run(["mount", "-o", "loop,noatime", image, self.dir], check=True)

    def place(self, name):
        path = self.dir / name
        path.mkdir()
        return path

    def close(self):
        if self.fs:
            subprocess.run(["umount", self.dir], check=True)
        shutil.rmtree(self.scratch)
