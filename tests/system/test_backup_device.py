#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Backups of a device with a SnapshotMetadata service beside it, here a scripted one:
what it lists is read, and where it fails more is read."""
import contextlib
import json
import os
import signal
import subprocess

from backupcli import BackupTest, digest
from cairncli import INVALID, NOT_FOUND, PRECONDITION as REFUSED, TIMEOUT, USAGE, main

SERVICE = os.environ["CAIRN_SCRIPTED_SERVICE"]
STRIDE, LENGTH, BLOCKS = 65536, 4096, 64
SIZE = 1 << 30  # the capacity that the peer tells
PRECONDITION = 9
ALLOCATED = BLOCKS * 16384  # each block is in a chunk of its own


class Device(BackupTest):
    def setUp(self):
        super().setUp()
        self.init()
        self.device = self.scratch / "device"
        self.token = self.scratch / "token"
        self.token.write_text("secret-token\n")
        with open(self.device, "wb") as file:
            file.truncate(SIZE)
        self.change(range(BLOCKS))
        self.n = 0

    def change(self, blocks):
        with open(self.device, "r+b") as file:
            for block in blocks:
                file.seek(block * STRIDE)
                file.write(os.urandom(LENGTH))

    @contextlib.contextmanager
    def service(self, *steps):
        """The address of a peer whose streams end as these steps say."""
        self.n += 1
        address = f"unix:{self.scratch}/socket{self.n}"
        told = [word for step in steps for word in ("--step", step)]
        peer = subprocess.Popen([SERVICE, "--blocks", str(BLOCKS), "--stride", str(STRIDE),
                                 "--length", str(LENGTH), *told, address],
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        try:
            self.assertEqual(peer.stdout.readline().split()[0], "ready")
            yield address
        finally:
            peer.send_signal(signal.SIGTERM)
            out, _ = peer.communicate(timeout=TIMEOUT)
            self.asked = [line.split() for line in out.splitlines()]

    def words(self, address, snapshot):
        return ("create", "--device", self.device, "--namespace", "ns", "--volume-snapshot",
                snapshot, "--volume-name", "ns/claim", "--volume-id", "vol", "--snapshot-id",
                f"id-{snapshot}", "--metadata-address", address, "--token-file", self.token)

    def back_up(self, *steps, snapshot=None):
        """The events of a backup."""
        with self.service(*steps) as address:
            return self.events(*self.words(address, snapshot or f"snap{self.n}"))

    def test_allocated_then_changed(self):
        full = self.back_up()[-1]
        self.assertEqual((full["mode"], full["volume"]), ("allocated", "ns/claim"))
        self.assertEqual(full["bytes_read"], ALLOCATED)
        self.assertEqual(self.restored("latest"), digest(self.device))
        self.change((3, 17))
        more = self.back_up()[-1]
        self.assertEqual((more["mode"], more["parent"]), ("changed", full["id"]))
        self.assertEqual(self.asked[0][2], "delta")
        self.assertIn("id-snap1", self.asked[0], "asked against the handle of the parent")
        self.assertLess(more["bytes_new"], 1 << 20)
        self.assertEqual(self.restored("latest", "--verify"), digest(self.device))

    def test_what_the_service_cannot_tell_is_read(self):
        self.back_up()
        self.change((5,))
        events = self.back_up(f"0:{PRECONDITION}", "all:0")
        self.assertEqual(events[-1]["mode"], "allocated")
        self.assertTrue([e for e in events if "allocated" in e.get("text", "")])
        self.assertEqual(self.restored("latest"), digest(self.device))
        with open(self.device, "r+b") as file:  # where the service lists nothing
            file.seek(SIZE - LENGTH)
            file.write(os.urandom(LENGTH))
        events = self.back_up(f"0:{PRECONDITION}", f"0:{PRECONDITION}")
        self.assertEqual((events[-1]["mode"], events[-1]["bytes_read"]), ("full", SIZE))
        self.assertTrue([e for e in events if "everything" in e.get("text", "")])
        self.assertEqual(self.restored("latest"), digest(self.device))

    def test_a_claim_in_filesystem_mode_has_a_filesystem(self):
        """A driver that keeps directories puts an archive into a block device: not to be restored."""
        objects = self.scratch / "objects"
        for head, volume_mode, kind, code in (
                ({0: b"\x1f\x8b archive"}, "Filesystem", "", REFUSED),
                ({0: b"\x1f\x8b archive"}, None, "ext4", REFUSED),
                ({0: b"\x1f\x8b archive"}, "Block", "", 0),
                ({0: b"\x1f\x8b archive"}, "Filesystem", "zonefs", 0),
                ({1080: b"\x53\xef"}, "Filesystem", "ext4", 0),
                ({0: b"XFSB"}, "Filesystem", "", 0),
                ({65600: b"_BHRfS_M"}, "Filesystem", "", 0),
                ({1 << 20: b"no pod has used it"}, "Filesystem", "", 0)):
            with open(self.device, "wb") as file:
                for at, text in head.items():
                    file.seek(at)
                    file.write(text)
                file.truncate(SIZE)
            objects.write_text(json.dumps({
                "persistentvolumeclaim": {"spec": {"volumeMode": volume_mode} if volume_mode else {}},
                "persistentvolume": {"spec": {"csi": {"fsType": kind}}}}))
            with self.service() as address:
                done = self.backup(*self.words(address, f"s{self.n}"), "--objects", objects,
                                   code=code)
            self.assertEqual("holds no filesystem" in done.stderr, code != 0, done.stderr)

    def test_bad_input(self):
        for code, args in [(INVALID, ("--device", self.device)),
                           (USAGE, ("--device", self.device, "--namespace", "n")),
                           (USAGE, ("x@y", "--device", self.device)), (USAGE, ()),
                           (INVALID, ("--pvc", "p", "--namespace", "n", "--repository-secret", "s",
                                      "--tag", "cairn")),
                           (USAGE, ("--pvc", "p", "--namespace", "n", "--repository-secret", "s",
                                    "--metrics-file", "x")),
                           (NOT_FOUND, ("--device", "/nowhere", "--namespace", "n",
                                        "--volume-snapshot", "s"))]:
            self.backup("create", *args, code=code)


if __name__ == "__main__":
    main()
