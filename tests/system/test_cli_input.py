#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Bad input: a clear error, the right exit status, and nothing changed."""
import os
import subprocess

from cairncli import (ABORTED, CAN_MOUNT, EXISTS, INVALID, MIB, NO_SPACE, NOT_FOUND, OK, PRECONDITION, RANGE,
                      USAGE, CliTest, main)


class BadInput(CliTest):
    def assert_refused(self, code, *args):
        """Exits with `code`, says why in one line, prints nothing, changes nothing."""
        before = self.state()
        with self.subTest(args):
            done = self.cairn(*args, code=code)
            self.assertRegex(done.stderr, r"\Acairn: [^\n]+\n\Z")
            self.assertEqual(done.stdout, "")
            self.assertEqual(self.state(), before)
        return done.stderr

    def test_command_lines_that_cannot_be_understood(self):
        for args in [
                ("bogus",), ("volume",), ("volume", "bogus"), ("volume", "create"),
                ("volume", "create", "x"), ("volume", "create", "x", "y", "--size", "1M"),
                ("volume", "create", "x", "--size"), ("volume", "create", "x", "--size", "many"),
                ("volume", "create", "x", "--size", "-512"), ("volume", "create", "x", "--sise=1M"),
                ("volume", "create", "x", "--size", "1e6"), ("volume", "create", "x", "--size", ""),
                ("volume", "create", "x", "--size", "18446744073709551616"),
                ("volume", "create", "x", "--size", "99999P"),
                ("volume", "list", "--output", "xml"), ("volume", "list", "-z"),
                ("volume", "expand", "x"), ("volume", "modify", "x"),
                ("volume", "delete", "x", "--keep-snapshots", "--with-snapshots"),
                ("volume", "list", "--lock-wait", "soon"), ("volume", "list", "--quiet=yes"),
                ("pool", "destroy"), ("pool", "create", "--backend", "zfs", self.scratch / "p"),
                ("snapshot", "create"), ("snapshot", "delete"), ("delta",), ("verify", "x"),
                ("delta", "a", "b", "c"), ("delta", "x", "--max-results", "-1"),
                ("map", "x", "--width", "wide"), ("help", "volume", "bogus"),
        ]:
            self.assert_refused(USAGE, *args)

    def test_a_sidecar_that_cannot_be(self):
        pair = ("--tls-cert=c", "--tls-key=k")
        for args in [(), ("--tls-cert=c",), (*pair, "--port=0"), (*pair, "-port=65536"),
                     (*pair, "--cache-time=none"), (*pair, "-cache-time=2h"),
                     (*pair, "--max-streams=0"), (*pair, "--max-message-size=2G"),
                     (*pair, "-max-streaming-duration-min=-1"), (*pair, "--timeout=0"),
                     (*pair, "-disable-metrics=maybe"), (*pair, "-no-such-flag=1")]:
            self.assert_refused(USAGE, "sidecar", *args)

    def test_near_misses_are_guessed(self):
        self.assertIn("'cairn volume'", self.assert_refused(USAGE, "volumes"))
        self.assertIn("'cairn snapshot create'", self.assert_refused(USAGE, "snapshot", "craete"))
        self.two_snapshots()
        for args, name in [(("volume", "info", "dta"), "data"), (("snapshot", "info", "data@a1"),
                           "data@s1"), (("delta", "data@s1", "dat@s2"), "data@s2"),
                           (("snapshot", "create", "daat@s9"), "data")]:
            self.assertIn(f"did you mean '{name}'?", self.assert_refused(NOT_FOUND, *args))
        self.assertNotIn("mean", self.assert_refused(NOT_FOUND, "volume", "info", "unlike"))
        self.assertIn("'--size'", self.assert_refused(USAGE, "volume", "create", "x", "--sizes=1"))

    def test_output_is_refused_where_it_does_not_apply(self):
        done = self.cairn("volume", "path", "x", "-o", "json", code=USAGE)
        self.assertIn("--output does not apply", done.stderr)

    def test_sizes(self):
        self.make_volume()
        for size, code in [("0", INVALID), ("511", INVALID), ("513", INVALID), ("1000", INVALID),
                           ("9223372036854775808", RANGE), ("18446744073709551104", RANGE),
                           ("2E", RANGE)]:
            self.assert_refused(code, "volume", "create", "x", "--size", size)
        for size, code in [("0", INVALID), ("8M", INVALID), ("16777217", INVALID),
                           ("9223372036854775808", RANGE)]:
            self.assert_refused(code, "volume", "expand", "data", "--size", size)
        self.assert_refused(RANGE, "volume", "create", "x", "--from", "data", "--size", "8M")
        self.assert_refused(INVALID, "volume", "create", "x", "--from", "data", "--size", "0")
        for flag in ("--size", "--retention", "--granularity"):
            self.assert_refused(INVALID, "pool", "create", self.scratch / "p", flag, "0")
        self.assert_refused(INVALID, "pool", "create", self.scratch / "p", "--granularity", "5000")
        self.assertFalse((self.scratch / "p").exists())
        for size in ("5000", "5G", "1"):
            self.assert_refused(INVALID, "volume", "modify", "data", "--granularity", size)

    def test_a_pool_is_made_once(self):
        self.make_volume()
        self.assert_refused(EXISTS, "pool", "create", self.pool)
        self.cairn("pool", "create", "--if-missing", self.pool)
        self.assertEqual(len(self.items("volume")), 1)
        foreign = self.scratch / "foreign"
        (foreign / "volumes").mkdir(parents=True)
        self.assert_refused(EXISTS, "pool", "create", "--if-missing", foreign)

    def test_unknown_names(self):
        self.two_snapshots()
        for args in [
                ("volume", "info", "nope"), ("volume", "path", "nope"),
                ("volume", "expand", "nope", "--size", "1M"), ("volume", "delete", "nope"),
                ("volume", "create", "x", "--from", "nope"),
                ("volume", "create", "x", "--from", "data@nope"),
                ("snapshot", "create", "nope@s"), ("snapshot", "info", "data@nope"),
                ("snapshot", "path", "data@nope"), ("snapshot", "delete", "data@nope"),
                ("snapshot", "list", "nope"), ("snapshot", "info", "snap-0000000000000000-1"),
                ("delta", "data@nope"), ("delta", "data@nope", "data@s2"),
                ("delta", "data@s1", "data@nope"), ("map", "data@nope", "data@s2"),
                ("verify", "data@nope", "data@s2"), ("verify", "data@s1", "data@nope"),
                ("--pool", self.scratch / "nope", "volume", "list"),
                ("--pool", self.scratch, "volume", "list"),
        ]:
            self.assert_refused(NOT_FOUND, *args)

    def test_names_that_are_taken(self):
        self.two_snapshots()
        self.assert_refused(EXISTS, "volume", "create", "data", "--size", "1M")
        self.assert_refused(EXISTS, "snapshot", "create", "data@s1")
        self.assert_refused(EXISTS, "pool", "create", self.pool)

    def test_snapshots_that_cannot_be_compared(self):
        self.two_snapshots()
        self.make_volume("other")
        self.cairn("snapshot", "create", "other@o")
        for command in ("delta", "map", "verify"):
            self.assertIn("newer", self.assert_refused(INVALID, command, "data@s2", "data@s1"))
            self.assert_refused(INVALID, command, "other@o", "data@s2")
            self.assert_refused(INVALID, command, "data@s1", "other@o")
        self.assert_refused(RANGE, "delta", "data@s1", "data@s2", "--starting-offset",
                            16 * MIB + 1)
        self.assertEqual(self.lines("delta", "data@s1", "data@s2", "--starting-offset", 16 * MIB),
                         [])
        self.cairn("snapshot", "delete", "data@s2")
        self.assertIn("deleted", self.assert_refused(NOT_FOUND, "delta", "data@s1", "data@s2"))

    def test_names_are_any_printable_text(self):
        names = ["with space", "a@b", "a/b", "../up", "-dash", "ünï→日本", "é" * 64, "x" * 128,
                 "quote\"s", "100%s", "vol-", "."]
        for name in names:
            with self.subTest(name):
                self.cairn("volume", "create", "--size", MIB, "--", name)
                self.assertEqual(self.json("volume", "info", "--", name)["name"], name)
                self.cairn("snapshot", "create", "--", f"{name}@s/1 @→")
                made = self.json("snapshot", "info", "--", f"{name}@s/1 @→")
                self.assertEqual((made["volume"], made["name"]), (name, "s/1 @→"))
                self.lines("delta", "--", f"{name}@s/1 @→")
        self.assertEqual(sorted(v["name"] for v in self.items("volume")), sorted(names))
        for name in ["", "x" * 129, "é" * 65, "a\nb", "a\x1b[31m", "a\x7f", "\u0085"]:
            self.assert_refused(INVALID, "volume", "create", "--size", MIB, "--", name)
            self.assert_refused(INVALID, "snapshot", "create", "--", f"with space@{name}")
        bad = os.fsdecode(b"\xff\xfe")
        self.assert_refused(INVALID, "volume", "create", "--size", MIB, "--", bad)

    def test_a_name_typed_with_escapes_does_not_reach_the_terminal(self):
        done = self.cairn("volume", "info", "\x1b[31mred", code=NOT_FOUND)
        self.assertNotIn("\x1b", done.stderr)

    def test_an_id_is_taken_wherever_a_name_is(self):
        self.two_snapshots()
        volume = self.items("volume")[0]["id"]
        first, second = (s["id"] for s in self.items("snapshot"))
        self.assertEqual(self.json("volume", "info", volume)["name"], "data")
        self.assertEqual(self.json("delta", first, second), self.json("delta", "data@s1", "data@s2"))
        self.cairn("snapshot", "delete", first)
        self.cairn("snapshot", "create", f"{volume}@s1")
        self.assertNotEqual(self.json("snapshot", "info", "data@s1")["id"], first)
        self.assertTrue(self.json("snapshot", "info", first)["deleted"])

    def test_two_processes_make_one_volume(self):
        runs = [self.start("volume", "create", "x", "--size", "1M", stdout=subprocess.DEVNULL)
                for _ in range(8)]
        codes = sorted(self.end_of(run) for run in runs)
        self.assertEqual(codes[0], OK)
        self.assertEqual({*codes[1:]} - {EXISTS, ABORTED}, set())
        self.assertEqual(len(self.items("volume")), 1)
        self.cairn("pool", "check")

    def test_processes_that_cut_the_same_volume_wait_for_each_other(self):
        self.make_volume()
        runs = [self.start("snapshot", "create", f"data@s{i}", stdout=subprocess.DEVNULL)
                for i in range(8)]
        self.assertEqual([self.end_of(run) for run in runs], [OK] * 8)
        self.assertEqual(len(self.items("snapshot")), 8)
        self.cairn("pool", "check")

    def end_of(self, run):
        run.communicate(timeout=600)
        return run.returncode

    def test_a_full_disk_is_told_and_loses_nothing(self):
        if not CAN_MOUNT:
            self.skipTest("needs root to mount a small filesystem")
        self.pool = self.scratch / "small"
        self.pool.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24M", "tmpfs", self.pool], check=True)
        self.mounted.append(self.pool)
        self.make_pool()
        self.make_volume()
        self.write(0, os.urandom(10 * MIB))
        self.cairn("snapshot", "create", "data@s1")
        for args in [("snapshot", "create", "data@s2"), ("volume", "create", "x", "--from", "data"),
                     ("volume", "create", "x", "--from", "data@s1")]:
            before = self.state()
            done = self.cairn(*args, code=NO_SPACE)
            self.assertIn("No space left", done.stderr)
            self.assertEqual(self.state(), before)
        self.cairn("pool", "check")
        self.assertEqual(len(self.read("data@s1")), 16 * MIB)
        self.cairn("snapshot", "delete", "data@s1")

    def test_a_read_only_pool_answers_and_refuses(self):
        self.two_snapshots()
        if CAN_MOUNT:
            subprocess.run(["mount", "--bind", self.pool, self.pool], check=True)
            self.mounted.append(self.pool)
            subprocess.run(["mount", "-o", "remount,ro,bind", self.pool], check=True)
        elif os.geteuid() == 0:
            self.skipTest("root without mounts sees no read-only directory")
        else:
            for directory, _, _ in os.walk(self.pool):
                os.chmod(directory, 0o500)
                self.addCleanup(os.chmod, directory, 0o700)
        self.assertTrue(self.json("pool", "info")["read_only"])
        for args in [("delta", "data@s1", "data@s2"), ("delta", "data@s2"), ("pool", "check"),
                     ("map", "data@s1", "data@s2"), ("verify", "data@s1", "data@s2"),
                     ("volume", "info", "data"), ("snapshot", "path", "data@s1")]:
            with self.subTest(args):
                self.cairn(*args)
        for args in [("volume", "create", "x", "--size", "1M"), ("snapshot", "create", "data@s3"),
                     ("snapshot", "delete", "data@s1"), ("volume", "expand", "data", "--size", "1G"),
                     ("volume", "delete", "data", "--with-snapshots"), ("pool", "gc")]:
            self.assert_refused(PRECONDITION, *args)


if __name__ == "__main__":
    main()
