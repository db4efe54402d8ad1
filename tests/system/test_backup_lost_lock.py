#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A backup whose lock somebody removes, beside a prune, killed at each of its steps. The S3 server is
the test's own: a step is a request. Every backup that is listed afterwards must be complete."""
import io
import pathlib
import random
import subprocess
import sys
import threading

from backupcli import BackupTest, digest
from cairncli import MIB, OK, TIMEOUT, main

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "repo"))
from fakes3 import FakeS3, Handler  # noqa: E402

ABORTED, DATA_LOSS = 10, 15
LANDINGS = 6  # steps of a prune that are tried
BACKUP, PRUNE, OTHER = "backup", "prune", "other"  # access keys: who sends a request


class Steps(FakeS3):
    """Calls `before` and `handled` (not yet answered) for the requests of each user, which it counts."""

    def __init__(self):
        super().__init__()
        self.RequestHandlerClass = StepsHandler
        self.begin()

    def begin(self, before=None, handled=None):
        self.before, self.handled, self.status = before, handled, None
        self.steps = {BACKUP: [], PRUNE: [], OTHER: []}

    def handle_error(self, *_):
        """Clients are killed."""

    def remove_locks(self):
        with self.lock:
            for key in [key for key in self.objects if "/locks/" in key]:
                del self.objects[key]


class StepsHandler(Handler):
    def parse_request(self):
        if not super().parse_request():
            return False
        # A client that is killed later has sent its request.
        self.rfile_of_client = self.rfile
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.rfile = io.BytesIO(body)
        credential = self.headers.get("Authorization", "").partition("Credential=")[2]
        self.user = credential.partition("/")[0]
        step = f"{self.command} {self.path}"
        with self.server.lock:
            self.server.steps[self.user].append(step)
            self.step = len(self.server.steps[self.user]), step
        if self.server.before:
            self.server.before(self.user, *self.step)
        return True

    def answer(self, status, body=b""):
        if self.server.handled:
            self.server.handled(self.user, *self.step)
        if self.server.status and self.user == BACKUP and is_publishing(self.step[1]):
            status = self.server.status
        self.rfile = self.rfile_of_client
        try:
            super().answer(status, body)
        except OSError:
            self.close_connection = True


def is_publishing(step):
    return step.startswith("PUT") and "/snapshots/" in step


def lists_snapshots(step):
    return step.startswith("GET") and "list-type" in step and "snapshots" in step


class InSteps(BackupTest):
    content = 2 * MIB

    def setUp(self):
        super().setUp()
        self.server = Steps()
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)
        self.repository = f"s3:http://127.0.0.1:{self.server.port()}/bucket/repository"
        self.two_contents()

    def environment(self, **more):
        return super().environment(**{"AWS_ACCESS_KEY_ID": OTHER, "AWS_SECRET_ACCESS_KEY": "s",
                                      **more})

    def two_contents(self):
        """A prune that keeps the last backup deletes what the next one needs."""
        self.init()
        self.make_volume(size=2 * self.content)
        first, second = (random.Random(n).randbytes(self.content) for n in (1, 2))
        for name, content in (("s1", first), ("s2", second), ("s3", first)):
            self.write(0, content)
            self.cairn("snapshot", "create", f"data@{name}")
        self.create("data@s1")
        self.create("data@s2")
        self.saved = dict(self.server.objects)

    def start_backup(self):
        return self.start("backup", "create", "data@s3", "--retry", "none",
                          env={"AWS_ACCESS_KEY_ID": BACKUP}, stdout=subprocess.DEVNULL)

    def start_prune(self, *args):
        return self.start("backup", "forget", "--keep-last", "1", "--prune", *args,
                          env={"AWS_ACCESS_KEY_ID": PRUNE}, stdout=subprocess.DEVNULL)

    def end(self, process):
        errors = process.communicate(timeout=TIMEOUT)[1]
        return process.returncode, errors

    def begin(self, **hooks):
        with self.server.lock:
            self.server.objects = dict(self.saved)
        self.server.begin(**hooks)


class LostLock(InSteps):
    def check(self, what):
        """Every backup is complete. An index file of the backup that lost its lock may name packs
        that no backup needs and that are gone: the next prune mends that."""
        self.server.begin()
        done = self.backup("verify", code=None)
        if done.returncode == DATA_LOSS:
            self.assertNotIn("restored", done.stderr, what)
            self.assertIn("is missing", done.stderr, what)
            self.backup("forget", "--keep-last", "9", "--prune")
            done = self.backup("verify", code=None)
        self.assertEqual(done.returncode, OK, f"{what}: {done.stdout}{done.stderr}")

    def run_killed(self, prune_at, kill_at):
        """The lock is lost and a prune runs before the step `prune_at`; `kill_at`(number, step) says
        when the backup is killed. Returns its status and errors, and whether the prune ran."""
        process, ready, pruned = None, threading.Event(), []

        def before(user, number, _):
            if user == BACKUP and number == prune_at:
                self.server.remove_locks()
                pruned.append(self.end(self.start_prune()))

        def handled(user, number, step):
            if user == BACKUP and kill_at(number, step):
                ready.wait(TIMEOUT)
                process.kill()

        self.begin(before=before, handled=handled)
        process = self.start_backup()
        ready.set()
        status, errors = self.end(process)
        for code, text in pruned:
            self.assertIn(code, (OK, ABORTED), text)
        return status, errors, bool(pruned)

    def test_a_prune_at_each_step_of_a_backup(self):
        self.begin()
        status, errors = self.end(self.start_backup())
        self.assertEqual(status, OK, errors)
        steps = list(self.server.steps[BACKUP])
        publishing = [n for n, step in enumerate(steps, 1) if is_publishing(step)]
        self.assertEqual(len(publishing), 1, steps)
        # Before the lock is put there is none to lose; the other test is about the last request.
        begin = min(n for n, step in enumerate(steps, 1) if step.startswith("PUT"))
        chosen = [n for n in range(begin, publishing[0])
                  if steps[n - 1].startswith("PUT") or "list-type" in steps[n - 1] or n % 3 == 0]
        killed = prunes = 0
        for prune_at in chosen:
            with self.subTest(prune_at=prune_at, step=steps[prune_at - 1]):
                status, errors, pruned = self.run_killed(
                    prune_at, lambda number, step: is_publishing(step))
                prunes += pruned
                killed += status < 0
                self.check(f"killed after the snapshot was put: {errors}")
        self.assertGreater(prunes, len(chosen) // 2, "a backup has fewer steps than before")
        self.assertGreater(killed, 0, "no backup came so far")

    def land_at(self, at):
        """The prune runs while the request that puts the snapshot is under way; this arrives
        before the prune's step `at`, or after its end, and its sender is killed."""
        process, ready, land, landed = None, threading.Event(), threading.Event(), threading.Event()
        prunes = []

        def before(user, number, step):
            if user == BACKUP and is_publishing(step):
                ready.wait(TIMEOUT)
                self.server.remove_locks()
                prunes.append(self.start_prune())
                land.wait(TIMEOUT)
            if user == PRUNE and number == at:
                land.set()
                landed.wait(TIMEOUT)

        def handled(user, _, step):
            if user == BACKUP and is_publishing(step):
                process.kill()
                landed.set()

        self.begin(before=before, handled=handled)
        process = self.start_backup()
        ready.set()
        self.wait_for(lambda: prunes or process.poll() is not None)
        self.assertTrue(prunes, "the backup did not put a snapshot")
        status, errors = self.end(prunes[0])
        steps = list(self.server.steps[PRUNE])
        land.set()
        self.assertLess(self.end(process)[0], OK)
        self.assertIn(status, (OK, ABORTED), errors)
        return status, steps

    def test_a_snapshot_that_lands_at_each_step_of_a_prune(self):
        _, steps = self.land_at(0)
        begin = min(n for n, step in enumerate(steps, 1) if step.startswith("PUT"))
        last = max(n for n, step in enumerate(steps, 1) if lists_snapshots(step))
        chosen = {begin + i * (last - begin) // (LANDINGS - 1) for i in range(LANDINGS)}
        chosen |= {n for n, step in enumerate(steps, 1) if n > begin and lists_snapshots(step)}
        seen, late = set(), 0
        for at in sorted(chosen):
            with self.subTest(at=at, step=steps[at - 1]):
                status, now = self.land_at(at)
                # A prune that was faster lists the snapshots less often. Nothing can see what
                # lands after the last listing.
                if not any(lists_snapshots(step) for step in now[at - 1:]):
                    late += 1
                    continue
                seen.add(status)
                self.check(f"landed before '{now[at - 1]}', the prune ended with {status}")
        self.assertEqual(seen, {OK, ABORTED})
        self.assertLess(late, len(chosen) / 2, f"{steps}: a prune has fewer steps than before")

    def test_a_snapshot_that_lands_after_a_prune(self):
        """Nothing can prevent it. It is named, with the command that removes it."""
        before = {backup["id"] for backup in self.backups()}
        self.assertEqual(self.land_at(0)[0], OK)
        self.server.begin()
        broken = [backup["id"][:8] for backup in self.backups() if backup["id"] not in before]
        self.assertEqual(len(broken), 1)
        command = f"cairn backup forget {broken[0]}"
        self.assertIn(f"{command} --prune", self.backup("verify", code=DATA_LOSS).stderr)
        self.assertIn(f"{command} --prune", self.backup("verify", "--repair", code=DATA_LOSS).stderr)
        self.assertIn(command, self.backup("forget", "--keep-last", "9", "--prune",
                                           code=DATA_LOSS).stderr)
        self.backup("forget", broken[0], "--prune")
        self.backup("verify")

    def test_a_snapshot_that_lands_after_a_prune_is_healed_by_the_next_backup(self):
        self.assertEqual(self.land_at(0)[0], OK)
        self.server.begin()
        self.backup("verify", code=DATA_LOSS)
        self.backup("verify", "--repair", code=DATA_LOSS)
        self.create("data@s3")
        self.backup("verify")
        self.backup("forget", "--keep-last", "9", "--prune")

    def test_a_put_that_failed_may_have_been_carried_out(self):
        """The lock is lost and a prune runs while it is under way: the snapshot is taken back."""
        def before(user, _, step):
            if user == BACKUP and is_publishing(step):
                self.server.remove_locks()
                self.assertEqual(self.end(self.start_prune())[0], OK)

        self.begin(before=before)
        self.server.status = 403
        status, errors = self.end(self.start_backup())
        self.assertEqual(status, ABORTED, errors)
        self.check("the put failed")
        self.assertEqual(len(self.backups()), 1)


class LostByAPrune(InSteps):
    content = 40 * MIB  # a backup of so much looks for packs in no index, and adopts them

    def test_it_deletes_no_more(self):
        """The answer to its first deletion of a kind comes after a backup was made."""
        for kind in ("/index/", "/data/"):
            with self.subTest(kind=kind):
                made = []

                def handled(user, _, step, kind=kind, made=made):
                    if user == PRUNE and step.startswith("DELETE") and kind in step and not made:
                        made.append(None)
                        self.server.remove_locks()
                        made[0] = self.end(self.start_backup())

                self.begin(handled=handled)
                status, errors = self.end(self.start_prune("--connections", "1"))
                self.assertEqual(len(made), 1, "the prune deleted nothing")
                self.assertEqual(made[0][0], OK, made[0][1])
                self.assertEqual(status, ABORTED, errors)
                self.server.begin()
                self.backup("verify", "--repair", code=None)
                self.assertEqual(self.restored("data@s3"),
                                 digest(self.path("snapshot", "data@s3")))

    def test_its_last_deletion_is_noticed(self):
        """It was sent while the lock was there, and is carried out after a backup adopted the pack."""
        made, adopted, deleted = [], threading.Event(), threading.Event()

        def before(user, _, step):
            if user == PRUNE and step.startswith("DELETE") and "/data/" in step and not made:
                self.server.remove_locks()
                made.append(self.start_backup())
                self.assertTrue(adopted.wait(TIMEOUT))
            if user == BACKUP and step.startswith("PUT") and "/index/" in step:
                adopted.set()
                self.assertTrue(deleted.wait(TIMEOUT))

        def handled(user, _, step):
            if user == PRUNE and step.startswith("DELETE") and "/data/" in step:
                deleted.set()

        self.begin(before=before, handled=handled)
        self.assertEqual(self.end(self.start_prune("--connections", "1"))[0], ABORTED)
        status, errors = self.end(made[0])
        self.assertEqual(status, ABORTED, errors)
        self.assertIn("was deleted meanwhile", errors)
        self.server.begin()
        self.assertEqual(self.end(self.start_backup())[0], OK)
        self.backup("forget", "--keep-last", "9", "--prune")  # an index names the pack, which no backup needs
        self.backup("verify")
        self.assertEqual(self.restored("data@s3"), digest(self.path("snapshot", "data@s3")))


if __name__ == "__main__":
    main()
