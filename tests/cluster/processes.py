# SPDX-License-Identifier: Apache-2.0
"""Processes of a test bed, in a directory: what was started, and how to stop exactly that.

They may outlive the program that started them. Each is known by its pid and by the
time it started at, so that a pid that was used again is never taken for it.
"""
import contextlib
import os
import pathlib
import signal
import socket
import subprocess
import time

STOP_TIME = 15   # seconds from SIGTERM to SIGKILL
KILL_TIME = 120  # seconds from SIGKILL to the end; a busy machine also writes what is left
READY_TIME = 180  # seconds; only a hang reaches it, also on a busy machine


class Failed(Exception):
    """A part of the test bed does not work; the text says which and where to look."""


def wait_until(condition, seconds, what):
    """Calls `condition` until it gives something true, which is returned."""
    end = time.monotonic() + seconds
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() > end:
            raise Failed(f"{what}: not within {seconds} seconds")
        time.sleep(0.05)


def started_at(pid):
    """In ticks since boot; None if there is no such process, or only a zombie of it."""
    try:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in "ZX" else fields[19]


class Ports:
    """Free ports of the loopback address, below those that the kernel gives to clients.

    A port is reserved, for all test beds of the machine, by an abstract socket that is
    closed with this object: by then its server listens, which can be seen.
    """

    FIRST, LAST = 10000, 30000

    def __init__(self):
        self.reserved = []

    def take(self, count=1):
        """The first of so many neighbouring ports."""
        while True:
            first = self.FIRST + int.from_bytes(os.urandom(4), "big") % (self.LAST - self.FIRST)
            marks = []
            try:
                for port in range(first, first + count):
                    marks.append(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
                    marks[-1].bind(f"\0cairn-test-port-{port}")
                    with socket.socket() as probe:
                        probe.bind(("127.0.0.1", port))
            except OSError:
                for mark in marks:
                    mark.close()
                continue
            self.reserved += marks
            return first

    def close(self):
        for mark in self.reserved:
            mark.close()
        self.reserved = []


KEPT = Ports()


def free_port(count=1):
    """One that stays reserved until the program ends, also while its server is stopped; or the
    first of several."""
    return KEPT.take(count)


class Processes:
    def __init__(self, directory):
        self.logs, self.run = directory / "log", directory / "run"
        self.children = {}
        self.commands = {}

    def start(self, name, command, environment=None, directory="/"):
        """Starts it in a session of its own; what it writes goes to log/NAME."""
        self.logs.mkdir(exist_ok=True)
        self.run.mkdir(exist_ok=True)
        command = [str(word) for word in command]
        with open(self.logs / name, "ab") as log:
            child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                     cwd=directory, start_new_session=True,
                                     env={**os.environ, **(environment or {})})
        self.children[name] = child
        self.commands[name] = (command, environment)
        (self.run / name).write_text(f"{child.pid} {started_at(child.pid)} {time.time_ns()}\n")

    def restart(self, name):
        """Again, with the same words; only by who started it."""
        self.stop(name)
        self.start(name, *self.commands[name])

    def read(self, name):
        try:
            pid, start, order = (self.run / name).read_text().split()
        except FileNotFoundError:
            return None, None, 0
        return int(pid), start, int(order)

    def names(self):
        """In the order they were started in."""
        if not self.run.exists():
            return []
        return sorted((entry.name for entry in self.run.iterdir()),
                      key=lambda name: self.read(name)[2])

    def pid(self, name):
        """None if it does not run."""
        pid, start, _ = self.read(name)
        return pid if pid and started_at(pid) == start else None

    def is_alive(self, name):
        return self.pid(name) is not None

    def signal(self, name, number):
        pid = self.pid(name)
        if pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        return pid is not None

    def wait_ready(self, name, condition, seconds=READY_TIME):
        def is_ready():
            if not self.is_alive(name):
                raise Failed(f"{name} ended\n{self.log_tail(name)}")
            return condition()
        try:
            wait_until(is_ready, seconds, f"{name} is ready")
        except Failed as failed:
            raise Failed(f"{failed}\n{self.log_tail(name)}") from None

    def log_text(self, name):
        return (self.logs / name).read_text(errors="replace")

    def log_tail(self, name, lines=15):
        return "\n".join(self.log_text(name).splitlines()[-lines:])

    def reap(self, name):
        child = self.children.pop(name, None)
        if child:
            child.wait(KILL_TIME)

    def kill(self, name):
        """At once, as a crash does."""
        self.signal(name, signal.SIGKILL)
        wait_until(lambda: not self.is_alive(name), KILL_TIME, f"{name} is gone")
        self.reap(name)
        (self.run / name).unlink(missing_ok=True)

    def stop(self, name):
        self.signal(name, signal.SIGTERM)
        try:
            wait_until(lambda: not self.is_alive(name), STOP_TIME, f"{name} is gone")
        except Failed:
            self.kill(name)
        self.reap(name)
        (self.run / name).unlink(missing_ok=True)

    def stop_all(self, but=()):
        for name in reversed(self.names()):
            if name not in but:
                self.stop(name)
