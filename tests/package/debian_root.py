# SPDX-License-Identifier: Apache-2.0
"""A bare Debian 12 with the libraries that packages depend on, made once and kept in the cache."""
import contextlib
import fcntl
import hashlib
import os
import pathlib
import shutil
import subprocess
import tempfile

SUITE = "bookworm"
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "cairn"
# What a minimal Debian lacks and the quick start uses.
TOOLS = ["btrfs-progs", "e2fsprogs", "mount", "kmod"]


def run(*words, **how):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True,
                          check=False, timeout=1500, **how)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, words))}: status {done.returncode}\n"
                             f"{done.stdout[-4000:]}{done.stderr[-4000:]}")
    return done.stdout


def make_archive(include, archive):
    with tempfile.TemporaryDirectory(dir=CACHE) as place:
        root = pathlib.Path(place) / "root"
        run("debootstrap", "--variant=minbase", f"--include={','.join(include)}", SUITE, root)
        shutil.rmtree(root / "var/cache/apt/archives")
        shutil.rmtree(root / "var/lib/apt/lists")
        run("tar", "--create", "--zstd", "--file", f"{archive}.new", "--directory", root, ".",
            env={**os.environ, "ZSTD_NBTHREADS": "1"})
    os.rename(f"{archive}.new", archive)


def archive_with(packages):
    """The archive of a root that has `packages`, which it makes unless it is there."""
    include = sorted({*packages, *TOOLS})
    key = hashlib.sha256(" ".join(include).encode()).hexdigest()[:16]
    archive = CACHE / f"debian-{SUITE}-{key}.tar.zst"
    CACHE.mkdir(parents=True, exist_ok=True)
    with open(f"{archive}.lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not archive.exists():
            make_archive(include, archive)
    return archive


class Root:
    """A directory with a Debian in it. Commands run in a mount namespace of its own."""

    MOUNTS = ("mount -t proc proc {0}/proc && mount --rbind /sys {0}/sys && mount --rbind /dev {0}/dev"
              " && mount -t tmpfs run {0}/run && exec sleep infinity")

    def __init__(self, directory, archive):
        self.directory = pathlib.Path(directory)
        run("tar", "--extract", "--zstd", "--file", archive, "--directory", self.directory)
        # The root is a mount, so that mounts in it are shared by all of its commands.
        self.keeper = subprocess.Popen(
            ["unshare", "--mount", "--propagation", "slave", "sh", "-ec",
             f"mount --bind {self.directory} {self.directory}; cd {self.directory}; "
             + self.MOUNTS.format(self.directory)])

    def wait_ready(self, wait_until):
        wait_until(lambda: self.ask("test", "-e", "/proc/self/exe", "-a", "-e", "/dev/null")
                   .returncode == 0)

    def words(self, *words):
        return ["nsenter", "--target", str(self.keeper.pid), "--mount", "chroot",
                str(self.directory), *[str(word) for word in words]]

    ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LC_ALL": "C.UTF-8",
                   "DEBIAN_FRONTEND": "noninteractive"}

    def ask(self, *words):
        return subprocess.run(self.words(*words), capture_output=True, text=True, check=False,
                              timeout=600, env=self.ENVIRONMENT)

    def run(self, *words):
        return run(*self.words(*words), env=self.ENVIRONMENT)

    def start(self, *words):
        return subprocess.Popen(self.words(*words), env=self.ENVIRONMENT,
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def files(self):
        """Everything in it but what is mounted and what dpkg and ldconfig keep."""
        found = run("find", self.directory, "-xdev", "-not", "-type", "d", "-printf", "/%P\n",
                    "-o", "-type", "d", "-printf", "/%P/\n").splitlines()
        kept = ("/var/lib/dpkg/", "/var/log/", "/var/cache/", "/etc/ld.so.cache", "/tmp/", "/run/")
        return {name for name in found if not name.startswith(kept)}

    def close(self):
        with contextlib.suppress(ProcessLookupError):
            self.keeper.kill()
        self.keeper.wait()
