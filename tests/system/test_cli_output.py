#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What the commands print: tables, JSON, pictures, help; and when they cannot."""
import errno
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

from cairncli import (BIN, BLOCK, MIB, NOT_FOUND, REPOSITORY, TIMEOUT, USAGE, CliTest, main)

VOLUME_KEYS = {"id", "name", "size_bytes", "created_at", "origin_id", "deleted",
               "restoring", "retention_ms", "granularity_bytes"}
SNAPSHOT_KEYS = {"id", "name", "volume", "volume_id", "parent_id", "size_bytes", "created_at",
                 "deleted", "expires_at", "change_set"}
USAGE_KEYS = {"used_bytes", "device", "device_kind", "mounted"}
SET_KEYS = {"state", "extents", "changed_bytes", "zero_bytes"}
EXTENT_KEYS = ["byte_offset", "size_bytes", "zero"]
CELL_KEYS = {"byte_offset", "size_bytes", "state", "changed_bytes", "zeroed_bytes",
             "unchanged_bytes", "hole_bytes"}
RFC3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


def on_terminal(test, *args, env=None, columns=80):
    """What a command writes to a terminal of that width."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    with subprocess.Popen([BIN, *args], stdout=theirs, stdin=subprocess.DEVNULL,
                          env=test.environment(TERM="xterm", **(env or {}))) as run:
        os.close(theirs)
        text = b""
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError as error:
                test.assertEqual(error.errno, errno.EIO)
                break
            if not part:
                break
            text += part
        os.close(ours)
        test.assertEqual(run.wait(TIMEOUT), 0)
    return text.decode()


class Json(CliTest):
    def test_records_have_the_documented_fields(self):
        self.two_snapshots()
        volume, = self.json("volume", "list")["volumes"]
        self.assertEqual(set(volume), VOLUME_KEYS | USAGE_KEYS)
        self.assertEqual([set(each) for each in self.items("volume", "--used")],
                         [set(volume) | {"exclusive_bytes"}])
        self.assertEqual(volume["size_bytes"], 16 * MIB)
        self.assertRegex(volume["created_at"], RFC3339)
        self.assertEqual(set(self.json("volume", "info", "data")),
                         VOLUME_KEYS | USAGE_KEYS | {"allocated_bytes", "path"})

        first, second = self.json("snapshot", "list")["snapshots"]
        self.assertEqual(self.items("snapshot"), [first, second])
        for snapshot in (first, second):
            self.assertEqual(set(snapshot), SNAPSHOT_KEYS | USAGE_KEYS)
            self.assertEqual(set(snapshot["change_set"]), SET_KEYS)
            self.assertRegex(snapshot["created_at"], RFC3339)
            self.assertIsNone(snapshot["expires_at"])
        self.assertEqual((first["parent_id"], second["parent_id"]), (None, first["id"]))
        self.assertEqual((first["change_set"]["state"], second["change_set"]["state"]),
                         ("none", "ready"))
        self.assertEqual(set(self.json("snapshot", "info", "data@s1")),
                         SNAPSHOT_KEYS | USAGE_KEYS | {"allocated_bytes"})
        self.assertIn("exclusive_bytes", self.json("snapshot", "info", "data@s1", "--used"))
        self.cairn("snapshot", "delete", "data@s1")
        self.assertRegex(self.json("snapshot", "info", "data@s1")["expires_at"], RFC3339)

    def test_a_new_object_is_printed(self):
        made = self.json("volume", "create", "x", "--size", "1M")
        self.assertLessEqual(made.items(), self.items("volume")[0].items())
        made = self.json("volume", "expand", "x", "--size", "2M")
        self.assertEqual(made["size_bytes"], 2 * MIB)
        made, = self.json("snapshot", "create", "x@s")["snapshots"]
        self.assertEqual(made["id"], self.items("snapshot")[0]["id"])
        self.assertEqual(set(made), SNAPSHOT_KEYS)

    def test_the_pool_has_the_documented_fields(self):
        info = self.json("pool", "info")
        self.assertEqual(set(info), {
            "directory", "backend", "image", "read_only", "total_bytes", "free_bytes", "volumes",
            "snapshots", "tombstones", "retention_ms", "granularity_bytes"})
        self.assertEqual((info["backend"], info["read_only"]), ("copy", False))
        self.assertEqual(info["retention_ms"], 90 * 86400 * 1000)
        check = self.json("pool", "check")
        self.assertEqual((check["faults"], check["found"]), ([], 0))
        self.assertEqual(self.json("pool", "gc"), {"merged": 0})

    def test_delta_in_both_forms(self):
        self.two_snapshots()
        document = self.json("delta", "data@s1", "data@s2")
        first, second = (s["id"] for s in self.items("snapshot"))
        self.assertEqual({k: v for k, v in document.items() if k != "block_metadata"}, {
            "volume": "data", "base": "data@s1", "base_id": first, "target": "data@s2",
            "target_id": second, "volume_capacity_bytes": 16 * MIB})
        text = self.out("delta", "data@s1", "data@s2", "-o", "ndjson")
        self.assertRegex(text, r'\A(\{"byte_offset":\d+,"size_bytes":\d+,"zero":(true|false)\}\n)+\Z')
        lines = [json.loads(line) for line in text.splitlines()]
        self.assertEqual(document["block_metadata"], lines)
        self.assertEqual([list(line) for line in lines], [EXTENT_KEYS] * len(lines))
        alone = self.json("delta", "data@s2")
        self.assertEqual((alone["base"], alone["base_id"]), (None, None))

    def test_an_empty_delta_is_an_empty_list(self):
        self.make_volume()
        self.cairn("snapshot", "create", "data@a", "--set-wait", "none")
        self.cairn("snapshot", "create", "data@b", "--set-wait", "none")
        self.assertEqual(self.json("delta", "data@a", "data@b")["block_metadata"], [])
        self.assertEqual(self.out("delta", "data@a", "data@b", "-o", "ndjson"), "")
        self.assertIn("0 extents", self.out("delta", "data@a", "data@b"))

    def test_pages_make_the_whole(self):
        self.two_snapshots(changes=range(0, 200, 2))
        whole = self.lines("delta", "data@s1", "data@s2")
        self.assertEqual(len(whole), 100)
        for size in (7, 50, 100, 101):
            pages, offset = [], 0
            while True:
                page = self.lines("delta", "data@s1", "data@s2", "--max-results", size,
                                  "--starting-offset", offset)
                pages += page
                if len(page) < size:
                    break
                offset = page[-1]["byte_offset"] + page[-1]["size_bytes"]
            self.assertEqual(pages, whole)
        clipped = self.lines("delta", "data@s1", "data@s2", "--starting-offset", BLOCK // 2,
                             "--max-results", 1)
        self.assertEqual(clipped, [{"byte_offset": BLOCK // 2, "size_bytes": BLOCK // 2,
                                    "zero": False}])
        last = self.out("delta", "data@s1", "data@s2", "--max-results", 99).splitlines()[-1]
        self.assertIn(f"--starting-offset {196 * BLOCK + BLOCK}", last)
        last = self.out("delta", "data@s1", "data@s2", "--max-results", 100).splitlines()[-1]
        self.assertNotIn("--starting-offset", last)
        part = self.json("delta", "data@s1", "data@s2", "--max-results", 99)
        self.assertEqual(part["next_offset"], 196 * BLOCK + BLOCK)
        part = self.json("delta", "data@s1", "data@s2", "--starting-offset", BLOCK)
        self.assertEqual((part["starting_offset"], "next_offset" in part), (BLOCK, False))
        self.assertNotIn("starting_offset", self.json("delta", "data@s1", "data@s2"))

    def test_an_error_is_an_object_for_programs(self):
        for form in ("json", "ndjson"):
            done = self.cairn("volume", "info", "no\"pe", "-o", form, code=NOT_FOUND)
            error = json.loads(done.stderr)
            self.assertEqual((error["error"], error["exit_status"]), ("NOT_FOUND", NOT_FOUND))
            self.assertIn("no\"pe", error["message"])
            self.assertEqual(done.stdout, "")
        done = self.cairn("volume", "list", "-o", "json", "extra", code=USAGE)
        self.assertEqual(json.loads(done.stderr)["error"], "USAGE")
        for args in [("volume", "lst", "-o", "json"), ("bogus", "--output=ndjson"),
                     ("volume", "list", "--bogus", "-ojson"), ("volume", "--output", "json")]:
            done = self.cairn(*args, code=USAGE)
            self.assertEqual(json.loads(done.stderr)["error"], "USAGE", args)


class Tables(CliTest):
    def test_columns_line_up_also_with_wide_names(self):
        for name in ("a", "日本語", "long-name-" * 3):
            self.make_volume(name, MIB)
        lines = self.out("volume", "list").splitlines()
        self.assertEqual(lines[0].split(), ["VOLUME", "SIZE", "USED", "DEVICE", "MOUNTED",
                                            "CREATED", "ORIGIN", "ID"])
        self.assertEqual(lines[1].index("vol-"), lines[2].index("vol-"))
        self.assertEqual(lines[3].index("vol-"), lines[1].index("vol-") - 3, "wide characters")

    def test_a_narrow_terminal_gets_fewer_columns(self):
        self.two_snapshots()
        for listing in ("volume", "snapshot"):
            lines = on_terminal(self, listing, "list", columns=60).splitlines()
            self.assertLessEqual(max(map(len, lines)), 60)
            self.assertNotIn("ID", lines[0].split())
            wide = on_terminal(self, listing, "list", columns=160).splitlines()
            self.assertEqual(wide[0].split()[-1], "ID")
            self.assertEqual(self.out(listing, "list").splitlines()[0].split()[-1], "ID",
                             "what is no terminal gets all")

    def test_empty_listings_print_nothing_for_people(self):
        self.assertEqual(self.out("volume", "list"), "")
        self.assertEqual(self.json("volume", "list"), {"volumes": []})
        self.assertEqual(self.items("snapshot"), [])

    def test_quiet_says_nothing(self):
        self.make_volume()
        self.assertEqual(self.out("snapshot", "create", "data@s", "-q"), "")
        self.assertEqual(self.out("pool", "check", "--quiet"), "")
        self.assertNotEqual(self.out("snapshot", "list", "-q"), "")


class Map(CliTest):
    def test_cells_add_up(self):
        self.two_snapshots()
        document = self.json("map", "data@s1", "data@s2", "--width", "80")
        end = 0
        for cell in document["cells"]:
            self.assertEqual(set(cell), CELL_KEYS)
            self.assertEqual(cell["byte_offset"], end)
            end += cell["size_bytes"]
            self.assertEqual(cell["size_bytes"], sum(
                cell[k + "_bytes"] for k in ("changed", "zeroed", "unchanged", "hole")))
        self.assertEqual(end, document["volume_capacity_bytes"])
        self.assertEqual(document["cells"][0]["state"], "changed")
        self.assertEqual(document["cells"][-1]["state"], "hole")
        self.assertEqual(self.lines("map", "data@s1", "data@s2", "--width", "80"),
                         document["cells"])
        self.assertEqual({c["state"] for c in self.json("map", "data@s2")["cells"]},
                         {"allocated", "hole"})

    def test_the_picture_fits_its_width_and_locale(self):
        self.two_snapshots()
        for columns in (20, 40, 80, 133):
            picture = self.out("map", "data@s1", "data@s2", env={"COLUMNS": str(columns)})
            picture.encode("ascii")
            self.assertNotIn("\x1b", picture)
            framed = [line for line in picture.splitlines() if line.endswith("|")]
            self.assertGreater(len(framed), 0)
            self.assertLessEqual(max(map(len, framed)), max(columns, 29))
            self.assertTrue(framed[0].lstrip().startswith("0 B |"))
        picture = self.out("map", "data@s1", "data@s2", env={"LANG": "C.UTF-8"})
        self.assertIn("│", picture)

    def test_colour_only_on_a_terminal_unless_told(self):
        self.two_snapshots()
        args = ("map", "data@s1", "data@s2")
        self.assertIn("\x1b[", self.out(*args, "--color", "always"))
        self.assertIn("\x1b[", on_terminal(self, *args))
        self.assertNotIn("\x1b[", on_terminal(self, *args, "--color", "never"))
        self.assertNotIn("\x1b[", on_terminal(self, *args, env={"NO_COLOR": "1"}))


class Streams(CliTest):
    def many_extents(self):
        self.make_volume(size=64 * MIB)
        path = self.path("volume", "data")
        with open(path, "r+b") as file:
            file.write(b"a" * 64 * MIB)
        self.cairn("snapshot", "create", "data@s1")
        with open(path, "r+b") as file:
            for block in range(0, 64 * MIB // BLOCK, 2):
                file.seek(block * BLOCK)
                file.write(b"b" * BLOCK)
        self.cairn("snapshot", "create", "data@s2", "--set-wait", "none")

    def test_a_closed_pipe_or_a_full_disk_is_an_error(self):
        self.many_extents()
        for args in (["delta", "data@s1", "data@s2"], ["delta", "data@s1", "data@s2", "-o", "json"],
                     ["volume", "list"], ["volume", "list", "-o", "json"], ["--version"],
                     ["--help"], ["map", "data@s1", "data@s2"]):
            with self.subTest(args), open("/dev/full", "w") as full:
                done = self.cairn(*args, code=None, stdout=full)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn("No space left", done.stderr)
        with self.start("delta", "data@s1", "data@s2", "-o", "ndjson",
                        stdout=subprocess.PIPE) as run:
            run.stdout.readline()
            run.stdout.close()
            error = run.stderr.read()
            self.assertGreater(run.wait(TIMEOUT), 0)
            self.assertIn("Broken pipe", error)
        closed = subprocess.run(["sh", "-c", f"exec '{BIN}' volume list >&-"], text=True,
                                env=self.environment(), capture_output=True, timeout=TIMEOUT)
        self.assertNotEqual(closed.returncode, 0)
        self.assertIn("Bad file descriptor", closed.stderr)

    def test_an_interrupt_ends_a_long_list(self):
        self.many_extents()
        for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
            with self.start("delta", "data@s1", "data@s2", "-o", "ndjson",
                            stdout=subprocess.PIPE) as run:
                run.stdout.readline()  # the list has begun; a full pipe holds it there
                run.send_signal(number)
                time.sleep(0.1)
                run.stdout.read()
                self.assertEqual(run.wait(TIMEOUT), code)
                self.assertIn("interrupted", run.stderr.read())


class Help(CliTest):
    def commands(self, path=()):
        text = self.out(*path, "--help")
        self.assertIn(f"Usage: {' '.join(('cairn', *path))}", text)
        self.assertLessEqual(max(map(len, text.splitlines())), 86)
        self.assertEqual(self.out("help", *path), text)
        _, found, listed = text.partition("\nCommands:\n")
        yield path
        for name in re.findall(r"^  ([a-z]+)  ", listed.split("\n\n")[0], re.M) if found else ():
            yield from self.commands((*path, name))

    def test_every_level_has_help(self):
        commands = set(self.commands())
        self.assertGreaterEqual(commands, {
            ("pool", "create"), ("pool", "check"), ("volume", "attach"), ("snapshot", "create"),
            ("delta",), ("map",), ("verify",), ("help",)})

    def test_no_command_is_a_question(self):
        self.assertEqual(self.out(), self.out("--help"))

    def test_version(self):
        self.assertRegex(self.out("--version"), r"\Acairn \d+\.\d+\.\d+\n\Z")
        self.assertEqual(self.out("volume", "--version"), self.out("--version"))


class Completion(CliTest):
    def complete(self, line):
        script = ('source "$1"; COMP_LINE=$2; COMP_POINT=${#2}; COMP_WORDS=($2); '
                  'COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); compopt() { :; }; _cairn; '
                  'printf "%s\\n" "${COMPREPLY[@]}"')
        done = subprocess.run(
            ["bash", "-c", script, "bash", REPOSITORY / "completion/cairn.bash", line],
            capture_output=True, text=True, timeout=TIMEOUT, cwd=self.scratch,
            env=self.environment(PATH=f"{os.path.dirname(BIN)}:{os.environ['PATH']}"))
        self.assertEqual(done.stderr, "")
        return done.stdout.split("\n")[:-1]

    def test_a_bash_without_the_package_of_completions(self):
        """Its readline keeps an '@' with what follows, as a host's name."""
        self.two_snapshots()
        self.cairn("snapshot", "create", "data@monday")
        main_fd, side = pty.openpty()
        shell = subprocess.Popen(
            ["bash", "--norc", "--noprofile", "-i"], stdin=side, stdout=side, stderr=side,
            start_new_session=True, cwd=self.scratch,
            env=self.environment(PATH=f"{os.path.dirname(BIN)}:{os.environ['PATH']}", TERM="dumb"))
        os.close(side)
        self.addCleanup(shell.wait, TIMEOUT)
        self.addCleanup(shell.kill)
        # The line is not run as it is: the words are printed.
        os.write(main_fd, f"source '{REPOSITORY}/completion/cairn.bash'\n"
                          "cairn2() { printf '<%s>\\n' \"$@\" > words; }\n"
                          "complete -F _cairn2 cairn2\n"
                          "_cairn2() { COMP_LINE=${COMP_LINE/cairn2/cairn}; ((COMP_POINT--)); "
                          "_cairn \"$@\"; }\n"
                          "cairn2 delta data@s1 data@m\t\n".encode())
        words, end = self.scratch / "words", time.monotonic() + TIMEOUT
        while not (words.exists() and words.read_text()) and time.monotonic() < end:
            if select.select([main_fd], [], [], 0.1)[0]:
                os.read(main_fd, 65536)
        self.assertEqual(words.read_text().split(), ["<delta>", "<data@s1>", "<data@monday>"])
        os.close(main_fd)

    def test_words_of_all_kinds(self):
        self.two_snapshots()
        self.make_volume("with space")
        self.cairn("snapshot", "delete", "data@s1")
        (self.scratch / "password").touch()
        for line, want in [
                ("cairn v", ["volume", "verify", "velero", "velero-plugin"]),
                ("cairn volume at", ["attach"]),
                ("cairn volume create x --s", ["--size"]),
                ("cairn volume list --output ", ["table", "json", "ndjson"]),
                ("cairn volume list -o j", ["json"]),
                ("cairn volume list --output=nd", ["ndjson"]),
                ("cairn volume info d", ["data"]),
                ("cairn volume info with\\ ", ["with\\ space"]),
                ("cairn snapshot create da", ["data@"]),
                ("cairn delta data@s", ["s1", "s2"]),
                ("cairn delta data@s1 data@s2", ["s2"]),
                ("cairn volume create x --from data@s2", ["s2"]),
                ("cairn --pool /nowhere volume info d", []),
                ("cairn help sn", ["snapshot"]),
                ("cairn volume create ", []),
                ("cairn help backup cr", ["create"]),
                ("cairn help backup create ", []),
                ("cairn backup restore x --to d", ["data"]),
                (f"cairn backup list --password-file {self.scratch}/pa",
                 [f"{self.scratch}/password"]),
                (f"cairn backup list --password-file={self.scratch}/pa",
                 [f"{self.scratch}/password"]),
                (f"cairn backup restore x --to {self.scratch}/pa", [f"{self.scratch}/password"]),
        ]:
            with self.subTest(line):
                self.assertEqual([w for w in self.complete(line) if w], want)


if __name__ == "__main__":
    main()
