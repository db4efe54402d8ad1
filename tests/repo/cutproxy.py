# SPDX-License-Identifier: Apache-2.0
"""A TCP proxy that misbehaves on command: cuts connections, answers with errors
of its own, is slow, or stalls."""
import random
import socket
import threading
import time

ERROR = b"HTTP/1.1 %d Sorry\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s"


class CutProxy:
    """Listens on a port of its own and passes bytes to `port`.

    mode   "pass"    everything
           "cut"     each connection lives for a random number of bytes
           "error"   one request of three is answered with `status`
           "slow"    bytes pass in small pieces, with pauses
           "stall"   one connection of three passes nothing on
           "down"    each connection is closed at once
    fail_next        as many connections are answered with `status` and `body`
    budgets          the next connections live for as many bytes each
    sent             bytes that clients have sent on
    """

    def __init__(self, port, seed=1):
        self.port_behind = port
        self.mode = "pass"
        self.status = 503
        self.body = b"sorry"
        self.fail_next = 0
        self.budgets = []
        self.sent = 0
        self.harmed = 0
        self.random = random.Random(seed)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.open = True
        threading.Thread(target=self.accept, daemon=True).start()

    def close(self):
        self.open = False
        self.listener.close()

    def accept(self):
        while self.open:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        mode = self.mode
        if self.fail_next > 0:
            self.fail_next -= 1
            self.answer(client)
            return
        if mode == "down":
            self.harmed += 1
            client.close()
            return
        if mode == "error" and self.random.random() < 0.34:
            self.answer(client)
            return
        if mode == "stall" and self.random.random() < 0.34:
            self.harmed += 1
            time.sleep(8)
            client.close()
            return
        try:
            server = socket.create_connection(("127.0.0.1", self.port_behind))
        except OSError:
            client.close()
            return
        budget = [self.random.randrange(200, 2_000_000) if mode == "cut" else None]
        if self.budgets:
            budget = [self.budgets.pop(0)]
        for a, b in ((client, server), (server, client)):
            threading.Thread(target=self.pump, args=(a, b, mode, budget, a is client),
                             daemon=True).start()

    def answer(self, client):
        """An error of our own, once the request has come."""
        self.harmed += 1
        try:
            client.recv(65536)
            client.sendall(ERROR % (self.status, len(self.body), self.body))
        except OSError:
            pass
        client.close()

    def pump(self, source, sink, mode, budget, count):
        try:
            while True:
                data = source.recv(1500 if mode == "slow" else 65536)
                if not data:
                    break
                if count:
                    self.sent += len(data)
                if mode == "slow":
                    time.sleep(0.002)
                if budget[0] is not None:
                    budget[0] -= len(data)
                    if budget[0] < 0:
                        self.harmed += 1
                        break
                sink.sendall(data)
        except OSError:
            pass
        for s in (source, sink):
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            s.close()
