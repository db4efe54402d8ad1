# SPDX-License-Identifier: Apache-2.0
"""`cairn list`, `cairn verify` over devices and the example of libcairn-client,
against a scripted peer that breaks its streams at given places."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

BIN = os.environ["CAIRN_BIN"]
SERVICE = os.environ["CAIRN_SCRIPTED_SERVICE"]
EXAMPLE = os.environ["CAIRN_EXAMPLE"]
TIMEOUT = 600
STRIDE, LENGTH = 8192, 4096
UNAVAILABLE, UNAUTHENTICATED, PRECONDITION, DATA_LOSS = 14, 16, 9, 15


def truth(blocks, start=0):
    """What the service lists from `start` on."""
    return [(i * STRIDE, LENGTH) for i in range(blocks) if i * STRIDE + LENGTH > start]


class Service:
    """The scripted peer as a process."""

    def __init__(self, directory, address, *args):
        self.log = directory / "service.log"
        self.process = subprocess.Popen([SERVICE, *args, address], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline().split()
        if line[:1] != ["ready"]:
            raise AssertionError("the scripted peer did not start")
        self.address = line[1]

    def kill(self):
        self.process.kill()
        self.process.wait(TIMEOUT)
        self.process.stdout.close()

    def stop(self):
        """The offsets at which streams were asked for, and of which kind."""
        if self.process.poll() is not None:
            return []
        self.process.send_signal(signal.SIGTERM)
        out, _ = self.process.communicate(timeout=TIMEOUT)
        return [(int(line.split()[1]), line.split()[2]) for line in out.splitlines()]


class ScriptedTest(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="cairn-client-"))
        self.addCleanup(shutil.rmtree, self.dir)
        self.token = self.dir / "token"
        self.token.write_text("secret-token-1\n")
        self.service = None

    def serve(self, *args, address=None):
        self.service = Service(self.dir, address or f"unix:{self.dir}/socket", *args)
        self.addCleanup(self.service.stop)
        return self.service

    def command(self, *args, subcommand="list"):
        return [BIN, subcommand, "-n", "ns", "-s", "snap", "--address", self.service.address,
                "--token-file", str(self.token), *map(str, args)]

    def list(self, *args, code=0, subcommand="list"):
        done = subprocess.run(self.command(*args, subcommand=subcommand), capture_output=True,
                              text=True, stdin=subprocess.DEVNULL, timeout=TIMEOUT)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertNotIn("secret-token", done.stderr + done.stdout)
        return done

    def blocks(self, text):
        """Blocks of an ndjson listing, which must be complete."""
        lines = [json.loads(line) for line in text.splitlines()]
        self.assertIn("kind", lines[0])
        self.assertTrue(lines[-1]["complete"])
        found = [(line["byte_offset"], line["size_bytes"]) for line in lines[1:-1]]
        self.assertEqual(lines[-1]["blocks"], len(found))
        self.assertEqual(lines[-1]["bytes"], sum(size for _, size in found))
        return found


class ListTest(ScriptedTest):
    # --- forms ---

    def test_table_and_json_are_those_of_upstreams_lister(self):
        self.serve("--blocks", "3", "--per-message", "2")
        self.assertEqual(self.list().stdout, (
            "Record#   VolCapBytes  BlockMetadataType   ByteOffset     SizeBytes\n"
            "------- -------------- ----------------- -------------- --------------\n"
            "      1          24576   VARIABLE_LENGTH              0           4096\n"
            "      1          24576   VARIABLE_LENGTH           8192           4096\n"
            "      2          24576   VARIABLE_LENGTH          16384           4096\n"))
        self.assertEqual(self.list("--output-format", "json").stdout, (
            '[{"block_metadata_type":2,"volume_capacity_bytes":24576,"block_metadata":'
            '[{"size_bytes":4096},{"byte_offset":8192,"size_bytes":4096}]},'
            '{"block_metadata_type":2,"volume_capacity_bytes":24576,"block_metadata":'
            '[{"byte_offset":16384,"size_bytes":4096}]}]'))

    def test_options_as_go_programs_take_them(self):
        self.serve("--blocks", "3")
        done = subprocess.run([BIN, "list", "-namespace=ns", "-snapshot", "snap", "-max-results=2",
                               "-output-format", "json", "-address", self.service.address,
                               "-token-file", self.token], capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=TIMEOUT)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(json.loads(done.stdout)), 2)

    def test_nothing_to_list_has_no_table_and_an_empty_array(self):
        self.serve("--blocks", "0")
        self.assertEqual(self.list().stdout, "")
        self.assertEqual(self.list("-o", "json").stdout, "[]")
        self.assertEqual(self.list("-o", "ndjson").stdout,
                         '{"complete":true,"blocks":0,"bytes":0}\n')

    def test_fixed_blocks_and_an_empty_first_message(self):
        self.serve("--blocks", "1", "--fixed", "--announce")
        self.assertIn("      2           8192      FIXED_LENGTH              0           4096\n",
                      self.list().stdout)
        self.assertTrue(self.list("-o", "json").stdout.startswith(
            '[{"block_metadata_type":1,"volume_capacity_bytes":8192,"block_metadata":null},'))

    def test_starting_offset_and_max_results_reach_the_service(self):
        self.serve("--blocks", "100", "--per-message", "50")
        done = self.list("--starting-offset", 10 * STRIDE, "--max-results", 7, "-o", "json")
        messages = json.loads(done.stdout)
        self.assertEqual([len(m["block_metadata"]) for m in messages], [7] * 12 + [6])
        self.assertEqual(messages[0]["block_metadata"][0]["byte_offset"], 10 * STRIDE)

    # --- streams that break ---

    def test_a_broken_stream_is_taken_up_and_told_of(self):
        service = self.serve("--blocks", "1000", "--per-message", "10", "--step", "3:14",
                             "--step", "0:4", "--step", "40:13", "--step", "all:0")
        done = self.list("-o", "ndjson")
        self.assertEqual(self.blocks(done.stdout), truth(1000))
        self.assertEqual(done.stderr.count("trying again in"), 3)
        self.assertEqual(service.stop(), [(0, "allocated"), (29 * STRIDE + LENGTH, "allocated"),
                                          (29 * STRIDE + LENGTH, "allocated"),
                                          (429 * STRIDE + LENGTH, "allocated")])

    def test_with_no_retry_the_first_break_ends_it_and_says_where_to_go_on(self):
        self.serve("--blocks", "1000", "--step", "3:14", "--step", "all:0")
        done = self.list("--no-retry", "-o", "json", code=UNAVAILABLE)
        self.assertRaises(ValueError, json.loads, done.stdout)  # not closed
        self.assertIn(f"--starting-offset {29 * STRIDE + LENGTH}", done.stderr)

    def test_patience_ends(self):
        self.serve("--step", "0:14")
        self.assertIn("UNAVAILABLE", self.list("--patience", "500ms", code=UNAVAILABLE).stderr)

    def test_the_service_is_killed_in_the_middle_and_comes_back(self):
        blocks = 300000  # more than all buffers on the way hold
        self.serve("--blocks", str(blocks), "--per-message", "100")
        with open(self.dir / "said", "w+") as said:
            listing = subprocess.Popen(self.command("-o", "ndjson"), stdout=subprocess.PIPE,
                                       stderr=said, stdin=subprocess.DEVNULL, text=True)
            first = [listing.stdout.readline() for _ in range(1000)]
            self.service.kill()
            again = self.serve("--blocks", str(blocks), "--per-message", "1000")
            with listing.stdout:
                rest = listing.stdout.read()
            code = listing.wait(TIMEOUT)
            said.seek(0)
            self.assertEqual(code, 0, said.read())
        self.assertEqual(self.blocks("".join(first) + rest), truth(blocks))
        streams = again.stop()
        self.assertEqual(len(streams), 1)
        self.assertGreater(streams[0][0], 0)

    def test_the_token_is_renewed_in_the_middle(self):
        service = self.serve("--blocks", "1000", "--step", "5:16:secret-token-1",
                             "--step", "all:0:secret-token-2")
        listing = subprocess.Popen(self.command("-o", "ndjson"), stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
        # The refused token is followed by one try with whatever the file has then; whoever
        # renews it may be late, so both ends are right, but never a short list that ends with 0.
        self.token.write_text("secret-token-2\n")
        out, said = listing.communicate(timeout=TIMEOUT)
        self.assertNotIn("secret-token", said)
        if listing.returncode == 0:
            self.assertEqual(self.blocks(out), truth(1000))
        else:
            self.assertEqual(listing.returncode, UNAUTHENTICATED)
        self.assertLessEqual(len(service.stop()), 2)

    def test_an_interrupt_ends_a_wait(self):
        self.serve("--step", "2:14", "--step", "0:14")
        listing = subprocess.Popen(self.command("-o", "json", "--patience", "none"),
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   stdin=subprocess.DEVNULL, text=True)
        for _ in range(2):  # streams that it asked for; the second came after a wait
            self.service.process.stdout.readline()
        listing.send_signal(signal.SIGINT)
        out, _ = listing.communicate(timeout=TIMEOUT)
        self.assertEqual(listing.returncode, 128 + signal.SIGINT)
        self.assertRaises(ValueError, json.loads, out)

    def test_a_reader_that_goes_away_ends_it(self):
        self.serve("--blocks", "1000000", "--per-message", "1000")
        listing = subprocess.Popen(self.command(), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   stdin=subprocess.DEVNULL, text=True)
        listing.stdout.readline()
        listing.stdout.close()
        self.assertIn("write output", listing.stderr.read())
        self.assertNotEqual(listing.wait(TIMEOUT), 0)
        listing.stderr.close()

    def test_a_terminal_shows_how_far_it_is_and_the_remarks_on_lines_of_their_own(self):
        self.serve("--blocks", "300000", "--per-message", "100", "--step", "2000:14",
                   "--step", "all:0")
        terminal, end = os.openpty()
        listing = subprocess.Popen(self.command("-o", "ndjson"), stdout=subprocess.PIPE,
                                   stderr=end, stdin=subprocess.DEVNULL, text=True)
        os.close(end)
        listing.stdout.readline()
        time.sleep(1)
        with listing.stdout:
            rest = listing.stdout.read()
        self.assertEqual(listing.wait(TIMEOUT), 0)
        said = b""
        while True:
            try:
                data = os.read(terminal, 65536)
            except OSError:  # the last one closed it
                break
            said += data
        os.close(terminal)
        self.assertTrue(json.loads(rest.splitlines()[-1])["complete"])
        self.assertRegex(said.decode(), r"\r\x1b\[Klisting: [0-9]+ %, [0-9]+ s")
        self.assertTrue(said.endswith(b"\r\x1b[K"), said[-100:])
        before, found, _ = said.decode().partition("cairn: ")
        self.assertTrue(found and before.endswith("\r\x1b[K"), before[-40:])

    # --- other ways ---

    def test_it_falls_back_to_allocated_blocks_when_told(self):
        steps = ["--blocks", "20", "--step", "0:9", "--step", "all:0"]
        self.serve(*steps)
        self.list("-P", "gone", code=PRECONDITION)
        self.service.stop()
        service = self.serve(*steps)
        done = self.list("-P", "gone", "--fall-back", "-o", "ndjson")
        self.assertEqual(json.loads(done.stdout.splitlines()[0])["kind"], "allocated")
        self.assertIn("changed blocks are not known", done.stderr)
        self.assertEqual(service.stop(), [(0, "delta"), (0, "allocated")])

    def test_tls_with_an_authority_and_a_name(self):
        if not shutil.which("openssl"):
            self.skipTest("openssl is not installed")
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                        "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
                        "-subj", "/CN=service", "-addext", "subjectAltName=DNS:service.example",
                        "-keyout", self.dir / "key.pem", "-out", self.dir / "cert.pem"],
                       check=True, capture_output=True)
        self.serve("--blocks", "50", "--cert", str(self.dir / "cert.pem"),
                   "--key", str(self.dir / "key.pem"), address="127.0.0.1:0")
        ca = ["--ca-file", self.dir / "cert.pem"]
        done = self.list(*ca, "--server-name", "service.example", "-o", "ndjson")
        self.assertEqual(self.blocks(done.stdout), truth(50))
        self.list(*ca, "--no-retry", code=UNAVAILABLE)                       # another name
        self.list("--server-name", "service.example", "--no-retry", code=UNAVAILABLE)  # no trust

    def test_the_example_program_lists_and_goes_on(self):
        self.serve("--blocks", "100", "--step", "3:14", "--step", "all:0")
        done = subprocess.run([EXAMPLE, "ns", "snap", "base"], capture_output=True, text=True,
                              timeout=TIMEOUT, stdin=subprocess.DEVNULL,
                              env={**os.environ, "ADDRESS": self.service.address,
                                   "TOKEN_FILE": str(self.token)})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([tuple(map(int, line.split())) for line in done.stdout.splitlines()],
                         truth(100))
        self.assertIn(f"changed: {100 * LENGTH} bytes of {100 * STRIDE} in 2 streams", done.stderr)

    def test_what_is_missing_is_a_usage_error(self):
        self.serve()
        for args in (["-n", "x"], ["-s", "x"], ["-n", "x", "-s", "y", "--service-account", "z"],
                     ["-n", "x", "-s", "y", "--max-results", "3000000000"], ["word"]):
            done = subprocess.run([BIN, "list", *args], capture_output=True, text=True,
                                  stdin=subprocess.DEVNULL, timeout=TIMEOUT)
            self.assertEqual(done.returncode, 2, done.stderr)


class DeviceTest(ScriptedTest):
    """`cairn verify` over two files."""

    blocks_count = 64

    def files(self, base=b""):
        """A source that differs from the target in the listed blocks only."""
        size = self.blocks_count * STRIDE
        data = bytearray(base or bytes(size))
        for at, length in truth(self.blocks_count):
            data[at:at + length] = os.urandom(length)
        source, target = self.dir / "source", self.dir / "target"
        source.write_bytes(data)
        target.write_bytes(base or bytes(size))
        return source, target

    def verify(self, source, target, *args, code=0):
        return self.list("--source-device-path", source, "--target-device-path", target, *args,
                         code=code, subcommand="verify")

    def test_full_and_incremental_copies_make_the_target_equal(self):
        self.serve("--blocks", str(self.blocks_count), "--step", "2:14", "--step", "all:0")
        for args, base in (([], b""), (["-P", "base"], os.urandom(self.blocks_count * STRIDE))):
            source, target = self.files(base)
            done = self.verify(source, target, *args, "-o", "json")
            said = json.loads(done.stdout)
            self.assertTrue(said["ok"])
            self.assertEqual(said["copied_bytes"], self.blocks_count * LENGTH)
            self.assertEqual(said["compared_bytes"], self.blocks_count * STRIDE)
            self.assertEqual(source.read_bytes(), target.read_bytes())

    def test_a_change_that_is_not_listed_is_found(self):
        self.serve("--blocks", str(self.blocks_count))
        source, target = self.files()
        with open(source, "r+b") as file:
            file.seek(5 * STRIDE + LENGTH + 100)
            file.write(b"x")
        done = self.verify(source, target, code=DATA_LOSS)
        self.assertIn(f"first at offset {5 * STRIDE + LENGTH}", done.stderr)

    def test_devices_that_can_not_be_right_are_refused_and_left_alone(self):
        self.serve("--blocks", str(self.blocks_count))
        source, target = self.files()
        self.verify(source, source, code=3)
        self.verify(self.dir, target, code=3)
        self.verify(source, self.dir, code=PRECONDITION)
        self.verify(source, self.dir / "missing", code=5)
        self.verify(self.dir / "missing", target, code=5)
        with open(target, "ab") as file:
            file.write(b"more")
        self.verify(source, target, code=PRECONDITION)
        self.assertFalse(any(target.read_bytes()[:-4]))
        self.list("--src", source, code=2, subcommand="verify")
        self.list("--src", source, "--tgt", target, "snapshot", code=2, subcommand="verify")

    def test_a_last_block_may_pass_the_end(self):
        self.serve("--blocks", "2", "--length", "8192", "--stride", "8192")
        source, target = self.dir / "source", self.dir / "target"
        source.write_bytes(os.urandom(12000))
        target.write_bytes(bytes(12000))
        self.verify(source, target)
        self.assertEqual(source.read_bytes(), target.read_bytes())
        source.write_bytes(bytes(8000))
        target.write_bytes(bytes(8000))
        self.verify(source, target, code=11)


if __name__ == "__main__":
    unittest.main()
