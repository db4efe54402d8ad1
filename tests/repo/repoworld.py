# SPDX-License-Identifier: Apache-2.0
"""What the tests of the repository layer share: repotool, restic, servers that
keep repositories, and a scratch directory that goes away at the end."""
import concurrent.futures
import contextlib
import hashlib
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cluster"))

# pylint: disable=wrong-import-position
from processes import free_port

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOL = os.environ.get("REPOTOOL", "")
PASSWORD = "open sesame"
KEYS = {"AWS_ACCESS_KEY_ID": "AKTEST", "AWS_SECRET_ACCESS_KEY": "secret/of+test"}
LIMIT = 300  # seconds for one command
AT_ONCE = 4  # tests


class Broken(Exception):
    """What was promised does not hold."""


def require(condition, text):
    if not condition:
        raise Broken(text)


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def peer(name):
    """The program that scripts/peers builds, or the end of the test."""
    done = subprocess.run([ROOT / "scripts/peers", name], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        skip(f"scripts/peers can not build {name} here")
    return done.stdout.split()[1]


class Done:
    """What a command said and how it ended."""

    def __init__(self, command, result):
        self.command = " ".join(map(str, command))
        self.status, self.out, self.err = result.returncode, result.stdout, result.stderr

    def good(self):
        require(self.status == 0,
                f"{self.command}: status {self.status}\n{self.out[-2000:]}{self.err[-2000:]}")
        return self

    def bad(self, *texts):
        require(self.status != 0, f"{self.command}: succeeded\n{self.out}")
        require(self.status > 0, f"{self.command}: died of signal {-self.status}")
        for text in texts:
            require(text in self.err + self.out,
                    f"{self.command}: does not say '{text}':\n{self.err}")
        return self


def run(command, env, **more):
    result = subprocess.run([str(c) for c in command], env=env, stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            errors="replace", timeout=LIMIT, check=False, **more)
    return Done(command, result)


class Repository:
    """A place, seen by repotool and by restic."""

    def __init__(self, location, directory, env=None):
        self.location = location
        self.env = dict(os.environ, CAIRN_REPOSITORY=location, RESTIC_REPOSITORY=location,
                        RESTIC_PASSWORD=PASSWORD, RESTIC_CACHE_DIR=f"{directory}/cache",
                        REPOTOOL_KDF_N="16", REPOTOOL_RETRY_MS="20000", **(env or {}))

    def tool(self, *args, env=None):
        return run([TOOL, *args], dict(self.env, **(env or {})))

    def restic(self, program, *args, env=None, cwd=None):
        return run([program, *args], dict(self.env, **(env or {})), cwd=cwd)

    def snapshots(self):
        """Ids, the oldest first."""
        return [line.split()[0] for line in self.tool("list").good().out.splitlines()]

    def sound(self):
        """repotool finds nothing wrong, also when it reads everything."""
        self.tool("check", "--read-data").good()

    def sound_to(self, *programs):
        self.sound()
        for program in programs:
            done = self.restic(program, "check", "--read-data").good()
            require("no errors were found" in done.out, f"{program} check: {done.out}")


def init_at_once(repository, makers):
    """How many made it; each of the others must have been refused."""
    processes = [subprocess.Popen([TOOL, "init"], env=repository.env, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True) for _ in range(makers)]
    made = 0
    for process in processes:
        out = process.communicate(timeout=LIMIT)[0]
        if process.returncode == 0:
            made += 1
        else:
            require("ALREADY_EXISTS" in out, f"init said: {out}")
    return made


def wait_for_port(port, process):
    end = time.monotonic() + LIMIT
    while time.monotonic() < end:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        require(process.poll() is None, "a server ended at once")
        time.sleep(0.05)
    raise Broken("a server does not come up")


class World:
    """A scratch directory and the servers started in it."""

    def __init__(self, parent=None):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="cairn-repo-", dir=parent))
        self.processes = []
        self.n = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            process.wait()
        for path in self.dir.rglob("*"):  # restic's directories may be read only
            if path.is_dir() and not path.is_symlink():
                path.chmod(0o700)
        shutil.rmtree(self.dir)

    def start(self, command, port, env=None):
        log = open(self.dir / f"log{len(self.processes)}", "wb")
        process = subprocess.Popen([str(c) for c in command], stdin=subprocess.DEVNULL,
                                   stdout=log, stderr=log, env=dict(os.environ, **(env or {})))
        self.processes.append(process)
        wait_for_port(port, process)
        return process

    def make(self, name):
        self.n += 1
        path = self.dir / f"{name}{self.n}"
        path.mkdir()
        return path

    def file(self, name, size, seed, zeros=0):
        """A file of bytes that do not compress, and zeros behind them."""
        path = self.dir / name
        with open(path, "wb") as f:
            left = size
            block = 0
            while left > 0:
                data = b"".join(hashlib.sha256(b"%d %d %d" % (seed, block, i)).digest()
                                for i in range(2048))
                f.write(data[:left])
                left -= len(data)
                block += 1
            f.truncate(size + zeros)
        return path

    def rest_server(self):
        port = free_port()
        self.start([peer("rest-server"), "--listen", f"127.0.0.1:{port}", "--no-auth",
                    "--path", self.make("rest")], port)
        return port

    def s3_server(self, *more):
        port = free_port()
        directory = self.make("s3")
        self.start([peer("versitygw"), "-q", "--port", f"127.0.0.1:{port}", *more, "posix",
                    directory], port,
                   {"ROOT_ACCESS_KEY": KEYS["AWS_ACCESS_KEY_ID"],
                    "ROOT_SECRET_KEY": KEYS["AWS_SECRET_ACCESS_KEY"]})
        return port, directory

    def repository(self, kind):
        if kind == "directory":
            return Repository(str(self.make("dir") / "repo"), self.dir)
        if kind == "rest":
            return Repository(f"rest:http://127.0.0.1:{self.rest_server()}/one/", self.dir)
        port, _ = self.s3_server()
        return Repository(f"s3:http://127.0.0.1:{port}/bucket/some/path", self.dir, KEYS)


def same(a, b):
    with open(a, "rb") as x, open(b, "rb") as y:
        while True:
            data = x.read(1 << 20)
            require(data == y.read(1 << 20), f"{a} and {b} differ")
            if not data:
                return


def change(path, seed, count, size=4096):
    """Rewrites `count` blocks of a file."""
    total = os.path.getsize(path)
    with open(path, "r+b") as f:
        for i in range(count):
            where = int.from_bytes(hashlib.sha256(b"%d/%d" % (seed, i)).digest()[:6], "big")
            f.seek(where % (total // size) * size)
            f.write((hashlib.sha256(b"%d:%d" % (seed, i)).digest() * (size // 32 + 1))[:size])


def broken(test):
    """What is wrong, if anything; in a world of its own."""
    try:
        with World() as world:
            test(world)
    except (Broken, subprocess.TimeoutExpired) as why:
        return why
    return None


def main(tests):
    """Runs the named tests, or all, some beside each other, because they mostly wait; a line
    for each."""
    if not TOOL:
        sys.exit("REPOTOOL is not set")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    chosen = [test for test in tests if len(sys.argv) == 1 or test.__name__ in sys.argv[1:]]
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        for test, why in zip(chosen, pool.map(broken, chosen)):
            failed += why is not None
            print(f"FAILED {test.__name__}: {why}" if why else f"ok {test.__name__}", flush=True)
    sys.exit(1 if failed else 0)
