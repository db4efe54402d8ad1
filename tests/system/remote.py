# SPDX-License-Identifier: Apache-2.0
"""Backups in a directory, in S3 (versitygw) and behind restic's REST server: what the
tests of all three share."""
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cluster"))

# pylint: disable=wrong-import-position
import backupcli
from processes import free_port

ROOT = pathlib.Path(__file__).resolve().parents[2]
KEYS = {"AWS_ACCESS_KEY_ID": "cairn", "AWS_SECRET_ACCESS_KEY": "cairn-secret"}
PEERS = {}
OLD_RESTIC = shutil.which("restic") or "/usr/bin/restic"


def programs():
    """Debian's restic and the newest."""
    return OLD_RESTIC, PEERS["restic"]


class Directory:
    """No server at all."""


class Remote:
    """A server of a test's own; `location` says where its repository is."""

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


class S3Server(Remote):
    options = ()

    def command(self):
        (self.place / "bucket").mkdir(exist_ok=True)
        return [PEERS["versitygw"], "-q", "--port", f"127.0.0.1:{self.port}", *self.options,
                "posix", self.place]

    def keys(self):
        return {"ROOT_ACCESS_KEY": KEYS["AWS_ACCESS_KEY_ID"],
                "ROOT_SECRET_KEY": KEYS["AWS_SECRET_ACCESS_KEY"]}

    def location(self):
        return f"s3:http://127.0.0.1:{self.port}/bucket/some/path"

    def objects(self, kind):
        """The files behind the objects."""
        return [p for p in (self.place / "bucket/some/path" / kind).rglob("*") if p.is_file()]


class RestServer(Remote):
    options = ("--no-auth",)

    def command(self):
        return [PEERS["rest-server"], *self.options, "--listen", f"127.0.0.1:{self.port}",
                "--path", self.place]

    def location(self):
        return f"rest:http://127.0.0.1:{self.port}/some/"


def build_peers():
    """Builds them, or ends the test."""
    if not shutil.which("go") and not pathlib.Path("/usr/local/go/bin/go").exists():
        print("needs Go to build restic and the servers")
        sys.exit(77)
    if not os.path.exists(OLD_RESTIC):
        print("Debian's restic is not installed")
        sys.exit(77)
    built = subprocess.run([ROOT / "scripts/peers", "restic", "rest-server", "versitygw"],
                           check=True, stdout=subprocess.PIPE, text=True).stdout
    PEERS.update(line.split() for line in built.splitlines())
    backupcli.RESTIC = PEERS["restic"]
