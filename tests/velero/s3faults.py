# SPDX-License-Identifier: Apache-2.0
"""A proxy in front of the object store, which fails when a test tells it to.

Requests are passed on as they are: their signatures cover the address that clients were given.
"""
import http.client
import http.server
import threading

STATUS = {"500": (500, "InternalError"), "503": (503, "SlowDown"),
          "full": (507, "InsufficientStorage"), "credentials": (403, "SignatureDoesNotMatch")}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 600

    def log_message(self, *words):  # pylint: disable=arguments-differ
        pass

    def body(self):
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def fail(self, body):
        """Answers in place of the store; True: it has."""
        fault = self.server.fault_for(self.command, self.path)
        if fault is None:
            return False
        self.server.count()
        if fault == "slow":
            self.server.released.wait(1)
            return False
        if fault == "hang":
            self.server.released.wait(600)
            return False
        del body
        status, code = STATUS[fault]
        text = f"<?xml version='1.0'?><Error><Code>{code}</Code></Error>".encode()
        self.reply(status, [("Content-Length", str(len(text)))], text)
        return True

    def reply(self, status, headers, body):
        self.send_response_only(status)
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def pass_on(self):
        body = self.body()
        if self.fail(body):
            return
        host, port = self.server.store
        store = http.client.HTTPConnection(host, port, timeout=600)
        store.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            store.putheader(name, value)
        store.endheaders(body)
        answer = store.getresponse()
        text = answer.read()
        kept = [(name, value) for name, value in answer.getheaders()
                if name.lower() not in ("transfer-encoding", "content-length", "connection")]
        length = answer.getheader("Content-Length") if self.command == "HEAD" else str(len(text))
        self.reply(answer.status, [*kept, ("Content-Length", length or "0")], text)
        store.close()

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = pass_on


class FaultyStore(http.server.ThreadingHTTPServer):
    """`fault` is a key of STATUS, "slow" (a second for each request), "hang" (until it is ended),
    or None. Of "full", only what is written fails. `only` limits it to requests, "METHOD /PATH", with
    that text."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address, store):
        super().__init__((address, 0), Handler)
        self.store, self.fault, self.only, self.failed = store, None, "", 0
        self.released, self.lock = threading.Event(), threading.Lock()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, request, client_address):
        pass  # of clients that were killed

    def count(self):
        with self.lock:
            self.failed += 1

    def fault_for(self, method, path):
        fault = self.fault
        if fault is None or self.only not in f"{method} {path}" or (
                fault == "full" and method != "PUT"):
            return None
        return fault

    def begin(self, fault, only=""):
        self.released.clear()
        self.failed, self.only, self.fault = 0, only, fault

    def end(self):
        self.fault = None
        self.released.set()

    def close(self):
        self.end()
        self.shutdown()
        self.server_close()
