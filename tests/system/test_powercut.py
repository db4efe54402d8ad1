#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Never lost: a sync fails, the work goes on, and then the power is cut.

Usage: test_powercut.py [--all|--places N] [--part K/N] [--case NAME] [--at N] [--seed N]

A copy pool lies on tests/tools/shim/forgetfs, which forgets what was not synced; a sync
that fails there drops the dirty pages and the next one succeeds, as on Linux. One
story of commands is run again and again, each time with another sync failing, or
with a kill at another call. After the power cut all that was acknowledged must be
there with its bytes and deltas, and every command must work again. Without --all a
few of the places are tried, twice as many if CAIRN_TEST_THOROUGH is 1; with --part only every
N-th from the K-th on, so that N runs together try all of them.

CAIRN_BIN is the program, CAIRN_SHIM and CAIRN_FORGETFS are from tests/tools/shim.
"""
import argparse
import itertools
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from cairncli import BIN, BLOCK, MIB, THOROUGH, Part
from crashworld import SHIM, Broken, World, require

FORGETFS = os.environ.get("CAIRN_FORGETFS", "forgetfs")
FULL_COMMANDS = 3
SOME = 6 if THOROUGH else 3  # places tried of each case, without --all
# A process that makes a change set behind the command does not outlive a power cut, but would
# outlive the test's.
WAIT = ("--set-wait", "10m")


class ForgetFs:
    """The mounted filesystem and its commands."""

    def __init__(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="cairn-forget-"))
        self.process = subprocess.Popen([FORGETFS, self.dir], text=True, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.works = self.process.stdout.readline() == "ready\n"
        self.counter = self.dir.with_suffix(".count")  # not on it: it would be forgotten

    def tell(self, *words):
        print(*words, file=self.process.stdin, flush=True)
        return [int(word) for word in self.process.stdout.readline().split()]

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        why = self.process.stderr.read()
        self.counter.unlink(missing_ok=True)
        self.dir.rmdir()
        return why


class LongWorld(World):
    """Its shim counts on from one command to the next."""

    keep_count = False

    def environment(self, settings):
        count = self.counter.read_bytes() if self.keep_count and self.counter.exists() else None
        env = super().environment(settings)
        if count is not None:
            self.counter.write_bytes(count)
        return env


class Model:
    """What was acknowledged, and what a failed command may have done."""

    def __init__(self, fs):
        self.fs = fs
        self.world = LongWorld("copy", fs.dir, backend="copy")
        self.world.counter = fs.counter
        self.settings = {}   # of the shim, for every command
        self.full_at = 0     # the disk is full for a few commands from this one on
        self.commands = 0
        self.volumes = {}    # name -> bytes
        self.snapshots = {}  # name -> bytes
        self.maybe = set()   # of snapshots and volumes
        self.unsure = {}     # name of a volume -> the two states it may be in
        self.family = {}     # name of a volume -> the one that it descends from
        self.calls = 0

    def command(self, *args, **settings):
        self.commands += 1
        if self.full_at:
            self.fs.tell("full", int(0 <= self.commands - self.full_at < FULL_COMMANDS))
        done = self.world.run(*args, **self.settings, **settings)
        require(done.status >= 0 or done.killed, f"{args} ended by signal {-done.status}")
        self.calls = done.calls
        return done.status == 0

    def create(self, name, source=None, size=MIB):
        words = ("--from", source) if source else ("--size", size)
        if not self.command("volume", "create", name, *words):
            self.maybe.add(name)
        else:
            self.volumes[name] = bytearray(self.snapshots[source] if source else bytes(size))
            self.family[name] = self.family[source.split("@")[0]] if source else name

    def write(self, name):
        """Synced by the writer, on the quiet: it is cairn's syncs that fail."""
        if name not in self.volumes:
            return
        rand = self.world.random
        path = self.world.out("volume", "path", name).rstrip("\n")
        self.fs.tell("hold", 1)
        with open(path, "r+b", buffering=0) as file:
            for _ in range(3):
                at = rand.randrange(len(self.volumes[name]) // BLOCK) * BLOCK
                fresh = rand.randbytes(BLOCK)
                file.seek(at)
                file.write(fresh)
                self.volumes[name][at:at + BLOCK] = fresh
            os.fsync(file.fileno())
        self.fs.tell("hold", 0)

    def snapshot(self, *names, **settings):
        if any(name.split("@")[0] not in self.volumes for name in names):
            return
        if not self.command("snapshot", "create", *WAIT, *names, **settings):
            self.maybe.update(names)
            return
        for name in names:
            self.snapshots[name] = bytes(self.volumes[name.split("@")[0]])

    def expand(self, name, size):
        if name in self.volumes and self.command("volume", "expand", name, "--size", size):
            self.volumes[name] = self.volumes[name].ljust(size, b"\0")

    def rollback(self, name, snapshot):
        if name not in self.volumes or snapshot not in self.snapshots:
            return
        old = self.volumes.pop(name)
        new = bytearray(self.snapshots[snapshot].ljust(len(old), b"\0"))
        if self.command("volume", "rollback", snapshot, "--no-snapshot"):
            self.volumes[name] = new
        else:
            self.unsure[name] = (old, new)
            self.maybe.add(name)

    def delete(self, name):
        data = self.snapshots.pop(name, None)
        if data is not None and not self.command("snapshot", "delete", name):
            self.maybe.add(name)

    def run_delta(self, base, target):
        if base in self.snapshots and target in self.snapshots:
            self.command("delta", base, target)

    # ---- after the power cut

    def clear_strays(self):
        """What was made for a commit that is lost is in no record, and no other
        fault is allowed."""
        checked = self.world.run("pool", "check")
        faults = [line for line in checked.out.splitlines() if line.startswith("found")]
        require(all(line.endswith("is in no record") for line in faults) and
                checked.status in (0, 1, 15), f"pool check: {checked.out}{checked.err}")
        if faults:
            self.world.run("pool", "check", "--repair")
            checked = self.world.run("pool", "check")
            require(checked.status == 0, f"repaired, but: {checked.out}{checked.err}")

    def check(self):
        self.clear_strays()
        volumes, snapshots = self.world.seen()
        for kind, seen, known in (("volume", volumes, self.volumes),
                                  ("snapshot", snapshots, self.snapshots)):
            lost = set(known) - set(seen)
            extra = set(seen) - set(known) - self.maybe
            require(not lost, f"lost acknowledged {kind} {sorted(lost)}")
            require(not extra, f"unknown {kind} {sorted(extra)}")
        for name, data in self.snapshots.items():
            require(self.world.snapshot_bytes(snapshots[name]) == data, f"bytes of {name}")
        for name, data in self.volumes.items():
            path = self.world.out("volume", "path", name).rstrip("\n")
            with open(path, "rb") as file:
                require(file.read()[:len(data)] == data, f"bytes of {name}")
        for name, states in self.unsure.items():
            with open(self.world.out("volume", "path", name).rstrip("\n"), "rb") as file:
                require(file.read() in states, f"{name} holds a mixture")
        for base, target in itertools.combinations(self.snapshots, 2):
            if self.family[base.split("@")[0]] == self.family[target.split("@")[0]]:
                self.check_delta(base, target)

    def check_delta(self, base, target):
        old, new = self.snapshots[base], self.snapshots[target]
        done = self.world.run("delta", base, target, "-o", "ndjson")
        require(done.status == 0, f"delta {base} {target}: {done.err.strip()}")
        covered = set()
        for extent in map(json.loads, done.out.splitlines()):
            first = extent["byte_offset"] // BLOCK
            covered.update(range(first, first + -(-extent["size_bytes"] // BLOCK)))
        for at in range(0, len(new), BLOCK):
            require(at // BLOCK in covered or
                    (at < len(old) and old[at:at + BLOCK] == new[at:at + BLOCK]),
                    f"delta {base} {target} misses the block at {at}")

    def goes_on(self):
        """Each volume can be written and cut; nothing is in the way."""
        for name in list(self.volumes):
            self.write(name)
            self.world.cairn("snapshot", "create", *WAIT, f"{name}@after")
            self.snapshots[f"{name}@after"] = bytes(self.volumes[name])


def tell_story(model):
    """Every kind of commit, with durable ones after ordered ones."""
    model.create("a")
    model.write("a")
    model.snapshot("a@1")
    model.create("b")
    model.write("a")
    model.snapshot("a@2", "b@2")
    model.run_delta("a@1", "a@2")
    model.write("a")
    model.expand("a", MIB + 64 * 1024)
    model.write("a")
    model.snapshot("a@3")
    model.create("c", source="a@2" if "a@2" in model.snapshots else None)
    model.write("c")
    model.snapshot("c@4")
    model.delete("a@2")
    model.write("b")
    model.snapshot("b@5")
    model.write("a")
    model.snapshot("a@6")
    model.rollback("a", "a@1")
    model.write("a")
    model.snapshot("a@7")


def finish(model, seed):
    model.fs.tell("fail-sync", 0)
    model.fs.tell("fail-dir", 0)
    model.fs.tell("full", 0)
    model.fs.tell("cut", seed)
    model.world.paths.clear()
    model.goes_on()  # before a check that repairs
    model.check()
    model.fs.tell("cut", seed)
    model.check()


def sync_fails(model, at):
    """One file's sync fails; `at` 0 counts them."""
    before = model.fs.tell("fail-sync", at)[0]
    tell_story(model)
    return model.fs.tell("syncs")[0] - before


def two_syncs_fail(model, at):
    """The one that would put things right fails, too."""
    before = model.fs.tell("fail-sync", at)[0]
    model.fs.tell("fail-more", 2)
    tell_story(model)
    model.fs.tell("fail-more", 0)
    return model.fs.tell("syncs")[0] - before


def directory_sync_fails(model, at):
    before = model.fs.tell("fail-dir", at)[1]
    tell_story(model)
    return model.fs.tell("syncs")[1] - before


def killed_in_a_snapshot(model, at):
    """What was committed but not synced is lost together with the process."""
    model.create("a")
    model.write("a")
    model.snapshot("a@1")
    model.write("a")
    done = model.world.run("snapshot", "create", *WAIT, "a@2", CAIRN_SHIM_READS=0,
                           **({"CAIRN_SHIM_KILL_AT": at} if at else {}))
    if done.status == 0:
        model.snapshots["a@2"] = bytes(model.volumes["a"])
    model.maybe.add("a@2")
    return done.calls


def killed_in_a_failed_sync(model, at):
    """The process that saw the failure is dead, and the kernel reports it only once."""
    log = model.world.root / "calls"
    model.create("a")
    model.snapshot("a@1")
    model.write("a")
    calls = []
    if at:
        calls = killed_in_a_failed_sync.calls
        model.fs.tell("fail-sync", at)
        model.snapshot("a@2", CAIRN_SHIM_KILL_AT=calls[at - 1], CAIRN_SHIM_KILL_WHEN="after")
        model.fs.tell("fail-sync", 0)
    else:
        model.snapshot("a@2", CAIRN_SHIM_LOG=log)
        for line in log.read_text().splitlines():
            number, _, call, path = line.split(" ", 3)
            is_file = os.path.basename(path).startswith(("disk", "set-", "catalogue"))
            if call in ("fsync", "fdatasync") and is_file:
                calls.append(int(number))
        killed_in_a_failed_sync.calls = calls
        log.unlink()
    for name in ("a@3", "a@4"):
        model.write("a")
        model.snapshot(name)
    return len(calls)


def call_fails(model, at, errno):
    """Any call that changes state, once; the next ones work."""
    model.world.keep_count = True
    model.settings = {"CAIRN_SHIM_FAIL_AT": at, "CAIRN_SHIM_FAIL_ERRNO": errno}
    tell_story(model)
    model.world.keep_count = False
    model.settings = {}
    return model.calls


def call_fails_with_eio(model, at):
    return call_fails(model, at, "EIO")


def call_fails_with_enospc(model, at):
    return call_fails(model, at, "ENOSPC")


def disk_is_full(model, at):
    """For a few commands, and has space again for the others."""
    model.full_at = at
    tell_story(model)
    return model.commands


CASES = [sync_fails, two_syncs_fail, directory_sync_fails, killed_in_a_snapshot,
         killed_in_a_failed_sync, call_fails_with_eio, call_fails_with_enospc, disk_is_full]


def run_once(case, at, seed):
    """Returns what `case` counted."""
    fs = ForgetFs()
    try:
        if not fs.works:
            raise SystemExit(77)
        model = Model(fs)
        counted = case(model, at)
        finish(model, seed)
        model.world.run("pool", "destroy", "--yes", model.world.pool)
        return counted
    finally:
        why = fs.close()
        if not fs.works:
            print("no FUSE here:", why.strip())


def places(case, count, options):
    """Each case begins at another one: the cases of a story together try more of its places."""
    if options.all or count <= options.places:
        return range(1, count + 1)
    shift = CASES.index(case) * count // len(CASES)
    return sorted({1 + (i * count + shift) // options.places for i in range(options.places)})


def run_case(case, options):
    broken = tried = 0
    count = run_once(case, 0, options.seed)
    for at in [options.at] if options.at else options.part.of(places(case, count, options)):
        tried += 1
        try:
            run_once(case, at, options.seed)
        except Broken as problem:
            broken += 1
            print(f"BROKEN {case.__name__} {at} of {count}: {problem}", flush=True)
    print(f"{case.__name__}: {tried} of {count} places, {broken} broken", flush=True)
    return broken


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--all", action="store_true", help="every place, not a few")
    parser.add_argument("--case", action="append", choices=[case.__name__ for case in CASES])
    parser.add_argument("--places", type=int, default=SOME, help="how many, evenly spread")
    parser.add_argument("--part", type=Part, default=Part("1/1"), metavar="K/N",
                        help="every N-th place, from the K-th on")
    parser.add_argument("--at", type=int)
    parser.add_argument("--seed", type=int, default=0,
                        help="above 0: some of what was not synced was written")
    options = parser.parse_args()
    for program in (BIN, FORGETFS, SHIM):
        if not os.path.exists(program) and not shutil.which(program):
            print(f"needs '{program}'")
            sys.exit(77)
    broken = sum(run_case(case, options) for case in CASES
                 if not options.case or case.__name__ in options.case)
    sys.exit(1 if broken else 0)


if __name__ == "__main__":
    main()
