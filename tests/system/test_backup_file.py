#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Files and block devices of the host as sources: images, partitions, logical volumes."""
import json
import os
import subprocess
import unittest

from backupcli import BackupTest, digest
from cairncli import ABORTED, CAN_MOUNT, INVALID, MIB, NOT_FOUND, OK, PRECONDITION, main

USAGE = 2
END = '{"end":true}\n'


class FileTest(BackupTest):
    def setUp(self):
        super().setUp()
        self.init()
        self.image = self.scratch / "disk.img"
        with open(self.image, "wb") as file:
            file.write(os.urandom(5 * MIB))
            file.truncate(20 * MIB)

    def change(self, offset, data):
        with open(self.image, "r+b", buffering=0) as file:
            file.seek(offset)
            file.write(data)

    def back_up(self, *args, **how):
        return self.events("create", "--file", self.image, *args, **how)[-1]


class Files(FileTest):
    def test_what_is_stored_is_not_stored_again(self):
        full = self.back_up()
        self.assertEqual((full["volume"], full["mode"]), (str(self.image), "allocated"))
        self.assertEqual(full["bytes_read"], 5 * MIB)
        self.change(MIB, b"changed")
        more = self.back_up()
        self.assertEqual((more["parent"], more["bytes_read"]), (full["id"], 5 * MIB))
        self.assertLess(more["bytes_stored"], 100 << 10)
        self.assertEqual(self.restored(str(self.image)), digest(self.image))
        self.backup("verify")

    def test_a_repository_is_made_once_by_whoever_needs_it_first(self):
        new = {"CAIRN_REPOSITORY": str(self.scratch / "new")}
        words = ["backup", "create", "--file", self.image]
        self.cairn(*words, code=NOT_FOUND, env=new)
        running = [self.start(*words, "--init", env=new, stdout=subprocess.DEVNULL)
                   for _ in range(3)]
        said = [process.communicate()[1] for process in running]
        self.assertEqual([process.returncode for process in running], [OK] * 3, said)
        self.assertEqual(len(self.json("backup", "list", env=new)["backups"]), 3)

    def test_any_size_will_do(self):
        for size in (1, 4097, 6 * MIB + 123):
            with self.subTest(size):
                os.truncate(self.image, size)
                first = self.back_up("--volume-name", f"of {size}")
                self.change(size - 1, b"e")
                second = self.back_up("--volume-name", f"of {size}")
                self.assertEqual(second["parent"], first["id"])
                self.assertEqual(self.restored(f"of {size}", "--verify"), digest(self.image))
        self.backup("verify")

    def test_a_list_of_changes_saves_the_reading(self):
        full = self.back_up()
        self.change(2 * MIB, b"x" * 4096)
        changes = self.scratch / "changes"
        changes.write_text(json.dumps({"byte_offset": 2 * MIB, "size_bytes": 4096}) + "\n" + END)
        more = self.back_up("--changes", changes, "--parent", self.image)
        self.assertEqual((more["mode"], more["parent"]), ("changed", full["id"]))
        self.assertEqual(more["bytes_changed"], 4096)
        self.assertLess(more["bytes_read"], 100 << 10)
        self.assertEqual(self.restored(str(self.image)), digest(self.image))
        changes.write_text('{"base":"x","block_metadata":[\n]}\n')
        none = self.back_up("--changes", changes, "--parent", more["id"])
        self.assertEqual((none["mode"], none["bytes_read"]), ("changed", 0))
        self.assertEqual(self.restored(none["id"]), digest(self.image))

    def test_equal_chunks_build_on_what_is_there(self):
        """A parent in segments has no list of chunks, and a hole is not what was there before."""
        full = self.back_up("--segment-size", "1M")
        self.change(2 * MIB, b"x" * 4096)
        changes = self.scratch / "changes"
        changes.write_text(json.dumps({"byte_offset": 2 * MIB, "size_bytes": 4096}) + "\n" + END)
        self.back_up("--fixed-chunks", "1M", "--changes", changes, "--parent", full["id"])
        self.assertEqual(self.restored(str(self.image)), digest(self.image))
        subprocess.run(["fallocate", "--punch-hole", "--offset", str(MIB), "--length", str(2 * MIB),
                        self.image], check=True)
        self.back_up("--fixed-chunks", "1M")
        self.assertEqual(self.restored(str(self.image)), digest(self.image))

    def test_lists_that_cannot_be_believed(self):
        full = self.back_up()
        changes = self.scratch / "changes"
        extent = '{"byte_offset":0,"size_bytes":4096}'
        head = '{"base":%s,"volume_capacity_bytes":%d%s,"block_metadata":[\n]}\n'
        for text, why in (("", "empty"), (extent, "cut short"), ("\n", "empty"),
                          (extent + "\n", "may have been cut short"),
                          (extent + "\n\n" + END, "line 2"), (END + extent + "\n", "behind the end"),
                          (extent[:-1] + "x" * 5000 + "\n" + END, "too long"),
                          (head % ("null", 20 * MIB, ""), "allocated"),
                          (head % ('"a"', 21 * MIB, ""), "another volume"),
                          (head % ('"a"', 19 * MIB, ""), "another volume"),
                          (head % ('"a"', 20 * MIB, ',"starting_offset":4096'), "part"),
                          ('{"block_metadata":[\n' + extent + '\n],"next_offset":4096}\n', "line 3"),
                          ('{"block_metadata":[\n' + extent + "\n", "cut short"),
                          ('{"block_metadata":[\n]}\n' + extent + "\n", "behind the end"),
                          ('{"byte_offset":-1,"size_bytes":4096}\n', "not an extent"),
                          ('{"byte_offset":%d,"size_bytes":4096}\n' % (20 * MIB), "past the end"),
                          ('{"byte_offset":0,"size_bytes":9223372036854775807}\n', "past the end"),
                          (extent[:-1] + ',"end":true}\n', "cut short"),
                          ('{"base":"a","block_metadata":[' + extent + "\n]}\n", "line 1"),
                          ("[]\n", "not an extent"), (extent + "\nnonsense\n", "line 2")):
            with self.subTest(text):
                changes.write_text(text)
                done = self.backup("create", "--file", self.image, "--changes", changes,
                                   "--parent", full["id"], code=INVALID)
                self.assertIn(why, done.stderr)
        self.backup("create", "--file", self.image, "--changes", self.scratch / "none",
                    "--parent", full["id"], code=NOT_FOUND)
        os.mkfifo(self.scratch / "fifo")
        done = self.backup("create", "--file", self.image, "--changes", self.scratch / "fifo",
                           "--parent", full["id"], code=PRECONDITION)
        self.assertIn("is a pipe", done.stderr)
        self.backup("create", "--file", self.image, "--changes", changes, code=USAGE)
        self.assertEqual(len(self.backups()), 1)

    def test_a_list_against_a_backup_of_something_else_reads_everything(self):
        self.two_snapshots()
        other = self.create("data@s1")
        changes = self.scratch / "changes"
        changes.write_text('{"byte_offset":0,"size_bytes":4096}\n' + END)
        made = self.back_up("--changes", changes, "--parent", other["id"])
        self.assertEqual(made["mode"], "allocated")
        self.assertEqual(self.restored(made["id"]), digest(self.image))

    def test_a_volume_of_the_same_name_is_another_thing(self):
        self.two_snapshots()
        volume = [self.create("data@s1"), self.create("data@s2")]
        file = [self.back_up("--volume-name", "data") for _ in range(2)]
        done = self.backup("restore", "data", "--to", self.scratch / "out", code=INVALID)
        self.assertIn(f"id {file[0]['volume_id']}", done.stderr)
        self.assertEqual(self.restored(file[0]["volume_id"]), digest(self.image))
        self.backup("forget", "--keep-last", "1")
        self.assertEqual({b["id"] for b in self.backups()}, {volume[1]["id"], file[1]["id"]})

    def test_what_is_written_meanwhile_makes_no_backup(self):
        with open(self.image, "r+b"):
            done = self.backup("create", "--file", self.image, code=PRECONDITION)
            self.assertIn("open for writing", done.stderr)
            self.back_up("--live")
        os.truncate(self.image, 48 * MIB)
        self.change(0, os.urandom(48 * MIB))
        before = len(self.files())
        process = self.start("backup", "create", "--file", self.image, "--threads", "1",
                             "--compression", "22", env={"RESTIC_PACK_SIZE": "4"})
        self.wait_for(lambda: len(self.files()) > before)
        times = os.stat(self.image)
        self.change(0, b"x")
        os.utime(self.image, ns=(times.st_atime_ns, times.st_mtime_ns))
        self.assertIn("written while it was read", process.communicate(timeout=600)[1])
        self.assertEqual(process.returncode, ABORTED)
        self.assertEqual(len(self.backups()), 1)

    def test_what_is_no_source(self):
        (self.scratch / "empty").touch()
        os.mkfifo(self.scratch / "fifo")
        for args, code in ((["--file", self.scratch / "none"], NOT_FOUND),
                           (["--file", self.scratch], INVALID),
                           (["--file", self.scratch / "empty"], INVALID),
                           (["--file", self.scratch / "fifo"], INVALID),
                           (["--device", self.image], INVALID),
                           (["--file", self.image, "--device", self.image], USAGE),
                           (["data", "--file", self.image], USAGE),
                           (["--all", "--live"], USAGE),
                           (["--device", self.image, "--namespace", "x"], USAGE)):
            with self.subTest(args):
                self.backup("create", *args, code=code)
        self.assertEqual(self.backups(), [])


@unittest.skipUnless(CAN_MOUNT, "needs root and loop devices")
class Devices(FileTest):
    def attach(self, *args):
        device = subprocess.run(["losetup", "--find", "--show", *args, self.image], check=True,
                                capture_output=True, text=True).stdout.strip()
        self.addCleanup(subprocess.run, ["losetup", "--detach", device], check=False)
        return device

    def mount(self, device, *args):
        place = self.scratch / "mount"
        place.mkdir(exist_ok=True)
        subprocess.run(["mount", *args, device, place], check=True)
        self.mounted.append(place)
        return place

    def test_a_device_is_read_whole_and_restored(self):
        device = self.attach()
        full = self.events("create", "--device", device, "--volume-name", "disk")[-1]
        self.assertEqual((full["mode"], full["bytes_read"]), ("full", 20 * MIB))
        self.assertLess(full["bytes_stored"], 6 * MIB, "zeros are not stored")
        with open(device, "r+b") as file:
            file.seek(3 * MIB)
            file.write(os.urandom(4096))
        more = self.events("create", "--device", device, "--volume-name", "disk")[-1]
        self.assertEqual(more["parent"], full["id"])
        self.assertLess(more["bytes_stored"], 100 << 10)
        want = digest(device)
        subprocess.run(["blkdiscard", "--zeroout", device], check=True)
        self.backup("restore", "disk", "--to", device, "--overwrite", "--verify")
        self.assertEqual(digest(device), want)

    def test_one_that_is_mounted_is_refused(self):
        subprocess.run(["mkfs.ext4", "-q", self.image], check=True)
        device = self.attach()
        place = self.mount(device)
        done = self.backup("create", "--device", device, code=PRECONDITION)
        self.assertIn(f"mounted at '{place}'", done.stderr)
        self.backup("create", "--device", device, "--live")
        subprocess.run(["umount", place], check=True)
        self.backup("create", "--device", device)

    def test_one_that_nobody_can_write_is_taken(self):
        subprocess.run(["mkfs.ext4", "-q", self.image], check=True)
        device = self.attach("--read-only")
        self.mount(device, "-o", "ro")
        made = self.events("create", "--device", device, "--volume-name", "disk")[-1]
        self.assertEqual(self.restored(made["id"]), digest(device))

    def test_it_cannot_be_mounted_while_it_is_read(self):
        os.truncate(self.image, 64 * MIB)
        subprocess.run(["mkfs.ext4", "-q", self.image], check=True)
        with open(self.image, "r+b") as file:
            file.seek(8 * MIB)
            file.write(os.urandom(40 * MIB))
        device = self.attach()
        process = self.start("backup", "create", "--device", device, "--threads", "1",
                             "--compression", "22", env={"RESTIC_PACK_SIZE": "4"})
        self.wait_for(self.files)
        (self.scratch / "mount").mkdir()
        tried = subprocess.run(["mount", device, self.scratch / "mount"], capture_output=True)
        self.assertNotEqual(tried.returncode, OK)
        self.assertEqual((process.communicate(timeout=600)[1], process.returncode), ("", OK))


if __name__ == "__main__":
    main()
