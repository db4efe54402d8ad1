#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""`cairn backup create VOLUME...`: a snapshot for each, one point in time, nothing left behind."""
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import unittest

from backupcli import BackupTest, digest
from cairncli import (INVALID, MIB, NOT_FOUND, OK, PRECONDITION, main)

UNAUTHENTICATED = 16
USAGE = 2


SHIM = os.environ.get("CAIRN_SHIM")
LONG = "--long" in sys.argv


def calls(count):
    return struct.unpack("=Q", count.read_bytes()[:8])[0]


class VolumeTest(BackupTest):
    def setUp(self):
        super().setUp()
        self.init()
        for name in ("data", "logs"):
            self.make_volume(name, size=32 * MIB)
            self.write(0, os.urandom(4 * MIB), volume=name)

    def live(self):
        return [f"{s['volume']}@{s['name']}" for s in self.items("snapshot")]

    def volume(self, name):
        return digest(self.path("volume", name))


class Volumes(VolumeTest):
    def test_a_volume_needs_no_snapshot_of_the_user(self):
        want = self.volume("data")
        full, report = self.events("create", "data")
        self.assertEqual((full["mode"], full["volume"]), ("allocated", "data"))
        self.assertEqual((report["event"], report["backups"], report["failed"]), ("report", 1, 0))
        self.assertEqual(self.live(), [])
        self.assertEqual(self.restored("data"), want)
        self.write(MIB, os.urandom(8192))
        want = self.volume("data")
        more, _ = self.events("create", "data")
        self.assertEqual((more["mode"], more["parent"]), ("changed", full["id"]))
        self.assertEqual(more["bytes_changed"], 8192)
        self.assertEqual(self.restored("data", "--verify"), want)
        self.assertEqual(self.live(), [])

    def test_several_are_of_one_point_in_time(self):
        events = self.events("create", "data", "logs")
        made = [e for e in events if e["event"] == "summary"]
        self.assertEqual([e["volume"] for e in made], ["data", "logs"])
        self.assertEqual(len({e["snapshot"] for e in made}), 1, "one name for all of them")
        self.assertEqual((events[-1]["backups"], events[-1]["failed"]), (2, 0))
        self.assertEqual(events[-1]["bytes_stored"], sum(e["bytes_stored"] for e in made))
        for name in ("data", "logs"):
            self.assertEqual(self.restored(name), self.volume(name))
        self.write(0, b"x" * 4096, volume="logs")
        done = self.backup("create", "logs", "data")
        self.assertRegex(done.stdout.splitlines()[-1],
                         r"^2 of 2 backups made: read .*, stored .* in .*")
        self.assertEqual(self.restored("logs"), self.volume("logs"))
        self.backup("verify")

    def test_a_second_backup_of_a_run_trusts_what_the_first_one_stored(self):
        with open(self.path("volume", "data"), "rb") as file:
            self.write(0, file.read(4 * MIB), volume="logs")
        first, second, _ = self.events("create", "data", "logs")
        self.assertGreater(first["bytes_stored"], 4 * MIB)
        self.assertLess(second["bytes_stored"], MIB, "the same chunks are stored once")
        self.assertFalse(self.events("create", "data")[0]["bytes_stored"] > MIB)

    def test_volumes_and_snapshots_may_be_mixed(self):
        self.snapshot("data@mine")
        made = [e for e in self.events("create", "data@mine", "logs") if e["event"] == "summary"]
        self.assertEqual([(e["volume"], e["snapshot"] == "mine") for e in made],
                         [("data", True), ("logs", False)])
        self.assertEqual(self.live(), ["data@mine"])

    def test_a_report_that_is_lost_is_an_error(self):
        with open("/dev/full", "w", encoding="utf-8") as full:
            for args in (["-o", "json"], []):
                done = self.backup("create", "data", *args, stdout=full, code=None)
                self.assertNotEqual(done.returncode, OK, args)
        self.assertEqual((len(self.backups()), self.live()), (2, []), "both are made")

    def test_a_snapshot_may_be_kept(self):
        made, _ = self.events("create", "data", "--keep-snapshot")
        self.assertEqual(self.live(), [f"data@{made['snapshot']}"])
        self.backup("create", "data", env={"CAIRN_REPOSITORY": str(self.scratch / "nowhere")},
                    code=NOT_FOUND)
        self.assertEqual(self.live(), [f"data@{made['snapshot']}"])

    def test_names_that_mean_nothing_or_two_things(self):
        before = self.state()
        done = self.backup("create", "dato", code=NOT_FOUND)
        self.assertIn("did you mean 'data'?", done.stderr)
        self.backup("create", "data", "none", code=NOT_FOUND)
        self.backup("create", "data", "data", code=INVALID)
        self.backup("create", "data", "--all", code=USAGE)
        self.backup("create", code=USAGE)
        self.backup("create", "data", "logs", "--parent", "data", code=USAGE)
        self.backup("create", "data", env={"RESTIC_PASSWORD": "wrong"}, code=UNAUTHENTICATED)
        self.assertEqual(self.state(), before, "not even a snapshot was cut")
        self.snapshot("data@x")
        self.make_volume("data@x", size=MIB)
        done = self.backup("create", "data@x", code=INVALID)
        self.assertIn("of a volume and of a snapshot", done.stderr)


class All(VolumeTest):
    def test_all_volumes(self):
        events = self.events("create", "--all")
        self.assertEqual({e["volume"] for e in events if e["event"] == "summary"},
                         {"data", "logs"})
        self.assertEqual(self.live(), [])
        for name in ("data", "logs"):
            self.assertEqual(self.restored(name), self.volume(name))

    def test_an_empty_pool_is_no_success(self):
        for name in ("data", "logs"):
            self.cairn("volume", "delete", name)
        self.backup("create", "--all", code=NOT_FOUND)

    def leave_half_restored(self):
        """A volume whose restore was killed cannot be cut."""
        self.backup("create", "logs")
        count = self.scratch / "count"
        env = {"LD_PRELOAD": SHIM, "CAIRN_SHIM_COUNT": str(count),
               "CAIRN_SHIM_DIRS": str(self.pool / "volumes")}
        for _ in range(2):  # the first one counts, the second one dies at its last call
            self.backup("restore", "logs", "--to", "logs", "--overwrite", env=env, code=None)
            env["CAIRN_SHIM_KILL_AT"] = str(calls(count))
            count.unlink()

    @unittest.skipUnless(SHIM, "needs the shim")
    def test_one_that_fails_leaves_the_others_alone(self):
        self.leave_half_restored()
        done = self.backup("create", "--all", "-o", "json", code=None)
        self.assertEqual(done.returncode, PRECONDITION)
        events = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual([e["volume"] for e in events if e["event"] == "summary"], ["data"])
        failed = [e for e in events if e["event"] == "failure"]
        self.assertEqual([(e["volume"], e["code"]) for e in failed], [("logs", PRECONDITION)])
        self.assertEqual((events[-1]["backups"], events[-1]["failed"]), (1, 1))
        self.assertIn("1 of 2 backups failed; logs: ", json.loads(done.stderr)["message"])
        self.assertEqual(self.restored("data"), self.volume("data"))
        self.backup("create", "data", "logs", code=PRECONDITION)
        self.assertEqual(self.live(), [])


class CopiedPool(VolumeTest):
    """A pool and its copy by `cp -a` assign the same ids to different snapshots."""

    def setUp(self):
        super().setUp()
        copy = self.scratch / "copy"
        subprocess.run(["cp", "-a", self.pool, copy], check=True)
        self.copy = {"CAIRN_POOL": str(copy)}
        self.write(MIB, os.urandom(8192))
        self.change_copy(2 * MIB)
        self.cairn("snapshot", "create", "data@1")
        self.cairn("snapshot", "create", "data@1", env=self.copy)
        self.made = self.create("data@1")

    def change_copy(self, offset):
        with open(self.in_copy("volume", "data"), "r+b") as file:
            file.seek(offset)
            file.write(os.urandom(8192))

    def in_copy(self, kind, name):
        return self.out(kind, "path", name, env=self.copy).strip()

    def test_a_backup_does_not_build_on_the_other_pool(self):
        self.change_copy(3 * MIB)
        self.cairn("snapshot", "create", "data@2", env=self.copy)
        for name in ("data@2", "data@1"):
            made = self.create(name, env=self.copy)
            self.assertEqual(self.restored(made["id"]), digest(self.in_copy("snapshot", name)))

    def test_a_restore_does_not_build_on_the_other_pool(self):
        self.backup("restore", self.made["id"], "--to", "data", "--overwrite", env=self.copy)
        self.assertEqual(digest(self.in_copy("volume", "data")),
                         digest(self.path("snapshot", "data@1")))

    def test_rules_count_each_directory_for_itself(self):
        # Only the first pool has backups after the copy: it could have been moved there and back.
        there = self.create("data@1", env=self.copy)["id"]
        self.backup("forget", "--keep-last", "1")
        self.assertEqual([b["id"] for b in self.backups()], [self.made["id"], there])
        here = self.create("data@1")["id"]
        self.backup("forget", "--keep-last", "1")
        self.assertEqual([b["id"] for b in self.backups()], [there, here])

    def test_a_name_does_not_mean_the_other_pool(self):
        there = self.create("data@1", env=self.copy)
        self.create("data@1")
        refused = self.backup("restore", "data", "--to", self.scratch / "r", code=INVALID)
        for where in (self.pool, self.copy["CAIRN_POOL"]):
            self.assertIn(f"pool {there['pool_id'][:8]} in {os.path.realpath(where)})",
                          refused.stderr)
        self.assertEqual(self.restored("data", "--pool-id", os.path.realpath(self.pool)),
                         digest(self.path("snapshot", "data@1")))
        self.assertEqual(self.restored("data", "--pool-id", self.copy["CAIRN_POOL"]),
                         digest(self.in_copy("snapshot", "data@1")))

    def test_a_pool_that_was_moved_keeps_its_name(self):
        shutil.rmtree(self.pool)
        self.create("data@1", env=self.copy)
        self.assertEqual(self.restored("data"), digest(self.in_copy("snapshot", "data@1")))


class TwoPools(VolumeTest):
    """Two pools of one host with a volume of the same name, in one repository."""

    def setUp(self):
        super().setUp()
        self.other = {"CAIRN_POOL": str(self.scratch / "other")}
        self.cairn("pool", "create", self.scratch / "other", "--backend", "copy")
        self.cairn("volume", "create", "data", "--size", "32M", env=self.other)
        with open(self.out("volume", "path", "data", env=self.other).strip(), "r+b") as file:
            file.write(os.urandom(MIB))

    def test_they_are_two_volumes(self):
        first = self.events("create", "data")[0]
        second = self.events("create", "data", env=self.other)[0]
        self.assertNotEqual(first["pool_id"], second["pool_id"])
        for name in (["data"], ["latest"], ["latest", "--volume", "data"]):
            refused = self.backup("restore", *name, "--to", self.scratch / "r", code=INVALID)
            for made in (first, second):
                self.assertIn(f"id {made['volume_id']}, pool {made['pool_id'][:8]}",
                              refused.stderr)
        self.assertFalse((self.scratch / "r").exists())
        here = self.volume("data")
        there = digest(self.out("volume", "path", "data", env=self.other).strip())
        self.assertEqual(self.restored("data", "--pool-id", first["pool_id"][:8]), here)
        self.assertEqual(self.restored("data", "--pool-id", second["pool_id"]), there)
        self.assertEqual(self.restored(second["volume_id"]), there)
        self.assertEqual([b["id"] for b in self.backups("--pool-id", second["pool_id"])],
                         [second["id"]])
        self.assertEqual([b["pool_id"] for b in self.backups()],
                         [first["pool_id"], second["pool_id"]])
        self.assertIn(first["pool_id"], self.backup("describe", first["id"]).stdout)

    def test_rules_count_each_for_itself(self):
        here = [self.events("create", "data")[0]["id"] for _ in range(2)]
        there = [self.events("create", "data", env=self.other)[0]["id"] for _ in range(2)]
        forgotten = self.events("forget", "--keep-last", "1")
        self.assertEqual({e["id"] for e in forgotten if e["event"] == "forget"},
                         {here[0], there[0]})
        self.assertEqual([b["id"] for b in self.backups()], [here[1], there[1]])

    def test_a_pool_that_was_lost_and_made_again_goes_on(self):
        first = self.events("create", "data")[0]
        want = self.volume("data")
        shutil.rmtree(self.pool)
        self.cairn("pool", "create", self.pool, "--backend", "copy")
        self.backup("restore", "data", "--to", "data")
        again = self.events("create", "data")[0]
        self.assertNotEqual(again["pool_id"], first["pool_id"])
        self.assertEqual(self.restored("data"), want)
        self.backup("forget", "--keep-last", "1")
        self.assertEqual([b["id"] for b in self.backups()], [again["id"]])
        # The name of a snapshot that is gone would not fit on a line of 80 columns.
        self.assertRegex(self.backup("list").stdout.splitlines()[-1], r"^\S+  \S+  data  ")

    def test_a_volume_that_was_made_again_goes_on(self):
        self.backup("create", "data")
        self.cairn("volume", "delete", "data")
        self.make_volume("data", size=32 * MIB)
        again = self.events("create", "data")[0]
        self.assertEqual(self.restored("data"), self.volume("data"))
        self.backup("forget", "--keep-last", "1")
        self.assertEqual([b["id"] for b in self.backups()], [again["id"]])


class Killed(VolumeTest):
    def setUp(self):
        super().setUp()
        self.write(0, os.urandom(24 * MIB))

    def test_an_interrupt_leaves_no_snapshot(self):
        process = self.start_slowly("data")
        self.wait_for(self.files)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=300)
        self.assertEqual(process.returncode, 128 + signal.SIGTERM)
        self.assertEqual((self.live(), self.files("locks")), ([], []))

    def test_what_a_killed_run_left_goes_with_the_next(self):
        process = self.start_slowly("data")
        self.wait_for(self.files)
        process.kill()
        process.communicate(timeout=300)
        self.assertEqual(len(self.live()), 1)
        done = self.backup("create", "logs")
        self.assertIn("1 snapshot of a backup that was killed is deleted", done.stderr)
        self.assertEqual(self.live(), [])
        self.assertNotIn("killed", self.backup("create", "logs").stderr)

    def test_the_snapshot_of_a_run_that_lives_stays(self):
        process = self.start_slowly("data", "-q")
        self.wait_for(self.files)
        process.send_signal(signal.SIGSTOP)
        first = self.live()
        self.assertEqual(len(first), 1)
        self.backup("create", "logs", "data")
        self.assertEqual(self.live(), first)
        process.send_signal(signal.SIGCONT)
        self.assertEqual((process.communicate(timeout=600)[1], process.returncode), ("", OK))
        self.assertEqual(self.live(), [])
        self.assertEqual(len(self.backups()), 3)
        self.backup("verify")

    @unittest.skipUnless(SHIM, "needs the shim")
    def test_killed_at_any_call(self):
        self.backup("create", "data", "logs")
        count = self.scratch / "count"
        env = {"LD_PRELOAD": SHIM, "CAIRN_SHIM_COUNT": str(count),
               "CAIRN_SHIM_DIRS": f"{self.pool}:{self.repository}"}
        self.backup("create", "data", "logs", env=env)
        total = calls(count)
        self.assertGreater(total, 10)
        steps = total if LONG else 4
        for at in range(1, total + 1, max(1, total // steps)):
            count.unlink(missing_ok=True)
            self.write(0, os.urandom(4096))
            self.backup("create", "data", "logs", code=None,
                        env={**env, "CAIRN_SHIM_KILL_AT": str(at),
                             "CAIRN_SHIM_KILL_WHOM": "all"})
            self.backup("create", "data")
            with self.subTest(f"call {at} of {total}"):
                self.assertEqual(self.live(), [])
        self.assertEqual(self.restored("data"), self.volume("data"))
        self.cairn("pool", "check")
        self.backup("verify")


if __name__ == "__main__":
    sys.argv = [a for a in sys.argv if a != "--long"]
    main()
