#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every command on a pool with 0 bytes free, and again when there is space.

Each back end has a small filesystem of its own, filled to the last byte. Listing, deleting and destroying
work on it; what needs space fails with NO_SPACE and leaves nothing behind.

  test_full.py [--long] [CLASS…]     --long: more rounds, and more kinds of pools

The classes of the normal run are listed in meson.build.
"""
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
import time

from cairncli import CAN_MOUNT, MIB, NO_SPACE, CliTest, main, stop_image

ROUNDS = 1
MKFS = {"btrfs": (192, ["mkfs.btrfs", "-q"]), "xfs": (320, ["mkfs.xfs", "-q", "-mreflink=1"]),
        "ext4": (96, ["mkfs.ext4", "-q", "-m0"])}


def settle(directory):
    """btrfs removes the trees of deleted subvolumes later, which gives space back after it was filled.
    Its thread for that wakes up every 30 seconds, or after a sync by btrfs's own call."""
    for _ in range(100):
        subprocess.run(["btrfs", "filesystem", "sync", directory], check=False, capture_output=True)
        deleted = subprocess.run(["btrfs", "subvolume", "list", "-d", directory], check=False,
                                 capture_output=True)
        if deleted.returncode != 0 or not deleted.stdout:
            break  # another filesystem, or nothing is left to remove
        time.sleep(0.05)
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


def make_old(root):
    """As a pool that an older version made: without a reserve, its index of the log is an ordinary file,
    and its log is neither allocated ahead nor trusted."""
    (root / "reserve").unlink()
    for name in ("catalogue.db-shm", "catalogue.db-wal"):
        file = root / name
        content = file.read_bytes()
        file.unlink()
        with open(file, "wb", buffering=0) as copy:
            for i in range(0, len(content), 3 * 4120):  # as commits of three pages do
                copy.write(content[i:i + 3 * 4120])
                os.fsync(copy.fileno())
    (root / "catalogue.db-trust").unlink()


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

    def delete_volumes(self):
        """After all snapshots: nothing is left, and the pool is sound, full and with space."""
        for volume in self.items("volume"):
            self.cairn("volume", "delete", volume["id"])
        self.assertEqual(self.items("volume") + self.items("snapshot"), [])
        self.cairn("pool", "check")
        empty(self.disk)
        self.cairn("pool", "check")

    def test_all_can_be_deleted_one_after_the_other(self):
        self.prepare()
        fill(self.disk)
        for snapshot in self.items("snapshot"):
            self.cairn("snapshot", "delete", snapshot["id"])
            fill(self.disk)
        self.delete_volumes()

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
        make_old(self.pool)

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
        self.delete_volumes()
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
    def test_a_copy_of_the_pool_allocates_its_reserve_again(self):
        """Programs that copy files leave holes for zeros, which reserve nothing."""
        self.prepare()
        copy = self.disk / "copy"
        subprocess.run(["cp", "-a", "--sparse=always", self.pool, copy], check=True)
        shutil.rmtree(self.pool)
        copy.rename(self.pool)
        reserve = self.pool / "reserve"
        self.assertLess(reserve.stat().st_blocks * 512, reserve.stat().st_size)
        self.cairn("snapshot", "create", "data@more")
        self.assertGreaterEqual(reserve.stat().st_blocks * 512, reserve.stat().st_size)
        fill(self.disk)
        for snapshot in self.items("snapshot"):
            self.cairn("snapshot", "delete", snapshot["id"])
            fill(self.disk)
        self.delete_volumes()


class Btrfs(FullTest):
    backend, filesystem = "btrfs", "btrfs"


class Reflink(FullTest):
    backend, filesystem = "reflink", "xfs"


class ReflinkBtrfs(FullTest):
    backend, filesystem = "reflink", "btrfs"


class HostFull(FullTest):
    """A pool in an image on a host that is full, while the image's own filesystem has space."""

    backend = "btrfs"

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

    def forget_blocks(self):
        """As an image that an older version made: no block is allocated ahead on the host."""
        self.forget_reserve()
        make_old(self.pool / "data")
        if self.backend == "reflink":
            return  # its log is written by mkfs, and allocated so
        image, copy = self.pool / "pool.img", self.pool / "copy"
        subprocess.run(["umount", self.pool / "data"], check=True)
        subprocess.run(["cp", "--sparse=always", image, copy], check=True)
        copy.rename(image)

    def test_an_old_image_on_a_full_host_frees_space(self):
        """Also when a writer takes every byte that a deletion frees."""
        self.prepare()
        self.forget_blocks()
        fill(self.disk)
        self.assert_listed()
        self.delete_and_refill(self.items("snapshot"), self.items("volume"))
        self.assert_empty()

    def delete(self, kind, item):
        """An old image has no block to write to: if its filesystem cannot be mounted, the command says so,
        and works once the host has a few MiB."""
        done = self.cairn(kind, "delete", item["id"], code=None)
        if done.returncode == NO_SPACE:
            self.assertIn("free some MiB", done.stderr)
            os.truncate(self.disk / "filler", (self.disk / "filler").stat().st_size - 8 * MIB)
            done = self.cairn(kind, "delete", item["id"], code=None)
        self.assertEqual(done.returncode, 0, done.stderr)

    def delete_and_refill(self, snapshots, volumes):
        for i, snapshot in enumerate(snapshots):
            self.delete("snapshot", snapshot)
            fill(self.disk, f"filler{i}")
        for volume in volumes:
            self.delete("volume", volume)

    def assert_empty(self):
        empty(self.disk)
        self.assertEqual(self.items("volume") + self.items("snapshot"), [])
        self.cairn("pool", "check")

    def test_an_image_that_stops_within_a_command_frees_space(self):
        """Its filesystem writes, fails and stops at any time, not only between two commands."""
        self.prepare()
        self.forget_blocks()
        fill(self.disk)
        before = self.items("snapshot"), self.items("volume")
        ended = threading.Event()

        def write_back():
            while not ended.wait(0.05):
                subprocess.run(["sync", "-f", self.pool / "data"], check=False,
                               stderr=subprocess.DEVNULL)
        writer = threading.Thread(target=write_back)
        writer.start()
        try:
            self.delete_and_refill(*before)
        finally:
            ended.set()
            writer.join()
        self.assert_empty()

    def test_a_host_that_fills_beside_a_change_set_stops_nothing(self):
        """The set is made by a process in the background. btrfs stopped when it could not write."""
        self.prepare()
        for i in range(6 * ROUNDS):
            self.write(0, os.urandom(MIB))
            writer = threading.Thread(target=fill, args=(self.disk,))
            if i % 2:
                writer.start()
            made = self.cairn("snapshot", "create", "--set-wait", "0s", f"data@{i}", code=None)
            if not i % 2:
                writer.start()
            try:
                if made.returncode == 0:
                    self.cairn("snapshot", "delete", f"data@{i}")
                else:
                    self.assertEqual(made.returncode, NO_SPACE, made.stderr)
            finally:
                writer.join()
            self.cairn("pool", "check")
            empty(self.disk)

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

    def test_an_image_that_shut_down_on_a_full_host_is_listed_and_emptied(self):
        self.prepare()
        fill(self.disk)
        stop_image(self.pool / "data")
        self.assertEqual(len(self.items("snapshot")), 8)
        stop_image(self.pool / "data")
        self.cairn("snapshot", "delete", "data@s1")
        self.assert_whole(gone=("s1",))

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


class OldXfsImage(HostFullXfs):
    """The part of it that every run has."""


for test in dir(OldXfsImage):
    if test.startswith("test") and test not in (
            "test_an_old_image_on_a_full_host_frees_space",
            "test_an_image_that_shut_down_on_a_full_host_is_listed_and_emptied"):
        setattr(OldXfsImage, test, None)


class Quota(FullTest):
    """The disk has space, and the subvolume with the pool has reached its quota: btrfs then refuses to
    truncate a file, but not to unlink it."""

    backend = "copy"

    def make_disk(self, size, mkfs):
        super().make_disk(2048, MKFS["btrfs"][1])
        subprocess.run(["btrfs", "quota", "enable", self.disk], check=True)
        self.disk = self.disk / "limited"
        subprocess.run(["btrfs", "subvolume", "create", self.disk], check=True, capture_output=True)
        subprocess.run(["btrfs", "qgroup", "limit", "192M", self.disk], check=True)
        self.pool = self.disk / "pool"

    def test_a_pool_at_its_quota_is_freed_and_destroyed(self):
        self.prepare()
        fill(self.disk)
        self.assert_listed()
        for name in ("s1", "s4"):
            self.cairn("snapshot", "delete", f"data@{name}")
            fill(self.disk)
        self.cairn("volume", "delete", "--with-snapshots", "one")
        fill(self.disk)
        self.cairn("pool", "gc")
        self.assert_whole(gone=("s1", "s4"))
        empty(self.disk)
        self.cairn("snapshot", "create", "data@after")
        self.assert_whole(gone=("s1", "s4"))
        fill(self.disk)
        self.cairn("pool", "destroy", "--yes", self.pool)
        self.assertFalse(self.pool.exists())


for test in dir(Quota):
    if test.startswith("test") and test != "test_a_pool_at_its_quota_is_freed_and_destroyed":
        setattr(Quota, test, None)


class QuotaBtrfs(Quota):
    backend = "btrfs"


class QuotaReflink(Quota):
    backend = "reflink"


del FullTest


if __name__ == "__main__":
    if "--long" in sys.argv:
        sys.argv.remove("--long")
        ROUNDS = 10
    else:
        del ReflinkBtrfs, HostFullXfs
    main()
