#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What people do to `cairn backup` beside using it well: they interrupt it, have no right to write,
keep passwords in odd files, and restore twice at a time."""
import contextlib
import fcntl
import http.server
import json
import os
import pty
import signal
import socket
import subprocess
import termios
import threading
import unittest

from backupcli import PASSWORD, BackupTest, digest
from cairncli import ABORTED, BIN, CAN_MOUNT, INVALID, OK, PRECONDITION, TIMEOUT, main

UNAVAILABLE, UNAUTHENTICATED = 14, 16
INTERRUPTED = 128 + signal.SIGINT


class UserTest(BackupTest):
    def setUp(self):
        super().setUp()
        self.init()
        self.two_snapshots()

    def begin(self, *args, **extra):
        return subprocess.Popen([BIN, "backup", *map(str, args)], stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                env=self.environment(**extra))

    @contextlib.contextmanager
    def holder(self):
        """A backup that holds its lock: it waits for a gateway that does not answer."""
        with socket.socket() as gateway:
            gateway.bind(("127.0.0.1", 0))
            gateway.listen()
            gateway.settimeout(TIMEOUT)
            process = self.begin("create", "data@s2", "--push-gateway",
                                 f"http://127.0.0.1:{gateway.getsockname()[1]}")
            connection = gateway.accept()[0]
            self.assertTrue(self.files("locks"))
            yield process
            connection.close()
            process.communicate(timeout=TIMEOUT)


class Interrupt(UserTest):
    """The first interrupt ends whatever is waited for, and what was begun is put in order."""

    def interrupt(self, process):
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=TIMEOUT)  # a server is retried for longer
        self.assertEqual(process.returncode, INTERRUPTED, errors)
        self.assertIn("interrupted", errors)

    def test_a_server_that_is_away(self):
        for args in (["create", "data@s1"], ["verify"], ["forget", "--prune"],
                     ["restore", "latest", "--to", self.scratch / "x"],
                     ["copy", "--from", self.repository]):
            with self.subTest(args[0]), socket.socket() as listener:
                listener.bind(("127.0.0.1", 0))
                port = listener.getsockname()[1]
                listener.listen()
                asked = threading.Event()

                def hang_up():
                    try:
                        while True:
                            listener.accept()[0].close()
                            asked.set()
                    except OSError:
                        pass

                threading.Thread(target=hang_up, daemon=True).start()
                process = self.begin(*args, "-r", f"rest:http://127.0.0.1:{port}/",
                                     RESTIC_FROM_PASSWORD=PASSWORD)
                self.assertTrue(asked.wait(TIMEOUT))
                self.interrupt(process)
                listener.shutdown(socket.SHUT_RDWR)

    def test_somebody_elses_lock(self):
        with self.holder():
            process = self.begin("forget", "--prune", "--lock-wait", "1h")
            self.wait_for(lambda: self.catches(process.pid))
            self.interrupt(process)

    def test_a_mount_that_waits(self):
        with self.holder():  # a lock that does not exclude it: what waits is the password
            fifo = self.scratch / "fifo"
            os.mkfifo(fifo)
            process = subprocess.Popen(
                [BIN, "mount", self.scratch, "--password-command", f"cat '{fifo}'"],
                env=self.environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.PIPE, text=True)
            self.wait_for(lambda: self.catches(process.pid))
            process.send_signal(signal.SIGINT)
            fifo.write_text(PASSWORD)
            _, errors = process.communicate(timeout=TIMEOUT)
            self.assertEqual(process.returncode, INTERRUPTED, errors)
            self.assertEqual(len(self.files("locks")), 1, "only the holder's")

    def catches(self, pid):
        """Its handler is set: an interrupt before that just ends it."""
        with open(f"/proc/{pid}/status", encoding="ascii") as file:
            caught = next(line for line in file if line.startswith("SigCgt"))
        return int(caught.split()[1], 16) >> (signal.SIGINT - 1) & 1


@unittest.skipUnless(CAN_MOUNT, "needs root")
class Container(UserTest):
    """A name like the host's, but numbers of processes of its own."""

    def test_a_lock_of_a_process_that_cannot_be_seen_is_respected(self):
        with self.holder():
            for args in (["forget", "--prune"], ["verify", "--repair"]):
                done = subprocess.run(["unshare", "--pid", "--fork", BIN, "backup", *args,
                                       "--lock-wait", "0"], env=self.environment(), text=True,
                                      stdin=subprocess.DEVNULL, capture_output=True,
                                      timeout=TIMEOUT)
                self.assertEqual(done.returncode, ABORTED, done.stdout + done.stderr)
                self.assertIn("locked", done.stderr)
                self.assertTrue(self.files("locks"))


@unittest.skipUnless(CAN_MOUNT and os.path.exists("/dev/fuse"), "needs root and FUSE")
class Tagged(UserTest):
    """A restic that does not know a field drops it when it rewrites a snapshot."""

    def test_a_mounted_backup_is_whole_all_the_same(self):
        self.create("data@s2")
        self.restic("tag", "--add", "seen", "latest")
        self.assertIn("s2", self.backup("list").stdout)
        at = self.scratch / "mnt"
        at.mkdir()
        process = self.start("mount", at)
        try:
            self.wait_for(lambda: os.path.ismount(at))
            self.assertEqual(digest(at / "data@s2" / "volume.img"),
                             digest(self.path("snapshot", "data@s2")))
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=TIMEOUT)


class StubOfRclone(http.server.BaseHTTPRequestHandler):
    """As `rclone serve restic` behind which a listing fails: it says that nothing is there."""

    root = None
    server_version = "rclone/v1.60"
    sys_version = ""
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def path_of(self):
        kind, _, name = self.path.strip("/").partition("/")
        return self.root / kind / name[:2] / name if kind == "data" else self.root / kind / name

    def answer(self, code, body=b""):
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_GET(self):
        path = self.path_of()
        if self.path.startswith("/snapshots/") and path.is_dir():
            self.answer(404)
        elif path.is_file():
            self.answer(200, path.read_bytes())
        elif self.path.endswith("/") and path.is_dir():
            found = [p for p in path.rglob("*") if p.is_file()]
            self.answer(200, json.dumps([{"name": p.name, "size": p.stat().st_size}
                                         for p in found]).encode())
        else:
            self.answer(404)

    do_HEAD = do_GET

    def do_POST(self):
        self.path_of().write_bytes(self.rfile.read(int(self.headers["Content-Length"])))
        self.answer(200)

    def do_DELETE(self):
        self.path_of().unlink(missing_ok=True)
        self.answer(200)


class Rclone(UserTest):
    def test_a_stub_that_cannot_list_is_not_taken_for_an_empty_one(self):
        made = self.create("data@s1")["id"]
        handler = type("Handler", (StubOfRclone,), {"root": self.repository})
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            packs = self.files()
            self.backup("forget", "--prune", "-r",
                        f"rest:http://127.0.0.1:{server.server_address[1]}/", code=UNAVAILABLE)
            self.assertEqual(self.files(), packs)
        finally:
            server.shutdown()
            server.server_close()
        self.assertEqual(self.restored(made), digest(self.path("snapshot", "data@s1")))


class Passwords(UserTest):
    def test_a_nul_byte_is_refused_and_not_the_end(self):
        file = self.scratch / "password"
        none = {"RESTIC_PASSWORD": ""}
        for content in (b"\0binary", b"ab\0cd", PASSWORD.encode() + b"\n\0"):
            file.write_bytes(content)
            for how in (["--password-file", file], ["--password-command", f"cat '{file}'"]):
                for command in (["list"], ["init", "-r", self.scratch / "new"]):
                    done = self.backup(*command, *how, env=none, code=INVALID)
                    self.assertIn("NUL byte", done.stderr)
                    self.assertNotIn("binary", done.stderr)
        self.assertFalse((self.scratch / "new").exists())

    @contextlib.contextmanager
    def terminal(self, *args):
        """A command that asks for its password at a terminal of its own, and waits there."""
        master, slave = pty.openpty()
        process = subprocess.Popen(
            [BIN, "backup", *args], env=self.environment(RESTIC_PASSWORD=""), stdin=slave,
            stdout=slave, stderr=slave, start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        try:
            self.wait_for(lambda: not self.shows(slave))
            yield process, master, slave
        finally:
            process.kill()
            process.wait()
            os.close(master)
            os.close(slave)

    def shows(self, terminal):
        return bool(termios.tcgetattr(terminal)[3] & termios.ECHO)

    def test_an_interrupt_leaves_a_terminal_that_shows_what_is_typed(self):
        for args, code in ((["list"], -signal.SIGINT), (["verify"], INTERRUPTED)):
            with self.subTest(args[0]), self.terminal(*args) as (process, master, slave):
                os.write(master, b"\x03")
                self.assertEqual(process.wait(TIMEOUT), code)
                self.assertTrue(self.shows(slave))

    def test_what_is_typed_is_taken_as_it_is(self):
        spaced = self.scratch / "spaced"
        self.backup("init", "-r", spaced, env={"RESTIC_PASSWORD": f" {PASSWORD} "})
        for typed, code in ((f" {PASSWORD} ", OK), (PASSWORD, UNAUTHENTICATED)):
            with self.terminal("list", "-r", spaced) as (process, master, slave):
                os.write(master, typed.encode() + b"\n")
                self.assertEqual(process.wait(TIMEOUT), code)
                self.assertTrue(self.shows(slave))


@unittest.skipUnless(CAN_MOUNT, "needs root")
class ReadOnly(UserTest):
    """Whoever may not write can still restore and verify; whoever must write is told why not."""

    def setUp(self):
        super().setUp()
        self.create("data@s1")
        self.create("data@s2")
        self.view = self.scratch / "view"
        self.view.mkdir()

    @contextlib.contextmanager
    def read_only(self):
        subprocess.run(["mount", "--bind", self.repository, self.view], check=True)
        try:
            subprocess.run(["mount", "-o", "remount,bind,ro", self.view], check=True)
            yield
        finally:
            subprocess.run(["umount", self.view], check=True)

    def reads(self):
        done = self.backup("verify", "-r", self.view)
        self.assertIn("without a lock", done.stderr)
        self.assertEqual(self.restored("latest", "-r", self.view),
                         digest(self.path("snapshot", "data@s2")))

    def test_what_reads_works_and_what_writes_says_why_not(self):
        with self.read_only():
            self.reads()
            other = self.scratch / "other"
            self.backup("init", "-r", other)
            self.backup("copy", "--from", self.view, "-r", other,
                        env={"RESTIC_FROM_PASSWORD": PASSWORD})
            self.backup("verify", "-r", other)
            for args in (["create", "data@s2"], ["forget", "--keep-last", "1"],
                         ["verify", "--repair"], ["copy", "--from", other]):
                done = self.backup(*args, "-r", self.view, code=PRECONDITION,
                                   env={"RESTIC_FROM_PASSWORD": PASSWORD})
                self.assertIn(f"'{self.view}/locks'", done.stderr)
                self.assertIn("Read-only file system", done.stderr)
        self.assertEqual(len(self.backups()), 2)

    def test_a_lock_of_the_dead_on_it_is_nobodys(self):
        with self.holder() as process:
            process.kill()
        self.assertTrue(self.files("locks"))
        with self.read_only():
            self.reads()


if __name__ == "__main__":
    main()
