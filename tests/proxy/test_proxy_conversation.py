"""The state machine without a socket: messages in, bytes out."""

from __future__ import annotations

import logging
import struct

import pytest

from tallyveil.proxy.conversation import _TABLE, ProtocolPhase
from tallyveil.proxy.protocol import messages as m
from tallyveil.proxy.protocol.backend import BLOCKING
from tallyveil.proxy.protocol_errors import ProtocolViolation
from tests.proxy.talk import STARTUP, Talk, bind, error_of, parse, query


@pytest.fixture
def talk() -> Talk:
    ready = Talk()
    assert ready(STARTUP)[-1] == ("Z", "I")
    return ready


def test_a_login_that_may_wait_takes_the_time_of_its_own_user() -> None:
    """So whoever has no place left keeps no other from logging in."""
    fresh = Talk().conversation
    assert fresh.analyst == ""
    for part in fresh.respond([STARTUP]):
        if part is BLOCKING:
            break
    assert (fresh.user, fresh.analyst) == ("", "alice")


def test_simple_query(talk: Talk) -> None:
    assert talk(query("select n from series(2)")) == [
        ("T", [("n", 20, 8, -1, 0)]),
        ("D", [b"0"]),
        ("D", [b"1"]),
        ("C", "SELECT 2"),
        ("Z", "I"),
    ]


@pytest.mark.parametrize("sql", ["", "  ", ";;"])
def test_empty_query(talk: Talk, sql: str) -> None:
    assert talk.kinds(query(sql)) == "IZ"


def test_several_statements_stop_at_the_first_error(talk: Talk) -> None:
    assert talk.kinds(query("select 1; select fail(); select 2")) == "TDCEZ"
    assert talk.session.executed == ["select 1", "select fail()"]
    # A syntax error anywhere runs nothing.
    assert talk.kinds(query("select 3; frobnicate")) == "EZ"
    assert "select 3" not in talk.session.executed


def test_simple_query_takes_no_parameters(talk: Talk) -> None:
    assert error_of(talk(query("select $1 + 1")))["C"] == "42P02"
    assert talk.session.executed == []


def test_notices_come_before_the_tag_and_parameter_status_after_it(talk: Talk) -> None:
    assert talk.kinds(query("select notices")) == "NNTDCZ"
    assert talk(query("set application_name = 'x'")) == [
        ("C", "SET"),
        ("S", ("application_name", "x")),
        ("Z", "I"),
    ]
    assert talk.kinds(query("set application_name = 'x'")) == "CZ"


def test_extended_query(talk: Talk) -> None:
    answer = talk(
        parse("select $1 + 1"), m.Describe("S", ""), bind(b"41"), m.Describe("P", ""),
        m.Execute(""), m.Sync(),
    )  # fmt: skip
    row = ("T", [("n", 20, 8, -1, 0)])
    assert answer == [
        ("1", ""), ("t", [20]), row, ("2", ""), row, ("D", [b"42"]), ("C", "SELECT 1"), ("Z", "I"),
    ]  # fmt: skip


def test_binary_both_ways(talk: Talk) -> None:
    number = struct.pack("!q", 41)
    answer = talk(
        parse("select $1 + 1"), bind(number, formats=(1,), results=(1,)), m.Describe("P", ""),
        m.Execute(""), m.Sync(),
    )  # fmt: skip
    assert answer[2:4] == [("T", [("n", 20, 8, -1, 1)]), ("D", [struct.pack("!q", 42)])]


def test_declared_types_stay(talk: Talk) -> None:
    answer = talk(parse("select $1, $2, $3", types=(19, 0)), m.Describe("S", ""), m.Sync())
    assert answer[1] == ("t", [19, 25, 25])
    answer = talk(parse("select 1", "more", (23, 25)), m.Describe("S", "more"), m.Sync())
    assert answer[1] == ("t", [23, 25])
    assert talk.kinds(bind(b"1", b"x", statement="more"), m.Execute(""), m.Sync()) == "2DCZ"
    assert error_of(talk(parse("select $1", types=(600,)), m.Sync()))["C"] == "0A000"


def test_describing_runs_nothing(talk: Talk) -> None:
    talk(parse("select n from series(3)", "s"), m.Describe("S", "s"), m.Sync())
    talk(bind(statement="s"), m.Describe("P", ""), m.Flush(), m.Sync())
    assert talk.session.executed == []


def test_a_portal_runs_once_and_is_paged(talk: Talk) -> None:
    talk(query("begin"))
    assert (
        talk.kinds(parse("select n from series(5)", "s"), bind(statement="s", portal="p")) == "12"
    )
    pages = [talk(m.Execute("p", 2))[-1] for _ in range(4)]
    assert pages == [("s", ""), ("s", ""), ("C", "SELECT 1"), ("C", "SELECT 0")]
    assert talk.session.executed == ["select n from series(5)"]
    # A page that is exactly full leaves the end for the next one.
    talk(bind(statement="s", portal="q"))
    assert talk.kinds(m.Execute("q", 5)) == "DDDDDs"
    assert talk(m.Execute("q", 5)) == [("C", "SELECT 0")]
    # Inside the block portals outlive a Sync, but not the block.
    assert talk.kinds(m.Sync(), m.Execute("q"), m.Sync()) == "ZCZ"
    talk(query("commit"))
    assert error_of(talk(m.Execute("q"), m.Sync()))["C"] == "34000"


def test_a_portal_without_rows_runs_once(talk: Talk) -> None:
    talk(query("begin"), parse("set jit = 'on'"), bind(portal="p"))
    assert talk(m.Execute("p")) == [("C", "SET")]
    assert error_of(talk(m.Execute("p"), m.Sync()))["C"] == "55000"


@pytest.mark.parametrize(
    ("messages", "sqlstate"),
    [
        ([parse("select 1", "s"), parse("select 2", "s")], "42P05"),
        ([parse("select 1; select 2")], "42601"),
        ([parse("frobnicate")], "42601"),
        ([parse("select y from x")], "42P01"),
        ([parse("select struct")], "0A000"),
        ([m.Parse("", b"select \xff")], "22021"),
        ([bind(statement="none")], "26000"),
        ([bind()], "26000"),
        ([m.Describe("S", "none")], "26000"),
        ([m.Describe("P", "none")], "34000"),
        ([m.Execute("none")], "34000"),
        ([parse("select $1 + 1"), bind()], "08P01"),
        ([parse("select $1 + 1"), bind(b"x")], "22P02"),
        ([parse("select $1 + 1"), bind(b"x", formats=(1,))], "22P03"),
        ([parse("select $1 + 1"), bind(b"1", formats=(0, 0))], "08P01"),
        ([parse("select $1 + 1"), bind(b"1", formats=(2,))], "22023"),
        ([parse("select 1"), bind(results=(0, 0))], "08P01"),
        ([parse("select 1", "s"), bind(statement="s", portal="p"), bind(portal="p")], "26000"),
        (
            [
                parse("select 1", "s"),
                bind(statement="s", portal="p"),
                bind(statement="s", portal="p"),
            ],
            "42P03",
        ),
        ([parse("select fickle"), bind(), m.Execute("")], "0A000"),
        ([parse("select fail()"), bind(), m.Execute("")], "53400"),
        ([parse("savepoint a"), bind(), m.Execute("")], "25P01"),
        ([parse("deallocate none"), bind(), m.Execute("")], "26000"),
    ],
)
def test_extended_errors_skip_until_sync(
    talk: Talk, messages: list[m.Message], sqlstate: str
) -> None:
    answer = talk(*messages, parse("select 2", "after"), query("select 3"), m.Flush())
    assert answer[-1][0] == "E"
    assert error_of(answer)["C"] == sqlstate
    assert talk.conversation.phase is ProtocolPhase.SKIPPING
    assert talk(m.Sync()) == [("Z", "I")]
    assert talk.kinds(query("select 1")) == "TDCZ"
    assert error_of(talk(m.Describe("S", "after"), m.Sync()))["C"] == "26000"


def test_closing_and_replacing(talk: Talk) -> None:
    talk(parse("select 1", "s"), m.Sync())
    assert talk.kinds(m.Close("S", "s"), m.Close("S", "s"), m.Close("P", "x"), m.Sync()) == "333Z"
    assert talk.kinds(parse("select 2", "s"), parse("select 1"), parse("select 2")) == "111"
    assert talk.kinds(bind(), bind(), m.Execute(""), m.Sync()) == "22DCZ"
    # A simple query takes the unnamed statement with it.
    talk(query("select 1"))
    assert error_of(talk(bind(), m.Sync()))["C"] == "26000"


def test_deallocate_and_discard(talk: Talk) -> None:
    for sql, tag in (
        ("deallocate s", "DEALLOCATE"),
        ("deallocate all", "DEALLOCATE ALL"),
        ("discard all", "DISCARD ALL"),
    ):
        talk(parse("select 1", "s"), m.Sync())
        assert talk(query(sql)) == [("C", tag), ("Z", "I")]
        assert error_of(talk(bind(statement="s"), m.Sync()))["C"] == "26000"


def test_an_empty_statement_can_be_prepared(talk: Talk) -> None:
    assert talk.kinds(parse(""), m.Describe("S", ""), bind(), m.Execute(""), m.Sync()) == "1tn2IZ"


def test_rows_without_columns_are_still_rows(talk: Talk) -> None:
    assert talk.kinds(parse("select nothing"), m.Describe("S", "")) == "1tT"


def test_a_failed_block_refuses_the_extended_protocol_too(talk: Talk) -> None:
    talk(parse("select 1", "s"), parse("rollback", "r"), query("begin; select fail()"))
    for messages in (
        [parse("select 2")],
        [bind(statement="s")],
        [m.Execute("none")],
    ):
        answer = talk(*messages, m.Sync())
        assert error_of(answer)["C"] in ("25P02", "34000")
        assert answer[-1] == ("Z", "E")
    assert talk(bind(statement="r"), m.Execute(""), m.Sync())[1:] == [("C", "ROLLBACK"), ("Z", "I")]


def test_internal_errors_say_nothing(talk: Talk, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        answer = talk(query("select crash()"))
        more = talk(parse("select crash()"), bind(), m.Execute(""), m.Sync())
    assert error_of(answer) == {"S": "ERROR", "V": "ERROR", "C": "XX000", "M": "internal error"}
    assert error_of(more)["C"] == "XX000"
    assert "4711" not in caplog.text
    assert "RuntimeError" in caplog.text
    assert talk.kinds(query("select 1")) == "TDCZ"


def test_other_messages(talk: Talk) -> None:
    assert talk.kinds(m.CopyMessage(), m.Flush()) == ""
    assert talk.kinds(m.FunctionCall()) == "EZ"
    assert error_of(talk(query("select 1"), m.Credentials(b"x"))[4:])["C"] == "08P01"
    assert talk.conversation.phase is ProtocolPhase.CLOSED


def test_reading_errors_and_terminate_end_it(talk: Talk) -> None:
    assert error_of(talk(ProtocolViolation("bad"), query("select 1")))["S"] == "FATAL"
    other = Talk()
    other(STARTUP)
    assert other(m.Terminate(), query("select 1")) == []
    assert other.session.executed == []


def test_the_table_knows_every_message_of_a_ready_client() -> None:
    startup = {m.SSLRequest, m.GSSENCRequest, m.CancelRequest, m.Startup, m.Credentials}
    every = {getattr(m, name) for name in m.__all__ if isinstance(getattr(m, name), type)}
    for phase in (ProtocolPhase.READY, ProtocolPhase.SKIPPING):
        assert set(_TABLE[phase]) == every - startup - {m.Message}
    assert set(_TABLE) == set(ProtocolPhase)


def test_many_statements_are_bounded(talk: Talk) -> None:
    answer = talk(*[parse("set jit = 'on'", str(i)) for i in range(5001)], m.Sync())
    assert error_of(answer)["C"] == "54000"
