#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Backups in S3 and behind restic's REST server, with the newest restic beside them."""
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import time

import backupcli
from backupcli import BackupTest, digest
from cairncli import BLOCK, MIB, main

ROOT = pathlib.Path(__file__).resolve().parents[2]
KEYS = {"AWS_ACCESS_KEY_ID": "cairn", "AWS_SECRET_ACCESS_KEY": "cairn-secret"}
PEERS = {}
UNAVAILABLE = 14


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Remote:
    """The same story, wherever the repository is."""

    def setUp(self):
        super().setUp()
        self.port = free_port()
        self.place = self.scratch / "place"
        self.place.mkdir()
        self.server = None
        self.addCleanup(self.stop)
        self.serve()
        self.repository = self.location()

    def stop(self):
        if self.server:
            self.server.kill()
            self.server.communicate()
            self.server = None

    def serve(self):
        self.server = subprocess.Popen(self.command(), env={**os.environ, **self.keys()},
                                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                       stderr=subprocess.DEVNULL)
        end = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                self.assertLess(time.monotonic(), end, "the server does not come up")
                time.sleep(0.05)

    def keys(self):
        return {}

    def environment(self, **extra):
        return super().environment(**{**KEYS, **extra})

    def test_a_life(self):
        self.init()
        self.make_volume(size=64 * MIB)
        self.write(0, os.urandom(24 * MIB))
        want = {"s1": self.snapshot("data@s1")}
        self.create("data@s1")
        for n in (2, 3):
            self.write(n * 5 * BLOCK, os.urandom(2 * BLOCK))
            want[f"s{n}"] = self.snapshot(f"data@s{n}")
            self.assertEqual(self.create(f"data@s{n}")["mode"], "changed")
        for backup in self.backups():
            self.assertEqual(self.restored(backup["id"]), want[backup["snapshot"]])
        self.restic("check", "--read-data")
        self.restic("restore", "latest", "--target", self.scratch / "out")
        self.assertEqual(digest(self.scratch / "out/data/volume.img"), want["s3"])
        self.backup("forget", "--keep-last", "2", "--prune")
        self.restic("check", "--read-data")
        self.restic("forget", "--keep-last", "1", "--group-by", "paths", "--prune")
        self.write(0, os.urandom(BLOCK))
        want["s4"] = self.snapshot("data@s4")
        self.assertEqual(self.create("data@s4")["mode"], "changed")
        self.assertEqual(self.restored("latest"), want["s4"])
        self.backup("verify")

    def test_a_server_that_goes_away_loses_nothing(self):
        self.init()
        self.two_snapshots()
        self.create("data@s1")
        process = self.start("backup", "create", "data@s2", "--retry", "60s", "-q")
        self.stop()
        time.sleep(1)
        self.serve()
        self.assertEqual((process.communicate(timeout=120)[1], process.returncode), ("", 0))
        self.assertEqual(self.restored("latest"), digest(self.path("snapshot", "data@s2")))
        self.stop()
        done = self.backup("list", "--retry", "1s", code=UNAVAILABLE)
        self.assertRegex(done.stderr, r"\Acairn: [^\n]+\n\Z")


class S3(Remote, BackupTest):
    def command(self):
        (self.place / "bucket").mkdir(exist_ok=True)
        return [PEERS["versitygw"], "-q", "--port", f"127.0.0.1:{self.port}", "posix", self.place]

    def keys(self):
        return {"ROOT_ACCESS_KEY": KEYS["AWS_ACCESS_KEY_ID"],
                "ROOT_SECRET_KEY": KEYS["AWS_SECRET_ACCESS_KEY"]}

    def location(self):
        return f"s3:http://127.0.0.1:{self.port}/bucket/some/path"


class Rest(Remote, BackupTest):
    def command(self):
        return [PEERS["rest-server"], "--no-auth", "--listen", f"127.0.0.1:{self.port}", "--path",
                self.place]

    def location(self):
        return f"rest:http://127.0.0.1:{self.port}/some/"


if __name__ == "__main__":
    if not shutil.which("go") and not pathlib.Path("/usr/local/go/bin/go").exists():
        print("needs Go to build restic and the servers")
        sys.exit(77)
    built = subprocess.run([ROOT / "scripts/peers", "restic", "rest-server", "versitygw"],
                           check=True, stdout=subprocess.PIPE, text=True).stdout
    PEERS.update(line.split() for line in built.splitlines())
    backupcli.RESTIC = PEERS["restic"]
    main()
