# SPDX-License-Identifier: Apache-2.0
"""A repository on a disk without a byte left: it can be read, forgotten from and pruned."""
import contextlib
import errno
import os
import subprocess

from fakes3 import FakeS3
from repoworld import KEYS, Repository, main, require, same, skip

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


def every_second(source, target, chunk):
    """Makes a file of every second chunk of another."""
    data = source.read_bytes()
    target.write_bytes(b"".join(data[at:at + chunk] for at in range(0, len(data), 2 * chunk)))
    return target


def half_used(world, repository):
    """Packs of which a backup needs every second chunk. Returns it, and its content."""
    mixed = world.file("mixed", 12 * MIB, 4)
    first = repository.tool("put", "/v", mixed, "32768").good().out.strip()
    kept = every_second(mixed, world.dir / "kept", 32768)
    second = repository.tool("put", "/w", kept, "32768").good().out.strip()
    repository.tool("forget", first).good()
    return second, kept


def leave(point, size):
    """Leaves so many bytes of the disk free, and no more."""
    fill(point)
    os.truncate(point / "ballast", os.path.getsize(point / "ballast") - size)


def room_for_a_lock_but_for_no_index(world):
    """The lock is written without the reserve; the index then needs it."""
    with disk(world, "32m") as point:
        repository = repository_on(point, world)
        a, b = world.file("a", 4 * MIB, 1), world.file("b", 4 * MIB, 2)
        first = repository.tool("put", "/v", a, "4096").good().out.strip()
        second = repository.tool("put", "/w", b, "4096").good().out.strip()
        third = repository.tool("put", "/x", world.file("c", MIB, 3)).good().out.strip()
        repository.tool("forget", third).good()
        repository.tool("prune", "0").good()  # one index file for both
        require(len(list((point / "repo" / "index").iterdir())) == 1, "more than one index file")
        repository.tool("forget", first).good()
        leave(point, 12288)
        repository.tool("prune", "0").good()
        require(free(point) > 3 * MIB, f"{free(point)} bytes are free after the prune")
        repository.sound()
        repository.tool("get", second, "/w", world.dir / "back").good()
        same(b, world.dir / "back")


def nothing_to_free_is_no_error(world):
    """Small packs would be merged if there was room. That would free nothing."""
    with disk(world, "32m") as point:
        repository = repository_on(point, world)
        for i in range(30):
            repository.tool("put", "/v", world.file(f"s{i}", 30000, i)).good()
        fill(point)
        repository.tool("prune").good()
        require(len(repository.snapshots()) == 30, "a snapshot is gone")
        repository.tool("check", "--read-data", env=READING).good()


def packs_are_written_anew_as_far_as_there_is_room(world):
    """There is never room for all of them at once."""
    with disk(world, "32m") as point:
        repository = repository_on(point, world)
        second, kept = half_used(world, repository)
        leave(point, 2 * MIB)
        repository.tool("prune", "0").good()
        require(free(point) > 7 * MIB, f"{free(point)} bytes are free after the prune")
        repository.sound()
        repository.tool("get", second, "/w", world.dir / "back").good()
        same(kept, world.dir / "back")


def a_server_that_does_not_tell_its_space_is_asked_for_less(world):
    """What it refused is not counted as freed, and the next attempt writes half of it."""
    server = FakeS3()
    repository = Repository(f"s3:http://127.0.0.1:{server.port()}/bucket/path", world.dir, KEYS)
    repository.env["REPOTOOL_PACK"] = "200000"
    # Chunks in their order: half of every pack is used, and no half fits into 60000 bytes.
    repository.env["REPOTOOL_THREADS"] = "1"
    repository.tool("init").good()
    second, kept = half_used(world, repository)
    full = server.used()
    server.capacity = full + 60000
    repository.tool("prune", "0").good()  # the trees of the first
    server.capacity = server.used() + 60000
    repository.tool("prune", "0").bad("RESOURCE_EXHAUSTED", "nothing was deleted")
    server.capacity = full + 2 * MIB
    repository.tool("prune", "0").good()
    require(server.used() < full - 5 * MIB, f"{full - server.used()} bytes were freed")
    repository.sound()
    repository.tool("get", second, "/w", world.dir / "back").good()
    same(kept, world.dir / "back")
    server.shutdown()


def without_reserve_and_room_the_user_is_told_what_to_do(world):
    with disk(world, "16m") as point:
        repository = repository_on(point, world)
        repository.tool("put", "/v", world.file("a", 3 * MIB, 1)).good()
        (point / "repo" / ".cairn-reserve").unlink()
        fill(point)
        repository.tool("prune").bad("RESOURCE_EXHAUSTED", "room for a lock")


if os.geteuid() != 0:
    skip("a disk of our own needs root")
main([a_reserve_that_was_not_finished_is_filled, unused_packs_go_without_a_byte_free,
      partly_used_packs_are_written_anew_by_the_next_prune, room_for_a_lock_but_for_no_index,
      nothing_to_free_is_no_error, packs_are_written_anew_as_far_as_there_is_room,
      a_server_that_does_not_tell_its_space_is_asked_for_less,
      without_reserve_and_room_the_user_is_told_what_to_do])
