#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""docs/backup-host.md: what stands there is run, in order, and does what it says."""
import os
import re
import shlex
import shutil
import subprocess

from backupcli import PASSWORD, BackupTest, digest
from cairncli import BIN, DATA_LOSS, MIB, OK, REPOSITORY, TIMEOUT, main

PAGE = REPOSITORY / "docs" / "backup-host.md"
BLOCK = re.compile(r"^```sh run *(\S*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks():
    found = {}
    for name, text in BLOCK.findall(PAGE.read_text()):
        commands = [line.split("#")[0].strip() for line in text.splitlines()]
        found.setdefault(name, []).append([c for c in commands if c])
    return found


class Page(BackupTest):
    def setUp(self):
        super().setUp()
        self.etc = self.scratch / "etc"
        self.etc.mkdir()
        (self.etc / "password").write_text(PASSWORD)
        (self.etc / "second").write_text("another one")
        for name in ("data", "logs"):
            self.make_volume(name, size=16 * MIB)
            self.write(0, os.urandom(2 * MIB), volume=name)
        (self.scratch / "disk.img").write_bytes(os.urandom(MIB))
        self.second = self.scratch / "second-place"

    def do(self, command, code=OK):
        """A line of the page, with its places in the scratch directory."""
        for name, place in (("/etc/cairn", self.etc), ("/backup2", self.second)):
            command = command.replace(name, shlex.quote(str(place)))
        command = re.sub(r"^cairn\b", shlex.quote(str(BIN)), command)
        done = subprocess.run(["bash", "-c", command], cwd=self.scratch, text=True,
                              env=self.environment(), capture_output=True, timeout=TIMEOUT)
        self.assertEqual(done.returncode, code, f"{command}\n{done.stdout}{done.stderr}")
        return done

    def test_the_page(self):
        page = blocks()
        life, outside = page[""]
        self.assertEqual(len(life), 10)
        want = {name: digest(self.path("volume", name)) for name in ("data", "logs")}
        for command in life:
            if "/backup2" in command:
                self.backup("init", "-r", self.second)
            self.do(command)
        self.assertEqual(digest(self.path("volume", "data-restored")), want["data"])
        self.assertEqual(digest(self.scratch / "data.img"), want["data"])
        self.assertEqual({b["volume"] for b in self.backups("-r", self.second)}, {"data", "logs"})
        self.cairn("volume", "delete", "data-restored")
        for command in outside:
            self.do(command)
        self.assertEqual(digest(self.scratch / "disk.img"),
                         digest(self.scratch / "disk-restored.img"))
        self.lose_a_pack(page["lost-pack"][0], want)
        self.lose_the_index(page["lost-index"][0])
        self.lose_the_password(page["lost-password"][0])
        self.lose_the_pool(page["lost-pool"][0], want)

    def lose_a_pack(self, commands, want):
        max(self.files(), key=lambda p: p.stat().st_size).unlink()
        self.backup("forget", *[b["id"] for b in self.backups() if "disk" in b["volume"]])
        self.do(commands[0], code=DATA_LOSS)
        for command in commands[1:]:
            self.do(command)
        for name in want:
            self.assertEqual(self.restored(name), want[name])

    def lose_the_index(self, commands):
        for path in self.files("index"):
            path.unlink()
        for command in commands:
            self.do(command)

    def lose_the_password(self, commands):
        (self.etc / "password").write_text("a third one")
        for command in commands:
            self.do(command)
        self.backup("list", env={"RESTIC_PASSWORD": "a third one"})

    def lose_the_pool(self, commands, want):
        self.cairn("volume", "delete", "data", "--snapshots", "delete", code=None)
        self.cairn("pool", "destroy", "--yes", self.pool)
        shutil.rmtree(self.pool, ignore_errors=True)
        self.do(commands[0])
        for command in commands[1:]:
            self.do(command)
        self.assertEqual(digest(self.path("volume", "data")), want["data"])
        self.assertLess(self.backups("--volume", "data")[-1]["bytes_stored"], 200 << 10)


if __name__ == "__main__":
    main()
