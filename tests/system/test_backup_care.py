#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What keeps a repository in order: tags, keys, subsets, metrics."""
import os
import re
import unittest

from backupcli import PASSWORD, BackupTest
from cairncli import DATA_LOSS, INVALID, MIB, NOT_FOUND, OK, PRECONDITION, USAGE, main

UNAUTHENTICATED = 16


class Tags(BackupTest):
    def setUp(self):
        super().setUp()
        self.init()
        self.two_snapshots()

    def names(self, *args):
        return [b["snapshot"] for b in self.backups(*args)]

    def test_backups_are_tagged_listed_and_forgotten_by_tag(self):
        self.create("data@s1", "--tag", "nightly,host-a", "--tag", "nightly")
        self.create("data@s2", "--tag", "manual")
        self.assertEqual([b["tags"] for b in self.backups()],
                         [["nightly", "host-a"], ["manual"]])
        for args, want in ((["--tag", "nightly"], ["s1"]), (["--tag", "nightly,manual"], []),
                           (["--tag", "nightly", "--tag", "manual"], ["s1", "s2"]),
                           (["--tag", "none"], [])):
            self.assertEqual(self.names(*args), want, args)
        self.assertRegex(self.backup("list").stdout, r"TAGS\n.*nightly,host-a\n")
        self.backup("forget", "--keep-last", "1", "--tag", "nightly")
        self.assertEqual(self.names(), ["s1", "s2"], "the newest of those with the tag stays")
        self.backup("forget", "--keep-last", "1", "--keep-tag", "nightly")
        self.assertEqual(self.names(), ["s1", "s2"])
        self.backup("forget", "--keep-last", "1")
        self.assertEqual(self.names(), ["s2"])

    def test_forgetting_can_be_repeated(self):
        self.create("data@s1")
        (made,) = self.backups()
        self.backup("forget", made["id"], "f" * 64, code=NOT_FOUND)
        # It exists, and is not forgotten.
        self.backup("forget", "--ignore-missing", "--volume", "logs", made["id"], code=INVALID)
        self.assertEqual(self.names(), ["s1"])
        for _ in range(2):
            self.backup("forget", "--ignore-missing", "--prune", made["id"], "f" * 64)
            self.assertEqual(self.names(), [])

    def test_backups_with_a_tag_are_forgotten(self):
        self.create("data@s1", "--tag", "velero-upload=1")
        self.create("data@s2", "--tag", "velero-upload=12,other")
        self.backup("forget", "--tagged", "velero-upload=1", "--keep-last", "1", code=USAGE)
        for other in (["--volume", "logs"], ["--pool-id", "0" * 8]):
            self.backup("forget", "--tagged", "velero-upload=1", *other)
            self.assertEqual(self.names(), ["s1", "s2"], other)
        for tags, left in ((["velero-upload=9"], ["s1", "s2"]), (["velero-upload=1"], ["s2"]),
                           (["velero-upload=1", "other"], [])):
            self.backup("forget", *(f"--tagged={tag}" for tag in tags), "--prune")
            self.assertEqual(self.names(), left, tags)

    def test_where_there_is_no_repository_nothing_is_to_be_forgotten(self):
        absent = ["--repository", self.scratch / "absent"]
        self.backup("forget", *absent, "f" * 64, code=NOT_FOUND)
        self.backup("forget", *absent, "--ignore-missing", "--prune", "--tagged=x", "f" * 64)

    def test_a_password_that_is_not_found_is_not_a_missing_repository(self):
        self.create("data@s1", "--tag", "x")
        self.backup("forget", "--ignore-missing", "--tagged=x", "--password-file", "/nowhere",
                    env={"RESTIC_PASSWORD": ""}, code=NOT_FOUND)
        self.assertEqual(self.names(), ["s1"])

    def test_tags_that_cannot_be_given(self):
        for tag in ("", "a,,b", "cairn", "volume=x", "snapshot-id=1", "read=5", "a\tb", "x" * 300):
            with self.subTest(tag):
                self.backup("create", "data@s1", "--tag", tag, code=INVALID)
        self.backup("forget", "--tag", "x", code=USAGE)
        self.backup("create", "data@s1", "--tag", "volumes=fine")
        self.assertEqual(len(self.backups()), 1)


class Keys(BackupTest):
    def setUp(self):
        super().setUp()
        self.init()
        self.password = self.scratch / "new"
        self.password.write_text("the new one")

    def keys(self, **how):
        return self.json("backup", "key", "list", **how)["keys"]

    def opens(self, password):
        return self.backup("list", env={"RESTIC_PASSWORD": password}, code=None).returncode == OK

    def test_a_second_key(self):
        first = self.keys()
        self.assertEqual([k["current"] for k in first], [True])
        self.backup("key", "add", "--new-password-file", self.password)
        self.assertTrue(self.opens("the new one"))
        self.assertEqual(len(self.keys()), 2)
        done = self.backup("key", "remove", first[0]["id"][:12], code=PRECONDITION)
        self.assertIn("in use", done.stderr)
        self.backup("key", "remove", first[0]["id"][:12], env={"RESTIC_PASSWORD": "the new one"})
        self.assertFalse(self.opens(PASSWORD))
        self.assertTrue(self.opens("the new one"))
        other = {"RESTIC_PASSWORD": "the new one"}
        last = self.keys(env=other)
        self.backup("key", "remove", last[0]["id"], env=other, code=PRECONDITION)
        self.backup("key", "remove", "0000000000", env=other, code=NOT_FOUND)
        self.backup("key", "remove", "", env=other, code=NOT_FOUND)

    def test_a_password_is_changed(self):
        self.backup("key", "passwd", "--new-password-file", self.password,
                    env={"RESTIC_PASSWORD": "wrong"}, code=UNAUTHENTICATED)
        self.assertEqual(len(self.files("keys")), 1)
        self.backup("key", "passwd", "--new-password-file", self.password)
        self.assertEqual(len(self.files("keys")), 1)
        self.assertEqual((self.opens(PASSWORD), self.opens("the new one")), (False, True))
        self.password.write_text("")
        self.backup("key", "passwd", "--new-password-file", self.password,
                    env={"RESTIC_PASSWORD": "the new one"}, code=INVALID)
        self.assertTrue(self.opens("the new one"))

    @unittest.skipUnless(os.environ.get("CAIRN_SHIM"), "needs the shim")
    def test_a_change_that_is_killed_locks_nobody_out(self):
        count = self.scratch / "count"
        env = {"LD_PRELOAD": os.environ["CAIRN_SHIM"], "CAIRN_SHIM_COUNT": str(count),
               "CAIRN_SHIM_DIRS": str(self.repository / "keys")}
        current = PASSWORD
        for at in range(1, 7):
            wanted = f"number {at}"
            self.password.write_text(wanted)
            count.unlink(missing_ok=True)
            self.backup("key", "passwd", "--new-password-file", self.password, code=None,
                        env={**env, "RESTIC_PASSWORD": current, "CAIRN_SHIM_KILL_AT": str(at)})
            able = [p for p in (wanted, current) if self.opens(p)]
            self.assertNotEqual(able, [], f"killed at call {at}: no password opens it")
            current = able[0]


class Subset(BackupTest):
    def setUp(self):
        super().setUp()
        self.init()
        self.make_volume(size=64 * MIB)
        self.write(0, os.urandom(24 * MIB))
        self.snapshot("data@s1")
        self.backup("create", "data@s1", env={"RESTIC_PACK_SIZE": "4"})
        self.total = sum(p.stat().st_size for p in self.files())

    def read(self, *args, **how):
        return self.events("verify", "--subset", *args, **how)[-1]["bytes_read"]

    def test_parts_read_everything_once(self):
        self.assertEqual(sum(self.read(f"{n}/3") for n in (1, 2, 3)), self.total)
        self.assertEqual(self.read("100%"), self.total)
        self.assertEqual(self.read("1T"), self.total)

    def test_a_share_reads_a_share(self):
        for wanted in ("1%", "0.5%", "1K"):
            self.assertTrue(0 < self.read(wanted) < self.total, wanted)

    def test_damage_in_its_part_is_found(self):
        victim = max(self.files(), key=lambda p: p.stat().st_size)
        whole = bytearray(victim.read_bytes())
        whole[len(whole) // 2] ^= 1
        victim.chmod(0o600)
        victim.write_bytes(whole)
        part = int(victim.name[:2], 16) % 2 + 1
        self.backup("verify", "--subset", f"{part}/2", code=DATA_LOSS)
        self.backup("verify", "--subset", f"{3 - part}/2")

    def test_what_is_no_subset(self):
        for text in ("0/3", "4/3", "1/257", "1/", "/3", "0%", "101%", "%", "x", "0", "-1%", "1/2/3"):
            with self.subTest(text):
                self.backup("verify", "--subset", text, code=INVALID)
        self.backup("verify", "--quick", "--subset", "1/2", code=USAGE)


class Metrics(BackupTest):
    def setUp(self):
        super().setUp()
        self.init()
        self.file = self.scratch / "cairn.prom"
        for name in ("data", 'odd "name" \\'):
            self.make_volume(name, size=MIB)

    def metrics(self):
        text = self.file.read_text()
        found = dict(re.findall(r"^(\w+(?:\{.*\})?) (\S+)$", text, re.MULTILINE))
        self.assertEqual(oct(self.file.stat().st_mode & 0o777), "0o644")
        return {name: float(value) for name, value in found.items()}

    def value(self, name, volume="data"):
        escaped = volume.replace("\\", "\\\\").replace('"', '\\"')
        return self.metrics()[f'cairn_backup_{name}{{volume="{escaped}"}}']

    def run_with(self, *args, **how):
        return self.backup(*args, "--metrics-file", self.file, **how)

    def test_a_success_and_then_a_failure(self):
        self.run_with("create", "data")
        success = self.value("last_success_timestamp_seconds")
        self.assertGreater(success, 1.5e9)
        self.assertEqual((self.value("last_attempt_success"), self.value("size_bytes")), (1, MIB))
        self.run_with("create", "data", env={"RESTIC_PASSWORD": "wrong"}, code=UNAUTHENTICATED)
        self.assertEqual(self.value("last_attempt_success"), 0)
        self.assertEqual(self.value("last_success_timestamp_seconds"), success)
        self.assertEqual(self.value("size_bytes"), MIB)
        self.assertGreater(self.value("last_attempt_timestamp_seconds"), success)
        self.assertEqual(list(self.scratch.glob("cairn.prom.*")), [])

    def test_volumes_share_a_file(self):
        odd = 'odd "name" \\'
        self.run_with("create", "data")
        self.run_with("create", odd)
        self.assertEqual([self.value("last_attempt_success", v) for v in ("data", odd)], [1, 1])
        self.cairn("volume", "delete", odd)
        self.run_with("create", "--all")
        self.assertEqual(len([n for n in self.metrics() if "last_success" in n]), 1)
        self.pool.rename(self.scratch / "away")
        self.run_with("create", "--all", code=NOT_FOUND)
        (self.scratch / "away").rename(self.pool)
        self.assertEqual(self.value("last_attempt_success"), 0)
        self.assertGreater(self.value("last_success_timestamp_seconds"), 1.5e9)

    def test_one_that_never_succeeded_is_old(self):
        self.run_with("create", "data", env={"RESTIC_PASSWORD": "wrong"}, code=UNAUTHENTICATED)
        self.assertEqual(self.value("last_success_timestamp_seconds"), 0)

    def test_tasks_have_their_own(self):
        self.backup("create", "data")
        for task, args in (("verify", ["verify"]), ("forget", ["forget", "--keep-last", "1"])):
            self.file.unlink(missing_ok=True)
            self.run_with(*args)
            name = f"cairn_backup_{task}_last_success_timestamp_seconds"
            self.assertGreater(self.metrics()[name], 1.5e9)
            self.run_with(*args, env={"RESTIC_PASSWORD": "wrong"}, code=UNAUTHENTICATED)
            self.assertEqual(self.metrics()[f"cairn_backup_{task}_last_attempt_success"], 0)
            self.assertGreater(self.metrics()[name], 1.5e9)

    def test_work_whose_metrics_cannot_be_written_does_not_pass_for_success(self):
        os.mkfifo(self.scratch / "fifo")
        for file, code in (("none/x.prom", NOT_FOUND), ("fifo", PRECONDITION)):
            for args in (["create", "data"], ["verify"], ["forget", "--keep-last", "9"]):
                done = self.backup(*args, "--metrics-file", self.scratch / file, code=code)
                self.assertIn("the work is done, but the metrics are not written", done.stderr)
        self.assertEqual(len(self.backups()), 2)
        # Work that failed reports its own reason.
        done = self.backup("create", "data", "--metrics-file", self.scratch / "none/x.prom",
                           env={"RESTIC_PASSWORD": "wrong"}, code=UNAUTHENTICATED)
        self.assertIn("metrics are not written", done.stderr)

    def test_a_password_file_that_is_a_pipe_is_not_waited_for(self):
        os.mkfifo(self.scratch / "fifo")
        done = self.backup("list", "--password-file", self.scratch / "fifo", code=PRECONDITION)
        self.assertIn("is a pipe", done.stderr)


if __name__ == "__main__":
    main()
