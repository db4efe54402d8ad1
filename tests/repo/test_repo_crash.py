#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Killed, or out of room, at every call that changes a repository.

Usage: test_repo_crash.py [--all] [OPERATION...]

A backup, a forget with prune, and the making of a repository are run once to
count their calls, then again with a kill before or after the n-th, and with the
n-th failing. After each: every snapshot that was acknowledged restores to the
same bytes, a check that reads everything finds nothing, and the operation works
when it is asked again. Without --all some of the calls are tried, each with two of the kinds of
fault, or with all kinds if CAIRN_TEST_THOROUGH is 1.

REPOTOOL is the program, CAIRN_SHIM the shim (tests/tools/shim).
"""
import contextlib
import itertools
import os
import shutil
import subprocess
import sys

from repoworld import Repository, Broken, World, change, require, same, skip

SHIM = os.environ.get("CAIRN_SHIM", "")
ALL = "--all" in sys.argv
EVERY_KIND = ALL or os.environ.get("CAIRN_TEST_THOROUGH") == "1"
KINDS_EACH = 2
SOME = 8
MIB = 1 << 20
QUICK = {"REPOTOOL_PACK": "200000", "REPOTOOL_LOCK_PAUSE_MS": "1"}


class Scene:
    """A repository with two backups; each trial works on a copy of it."""

    def __init__(self, world):
        self.world = world
        self.volumes = [world.file(f"volume{i}", 400_000, 1) for i in range(3)]
        change(self.volumes[1], 11, 30)
        change(self.volumes[2], 12, 30)
        self.origin = world.make("origin") / "repo"
        repository = self.at(self.origin)
        repository.tool("init").good()
        self.kept = [repository.tool("put", "/v", v, "8K").good().out.strip()
                     for v in self.volumes[:2]]

    def at(self, path):
        return Repository(str(path), self.world.dir, QUICK)

    def fresh(self):
        path = self.world.dir / "trial"
        if path.exists():
            shutil.rmtree(path)
        shutil.copytree(self.origin, path)
        return self.at(path)

    def restores(self, repository, snapshot, volume):
        out = self.world.dir / "out"
        repository.tool("get", snapshot, "/v", out).good()
        same(out, volume)


def with_shim(repository, count, *args, **plan):
    """Runs under the shim; returns what came of it and how many calls it made."""
    if os.path.exists(count):
        os.unlink(count)
    env = {"LD_PRELOAD": SHIM, "CAIRN_SHIM_COUNT": str(count),
           "CAIRN_SHIM_DIRS": os.path.dirname(repository.location)}
    env.update({f"CAIRN_SHIM_{key.upper()}": str(value) for key, value in plan.items()})
    done = repository.tool(*args, env=env)
    with open(count, "rb") as f:
        return done, int.from_bytes(f.read(8), sys.byteorder)


def calls(n):
    if ALL or n <= SOME:
        return range(1, n + 1)
    return sorted({1 + i * n // SOME for i in range(SOME)} | {n - 1, n})


def plans(n):
    turn = itertools.count()
    for call in calls(n):
        kinds = [{"kill_at": call, "kill_when": "before"},
                 {"kill_at": call, "kill_when": "after"},
                 {"fail_at": call, "fail_errno": "ENOSPC"},
                 {"fail_at": call, "fail_errno": "ENOSPC", "fail_mode": "after"},
                 {"fail_at": call, "fail_errno": "EIO"}]
        if EVERY_KIND:
            yield from kinds
        else:
            yield from (kinds[next(turn) % len(kinds)] for _ in range(KINDS_EACH))


def judged(done, plan):
    if "kill_at" in plan:
        require(done.status in (0, 1, -9), f"{plan}: status {done.status}")
        return
    require(done.status in (0, 1), f"{plan}: status {done.status}")
    if done.status == 1:
        require(done.err.strip().splitlines()[-1].startswith("repotool: "),
                f"{plan}: no clear error: {done.err}")


def trials(scene, args, check, start=None):
    """Each plan on a fresh copy; `check` looks at what is left."""
    count = scene.world.dir / "count"
    repository = start() if start else scene.fresh()
    done, n = with_shim(repository, count, *args)
    done.good()
    require(n > 5, f"only {n} calls seen")
    tried = 0
    for plan in plans(n):
        repository = start() if start else scene.fresh()
        done, _ = with_shim(repository, count, *args, **plan)
        try:
            judged(done, plan)
            check(repository, done)
        except Broken as broken:
            raise Broken(f"{args[0]}, {plan} of {n}: {broken}") from broken
        tried += 1
    print(f"{args[0]}: {n} calls, {tried} trials", flush=True)


def nothing_half(repository):
    """A prune has removed what the dead were writing."""
    for _, _, names in os.walk(repository.location):
        for name in names:
            require("-tmp-" not in name, f"{name} is left")


def backup(scene):
    def check(repository, done):
        repository.sound()
        for snapshot, volume in zip(scene.kept, scene.volumes):
            scene.restores(repository, snapshot, volume)
        ids = repository.snapshots()
        if done.status == 0:
            require(done.out.strip() in ids, "an acknowledged snapshot is gone")
        for snapshot in set(ids) - set(scene.kept):
            scene.restores(repository, snapshot, scene.volumes[2])
        # again, and what was sent is not sent again
        again = repository.tool("put", "/v", scene.volumes[2], "8K",
                                env={"REPOTOOL_ADOPT": "1"}).good().out.strip()
        scene.restores(repository, again, scene.volumes[2])
        repository.sound()
        repository.tool("prune", "0").good()
        repository.sound()
        nothing_half(repository)

    trials(scene, ("put", "/v", scene.volumes[2], "8K"), check)


def prune(scene):
    def check(repository, done):
        repository.sound()
        scene.restores(repository, scene.kept[1], scene.volumes[1])
        repository.tool("prune", "0").good()
        repository.sound()
        nothing_half(repository)
        scene.restores(repository, scene.kept[1], scene.volumes[1])
        repository.tool("put", "/v", scene.volumes[2], "8K").good()
        if done.status == 0:
            return

    def start():
        repository = scene.fresh()
        repository.tool("forget", scene.kept[0]).good()
        return repository

    trials(scene, ("prune", "0"), check, start)


@contextlib.contextmanager
def full_disk(world):
    """A small disk, as a directory, and a function that leaves so many bytes of it free."""
    point = world.make("disk")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", point], check=True)

    def leave(size):
        with open(point / "ballast", "wb", buffering=0) as ballast:
            os.posix_fallocate(ballast.fileno(), 0, max(free_of(point) - size, 1))

    try:
        yield point, leave
    finally:
        subprocess.run(["umount", point], check=True)


def free_of(point):
    fs = os.statvfs(point)
    return fs.f_bavail * fs.f_frsize


def prune_full(scene):
    """Packs to delete and packs to rewrite, and room for a few of them."""
    if os.geteuid() != 0:
        print("prune_full: a disk of our own needs root", flush=True)
        return

    def check(repository, _):
        repository.tool("check", "--read-data", env={"REPOTOOL_LOCK_OPTIONAL": "1"}).good()
        scene.restores(repository, kept, half)
        repository.tool("prune", "0").good()
        repository.sound()
        nothing_half(repository)
        scene.restores(repository, kept, half)
        require(free_of(point) > before + MIB, f"{free_of(point)} bytes are free, {before} before")

    def start():
        shutil.rmtree(point / "trial", ignore_errors=True)
        (point / "ballast").unlink(missing_ok=True)
        shutil.copytree(origin, point / "trial")
        leave(before)
        return scene.at(point / "trial")

    origin = scene.world.dir / "origin-full"
    repository = scene.at(origin)
    repository.tool("init").good()
    whole = scene.world.file("whole", 3 * MIB, 7)
    data = whole.read_bytes()
    half = scene.world.dir / "half"
    half.write_bytes(b"".join(data[at:at + 8192] for at in range(0, 2 * MIB, 16384)))
    first = repository.tool("put", "/v", whole, "8K").good().out.strip()
    kept = repository.tool("put", "/v", half, "8K").good().out.strip()
    repository.tool("forget", first).good()
    with full_disk(scene.world) as (point, leave):
        for before in (16384, 3 * MIB // 2):  # for a lock, and for the index and some packs
            trials(scene, ("prune", "0"), check, start)


def init(scene):
    def check(repository, done):
        if done.status != 0:
            done = repository.tool("init")
            require(done.status == 0 or "ALREADY_EXISTS" in done.err, done.err)
        snapshot = repository.tool("put", "/v", scene.volumes[0]).good().out.strip()
        scene.restores(repository, snapshot, scene.volumes[0])
        repository.sound()

    def start():
        path = scene.world.dir / "new"
        if path.exists():
            shutil.rmtree(path)
        path.mkdir()
        return scene.at(path / "repo")

    trials(scene, ("init",), check, start)


def main():
    if not SHIM:
        skip("there is no shim in this build")
    # A kill does not need a disk, and hundreds of trials need not wait for one.
    with World("/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as world:
        scene = Scene(world)
        chosen = [arg for arg in sys.argv[1:] if not arg.startswith("-")]
        for operation in (backup, prune, prune_full, init):
            if chosen and operation.__name__ not in chosen:
                continue
            try:
                operation(scene)
            except Broken as broken:
                print(f"FAILED {broken}")
                sys.exit(1)


main()
