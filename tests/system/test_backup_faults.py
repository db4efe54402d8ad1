#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Backups over lines and to servers that fail: versitygw and rest-server, with a proxy
before them that cuts, refuses and is slow. A clear error or none, and no backup lost."""
import os
import pathlib
import signal
import subprocess
import sys

from backupcli import BackupTest, digest
from cairncli import ABORTED, CAN_MOUNT, DENIED, MIB, OK, main
from remote import PEERS, RestServer, S3Server, build_peers

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "repo"))
from cutproxy import CutProxy  # noqa: E402

ERROR = b"<?xml version='1.0'?><Error><Code>%s</Code><Message>so it is</Message></Error>"
CUTS = (100, 200, 400, 100_000)  # bytes that connections live for


class BehindProxy:
    def setUp(self):
        super().setUp()
        self.proxy = CutProxy(self.port)
        self.addCleanup(self.proxy.close)
        self.repository = self.repository.replace(str(self.port), str(self.proxy.port))
        self.init()

    def whole(self, *snapshots):
        """These are listed, and restore to their bytes."""
        listed = self.backups()
        self.assertEqual([b["snapshot"] for b in listed], list(snapshots))
        for made in listed:
            name = f"{made['volume']}@{made['snapshot']}"
            self.assertEqual(self.restored(made["id"]), digest(self.path("snapshot", name)))

    def refuse(self, status, code, times=3):
        self.proxy.status, self.proxy.body, self.proxy.fail_next = status, ERROR % code, times


class S3(BehindProxy, S3Server, BackupTest):
    def test_errors_that_pass_are_tried_again(self):
        self.two_snapshots()
        for n, (status, code) in enumerate([(500, b"InternalError"), (503, b"SlowDown")], 1):
            self.refuse(status, code)
            self.create(f"data@s{n}", "--retry", "60s")
            self.assertEqual(self.proxy.fail_next, 0)
        self.refuse(503, b"SlowDown")
        self.whole("s1", "s2")
        self.refuse(500, b"InternalError")
        self.backup("forget", "--keep-last", "1", "--prune")
        self.whole("s2")

    def test_a_refusal_is_told_at_once(self):
        self.two_snapshots()
        self.create("data@s1")
        self.refuse(403, b"AccessDenied", times=1 << 30)
        done = self.backup("create", "data@s2", code=DENIED)
        self.assertRegex(done.stderr, r"\Acairn: [^\n]*403[^\n]*\n\Z")
        self.assertLess(self.proxy.harmed, 20, "that is not tried again")
        self.proxy.fail_next = 0
        self.whole("s1")
        self.create("data@s2")
        self.whole("s1", "s2")

    def test_lines_that_are_cut_or_slow(self):
        self.two_snapshots()
        self.proxy.budgets = list(CUTS)
        self.create("data@s1", "--retry", "60s")
        self.assertGreaterEqual(self.proxy.harmed, 3)
        self.proxy.budgets = list(CUTS)
        self.whole("s1")
        self.proxy.mode = "slow"
        self.create("data@s2", "--retry", "60s")
        self.proxy.mode = "pass"
        self.whole("s1", "s2")
        self.backup("verify")

    def arrived(self):
        """Bytes of the packs that the store has."""
        return sum(p.stat().st_size for p in self.objects("data"))

    def test_what_arrived_before_a_kill_is_not_sent_again(self):
        """Measured on the line, not in the repository."""
        size = 128 * MIB
        self.make_volume(size=size)
        self.write(0, os.urandom(size))
        self.snapshot("data@s1")
        for how in (signal.SIGKILL, signal.SIGTERM):
            before = self.arrived()
            process = self.start_slowly("data@s1", "-q")
            self.wait_for(lambda: self.arrived() >= before + 16 * MIB)
            process.send_signal(how)
            process.communicate(timeout=300)
            self.assertNotEqual(process.returncode, OK)
        kept = self.arrived()
        before = self.proxy.sent
        self.create("data@s1")
        sent = self.proxy.sent - before
        self.assertGreater(kept, 30 * MIB)
        self.assertLess(sent, size * 1.02 - kept + MIB)
        self.whole("s1")
        print(f"{kept >> 20} MiB of {size >> 20} had arrived, {sent / MIB:.1f} MiB were sent")

    def test_a_disk_that_is_full_at_the_server(self):
        if not CAN_MOUNT:
            self.skipTest("needs root")
        self.two_snapshots()
        self.create("data@s1")
        self.stop()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24M", "none", self.place], check=True)
        self.mounted.append(self.place)
        self.serve()
        self.init()
        self.create("data@s1")
        self.write(0, os.urandom(16 * MIB))
        self.snapshot("data@s3")
        self.write(0, os.urandom(16 * MIB))
        self.snapshot("data@s4")
        failed = [n for n in ("s3", "s4")
                  if self.backup("create", f"data@{n}", "--retry", "2s", code=None).returncode]
        self.assertIn("s4", failed)
        self.whole("s1", *({"s3", "s4"} - set(failed)))
        self.backup("verify")


class Rest(BehindProxy, RestServer, BackupTest):
    options = ("--no-auth", "--append-only")

    def test_errors_and_cuts(self):
        self.two_snapshots()
        self.refuse(500, b"InternalError")
        self.create("data@s1", "--retry", "60s")
        self.proxy.budgets = list(CUTS)
        self.create("data@s2", "--retry", "60s")
        self.proxy.budgets = list(CUTS)
        self.whole("s1", "s2")
        self.assertGreaterEqual(self.proxy.harmed, 3 + 3)

    def test_a_server_that_deletes_nothing_keeps_backups(self):
        self.two_snapshots()
        for name in ("s1", "s2"):
            self.create(f"data@{name}")
        done = self.backup("forget", "--keep-last", "1", "--prune", code=DENIED)
        self.assertRegex(done.stderr, r"cairn: [^\n]*403")
        self.whole("s1", "s2")


class Writers(S3Server, BackupTest):
    """Several at a time: two of ours, restic, and one that wants to prune."""

    def test_all_at_once(self):
        self.init()
        self.two_snapshots()
        self.create("data@s1")
        for name in ("one", "two"):
            self.make_volume(name)
            self.write(0, os.urandom(12 * MIB), volume=name)
            self.snapshot(f"{name}@s")
        (self.scratch / "file").write_bytes(os.urandom(8 * MIB))
        writers = [self.start("backup", "create", name, "-q") for name in ("one@s", "two@s")]
        theirs = subprocess.Popen([PEERS["restic"], "-q", "backup", self.scratch / "file"],
                                  env=self.environment(), stdin=subprocess.DEVNULL)
        pruned = self.backup("forget", "--keep-last", "1", "--prune", code=None)
        self.assertIn(pruned.returncode, (OK, ABORTED), pruned.stderr)
        for process in writers:
            err = process.communicate(timeout=600)[1]
            if process.returncode != OK:
                self.assertEqual((process.returncode, pruned.returncode), (ABORTED, OK), err)
        status = theirs.wait(timeout=600)
        self.assertTrue(status == OK or pruned.returncode == OK, "only a prune may stop it")
        self.create("one@s")
        self.create("two@s")
        listed = self.backups()
        self.assertLessEqual({"one", "two", "data"}, {b["volume"] for b in listed})
        for made in listed:
            if made["volume"]:
                name = f"{made['volume']}@{made['snapshot']}"
                self.assertEqual(self.restored(made["id"]),
                                 digest(self.path("snapshot", name)))
            else:
                self.assertEqual(self.restored(made["id"], "--path", self.scratch / "file"),
                                 digest(self.scratch / "file"))
        self.backup("verify")
        self.restic("check", "--read-data")


if __name__ == "__main__":
    build_peers()
    main()
