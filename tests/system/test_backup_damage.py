#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Repositories in which something is damaged, file by file: every command says so or is right,
nothing wrong is ever restored, and what can be made again is."""
import contextlib
import os
import pathlib

from backupcli import PASSWORD, BackupTest, digest
from cairncli import BLOCK, DATA_LOSS, OK, main


class Damage(BackupTest):
    def setUp(self):
        super().setUp()
        self.init()
        self.two_snapshots()
        self.made = {}
        for name in ("s1", "s2"):
            # One thread: the chunks are in the pack in the order of the volume.
            self.made[name] = self.create(f"data@{name}", "--threads", "1")["id"]

    @contextlib.contextmanager
    def damaged(self, path, place):
        """One bit of a file is another; place is a share of its length."""
        whole = path.read_bytes()
        at = min(int(len(whole) * place), len(whole) - 1)
        path.chmod(0o600)
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1:])
        yield
        path.write_bytes(whole)

    def packs(self):
        """The largest holds data; trees are in small ones."""
        return sorted(self.files(), key=lambda p: p.stat().st_size)

    def restore(self, name, code):
        target = self.scratch / "target"
        self.backup("restore", self.made[name], "--to", target, code=code)
        if code == OK:
            self.assertEqual(digest(target), digest(self.path("snapshot", f"data@{name}")))
            target.unlink()
        self.assertFalse(target.exists(), "what is not whole does not appear")

    def verify_names(self, path):
        self.assertIn(path.name, self.backup("verify", code=DATA_LOSS).stderr)

    def back_up_more(self, code=OK):
        """The events of a backup of a new snapshot."""
        name = f"s{len(self.made) + 1}"
        if not self.cairn("snapshot", "info", f"data@{name}", code=None).returncode == OK:
            self.write(len(self.made) * BLOCK, os.urandom(BLOCK))
            self.snapshot(f"data@{name}")
        if code != OK:
            return self.backup("create", f"data@{name}", code=code)
        events = self.events("create", f"data@{name}")
        self.made[name] = events[-1]["id"]
        return events

    def test_a_snapshot_that_is_a_dangling_link_is_not_absent(self):
        """If it did not count, 'data' would be the backup before, and a prune would delete it."""
        newest = self.repository / "snapshots" / self.made["s2"]
        kept = newest.rename(self.scratch / "kept")
        before = {p: p.stat().st_size for p in self.files()}
        newest.symlink_to(self.scratch / "nowhere")
        for args in (["restore", "data", "--to", self.scratch / "t"], ["list"], ["verify"],
                     ["forget", "--prune"], ["forget", "--keep-last", "1", "--prune"],
                     ["restore", self.made["s2"], "--to", self.scratch / "t"]):
            refused = self.backup(*args, code=None, env={"XDG_CACHE_HOME": "/nonexistent"})
            self.assertEqual(refused.returncode, DATA_LOSS, f"{args}: {refused.stderr}")
            self.assertIn(f"snapshots/{self.made['s2']}", refused.stderr)
        self.assertEqual({p: p.stat().st_size for p in self.files()}, before)
        self.restore("s1", OK)
        newest.unlink()
        kept.rename(newest)
        self.restore("s2", OK)

    def test_a_pack_that_is_a_dangling_link_is_stored_again(self):
        pack = self.packs()[-1]
        pack.unlink()
        pack.symlink_to(self.scratch / "nowhere")
        self.restore("s1", DATA_LOSS)
        self.back_up_more()
        self.restore("s3", OK)

    def test_data(self):
        pack = self.packs()[-1]
        for place in (0, 0.5, 1):  # the first blob's beginning, another, the header's length
            with self.damaged(pack, place):
                self.verify_names(pack)
                if place == 0.5:  # all chunks of the largest pack are of the first backup
                    self.restore("s1", DATA_LOSS)
                    self.back_up_more()
        self.backup("verify")
        self.restore("s3", OK)

    def test_trees(self):
        trees = self.packs()[0]
        with self.damaged(trees, 0.3):
            self.verify_names(trees)
            events = self.back_up_more()
            self.restore("s3", OK)
        self.assertIn(events[-1]["mode"], ("changed", "allocated"))
        self.backup("verify")

    def test_an_index(self):
        index = max(self.files("index"), key=lambda p: p.stat().st_size)
        with self.damaged(index, 0.5):
            self.verify_names(index)
            self.restore("s1", DATA_LOSS)
            self.assertIn(index.name, self.back_up_more(code=DATA_LOSS).stderr)
            self.assertEqual(len(self.backups()), 2)
            done = self.backup("verify", "--repair")
            self.assertIn("indexed again", done.stderr)
            self.assertFalse(index.exists())
            self.back_up_more()
            self.restore("s1", OK)
            self.restore("s3", OK)
        index.unlink()
        self.backup("verify")

    def test_an_index_that_is_cut_short_or_gone(self):
        index = max(self.files("index"), key=lambda p: p.stat().st_size)
        index.chmod(0o600)
        index.write_bytes(index.read_bytes()[:100])
        self.verify_names(index)
        index.unlink()
        self.backup("verify", code=DATA_LOSS)
        self.backup("verify", "--repair")
        self.restore("s2", OK)

    def test_a_pack_that_is_lost_or_cut_short(self):
        """The next backup counts on nothing that is not there, and heals those before it."""
        for damage in (pathlib.Path.unlink, lambda pack: os.truncate(pack, 100)):
            pack = self.packs()[-1]
            pack.chmod(0o600)
            damage(pack)
            self.restore("s1", DATA_LOSS)
            self.restore("s2", DATA_LOSS)
            events = self.back_up_more()
            self.assertEqual(1, len([e for e in events if "missing" in e.get("text", "")]), events)
            self.assertEqual(events[-1]["mode"], "changed")
            for name in reversed(self.made):  # what is read again has the id it had
                if name != list(self.made)[-1]:
                    self.create(f"data@{name}")
                self.restore(name, OK)

    def loss(self, *args, code=DATA_LOSS):
        """What a verify says is lost: bytes by backup and file."""
        events = self.events("verify", *args, code=code)
        self.assertLess(len(events), 20, "backups are named, not every chunk")
        return {(e["id"], e["path"].rsplit("/", 1)[-1]): e["bytes_lost"] for e in events
                if e["event"] == "damage"}, events[-1]

    def restic_agrees(self, code):
        """Nothing that the index names is missing; code is that of damaged snapshots."""
        found = self.restic("check", "--read-data", code=code)
        self.assertNotIn("does not exist", found)

    def test_repair_of_a_lost_pack(self):
        pack = self.packs()[-1]
        kept = pack.read_bytes()
        pack.unlink()
        lost, _ = self.loss()
        for name in ("s1", "s2"):
            self.assertGreater(lost[self.made[name], "volume.img"], 1 << 20)
        text = self.backup("verify", "--quick", code=DATA_LOSS).stderr
        self.assertRegex(text, r"backup %.8s \(data@s2\): [0-9.]+ MiB of 16 MiB are lost: "
                               r"bytes [0-9]+-[0-9]+" % self.made["s2"])
        repaired, summary = self.loss("--repair")
        self.assertEqual(repaired, lost)
        self.assertEqual((summary["packs_dropped"], summary["chunks_saved"]), (1, 0))
        self.restic_agrees(code=1)
        self.assertEqual(self.loss()[0], lost, "the ranges are known as before")
        self.restore("s2", DATA_LOSS)
        # The next backup is whole, and makes whole what it has in common with others.
        events = self.back_up_more()
        self.assertEqual(events[-1]["mode"], "changed")
        self.restore("s3", OK)
        left, _ = self.loss()
        for name in ("s1", "s2"):
            key = (self.made[name], "volume.img")
            self.assertLess(left.get(key, 0), lost[key] // 4)
        for name in ("s2", "s1"):
            self.create(f"data@{name}")
            self.restore(name, OK)
        # Of a backup whose own small file was in the pack that stays to be told.
        left, summary = self.loss()
        self.assertEqual(list(left), [(self.made["s1"], "volume.json")])
        self.assertEqual((summary["backups_damaged"], summary["backups_without_description"]), (1, 1))
        self.restore("s1", OK)
        self.a_lost_description_stops_no_prune(pack, kept)
        # Found again, the pack is as good as it was.
        pack.write_bytes(kept)
        self.assertEqual(self.loss("--repair", code=OK)[0], {})
        self.backup("verify")
        self.restic_agrees(code=OK)

    def a_lost_description_stops_no_prune(self, pack, kept):
        """What the backup needs stays, however often; verify says what is lost and what is not."""
        failed = self.backup("verify", code=DATA_LOSS)
        self.assertIn(f"backup {self.made['s1'][:8]} (data@s1): its description is lost", failed.stderr)
        self.assertIn("1 backup has lost its description; the data can be restored", failed.stderr)
        self.assertNotIn("cannot be restored whole", failed.stderr)
        # The pack is in no index, and might be the one: it is not deleted.
        pack.write_bytes(kept)
        refused = self.backup("forget", "--prune", code=DATA_LOSS)
        self.assertIn("verify --repair", refused.stderr)
        self.assertTrue(pack.exists())
        pack.unlink()
        for victim in ("s2", "s3"):
            self.backup("forget", self.made[victim])
            done = self.backup("forget", "--prune")
            self.assertIn("1 backup has lost its description; the data is kept", done.stderr)
            self.restore("s1", OK)
        self.assertEqual(list(self.loss()[0]), [(self.made["s1"], "volume.json")])

    def test_a_pack_and_its_index_are_lost(self):
        """No index tells of the chunks: they are lost all the same, and the backup exists."""
        self.packs()[-1].unlink()
        for path in self.files("index"):
            path.unlink()
        self.backup("verify", "--repair", code=DATA_LOSS)
        for name in ("s1", "s2"):
            self.restore(name, DATA_LOSS)
        self.backup("init", "-r", self.scratch / "second")
        self.backup("copy", "--from", self.repository, "-r", self.scratch / "second",
                    code=DATA_LOSS, env={"RESTIC_FROM_PASSWORD": PASSWORD})
        self.back_up_more()
        self.restore("s3", OK)

    def test_repair_of_a_damaged_pack(self):
        """What can be read of it stays."""
        pack = self.packs()[-1]
        with self.damaged(pack, 0.3):
            lost, _ = self.loss()
            self.assertEqual(lost.keys(), {(self.made[name], "volume.img") for name in self.made})
            self.assertLess(max(lost.values()), 1 << 20)
            repaired, summary = self.loss("--repair")
            self.assertEqual((repaired, summary["chunks_lost"]), (lost, 1))
            self.assertGreater(summary["chunks_saved"], 10)
            self.assertFalse(pack.exists())
            self.restic_agrees(code=1)
            self.create("data@s1")
            for name in self.made:
                self.restore(name, OK)
        pack.unlink()
        self.backup("verify")
        self.restic_agrees(code=OK)
        self.backup("forget", "--keep-last", "1", "--prune")
        self.backup("verify")

    def test_an_index_is_lost_and_a_pack_is_damaged(self):
        """One chunk is lost, not the pack, whether packs are read or not."""
        for args in ([], ["--quick"]):
            pack = self.packs()[-1]
            with self.damaged(pack, 0.3):
                lost, _ = self.loss()
                for path in self.files("index"):
                    path.unlink()
                done = self.backup("verify", "--repair", *args, code=DATA_LOSS)
                self.assertRegex(done.stderr, r"1 damaged pack in no index: [0-9]{2,} chunks "
                                              r"stored again, 1 lost")
                self.assertRegex(done.stderr, r"backup %.8s \(data@s2\): [0-9.]+ KiB of 16 MiB are "
                                              r"lost: bytes [0-9]+-[0-9]+\n" % self.made["s2"])
                self.assertFalse(pack.exists())
                self.assertEqual(self.loss()[0], lost, "the ranges are known")
                self.restic_agrees(code=1)
                for name in self.made:
                    self.restore(name, DATA_LOSS)
                # What is lost is known by its size, so the next backup builds on the last one.
                events = self.events("create", "data@s2")
                self.assertEqual(events[-1]["mode"], "changed")
                for name in self.made:
                    self.restore(name, OK)
                self.backup("verify")
            pack.unlink()
        self.restic_agrees(code=OK)

    def test_an_index_is_lost_and_a_backup_meets_a_damaged_pack(self):
        """It does not build on the pack; what it stores makes the others whole."""
        with self.damaged(self.packs()[-1], 0.3):
            for path in self.files("index"):
                path.unlink()
            self.back_up_more()
            self.restore("s3", OK)
            self.backup("verify", "--repair")
            for name in self.made:
                self.restore(name, OK)

    def test_a_damaged_pack_that_no_index_names_has_the_last_copies(self):
        """The index names packs of a later backup for its chunks, which are lost: a repair must
        look at them before it deletes the damaged pack."""
        before = set(self.packs())
        pack = self.packs()[-1]
        with self.damaged(pack, 0.3):
            for path in self.files("index"):
                path.unlink()
            self.back_up_more()
            for path in set(self.packs()) - before:
                path.unlink()
            done = self.backup("verify", "--repair", code=DATA_LOSS)
            self.assertRegex(done.stderr, r"1 damaged pack in no index: [0-9]{2,} chunks stored again")
            self.assertRegex(done.stderr, r"backup %.8s \(data@s2\): [0-9.]+ KiB of 16 MiB are lost"
                             % self.made["s2"])

    def test_an_index_is_lost_and_the_header_of_a_pack(self):
        """Nothing in the pack can be identified: it stays, and the backups are named."""
        pack = self.packs()[-1]
        with self.damaged(pack, 1):
            for path in self.files("index"):
                path.unlink()
            done = self.backup("verify", "--repair", code=DATA_LOSS)
            self.assertIn("1 pack in no index cannot be read at all", done.stderr)
            self.assertIn(f"backup {self.made['s2'][:8]} (data@s2): ", done.stderr)
            self.assertTrue(pack.exists())
        self.backup("verify", "--repair")
        for name in self.made:
            self.restore(name, OK)

    def test_nothing_listed_is_not_repaired(self):
        index = self.files("index")
        for pack in self.packs():
            pack.unlink()
        self.assertIn("lists no packs", self.backup("verify", "--repair", code=DATA_LOSS).stderr)
        self.assertEqual(self.files("index"), index)

    def test_a_copy_heals(self):
        other = self.scratch / "other"
        env = {"RESTIC_FROM_PASSWORD": PASSWORD}
        self.backup("init", "-r", other)
        self.backup("copy", "-r", other, "--from", self.repository, env=env)
        self.packs()[-1].unlink()
        self.restore("s2", DATA_LOSS)
        self.backup("copy", "--from", other, env=env)
        for name in self.made:
            self.restore(name, OK)

    def test_a_store_without_packs(self):
        """Nothing listed is not nothing stored: an empty listing is an error."""
        for pack in self.packs():
            pack.unlink()
        self.assertIn("lists no packs", self.back_up_more(code=DATA_LOSS).stderr)
        self.assertEqual(len(self.backups()), 2)

    def test_a_backups_own_file(self):
        victim = next(p for p in self.files("snapshots") if p.name == self.made["s1"])
        with self.damaged(victim, 0.5):
            self.verify_names(victim)
            self.assertIn("s2", self.backup("list", code=DATA_LOSS).stdout)
            self.restore("s2", OK)
            self.restore("s1", DATA_LOSS)
            packs = self.files()
            self.backup("forget", self.made["s2"], "--prune", "--dry-run", code=DATA_LOSS)
            done = self.backup("forget", "--prune", code=DATA_LOSS)
            self.assertIn("nothing was deleted", done.stderr)
            self.assertEqual(self.files(), packs)
            events = self.back_up_more()
            self.assertEqual(events[-1]["parent"], self.made["s2"])
            self.assertTrue([e for e in events if "cannot be read" in e.get("text", "")])
        self.backup("verify")
        self.restore("s1", OK)

    def test_a_backup_that_cannot_be_read_can_be_given_up(self):
        victim = next(p for p in self.files("snapshots") if p.name == self.made["s1"])
        env = {"XDG_CACHE_HOME": "/nonexistent"}
        with self.damaged(victim, 0.5):
            refused = self.backup("forget", "--prune", code=DATA_LOSS, env=env)
            self.assertIn(victim.name, refused.stderr)
            self.assertIn("cairn backup forget ID", refused.stderr)
            self.backup("forget", victim.name[:7], code=DATA_LOSS, env=env)
            self.backup("forget", victim.name, "--volume", "data", code=DATA_LOSS, env=env)
            self.backup("forget", victim.name, "--dry-run", env=env)
            self.assertTrue(victim.exists())
            kept = victim.read_bytes()
            self.backup("forget", victim.name[:8], "--prune", env=env)
            self.assertFalse(victim.exists())
            self.backup("verify", env=env)
            self.restore("s2", OK)
            victim.write_bytes(kept)

    def test_what_opens_it(self):
        for path in (self.repository / "config", self.files("keys")[0]):
            for place in (0, 0.5, 1):
                with self.damaged(path, place):
                    self.assertRegex(self.backup("list", code=DATA_LOSS).stderr,
                                     r"\Acairn: [^\n]*(config|key)[^\n]*\n\Z")
        self.backup("verify")


if __name__ == "__main__":
    main()
