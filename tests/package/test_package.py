#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The Debian packages: lintian, and a bare Debian root on which a user installs and uses them."""
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import debian_root
import packages
from debian_root import run
from packages import NAMES, TREE


def setUpModule():
    global PACKAGES, PLACE  # pylint: disable=global-statement
    PACKAGES, PLACE = packages.built(), packages.scratch()


def wait_until(fact, limit=120):
    end = time.monotonic() + limit
    while not fact():
        if time.monotonic() > end:
            raise AssertionError("it did not happen")
        time.sleep(0.2)


def field(package, name):
    return run("dpkg-deb", "--field", package, name).strip()


def libraries(files):
    """What these depend on and is not one of them."""
    found = set()
    for package in files:
        for word in field(package, "Depends").split(","):
            name = re.sub(r"[(|:].*", "", word).strip()
            if name and name not in NAMES:
                found.add(name)
    return found


def older(package, directory):
    """The same package with an older version, as dpkg sees it."""
    with tempfile.TemporaryDirectory(dir=directory) as work:
        run("dpkg-deb", "--raw-extract", package, work + "/x")
        control = pathlib.Path(work, "x/DEBIAN/control")
        version = field(package, "Version")
        control.write_text(control.read_text().replace(version, f"{version}~before"))
        out = pathlib.Path(directory) / f"{field(package, 'Package')}_before.deb"
        run("dpkg-deb", "--root-owner-group", "--build", "-Znone", work + "/x", out)
    return out


class Contents(unittest.TestCase):
    def test_all_packages_are_made(self):
        self.assertEqual(sorted(PACKAGES), NAMES)

    def test_what_the_build_needs_is_in_the_packages_source(self):
        """A header that is missing may leave a part of the program out."""
        listed = re.search(r'\[build\]="(.*?)"', (TREE / "scripts/deps").read_text(), re.S).group(1)
        control = (TREE / "debian/control").read_text()
        field_text = re.search(r"Build-Depends:(.*?)\n\n", control, re.S).group(1)
        needed = {re.sub(r"\(.*?\)", "", word).strip() for word in field_text.split(",")}
        # debhelper and the compiler, which is there wherever packages are built.
        self.assertEqual(needed ^ set(listed.split()),
                         {"debhelper-compat", "gcc", "libc6-dev", "ninja-build"})

    def test_lintian_finds_no_error(self):
        done = subprocess.run(["lintian", "--allow-root", "--fail-on", "error", "--tag-display-limit",
                               "0", *PACKAGES.values()], capture_output=True, text=True,
                              check=False, timeout=600)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertNotRegex(done.stdout, r"(?m)^E:")


class OnDebian(unittest.TestCase):
    def setUp(self):
        archive = debian_root.archive_with(libraries(PACKAGES.values()))
        place = tempfile.mkdtemp(dir=PLACE)
        self.addCleanup(shutil.rmtree, place)
        self.root = debian_root.Root(place, archive)
        self.addCleanup(self.root.close)
        self.root.wait_ready(wait_until)
        self.addCleanup(self.detach)
        self.bare = self.root.files()

    def detach(self):
        """Loop devices are the machine's."""
        self.root.ask("cairn", "volume", "detach", "data")
        self.root.ask("umount", "/var/lib/cairn/mnt")
        self.root.ask("sh", "-c", "umount $(grep -o ' /var/lib/cairn[^ ]*' /proc/mounts | tac)")

    def install(self, files):
        for package in files:
            shutil.copy(package, self.root.directory / "tmp" / package.name)
        self.root.run("dpkg", "--install", *(f"/tmp/{package.name}" for package in files))

    def quick_start(self):
        """The commands of the README, as they stand there; before the rollback, a detach."""
        text = (TREE / "README.md").read_text()
        block = text.split("## Quick start")[1].split("\n```")[0]
        lines = [line.strip().replace("sudo ", "") for line in block.splitlines()
                 if line.startswith("    sudo cairn") or line.startswith("    sudo mkfs")]
        self.assertGreaterEqual(len(lines), 8)
        for line in lines:
            if "volume rollback" in line:
                self.root.run("cairn", "volume", "detach", "data")
            self.root.run("sh", "-ec", line.split("#")[0])

    def test_quick_start_and_purge(self):
        self.install(PACKAGES.values())
        self.assertIn(field(PACKAGES["cairn"], "Version"), self.root.run("cairn", "--version"))
        self.assertEqual(self.root.run("kubectl-cairn", "--version"),
                         self.root.run("cairn", "--version"))
        self.root.run("kubectl-cairn", "list", "--help")
        self.quick_start()
        self.assertIn("data@monday", self.root.run("cairn", "snapshot", "list"))
        for role in ("driver", "sidecar", "manager", "aggapi", "diffsnap", "cbt-http", "backup",
                     "conformance", "list", "velero"):
            program = "client" if role == "list" else role
            self.root.run(f"/usr/libexec/cairn/cairn-{program}", role, "--help")
        self.root.run("mkdir", "-p", "/var/lib/cairn-backup", "/etc/systemd/system/timers.target.wants")
        self.root.run("touch", "/var/lib/cairn-backup/cairn-prune.prom")
        self.root.run("ln", "-s", "/lib/systemd/system/cairn-prune.timer",
                      "/etc/systemd/system/timers.target.wants/cairn-prune.timer")
        self.root.run("dpkg", "--purge", *NAMES)
        left = {name for name in self.root.files() - self.bare
                if not name.startswith("/var/lib/cairn/") and not name.startswith("/etc/systemd/")}
        self.assertEqual(left, set())
        self.assertFalse(any("cairn" in name for name in self.root.files()
                             if name.startswith("/etc/")))
        self.assertTrue(any(name.startswith("/var/lib/cairn/") for name in self.root.files()),
                        "the pool is data")

    def test_upgrade_with_a_volume_in_use_and_a_driver(self):
        before = [older(package, PLACE) for package in PACKAGES.values()]
        self.install(before)
        self.root.run("cairn", "pool", "create", "/var/lib/cairn", "--size", "1G")
        self.root.run("cairn", "volume", "create", "data", "--size", "64M")
        device = self.root.run("cairn", "volume", "attach", "data").strip()
        self.root.run("mkfs.ext4", "-q", device)
        self.root.run("mount", device, "/mnt")
        self.root.run("sh", "-c", "echo before >/mnt/file")
        self.root.run("cairn", "snapshot", "create", "data@before")
        driver = self.root.start("cairn", "driver", "--pool", "/var/lib/cairn", "--node-id", "n",
                                 "--endpoint", "unix:///tmp/csi.sock")
        self.addCleanup(driver.wait)
        self.addCleanup(driver.terminate)
        socket = self.root.directory / "tmp/csi.sock"
        wait_until(socket.exists)
        self.install(PACKAGES.values())
        self.assertEqual(self.root.run("cat", "/mnt/file"), "before\n")
        self.assertIsNone(driver.poll(), "the driver of the older package runs on")
        self.root.run("sh", "-c", "echo after >/mnt/file; sync")
        self.root.run("cairn", "snapshot", "create", "data@after")
        self.assertRegex(self.root.run("cairn", "delta", "data@before", "data@after"), r"\d")
        self.root.run("cairn", "pool", "check")
        driver.terminate()
        driver.wait(60)
        again = self.root.start("cairn", "driver", "--pool", "/var/lib/cairn", "--node-id", "n",
                                "--endpoint", "unix:///tmp/csi.sock")
        self.addCleanup(again.wait)
        self.addCleanup(again.terminate)
        wait_until(lambda: socket.exists() and again.poll() is None)
        self.root.run("umount", "/mnt")


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    reason = packages.why_not()
    if reason:
        print(reason)
        sys.exit(77)
    unittest.main(module=None, argv=[sys.argv[0], *(sys.argv[1:] or ["test_package", "test_image"])])
