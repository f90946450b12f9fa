"""Bytes and messages: one case table for both sides, cut everywhere, and a short fuzz."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallyveil.errors import BudgetExceeded, SQLSyntaxError
from tallyveil.gate.interface import Notice
from tallyveil.proxy.pgtypes import from_duckdb
from tallyveil.proxy.protocol import backend
from tallyveil.proxy.protocol import messages as m
from tallyveil.proxy.protocol.message_reader import STARTUP_LIMIT, MessageReader
from tallyveil.proxy.protocol_errors import ProtocolViolation
from tests.proxy.raw_client import split, write

STARTUP = m.Startup(3 << 16, (("user", "ann"), ("database", "db")))

UNTYPED = [
    (m.SSLRequest(), b"\0\0\0\x08\x04\xd2\x16\x2f"),
    (m.GSSENCRequest(), b"\0\0\0\x08\x04\xd2\x16\x30"),
    (m.CancelRequest(7, b"abcd"), b"\0\0\0\x10\x04\xd2\x16\x2e\0\0\0\x07abcd"),
    (STARTUP, b"\0\0\0\x1e\0\x03\0\0user\0ann\0database\0db\0\0"),
]

TYPED = [
    (m.Credentials(b"pw\0"), b"p\0\0\0\x07pw\0"),
    (m.Query(b"select '\xc3\xa9'"), b"Q\0\0\0\x10select '\xc3\xa9'\0"),
    (m.Query(b""), b"Q\0\0\0\x05\0"),
    (m.Parse("s", b"x", (23, 0)), b"P\0\0\0\x12s\0x\0\0\x02\0\0\0\x17\0\0\0\0"),
    (
        m.Bind("p", "s", (1,), (b"ab", None, b""), (0, 1)),
        b"B\0\0\0\x22p\0s\0\0\x01\0\x01\0\x03\0\0\0\x02ab\xff\xff\xff\xff\0\0\0\0\0\x02\0\0\0\x01",
    ),
    (m.Describe("S", "s"), b"D\0\0\0\x07Ss\0"),
    (m.Close("P", ""), b"C\0\0\0\x06P\0"),
    (m.Execute("p", 10), b"E\0\0\0\x0ap\0\0\0\0\x0a"),
    (m.Flush(), b"H\0\0\0\x04"),
    (m.Sync(), b"S\0\0\0\x04"),
    (m.Terminate(), b"X\0\0\0\x04"),
    (m.CopyMessage(), b"c\0\0\0\x04"),
]


def typed_reader() -> MessageReader:
    reader = MessageReader()
    reader.feed(write(STARTUP))
    assert reader.next() == STARTUP
    reader.message_limit = 1 << 20
    return reader


def read_all(reader: MessageReader) -> list[m.Message]:
    found = []
    while (message := reader.next()) is not None:
        found.append(message)
    return found


@pytest.mark.parametrize(
    ("message", "data", "typed"),
    [(*case, False) for case in UNTYPED] + [(*case, True) for case in TYPED],
)
def test_written_and_read_whole_and_byte_by_byte(
    message: m.Message, data: bytes, typed: bool
) -> None:
    assert write(message) == data
    reader = typed_reader() if typed else MessageReader()
    reader.feed(data)
    assert read_all(reader) == [message]
    assert len(reader) == 0

    reader = typed_reader() if typed else MessageReader()
    for i in range(len(data)):
        assert reader.next() is None
        reader.feed(data[i : i + 1])
    assert reader.next() == message


def test_other_protocols_are_told_by_their_version() -> None:
    reader = MessageReader()
    reader.feed(b"\0\0\0\x08\0\x02\0\0")
    assert reader.next() == m.Startup(2 << 16, ())


@pytest.mark.parametrize("data", [data for _, data in UNTYPED[:2]])
def test_nothing_may_come_along_with_a_request_for_encryption(data: bytes) -> None:
    reader = MessageReader()
    reader.feed(data + b"\0")
    with pytest.raises(ProtocolViolation, match="unencrypted data"):
        reader.next()
    # What comes after the answer is the next attempt.
    reader = MessageReader()
    reader.feed(data)
    reader.next()
    reader.feed(write(STARTUP))
    assert reader.next() == STARTUP


MALFORMED_UNTYPED = {
    "length below itself": struct.pack("!I", 3),
    "length of nothing": struct.pack("!I", 7),
    "a byte too long": struct.pack("!I", STARTUP_LIMIT + 1),
    "an HTTP request": b"GET / HTTP/1.1\r\n\r\n",
    "a TLS client hello": b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03",
    "parameters without an end": b"\0\0\0\x11\0\x03\0\0user\0ann\0",
    "a name without a value": b"\0\0\0\x0e\0\x03\0\0user\0\0",
    "bytes after the end": b"\0\0\0\x15\0\x03\0\0user\0ann\0\0xx\0",
    "not UTF-8": b"\0\0\0\x10\0\x03\0\0user\0\xff\0\0",
    "SSLRequest with a body": b"\0\0\0\x09\x04\xd2\x16\x2fx",
    "CancelRequest without a key": b"\0\0\0\x0c\x04\xd2\x16\x2e\0\0\0\x07",
    "CancelRequest without a process": b"\0\0\0\x0a\x04\xd2\x16\x2e\0\0",
}

MALFORMED_TYPED = {
    "unknown type": b"!",
    "length below itself": b"Q\0\0\0\x03",
    "length of four gigabytes": b"Q\xff\xff\xff\xff",
    "a byte too long": b"Q" + struct.pack("!I", (1 << 20) + 1),
    "query without its NUL": b"Q\0\0\0\x05x",
    "empty query body": b"Q\0\0\0\x04",
    "sync with a body": b"S\0\0\0\x05x",
    "describe of neither": b"D\0\0\0\x06X\0",
    "parse with too few types": b"P\0\0\0\x0a\0\0\0\x02\0\0",
    "bind with a value beyond the end": b"B\0\0\0\x12\0\0\0\0\0\x01\0\0\0\x09ab\0\0",
    "bind with a value of size -2": b"B\0\0\0\x10\0\0\0\0\0\x01\xff\xff\xff\xfe\0\0",
    "execute without a limit": b"E\0\0\0\x05\0",
}


@pytest.mark.parametrize(
    ("data", "typed"),
    [(d, False) for d in MALFORMED_UNTYPED.values()]
    + [(d, True) for d in MALFORMED_TYPED.values()],
    ids=[*MALFORMED_UNTYPED, *MALFORMED_TYPED],
)
def test_malformed(data: bytes, typed: bool) -> None:
    reader = typed_reader() if typed else MessageReader()
    reader.feed(data)
    with pytest.raises(ProtocolViolation):
        reader.next()


def test_a_stranger_cannot_make_the_reader_wait_for_much() -> None:
    reader = MessageReader()
    reader.feed(write(STARTUP) + b"Q" + struct.pack("!I", STARTUP_LIMIT + 1))
    assert reader.next() == STARTUP
    with pytest.raises(ProtocolViolation, match="invalid length"):
        reader.next()


def test_names_with_odd_bytes_stay_apart() -> None:
    reader = typed_reader()
    reader.feed(b"D\0\0\0\x07S\xff\0" + b"D\0\0\0\x07S\xfe\0")
    one, two = read_all(reader)
    assert one != two


_names = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)
_sql = st.binary(max_size=20).map(lambda b: b.replace(b"\0", b""))
_codes = st.lists(st.integers(0, 65535), max_size=4).map(tuple)
_messages = st.one_of(
    st.builds(m.Query, _sql),
    st.builds(m.Parse, _names, _sql, st.lists(st.integers(0, 2**32 - 1), max_size=4).map(tuple)),
    st.builds(
        m.Bind,
        _names,
        _names,
        _codes,
        st.lists(st.none() | st.binary(max_size=9), max_size=4).map(tuple),
        _codes,
    ),
    st.builds(m.Describe, st.sampled_from("SP"), _names),
    st.builds(m.Close, st.sampled_from("SP"), _names),
    st.builds(m.Execute, _names, st.integers(0, 2**31 - 1)),
    st.sampled_from([m.Sync(), m.Flush(), m.Terminate(), m.CopyMessage(), m.Credentials(b"pw\0")]),
)


@given(st.lists(_messages, max_size=6), st.data())
@settings(max_examples=75, deadline=None)
def test_any_split_reads_the_same(messages: list[m.Message], data: st.DataObject) -> None:
    stream = b"".join(map(write, messages))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    reader = typed_reader()
    found: list[m.Message] = []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        reader.feed(stream[start:end])
        found += read_all(reader)
    assert found == messages
    assert len(reader) == 0


_INT, _DECIMAL = from_duckdb("BIGINT"), from_duckdb("DECIMAL(18,3)")

BACKEND: list[tuple[bytes, bytes, list[tuple[str, Any]]]] = [
    (backend.AUTHENTICATION_OK, b"R\0\0\0\x08\0\0\0\0", [("R", 0)]),
    (backend.sasl(("A", "B")), b"R\0\0\0\x0d\0\0\0\x0aA\0B\0\0", [("R", (10, b"A\0B\0\0"))]),
    (backend.sasl_continue(b"r=x"), b"R\0\0\0\x0b\0\0\0\x0br=x", [("R", (11, b"r=x"))]),
    (backend.sasl_final(b"v=x"), b"R\0\0\0\x0b\0\0\0\x0cv=x", [("R", (12, b"v=x"))]),
    (backend.ready_for_query("T"), b"Z\0\0\0\x05T", [("Z", "T")]),
    (backend.PARSE_COMPLETE, b"1\0\0\0\x04", [("1", "")]),
    (backend.command_complete("SELECT 5"), b"C\0\0\0\x0dSELECT 5\0", [("C", "SELECT 5")]),
    (backend.parameter_status("a", "b"), b"S\0\0\0\x08a\0b\0", [("S", ("a", "b"))]),
    (backend.backend_key(7, b"abcd"), b"K\0\0\0\x0c\0\0\0\x07abcd", [("K", (7, b"abcd"))]),
    (
        backend.negotiate_version(3 << 16, ["_pq_.x"]),
        b"v\0\0\0\x13\0\x03\0\0\0\0\0\x01_pq_.x\0",
        [("v", (196608, ["_pq_.x"]))],
    ),
    (
        backend.parameter_description([23, 25]),
        b"t\0\0\0\x0e\0\x02\0\0\0\x17\0\0\0\x19",
        [("t", [23, 25])],
    ),
    (
        backend.row_description([("n", _INT)], [1]),
        b"T\0\0\0\x1a\0\x01n\0\0\0\0\0\0\0\0\0\0\x14\0\x08\xff\xff\xff\xff\0\x01",
        [("T", [("n", 20, 8, -1, 1)])],
    ),
    (
        backend.row_description([("d", _DECIMAL)]),
        b"T\0\0\0\x1a\0\x01d\0\0\0\0\0\0\0\0\0\x06\xa4\xff\xff\0\x12\0\x07\0\0",
        [("T", [("d", 1700, -1, (18 << 16 | 3) + 4, 0)])],
    ),
    (
        backend.data_row([str.encode, str.encode, str.encode], ("ab", None, ""), 3),
        b"D\0\0\0\x14\0\x03\0\0\0\x02ab\xff\xff\xff\xff\0\0\0\0",
        [("D", [b"ab", None, b""])],
    ),
    (
        backend.error_response(SQLSyntaxError("no", position=3)),
        b"E\0\0\0\x21SERROR\0VERROR\0C42601\0Mno\0P3\0\0",
        [("E", {"S": "ERROR", "V": "ERROR", "C": "42601", "M": "no", "P": "3"})],
    ),
    (
        backend.error_response(
            BudgetExceeded("no", requested=2.0, remaining=1.0, hint="h"), fatal=True
        ),
        b"E\0\0\0\x21SFATAL\0VFATAL\0C53400\0Mno\0Hh\0\0",
        [("E", {"S": "FATAL", "V": "FATAL", "C": "53400", "M": "no", "H": "h"})],
    ),
    (
        backend.notice_response(Notice("m", detail="d")),
        b"N\0\0\0\x22SNOTICE\0VNOTICE\0C00000\0Mm\0Dd\0\0",
        [("N", {"S": "NOTICE", "V": "NOTICE", "C": "00000", "M": "m", "D": "d"})],
    ),
]


@pytest.mark.parametrize(("written", "data", "read"), BACKEND)
def test_backend_messages(written: bytes, data: bytes, read: list[tuple[str, Any]]) -> None:
    assert written == data
    assert split(data) == read


def test_text_cannot_end_a_message_early() -> None:
    assert split(backend.command_complete("a\0b\ud800")) == [("C", "a\ufffdb?")]
