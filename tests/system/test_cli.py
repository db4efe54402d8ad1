#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The story that a user lives through, on every back end."""
import mmap
import os
import pathlib
import subprocess
import time

from cairncli import (BLOCK, DATA_LOSS, EXISTS, INVALID, MIB, NOT_FOUND, PRECONDITION, CliTest,
                      main)

ROOT = pathlib.Path(__file__).resolve().parents[2]


class CopyStory(CliTest):
    def attach(self, volume):
        return self.out("volume", "attach", volume).strip()

    def test_delta_lists_what_changed_also_after_the_base_is_deleted(self):
        self.two_snapshots()
        truth = self.changed_blocks("data@s1", "data@s2")
        self.assertEqual(truth, [0, 5, 6, 100])
        extents = self.lines("delta", "data@s1", "data@s2")
        self.assert_covers(extents, truth)
        self.cairn("verify", "data@s1", "data@s2")
        before = self.json("delta", "data@s1", "data@s2")

        self.cairn("snapshot", "delete", "data@s1")
        self.assertEqual(self.json("delta", "data@s1", "data@s2"), before)
        self.assertEqual([s["name"] for s in self.items("snapshot", "data")], ["s2"])
        self.assertEqual([(s["name"], s["deleted"]) for s in self.items("snapshot", "--all")],
                         [("s1", True), ("s2", False)])
        gone = self.cairn("verify", "data@s1", "data@s2", code=PRECONDITION)
        self.assertIn("deleted", gone.stderr)
        self.cairn("pool", "check")

    def test_allocated_extents_cover_all_data_and_no_hole(self):
        self.make_volume()
        self.write(8 * MIB, os.urandom(MIB))
        self.cairn("snapshot", "create", "data@s")
        extents = self.lines("delta", "data@s")
        self.assert_covers(extents, range(8 * MIB // BLOCK, 9 * MIB // BLOCK))
        self.assertLess(sum(e["size_bytes"] for e in extents), 2 * MIB)

    def test_punched_and_zeroed_blocks_are_told_as_zero(self):
        self.two_snapshots(changes=())
        subprocess.run(["fallocate", "--punch-hole", "--offset", str(MIB), "--length", str(MIB),
                        self.path("volume", "data")], check=True)
        self.cairn("snapshot", "create", "data@s3")
        extents = self.lines("delta", "data@s2", "data@s3")
        self.assert_covers(extents, range(MIB // BLOCK, 2 * MIB // BLOCK))
        self.assertTrue(any(e["zero"] for e in extents))
        self.cairn("verify", "data@s2", "data@s3")

    def test_a_grown_volume_reports_what_it_grew_by(self):
        self.two_snapshots(changes=())
        self.cairn("volume", "expand", "data", "--size", "20M")
        self.write(18 * MIB, b"x" * BLOCK)
        self.cairn("snapshot", "create", "data@big")
        self.assertEqual(self.json("volume", "info", "data")["size_bytes"], 20 * MIB)
        self.assert_covers(self.lines("delta", "data@s1", "data@big"), [18 * MIB // BLOCK])
        self.cairn("verify", "data@s1", "data@big")

    def test_a_clone_holds_the_data_and_is_compared_with_its_origin(self):
        self.two_snapshots()
        self.cairn("volume", "create", "copy", "--from", "data@s1")
        self.write(50 * BLOCK, b"y" * BLOCK, volume="copy")
        self.cairn("snapshot", "create", "copy@c1")
        self.assertEqual(self.changed_blocks("data@s1", "copy@c1"), [50])
        self.assert_covers(self.lines("delta", "data@s1", "copy@c1"), [50])
        self.cairn("verify", "data@s1", "copy@c1")
        origin = self.json("snapshot", "info", "data@s1")["id"]
        self.assertEqual(self.json("volume", "info", "copy")["origin_id"], origin)

    def test_a_volume_from_a_volume_has_its_data(self):
        self.two_snapshots()
        self.cairn("volume", "create", "copy", "--from", "data")
        self.cairn("snapshot", "create", "copy@now")
        self.assertEqual(self.read("copy@now"), self.read("data@s2"))

    def test_several_volumes_are_cut_together_or_not_at_all(self):
        self.make_volume("a")
        self.make_volume("b")
        made = self.json("snapshot", "create", "a@t", "b@t")["snapshots"]
        self.assertEqual([(s["volume"], s["name"]) for s in made], [("a", "t"), ("b", "t")])
        self.cairn("snapshot", "create", "a@u", "b@t", code=EXISTS)
        self.cairn("snapshot", "info", "a@u", code=NOT_FOUND)
        self.cairn("snapshot", "delete", "a@t", "b@t")
        self.assertEqual(self.items("snapshot"), [])

    def test_a_volume_with_snapshots_is_deleted_only_as_told(self):
        self.two_snapshots()
        self.cairn("volume", "delete", "data", code=PRECONDITION)
        kept = self.json("snapshot", "info", "data@s2")["id"]
        self.cairn("volume", "delete", "data", "--keep-snapshots")
        self.assertEqual(self.items("volume"), [])
        self.assertEqual(self.json("snapshot", "info", kept)["size_bytes"], 16 * MIB)
        self.make_volume("other")
        self.cairn("snapshot", "create", "other@s")
        self.cairn("volume", "delete", "other", "--with-snapshots")
        self.assertEqual([s["id"] for s in self.items("snapshot") if s["name"] == "s"], [])

    def test_retention_and_granularity_of_a_volume_can_be_modified(self):
        self.two_snapshots()
        self.cairn("volume", "modify", "data", "--retention", "1ms", "--granularity", "64K")
        info = self.json("volume", "info", "data")
        self.assertEqual((info["retention_ms"], info["granularity_bytes"]), (1, 65536))
        self.write(40 * BLOCK, b"g" * BLOCK)
        self.cairn("snapshot", "create", "data@s3", "--set-wait", "none")
        extent, = self.lines("delta", "data@s2", "data@s3")
        self.assertEqual((extent["byte_offset"], extent["size_bytes"]), (2 * 65536, 65536))
        past = self.json("snapshot", "info", "data@s1")["id"]
        self.cairn("snapshot", "delete", "data@s1")
        time.sleep(0.01)
        self.cairn("pool", "gc")
        self.assertEqual([s["name"] for s in self.items("snapshot", "--all")], ["s2", "s3"])
        self.cairn("delta", "data@s1", "data@s3", code=NOT_FOUND)
        self.cairn("delta", past, "data@s3", code=PRECONDITION)
        self.cairn("volume", "modify", "data", "--retention", "0", "--granularity", "0")
        self.assertEqual(self.json("volume", "info", "data")["retention_ms"], 90 * 86400 * 1000)

    def test_delta_past_the_retention_time_ends_as_its_man_page_says(self):
        said = (ROOT / "man/cairn-delta.1").read_text().partition(".Sh EXIT STATUS")[2]
        for sentence in ("5: the snapshot does not exist, or no longer has that name",
                         "9: the retention time of"):
            self.assertIn(sentence, said)
        self.two_snapshots()
        past = self.json("snapshot", "info", "data@s1")["id"]
        self.cairn("volume", "modify", "data", "--retention", "1ms")
        self.cairn("snapshot", "delete", "data@s1")
        time.sleep(0.01)
        self.cairn("pool", "gc")
        done = self.cairn("delta", "data@s1", "data@s2", code=NOT_FOUND)
        self.assertIn("data@s1", done.stderr)
        self.cairn("delta", past, "data@s2", code=PRECONDITION)
        self.cairn("snapshot", "create", "data@s1")  # the name is another snapshot's now
        self.cairn("delta", "data@s1", "data@s2", code=INVALID)

    def test_the_change_set_may_be_made_behind_the_command(self):
        self.two_snapshots(changes=())
        self.write(7 * BLOCK, b"z" * BLOCK)
        self.cairn("snapshot", "create", "data@s3", "--set-wait", "0s")
        self.assert_covers(self.lines("delta", "data@s2", "data@s3"), [7])
        self.cairn("snapshot", "create", "data@s4", "--set-wait", "none")
        self.assertEqual(self.json("snapshot", "info", "data@s4")["change_set"]["state"], "ready")

    def test_verify_finds_a_change_that_the_delta_does_not_tell(self):
        self.two_snapshots()
        self.damage("data@s2", 3 * MIB)
        found = self.cairn("verify", "data@s1", "data@s2", code=DATA_LOSS)
        self.assertIn(f"offset {3 * MIB}", found.stdout)
        report = self.json("verify", "data@s1", "data@s2", code=DATA_LOSS)
        self.assertEqual(report["ok"], False)
        self.assertEqual(report["faults"], [{"byte_offset": 3 * MIB, "size_bytes": BLOCK,
                                             "kind": "not_reported"}])

    def test_verify_finds_data_where_the_delta_tells_zero(self):
        self.two_snapshots(changes=())
        subprocess.run(["fallocate", "--punch-hole", "--offset", str(MIB), "--length", str(MIB),
                        self.path("volume", "data")], check=True)
        self.cairn("snapshot", "create", "data@s3")
        self.damage("data@s3", MIB + BLOCK)
        self.assertEqual(self.json("verify", "data@s2", "data@s3", code=DATA_LOSS)["faults"],
                         [{"byte_offset": MIB + BLOCK, "size_bytes": BLOCK, "kind": "not_zero"}])

    def damage(self, snapshot, offset):
        path = self.path("snapshot", snapshot)
        try:
            os.chmod(path, 0o600)
            with open(path, "r+b") as file:
                file.seek(offset)
                byte = file.read(1)
                file.seek(offset)
                file.write(bytes([byte[0] ^ 1]))
        except OSError:
            self.skipTest("the back end does not let anybody damage a snapshot")

    def test_destroy_removes_what_create_made_and_nothing_else(self):
        self.two_snapshots()
        self.cairn("pool", "destroy", "--yes")
        self.assertFalse(self.pool.exists())
        self.pool.mkdir()
        (self.pool / "mine").write_text("keep")
        self.make_pool()
        self.make_volume()
        self.cairn("pool", "destroy", "--yes")
        self.assertEqual([p.name for p in self.pool.iterdir()], ["mine"])


class BtrfsStory(CopyStory):
    def test_data_that_cannot_be_read_is_found_when_it_is_read(self):
        """Bytes of the image that holds the pool are changed behind btrfs."""
        if self.backend != "btrfs":
            self.skipTest("only btrfs has checksums of data")
        self.make_volume()
        mark = os.urandom(64 << 10)
        self.write(0, mark)
        self.cairn("snapshot", "create", "data@s1")
        done = self.json("pool", "check", "--data")
        self.assertEqual((done["found"], done["bytes_read"] >= len(mark)), (0, True))
        subprocess.run(["sync"], check=True)
        image = next(p for p in self.scratch.rglob("*") if p.is_file() and not p.is_symlink()
                     and p.stat().st_size > 64 * MIB)
        with image.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as bytes_:
            at = bytes_.find(mark[:4096])
        with image.open("r+b") as file:
            file.seek(at + 100)
            file.write(bytes(8))
            os.fsync(file.fileno())
        for path in (image, self.path("volume", "data"), self.path("snapshot", "data@s1")):
            with open(path, "rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        self.assertIn("data was not read", self.cairn("pool", "check").stdout)
        done = self.cairn("pool", "check", "--data", code=DATA_LOSS)
        self.assertIn("volume 'data': data cannot be read", done.stdout)
        self.assertIn("snapshot 'data@s1': data cannot be read", done.stdout)
        with image.open("r+b") as file:
            file.seek(at + 100)
            file.write(mark[100:108])
            os.fsync(file.fileno())

    backend = "btrfs"

    def test_a_filesystem_on_an_attached_volume_is_cut_while_it_is_in_use(self):
        self.make_volume(size=64 * MIB)
        device = self.attach("data")
        self.assertEqual(self.attach("data"), device)
        self.assertEqual(self.json("volume", "info", "data")["device"], device)
        subprocess.run(["mkfs.ext4", "-q", device], check=True)
        mount = self.scratch / "mnt"
        mount.mkdir()
        subprocess.run(["mount", device, mount], check=True)
        self.mounted.append(mount)
        (mount / "one").write_bytes(os.urandom(MIB))
        self.cairn("snapshot", "create", "data@s1")
        (mount / "two").write_bytes(os.urandom(MIB))
        self.cairn("snapshot", "create", "data@s2")
        truth = self.changed_blocks("data@s1", "data@s2")
        self.assertGreaterEqual(len(truth), MIB // BLOCK, "the data written is in the cut")
        self.assert_covers(self.lines("delta", "data@s1", "data@s2"), truth)
        self.cairn("verify", "data@s1", "data@s2")
        self.look_into("data@s2", "two")

        self.cairn("volume", "detach", "data", code=PRECONDITION)
        self.cairn("volume", "delete", "data", "--with-snapshots", code=PRECONDITION)
        self.cairn("pool", "destroy", "--yes", code=PRECONDITION)
        subprocess.run(["umount", mount], check=True)
        self.cairn("volume", "detach", "data")
        self.cairn("volume", "detach", "data")
        self.assertIsNone(self.json("volume", "info", "data")["device"])

    def look_into(self, snapshot, name):
        device = self.out("snapshot", "attach", snapshot).strip()
        mount = self.scratch / "look"
        mount.mkdir(exist_ok=True)
        # A snapshot is crash consistent: the journal of a frozen filesystem is clean.
        subprocess.run(["mount", "-o", "ro,noload", device, mount], check=True)
        self.mounted.append(mount)
        self.assertEqual((mount / name).stat().st_size, MIB)
        subprocess.run(["umount", mount], check=True)
        self.cairn("snapshot", "detach", snapshot)

    def test_a_device_can_be_read_only_and_grows_with_its_volume(self):
        self.make_volume()
        device = self.out("volume", "attach", "data", "--read-only").strip()
        with self.assertRaises(OSError):
            with open(device, "r+b", buffering=0) as file:
                file.write(b"x" * 512)
        self.cairn("volume", "detach", "data")
        device = self.attach("data")
        self.cairn("volume", "expand", "data", "--size", "32M")
        with open(device, "rb") as file:
            self.assertEqual(file.seek(0, os.SEEK_END), 32 * MIB)


class ReflinkStory(BtrfsStory):
    backend = "reflink"

    def test_a_volume_of_many_extents_is_cut_in_two_steps_while_it_is_written(self):
        """So many that it is cloned before the freeze; a writer goes on all the time."""
        size = 96 * MIB
        self.make_volume(size=size)
        with open(self.path("volume", "data"), "r+b", buffering=0) as volume:
            for at in range(0, size, 2 * BLOCK):
                os.pwrite(volume.fileno(), b"x" * BLOCK, at)
        device = self.attach("data")
        subprocess.run(["mkfs.ext4", "-q", "-E", "nodiscard", device], check=True)
        mount = self.scratch / "mnt"
        mount.mkdir()
        subprocess.run(["mount", device, mount], check=True)
        self.mounted.append(mount)
        writer = subprocess.Popen(["sh", "-c", "i=0; while :; do i=$((i + 1)); echo $i >one; "
                                   "cp one two; sync -f .; done"], cwd=mount)
        try:
            for n in range(3):
                (mount / f"file{n}").write_bytes(os.urandom(MIB))
                self.cairn("snapshot", "create", f"data@s{n}")
        finally:
            writer.kill()
            writer.wait()
        for n in range(3):
            self.look_into(f"data@s{n}", f"file{n}")
            subprocess.run(["e2fsck", "-fn", self.path("snapshot", f"data@s{n}")], check=True,
                           capture_output=True)
        for n in range(2):
            self.cairn("verify", f"data@s{n}", f"data@s{n + 1}")
        subprocess.run(["umount", mount], check=True)
        self.cairn("pool", "check")


if __name__ == "__main__":
    main()
