#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What people do to `cairn backup` beside using it well: they interrupt it, have no right to write,
keep passwords in odd files, and restore twice at a time."""
import contextlib
import signal
import socket
import subprocess
import threading
import unittest

from backupcli import PASSWORD, BackupTest, digest
from cairncli import BIN, CAN_MOUNT, PRECONDITION, TIMEOUT, main

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

    def catches(self, pid):
        """Its handler is set: an interrupt before that just ends it."""
        with open(f"/proc/{pid}/status", encoding="ascii") as file:
            caught = next(line for line in file if line.startswith("SigCgt"))
        return int(caught.split()[1], 16) >> (signal.SIGINT - 1) & 1


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
