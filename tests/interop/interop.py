#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs our gRPC server and client against other implementations.

    interop.py python|go|grpcurl|h2spec

One line a check; at the end "N passed, N failed, N skipped". Exits 77 when the
peer cannot be had. The environment names what is tested: CAIRN_TEST_SERVER,
CAIRN_TEST_CLIENT and CAIRN_TEST_SET (the descriptor set of cairn_test.proto).
"""

import os
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
START_S = 60  # for a server to say that it is ready
RUN_S = 240  # for one client and all its checks
NAME = "cairn.test"


class Counts:
    passed = failed = 0


def line(ok, what, why=""):
    if ok:
        Counts.passed += 1
    else:
        Counts.failed += 1
    print(("ok " if ok else "not ok ") + what + (": " + why if why else ""), flush=True)


def skip(why):
    print(why)
    sys.exit(77)


def run(*command, timeout=RUN_S, **more):
    return subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=timeout, text=True, check=False, **more
    )


def make_certificates(directory):
    """An authority and a pair that it signed, by openssl."""

    def openssl(*arguments):
        subprocess.run(("openssl",) + arguments, cwd=directory, check=True, capture_output=True)

    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    openssl("req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.crt", "-subj", "/CN=ca", "-days", "2")
    openssl("req", *key, "-keyout", "tls.key", "-out", "tls.csr", "-subj", "/CN=" + NAME)
    with open(os.path.join(directory, "ext"), "w", encoding="ascii") as f:
        f.write(f"subjectAltName=DNS:{NAME},IP:127.0.0.1\n")
    openssl("x509", "-req", "-in", "tls.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial",
            "-days", "2", "-extfile", "ext", "-out", "tls.crt")


class Server:
    """A program that prints "ready ADDRESS" for each address it listens on."""

    def __init__(self, command, ready):
        self.addresses = []
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE)
        end = time.monotonic() + START_S
        buffer = b""
        while len(self.addresses) < ready:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.process.stdout], [], [], left)[0]:
                self.stop()
                raise RuntimeError("server is not ready: " + " ".join(command))
            data = os.read(self.process.stdout.fileno(), 4096)
            if not data:
                raise RuntimeError(f"server ended with {self.process.wait()}: " + " ".join(command))
            buffer += data
            self.addresses = re.findall(r"^ready (.*)\n", buffer.decode(), re.M)

    def stop(self):
        self.process.terminate()
        try:
            return self.process.wait(120)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()


def report(title, result):
    """Takes over the lines of a client."""
    lines = re.findall(r"^(ok|not ok) (.*)$", result.stdout, re.M)
    for verdict, what in lines:
        line(verdict == "ok", f"{title}: {what}")
    failed = any(verdict != "ok" for verdict, _ in lines)
    if not lines or (result.returncode != 0) != failed:
        line(False, title, f"exit {result.returncode}: {result.stdout[-500:]}")


class Bed:
    """A directory with certificates, and our programs."""

    def __init__(self):
        self.dir = tempfile.mkdtemp(prefix="cairn-interop-")
        self.server = os.environ["CAIRN_TEST_SERVER"]
        self.client = os.environ["CAIRN_TEST_CLIENT"]
        self.set = os.environ["CAIRN_TEST_SET"]
        make_certificates(self.dir)

    def path(self, name):
        return os.path.join(self.dir, name)

    def start(self):
        """Our server on a unix socket and with TLS."""
        return Server(
            [self.server, "--cert", self.path("tls.crt"), "--key", self.path("tls.key"),
             "unix:" + self.path("our.sock"), "127.0.0.1:0"], 2)

    def close(self):
        shutil.rmtree(self.dir, ignore_errors=True)


def both_ways(bed, name, client, serve):
    """`client(target, tls)` and `serve(listen, tls)` give the peer's commands."""
    server = bed.start()
    unix, tls = server.addresses
    report(f"{name} client, unix", run(*client(unix, False)))
    report(f"{name} client, TLS", run(*client(tls, True)))
    line(server.stop() == 0, f"{name} client: our server ends cleanly")
    for listen, secure in (("unix:" + bed.path("peer.sock"), False), ("127.0.0.1:0", True)):
        peer = Server(serve(listen, secure), 1)
        target = peer.addresses[0] if secure else listen
        extra = ["--ca", bed.path("ca.crt"), "--name", NAME] if secure else []
        report(f"{name} server, {'TLS' if secure else 'unix'}", run(bed.client, *extra, target))
        peer.stop()


def run_python(bed):
    peer = ["/usr/bin/python3", os.path.join(HERE, "python_peer.py"), bed.set]
    probe = run("/usr/bin/python3", "-c", "import grpc, google.protobuf")
    if probe.returncode != 0:
        skip("python3-grpcio is not installed")
    both_ways(
        bed, "python",
        lambda target, tls: peer + ["client", target] + ([bed.path("ca.crt"), NAME] if tls else []),
        lambda listen, tls: peer + ["server", listen] + ([bed.path("tls.crt"), bed.path("tls.key")] if tls else []))


def built(name):
    """The file of a peer that scripts/peers builds."""
    result = subprocess.run([os.path.join(ROOT, "scripts/peers"), name], stdout=subprocess.PIPE,
                            timeout=1800, text=True, check=False)
    if result.returncode != 0:
        skip(f"scripts/peers cannot build {name}")
    return result.stdout.split()[1]


def run_go(bed):
    peer = built("interop")
    both_ways(
        bed, "grpc-go",
        lambda target, tls: [peer, "client", "-target", target]
        + (["-ca", bed.path("ca.crt"), "-name", NAME] if tls else []),
        lambda listen, tls: [peer, "server", "-listen", listen]
        + (["-cert", bed.path("tls.crt"), "-key", bed.path("tls.key")] if tls else []))


def run_grpcurl(bed):
    peer = built("grpcurl")
    server = bed.start()
    unix, tls = server.addresses
    ways = (
        ("unix", ["-plaintext", "-unix"], unix[len("unix:"):]),
        ("TLS", ["-cacert", bed.path("ca.crt"), "-authority", NAME], tls),
    )
    cases = (
        ("lists services", [], ["list"], 0, "cairn.test.Test"),
        ("lists methods", [], ["list", "cairn.test.Test"], 0, "cairn.test.Test.Bidi"),
        ("describes a service", [], ["describe", "cairn.test.Test"], 0, "rpc Tuples"),
        ("describes a message with imports", [], ["describe", "csi.v1.Snapshot"], 0, "google.protobuf.Timestamp"),
        ("calls", ["-d", '{"payload":"aGk="}'], ["cairn.test.Test/Unary"], 0, '"payload": "aGk="'),
        ("gets a stream", ["-d", '{"repeat":3}'], ["cairn.test.Test/ServerStream"], 0, '"index": "2"'),
        ("gets a status", ["-d", '{"status_code":5,"status_message":"w\\u00e4g"}'], ["cairn.test.Test/Unary"],
         64 + 5, "Message: wäg"),
        ("asks about health", [], ["grpc.health.v1.Health/Check"], 0, "SERVING"),
        ("asks for what is not there", [], ["describe", "no.such.Thing"], 1, "not found"),
    )
    for way, flags, target in ways:
        for title, before, after, code, text in cases:
            result = run(peer, "-max-time", "60", *flags, *before, target, *after)
            ok = result.returncode == code and text in result.stdout
            line(ok, f"grpcurl, {way}: {title}", "" if ok else f"{result.returncode} {result.stdout[:300]!r}")
    line(server.stop() == 0, "grpcurl: our server ends cleanly")


def h2spec_exceptions():
    """What docs/h2spec.md lists as failing: "section/number"."""
    with open(os.path.join(ROOT, "docs/h2spec.md"), encoding="utf-8") as f:
        return set(re.findall(r"^\| `([^`]+)` \|", f.read(), re.M))


def run_h2spec(bed):
    peer = built("h2spec")
    server = bed.start()
    host, port = server.addresses[1].rsplit(":", 1)
    output = bed.path("h2spec.xml")
    result = run(peer, "-h", host, "-p", port, "-t", "-k", "-o", "5", "-j", output,
                 "-P", "/cairn.test.Test/Unary", "generic", "http2", "hpack")
    exceptions = h2spec_exceptions()
    if not os.path.exists(output):
        line(False, "h2spec", result.stdout[-500:])
        return
    for suite in xml.etree.ElementTree.parse(output).iter("testsuite"):
        for number, case in enumerate(suite.iter("testcase"), 1):
            name = f"{suite.get('package')}/{number}"
            bad = case.find("failure") is not None or case.find("error") is not None
            why = "" if bad == (name in exceptions) else "failed" if bad else "listed as an exception, but passes"
            line(not why, f"h2spec {name} {case.get('classname')}", why)
    line(server.stop() == 0, "h2spec: our server ends cleanly")


def main():
    peers = {"python": run_python, "go": run_go, "grpcurl": run_grpcurl, "h2spec": run_h2spec}
    bed = Bed()
    try:
        peers[sys.argv[1]](bed)
    finally:
        bed.close()
    print(f"{Counts.passed} passed, {Counts.failed} failed, 0 skipped")
    sys.exit(1 if Counts.failed else 0)


if __name__ == "__main__":
    main()
