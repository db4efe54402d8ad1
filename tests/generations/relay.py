# SPDX-License-Identifier: Apache-2.0
"""A relay before the API server that sees every request of one program and can stop the program
at any of them: before the request is passed on, or after it was done and before it is answered."""
import collections
import contextlib
import http.client
import http.server
import re
import ssl
import threading

PIECE = 65536
OURS = {"host", "connection", "transfer-encoding", "content-length"}


class Trap:
    """Springs at the first request that is not in `known`; `late`: once the API server has
    done it. Names that match `alike` are one, and the second request of a kind is a step of its
    own: a request that comes unasked moves nothing."""

    def __init__(self, known, alike, late, spring):
        self.known, self.alike, self.late, self.spring = known, alike, late, spring
        self.seen = collections.Counter()
        self.sprung = threading.Event()
        self.step = None  # the request it sprang at

    def is_for(self, request):
        kind = re.sub(self.alike, "NAME", request)
        self.seen[kind] += 1
        step = f"{kind} {self.seen[kind]}"
        if self.step or step in self.known:
            return False
        self.step = step
        return True


class Relay:
    """`authority` signs its certificate; `server` is (host, port) of the API server."""

    def __init__(self, authority, server, ca):
        self.server = server
        self.upstream = ssl.create_default_context(cafile=str(ca))
        self.lock = threading.Lock()
        self.trap, self.open = None, set()
        relay = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_one_request(self):
                self.raw_requestline = self.rfile.readline(PIECE)
                if not self.raw_requestline or not self.parse_request():
                    self.close_connection = True
                    return
                relay.pass_on(self)

            def handle(self):
                with contextlib.suppress(OSError, http.client.HTTPException, ValueError):
                    super().handle()

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_):
                pass

            def finish_request(self, request, client_address):
                # Here and not at accept(): a handshake must not hold up the others.
                with contextlib.suppress(OSError):
                    with context.wrap_socket(request, server_side=True) as secured:
                        Handler(secured, client_address, self)

        crt, key = authority.issue("relay", "/CN=relay", "serverAuth", ["IP:127.0.0.1"])
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(crt, key)
        self.http = Server(("127.0.0.1", 0), Handler)
        self.port = self.http.server_address[1]
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def close(self):
        self.http.shutdown()
        self.http.server_close()
        self.forget()

    def forget(self):
        """Ends what is open to the API server for a program that is gone."""
        with self.lock:
            for connection in self.open:
                with contextlib.suppress(OSError, AttributeError):
                    connection.sock.shutdown(2)
            self.open.clear()

    def arm(self, trap):
        """From now on it sees requests, but for watches. None: nothing springs."""
        with self.lock:
            self.trap = trap

    def note(self, method, path):
        """The trap, if this is the request it waits for."""
        with self.lock:
            if "watch=" in path or "/leases" in path:
                return None
            if self.trap and self.trap.is_for(f"{method} {path.partition('?')[0]}"):
                return self.trap
        return None

    def pass_on(self, request):
        trap = self.note(request.command, request.path)
        body = request.rfile.read(int(request.headers.get("content-length", 0)))
        if trap and not trap.late:
            self.fire(trap, request)
            return
        connection = http.client.HTTPSConnection(*self.server, context=self.upstream)
        with self.lock:
            self.open.add(connection)
        try:
            connection.request(request.command, request.path, body or None, {
                name: value for name, value in request.headers.items()
                if name.lower() not in OURS})
            reply = connection.getresponse()
            if trap:
                reply.read()
                self.fire(trap, request)
                return
            self.answer(request, reply)
        finally:
            with self.lock:
                self.open.discard(connection)
            connection.close()

    @staticmethod
    def fire(trap, request):
        request.close_connection = True
        trap.spring()
        trap.sprung.set()

    @staticmethod
    def answer(request, reply):
        request.send_response_only(reply.status)
        for name, value in reply.getheaders():
            if name.lower() not in OURS:
                request.send_header(name, value)
        length = reply.getheader("content-length")
        request.send_header(*(("Content-Length", length) if length is not None else
                              ("Transfer-Encoding", "chunked")))
        request.end_headers()
        while piece := reply.read1(PIECE):
            if length is None:
                piece = b"%x\r\n%s\r\n" % (len(piece), piece)
            request.wfile.write(piece)
        if length is None:
            request.wfile.write(b"0\r\n\r\n")
