# SPDX-License-Identifier: Apache-2.0
"""What the tests of backups share: a pool, a repository, and restic where it is."""
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import time

from cairncli import OK, TIMEOUT, CliTest

PASSWORD = "a password with spaces"
REPOTOOL = os.environ.get("REPOTOOL")
RESTIC = os.environ.get("CAIRN_RESTIC") or shutil.which("restic")


def digest(path):
    whole = hashlib.sha256()
    with open(path, "rb") as file:
        while part := file.read(1 << 20):
            whole.update(part)
    return whole.hexdigest()


def restored_digest(directory):
    """Of the image that restic restored or mounted: one file, or segments to concatenate."""
    if (directory / "volume.img").exists():
        return digest(directory / "volume.img")
    whole = hashlib.sha256()
    for part in sorted(directory.glob("volume.parts/*/*/img")):
        whole.update(part.read_bytes())
    return whole.hexdigest()


class BackupTest(CliTest):
    """A scratch pool and, beside it, the directory of a repository."""
    layout = ()  # how images are stored, as arguments of "backup create"

    def make_pool(self):
        self.repository = self.scratch / "repository"
        super().make_pool()

    def environment(self, **extra):
        return super().environment(**{"CAIRN_REPOSITORY": str(self.repository),
                                      "RESTIC_REPOSITORY": str(self.repository),
                                      "RESTIC_PASSWORD": PASSWORD,
                                      "XDG_CACHE_HOME": str(self.scratch / "machine"),
                                      "RESTIC_CACHE_DIR": str(self.scratch / "cache"), **extra})

    def backup(self, *args, **how):
        return self.cairn("backup", *args, **how)

    def init(self):
        """With a key that is cheap to derive from the password, where the tool of tests/repo is
        there: the usual one costs every command a tenth of a second."""
        if not REPOTOOL:
            self.backup("init")
            return
        subprocess.run([REPOTOOL, "init"], env=self.environment(REPOTOOL_KDF_N="16"), check=True,
                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, timeout=TIMEOUT)

    def events(self, *args, **how):
        """The lines of a command with --output json; without progress, which a slow one tells of."""
        lines = self.backup(*args, "-o", "json", **how).stdout.splitlines()
        return [event for event in map(json.loads, lines) if event["event"] != "progress"]

    def create(self, snapshot, *args, **how):
        """Backs up and returns the summary."""
        return self.events("create", snapshot, *self.layout, *args, **how)[-1]

    def start_slowly(self, snapshot, *args, **how):
        """A backup that is seconds from its end when its first packs, small ones, are there."""
        return self.start("backup", "create", snapshot, "--threads", "1", "--limit-upload", "8M",
                          *args, env={"RESTIC_PACK_SIZE": "4"}, **how)

    def backups(self, *args):
        return [json.loads(line) for line in
                self.backup("list", "-o", "ndjson", *args).stdout.splitlines()]

    def snapshot(self, name):
        self.cairn("snapshot", "create", "--set-wait", "none", name)
        return digest(self.path("snapshot", name))

    def restored(self, name, *args):
        """Restores to a file and returns the hash of its bytes."""
        target = self.scratch / "restored"
        target.unlink(missing_ok=True)
        self.backup("restore", name, "--to", target, *args)
        found = digest(target)
        target.unlink()
        return found

    def files(self, kind="data"):
        """Those that count: what a killed writer left half-written has another name."""
        return [p for p in pathlib.Path(self.repository, kind).rglob("*")
                if p.is_file() and re.fullmatch("[0-9a-f]{64}", p.name)]

    def stored(self):
        return sum(p.stat().st_size for p in self.files("."))

    def wait_for(self, what):
        end = time.monotonic() + TIMEOUT
        while not what():
            self.assertLess(time.monotonic(), end, "it did not come")
            time.sleep(0.02)

    def restic(self, *args, code=OK, program=None):
        program = program or RESTIC
        if not program:
            self.skipTest("there is no restic")
        done = subprocess.run([program, *map(str, args)], env=self.environment(), text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT)
        self.assertEqual(done.returncode, code,
                         f"restic {' '.join(map(str, args))}\n{done.stdout}{done.stderr}")
        return done.stdout


class TwoBackups(BackupTest):
    """With the backups of two snapshots of one volume."""

    def setUp(self):
        super().setUp()
        self.init()
        self.two_snapshots()
        self.first = self.create("data@s1")["id"]
        self.second = self.create("data@s2")["id"]
