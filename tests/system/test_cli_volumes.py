#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Rolling back, renaming, pruning, listing and attaching by a stable name."""
import json
import os
import pathlib
import re
import shutil
import subprocess

from cairncli import (BIN, BLOCK, CAN_MOUNT, EXISTS, INVALID, MIB, NOT_FOUND, PRECONDITION,
                      REPOSITORY, USAGE, CliTest, main)


class Bases(CliTest):
    """On each back end; the rest does not depend on it."""

    def test_every_earlier_snapshot_is_a_base(self):
        self.two_snapshots()
        self.cairn("volume", "rollback", "data@s1")
        self.write(300 * BLOCK, b"y" * BLOCK)
        self.cairn("snapshot", "create", "data@s3")
        for base in ("data@s1", "data@s2"):
            self.assert_covers(self.lines("delta", base, "data@s3"),
                               self.changed_blocks(base, "data@s3"))


class BasesBtrfs(Bases):
    backend = "btrfs"


class BasesReflink(Bases):
    backend = "reflink"


class Rollback(CliTest):
    def test_there_and_back(self):
        self.two_snapshots()
        self.write(200 * BLOCK, b"x" * BLOCK)
        self.cairn("volume", "rollback", "data@s1", "--snapshot-first", "oops")
        self.assertEqual(pathlib.Path(self.path("volume", "data")).read_bytes(), self.read("data@s1"))
        done = self.json("volume", "rollback", "data@oops", "--no-snapshot")
        self.assertEqual((done["snapshot"], done["kept_as"], done["kept_id"]), ("oops", None, None))
        self.assertEqual(done["volume"]["name"], "data")
        self.assertEqual(pathlib.Path(self.path("volume", "data")).read_bytes(),
                         self.read("data@oops"))

    def test_the_default_name_is_free_each_time(self):
        self.two_snapshots()
        kept = [self.json("volume", "rollback", "data@s1")["kept_as"] for _ in range(3)]
        self.assertEqual(len(set(kept)), 3)
        for name in kept:
            self.assertTrue(name.startswith("before-rollback-"))

    def test_refusals_change_nothing(self):
        self.two_snapshots()
        before = self.state()
        self.cairn("volume", "rollback", "data@none", code=NOT_FOUND)
        self.cairn("volume", "rollback", "data", code=NOT_FOUND)
        self.cairn("volume", "rollback", "data@s1", "--snapshot-first", "s2", code=EXISTS)
        self.cairn("volume", "rollback", "data@s1", "--snapshot-first", "", code=INVALID)
        self.cairn("volume", "rollback", "data@s1", "--no-snapshot", "--snapshot-first", "x",
                   code=USAGE)
        with open(self.path("volume", "data"), "r+b"):
            self.cairn("volume", "rollback", "data@s1", code=PRECONDITION)
        self.assertEqual(self.state(), before)


class InUse(CliTest):
    def setUp(self):
        if not CAN_MOUNT:
            self.skipTest("needs root and loop devices")
        super().setUp()
        self.two_snapshots()

    def test_an_attached_volume_is_not_rolled_back(self):
        device = self.out("volume", "attach", "data").strip()
        done = self.cairn("volume", "rollback", "data@s1", code=PRECONDITION)
        self.assertIn(device, done.stderr)
        self.assertEqual(len(self.items("snapshot")), 2)
        self.cairn("volume", "detach", "data")
        self.cairn("volume", "rollback", "data@s1")

    def test_lists_say_what_is_attached_and_mounted(self):
        device = self.out("volume", "attach", "data").strip()
        self.assertEqual(self.items("volume")[0]["device"], device)
        subprocess.run(["mkfs.ext4", "-q", "-F", device], check=True)
        mount = self.scratch / "mount"
        mount.mkdir()
        subprocess.run(["mount", device, mount], check=True)
        self.mounted.append(mount)
        self.assertEqual(self.items("volume")[0]["mounted"], str(mount))
        self.assertIn(str(mount), self.out("volume", "ls"))
        done = self.cairn("volume", "rollback", "data@s1", code=PRECONDITION)
        self.assertIn(str(mount), done.stderr)
        self.cairn("snapshot", "attach", "data@s1")
        self.assertIn("attached", self.out("snapshot", "ls"))

    def test_a_renamed_volume_keeps_its_device(self):
        device = self.out("volume", "attach", "data").strip()
        self.cairn("volume", "rename", "data", "other")
        self.assertEqual(self.out("volume", "attach", "other").strip(), device)
        self.cairn("volume", "detach", "other")

    def test_a_link_leads_to_the_device(self):
        link = self.scratch / "links" / "data"
        device = self.out("volume", "attach", "data", "--link", link).strip()
        self.assertEqual(os.readlink(link), device)
        self.cairn("volume", "attach", "data", "--link", link)
        self.cairn("volume", "detach", "data", "--link", link)
        self.assertFalse(os.path.lexists(link))
        self.cairn("volume", "detach", "data", "--link", link)
        link.write_text("not ours")
        self.cairn("volume", "attach", "data", "--link", link, code=EXISTS)
        self.cairn("volume", "detach", "data", "--link", link, code=EXISTS)
        self.assertEqual(link.read_text(), "not ours")

    def test_what_is_attached_is_not_pruned(self):
        self.cairn("snapshot", "attach", "data@s1")
        kept, newest = self.lines("snapshot", "prune", "data", "--keep-last", "1")
        self.assertEqual((kept["removed"], kept["reasons"]), (False, ["in use"]))
        self.assertEqual(newest["reasons"], ["last"])


class Unit(CliTest):
    """The unit that attaches at boot."""
    TEXT = REPOSITORY / "deploy/systemd/cairn-attach@.service.in"

    def unit(self):
        return self.TEXT.read_text().replace("@bindir@/cairn", os.path.realpath(BIN))

    def command(self, key):
        """What systemd would run for the volume `data`, with links in the scratch directory."""
        line, = re.findall(rf"^{key}=(.*)$", self.unit(), re.MULTILINE)
        return [word.replace("%I", "data").replace("/run/cairn", str(self.scratch / "run"))
                for word in line.split()][1:]

    def test_its_commands_attach_and_detach(self):
        if not CAN_MOUNT:
            self.skipTest("needs root and loop devices")
        self.make_volume(size=MIB)
        device = self.out(*self.command("ExecStart")).strip()
        self.assertEqual(os.readlink(self.scratch / "run" / "data"), device)
        self.assertEqual(self.out(*self.command("ExecStart")).strip(), device, "started again")
        self.cairn(*self.command("ExecStop"))
        self.assertFalse(os.path.lexists(self.scratch / "run" / "data"))
        self.assertIsNone(self.items("volume")[0]["device"])

    def test_systemd_takes_it(self):
        lines = [line for line in self.unit().splitlines() if line and line[0] != "#"]
        self.assertEqual([line for line in lines if line[0] == "["],
                         ["[Unit]", "[Service]", "[Install]"])
        for line in lines:
            self.assertRegex(line, r"^(\[\w+\]|\w+=\S.*)$")
        if not shutil.which("systemd-analyze"):
            self.skipTest("systemd-analyze is not here")
        place = self.scratch / "cairn-attach@data.service"
        place.write_text(self.unit())
        done = subprocess.run(["systemd-analyze", "verify", "--man=no", place],
                              capture_output=True, text=True, timeout=60)
        said = done.stdout + done.stderr
        if done.returncode and place.name not in said:
            self.skipTest(f"systemd-analyze does not work here: {said.strip()}")
        self.assertEqual((done.returncode, [line for line in said.splitlines()
                                            if place.name in line]), (0, []))


class Rename(CliTest):
    def test_names_move_and_ids_stay(self):
        self.two_snapshots()
        before = self.items("volume")[0]["id"], self.items("snapshot")[0]["id"]
        self.assertEqual(self.json("volume", "rename", "data", "new name")["id"], before[0])
        renamed = self.json("snapshot", "rename", "new name@s1", "new name@first")
        self.assertEqual((renamed["id"], renamed["name"]), (before[1], "first"))
        self.cairn("volume", "info", "data", code=NOT_FOUND)
        self.cairn("snapshot", "info", "new name@s1", code=NOT_FOUND)
        self.assertTrue(self.lines("delta", "new name@first", "new name@s2"))
        self.cairn("pool", "check")

    def test_refusals_change_nothing(self):
        self.two_snapshots()
        self.make_volume("other", MIB)
        before = self.state()
        self.cairn("volume", "rename", "data", "other", code=EXISTS)
        self.cairn("volume", "rename", "data", "a\nb", code=INVALID)
        self.cairn("volume", "rename", "none", "x", code=NOT_FOUND)
        self.cairn("snapshot", "rename", "data@s1", "data@s2", code=EXISTS)
        self.cairn("snapshot", "rename", "data@s1", "other@s1", code=INVALID)
        self.cairn("snapshot", "rename", "data@s1", "s9", code=INVALID)
        self.cairn("snapshot", "rename", "data@s1", code=USAGE)
        self.assertEqual(self.state(), before)


class Backups(CliTest):
    def test_backups_build_upon_one_another_over_renames_and_rollbacks(self):
        env = {"CAIRN_REPOSITORY": str(self.scratch / "repository"), "RESTIC_PASSWORD": "x"}

        def back_up(snapshot):
            done = self.cairn("backup", "create", snapshot, "-o", "json", env=env)
            return json.loads(done.stdout.splitlines()[-1])

        self.two_snapshots()
        self.cairn("backup", "init", env=env)
        first = back_up("data@s1")
        self.cairn("volume", "rename", "data", "other")
        self.cairn("snapshot", "rename", "other@s1", "other@first")
        second = back_up("other@s2")
        self.assertEqual(second["parent"], first["id"])
        self.cairn("volume", "rollback", "other@first")
        self.write(500 * BLOCK, b"z" * BLOCK, "other")
        self.cairn("snapshot", "create", "other@s3")
        self.assertEqual(back_up("other@s3")["parent"], second["id"])
        image = self.scratch / "image"
        self.cairn("backup", "restore", "other@s3", "--to", image, env=env)
        self.assertEqual(image.read_bytes(), self.read("other@s3"))


class Prune(CliTest):
    def snapshots(self, n):
        self.make_volume(size=MIB)
        for i in range(n):
            self.cairn("snapshot", "create", f"data@{i}")

    def test_what_no_rule_keeps_goes(self):
        self.snapshots(4)
        rules = ("--keep-last", "2", "--keep-daily", "3")
        said = self.json("snapshot", "prune", *rules, "--dry-run")["snapshots"]
        self.assertEqual([(each["name"], each["removed"], each["reasons"]) for each in said],
                         [("0", True, []), ("1", True, []), ("2", False, ["last"]),
                          ("3", False, ["last", "daily"])])
        self.assertEqual(len(self.items("snapshot")), 4)
        self.assertIn("2 snapshots removed, 2 kept", self.out("snapshot", "prune", "data", *rules))
        self.assertEqual([each["name"] for each in self.items("snapshot")], ["2", "3"])
        self.assertEqual(self.out("snapshot", "prune", "-q", *rules), "")

    def test_wrong_use_deletes_nothing(self):
        self.snapshots(2)
        self.cairn("snapshot", "prune", code=USAGE)
        self.cairn("snapshot", "prune", "data", "--keep-last", "0", code=USAGE)
        self.cairn("snapshot", "prune", "data", "none", "--keep-last", "1", code=NOT_FOUND)
        self.cairn("snapshot", "prune", "--keep-last", "-1", code=USAGE)
        self.assertEqual(len(self.items("snapshot")), 2)


class Space(CliTest):
    """What a snapshot alone holds is what the others do not refer to."""
    backend = "reflink"

    def test_a_snapshot_alone_holds_what_was_overwritten_since(self):
        self.make_volume()
        self.write(0, os.urandom(8 * MIB))
        self.cairn("snapshot", "create", "data@s1")
        self.assertEqual(self.items("snapshot", "--used")[0]["exclusive_bytes"], 0)
        self.write(0, os.urandom(2 * MIB))
        self.cairn("snapshot", "create", "data@s2")
        first, second = self.items("snapshot", "--used")
        self.assertEqual((first["exclusive_bytes"], second["exclusive_bytes"]), (2 * MIB, 0))
        self.assertEqual(first["used_bytes"], 8 * MIB)
        self.assertIn("ALONE", self.out("snapshot", "ls", "--used"))


class Aliases(CliTest):
    def test_ls_and_rm(self):
        self.two_snapshots()
        self.assertEqual(self.out("snapshot", "ls"), self.out("snapshot", "list"))
        self.cairn("snapshot", "rm", "data@s1", "data@s2")
        self.cairn("volume", "rm", "data")
        self.assertEqual(self.out("volume", "ls"), "")
        self.assertIn("Alias: ls", self.out("volume", "list", "--help"))


if __name__ == "__main__":
    main()
