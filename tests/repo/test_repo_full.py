# SPDX-License-Identifier: Apache-2.0
"""A repository on a disk without a byte left: it can be read, forgotten from and pruned."""
import contextlib
import errno
import os
import subprocess

from repoworld import Repository, main, require, same, skip

MIB = 1 << 20
READING = {"REPOTOOL_LOCK_OPTIONAL": "1"}


@contextlib.contextmanager
def disk(world, size):
    """A small disk, as a directory."""
    point = world.make("disk")
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},nr_inodes=4000", "tmpfs", point],
                   check=True)
    try:
        yield point
    finally:
        subprocess.run(["umount", point], check=True)


def fill(point):
    """Takes what is left, as another user of the disk does."""
    fd = os.open(point / "ballast", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    size = 65536
    while size:
        try:
            os.write(fd, os.urandom(size))
        except OSError as e:
            require(e.errno == errno.ENOSPC, f"filling: {e}")
            size //= 2
    os.close(fd)
    require(free(point) == 0, f"{free(point)} bytes are left")


def free(point):
    fs = os.statvfs(point)
    return fs.f_bavail * fs.f_frsize


def repository_on(point, world):
    repository = Repository(str(point / "repo"), world.dir)
    repository.env["REPOTOOL_PACK"] = "200000"
    repository.tool("init").good()
    return repository


def a_reserve_that_was_not_finished_is_filled(world):
    with disk(world, "16m") as point:
        repository = repository_on(point, world)
        reserve = point / "repo" / ".cairn-reserve"
        whole = reserve.stat().st_size
        require(whole > 0, "there is no reserve")
        os.truncate(reserve, whole // 2)
        repository.tool("prune").good()
        require(reserve.stat().st_size == whole, f"it has {reserve.stat().st_size} of {whole}")


def unused_packs_go_without_a_byte_free(world):
    with disk(world, "16m") as point:
        repository = repository_on(point, world)
        a, b = world.file("a", 3 * MIB, 1), world.file("b", 3 * MIB, 2)
        first = repository.tool("put", "/v", a).good().out.strip()
        second = repository.tool("put", "/w", b).good().out.strip()
        fill(point)
        repository.tool("get", second, "/w", world.dir / "back", env=READING).good()
        same(b, world.dir / "back")
        repository.tool("put", "/x", world.file("c", MIB, 3)).bad("RESOURCE_EXHAUSTED")
        repository.tool("forget", first).good()
        fill(point)
        repository.tool("prune", "0").good()
        require(free(point) > 2 * MIB, f"{free(point)} bytes are free after the prune")
        repository.sound()
        repository.tool("get", second, "/w", world.dir / "again").good()
        same(b, world.dir / "again")
        repository.tool("put", "/x", world.dir / "c").good()
        repository.sound()


def partly_used_packs_are_written_anew_by_the_next_prune(world):
    with disk(world, "16m") as point:
        repository = repository_on(point, world)
        mixed = world.file("mixed", 4 * MIB, 4)
        repository.tool("put", "/v", mixed, "32768").good()
        kept = world.dir / "kept"
        with open(mixed, "rb") as source, open(kept, "wb") as target:
            for at in range(0, 4 * MIB, 65536):  # every second chunk
                source.seek(at)
                target.write(source.read(32768))
        second = repository.tool("put", "/w", kept, "32768").good().out.strip()
        for snapshot in repository.snapshots():
            if snapshot != second:
                repository.tool("forget", snapshot).good()
        fill(point)
        repository.tool("prune", "0").good()  # the trees of the first
        fill(point)
        repository.tool("prune", "0").bad("RESOURCE_EXHAUSTED", "nothing was deleted")
        repository.tool("check", "--read-data", env=READING).good()
        os.truncate(point / "ballast", os.path.getsize(point / "ballast") - 3 * MIB)
        repository.tool("prune", "0").good()
        repository.sound()
        repository.tool("get", second, "/w", world.dir / "back").good()
        same(kept, world.dir / "back")


if os.geteuid() != 0:
    skip("a disk of our own needs root")
main([a_reserve_that_was_not_finished_is_filled, unused_packs_go_without_a_byte_free,
      partly_used_packs_are_written_anew_by_the_next_prune])
