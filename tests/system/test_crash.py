#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Never lost: killed or failing at every call of every operation.

Usage: test_crash.py [--all] [--part K/N] [--backend NAME] [--operation NAME]

Each operation is run once to count its calls that change state, then again with
a kill before or after the n-th, and with the n-th failing (ENOSPC, EIO, ENOMEM)
or an allocation failing. After each, the pool must hold all that was
acknowledged, show nothing half-made, pass its own check, and do the operation
when asked again. Without --all a few calls of each operation are tried: each back end takes
a share of them, or all of them if CAIRN_TEST_THOROUGH is 1. With --part only every N-th fault
from the K-th on, so that N runs together try all of them.

CAIRN_BIN is the program, CAIRN_SHIM the shim (tests/tools/shim).
"""
import argparse
import itertools
import os
import shutil
import sys
import time

from cairncli import BIN, CAN_MOUNT, NO_SPACE, THOROUGH, Part
from crashops import OPERATIONS
from crashworld import SHIM, Broken, Host, World, require

# Calls tried of each operation and kind of fault, without --all.
SOME = 3
BACKENDS = {"copy": None, "btrfs": "btrfs", "reflink": "xfs"}  # and the filesystem of each
ALLOCATIONS_MAX = 5000
INTERNAL = 13
UNAVAILABLE = 14
DATA_LOSS = 15

# What an error may end with. EIO can surface as damage where a file is read
# back, ENOMEM as anything that names it.
STATUS_OF = {
    "ENOSPC": {NO_SPACE},
    "ENOMEM": {NO_SPACE},
    "EIO": {INTERNAL, DATA_LOSS, UNAVAILABLE},
}


class Share:
    """Which calls one back end tries: the `index`-th of `count` back ends that run the operation."""

    def __init__(self, index, count, everything):
        self.index, self.count, self.everything = index, count, everything

    def spread(self, calls, phase):
        """All, or SOME of them, evenly, of which each back end takes others."""
        if self.everything or calls <= SOME:
            return list(range(1, calls + 1))
        step = calls / SOME
        return sorted({int(i * step + phase % max(int(step), 1)) + 1 for i in range(SOME)
                       if (i + phase) % self.count == self.index})

    def allocations(self):
        """1, 2, 4 ..., of which each back end takes others."""
        n = 1
        for i in itertools.count():
            if i % self.count == self.index:
                yield n
            n *= 2


def kills(count, share):
    for when in ("before", "after"):
        for n in share.spread(count, 1 if when == "after" else 0):
            yield f"killed {when} call {n}", {"CAIRN_SHIM_KILL_AT": n,
                                              "CAIRN_SHIM_KILL_WHEN": when}
    for n in share.spread(count, 2):
        yield f"all killed before call {n}", {"CAIRN_SHIM_KILL_AT": n,
                                              "CAIRN_SHIM_KILL_WHOM": "all"}


def failures(count, count_with_reads, share):
    """An error of the device can also come from what only reads."""
    for phase, (name, mode) in enumerate((("ENOSPC", "once"), ("EIO", "once"),
                                          ("ENOMEM", "once"), ("ENOSPC", "after"))):
        reads = name == "EIO"
        for n in share.spread(count_with_reads if reads else count, phase):
            yield (f"call {n} fails with {name} ({mode})", name,
                   {"CAIRN_SHIM_FAIL_AT": n, "CAIRN_SHIM_FAIL_ERRNO": name,
                    "CAIRN_SHIM_FAIL_MODE": mode, "CAIRN_SHIM_READS": int(reads)})


def judge(done, statuses):
    """A killed command may end as it likes, a failing one must say why."""
    if done.status <= 0:
        require(done.status in (0, -9), f"ended by signal {-done.status}")
        return
    require(statuses is not None, "failed although nothing was made to fail")
    lines = done.err.strip().splitlines()
    require(len(lines) == 1 and lines[0].startswith("cairn: "), f"no clear error: {lines}")
    # SQLite does not keep why it could not make the file that it shares.
    require(done.status in statuses or "no room for the files beside it" in lines[0],
            f"status {done.status}, not one of {statuses}: {lines[0]}")


class Campaign:
    """One operation on one back end, with one fault after the other."""

    def __init__(self, name, host, kind, options):
        self.name, self.host, self.kind, self.options = name, host, kind, options
        names = [name] if THOROUGH else [each for each in BACKENDS if is_run(kind, each, options)]
        self.share = Share(names.index(name), len(names), options.all)
        self.worlds = self.faults = self.calls = 0
        self.broken = []
        self.world = self.operation = None
        self.begin()

    def begin(self):
        self.worlds += 1
        self.operation = self.kind()
        place = self.host.place(f"{self.operation.name.replace(' ', '-')}-{self.worlds}")
        self.world = World(self.name, place, retention=self.operation.retention,
                           backend="copy" if self.name == "copy" else "auto")
        self.operation.set_up(self.world)

    def try_fault(self, title, settings, statuses=None, may_be_done=False):
        """A broken promise is noted, and the rest tried on a fresh pool."""
        self.faults += 1
        context = self.operation.prepare(self.world, self.faults)
        done = self.world.run(*self.operation.command(self.world, context), **settings)
        try:
            if "CAIRN_SHIM_KILL_WHOM" in settings:
                self.world.restart()  # nobody was left to thaw what was frozen
            self.hold(context, done, statuses, may_be_done)
        except Broken as problem:
            self.broken.append(f"{self.name}: {self.operation.name}: {title}: {problem}")
            print("BROKEN", self.broken[-1], flush=True)
            self.world.close(code=None)
            self.begin()
        else:
            self.operation.finish(self.world, context)
        return done

    def hold(self, context, done, statuses, may_be_done):
        world, operation = self.world, self.operation
        judge(done, statuses if statuses is None and not operation.runs_programs
              else operation.runs_programs | (statuses or set()))
        complete = operation.verify(world, context, world.check(*operation.maybe(context)))
        require(done.status != 0 or complete, "acknowledged, but not done")
        require(done.status <= 0 or not complete or may_be_done or operation.done_in_passing,
                f"failed, but done: {done.err.strip()}")
        again = world.run(*operation.command(world, context))
        require(again.status in (operation.again if complete else {0}),
                f"again: status {again.status}: {again.err.strip()}")
        operation.settle(world, context)
        require(operation.verify(world, context, world.check()), "not done after doing it again")

    def try_allocations(self):
        """Until a row of runs shows no failure: then no such allocation is made."""
        part, quiet = self.options.part, 0
        for n in itertools.count(part.first, part.step) if self.options.all \
                else self.share.allocations():
            if quiet == 3 or n >= ALLOCATIONS_MAX:
                break
            done = self.try_fault(f"allocation {n} fails", {"CAIRN_FAIL_ALLOC": n}, {NO_SPACE})
            quiet = quiet + 1 if done.status == 0 else 0

    def run(self):
        self.calls, with_reads = (self.try_fault("counted", {"CAIRN_SHIM_READS": reads}).calls
                                  for reads in (0, 1))
        require(self.calls > 0, f"{self.operation.name}: no call counted: is the shim there?")
        part = self.options.part
        for title, settings in part.of(kills(self.calls, self.share)):
            self.try_fault(title, settings)
        for title, name, settings in part.of(failures(self.calls, with_reads, self.share)):
            # A commit that fails at its last step is taken back with another one.
            # Where no call succeeds any more it may yet count, as a whole.
            self.try_fault(title, settings, STATUS_OF[name],
                           may_be_done=settings["CAIRN_SHIM_FAIL_MODE"] == "after")
        self.try_allocations()
        self.world.close()


def is_run(kind, backend, options):
    if BACKENDS[backend] and not CAN_MOUNT:
        return False
    if backend in kind.only_all and not options.all and options.operation is None:
        return False
    return options.operation in (None, kind.name) and kind.only in (None, backend) and \
        (CAN_MOUNT or not kind.needs_mount)


def run_backend(name, options):
    """Returns (faults tried, promises broken)."""
    faults, broken = 0, []
    host = Host(BACKENDS[name])
    try:
        for kind in OPERATIONS:
            if not is_run(kind, name, options):
                continue
            started = time.monotonic()
            campaign = Campaign(name, host, kind, options)
            campaign.run()
            print("%-8s %-16s %4d calls %5d faults %3d broken %6.1f s"
                  % (name, kind.name, campaign.calls, campaign.faults, len(campaign.broken),
                     time.monotonic() - started), flush=True)
            faults += campaign.faults
            broken += campaign.broken
    finally:
        host.close()
    return faults, broken


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--all", action="store_true", help="every call, not a few")
    parser.add_argument("--part", type=Part, default=Part("1/1"), metavar="K/N",
                        help="every N-th fault, from the K-th on")
    parser.add_argument("--backend", choices=list(BACKENDS))
    parser.add_argument("--operation")
    options = parser.parse_args()
    if not shutil.which(BIN) or not os.path.exists(SHIM):
        print(f"needs the program '{BIN}' and the shim '{SHIM}'")
        sys.exit(77)
    faults, broken = 0, []
    for name, fs in BACKENDS.items():
        if options.backend in (None, name) and (fs is None or CAN_MOUNT):
            tried, failed = run_backend(name, options)
            faults += tried
            broken += failed
    print(f"{faults} faults, {len(broken)} promises broken")
    sys.exit(1 if broken else 0)


if __name__ == "__main__":
    main()
