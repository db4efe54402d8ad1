#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Volumes on Ceph as block devices: attaching, kills, snapshots of what is mounted, two nodes."""
import contextlib
import hashlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
import unittest

import cephbed
import test_rbd
from test_rbd import (ABORTED, BIN, BLOCK, INVALID, MIB, PRECONDITION, TIMEOUT, UNAVAILABLE,
                      UNIMPLEMENTED, RbdTest, setUpModule, tearDownModule)  # noqa: F401

RESEND = (6, 9)  # Linux that can repeat requests to a new server


def kernel():
    return tuple(int(part) for part in os.uname().release.split("-")[0].split(".")[:2])


class AttachTest(RbdTest):
    """Each test has a directory for exports of its own: a node."""

    def setUp(self):
        super().setUp()
        self.run_dir = self.scratch / "run"
        os.environ["CAIRN_RUN_DIR"] = str(self.run_dir)
        self.addCleanup(os.environ.pop, "CAIRN_RUN_DIR")
        self.addCleanup(self.clean_up)

    def clean_up(self):
        for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines():
            at = line.split()[4]
            if at.startswith(str(self.scratch)) and "/rbd/" not in at:
                subprocess.run(["umount", at], check=False)
        for volume in self.json("volume", "list")["volumes"]:
            self.cairn("volume", "detach", volume["name"], code=None)

    def node(self, name):
        return {"CAIRN_RUN_DIR": str(self.scratch / name)}

    def attach(self, volume, *flags, **how):
        return self.cairn("volume", "attach", volume, *flags, **how).stdout.strip()

    def pids(self, volume, run_dir=None):
        """The keeper and the server of an export."""
        found = list((run_dir or self.run_dir).glob(f"rbd/*/{volume}.pid"))
        self.assertEqual(len(found), 1, found)
        return [int(word) for word in found[0].read_text().split()]

    @contextlib.contextmanager
    def mounted(self, device, make=True):
        mount = self.scratch / f"mnt-{pathlib.Path(device).name}"
        mount.mkdir(exist_ok=True)
        if make:
            subprocess.run(["mkfs.ext4", "-q", "-E", "nodiscard", device], check=True,
                           timeout=TIMEOUT)
        subprocess.run(["mount", device, mount], check=True, timeout=TIMEOUT)
        try:
            yield mount
        finally:
            subprocess.run(["umount", mount], check=True, timeout=TIMEOUT)

    def wait_gone(self, *pids):
        deadline = time.monotonic() + TIMEOUT
        while any(self.runs(pid) for pid in pids):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)

    @staticmethod
    def runs(pid):
        try:
            return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
        except OSError:
            return False


class Device(AttachTest):
    def test_what_is_written_to_the_device_is_in_the_image(self):
        volume = self.make_volume("data", "32M")
        device = self.attach("data")
        self.assertEqual(self.attach("data"), device)
        self.assertEqual(self.json("volume", "info", "data")["device"], device)
        data = os.urandom(3 * MIB)
        with open(device, "r+b", buffering=0) as opened:
            os.pwrite(opened.fileno(), data, 5 * MIB)
            os.fsync(opened.fileno())
            with self.image(volume, None) as image:
                self.assertEqual(image.read(5 * MIB, len(data)), data)
            self.assertEqual(os.pread(opened.fileno(), len(data), 5 * MIB), data)
        subprocess.run(["blkdiscard", "-o", str(4 * MIB), "-l", str(4 * MIB), device], check=True)
        with self.image(volume, None) as image:
            self.assertEqual(image.read(5 * MIB, 3 * MIB), bytes(3 * MIB))
        keeper, server = self.pids(volume)
        self.cairn("volume", "detach", "data")
        self.assertFalse(self.runs(keeper) or self.runs(server))
        self.assertIsNone(self.json("volume", "info", "data")["device"])
        self.assert_clean()

    def test_a_device_grows_with_its_volume(self):
        """Also when another node has grown it."""
        volume = self.make_volume("data", "16M")
        device = self.attach("data")
        with self.mounted(device) as mount:
            (mount / "before").write_bytes(b"x" * MIB)
            self.cairn("volume", "expand", "data", "--size", "64M")
            self.assertEqual(self.size_of(device), 64 * MIB)
        self.cairn("volume", "expand", "data", "--size", "96M", env=self.node("other"))
        self.cairn("volume", "expand", "data", "--size", "96M")
        self.assertEqual(self.size_of(device), 96 * MIB)
        with open(device, "r+b", buffering=0) as opened:
            os.pwrite(opened.fileno(), b"e" * BLOCK, 96 * MIB - BLOCK)
            os.fsync(opened.fileno())
        with self.image(volume, None) as image:
            self.assertEqual(image.read(96 * MIB - BLOCK, BLOCK), b"e" * BLOCK)
        self.cairn("volume", "detach", "data")
        self.assert_clean()

    @staticmethod
    def size_of(device):
        return int(subprocess.run(["blockdev", "--getsize64", device], check=True,
                                  capture_output=True, text=True).stdout)

    def test_a_snapshot_is_a_read_only_device(self):
        volume = self.make_volume("data", "8M")
        with self.image(volume) as image:
            image.write(b"a" * BLOCK, 0)
        self.cut("data@s")
        with self.image(volume) as image:
            image.write(b"b" * BLOCK, 0)
        device = self.cairn("snapshot", "attach", "data@s").stdout.strip()
        with open(device, "rb") as opened:
            self.assertEqual(opened.read(BLOCK), b"a" * BLOCK)
        with self.assertRaises(OSError):
            with open(device, "r+b", buffering=0) as opened:
                opened.write(b"c" * BLOCK)
        elsewhere = self.cairn("snapshot", "delete", "data@s", code=PRECONDITION,
                               env=self.node("other"))
        self.assertIn("attached on another node", elsewhere.stderr)
        self.cairn("snapshot", "detach", "data@s")
        self.cairn("snapshot", "delete", "data@s")
        self.assert_clean()

    def test_an_attached_volume_is_neither_deleted_nor_rolled_back(self):
        self.make_volume("data", "8M")
        self.cut("data@s")
        self.attach("data")
        for node in ({}, self.node("other")):
            for command in (("volume", "delete", "data", "--with-snapshots"),
                            ("volume", "rollback", "data@s", "--no-snapshot"),
                            ("pool", "destroy", "--yes", self.pool)):
                self.cairn(*command, code=PRECONDITION, env=node)
        self.cairn("volume", "detach", "data")
        self.cairn("volume", "rollback", "data@s", "--no-snapshot")
        self.cairn("volume", "delete", "data", "--with-snapshots")


class Kills(AttachTest):
    @unittest.skipUnless(kernel() >= RESEND, "the kernel cannot repeat requests")
    def test_a_killed_server_is_replaced_under_load(self):
        """Every write is answered once the new server has done it, and none is lost."""
        volume = self.make_volume("data", "64M")
        device = self.attach("data")
        written, faults, stop = [], [], threading.Event()

        def write():
            fd = os.open(device, os.O_RDWR | os.O_DIRECT)
            import mmap
            page = mmap.mmap(-1, BLOCK)
            try:
                for n in range(16384):
                    if stop.is_set():
                        return
                    page[:8] = n.to_bytes(8, "little")
                    os.pwrite(fd, page, n * BLOCK)
                    os.fsync(fd)
                    written.append(n)
            except OSError as fault:
                faults.append(fault)
            finally:
                os.close(fd)

        thread = threading.Thread(target=write)
        thread.start()
        for _ in range(3):
            before = len(written)
            while len(written) < before + 50 and thread.is_alive():
                time.sleep(0.01)
            os.kill(self.pids(volume)[1], signal.SIGKILL)
        before = len(written)
        deadline = time.monotonic() + TIMEOUT
        while len(written) < before + 50 and thread.is_alive() and time.monotonic() < deadline:
            time.sleep(0.01)
        stop.set()
        thread.join(TIMEOUT)
        self.assertEqual(faults, [])
        self.assertGreaterEqual(len(written), 200)
        with self.image(volume, None) as image:
            for n in written:
                self.assertEqual(image.read(n * BLOCK, 8), n.to_bytes(8, "little"))
        self.cairn("volume", "detach", "data")
        self.assert_clean()

    def test_a_storage_daemon_that_does_not_answer_is_waited_for(self):
        """No flush is answered meanwhile, and none fails."""
        volume = self.make_volume("data", "16M")
        device = self.attach("data")
        flushed, faults, stop = [], [], threading.Event()

        def write():
            try:
                with open(device, "r+b", buffering=0) as opened:
                    for n in range(4096):
                        if stop.is_set():
                            return
                        os.pwrite(opened.fileno(), n.to_bytes(8, "little") * 512, n * BLOCK)
                        os.fsync(opened.fileno())
                        flushed.append(n)
            except OSError as fault:
                faults.append(fault)

        thread = threading.Thread(target=write)
        thread.start()
        while len(flushed) < 20 and thread.is_alive():
            time.sleep(0.01)
        test_rbd.cluster.osd.send_signal(signal.SIGSTOP)
        try:
            time.sleep(0.5)  # what it had answered already arrives
            before = len(flushed)
            time.sleep(3)
            self.assertLessEqual(len(flushed), before + 1)
        finally:
            test_rbd.cluster.osd.send_signal(signal.SIGCONT)
        deadline = time.monotonic() + TIMEOUT
        while len(flushed) < before + 20 and thread.is_alive() and time.monotonic() < deadline:
            time.sleep(0.05)
        stop.set()
        thread.join(TIMEOUT)
        self.assertEqual(faults, [])
        self.assertGreaterEqual(len(flushed), before + 20)
        with self.image(volume, None) as image:
            for n in flushed:
                self.assertEqual(image.read(n * BLOCK, 8), n.to_bytes(8, "little"))
        self.cairn("volume", "detach", "data")
        self.assert_clean()

    def test_an_export_that_was_killed_whole_is_replaced(self):
        """What was flushed is there; the device answers with errors until it is attached again."""
        volume = self.make_volume("data", "16M")
        device = self.attach("data")
        with open(device, "r+b", buffering=0) as opened:
            os.pwrite(opened.fileno(), b"k" * BLOCK, 0)
            os.fsync(opened.fileno())
            pids = self.pids(volume)
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
            self.wait_gone(*pids)
            with self.assertRaises(OSError):
                os.pwrite(opened.fileno(), b"l" * BLOCK, BLOCK)
                os.fsync(opened.fileno())
            refused = self.cairn("volume", "attach", "data", code=PRECONDITION)
            self.assertIn("open in another program", refused.stderr)
            refused = self.cairn("snapshot", "create", "data@lost", code=PRECONDITION)
            self.assertIn("was killed", refused.stderr)
        device = self.attach("data")
        with open(device, "r+b", buffering=0) as opened:
            self.assertEqual(os.pread(opened.fileno(), BLOCK, 0), b"k" * BLOCK)
            os.pwrite(opened.fileno(), b"m" * BLOCK, BLOCK)
            os.fsync(opened.fileno())
        for pid in self.pids(volume):
            os.kill(pid, signal.SIGKILL)
        self.cairn("volume", "detach", "data")
        self.cairn("volume", "detach", "data")
        self.assert_clean()

    def test_the_process_that_attaches_is_killed(self):
        self.make_volume("data", "8M")
        for i in range(5):
            process = subprocess.Popen([BIN, "volume", "attach", "data"], env=self.environment(),
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(0.05 * (i + 1))
            process.kill()
            process.wait()
            deadline = time.monotonic() + TIMEOUT
            while True:  # the export of the killed one may still be starting
                done = self.cairn("volume", "attach", "data", code=None)
                if done.returncode == 0:
                    break
                self.assertIn(done.returncode, (ABORTED, PRECONDITION, UNAVAILABLE), done.stderr)
                self.assertLess(time.monotonic(), deadline)
            self.cairn("volume", "detach", "data")
        self.assert_clean()


class Nodes(AttachTest):
    def test_one_node_at_a_time(self):
        self.make_volume("data", "8M")
        self.attach("data", env=self.node("one"))
        refused = self.cairn("volume", "attach", "data", code=PRECONDITION, env=self.node("two"))
        self.assertIn("attached on another node", refused.stderr)
        self.cairn("volume", "detach", "data", env=self.node("one"))
        device = self.attach("data", env=self.node("two"))
        with open(device, "r+b", buffering=0) as opened:
            opened.write(b"2" * BLOCK)
        self.cairn("volume", "detach", "data", env=self.node("two"))

    def test_a_dead_node_is_taken_over(self):
        """Its processes were killed: the next node attaches, and the dead one cannot write."""
        volume = self.make_volume("data", "8M")
        first = self.attach("data", env=self.node("one"))
        with open(first, "r+b", buffering=0) as opened:
            opened.write(b"1" * BLOCK)
            os.fsync(opened.fileno())
        for pid in self.pids(volume, self.scratch / "one"):
            os.kill(pid, signal.SIGKILL)
        begun = time.monotonic()
        second = self.attach("data", env=self.node("two"))
        print(f"taken over after {time.monotonic() - begun:.2f} s", file=sys.stderr)
        with open(second, "rb", buffering=0) as opened:
            self.assertEqual(opened.read(BLOCK), b"1" * BLOCK)
        for node in ("two", "one"):
            self.cairn("volume", "detach", "data", env=self.node(node))
        self.assert_clean()

    def test_a_dead_node_that_cannot_be_seen_is_taken_over(self):
        """As on another host: a PID namespace of its own shows none of the processes."""
        volume = self.make_volume("data", "8M")
        self.attach("data", env=self.node("one"))
        for pid in self.pids(volume, self.scratch / "one"):
            os.kill(pid, signal.SIGKILL)
        apart = ["unshare", "--pid", "--fork", BIN, "volume"]
        environment = self.environment(**self.node("two"))
        begun = time.monotonic()
        for command in ("attach", "detach"):
            subprocess.run([*apart, command, "data"], env=environment, check=True,
                           stdout=subprocess.DEVNULL, timeout=TIMEOUT)
            if command == "attach":
                print(f"taken over after {time.monotonic() - begun:.2f} s", file=sys.stderr)
        self.cairn("volume", "detach", "data", env=self.node("one"))
        self.assert_clean()

    def test_a_foreign_client_is_not_pushed_aside(self):
        import rbd
        volume = self.make_volume("data", "8M")
        with self.image(volume) as image:
            image.lock_acquire(rbd.RBD_LOCK_MODE_EXCLUSIVE)
            image.write(b"f" * BLOCK, 0)
            refused = self.cairn("volume", "attach", "data", code=PRECONDITION)
            self.assertIn("in use", refused.stderr)
            image.write(b"g" * BLOCK, 0)
        self.attach("data")
        self.cairn("volume", "detach", "data")


class Cuts(AttachTest):
    """Snapshots of a mounted filesystem that is being written to."""

    def check_cut(self, node):
        """Files are written and synced one after another; a cut holds those that were
        synced before it, and its filesystem needs no repair."""
        self.make_volume("data", "64M")
        done, stop = [], threading.Event()
        with self.mounted(self.attach("data")) as mount:
            def write():
                n = 0
                while not stop.is_set():
                    content = os.urandom(20000)
                    with open(mount / f"f{n}", "wb") as out:
                        out.write(content)
                        out.flush()
                        os.fsync(out.fileno())
                    done.append((f"f{n}", hashlib.sha256(content).hexdigest()))
                    n += 1
                    if n % 200 == 0:
                        time.sleep(0.2)

            (mount / "cached").write_bytes(b"in the cache only")
            thread = threading.Thread(target=write)
            thread.start()
            try:
                while len(done) < 20:
                    time.sleep(0.01)
                before = list(done)
                self.cairn("snapshot", "create", "data@s", env=node)
            finally:
                stop.set()
                thread.join()
        self.cairn("volume", "detach", "data")
        self.make_volume("copy", None, "--from", "data@s")
        device = self.attach("copy")
        # Frozen: the journal is empty, so a check that changes nothing finds nothing.
        checked = subprocess.run(["e2fsck", "-fn", device], capture_output=True, text=True,
                                 check=False)
        self.assertEqual(checked.returncode, 0, checked.stdout)
        with self.mounted(device, make=False) as mount:
            self.assertEqual((mount / "cached").read_bytes(), b"in the cache only")
            for name, digest in before:
                self.assertEqual(hashlib.sha256((mount / name).read_bytes()).hexdigest(), digest)
        self.cairn("volume", "detach", "copy")
        self.assert_clean()

    def test_on_the_node_of_the_filesystem(self):
        self.check_cut({})

    def test_from_another_node(self):
        self.check_cut(self.node("other"))


STAND_IN = """#!/bin/sh
# A stand-in for `rbd device map` and `unmap`: sysfs as krbd shows it, and a loop device.
set -eu
echo "$*" >>"$STAND_IN_LOG"
top=/sys/bus/rbd/devices/7
case "$2" in
map)
    for spec; do :; done
    loop=$(losetup --find --show "$STAND_IN_FILE")
    mkdir -p $top
    echo "${spec%%/*}" >$top/pool
    spec=${spec#*/}
    echo "${spec%%/*}" >$top/pool_ns
    echo "${spec#*/}" >$top/name
    echo - >$top/current_snap
    echo "$loop" >$top/loop
    mknod /dev/rbd7 b $(stat -c '0x%t 0x%T' "$loop") ;;
unmap)
    losetup --detach "$(cat $top/loop)"
    rm -r $top /dev/rbd7 ;;
esac
"""


class Mapped(AttachTest):
    """krbd and rbd-nbd: this kernel may have neither, which is then refused; the way through
    krbd is walked with a stand-in for sysfs and `rbd`."""

    def has(self, kind):
        name = {"krbd": "rbd", "nbd": "nbd"}[kind]
        modules = pathlib.Path("/lib/modules") / os.uname().release
        return os.path.exists("/sys/bus/rbd" if kind == "krbd" else "/sys/block/nbd0") or any(
            f"/drivers/block/{name}.ko" in (modules / part).read_text()
            for part in ("modules.dep", "modules.builtin") if (modules / part).exists())

    def test_what_the_kernel_lacks_is_refused(self):
        self.make_volume("data", "8M")
        address = self.pool
        for kind in ("krbd", "nbd"):
            if self.has(kind):
                continue
            self.pool = f"{address}:device={kind}"
            refused = self.cairn("volume", "attach", "data", code=UNIMPLEMENTED)
            self.assertIn(f"this kernel has no {kind}", refused.stderr)
        self.pool = f"{address}:device=floppy"
        self.assertIn("device=export", self.cairn("volume", "list", code=INVALID).stderr)
        self.pool = f"{address}:device=export"
        done = self.cairn("volume", "attach", "data")
        device = done.stdout.strip()
        self.assertIn(f"{device} is attached by export", done.stderr)
        self.pool = address
        self.assertEqual(self.json("volume", "attach", "data"),
                         {"device": device, "device_kind": "export"})
        self.assertEqual(self.json("volume", "info", "data")["device_kind"], "export")
        self.cairn("volume", "detach", "data")

    def test_the_way_through_krbd(self):
        volume = self.make_volume("data", "8M")
        log, backing = self.scratch / "log", self.scratch / "backing"
        backing.write_bytes(bytes(8 * MIB))
        (self.scratch / "bin").mkdir()
        program = self.scratch / "bin/rbd"
        program.write_text(STAND_IN)
        program.chmod(0o755)
        env = {"PATH": f"{self.scratch}/bin:{os.environ['PATH']}", "STAND_IN_LOG": str(log),
               "STAND_IN_FILE": str(backing)}
        self.pool += ":device=auto"
        # A mount namespace whose /sys/bus has krbd and whose /dev is of its own.
        setup = ("mount -t tmpfs none /sys/bus && mkdir -p /sys/bus/rbd/devices && "
                 "mkdir $0/dev && mount --bind /dev $0/dev && mount -t tmpfs none /dev && "
                 "for n in null zero full random urandom fuse loop-control; do cp -a $0/dev/$n /dev; "
                 "done && cp -a $0/dev/loop* /dev && echo ready && read -r _")
        holder = subprocess.Popen(["unshare", "--mount", "--propagation", "slave", "sh", "-c", setup,
                                   self.scratch],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(holder.communicate)
        self.assertEqual(holder.stdout.readline(), "ready\n")

        def inside(*args, code=0):
            done = subprocess.run(["nsenter", f"--mount=/proc/{holder.pid}/ns/mnt", BIN, *args],
                                  env=self.environment(**env), stdin=subprocess.DEVNULL,
                                  capture_output=True, text=True, timeout=TIMEOUT)
            self.assertEqual(done.returncode, code, f"{args}: {done.stdout}{done.stderr}")
            return done

        with self.image(volume) as image:
            image.write(b"o" * BLOCK, 0)
            refused = inside("volume", "attach", "data", code=PRECONDITION)
            self.assertIn("open for writing on", refused.stderr)
        done = inside("volume", "attach", "data")
        self.assertEqual(done.stdout, "/dev/rbd7\n")
        self.assertIn("/dev/rbd7 is attached by krbd", done.stderr)
        self.assertEqual(log.read_text(), f"device map --conf {test_rbd.cluster.conf} "
                                          f"rbd/{self.namespace}/{volume}\n")
        self.assertEqual(inside("volume", "attach", "data").stdout, "/dev/rbd7\n")
        self.assertIn("/dev/rbd7", inside("volume", "list").stdout)
        inside("volume", "delete", "data", code=PRECONDITION)
        inside("volume", "detach", "data")
        self.assertIn("device unmap /dev/rbd7", log.read_text())
        self.assertIsNone(json.loads(inside("volume", "info", "data", "-o", "json").stdout)["device"])
        self.assert_clean()


class Restore(AttachTest):
    def test_a_backup_is_restored_to_a_volume(self):
        volume = self.make_volume("data", "32M")
        expected = bytearray(32 * MIB)
        with self.image(volume) as image:
            for at in (0, 5 * MIB, 20 * MIB):
                expected[at:at + MIB] = data = os.urandom(MIB)
                image.write(data, at)
        self.cairn("backup", "init")
        self.cairn("backup", "create", "data")
        with self.image(volume) as image:
            image.write(os.urandom(2 * MIB), 10 * MIB)
        self.cairn("backup", "restore", "data", "--to", "data", "--overwrite", "--verify")
        self.assert_holds(volume, expected)
        self.cairn("backup", "restore", "data", "--to", "fresh", "--verify")
        self.assert_holds(self.json("volume", "info", "fresh")["id"], expected)
        self.attach("data")
        self.cairn("backup", "restore", "data", "--to", "data", "--overwrite", code=PRECONDITION)
        self.cairn("volume", "detach", "data")
        self.assert_clean()

    def assert_holds(self, volume, expected):
        with self.image(volume, None) as image:
            self.assertEqual(hashlib.sha256(image.read(0, 32 * MIB)).hexdigest(),
                             hashlib.sha256(bytes(expected)).hexdigest())


if __name__ == "__main__":
    lacking = cephbed.missing()
    if lacking:
        print(f"needs {lacking}: scripts/deps ceph")
        sys.exit(77)
    if not os.path.exists("/dev/fuse") or not os.path.exists("/dev/loop-control"):
        print("needs /dev/fuse and loop devices")
        sys.exit(77)
    unittest.main(verbosity=2)
