#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every command on a pool with 0 bytes free, and again when there is space.

Each back end has a small filesystem of its own, filled to the last byte. Listing, deleting and destroying
work on it; what needs space fails with NO_SPACE and leaves nothing behind.

  test_full.py [--long]     --long: more rounds, and more kinds of pools
"""
import os
import shutil
import sqlite3
import subprocess
import sys
import threading

from cairncli import CAN_MOUNT, MIB, NO_SPACE, CliTest, main

ROUNDS = 1
MKFS = {"btrfs": (192, ["mkfs.btrfs", "-q"]), "xfs": (320, ["mkfs.xfs", "-q", "-mreflink=1"]),
        "ext4": (96, ["mkfs.ext4", "-q", "-m0"])}


def settle(directory):
    """btrfs removes the trees of deleted subvolumes later, which gives space back after it was filled."""
    subprocess.run(["btrfs", "subvolume", "sync", directory], check=False, capture_output=True)
    subprocess.run(["sync", "-f", directory], check=False, capture_output=True)


def fill(directory, name="filler"):
    """Writes until not one more byte fits, in ever smaller pieces, as files of any size do."""
    settle(directory)
    with open(directory / name, "ab", buffering=0) as file:
        for _ in range(2):
            size = 64 * MIB
            while size >= 4096:
                try:
                    os.posix_fallocate(file.fileno(), file.seek(0, os.SEEK_END), size)
                except OSError:
                    size //= 2
            while size >= 1:
                try:
                    file.write(os.urandom(size))
                    os.fsync(file.fileno())
                except OSError:
                    size //= 2
            subprocess.run(["sync", "-f", directory], check=False, capture_output=True)
    for i in range(200):  # small files may still fit where a large one does not
        try:
            with open(directory / f"{name}-{i}", "wb", buffering=0) as file:
                file.write(b"x" * 4096)
                os.fsync(file.fileno())
        except OSError:
            break


def empty(directory):
    for file in directory.glob("filler*"):
        file.unlink()
    subprocess.run(["sync", "-f", directory], check=True)


class FullTest(CliTest):
    """A pool on a filesystem of its own."""

    filesystem = "ext4"
    volume_size = 8 * MIB

    def setUp(self):
        if not CAN_MOUNT:
            self.skipTest("needs root and loop devices")
        super().setUp()

    def make_disk(self, size, mkfs):
        if not shutil.which(mkfs[0]):
            self.skipTest(f"{mkfs[0]} is not installed")
        image = self.scratch / "image"
        with open(image, "wb") as file:
            file.truncate(size * MIB)
        subprocess.run([*mkfs, image], check=True, capture_output=True)
        self.disk = self.scratch / "disk"
        self.disk.mkdir()
        subprocess.run(["mount", "-o", "loop", image, self.disk], check=True)
        self.mounted.append(self.disk)
        self.pool = self.disk / "pool"

    def make_pool(self):
        self.make_disk(*MKFS[self.filesystem])
        self.cairn("pool", "create", "--backend", self.backend, self.pool)

    def remove(self):
        empty(self.disk)
        self.cairn("pool", "destroy", "--yes", self.pool, code=None)
        for directory in reversed(self.mounted):
            subprocess.run(["umount", "-l", directory], check=False, capture_output=True)
        shutil.rmtree(self.scratch, ignore_errors=True)

    def content(self, volume="data"):
        with open(self.path("volume", volume), "rb") as file:
            return file.read()

    def take_all(self):
        """data with five snapshots, each newer than the one before, and three volumes to delete."""
        for i in range(5):
            self.write(i * MIB, os.urandom(MIB))
            self.cairn("snapshot", "create", f"data@s{i}")
        for name in ("one", "two", "three"):
            self.make_volume(name, MIB)
            self.write(0, os.urandom(MIB), name)
            self.cairn("snapshot", "create", f"{name}@s")
        self.truth = {f"s{i}": self.read(f"data@s{i}") for i in range(5)}
        self.truth_now = self.content()

    def prepare(self):
        self.make_volume("data", self.volume_size)
        self.take_all()

    def assert_listed(self):
        self.assertEqual({v["name"] for v in self.items("volume")}, {"data", "one", "two", "three"})
        self.assertEqual(len(self.items("snapshot")), 8)
        self.cairn("pool", "info")
        self.cairn("volume", "info", "data")
        self.cairn("snapshot", "info", "data@s1")
        self.assertEqual(len(self.json("delta", "data@s0", "data@s1")["block_metadata"]), 1)

    def assert_refused(self):
        """What needs space says so and changes nothing."""
        before = self.state()
        for command in (("volume", "create", "more", "--size", "64M"),
                        ("snapshot", "create", "data@more"),
                        ("volume", "rollback", "data@s1"),
                        ("volume", "rename", "data", "other"),
                        ("snapshot", "rename", "data@s1", "data@other"),
                        ("volume", "create", "clone", "--from", "data@s1")):
            done = self.cairn(*command, code=NO_SPACE)
            self.assertIn("space", done.stderr.lower())
        self.assertEqual(self.state(), before)

    def assert_whole(self, gone=()):
        for name, bytes_ in self.truth.items():
            if name not in gone:
                self.assertEqual(self.read(f"data@{name}"), bytes_, name)
        self.assertEqual(self.content(), self.truth_now)
        self.cairn("pool", "check")

    def test_every_command_at_0_bytes_free_and_again_with_space(self):
        self.prepare()
        for _ in range(ROUNDS):
            fill(self.disk)
            self.assert_listed()
            self.assert_refused()
            self.cairn("snapshot", "prune", "data", "--keep-last", "4")
            fill(self.disk)
            self.cairn("volume", "delete", "--with-snapshots", "one")
            fill(self.disk)
            self.cairn("snapshot", "delete", "data@s4")
            self.cairn("volume", "delete", "--keep-snapshots", "two")
            self.cairn("pool", "gc")
            self.cairn("pool", "check")
            self.assert_whole(gone=("s0", "s4"))
            empty(self.disk)
            self.assert_whole(gone=("s0", "s4"))
            self.write(5 * MIB, os.urandom(MIB))
            self.truth_now = self.content()
            self.cairn("snapshot", "create", "data@after")
            old, new = self.truth["s3"], self.read("data@after")
            self.assertNotEqual(old, new)
            delta = self.json("delta", "data@s3", "data@after")["block_metadata"]
            self.assert_covers(delta, self.changed_blocks("data@s3", "data@after"))
            self.cairn("volume", "delete", "--with-snapshots", "three")
            for item in self.items("snapshot"):
                self.cairn("snapshot", "delete", item["id"])
            self.assertEqual({v["name"] for v in self.items("volume")}, {"data"})
            self.take_all()

    def test_all_can_be_deleted_one_after_the_other(self):
        self.prepare()
        fill(self.disk)
        for snapshot in self.items("snapshot"):
            self.cairn("snapshot", "delete", snapshot["id"])
            fill(self.disk)
        for volume in self.items("volume"):
            self.cairn("volume", "delete", volume["id"])
        self.assertEqual(self.items("volume") + self.items("snapshot"), [])
        self.cairn("pool", "check")
        empty(self.disk)
        self.cairn("pool", "check")

    def test_a_writer_that_takes_what_is_freed_stops_no_deletion(self):
        self.prepare()
        fill(self.disk)
        done = threading.Event()

        def write_on():
            with open(self.disk / "filler", "ab", buffering=0) as file:
                while not done.wait(0.002):
                    try:
                        file.write(b"x" * 65536)
                    except OSError:
                        pass
        writer = threading.Thread(target=write_on)
        writer.start()
        try:
            for snapshot in self.items("snapshot"):
                self.cairn("snapshot", "delete", snapshot["id"])
        finally:
            done.set()
            writer.join()
        self.assertEqual(self.items("snapshot"), [])
        self.cairn("pool", "check")

    def forget_reserve(self):
        """As a pool that an older version made: its index of the log is an ordinary file, too, and its log
        is neither allocated ahead nor trusted."""
        (self.pool / "reserve").unlink()
        for name in ("catalogue.db-shm", "catalogue.db-wal"):
            file = self.pool / name
            content = file.read_bytes()
            file.unlink()
            with open(file, "wb", buffering=0) as copy:
                for i in range(0, len(content), 3 * 4120):  # as commits of three pages do
                    copy.write(content[i:i + 3 * 4120])
                    os.fsync(copy.fileno())
        (self.pool / "catalogue.db-trust").unlink()

    def test_a_full_pool_without_reserve_frees_space(self):
        """Also when a writer takes every byte that a deletion frees."""
        self.prepare()
        self.forget_reserve()
        fill(self.disk)
        self.assert_listed()
        self.cairn("volume", "delete", "--keep-snapshots", "one")
        for i, snapshot in enumerate(self.items("snapshot")):
            if i < 2 or ROUNDS > 1:
                fill(self.disk)
            self.cairn("snapshot", "delete", snapshot["id"])
        for volume in self.items("volume"):
            self.cairn("volume", "delete", volume["id"])
        self.assertEqual(self.items("volume") + self.items("snapshot"), [])
        self.cairn("pool", "check")
        empty(self.disk)
        self.cairn("pool", "check")
        self.prepare()
        self.assert_whole()
        self.assertTrue((self.pool / "reserve").exists())

    def test_without_reserve_beside_another_process_the_error_is_clear(self):
        """The commit needs the catalogue for itself; the wait for it ends."""
        self.prepare()
        self.forget_reserve()
        other = sqlite3.connect(f"file:{self.pool}/catalogue.db?mode=ro", uri=True)
        try:
            other.execute("SELECT count(*) FROM kv").fetchall()
            fill(self.disk)
            done = self.cairn("snapshot", "delete", "data@s1", code=NO_SPACE)
            self.assertIn("another process", done.stderr)
        finally:
            other.close()
        self.cairn("snapshot", "delete", "data@s1")

    def test_a_full_pool_without_reserve_can_be_destroyed(self):
        self.prepare()
        self.forget_reserve()
        fill(self.disk)
        self.cairn("pool", "destroy", "--yes", self.pool)
        self.assertFalse(self.pool.exists())

    def test_a_full_pool_can_be_destroyed(self):
        self.prepare()
        fill(self.disk)
        self.cairn("pool", "destroy", "--yes", self.pool)
        self.assertFalse(self.pool.exists())

    def test_a_set_that_was_not_made_stops_no_deletion(self):
        self.prepare()
        self.write(0, os.urandom(MIB))
        # Killed between the cut and its set: the set is made when there is space.
        self.cairn("snapshot", "create", "--set-wait", "0s", "data@pending", code=None)
        fill(self.disk)
        self.cairn("snapshot", "delete", "data@s4")
        self.cairn("volume", "delete", "--with-snapshots", "one")
        empty(self.disk)
        self.cairn("pool", "check")


class Copy(FullTest):
    pass


class Btrfs(FullTest):
    backend, filesystem = "btrfs", "btrfs"


class Reflink(FullTest):
    backend, filesystem = "reflink", "xfs"


class ReflinkBtrfs(FullTest):
    backend, filesystem = "reflink", "btrfs"


class HostFull(FullTest):
    """A pool in an image on a host that is full, while the image's own filesystem has space."""

    backend = "btrfs"

    # On the host the writer competes with the image's filesystem, which stops when it loses.
    test_a_writer_that_takes_what_is_freed_stops_no_deletion = None
    test_a_full_pool_without_reserve_frees_space = None  # but see below
    test_without_reserve_beside_another_process_the_error_is_clear = None

    def make_pool(self):
        self.make_disk(700, MKFS["ext4"][1])
        self.cairn("pool", "create", "--backend", self.backend, "--size", "512M", self.pool)

    def assert_listed(self):
        super().assert_listed()
        self.assertLess(self.json("pool", "info")["free_bytes"], MIB)

    def forget_reserve(self):
        (self.pool / "reserve").unlink()

    def test_an_image_gives_back_what_it_does_not_use(self):
        """Without a reserve on the host: what was deleted in the image is still allocated there."""
        self.prepare()
        self.make_volume("gone", 32 * MIB)
        self.write(0, os.urandom(32 * MIB), "gone")
        self.cairn("volume", "delete", "gone")
        self.forget_reserve()
        fill(self.disk)
        self.assert_listed()
        for snapshot in self.items("snapshot"):
            self.cairn("snapshot", "delete", snapshot["id"])
        for volume in self.items("volume"):
            self.cairn("volume", "delete", volume["id"])
        self.assertEqual(self.items("volume") + self.items("snapshot"), [])
        self.cairn("pool", "check")

    def test_a_pool_whose_image_has_stopped_can_be_destroyed(self):
        """The host is full, and a volume is written to until the image's filesystem gives up."""
        self.prepare()
        fill(self.disk)
        (self.pool / "reserve").unlink()  # a reserve that was used up
        fill(self.disk, "filler2")
        with open(self.path("volume", "data"), "r+b", buffering=0) as file:
            for i in range(self.volume_size // MIB):
                try:
                    file.seek(i * MIB)
                    file.write(os.urandom(MIB))
                    os.fsync(file.fileno())
                except OSError:
                    pass
        self.cairn("snapshot", "delete", "data@s1", code=None)
        self.cairn("pool", "destroy", "--yes", self.pool)
        self.assertFalse(self.pool.exists())


class HostFullXfs(HostFull):
    backend = "reflink"


del FullTest

if __name__ == "__main__":
    if "--long" in sys.argv:
        sys.argv.remove("--long")
        ROUNDS = 10
    else:
        del ReflinkBtrfs, HostFullXfs
    main()
