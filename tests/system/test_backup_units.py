#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The units of systemd: systemd takes them, and what they start does what it should.

There is no systemd to run them here, so their commands are expanded as it does and run.
"""
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import unittest

from backupcli import PASSWORD, BackupTest
from cairncli import BIN, MIB, OK, TIMEOUT, main

UNITS = pathlib.Path(os.environ.get("CAIRN_UNITS", "."))
HOOK = "/etc/cairn/on-failure"


def settings(text, key):
    return re.findall(rf"^{key}=(.*)$", text, re.MULTILINE)


class Units(BackupTest):
    def setUp(self):
        super().setUp()
        self.place = self.scratch / "units"
        shutil.copytree(UNITS, self.place,
                        ignore=lambda _, names: [n for n in names if not n.startswith("cairn-")])
        self.units = sorted(self.place.iterdir())
        self.assertGreaterEqual(len(self.units), 9, "those of backups, at least")
        hook = self.scratch / "hook"
        hook.write_text(f"#!/bin/sh\necho \"$1\" >> {self.scratch}/failures\n")
        hook.chmod(0o755)
        for unit in self.units:
            text = re.sub(r"^(Exec\w+)=\S*/cairn ", rf"\1={BIN} ", unit.read_text(),
                          flags=re.MULTILINE)
            unit.write_text(text.replace(HOOK, str(hook)))

    @unittest.skipUnless(shutil.which("systemd-analyze"), "there is no systemd-analyze")
    def test_systemd_takes_them(self):
        done = subprocess.run(["systemd-analyze", "verify", "--man=no", *self.units],
                              capture_output=True, text=True, timeout=TIMEOUT)
        # What the machine itself has installed may be at fault, too.
        self.assertEqual([line for line in done.stderr.splitlines() if "cairn" in line], [])

    def test_what_uses_a_pool_sees_the_mounts_of_the_host(self):
        """A mount namespace would hide the pool's image from the host, or the host's from it."""
        for unit in self.place.glob("cairn-backup*.service"):
            self.assertNotRegex(unit.read_text(), r"(?m)^(Protect(?!Clock)|Private|ReadOnly|"
                                                  r"ReadWrite|Inaccessible|BindPaths|DynamicUser)")

    def start(self, unit, instance="", code=OK, **extra):
        """The command of a unit, as systemd expands it."""
        text = (self.place / unit).read_text()
        plain = subprocess.run(["systemd-escape", "--unescape", instance], text=True,
                               capture_output=True).stdout.strip() if instance else ""
        env = self.environment(**{**dict(shlex.split(s.replace("%%", "%"))[0].split("=", 1)
                                         for s in settings(text, "Environment")), **extra})
        words = []
        for word in settings(text, "ExecStart")[0].split():
            word = word.replace("%%", "%").replace("%i", instance).replace("%I", plain)
            if re.fullmatch(r"\$\w+", word):
                words += env.get(word[1:], "").split()
            else:
                words.append(re.sub(r"\$\{(\w+)\}", lambda m: env.get(m[1], ""), word))
        done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=TIMEOUT,
                              stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, code, f"{words}\n{done.stdout}{done.stderr}")
        return done

    @unittest.skipUnless(shutil.which("systemd-escape"), "there is no systemd-escape")
    def test_their_commands_work(self):
        self.init()
        for name in ("data", "with space/and slash"):
            self.make_volume(name, size=MIB)
        metrics = {"CAIRN_METRICS_DIR": str(self.scratch)}
        self.start("cairn-backup@.service", "data", CAIRN_BACKUP_OPTIONS="--tag nightly", **metrics)
        odd = subprocess.run(["systemd-escape", "with space/and slash"], capture_output=True,
                             text=True).stdout.strip()
        self.start("cairn-backup@.service", odd, **metrics)
        self.start("cairn-backup-all.service", **metrics)
        self.assertEqual([b["volume"] for b in self.backups("--tag", "nightly")], ["data"])
        self.start("cairn-prune.service", **metrics)
        self.start("cairn-verify.service", **metrics)
        self.start("cairn-backup@.service", "data", code=16, RESTIC_PASSWORD=PASSWORD + "x",
                   **metrics)
        self.start("cairn-failure@.service", "cairn-backup@data.service")
        self.assertEqual((self.scratch / "failures").read_text(), "cairn-backup@data.service\n")
        self.assertEqual({p.name for p in self.scratch.glob("*.prom")},
                         {"cairn-backup-all.prom", "cairn-backup-data.prom", "cairn-prune.prom",
                          f"cairn-backup-{odd}.prom", "cairn-verify.prom"})
        text = (self.scratch / "cairn-backup-data.prom").read_text()
        self.assertIn('cairn_backup_last_attempt_success{volume="data"} 0\n', text)

    def test_the_example_of_settings_is_one(self):
        example = UNITS.parents[1] / "deploy/systemd/backup.env"
        if not example.exists():
            example = pathlib.Path(__file__).resolve().parents[2] / "deploy/systemd/backup.env"
        for line in example.read_text().splitlines():
            self.assertRegex(line, r"^(|#.*|[A-Z_]+=.*)$")


if __name__ == "__main__":
    main()
