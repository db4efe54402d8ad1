# SPDX-License-Identifier: Apache-2.0
"""SnapshotMetadata messages by hand, so that a test can also write wrong ones."""

VARIABLE, FIXED = 2, 1
CAPACITY = 1 << 40


def varint(value):
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def number(field, value):
    return varint(field << 3) + varint(value) if value else b""


def text(field, value):
    data = value.encode() if isinstance(value, str) else value
    return varint(field << 3 | 2) + varint(len(data)) + data if data else b""


def fields(data):
    """(number, value) of each field; a value is an int or bytes."""
    at = 0

    def take():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value
    while at < len(data):
        tag = take()
        if tag & 7 == 0:
            yield tag >> 3, take()
        elif tag & 7 == 2:
            size = take()
            yield tag >> 3, data[at:at + size]
            at += size
        else:
            raise ValueError(f"wire type {tag & 7}")


def signed(value):
    return value - (1 << 64) if value >= 1 << 63 else value


def message(tuples, kind=VARIABLE, capacity=CAPACITY, more=b""):
    return number(1, kind) + number(2, capacity) + b"".join(
        text(3, number(1, offset) + number(2, size)) for offset, size in tuples) + more


def read_message(data):
    """(type, capacity, tuples)"""
    kind = capacity = 0
    tuples = []
    for field, value in fields(data):
        if field == 1:
            kind = value
        elif field == 2:
            capacity = value
        elif field == 3:
            inner = dict(fields(value))
            tuples.append((inner.get(1, 0), inner.get(2, 0)))
    return kind, capacity, tuples


def allocated_request(token, namespace, snapshot, offset=0, max_results=0):
    return (text(1, token) + text(2, namespace) + text(3, snapshot) + number(4, offset) +
            number(5, max_results))


def delta_request(token, namespace, base, target, offset=0, max_results=0):
    return (text(1, token) + text(2, namespace) + text(3, base) + text(4, target) +
            number(5, offset) + number(6, max_results))


def csi_request(data, delta):
    """What a driver was asked, as a dictionary."""
    names = ({1: "base", 2: "target", 3: "offset", 4: "max_results", 5: "secrets"} if delta
             else {1: "target", 2: "offset", 3: "max_results", 4: "secrets"})
    found = {"offset": 0, "max_results": 0, "secrets": {}, "base": None}
    for field, value in fields(data):
        name = names.get(field)
        if name == "secrets":
            entry = dict(fields(value))
            found["secrets"][entry[1].decode()] = entry.get(2, b"").decode()
        elif isinstance(value, bytes):
            found[name] = value.decode()
        elif name:
            found[name] = signed(value)
    return found
