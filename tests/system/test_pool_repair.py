#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""pool check --repair and the quarantine, on every back end, also of volumes in use."""
import os
import sqlite3
import subprocess

from cairncli import BLOCK, CAN_MOUNT, DATA_LOSS, MIB, NOT_FOUND, PRECONDITION, CliTest, main


class CopyRepair(CliTest):
    def root(self):
        return self.pool / "data" if (self.pool / "data").exists() else self.pool

    def catalogue(self, sql, *args):
        db = sqlite3.connect(self.root() / "catalogue.db", isolation_level=None)
        try:
            return db.execute(sql, args).fetchall()
        finally:
            db.close()

    def flip(self, prefix, bit=3):
        """One bit in the middle of each value under the prefix."""
        rows = self.catalogue("SELECT k, v FROM kv WHERE substr(k, 1, 2) = ?", prefix)
        self.assertTrue(rows)
        for key, value in rows:
            damaged = bytearray(value)
            damaged[8 + (len(damaged) - 8) // 2] ^= 1 << bit
            self.catalogue("UPDATE kv SET v = ? WHERE k = ?", bytes(damaged), key)

    def contents(self):
        found = {}
        for kind in ("volume", "snapshot"):
            for item in self.items(kind):
                with open(self.path(kind, item["id"]), "rb") as file:
                    found[item["id"]] = (item["name"], file.read())
        return found

    def attach(self):
        if not CAN_MOUNT:
            return None
        return self.out("volume", "attach", "data").strip()

    def test_all_records_are_made_again_also_of_an_attached_volume(self):
        self.two_snapshots()
        self.cairn("volume", "create", "copy", "--from", "data@s1")
        device = self.attach()
        before = self.contents()
        for prefix in (b"v/", b"s/"):
            self.flip(prefix)
            self.cairn("pool", "check", code=DATA_LOSS)
            self.cairn("pool", "check", "--repair")
            self.cairn("pool", "check")
            self.assertEqual(self.contents(), before)
        self.assert_covers(self.lines("delta", "data@s1", "data@s2"), [0, 5, 6, 100])
        self.cairn("verify", "data@s1", "data@s2")
        if device:
            self.assertEqual(self.out("volume", "attach", "data").strip(), device)
            with open(device, "r+b", buffering=0) as file:
                file.write(b"z" * BLOCK)
                os.fsync(file.fileno())
            self.cairn("snapshot", "create", "data@s3")
            self.assert_covers(self.lines("delta", "data@s2", "data@s3"), [0])
            self.cairn("verify", "data@s2", "data@s3")
        kinds = {item["kind"] for item in self.json("pool", "quarantine")}
        self.assertIn("record", kinds)

    def test_a_damaged_marker_is_made_again(self):
        self.two_snapshots()
        before = self.contents()
        info = self.json("pool", "info")
        marker = self.pool / "cairn.pool"
        good = marker.read_bytes()
        flipped = [good[:i] + bytes([good[i] ^ bit]) + good[i + 1:]
                   for i, bit in ((11, 2), (len(good) // 2, 8))]
        # One wrong byte comes back exactly; of one that is cut, zeroed or missing, what counts.
        for text in [*flipped, good[:60], b"\0" * len(good), None]:
            with self.subTest(text=text and text[:70]):
                if text is None:
                    marker.unlink()
                else:
                    marker.write_bytes(text)
                self.cairn("volume", "list", code=NOT_FOUND if text is None else None)
                self.cairn("pool", "check", code=DATA_LOSS)
                self.assertEqual(marker.read_bytes() if text is not None else None, text)
                self.assertIn("cairn.pool", self.out("pool", "check", "--repair"))
                if text in flipped:
                    self.assertEqual(marker.read_bytes(), good)
                self.cairn("pool", "check")
                # Where blocks can be shared, copies are taken for reflinks when no line is left.
                self.assertIn(self.json("pool", "info")["backend"],
                              {info["backend"], "reflink" if self.backend == "copy" else info["backend"]})
                self.assertEqual(self.json("pool", "info")["image"], info["image"])
                self.assertEqual(self.contents(), before)
                marker.write_bytes(good)
        marker.write_bytes(good[:40])
        self.assertIn("check --repair", self.cairn("volume", "list", code=DATA_LOSS).stderr)
        marker.write_bytes(good)

    def test_what_root_makes_belongs_to_the_owner_of_the_pool(self):
        if os.geteuid() != 0 or self.backend != "copy":
            self.skipTest("needs root; in images everything is root's")
        owner = 65534
        self.two_snapshots()
        for top, _, names in os.walk(self.pool):
            for path in (top, *(os.path.join(top, name) for name in names)):
                os.chown(path, owner, owner)
        (self.pool / "reserve").unlink()
        (self.pool / "cairn.pool").write_bytes((self.pool / "cairn.pool").read_bytes()[:60])
        self.cairn("pool", "check", "--repair")
        for name in ("catalogue.db-shm", "catalogue.db-trust"):
            (self.pool / name).unlink()
        self.make_volume("more", MIB)
        self.write(0, os.urandom(MIB), "more")
        self.cairn("snapshot", "create", "more@s1")
        self.write(0, os.urandom(MIB), "more")
        self.cairn("snapshot", "create", "more@s2")
        self.cairn("volume", "create", "clone", "--from", "data@s1")
        self.assertTrue((self.pool / "reserve").exists())
        found = [path for path in self.pool.rglob("*") if path.lstat().st_uid != owner]
        self.assertEqual(found, [])

    def test_what_no_record_knows_waits_in_quarantine(self):
        self.two_snapshots()
        before = self.contents()
        self.cairn("volume", "info", "data")
        device = self.attach()
        self.catalogue("DELETE FROM kv WHERE substr(k, 1, 1) IN (?,?,?,?,?,?,?,?)",
                       *[bytes([c]) for c in b"vwslmcht"])
        if device:
            refused = self.cairn("pool", "check", "--repair", code=DATA_LOSS)
            self.assertIn("attached", refused.stdout)
            subprocess.run(["losetup", "--detach", device], check=True)
        self.cairn("pool", "check", "--repair")
        self.assertEqual(self.items("volume"), [])
        waiting = {item["id"] for item in self.json("pool", "quarantine")}
        self.assertLessEqual(set(before), waiting)
        for one in before:
            self.assertIn(one, self.out("pool", "quarantine", "--restore", one))
        self.cairn("pool", "quarantine", "--restore", one, code=NOT_FOUND)
        self.assertEqual({i: data for i, (_, data) in self.contents().items()},
                         {i: data for i, (_, data) in before.items()})
        self.cairn("pool", "check")
        self.assertTrue(all(v["name"].startswith("recovered-") for v in self.items("volume")))
        sets = [i["id"] for i in self.json("pool", "quarantine") if i["kind"] == "change set"]
        for name in sets:
            self.cairn("pool", "quarantine", "--restore", name, code=PRECONDITION)
            self.cairn("pool", "quarantine", "--drop", name)
        self.assertEqual(self.out("pool", "quarantine"), "")

    def test_a_number_in_quarantine_is_not_given_again(self):
        """A power cut takes the record and the number of a snapshot and leaves its data."""
        self.two_snapshots()
        rows = self.catalogue("SELECT k, v FROM kv")
        self.cairn("snapshot", "create", "data@lost")
        lost = self.json("snapshot", "info", "data@lost")["id"]
        self.catalogue("DELETE FROM kv")
        for row in rows:
            self.catalogue("INSERT INTO kv (k, v) VALUES (?, ?)", *row)
        self.cairn("pool", "check", "--repair")
        self.write(9 * BLOCK, b"9" * BLOCK)
        for name in ("s3", "s4"):
            self.cairn("snapshot", "create", f"data@{name}")
        self.assertNotEqual(self.json("snapshot", "info", "data@s3")["id"], lost)
        self.cairn("snapshot", "delete", "data@s3")
        self.cairn("pool", "quarantine", "--restore", lost)
        self.assertNotIn("data@s3", self.out("snapshot", "list"))
        self.cairn("pool", "check")
        self.cairn("verify", "data@s2", "data@s4")

    def test_a_log_that_is_lost_is_not_taken_for_a_short_one(self):
        for name in ("one", "two", "three"):
            self.cairn("volume", "create", name, "--size", MIB)
        log = self.root() / "catalogue.db-wal"
        whole, before = log.read_bytes(), self.items("volume")
        middle = bytearray(whole)
        middle[9000] ^= 1
        last = bytearray(whole)
        last[-100] ^= 1
        for damage in (None, b"", whole[:-4096], bytes(middle), bytes(last)):
            log.unlink()
            if damage is not None:
                log.write_bytes(damage)
            for command in (("volume", "list"), ("volume", "create", "four", "--size", MIB),
                            ("pool", "check")):
                self.cairn(*command, code=DATA_LOSS)
            log.write_bytes(whole)
            self.assertEqual(self.items("volume"), before)
            self.cairn("pool", "check")
        log.unlink()
        done = self.cairn("pool", "check", "--repair", code=DATA_LOSS)
        self.assertIn("its log is missing", done.stdout)
        self.cairn("pool", "check")
        for item in self.json("pool", "quarantine"):
            self.cairn("pool", "quarantine", "--restore", item["id"])
        self.assertEqual({item["id"] for item in self.items("volume")},
                         {item["id"] for item in before})

    def test_a_log_lost_with_the_trust_file_is_not_taken_for_a_short_one(self):
        for name in ("one", "two"):
            self.cairn("volume", "create", name, "--size", MIB)
        before = self.items("volume")
        for name in ("catalogue.db-wal", "catalogue.db-trust", "catalogue.db-shm"):
            (self.root() / name).unlink()
        for command in (("volume", "list"), ("snapshot", "create", "one@s1"), ("pool", "check")):
            self.cairn(*command, code=DATA_LOSS)
        self.cairn("pool", "check", "--repair", code=DATA_LOSS)
        self.cairn("pool", "check")
        for item in self.json("pool", "quarantine"):
            self.cairn("pool", "quarantine", "--restore", item["id"])
        self.assertEqual({item["id"] for item in self.items("volume")},
                         {item["id"] for item in before})

    def test_a_damaged_last_commit_removes_no_data(self):
        for name in ("one", "two"):
            self.cairn("volume", "create", name, "--size", MIB)
        log, before = self.root() / "catalogue.db-wal", self.items("volume")
        damaged = bytearray(log.read_bytes())
        damaged[-100] ^= 1
        log.write_bytes(damaged)
        done = self.cairn("pool", "check", "--repair", code=DATA_LOSS)
        self.assertIn("its log is damaged", done.stdout)
        self.cairn("pool", "check")
        for item in self.json("pool", "quarantine"):
            self.cairn("pool", "quarantine", "--restore", item["id"])
        self.assertEqual({item["id"] for item in self.items("volume")},
                         {item["id"] for item in before})

    def test_no_number_of_a_lost_log_is_given_again(self):
        self.cairn("volume", "create", "one", "--size", MIB)
        self.cairn("snapshot", "create", "one@s1")
        lost = self.items("snapshot")[0]["id"]
        (self.root() / "catalogue.db-wal").unlink()
        self.cairn("pool", "check", "--repair", code=DATA_LOSS)
        self.cairn("pool", "check")
        self.cairn("volume", "create", "two", "--size", MIB)
        self.cairn("snapshot", "create", "two@s1")
        number = [int(self.items("snapshot")[-1]["id"].split("-")[-1]), int(lost.split("-")[-1])]
        self.assertGreater(number[0], number[1] + (1 << 20))

    def test_a_log_that_sqlite_folded_in_is_not_lost(self):
        self.cairn("volume", "create", "one", "--size", MIB)
        self.catalogue("SELECT count(*) FROM kv")
        self.assertFalse((self.root() / "catalogue.db-wal").exists())
        self.assertEqual(len(self.items("volume")), 1)
        self.cairn("pool", "check")

    def test_what_can_not_be_read_now_is_not_lost(self):
        if self.backend != "copy":
            self.skipTest("its snapshots can not be changed from outside")
        self.two_snapshots()
        disk = self.path("snapshot", "data@s2")
        os.rename(disk, f"{disk}-moved")
        os.symlink(f"{disk}-moved", disk)  # no link is followed: an error, and no absence
        refused = self.cairn("pool", "check", "--repair", code=DATA_LOSS)
        self.assertIn("can not be read", refused.stdout)
        self.assertIn("0 lost", refused.stdout)
        self.assertNotIn("only be deleted", refused.stdout)
        os.rename(f"{disk}-moved", disk)
        self.cairn("pool", "check")
        self.cairn("verify", "data@s1", "data@s2")

    def test_the_story_in_words(self):
        self.make_volume(size=MIB)
        self.assertNotIn("quarantine", self.out("pool", "check"))
        self.flip(b"v/")
        repaired = self.out("pool", "check", "--repair")
        self.assertIn("made again", repaired)
        self.assertIn("1 object in quarantine", repaired)
        listed = self.out("pool", "quarantine").split()
        self.assertEqual(listed[0], "record")
        self.cairn("pool", "quarantine", "--restore", listed[1], code=PRECONDITION)
        self.cairn("pool", "quarantine", "--drop", listed[1])
        self.cairn("pool", "quarantine", "--drop", listed[1], code=NOT_FOUND)


class BtrfsRepair(CopyRepair):
    backend = "btrfs"


class ReflinkRepair(CopyRepair):
    backend = "reflink"


if __name__ == "__main__":
    main()
