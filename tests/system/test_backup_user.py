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

from backupcli import PASSWORD, RESTIC, BackupTest, digest
from cairncli import ABORTED, BIN, CAN_MOUNT, DENIED, INVALID, NOT_FOUND, OK, PRECONDITION, TIMEOUT, main

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
            self.backup("forget", "--keep-last", "1", "--prune", "--dry-run", "--lock-wait", "0")
            process = self.begin("forget", "--prune", "--lock-wait", "1h")
            self.wait_for(lambda: self.catches(process.pid))
            self.interrupt(process)

    def test_a_mount_is_not_laid_over_a_file(self):
        file = self.scratch / "file"
        file.write_bytes(b"mine")
        self.assertIn("not a directory", self.cairn("mount", file, code=INVALID).stderr)
        self.cairn("mount", self.scratch / "nowhere", code=NOT_FOUND)

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


class Refusal(http.server.BaseHTTPRequestHandler):
    """As S3 refuses a key: a HEAD has no body that says why."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        body = (b'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>InvalidAccessKeyId</Code>'
                b'<Message>There is no such key.</Message></Error>')
        self.send_response(403)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    do_HEAD = do_GET


class Refused(UserTest):
    def test_the_stores_reason_is_told(self):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Refusal)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            done = self.backup("list", "-r", f"s3:http://127.0.0.1:{server.server_address[1]}/b",
                               env={"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"},
                               code=DENIED)
        finally:
            server.shutdown()
            server.server_close()
        self.assertIn("403: InvalidAccessKeyId: There is no such key.", done.stderr)


class Pods(http.server.BaseHTTPRequestHandler):
    """An API server that has one pod, and nothing else for us."""

    protocol_version = "HTTP/1.1"
    asked = []

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.asked.append(self.path)
        pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"image": "here/cairn:9"}]}}
        found = "/pods?" in self.path and "metadata.name%3Dp" in self.path
        body = json.dumps({"kind": "PodList", "apiVersion": "v1", "metadata": {},
                           "items": [pod] if found else []} if "/pods?" in self.path else
                          {"kind": "Status", "status": "Failure", "code": 403,
                           "message": "not yours"}).encode()
        self.send_response(200 if "/pods?" in self.path else 403)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class OwnImage(UserTest):
    def test_a_job_has_the_image_of_the_pod_that_makes_it(self):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Pods)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        config = self.scratch / "kubeconfig"
        config.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "c", "users": [],
            "clusters": [{"name": "k", "cluster":
                          {"server": f"http://127.0.0.1:{server.server_address[1]}"}}],
            "contexts": [{"name": "c", "context": {"cluster": "k"}}]}))
        args = ("create", "--namespace", "n", "--pvc", "data", "--repository-secret", "s",
                "--kubeconfig", config)
        try:
            done = self.backup(*args, env={"CAIRN_POD": "q", "CAIRN_IMAGE": ""}, code=NOT_FOUND)
            self.assertIn("no pod 'q' in namespace 'n'", done.stderr)
            done = self.backup(*args, env={"CAIRN_POD": "p", "CAIRN_IMAGE": ""}, code=DENIED)
            self.assertNotIn("pod", done.stderr)
        finally:
            server.shutdown()
            server.server_close()


class Passwords(UserTest):
    def test_a_line_end_behind_the_variable_is_no_part_of_it(self):
        self.backup("list", env={"RESTIC_PASSWORD": PASSWORD + "\n"})
        self.backup("list", env={"RESTIC_PASSWORD": PASSWORD + "\r\n"})
        self.backup("list", env={"RESTIC_PASSWORD": PASSWORD + " "}, code=16)
        # restic keeps it: what it made from such a variable opens too.
        other = {"RESTIC_PASSWORD": PASSWORD + "\n", "RESTIC_REPOSITORY": str(self.scratch / "o"),
                 "CAIRN_REPOSITORY": str(self.scratch / "o")}
        subprocess.run([RESTIC or self.skipTest("there is no restic"), "init"], check=True,
                       env=self.environment(**other), capture_output=True)
        self.backup("list", env=other)

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
