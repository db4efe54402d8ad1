# SPDX-License-Identifier: Apache-2.0
"""What the tests of the command line share: scratch pools, and running cairn.

A test program is skipped as a whole with exit status 77; single tests say why
they are skipped. CAIRN_BIN names the program under test.
"""
import fcntl
import itertools
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

BIN = os.environ.get("CAIRN_BIN", "cairn")
REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
TIMEOUT = 600  # seconds; a hang is a failure, slowness is not
THOROUGH = os.environ.get("CAIRN_TEST_THOROUGH") == "1"  # scripts/test --all sets it
BLOCK = 4096
MIB = 1 << 20

# What a failure means; see EXIT STATUS in cairn(1).
OK, USAGE, INVALID, NOT_FOUND, EXISTS, DENIED, NO_SPACE, PRECONDITION, ABORTED, RANGE = \
    0, 2, 3, 5, 6, 7, 8, 9, 10, 11
DATA_LOSS = 15


def can_mount():
    """Root, with loop devices that can be had."""
    if os.geteuid() != 0 or not shutil.which("mkfs.btrfs"):
        return False
    with tempfile.NamedTemporaryFile() as image:
        image.truncate(MIB)
        found = subprocess.run(["losetup", "--find", "--show", image.name],
                               capture_output=True, text=True)
        if found.returncode != 0:
            return False
        subprocess.run(["losetup", "--detach", found.stdout.strip()], check=False)
    return True


CAN_MOUNT = can_mount()


def stop_image(directory):
    """Lets the device of an image fail until its filesystem has shut down, as a failing or full host does."""
    with open("/proc/self/mounts", encoding="utf-8") as mounts:
        device = next(line.split()[0] for line in mounts if line.split()[1] == str(directory))
    fd = os.open(device, os.O_RDWR)
    try:
        whole = fcntl.ioctl(fd, 0x4c05, bytes(232))  # LOOP_GET_STATUS64
        fcntl.ioctl(fd, 0x4c04, whole[:32] + struct.pack("=Q", MIB) + whole[40:])  # lo_sizelimit
        try:
            with open(directory / "fails", "wb") as file:
                file.write(bytes(MIB))
                os.fsync(file.fileno())
        except OSError:
            pass
        subprocess.run(["sync", "-f", directory], check=False, capture_output=True)
        fcntl.ioctl(fd, 0x4c04, whole)
    finally:
        os.close(fd)


class Part:
    """K/N: every N-th of a sequence from the K-th on; a long run in N shorter ones."""

    def __init__(self, text):
        self.first, self.step = map(int, text.split("/"))
        if not 1 <= self.first <= self.step:
            raise ValueError(text)

    def of(self, sequence):
        return itertools.islice(sequence, self.first - 1, None, self.step)


class CliTest(unittest.TestCase):
    """One scratch pool a test; `backend` says of which kind."""

    backend = "copy"

    def setUp(self):
        if self.backend != "copy" and not CAN_MOUNT:
            self.skipTest("needs root and loop devices")
        self.scratch = pathlib.Path(tempfile.mkdtemp(prefix="cairn-cli-"))
        self.pool = self.scratch / "pool"
        self.mounted = []
        self.addCleanup(self.remove)
        self.make_pool()

    def make_pool(self):
        size = [] if self.backend == "copy" else ["--size", "1G", "--thin"]
        self.cairn("pool", "create", "--backend", self.backend, *size, self.pool)

    def remove(self):
        for directory in reversed(self.mounted):
            subprocess.run(["umount", directory], check=False, capture_output=True)
        if self.pool.exists():
            for kind in ("snapshot", "volume"):
                for item in self.items(kind, code=None):
                    self.cairn(kind, "detach", item["id"], code=None)
            self.cairn("pool", "destroy", "--yes", self.pool, code=None)
        shutil.rmtree(self.scratch, ignore_errors=True)

    def environment(self, **extra):
        clean = {k: v for k, v in os.environ.items()
                 if k not in ("CAIRN_POOL", "NO_COLOR", "COLUMNS", "LC_ALL", "LC_CTYPE", "LANG")}
        return {**clean, "CAIRN_POOL": str(self.pool), **extra}

    def cairn(self, *args, code=OK, env=None, **how):
        """Runs cairn; `code` is the status it must end with, None for any."""
        how.setdefault("stdout", subprocess.PIPE)
        how.setdefault("stderr", subprocess.PIPE)
        how.setdefault("timeout", TIMEOUT)
        done = subprocess.run([BIN, *map(str, args)], env=self.environment(**(env or {})),
                              stdin=subprocess.DEVNULL, text=True, **how)
        if code is not None:
            self.assertEqual(done.returncode, code,
                             f"cairn {' '.join(map(str, args))}\n{done.stdout}{done.stderr}")
        return done

    def start(self, *args, env=None, **how):
        how.setdefault("stderr", subprocess.PIPE)
        return subprocess.Popen([BIN, *map(str, args)], env=self.environment(**(env or {})),
                                text=True, stdin=subprocess.DEVNULL, **how)

    def out(self, *args, **how):
        return self.cairn(*args, **how).stdout

    def json(self, *args, **how):
        return json.loads(self.out("--output", "json", *args, **how))

    def lines(self, *args, **how):
        return [json.loads(line) for line in self.out("-o", "ndjson", *args, **how).splitlines()]

    def items(self, kind, *args, code=OK):
        done = self.cairn(kind, "list", *args, "-o", "ndjson", code=code)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def state(self):
        """All that a refused command must leave as it was; space is counted when data is
        written back, which may be later."""
        return [[{key: value for key, value in item.items() if key != "used_bytes"}
                 for item in self.items(kind, "--all")] for kind in ("volume", "snapshot")]

    # ---- volumes and what is in them

    def path(self, kind, name):
        return self.out(kind, "path", name).rstrip("\n")

    def make_volume(self, name="data", size=16 * MIB):
        self.cairn("volume", "create", name, "--size", size)

    def write(self, offset, data, volume="data"):
        with open(self.path("volume", volume), "r+b", buffering=0) as file:
            file.seek(offset)
            file.write(data)
            os.fsync(file.fileno())

    def two_snapshots(self, changes=(0, 5, 6, 100)):
        """data@s1 with data all over, data@s2 with these blocks changed."""
        self.make_volume()
        self.write(0, os.urandom(4 * MIB))
        self.cairn("snapshot", "create", "data@s1")
        for block in changes:
            self.write(block * BLOCK, os.urandom(BLOCK))
        self.cairn("snapshot", "create", "data@s2")

    def read(self, snapshot):
        with open(self.path("snapshot", snapshot), "rb") as file:
            return file.read()

    def changed_blocks(self, base, target):
        """The truth, from the bytes."""
        old, new = self.read(base), self.read(target)
        return [i for i in range(len(new) // BLOCK)
                if old[i * BLOCK:(i + 1) * BLOCK] != new[i * BLOCK:(i + 1) * BLOCK]]

    def assert_covers(self, extents, blocks):
        covered = set()
        end = 0
        for extent in extents:
            self.assertGreaterEqual(extent["byte_offset"], end, "ascending, not overlapping")
            self.assertGreater(extent["size_bytes"], 0)
            end = extent["byte_offset"] + extent["size_bytes"]
            covered.update(range(extent["byte_offset"] // BLOCK, -(-end // BLOCK)))
        self.assertEqual([block for block in blocks if block not in covered], [], "missed")


def main():
    if not shutil.which(BIN):
        print(f"there is no '{BIN}' to test")
        sys.exit(77)
    unittest.main(module="__main__", verbosity=1)
