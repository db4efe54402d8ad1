# SPDX-License-Identifier: Apache-2.0
"""A TCP proxy that misbehaves on command: cuts connections, answers with errors
of its own, is slow, or stalls."""
import random
import socket
import threading
import time

ERROR = (b"HTTP/1.1 %d Sorry\r\nContent-Length: 5\r\nConnection: close\r\n\r\nsorry")


class CutProxy:
    """Listens on a port of its own and passes bytes to `port`.

    mode   "pass"    everything
           "cut"     each connection lives for a random number of bytes
           "error"   one request of three is answered with `status`
           "slow"    bytes pass in small pieces, with pauses
           "stall"   one connection of three passes nothing on
           "down"    each connection is closed at once
    """

    def __init__(self, port, seed=1):
        self.port_behind = port
        self.mode = "pass"
        self.status = 503
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
        if mode == "down":
            self.harmed += 1
            client.close()
            return
        if mode == "error" and self.random.random() < 0.34:
            self.harmed += 1
            client.recv(65536)
            client.sendall(ERROR % self.status)
            client.close()
            return
        if mode == "stall" and self.random.random() < 0.34:
            self.harmed += 1
            time.sleep(8)
            client.close()
            return
        server = socket.create_connection(("127.0.0.1", self.port_behind))
        budget = [self.random.randrange(200, 2_000_000) if mode == "cut" else None]
        for a, b in ((client, server), (server, client)):
            threading.Thread(target=self.pump, args=(a, b, mode, budget), daemon=True).start()

    def pump(self, source, sink, mode, budget):
        try:
            while True:
                data = source.recv(1500 if mode == "slow" else 65536)
                if not data:
                    break
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
