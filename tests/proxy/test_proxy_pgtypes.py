"""Values to bytes and back. A real PostgreSQL is the oracle where its wheel is installed."""

from __future__ import annotations

import contextlib
import datetime as dt
import math
import struct
import uuid
from decimal import Decimal
from typing import Any

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from psycopg import pq
from psycopg.adapt import PyFormat, Transformer

from tallyveil.errors import FeatureNotSupported, TallyveilError
from tallyveil.interval import Interval
from tallyveil.proxy.pgtypes import by_oid, decode_parameter, from_duckdb, parameter_type

UTC = dt.UTC

VALUES: list[tuple[str, Any]] = [
    ("BOOLEAN", True),
    ("BOOLEAN", False),
    ("SMALLINT", -32768),
    ("INTEGER", 2**31 - 1),
    ("BIGINT", -(2**63)),
    ("HUGEINT", 10**30 + 7),
    ("HUGEINT", -(10**8)),
    ("HUGEINT", 0),
    *[("DOUBLE", v) for v in (0.0, -0.0, 1.0, 0.1, -2.5, 1e-4, 1e-5, 123456789.125)],
    *[("DOUBLE", v) for v in (1e14, 1e15, 1234567890123456.0, 1e16, 1e100, 5e-324)],
    *[("DOUBLE", v) for v in (1.7976931348623157e308, math.inf, -math.inf, math.nan)],
    *[("FLOAT", v) for v in (0.5, 1e5, 1e6, 16777216.0, math.inf, math.nan)],
    *[
        ("DECIMAL", Decimal(v))
        for v in ("0", "0.000", "1", "-1.50", "10000", "0.0001", "123456.789", "1E+6", "NaN")
    ],
    ("DECIMAL", Decimal("0.00012345")),
    ("DECIMAL", Decimal("99999999999999.99999999")),
    ("VARCHAR", ""),
    ("VARCHAR", "Zürich 😀 {\"'\\,}"),
    ("UUID", uuid.UUID(int=2**127 + 5)),
    ("DATE", dt.date(2000, 1, 1)),
    ("DATE", dt.date(1, 1, 1)),
    ("DATE", dt.date(9999, 12, 31)),
    ("TIME", dt.time(0)),
    ("TIME", dt.time(23, 59, 59, 999_999)),
    ("TIME", dt.time(1, 2, 3, 400_000)),
    ("TIMESTAMP", dt.datetime(1999, 12, 31, 23, 59, 59, 1)),
    ("TIMESTAMP", dt.datetime(987, 6, 5, 4, 3, 2)),
    ("TIMESTAMP WITH TIME ZONE", dt.datetime(2024, 2, 29, 12, 30, 0, 120_000, tzinfo=UTC)),
    ("INTERVAL", dt.timedelta()),
    ("INTERVAL", dt.timedelta(days=1, seconds=7384, microseconds=500)),
    ("INTERVAL", dt.timedelta(days=-1, seconds=1)),
    ("INTERVAL", dt.timedelta(days=40)),
    ("BIGINT[]", [1, None, -3]),
    ("BIGINT[]", []),
    ("VARCHAR[]", ["", "a b", "null", 'q"', "\\", "{", ",", None, " x"]),
    ("DATE[]", [dt.date(2024, 2, 29)]),
    ("DOUBLE[]", [1.0, math.inf]),
    ("BOOLEAN[]", [True, False]),
    ("DECIMAL(10,2)[3]", (Decimal("1.50"), Decimal("2.25"), None)),
]


def same(a: Any, b: Any) -> bool:
    if isinstance(b, tuple):
        b = list(b)
    if isinstance(a, str) and isinstance(b, dt.timedelta):
        b = Interval.of(b).quantities  # in which a parameter is read
    if isinstance(a, float | Decimal) and a != a:
        return bool(b != b)
    return bool(a == b)


@pytest.mark.parametrize("code", [0, 1])
def test_what_is_written_is_read_here_and_by_psycopg(code: int) -> None:
    for name, value in VALUES:
        kind = from_duckdb(name).type
        written = kind.encoder(code)(value)
        assert same(kind.read(code, written), value), (name, value)
        loader = Transformer(None).get_loader(kind.oid, pq.Format(code))
        assert same(loader.load(written), value), (name, value)


@pytest.mark.parametrize("form", [PyFormat.TEXT, PyFormat.BINARY])
def test_psycopg_parameters_are_read(form: PyFormat) -> None:
    for name, each in VALUES:
        if isinstance(each, bytes) and form == PyFormat.TEXT:
            continue  # psycopg's text form of bytes depends on a connection
        value = list(each) if isinstance(each, tuple) else each
        dumper = Transformer(None).get_dumper(value, form)
        data = dumper.dump(value)
        assert data is not None
        # An undeclared type is inferred by the gate; here, from the case.
        oid = dumper.oid if dumper.oid not in (0, 705) else from_duckdb(name).type.oid
        found = decode_parameter(1, oid, int(dumper.format), bytes(data))
        assert same(found, value), (name, value)


def test_postgresql_writes_the_same_bytes(postgres: psycopg.Connection[Any]) -> None:
    """Each value goes in as our text; PostgreSQL's own text and binary output must be ours."""
    for name, value in VALUES:
        kind = from_duckdb(name).type
        for code in (0, 1):
            result = postgres.pgconn.exec_params(
                b"SELECT $1", [kind.encode_text(value)], [kind.oid], [0], code
            )
            assert result.status == pq.ExecStatus.TUPLES_OK, (name, value, result.error_message)
            assert result.ftype(0) == kind.oid
            assert result.fsize(0) == kind.size
            assert result.get_value(0, 0) == kind.encoder(code)(value), (name, value, code)


def test_postgresql_prints_floats_alike(postgres: psycopg.Connection[Any]) -> None:
    """Every power of ten and its neighbours, in both widths.

    Where the shortest text lies on the very edge of the interval that rounds to the number,
    PostgreSQL prints a digit more; ours then still reads back as the same number.
    """
    for oid, code, exponents in ((701, "d", range(-300, 300, 3)), (700, "f", range(-37, 38))):
        kind = by_oid(oid)
        array = by_oid(kind.array_oid)
        exact = [m * 10.0**e for e in exponents for m in (1, -1.25, 3.3333333333, 9.99999999)]
        values = [struct.unpack("!" + code, struct.pack("!" + code, v))[0] for v in exact]
        result = postgres.pgconn.exec_params(
            b"SELECT $1", [array.encode_binary(values)], [array.oid], [1], 0
        )
        theirs = (result.get_value(0, 0) or b"").strip(b"{}").split(b",")
        for value, text in zip(values, theirs, strict=True):
            ours = kind.encode_text(value)
            shorter = len(ours) < len(text) and kind.read(0, ours) == value
            assert ours == text or shorter


@given(st.decimals(allow_nan=False, allow_infinity=False, places=7) | st.integers().map(Decimal))
@settings(max_examples=100, deadline=None)
def test_any_numeric(value: Decimal) -> None:
    numeric = by_oid(1700)
    for code in (0, 1):
        assert numeric.read(code, numeric.encoder(code)(value)) == value


@given(st.floats(), st.floats(width=32))
@settings(max_examples=100, deadline=None)
def test_any_float(double: float, single: float) -> None:
    for oid, value in ((701, double), (700, single)):
        kind = by_oid(oid)
        text = float(kind.encode_text(value))
        if oid == 700 and math.isfinite(text):
            text = struct.unpack("!f", struct.pack("!f", text))[0]
        assert same(text, value)
        assert same(kind.read(1, kind.encode_binary(value)), value)


@given(st.lists(st.none() | st.text(st.characters(codec="utf-8", exclude_characters="\0"))))
@settings(max_examples=100, deadline=None)
def test_any_text_array(values: list[str | None]) -> None:
    array = by_oid(1009)
    for code in (0, 1):
        assert array.read(code, array.encoder(code)(values)) == values


READABLE: list[tuple[int, str, Any]] = [
    (16, " YES ", True),
    (16, "off", False),
    (23, " +42 ", 42),
    (701, "1e3", 1000.0),
    (701, "-inf", -math.inf),
    (700, "0.1", 0.10000000149011612),
    (1700, ".5", Decimal("0.5")),
    (1700, "Infinity", Decimal("Infinity")),
    (705, "x", "x"),
    (19, "name", "name"),
    (1082, "2024-02-29 +00", dt.date(2024, 2, 29)),
    (1114, "2024-02-29T12:30", dt.datetime(2024, 2, 29, 12, 30)),
    (1114, "2024-02-29 12:30:59.9999999", dt.datetime(2024, 2, 29, 12, 31)),
    (1184, "2024-02-29 12:30:00+05:30", dt.datetime(2024, 2, 29, 7, 0, tzinfo=UTC)),
    (1184, "2024-02-29 12:30:00-0800", dt.datetime(2024, 2, 29, 20, 30, tzinfo=UTC)),
    (1184, "2024-02-29", dt.datetime(2024, 2, 29)),  # on the clocks of the session
    (1186, "1 week 2 days -3:00:00.5", "0 months 9 days -10800500000 microseconds"),
    (1186, "90 minutes", "0 months 0 days 5400000000 microseconds"),
    (1186, "1 year -2 mons 1.5 days", "10 months 1 days 43200000000 microseconds"),
    (1007, "{ 1 , NULL,3}", [1, None, 3]),
    (1009, '{a b,"c\\"d", e\\,f }', ["a b", 'c"d', "e,f"]),
    (2950, "{00000000-0000-0000-0000-000000000005}", uuid.UUID(int=5)),
]


@pytest.mark.parametrize(("oid", "text", "value"), READABLE)
def test_text_parameters(oid: int, text: str, value: Any) -> None:
    assert decode_parameter(1, oid, 0, text.encode()) == value


BAD: list[tuple[int, int, bytes, str]] = [
    (23, 0, b"x", "22P02"),
    (23, 0, b"1.5", "22P02"),
    (23, 0, b"1_0", "22P02"),
    (23, 0, b"", "22P02"),
    (23, 0, b"2147483648", "22003"),
    (20, 0, b"9" * 5000, "22003"),
    (26, 0, b"-1", "22003"),
    (701, 0, b"1_0", "22P02"),
    (701, 0, b"1e999", "22003"),
    (700, 0, b"1e39", "22003"),
    (1700, 0, b"1e", "22P02"),
    (1700, 0, b"1e999999999", "22003"),
    (1700, 0, b"1e99999999999999999999", "22003"),
    (1700, 0, b"1e-99999", "22003"),
    (16, 0, b"maybe", "22P02"),
    (2950, 0, b"zz", "22P02"),
    (1082, 0, b"yesterday", "22007"),
    (1082, 0, b"2023-02-29", "22008"),
    (1082, 0, b"10000-01-01", "22008"),
    (1082, 0, b" Infinity", "22008"),
    (1082, 1, b"\x7f\xff\xff\xff", "22008"),
    (1114, 0, b"-infinity", "22008"),
    (1184, 1, b"\x80" + bytes(7), "22008"),
    (1114, 0, b"2024-01-01 25:00:00", "22008"),
    (1184, 0, b"0001-01-01 00:00:00+14", "22008"),
    (1083, 0, b"12", "22007"),
    (1186, 0, b"soon", "22P02"),
    (1186, 0, b"1.5 month", "22P02"),
    (1186, 0, b"99999999999 days", "22008"),
    (1186, 0, b"9" * 400 + b" days", "22008"),
    (1186, 0, b"9" * 400 + b" hours", "22008"),
    (1186, 0, b"9" * 1_000_000 + b".5 hours", "22P02"),
    (1184, 0, b"2020-01-01 00:00:00+16", "22009"),
    (1184, 0, b"2020-01-01 00:00:00-99", "22009"),
    (1114, 0, b"2020-01-01 00:00:00+15:60", "22009"),
    (1083, 0, b"00:00:00+15:59:60", "22009"),
    (1007, 0, b"1,2", "22P02"),
    (1007, 0, b"{1,2", "22P02"),
    (1007, 0, b"{1,}", "22P02"),
    (1007, 0, b"{1}x", "22P02"),
    (1007, 0, b"{{1},{2}}", "0A000"),
    (25, 0, b"\xff", "22021"),
    (25, 0, b"a\0b", "22021"),
    (25, 1, b"a\0b", "22021"),
    (23, 1, b"\0\0", "22P03"),
    (16, 1, b"", "22P03"),
    (701, 1, b"\0" * 9, "22P03"),
    (2950, 1, b"\0" * 15, "22P03"),
    (1082, 1, b"\x7f\xff\xff\xfe", "22008"),
    (1114, 1, b"\x7f" + b"\xff" * 6 + b"\xfe", "22008"),
    (1700, 1, b"\0\x01\0\0\0\0\0\0", "22P03"),
    (1700, 1, b"\0\x01\0\0\0\0\0\0\x27\x10", "22P03"),
    (1700, 1, b"\0\0\0\0\x12\x34\0\0", "22P03"),
    (1007, 1, b"\0\0\0\x01", "22P03"),
    (1007, 1, b"\0\0\0\x01\0\0\0\0\0\0\0\x19\0\0\0\0\0\0\0\x01", "22P03"),
    (1007, 1, b"\0\0\0\x02\0\0\0\0\0\0\0\x17", "0A000"),
    (1007, 1, b"\0\0\0\x01\0\0\0\0\0\0\0\x17\x7f\xff\xff\xff\0\0\0\x01", "22P03"),
    (600, 0, b"(1,2)", "0A000"),
]


@pytest.mark.parametrize(("oid", "code", "data", "sqlstate"), BAD)
def test_bad_parameters_say_which(oid: int, code: int, data: bytes, sqlstate: str) -> None:
    with pytest.raises(TallyveilError) as caught:
        decode_parameter(3, oid, code, data)
    assert caught.value.sqlstate == sqlstate
    assert "$3" in (caught.value.detail or "")


@pytest.mark.parametrize(
    "name", ["STRUCT(a INTEGER)", "MAP(VARCHAR, INTEGER)", "INTEGER[][]", "BIT"]
)
def test_types_without_an_equal_are_named(name: str) -> None:
    with pytest.raises(FeatureNotSupported) as caught:
        from_duckdb(name)
    assert name.removesuffix("[]") in caught.value.message


def test_duckdb_names() -> None:
    found = {
        name: from_duckdb(name).type.name
        for name in ("HUGEINT", "UBIGINT", "UINTEGER", "TINYINT", "ENUM('a', 'b[]')", '"NULL"')
    }
    assert list(found.values()) == ["numeric", "numeric", "bigint", "smallint", "text", "text"]
    assert from_duckdb("DECIMAL(38, 0)[]").typmod == (38 << 16) + 4
    assert (parameter_type(0), parameter_type(705)) == (None, None)
    assert (parameter_type(1016), parameter_type(19)) == ("BIGINT[]", "VARCHAR")


@pytest.mark.parametrize(
    ("oid", "text"),
    [
        (1700, "1" * 10**6 + "x"),
        (701, "1" * 10**6 + "x"),
        (1114, "2024-01-01" + " " * 10**6 + "x"),
        (1009, "{a" + " " * 10**6),
        (1009, "{" + " " * 10**6 + '"'),
        (1009, '{"' + "\\" * 10**6),
        (1186, "1 day " * 10**5 + "x"),
    ],
    ids=range(7),
)
@pytest.mark.timeout(20)
def test_long_mistakes_are_found_in_one_pass(oid: int, text: str) -> None:
    with pytest.raises(TallyveilError):
        decode_parameter(1, oid, 0, text.encode())


@given(
    st.sampled_from([16, 20, 21, 23, 700, 701, 1700, 1082, 1083, 1114, 1184, 1186, 2950]),
    st.booleans(),
    st.integers(0, 1),
    st.binary(max_size=40) | st.text('0123456789-+:.eE {},"\\ naifTZ').map(str.encode),
)
@settings(max_examples=100, deadline=None)
def test_any_bytes_are_a_value_or_an_error(oid: int, array: bool, code: int, data: bytes) -> None:
    kind = by_oid(by_oid(oid).array_oid if array else oid)
    with contextlib.suppress(TallyveilError):
        kind.read(code, data)
