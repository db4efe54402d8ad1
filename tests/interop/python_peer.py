#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The python3-grpcio half of the interoperability tests.

    python_peer.py SET server unix:PATH|HOST:PORT [CERT KEY]
    python_peer.py SET client unix:PATH|HOST:PORT [CA NAME]

SET is the descriptor set of cairn_test.proto; messages are made from it, so no
generated code is needed. The server prints "ready ADDRESS"; the client prints
a line for each check and exits with 1 when one failed.
"""

import os
import socket
import sys
import threading
import time
from concurrent import futures

try:
    import grpc
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
except ImportError:
    print("python3-grpcio and python3-protobuf are not installed")
    sys.exit(77)

STEP = 60
LIMIT = 16 << 20


def load(path):
    """Message classes by their short name."""
    pool = descriptor_pool.DescriptorPool()
    files = descriptor_pb2.FileDescriptorSet()
    with open(path, "rb") as f:
        files.ParseFromString(f.read())
    for file in files.file:
        pool.Add(file)
    factory = message_factory.MessageFactory(pool)
    names = ("EchoRequest", "EchoResponse", "Summary", "TupleRequest", "TupleResponse")
    classes = {n: factory.GetPrototype(pool.FindMessageTypeByName("cairn.test." + n)) for n in names}
    health = "grpc.health.v1.HealthCheck"
    for n in ("Request", "Response"):
        classes["Health" + n] = factory.GetPrototype(pool.FindMessageTypeByName(health + n))
    return classes


M = load(sys.argv[1])


# --- server ---


def echo_metadata(context):
    head = [(k, v) for k, v in context.invocation_metadata() if k.startswith("x-head-")]
    tail = [(k, v) for k, v in context.invocation_metadata() if k.startswith("x-tail-")]
    if head:
        context.send_initial_metadata(head)
    context.set_trailing_metadata(tail)


def varint(n):
    out = b""
    while n >= 0x80:
        out += bytes([n & 0x7F | 0x80])
        n >>= 7
    return out + bytes([n])


def field(tag, data):
    return bytes([tag]) + varint(len(data)) + data


def break_connections():
    """Breaks every connection of this process, as a crash would.

    All are held before the first is broken: a client comes back at once, and its
    new connection must live."""
    held = []
    for name in os.listdir("/proc/self/fd"):
        try:
            s = socket.socket(fileno=os.dup(int(name)))
            s.getpeername()
            held.append(s)
        except OSError:
            pass
    for s in held:
        with s:
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


def end(request, context):
    """Ends the call as the request asks for, or returns."""
    if request.die:
        break_connections()
        context.abort(grpc.StatusCode.UNAVAILABLE, "died")
    if request.status_code == 0:
        return
    if request.status_details:
        detail = field(0x0A, b"cairn.test/details") + field(0x12, request.status_details)
        status = b"\x08" + varint(request.status_code) + field(0x1A, detail)
        metadata = context.trailing_metadata() or ()
        context.set_trailing_metadata(tuple(metadata) + (("grpc-status-details-bin", status),))
    code = next(c for c in grpc.StatusCode if c.value[0] == request.status_code)
    context.abort(code, request.status_message)


def answer(request, context, index):
    if request.delay_ms:
        time.sleep(request.delay_ms / 1000 if context.is_active() else 0)
    left = context.time_remaining()
    return M["EchoResponse"](
        index=index,
        payload=bytes(request.reply_bytes) if request.reply_bytes else request.payload,
        deadline_ms=int(left * 1000) if left is not None else 0,
    )


def serve_unary(request, context):
    echo_metadata(context)
    end(request, context)
    return answer(request, context, 0)


def serve_server_stream(request, context):
    echo_metadata(context)
    for i in range(request.repeat):
        if not context.is_active():
            return
        yield answer(request, context, i)
    end(request, context)


def serve_client_stream(requests, context):
    echo_metadata(context)
    summary = M["Summary"]()
    for request in requests:
        end(request, context)
        summary.messages += 1
        summary.bytes += len(request.payload)
    return summary


def serve_bidi(requests, context):
    echo_metadata(context)
    for i, request in enumerate(requests):
        end(request, context)
        yield answer(request, context, i)


def serve_tuples(request, context):
    at = 0
    while at < request.count:
        m = M["TupleResponse"](
            block_metadata_type=1,
            volume_capacity_bytes=request.count * request.stride + request.length,
        )
        for i in range(at, min(at + request.per_message, request.count)):
            m.block_metadata.add(byte_offset=i * request.stride, size_bytes=request.length)
        at += request.per_message
        yield m


def serve_health(request, context):
    return M["HealthResponse"](status=1)


def serve(listen, cert=None, key=None):
    def method(kind, request, response, behaviour):
        handler = getattr(grpc, kind + "_rpc_method_handler")
        return handler(
            behaviour,
            request_deserializer=M[request].FromString,
            response_serializer=M[response].SerializeToString,
        )

    methods = {
        "Unary": method("unary_unary", "EchoRequest", "EchoResponse", serve_unary),
        "ServerStream": method("unary_stream", "EchoRequest", "EchoResponse", serve_server_stream),
        "ClientStream": method("stream_unary", "EchoRequest", "Summary", serve_client_stream),
        "Bidi": method("stream_stream", "EchoRequest", "EchoResponse", serve_bidi),
        "Tuples": method("unary_stream", "TupleRequest", "TupleResponse", serve_tuples),
    }
    health = {"Check": method("unary_unary", "HealthRequest", "HealthResponse", serve_health)}
    # A thread for each of 1000 streams, and some for the calls beside them.
    server = grpc.server(
        futures.ThreadPoolExecutor(1100),
        options=[("grpc.max_receive_message_length", LIMIT), ("grpc.max_send_message_length", LIMIT)],
    )
    server.add_generic_rpc_handlers(
        (
            grpc.method_handlers_generic_handler("cairn.test.Test", methods),
            grpc.method_handlers_generic_handler("grpc.health.v1.Health", health),
        )
    )
    if cert:
        with open(cert, "rb") as c, open(key, "rb") as k:
            credentials = grpc.ssl_server_credentials([(k.read(), c.read())])
        port = server.add_secure_port(listen, credentials)
        listen = listen.rsplit(":", 1)[0] + ":" + str(port)
    else:
        server.add_insecure_port(listen)
    server.start()
    print("ready", listen, flush=True)
    server.wait_for_termination()


# --- client ---


class Failure(Exception):
    pass


def want(condition, *what):
    if not condition:
        raise Failure(" ".join(str(w) for w in what))


class Client:
    def __init__(self, target, ca=None, name=None):
        self.where = (target, ca, name)
        options = [("grpc.max_receive_message_length", LIMIT), ("grpc.max_send_message_length", 2 * LIMIT)]
        if ca:
            options.append(("grpc.ssl_target_name_override", name))
            with open(ca, "rb") as f:
                credentials = grpc.ssl_channel_credentials(f.read())
            self.channel = grpc.secure_channel(target, credentials, options)
        else:
            self.channel = grpc.insecure_channel(target, options)

        def call(kind, method, request, response, service="cairn.test.Test"):
            return getattr(self.channel, kind)(
                f"/{service}/{method}",
                request_serializer=M[request].SerializeToString,
                response_deserializer=M[response].FromString,
            )

        self.unary = call("unary_unary", "Unary", "EchoRequest", "EchoResponse")
        self.server_stream = call("unary_stream", "ServerStream", "EchoRequest", "EchoResponse")
        self.client_stream = call("stream_unary", "ClientStream", "EchoRequest", "Summary")
        self.bidi = call("stream_stream", "Bidi", "EchoRequest", "EchoResponse")
        self.tuples = call("unary_stream", "Tuples", "TupleRequest", "TupleResponse")
        self.nothing = call("unary_unary", "Nothing", "EchoRequest", "EchoResponse")
        self.health = call(
            "unary_unary", "Check", "HealthRequest", "HealthResponse", "grpc.health.v1.Health"
        )


def echo(**fields):
    return M["EchoRequest"](**fields)


def code_of(run):
    """The status that a call ends with, as number and text."""
    try:
        run()
    except grpc.RpcError as e:
        return e.code().value[0], e.details()
    return 0, ""


def check_statuses(c):
    texts = ["space at the end: ", "grüße, мир, 世界 🪨", '100%25 "quoted" \\ back', "line\nbreak\ttab"]
    for code in range(1, 17):
        text = texts[code % 4]
        request = echo(status_code=code, status_message=text)
        got = code_of(lambda r=request: c.unary(r, timeout=STEP))
        want(got == (code, text), "asked", code, text, "got", got)


def check_details(c):
    blob = b"\x00\x01\x02\xffx"
    try:
        c.unary(echo(status_code=9, status_details=blob), timeout=STEP)
    except grpc.RpcError as e:
        trailers = dict(e.trailing_metadata())
        want(blob in trailers.get("grpc-status-details-bin", b""), "trailers", trailers)
        return
    raise Failure("no status")


def check_metadata(c):
    blob = b"\x00\x01\xfe\xff,="
    sent = (
        ("x-head-text", "one, two; three"),
        ("x-tail-text", "t"),
        ("x-head-data-bin", blob),
        ("x-tail-data-bin", b""),
    )
    _, call = c.unary.with_call(echo(), timeout=STEP, metadata=sent)
    head, tail = dict(call.initial_metadata()), dict(call.trailing_metadata())
    want(head.get("x-head-text") == "one, two; three", head)
    want(head.get("x-head-data-bin") == blob, head)
    want(tail.get("x-tail-text") == "t", tail)
    want(tail.get("x-tail-data-bin") == b"", tail)


def check_deadlines(c):
    want(code_of(lambda: c.unary(echo(delay_ms=30000), timeout=0.1))[0] == 4, "unary")
    want(code_of(lambda: list(c.server_stream(echo(repeat=1000, delay_ms=500), timeout=0.2)))[0] == 4, "stream")
    left = c.unary(echo(), timeout=50).deadline_ms
    want(0 < left <= 51000, "server saw", left)  # grpcio rounds up


def check_cancel(c):
    stream = c.server_stream(echo(repeat=1 << 30, payload=b"x"), timeout=STEP)
    for _ in range(10):
        next(stream)
    stream.cancel()
    want(code_of(lambda: list(stream))[0] == 1, "not cancelled")
    c.unary(echo(), timeout=STEP)


def check_server_ends(c):
    stop = threading.Event()

    def requests():
        yield echo(status_code=10, status_message="enough")
        while not stop.is_set():
            yield echo(payload=bytes(1000))

    got = code_of(lambda: list(c.bidi(requests(), timeout=STEP)))
    stop.set()
    want(got == (10, "enough"), got)


def check_sizes(c):
    for size in (0, 1, 16383, 16384, 65535, 1 << 20, (4 << 20) - 64):
        payload = b"\x5a" * size
        want(c.unary(echo(payload=payload), timeout=STEP).payload == payload, size)


def check_too_large(c):
    want(code_of(lambda: c.unary(echo(payload=bytes(17 << 20)), timeout=STEP))[0] == 8, "accepted")
    c.unary(echo(), timeout=STEP)


def check_many(c):
    """1000 streams open at once, each half-closed after all have been answered."""
    n = 1000
    go = threading.Event()

    def requests(i):
        yield echo(payload=str(i).encode())
        go.wait(STEP)

    streams = [c.bidi(requests(i), timeout=STEP) for i in range(n)]
    for i, stream in enumerate(streams):
        want(next(stream).payload == str(i).encode(), "stream", i)
    go.set()
    for i, stream in enumerate(streams):
        want(not list(stream), "stream", i)


def check_slow(c):
    stream = c.server_stream(echo(repeat=400, reply_bytes=64 << 10), timeout=STEP)
    next(stream)
    time.sleep(0.2)
    for _ in range(20):
        c.unary(echo(reply_bytes=10000), timeout=STEP)
    want([m.index for m in stream] == list(range(1, 400)), "messages are missing")


def check_upload(c):
    got = c.client_stream(iter([echo(payload=bytes(1000))] * 100), timeout=STEP)
    want((got.messages, got.bytes) == (100, 100000), got)


def check_half_closed(c):
    got = list(c.bidi(iter([echo(delay_ms=20)] * 3), timeout=STEP))
    want(len(got) == 3, len(got))
    want(not list(c.bidi(iter([]), timeout=STEP)), "answers to nothing")


def check_ends(c):
    want(code_of(lambda: list(c.server_stream(echo(status_code=5), timeout=STEP)))[0] == 5, "trailers only")
    want(not list(c.server_stream(echo(), timeout=STEP)), "empty stream")
    want(code_of(lambda: c.nothing(echo(), timeout=STEP))[0] == 12, "unknown method")
    got = []
    code = code_of(lambda: got.extend(m.index for m in c.server_stream(echo(repeat=5, status_code=15), timeout=STEP)))
    want(code[0] == 15, "status after messages", code)


def check_tuples(c):
    for per in (1, 16, 1024):
        request = M["TupleRequest"](count=10000, per_message=per, stride=8192, length=4096)
        got = [t for m in c.tuples(request, timeout=STEP) for t in m.block_metadata]
        want(len(got) == 10000, len(got))
        want(all(t.byte_offset == i * 8192 and t.size_bytes == 4096 for i, t in enumerate(got)), "differ")


def check_gzip(c):
    payload = b"cairn " * 5000
    got = c.unary(echo(payload=payload), timeout=STEP, compression=grpc.Compression.Gzip)
    want(got.payload == payload, "payload differs")


def check_health(c):
    want(c.health(M["HealthRequest"](), timeout=STEP).status == 1, "not serving")


def check_death(c):
    """On a channel of its own, because the server breaks every connection."""
    own = Client(*c.where)
    code = code_of(lambda: list(own.server_stream(echo(repeat=3, die=True), timeout=STEP)))[0]
    want(code in (13, 14), "a broken connection gave", code)
    own.unary(echo(), timeout=STEP, wait_for_ready=True)


CHECKS = (
    ("statuses", check_statuses),
    ("status details", check_details),
    ("metadata", check_metadata),
    ("deadlines", check_deadlines),
    ("cancel from the client", check_cancel),
    ("cancel from the server", check_server_ends),
    ("messages up to 4 MiB", check_sizes),
    ("message over the limit", check_too_large),
    ("1000 concurrent streams", check_many),
    ("slow reader", check_slow),
    ("client streaming", check_upload),
    ("half-closed streams", check_half_closed),
    ("trailers only and other ends", check_ends),
    ("tuples", check_tuples),
    ("gzip", check_gzip),
    ("health", check_health),
    ("server dies in mid-stream", check_death),
)


def run_checks(target, ca=None, name=None):
    client = Client(target, ca, name)
    failed = 0
    for title, check in CHECKS:
        try:
            check(client)
            print("ok", title, flush=True)
        except (Failure, grpc.RpcError) as e:
            failed += 1
            print(f"not ok {title}: {str(e)[:300]!r}", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    {"server": serve, "client": run_checks}[sys.argv[2]](*sys.argv[3:])
