#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What people do to `cairn backup` beside using it well: they interrupt it, have no right to write,
keep passwords in odd files, and restore twice at a time."""
import signal
import socket
import subprocess
import threading

from backupcli import PASSWORD, BackupTest
from cairncli import BIN, OK, TIMEOUT, main

INTERRUPTED = 128 + signal.SIGINT


class Interrupt(BackupTest):
    """The first interrupt ends whatever is waited for, and what was begun is put in order."""

    def setUp(self):
        super().setUp()
        self.init()
        self.two_snapshots()

    def start(self, *args, **extra):
        return subprocess.Popen([BIN, "backup", *map(str, args)], stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                env=self.environment(**extra))

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
                process = self.start(*args, "-r", f"rest:http://127.0.0.1:{port}/",
                                     RESTIC_FROM_PASSWORD=PASSWORD)
                self.assertTrue(asked.wait(TIMEOUT))
                self.interrupt(process)
                listener.shutdown(socket.SHUT_RDWR)

    def test_somebody_elses_lock(self):
        with socket.socket() as gateway:  # that does not answer: the lock is held meanwhile
            gateway.bind(("127.0.0.1", 0))
            gateway.listen()
            gateway.settimeout(TIMEOUT)
            holder = self.start("create", "data@s1", "--push-gateway",
                                f"http://127.0.0.1:{gateway.getsockname()[1]}")
            connection = gateway.accept()[0]
            process = self.start("forget", "--prune", "--lock-wait", "1h")
            self.wait_for(lambda: self.catches(process.pid))
            self.interrupt(process)
            connection.close()
            holder.communicate(timeout=TIMEOUT)
            self.assertEqual(holder.returncode, OK)

    def catches(self, pid):
        """Its handler is set: an interrupt before that just ends it."""
        with open(f"/proc/{pid}/status", encoding="ascii") as file:
            caught = next(line for line in file if line.startswith("SigCgt"))
        return int(caught.split()[1], 16) >> (signal.SIGINT - 1) & 1


if __name__ == "__main__":
    main()
