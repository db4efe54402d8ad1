# SPDX-License-Identifier: Apache-2.0
"""An S3 server in memory for tests of what real ones do rarely: it holds requests back until
several have come, and knows conditional writes or not. Signatures are not checked."""
import base64
import hashlib
import http.server
import threading
import urllib.parse
import xml.sax.saxutils

WAIT = 120  # seconds that a held request waits for the others at most; only a hang reaches it


class FakeS3(http.server.ThreadingHTTPServer):
    """`conditions`: "kept", "ignored" or "refused". The first `together` requests
    (method, end of the key) are answered when all of them have come."""
    daemon_threads = True
    request_queue_size = 128  # a client that finds 5 before it waits a second and more

    def __init__(self, conditions="kept", hold=None, together=1, object_lock=False):
        super().__init__(("127.0.0.1", 0), Handler)
        self.object_lock = object_lock  # a body must come with its MD5, as AWS has it
        self.conditions, self.hold = conditions, hold
        self.objects, self.lock = {}, threading.Lock()
        self.page = 1000  # names in an answer
        self.capacity = None  # in bytes; a PUT of more is answered with 507
        self.seen = []  # methods and paths
        self.barrier, self.held = threading.Barrier(together), together
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def port(self):
        return self.server_address[1]

    def used(self):
        return sum(map(len, self.objects.values()))

    def wait_for_others(self, method, key):
        if not self.hold or method != self.hold[0] or not key.endswith(self.hold[1]):
            return
        with self.lock:
            self.held -= 1
            held = self.held >= 0
        if held:
            self.barrier.wait(WAIT)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def parse_request(self):
        parsed = super().parse_request()
        if parsed:
            self.server.seen.append(f"{self.command} {self.path}")
        return parsed

    def answer(self, status, body=b""):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def split(self):
        url = urllib.parse.urlsplit(self.path)
        bucket, _, key = urllib.parse.unquote(url.path).lstrip("/").partition("/")
        return bucket, key, urllib.parse.parse_qs(url.query)

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        _, key, query = self.split()
        if not key:
            return self.answer(200, self.listing(query) if "list-type" in query else b"")
        with self.server.lock:
            body = self.server.objects.get(key)
        self.server.wait_for_others(self.command, key)
        if body is None:
            return self.answer(404)
        wanted = self.headers.get("Range")
        if wanted:
            first, last = wanted.partition("=")[2].split("-")
            return self.answer(206, body[int(first):int(last) + 1])
        return self.answer(200, body)

    def listing(self, query, without=None):
        """A page of names; `without` those that contain this."""
        prefix = query.get("prefix", [""])[0]
        after = query.get("continuation-token", query.get("start-after", [""]))[0]
        with self.server.lock:
            found = [(key, len(body)) for key, body in sorted(self.server.objects.items())
                     if key.startswith(prefix) and key > after
                     and not (without and without in key)]
        page = found[:self.server.page]
        rows = "".join(f"<Contents><Key>{xml.sax.saxutils.escape(key)}</Key>"
                       f"<Size>{size}</Size></Contents>" for key, size in page)
        goes_on = "<IsTruncated>false</IsTruncated>" if page == found else (
            "<IsTruncated>true</IsTruncated><NextContinuationToken>"
            f"{xml.sax.saxutils.escape(page[-1][0])}</NextContinuationToken>")
        return f"<?xml version='1.0'?><ListBucketResult>{goes_on}{rows}</ListBucketResult>".encode()

    def do_PUT(self):
        _, key, _ = self.split()
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.wait_for_others("PUT", key)
        md5 = base64.b64encode(hashlib.md5(body).digest()).decode()
        if self.server.object_lock and self.headers.get("Content-MD5") != md5:
            return self.answer(400, b"<Error><Code>InvalidRequest</Code><Message>Content-MD5 HTTP "
                                    b"header is required for Put Object requests with Object Lock "
                                    b"parameters</Message></Error>")
        conditional = self.headers.get("If-None-Match") == "*"
        if conditional and self.server.conditions == "refused":
            return self.answer(501)
        with self.server.lock:
            there = key in self.server.objects
            if conditional and there and self.server.conditions == "kept":
                status = 412
            elif self.server.capacity and self.server.used() + len(body) > self.server.capacity:
                status = 507
            else:
                status = 200
                self.server.objects[key] = body
        return self.answer(status)

    def do_DELETE(self):
        _, key, _ = self.split()
        with self.server.lock:
            self.server.objects.pop(key, None)
        self.answer(204)
