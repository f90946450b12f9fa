"""The messages of the server, as bytes: the backend messages of protocol 3.2."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from tallyveil.errors import TallyveilError
from tallyveil.gate.interface import Notice
from tallyveil.proxy.pgtypes import WireType

__all__ = [
    "AUTHENTICATION_OK",
    "BIND_COMPLETE",
    "BLOCKING",
    "CLOSE_COMPLETE",
    "COPY_DONE",
    "EMPTY_QUERY",
    "ENCRYPTION_ACCEPTED",
    "ENCRYPTION_REFUSED",
    "NO_DATA",
    "PARSE_COMPLETE",
    "PORTAL_SUSPENDED",
    "backend_key",
    "command_complete",
    "copy_data",
    "copy_out_response",
    "data_row",
    "error_response",
    "internal_error",
    "negotiate_version",
    "notice_response",
    "parameter_description",
    "parameter_status",
    "ready_for_query",
    "row_description",
    "sasl",
    "sasl_continue",
    "sasl_final",
]

_UINT16: Final = struct.Struct("!H")
_INT32: Final = struct.Struct("!i")
_FIELD: Final = struct.Struct("!IHIhih")
_NULL: Final = b"\xff\xff\xff\xff"


def _message(kind: bytes, body: bytes) -> bytes:
    return kind + _INT32.pack(len(body) + 4) + body


def _text(text: str) -> bytes:
    """A C string. A NUL would end it early and becomes U+FFFD; a lone surrogate becomes '?'."""
    return text.replace("\0", "\ufffd").encode("utf-8", "replace") + b"\0"


class _Nothing(bytes):
    """Empty bytes that are compared by identity: a marker, not a message."""


BLOCKING: Final = _Nothing()
"""Marks, among the answers, that the next one may take time, because it calls the gate."""

ENCRYPTION_ACCEPTED: Final = b"S"
ENCRYPTION_REFUSED: Final = b"N"
AUTHENTICATION_OK: Final = _message(b"R", _INT32.pack(0))
PARSE_COMPLETE: Final = _message(b"1", b"")
BIND_COMPLETE: Final = _message(b"2", b"")
CLOSE_COMPLETE: Final = _message(b"3", b"")
COPY_DONE: Final = _message(b"c", b"")
NO_DATA: Final = _message(b"n", b"")
EMPTY_QUERY: Final = _message(b"I", b"")
PORTAL_SUSPENDED: Final = _message(b"s", b"")

_READY: Final = {status: _message(b"Z", status.encode()) for status in "ITE"}


def ready_for_query(status: str) -> bytes:
    """``status`` is I (idle), T (in a transaction block) or E (in a failed one)."""
    return _READY[status]


def negotiate_version(version: int, unsupported: Sequence[str]) -> bytes:
    """Reports the protocol version to use, and the protocol options not recognised."""
    names = b"".join(map(_text, unsupported))
    return _message(b"v", _INT32.pack(version) + _INT32.pack(len(unsupported)) + names)


def parameter_status(name: str, value: str) -> bytes:
    return _message(b"S", _text(name) + _text(value))


def backend_key(pid: int, secret: bytes) -> bytes:
    return _message(b"K", struct.pack("!I", pid) + secret)


def sasl(mechanisms: Sequence[str]) -> bytes:
    """Asks the client to authenticate by one of these mechanisms, the preferred first."""
    return _message(b"R", _INT32.pack(10) + b"".join(map(_text, mechanisms)) + b"\0")


def sasl_continue(message: bytes) -> bytes:
    return _message(b"R", _INT32.pack(11) + message)


def sasl_final(message: bytes) -> bytes:
    return _message(b"R", _INT32.pack(12) + message)


def command_complete(tag: str) -> bytes:
    return _message(b"C", _text(tag))


def parameter_description(oids: Sequence[int]) -> bytes:
    return _message(b"t", struct.pack(f"!H{len(oids)}I", len(oids), *oids))


def copy_out_response(code: int, width: int) -> bytes:
    """Announces rows of ``width`` columns, all in the format ``code``."""
    return _message(b"H", struct.pack(f"!bH{width}H", code, width, *(code,) * width))


def copy_data(data: bytes) -> bytes:
    return _message(b"d", data)


def row_description(
    columns: Sequence[tuple[str, WireType]], formats: Sequence[int] | None = None
) -> bytes:
    """``formats`` has a code for each column, or is None for text, as for a statement."""
    parts = [_UINT16.pack(len(columns))]
    for i, (name, wire) in enumerate(columns):
        code = formats[i] if formats is not None else 0
        parts.append(_text(name))
        # No table OID and no attribute number: the rows are noisy answers, not a table's.
        parts.append(_FIELD.pack(0, 0, wire.type.oid, wire.type.size, wire.typmod, code))
    return _message(b"T", b"".join(parts))


def data_row(encoders: Iterable[Callable[[Any], bytes]], row: Iterable[Any], count: int) -> bytes:
    """One row of ``count`` values; ``encoders[i]`` encodes the i-th value unless it is None."""
    parts = [_UINT16.pack(count)]
    for encode, value in zip(encoders, row, strict=True):
        if value is None:
            parts.append(_NULL)
        else:
            encoded = encode(value)
            parts.append(_INT32.pack(len(encoded)))
            parts.append(encoded)
    return _message(b"D", b"".join(parts))


def _response(kind: bytes, severity: str, report: TallyveilError | Notice) -> bytes:
    fields = (
        (b"S", severity),
        (b"V", severity),
        (b"C", report.sqlstate),
        (b"M", report.message),
        (b"D", report.detail),
        (b"H", report.hint),
        (b"P", None if report.position is None else str(report.position)),
    )
    body = b"".join(code + _text(value) for code, value in fields if value is not None)
    return _message(kind, body + b"\0")


def error_response(error: TallyveilError, *, fatal: bool = False) -> bytes:
    """The error's own text, which is public, and nothing else."""
    return _response(b"E", "FATAL" if fatal else "ERROR", error)


def internal_error(*, fatal: bool = False) -> bytes:
    """Reports an unexpected failure without any detail of it."""
    return error_response(TallyveilError("internal error"), fatal=fatal)


def notice_response(notice: Notice) -> bytes:
    return _response(b"N", notice.severity, notice)
