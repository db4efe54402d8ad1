#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Backups to an S3 server that is slow or answers half: it is the test's own, and runs a prune at a
chosen point of a backup's request, or cuts an answer where real servers do rarely."""
import pathlib
import random
import sys

from backupcli import BackupTest, digest
from cairncli import MIB, OK, main

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "repo"))
from fakes3 import FakeS3, Handler  # noqa: E402


UNAVAILABLE = 14


class SlowListing(FakeS3):
    """Answers one listing of small files in two halves: index files first, then `meanwhile` runs,
    then the names after them. A prune in `meanwhile` does not see the lock of the backup that
    waits for the answer: it has looked for locks before that was put, and the backup's first look
    was before the prune's own."""

    def __init__(self):
        super().__init__()
        self.meanwhile, self.hidden = None, None
        self.RequestHandlerClass = SlowListingHandler

    def locks(self):
        with self.lock:
            return [key for key in self.objects if "/locks/" in key]


UNAVAILABLE = 14


class SlowListingHandler(Handler):
    def listing(self, query, without=None):
        server = self.server
        if "start-after" in query and server.meanwhile and server.locks():
            meanwhile, server.meanwhile = server.meanwhile, None
            with server.lock:
                before = {key: body for key, body in server.objects.items() if "/index/" in key}
            server.hidden = server.locks()[0]
            meanwhile()
            server.hidden = None
            return self.answer_of(before, query)
        return super().listing(query, without or server.hidden)

    def answer_of(self, before, query):
        """The listing of what there is, but of `before` instead of the index files."""
        server = self.server
        with server.lock:
            now = server.objects
            server.objects = {**{key: body for key, body in now.items() if "/index/" not in key},
                              **before}
        try:
            return super().listing(query)
        finally:
            with server.lock:
                server.objects = now


class HalfAnswers(FakeS3):
    """Knows uploads in parts. `completed`: what the last call of one is answered with, status 200;
    the object is put together only if `joins`."""

    def __init__(self):
        super().__init__()
        self.completed, self.joins, self.parts = b"", False, {}
        self.RequestHandlerClass = HalfAnswersHandler


class HalfAnswersHandler(Handler):
    def do_POST(self):
        _, key, query = self.split()
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if "uploadId" not in query:
            self.server.parts[key] = {}
            return self.answer(200, b"<InitiateMultipartUploadResult><UploadId>u</UploadId>"
                                    b"</InitiateMultipartUploadResult>")
        if self.server.joins:
            parts = self.server.parts[key]
            self.server.objects[key] = b"".join(parts[n] for n in sorted(parts))
        return self.answer(200, self.server.completed)

    def do_PUT(self):
        _, key, query = self.split()
        if "partNumber" not in query:
            return super().do_PUT()
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.parts[key][int(query["partNumber"][0])] = body
        self.send_response(200)
        self.send_header("ETag", '"tag"')
        self.send_header("Content-Length", "0")
        return self.end_headers()


class InS3(BackupTest):
    def serve(self, server):
        self.server = server
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)
        self.repository = f"s3:http://127.0.0.1:{self.server.port()}/bucket/repository"

    def environment(self, **more):
        return super().environment(AWS_ACCESS_KEY_ID="k", AWS_SECRET_ACCESS_KEY="s", **more)


class Uploads(InS3):
    def test_an_answer_without_its_end_is_no_success(self):
        """The status comes before the parts are put together: only the body tells."""
        self.serve(HalfAnswers())
        self.init()
        self.make_volume(size=80 * MIB)
        self.write(0, random.Random(1).randbytes(72 * MIB))
        large = {"RESTIC_PACK_SIZE": "128"}
        for answer in (b"<Error><Code>InternalErr", b"", b"\n\n  ", b"<html>busy</html>"):
            self.server.completed = answer
            self.backup("create", "data", "--retry", "none", env=large, code=UNAVAILABLE)
            self.assertEqual(self.backups(), [])
        self.server.joins = True
        self.backup("create", "data", env=large)
        self.backup("verify")


class BesideAPrune(InS3):
    def setUp(self):
        super().setUp()
        self.serve(SlowListing())

    def prune(self):
        self.pruned = self.backup("forget", "--keep-last", "1", "--prune", code=None)

    def test_one_that_ends_within_an_answer(self):
        """The backup finds its chunks in packs that only the oldest backup has."""
        self.init()
        self.make_volume()
        first, second = (random.Random(n).randbytes(4 * MIB) for n in (1, 2))
        for name, content in (("s1", first), ("s2", second), ("s3", first)):
            self.write(0, content)
            self.cairn("snapshot", "create", f"data@{name}")
        self.create("data@s1")
        self.create("data@s2")
        self.server.meanwhile = self.prune
        made = self.backup("create", "data@s3", "-o", "json", code=None)
        self.assertIsNone(self.server.meanwhile, "the interleaving did not happen")
        self.assertEqual(self.pruned.returncode, OK, self.pruned.stderr)
        listed = [b["snapshot"] for b in self.backups()]
        self.assertEqual("s3" in listed, made.returncode == OK, made.stderr)
        for name in listed:
            name = f"data@{name}"
            self.assertEqual(self.restored(name), digest(self.path("snapshot", name)))
        self.backup("verify")


if __name__ == "__main__":
    main()
