#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Making and destroying pools: many at once, in directories of somebody else, inside one another.

  test_pool_life.py [--long]     --long: more rounds of the storms
"""
import fcntl
import os
import resource
import shutil
import subprocess
import sys
import unittest

from cairncli import ABORTED, CAN_MOUNT, EXISTS, INVALID, NO_SPACE, NOT_FOUND, OK, PRECONDITION, \
    BLOCK, MIB, TIMEOUT, CliTest, main, stop_image

ROUNDS = 25
CREATORS = 6


class LifeTest(CliTest):
    def make_pool(self):
        pass

    def start_many(self, *commands):
        """Runs them side by side; returns their exit statuses."""
        started = [self.start(*command, stdout=subprocess.DEVNULL) for command in commands]
        said = [process.communicate(timeout=TIMEOUT)[1] for process in started]
        self.said = "\n".join(text for text in said if text)
        return [process.returncode for process in started]

    def create(self, *args, **how):
        return self.cairn("pool", "create", "--backend", self.backend, *args, self.pool, **how)


class Storms(LifeTest):
    def test_of_parallel_creates_one_is_acknowledged(self):
        for round_ in range(ROUNDS):
            command = ("pool", "create", "--backend", "copy", self.pool)
            codes = self.start_many(*[command] * CREATORS)
            self.assertEqual(codes.count(OK), 1, f"round {round_}: {codes}\n{self.said}")
            self.assertEqual(set(codes), {OK, EXISTS}, self.said)
            self.cairn("volume", "create", "v", "--size", "1M")
            self.cairn("pool", "destroy", "--yes", self.pool)
            self.assertEqual(list(self.scratch.iterdir()), [], f"round {round_}")

    def test_create_destroy_and_open_at_once_lose_nothing(self):
        for round_ in range(ROUNDS):
            self.create(code=None)
            codes = self.start_many(
                ("pool", "destroy", "--yes", self.pool), ("pool", "create", "--backend", "copy",
                                                          self.pool),
                ("volume", "list"), ("pool", "info"), ("pool", "destroy", "--yes", self.pool),
                ("pool", "create", "--backend", "copy", self.pool), ("snapshot", "list"))
            created = codes[1] == OK or codes[5] == OK
            # Whatever the order was: there is a whole pool, or none and no trace of one.
            found = self.cairn("pool", "info", code=None)
            self.assertIn(found.returncode, (OK, NOT_FOUND), f"round {round_}: {found.stderr}")
            if found.returncode == OK:
                self.cairn("volume", "create", "v", "--size", "1M")
                self.cairn("pool", "check")
                self.cairn("pool", "destroy", "--yes", self.pool)
            elif not created and codes.count(OK) == 0:
                self.fail(f"round {round_}: nothing succeeded: {codes}\n{self.said}")
            self.assertEqual(list(self.scratch.iterdir()), [], f"round {round_}: {codes}")

    def test_parallel_destroys_and_opens_leave_no_directory(self):
        for round_ in range(ROUNDS):
            self.create()
            codes = self.start_many(*[("pool", "destroy", "--yes", self.pool)] * 2,
                                    *[("volume", "list")] * 6)
            self.assertIn(OK, codes[:2], f"round {round_}: {codes}\n{self.said}")
            self.assertEqual(list(self.scratch.iterdir()), [], f"round {round_}: {codes}")


@unittest.skipUnless(CAN_MOUNT, "needs root and loop devices")
class ImageStorms(LifeTest):
    backend = "btrfs"
    rounds = 4

    def test_opening_during_destroy_leaves_no_mount_point(self):
        for round_ in range(self.rounds):
            self.create("--size", "512M")
            codes = self.start_many(("pool", "destroy", "--yes", self.pool),
                                    *[("volume", "list")] * 8)
            self.assertEqual(codes[0], OK, f"round {round_}: {codes}\n{self.said}")
            self.assertEqual(list(self.scratch.iterdir()), [], f"round {round_}: {codes}")


class SomebodyElsesDirectory(LifeTest):
    def setUp(self):
        super().setUp()
        self.pool.mkdir()
        self.victim = self.scratch / "victim"
        self.victim.write_text("precious")

    def test_symbolic_links_are_not_followed(self):
        for name in ("cairn.pool.tmp", "cairn.pool", "lock", "catalogue.db", "catalogue.db.tmp",
                     "volumes", "snapshots", "sets", "reserve", "pool.img"):
            for target in (self.victim, self.scratch / "absent"):
                with self.subTest(name=name, target=target.name):
                    link = self.pool / name
                    link.symlink_to(target)
                    self.create(code=None)
                    self.assertEqual(self.victim.read_text(), "precious")
                    self.assertFalse((self.scratch / "absent").exists())
                    self.cairn("pool", "destroy", "--yes", self.pool, code=None)
                    self.assertEqual(self.victim.read_text(), "precious")
                    link.unlink(missing_ok=True)

    def test_links_put_into_a_pool_are_not_followed(self):
        for name in ("lock", "catalogue.db", "catalogue.db-wal", "catalogue.db-shm",
                     "catalogue.db-trust", "reserve", "volumes", "sets", "cairn.pool"):
            with self.subTest(name=name):
                self.create()
                self.cairn("volume", "create", "v", "--size", "1M")
                aside = self.scratch / "aside"
                if (self.pool / name).exists():
                    os.rename(self.pool / name, aside)
                target = self.scratch / "absent"
                (self.pool / name).symlink_to(target)
                self.cairn("volume", "list", code=None)
                self.cairn("volume", "create", "w", "--size", "1M", code=None)
                self.cairn("snapshot", "create", "v@s", code=None)
                self.assertFalse(target.exists())
                (self.pool / name).unlink(missing_ok=True)
                if aside.exists():
                    os.rename(aside, self.pool / name)
                self.cairn("pool", "destroy", "--yes", self.pool)

    def test_what_an_older_version_left_is_not_in_the_way(self):
        self.create()
        self.cairn("volume", "create", "v", "--size", "1M")
        kept = {name: (self.pool / name).read_bytes() for name in ("catalogue.db-trust",)}
        self.cairn("pool", "destroy", "--yes", self.pool)
        self.pool.mkdir(exist_ok=True)
        for name, data in kept.items():
            (self.pool / name).write_bytes(data)
        with open(self.pool / "reserve", "wb") as file:
            os.posix_fallocate(file.fileno(), 0, 1 << 20)
        self.create()
        self.assertEqual(self.out("volume", "list", "--quiet"), "")
        self.cairn("pool", "destroy", "--yes", self.pool)
        self.pool.mkdir(exist_ok=True)
        (self.pool / "reserve").write_text("precious")
        self.create(code=EXISTS)
        self.assertEqual((self.pool / "reserve").read_text(), "precious")

    def test_a_fifo_hangs_no_command(self):
        for name in ("cairn.pool", "lock", "catalogue.db", "catalogue.db-wal", "catalogue.db-shm",
                     "catalogue.db-trust", "reserve", "sets", "volumes", "pool.img",
                     "cairn.pool.tmp"):
            with self.subTest(name=name):
                if name not in ("cairn.pool", "pool.img", "cairn.pool.tmp"):
                    self.create()
                    self.cairn("volume", "create", "v", "--size", "1M")
                    aside = self.scratch / "aside"
                    if (self.pool / name).exists():
                        os.rename(self.pool / name, aside)
                os.mkfifo(self.pool / name)
                for command in (("volume", "list"), ("pool", "info"), ("pool", "create", self.pool),
                                ("volume", "create", "w", "--size", "1M"),
                                ("snapshot", "create", "v@s"),
                                ("pool", "destroy", "--yes", self.pool)):
                    self.cairn(*command, code=None)
                subprocess.run(["rm", "-rf", self.pool, self.scratch / "aside"], check=True)
                self.pool.mkdir()

    def test_a_lock_of_another_program_ends_the_wait(self):
        """flock(2) on the directory, by another program or by a stranger."""
        self.pool.mkdir(exist_ok=True)
        fd = os.open(self.pool, os.O_RDONLY)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            self.assertIn("locked the directory", self.create(code=ABORTED).stderr)
            self.assertEqual([path.name for path in self.pool.iterdir()], [])
            fcntl.flock(fd, fcntl.LOCK_UN)
            self.create()
            fcntl.flock(fd, fcntl.LOCK_SH)
            self.cairn("volume", "create", "v", "--size", "1M")
            self.cairn("pool", "destroy", "--yes", self.pool)
        finally:
            os.close(fd)


class OneInAnother(LifeTest):
    def test_a_pool_inside_a_pool_is_refused(self):
        self.create()
        self.cairn("volume", "create", "v", "--size", "1M")
        for inner in ("inner", "volumes/inner", "sets/x"):
            done = self.cairn("pool", "create", "--backend", "copy", self.pool / inner,
                              code=PRECONDITION)
            self.assertIn("inside", done.stderr)
            self.assertFalse((self.pool / inner).exists())
        self.cairn("pool", "destroy", "--yes", self.pool)

    def test_destroy_keeps_what_is_not_its_own(self):
        self.create()
        self.cairn("volume", "create", "v", "--size", "1M")
        kept = [self.pool / name for name in
                ("notes.txt", "volumes/mine/disk", "snapshots/readme", "sets/other",
                 "sets/set-mine")]
        for file in kept:
            file.parent.mkdir(exist_ok=True)
            file.write_text("precious")
        self.cairn("pool", "destroy", "--yes", self.pool)
        for file in kept:
            self.assertEqual(file.read_text(), "precious")
        left = sorted(str(p.relative_to(self.pool)) for p in self.pool.rglob("*") if p.is_file())
        self.assertEqual(left, sorted(str(file.relative_to(self.pool)) for file in kept))


@unittest.skipUnless(CAN_MOUNT, "needs root and loop devices")
class ForeignInImage(LifeTest):
    backend = "btrfs"

    def test_an_image_with_something_foreign_in_it_is_kept(self):
        self.create("--size", "512M")
        self.cairn("volume", "create", "v", "--size", "1M")
        done = self.cairn("pool", "create", "--backend", "copy", self.pool / "data/inner",
                          code=PRECONDITION)
        self.assertIn("inside", done.stderr)
        foreign = self.pool / "data/notes.txt"
        foreign.write_text("precious")
        done = self.cairn("pool", "destroy", "--yes", self.pool, code=PRECONDITION)
        self.assertIn("notes.txt", done.stderr)
        self.assertEqual(foreign.read_text(), "precious")
        self.cairn("pool", "check")
        foreign.unlink()
        self.cairn("pool", "destroy", "--yes", self.pool)
        self.assertEqual(list(self.scratch.iterdir()), [])

    def test_a_link_in_place_of_the_image_is_not_mounted(self):
        self.create("--size", "512M")
        subprocess.run(["umount", self.pool / "data"], check=True)
        image, aside = self.pool / "pool.img", self.scratch / "aside"
        os.rename(image, aside)
        image.symlink_to(aside)
        self.cairn("volume", "list", code=INVALID)
        self.assertFalse(os.path.ismount(self.pool / "data"))
        image.unlink()
        os.rename(aside, image)
        self.cairn("pool", "destroy", "--yes", self.pool)

    def test_an_image_larger_than_its_host_is_refused(self):
        # A host of its own: what other tests write meanwhile does not count.
        host = self.scratch / "host"
        host.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4G", "none", host], check=True)
        self.addCleanup(subprocess.run, ["umount", host], check=True)
        self.pool = host / "pool"
        done = self.create("--size", "64G", code=NO_SPACE)
        self.assertIn("--thin", done.stderr)
        self.assertEqual(list(host.iterdir()), [])
        self.create("--thin", "--size", "64G")
        info = self.json("pool", "info")
        self.assertLessEqual(info["free_bytes"], shutil.disk_usage(host).free + (64 << 20))
        self.cairn("pool", "destroy", "--yes", self.pool)


class FewDescriptors(CliTest):
    def test_they_do_not_use_up_the_reserve(self):
        """EMFILE has the code of a full disk, and yielding space does not help."""
        self.make_volume("data", MIB)
        for i in range(3):
            self.cairn("snapshot", "create", f"data@s{i}")
        full = (self.pool / "reserve").stat().st_size
        self.assertGreater(full, 0)
        failed = 0
        for n in range(5, 30):
            for command in (("snapshot", "create", f"data@n{n}"), ("snapshot", "delete", "data@s1"),
                            ("volume", "list")):
                done = self.cairn(*command, code=None, preexec_fn=lambda n=n: resource.setrlimit(
                    resource.RLIMIT_NOFILE, (n, n)))
                failed += done.returncode != 0
                self.assertEqual((self.pool / "reserve").stat().st_size, full, (command, n))
        self.assertGreater(failed, 0)
        self.cairn("pool", "check")


@unittest.skipUnless(CAN_MOUNT, "needs root and loop devices")
class ImageThatShutDown(CliTest):
    backend = "reflink"

    def test_it_is_mounted_again_and_nothing_is_lost(self):
        for i, command in enumerate((("snapshot", "list"), ("snapshot", "create", "data@more"),
                                     ("pool", "check"), ("snapshot", "delete", "data@s0"))):
            if i == 0:
                self.make_volume("data", MIB)
            self.write(0, os.urandom(BLOCK))
            self.cairn("snapshot", "create", f"data@s{i}")
            stop_image(self.pool / "data")
            self.cairn(*command)
            self.assertIn(f"s{i}", {item["name"] for item in self.items("snapshot")})
        self.cairn("pool", "check", "--data")

    def test_one_in_use_is_left_alone(self):
        self.make_volume("data", MIB)
        with open(self.path("volume", "data"), "rb"):
            stop_image(self.pool / "data")
            done = self.cairn("volume", "list", code=None)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("shut down", done.stderr)
        self.assertEqual(len(self.items("volume")), 1)


@unittest.skipUnless(CAN_MOUNT, "needs root and loop devices")
class BtrfsImageThatShutDown(ImageThatShutDown):
    backend = "btrfs"
    test_one_in_use_is_left_alone = None  # it is read-only then


if __name__ == "__main__":
    if "--long" in sys.argv:
        sys.argv.remove("--long")
        ROUNDS, CREATORS, ImageStorms.rounds = 200, 12, 40
    main()
