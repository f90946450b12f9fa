"""The other side of the wire, written from the documentation alone: an oracle for the codec.

Frontend messages to bytes, and backend bytes to (type, fields); plus a socket that speaks both.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Sequence
from typing import Any

from tallyveil.proxy.protocol import messages as m


def _z(text: str) -> bytes:
    return text.encode() + b"\0"


def _typed(kind: str, body: bytes) -> bytes:
    return kind.encode() + struct.pack("!i", len(body) + 4) + body


def _shorts(values: Sequence[int]) -> bytes:
    return struct.pack(f"!H{len(values)}H", len(values), *values)


def write(message: m.Message) -> bytes:
    """A frontend message as a client would send it."""
    match message:
        case m.SSLRequest():
            return struct.pack("!ii", 8, 80877103)
        case m.GSSENCRequest():
            return struct.pack("!ii", 8, 80877104)
        case m.CancelRequest(pid, secret):
            return struct.pack("!iii", 12 + len(secret), 80877102, pid) + secret
        case m.Startup(version, parameters):
            body = b"".join(_z(k) + _z(v) for k, v in parameters) + b"\0"
            return struct.pack("!ii", len(body) + 8, version) + body
        case m.Credentials(data):
            return _typed("p", data)
        case m.Query(sql):
            return _typed("Q", sql + b"\0")
        case m.Parse(name, sql, types):
            return _typed(
                "P", _z(name) + sql + b"\0" + struct.pack(f"!H{len(types)}I", len(types), *types)
            )
        case m.Bind(portal, statement, formats, values, results):
            items = b"".join(
                struct.pack("!i", -1) if v is None else struct.pack("!i", len(v)) + v
                for v in values
            )
            head = _z(portal) + _z(statement) + _shorts(formats)
            return _typed("B", head + struct.pack("!H", len(values)) + items + _shorts(results))
        case m.Describe(kind, name):
            return _typed("D", kind.encode() + _z(name))
        case m.Close(kind, name):
            return _typed("C", kind.encode() + _z(name))
        case m.Execute(portal, limit):
            return _typed("E", _z(portal) + struct.pack("!i", limit))
        case m.Flush():
            return _typed("H", b"")
        case m.Sync():
            return _typed("S", b"")
        case m.Terminate():
            return _typed("X", b"")
        case m.FunctionCall():
            return _typed("F", b"\0" * 10)
        case m.CopyMessage():
            return _typed("c", b"")
    raise TypeError(message)


def fields_of(kind: str, body: bytes) -> Any:
    """What a backend message says, in the plainest form."""
    if kind in "EN":
        pieces = [p for p in body.split(b"\0") if p]
        return {p[:1].decode(): p[1:].decode() for p in pieces}
    if kind == "D":
        (count,), at, values = struct.unpack_from("!H", body), 2, []
        for _ in range(count):
            (size,) = struct.unpack_from("!i", body, at)
            at += 4
            values.append(None if size < 0 else body[at : at + size])
            at += max(size, 0)
        return values
    if kind == "T":
        (count,), at, columns = struct.unpack_from("!H", body), 2, []
        for _ in range(count):
            end = body.index(b"\0", at)
            _table, _number, oid, size, typmod, code = struct.unpack_from("!IhIhih", body, end + 1)
            columns.append((body[at:end].decode(), oid, size, typmod, code))
            at = end + 19
        return columns
    if kind == "t":
        (count,) = struct.unpack_from("!H", body)
        return list(struct.unpack_from(f"!{count}I", body, 2))
    if kind == "S":
        name, value = body.split(b"\0")[:2]
        return name.decode(), value.decode()
    if kind == "K":
        return struct.unpack_from("!I", body)[0], body[4:]
    if kind == "R":
        (code,) = struct.unpack_from("!i", body)
        return (code, body[4:]) if code >= 10 else code
    if kind == "v":
        version, count = struct.unpack_from("!ii", body)
        return version, [n.decode() for n in body[8:].split(b"\0")[:count]]
    return body.rstrip(b"\0").decode()


def split(data: bytes) -> list[tuple[str, Any]]:
    """Backend messages, which must use up ``data`` exactly."""
    found = []
    at = 0
    while at < len(data):
        (size,) = struct.unpack_from("!i", data, at + 1)
        end = at + 1 + size
        assert end <= len(data), "a message is cut off"
        kind = chr(data[at])
        found.append((kind, fields_of(kind, data[at + 5 : end])))
        at = end
    return found


class RawClient:
    """A blocking socket that reads whole messages."""

    def __init__(self, port: int, *, timeout: float = 10) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=timeout)
        self.key: tuple[int, bytes] = (0, b"")

    def __enter__(self) -> RawClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, *messages: m.Message) -> None:
        self.socket.sendall(b"".join(map(write, messages)))

    def exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = self.socket.recv(size - len(data))
            if not piece:
                raise EOFError
            data += piece
        return data

    def read(self) -> tuple[str, Any]:
        head = self.exactly(5)
        (size,) = struct.unpack_from("!i", head, 1)
        kind = chr(head[0])
        return kind, fields_of(kind, self.exactly(size - 4))

    def until(self, last: str) -> list[tuple[str, Any]]:
        found = [self.read()]
        while found[-1][0] != last:
            found.append(self.read())
        return found

    def start(self, user: str = "alice", **parameters: str) -> list[tuple[str, Any]]:
        self.send(m.Startup(3 << 16, (("user", user), *parameters.items())))
        answer = self.until("Z")
        self.key = next(fields for kind, fields in answer if kind == "K")
        return answer

    def ask(self, sql: str) -> list[tuple[str, Any]]:
        self.send(m.Query(sql.encode()))
        return self.until("Z")

    def at_end(self) -> bool:
        """Whether the server has closed; waits for it."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True
