#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Backups in a directory, in S3 and behind restic's REST server, each with Debian's restic
and the newest beside it: both read, mount, restore and prune them, and Cairn goes on."""
import datetime
import json
import os
import re
import shutil
import subprocess
import time

from backupcli import PASSWORD, BackupTest, digest, restored_digest
from cairncli import BLOCK, INVALID, MIB, OK, TIMEOUT, main
from remote import Directory, RestServer, S3Server, build_peers, programs

DENIED, UNAVAILABLE, DATA_LOSS, UNAUTHENTICATED = 7, 14, 15, 16
SIZE = 32 * MIB


class Life:
    """The same story, wherever the repository is."""

    def back_up_once_more(self):
        """A new snapshot, whose backup must be an incremental of the one before."""
        name = f"s{len(self.want) + 1}"
        self.write(len(self.want) * 5 * BLOCK, os.urandom(2 * BLOCK))
        self.want[name] = self.snapshot(f"data@{name}")
        made = self.create(f"data@{name}")
        if self.made:
            self.assertEqual((made["mode"], made["parent"]), ("changed", self.made[-1]))
        self.made.append(made["id"])
        return self.want[name]

    def mounted_equals(self, program):
        at = self.scratch / "mnt"
        at.mkdir(exist_ok=True)
        process = subprocess.Popen([program, "mount", at], env=self.environment(),
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        try:
            self.wait_for(lambda: os.path.ismount(at) or process.poll() is not None)
            for made in self.backups():
                self.assertEqual(restored_digest(at / "ids" / made["id"][:8] / "data"),
                                 self.want[made["snapshot"]])
        finally:
            # It ends by itself and takes its lock away; one that is killed may leave it.
            if subprocess.run(["umount", at], check=False).returncode != 0:
                process.terminate()
            process.communicate(timeout=TIMEOUT)

    def test_a_life_with_both_restics(self):
        self.want, self.made = {}, []
        self.init()
        self.make_volume(size=SIZE)
        self.write(0, os.urandom(SIZE // 4))
        for _ in range(4):
            newest = self.back_up_once_more()
        for program in programs():
            out = self.scratch / f"out{len(self.want)}"
            self.restic("check", "--read-data", program=program)
            if os.path.exists("/dev/fuse") and os.geteuid() == 0:
                self.mounted_equals(program)
            self.restic("restore", self.made[-1], "--target", out, program=program)
            self.assertEqual(restored_digest(out / "data"), newest)
            self.restic("forget", self.made.pop(0), "--prune", "--max-unused", "0",
                        program=program)
            newest = self.back_up_once_more()
        self.assertEqual([b["id"] for b in self.backups()], self.made)
        self.backup("forget", "--keep-last", "1", "--prune")
        self.assertEqual(self.restored("latest", "--verify"), newest)
        self.backup("verify")
        for program in programs():
            self.restic("check", "--read-data", program=program)


class InDirectory(Life, Directory, BackupTest):
    pass


class InSegments(Life, Directory, BackupTest):
    layout = ("--segment-size", "64K")


class AtAServer(Life):
    def test_a_server_that_goes_away_loses_nothing(self):
        self.init()
        self.two_snapshots()
        self.create("data@s1")
        process = self.start("backup", "create", "data@s2", "--retry", "60s", "-q")
        self.stop()
        time.sleep(1)
        self.serve()
        self.assertEqual((process.communicate(timeout=600)[1], process.returncode), ("", 0))
        self.assertEqual(self.restored("latest"), digest(self.path("snapshot", "data@s2")))
        self.stop()
        done = self.backup("list", "--retry", "1s", code=UNAVAILABLE)
        self.assertRegex(done.stderr, r"\Acairn: [^\n]+\n\Z")

    def test_copies_from_a_directory_and_back(self):
        self.init()
        self.two_snapshots()
        for name in ("s1", "s2"):
            self.create(f"data@{name}")
        here = self.scratch / "here"
        self.backup("init", "-r", here)
        env = {"RESTIC_FROM_PASSWORD": PASSWORD}
        done = self.events("copy", "-r", here, "--from", self.repository, env=env)[-1]
        self.assertEqual(done["copied"], 2)
        for made in self.backups():
            self.backup("forget", made["id"])
        self.backup("forget", "--prune")
        done = self.events("copy", "--from", here, env=env)[-1]
        self.assertEqual((done["copied"], done["there"]), (2, 0))
        for made in self.backups():
            self.assertEqual(self.restored(made["id"]),
                             digest(self.path("snapshot", f"data@{made['snapshot']}")))
        self.restic("check", "--read-data")


class S3(AtAServer, S3Server, BackupTest):
    pass


class ObjectLock(S3Server, BackupTest):
    """Without versions the server refuses to delete what is protected."""

    def location(self):
        return f"s3:http://127.0.0.1:{self.port}/locked/some/path"

    def stored(self, kind):
        return [p for p in (self.place / "locked/some/path" / kind).rglob("*") if p.is_file()]

    def protection(self, *args):
        found = [e for e in self.events(*args) if e["event"] == "protection"]
        self.assertEqual(len(found), 1)
        days = (datetime.datetime.fromisoformat(found[0]["until"].replace("Z", "+00:00")) -
                datetime.datetime.now(datetime.timezone.utc)).total_seconds() / 86400
        return days, found[0]

    def test_what_new_backups_build_on_stays_protected(self):
        lock = ("--object-lock", "10")
        self.backup("init", *lock)
        self.two_snapshots()
        days, first = self.protection("create", "data@s1", *lock)
        self.assertGreater(first["renewed"], 3)
        self.assertGreater(days, 9.9)
        # More than half is left: only new files.
        before = len(self.stored("data")) + len(self.stored("index"))
        renewed = self.protection("create", "data@s2", *lock)[1]["renewed"]
        self.assertEqual(renewed, len(self.stored("data")) + len(self.stored("index")) - before)
        days, all_files = self.protection("verify", "--protection")
        self.assertEqual(all_files["unprotected"], 0)
        self.assertTrue(9.9 < days < 10.1, days)
        # Locks come and go.
        self.assertEqual(self.stored("locks"), [])
        for args in (["forget", "--keep-last", "1", "--prune"], ["forget", "data@s1"]):
            self.assertIn("object lock", self.backup(*args, code=DENIED).stderr)
        self.assertEqual(len(self.backups()), 2)
        # Half of 30 days is more than what is left.
        days, again = self.protection("create", "data@s2", "--object-lock", "30")
        self.assertGreater(again["renewed"], 3)
        days, all_files = self.protection("verify", "--protection")
        self.assertEqual(all_files["unprotected"], 0)
        # A shorter protection takes nothing away, and the longer one will do.
        shutil.rmtree(self.scratch / "machine")
        self.protection("create", "data@s2", *lock)
        self.assertEqual(self.restored("data@s1"), digest(self.path("snapshot", "data@s1")))

    def test_what_was_not_protected_gets_it(self):
        self.backup("init", "--object-lock", "1")
        self.two_snapshots()
        self.create("data@s1")
        self.assertGreater(self.protection("verify", "--protection")[1]["unprotected"], 2)
        self.protection("create", "data@s2", "--object-lock", "2")
        # The snapshot of the first backup was, and stays, without.
        self.assertEqual(self.protection("verify", "--protection")[1]["unprotected"], 1)
        # What a machine stores without protection gets it from the next that has it.
        self.write(0, os.urandom(BLOCK))
        self.snapshot("data@s3")
        self.create("data@s3")
        self.assertGreater(self.protection("verify", "--protection")[1]["unprotected"], 2)
        self.protection("create", "data@s3", "--object-lock", "2")
        self.assertEqual(self.protection("verify", "--protection")[1]["unprotected"], 2)

    def unprotected(self):
        found = [e for e in self.events("verify", "--protection") if e["event"] == "protection"]
        return found[0]["unprotected"]

    def retention(self, path):
        return json.loads(os.getxattr(path, "user.object-retention"))

    def metric(self, file, name):
        found = re.search(rf'^cairn_backup_{name}{{volume="data"}} (\S+)$', file.read_text(), re.M)
        return float(found.group(1))

    def test_a_copy_in_another_bucket_is_not_believed_to_be_protected(self):
        """What a machine remembers is of the bucket that it asked, not of every copy."""
        lock = ("--object-lock", "10")
        self.backup("init", *lock)
        self.two_snapshots()
        self.protection("create", "data@s1", *lock)
        original = self.place / "locked/some/path"
        self.repository = f"s3:http://127.0.0.1:{self.port}/second/some/path"
        self.backup("init", *lock)
        shutil.rmtree(self.place / "second/some")
        # Without the attributes, in which the server keeps what it protects.
        (self.place / "second/some").mkdir()
        subprocess.run(["cp", "-r", original, self.place / "second/some/path"], check=True)
        unprotected = self.unprotected()
        self.assertGreater(unprotected, 4)
        renewed = self.protection("create", "data@s2", *lock)[1]["renewed"]
        self.assertGreaterEqual(renewed, unprotected - 1)
        # The snapshot of the first backup is not renewed.
        self.assertEqual(self.unprotected(), 1)

    def test_governance_is_no_protection(self):
        """Some accounts may delete what is locked in that mode."""
        lock = ("--object-lock", "10")
        self.backup("init", *lock)
        self.two_snapshots()
        self.protection("create", "data@s1", *lock)
        self.assertEqual(self.protection("verify", "--protection")[1]["unprotected"], 0)
        files = [p for p in (self.place / "locked/some/path").rglob("*") if p.is_file()]
        for path in files:
            weaker = {**self.retention(path), "Mode": "GOVERNANCE"}
            os.setxattr(path, "user.object-retention", json.dumps(weaker).encode())
        self.assertEqual(self.unprotected(), len(files))
        # The memory of this machine is not believed either: the server is asked, and this one
        # does not let the mode be changed.
        refused = self.backup("create", "data@s2", *lock, code=DENIED)
        self.assertIn("is not protected", refused.stderr)

    def test_metrics_tell_a_renewal_that_failed(self):
        lock = ("--object-lock", "10", "--retry", "1s")
        file = self.scratch / "cairn.prom"
        self.backup("init", "--object-lock", "10")
        self.two_snapshots()
        self.backup("create", "data@s1", *lock, "--metrics-file", file)
        self.assertEqual(self.metric(file, "last_attempt_success"), 1)
        first = self.metric(file, "last_success_timestamp_seconds")
        # The server cannot read what it keeps of this one, and so cannot renew it.
        os.setxattr(self.place / "locked/some/path/config", "user.object-retention", b"{damaged")
        failed = self.backup("create", "data@s2", *lock, "--metrics-file", file, code=None)
        self.assertNotEqual(failed.returncode, OK)
        self.assertIn("is not protected", failed.stderr)
        self.assertEqual(len(self.backups()), 2)
        self.assertEqual(self.metric(file, "last_attempt_success"), 0)
        self.assertEqual(self.metric(file, "last_success_timestamp_seconds"), first)

    def test_where_it_is_refused(self):
        self.backup("init", "-r", self.scratch / "dir", "--object-lock", "1", code=INVALID)
        self.backup("init", "--object-lock", "3651", code=INVALID)


class Rest(AtAServer, RestServer, BackupTest):
    def test_snapshots_that_are_elsewhere_are_not_pruned(self):
        """The server then says 404, as one may do where there are none."""
        self.init()
        self.make_volume()
        self.write(0, os.urandom(MIB))
        want = self.snapshot("data@s1")
        self.create("data@s1")
        here, away = self.place / "some/snapshots", self.place / "elsewhere"
        here.rename(away)
        refused = self.backup("forget", "--prune", code=DATA_LOSS)
        self.assertIn("no directory of snapshots", refused.stderr)
        away.rename(here)
        self.assertEqual(self.restored("data@s1"), want)
        self.backup("verify")


class S3Styles(S3Server, BackupTest):
    """Buckets as hosts, large packs in parts, a certificate that only we trust."""

    def start_with(self, *options):
        self.stop()
        self.options = options
        self.serve()

    def story(self, env=None):
        self.backup("init", env=env)
        self.make_volume(size=256 * MIB)
        self.write(0, os.urandom(80 * MIB))
        want = self.snapshot("data@s1")
        self.create("data@s1", env=env)
        target = self.scratch / "target"
        self.backup("restore", "latest", "--to", target, env=env)
        self.assertEqual(digest(target), want)

    def test_buckets_as_hosts(self):
        self.start_with("--virtual-domain", "localhost")
        self.repository = f"s3:http://localhost:{self.port}/bucket/some/path"
        self.story({"CAIRN_S3_STYLE": "virtual"})
        self.assertGreater(len(self.objects("data")), 4)

    def test_large_packs_go_in_parts(self):
        self.story({"RESTIC_PACK_SIZE": "72"})
        self.assertGreater(max(p.stat().st_size for p in self.objects("data")), 70 * MIB)
        self.restic("check", "--read-data")

    def test_a_certificate_of_our_own(self):
        cert, key = self.scratch / "cert.pem", self.scratch / "key.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                        "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj",
                        "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout",
                        key, "-out", cert], check=True, stderr=subprocess.DEVNULL)
        self.start_with("--cert", str(cert), "--key", str(key))
        self.repository = self.repository.replace("http:", "https:")
        self.backup("init", code=UNAUTHENTICATED)
        self.backup("init", "--ca-file", cert)
        self.backup("list", env={"RESTIC_CACERT": str(cert)})


if __name__ == "__main__":
    build_peers()
    main()
