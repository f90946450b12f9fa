"""A statement that is repeated is answered from what was sent before, while that holds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tallyveil.proxy.protocol import messages as m
from tallyveil.proxy.protocol.backend import BLOCKING
from tests.proxy.fake_session import FakeSession
from tests.proxy.raw_client import split
from tests.proxy.talk import STARTUP, FakeHost, Talk, bind, error_of, parse, query

SQL = "select repeatable notices"
RUN = (m.Execute("", 0), m.Sync())


@pytest.fixture
def talk() -> Talk:
    made = Talk()
    made(STARTUP)
    return made


def asks(talk: Talk, *messages: m.Message) -> tuple[list[tuple[str, Any]], bool]:
    """The answer, and whether all of it was given without the gate."""
    parts = list(talk.conversation.respond(messages))
    return split(b"".join(parts)), not any(part is BLOCKING for part in parts)


@pytest.mark.parametrize("first", [(query(SQL),), (parse(SQL), bind(), *RUN)])
def test_a_repeated_query_is_answered_alike_without_the_gate(
    talk: Talk, first: tuple[m.Message, ...]
) -> None:
    answers, prompt = asks(talk, *first)
    assert not prompt
    repeated = first if len(first) == 1 else (bind(), *RUN)
    for _ in range(2):
        found, prompt = asks(talk, *repeated)
        assert prompt
        assert found == answers[-len(found) :]
    assert talk.session.executed == [SQL]


def test_connections_of_one_user_share_replies_and_those_of_others_do_not() -> None:
    host = FakeHost()
    executed = []
    for user in ("alice", "alice", "bob"):
        talk = Talk(host)
        talk(m.Startup(3 << 16, (("user", user), ("database", "demo"))))
        answer, _ = asks(talk, query(SQL))
        assert [kind for kind, _ in answer] == list("NNTDCZ")
        executed.append(len(talk.session.executed))
    assert executed == [1, 0, 1]


def later(session: FakeSession) -> None:
    session.position += 1


def other(session: FakeSession) -> None:
    session.set("extra_float_digits", "2")


@pytest.mark.parametrize("change", [later, other])
def test_a_query_is_asked_anew_once_something_is_recorded_or_set(
    talk: Talk, change: Callable[[FakeSession], None]
) -> None:
    talk(query(SQL), parse(SQL, "one"), bind(statement="one"), *RUN)
    change(talk.session)
    talk(query(SQL), bind(statement="one"), *RUN)
    assert talk.session.executed == [SQL] * 4


@pytest.mark.parametrize(
    ("sql", "messages"),
    [
        ("select 7", (query("select 7"),)),
        (f"{SQL}; {SQL}", (query(f"{SQL}; {SQL}"),)),
        (SQL, (parse(SQL), bind(), m.Execute("", 1), m.Sync())),
    ],
    ids=["depends on more", "several statements", "fetched in portions"],
)
def test_other_answers_are_not_kept(talk: Talk, sql: str, messages: tuple[m.Message, ...]) -> None:
    for _ in range(2):
        answer, prompt = asks(talk, *messages)
        assert not prompt
        assert "E" not in [kind for kind, _ in answer]
    assert len(talk.session.executed) == 2 * len(sql.split(";"))


def test_what_records_something_itself_is_not_kept(
    talk: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, run = talk.session, talk.session.execute

    def recording(*arguments: Any, **named: Any) -> Any:
        session.position += 1
        return run(*arguments, **named)

    with monkeypatch.context() as patch:
        patch.setattr(session, "execute", recording)
        talk(query(SQL))
    assert not asks(talk, query(SQL))[1]
    assert asks(talk, query(SQL))[1]


def test_parameters_and_formats_have_replies_of_their_own(talk: Talk) -> None:
    sql = "select $1 + 1 repeatable"
    talk(parse(sql))
    answers = {}
    for value in (b"1", b"2"):
        for results in ((), (1,)):
            first, again = (asks(talk, bind(value, results=results), *RUN)[0] for _ in range(2))
            assert first == again
            answers[value, results] = str(first)
    assert len(set(answers.values())) == 4
    assert len(talk.session.executed) == 4


def test_a_failed_block_answers_no_repeated_query(talk: Talk) -> None:
    talk(query(SQL), parse(SQL, "one"), bind(statement="one"), *RUN)
    talk(query("begin"), query("select fail"))
    assert talk.conversation.executor.transaction.status == "E"
    assert error_of(talk(query(SQL)))["C"] == "25P02"
    assert error_of(talk(bind(statement="one"), *RUN))["C"] == "25P02"


def test_a_portal_that_was_answered_by_a_reply_has_no_more_rows(talk: Talk) -> None:
    talk(parse(SQL), bind(), *RUN)
    execute = m.Execute("", 0)
    once, twice = (talk(bind(), *[execute] * n, m.Sync()) for n in (1, 2))
    assert twice[:-1] == [*once[:-1], ("C", "SELECT 0")]


def test_long_parameters_are_decoded_by_a_worker(talk: Talk) -> None:
    talk(parse("select $1 repeatable"))
    for size, at_once in ((10, True), (10_000, False)):
        for _ in range(2):
            _, prompt = asks(talk, bind(b"x" * size), *RUN)
        assert prompt is at_once


def test_a_query_that_is_prepared_again_is_described_without_the_gate(talk: Talk) -> None:
    """Also for another connection of the user; for another user, or after a setting, it is not."""
    whole = (parse(SQL), m.Describe("S", ""), bind(), *RUN)
    answers, prompt = asks(talk, *whole)
    assert not prompt
    assert asks(talk, *whole) == (answers, True)
    assert asks(talk, parse(SQL, "named"), m.Sync())[1]
    assert error_of(talk(parse(SQL, "named"), m.Sync()))["C"] == "42P05"
    other(talk.session)
    assert not asks(talk, *whole)[1]


def test_a_query_that_is_prepared_again_fails_in_a_failed_transaction(talk: Talk) -> None:
    talk(parse(SQL), m.Sync())
    talk(query("begin"), query("nonsense"))
    assert error_of(talk(parse(SQL), m.Sync()))["C"] == "25P02"


def test_what_is_prepared_again_is_counted_with_its_name(talk: Talk) -> None:
    holding = talk.conversation._holding
    talk(parse(SQL), m.Sync())
    before = holding._size
    talk(parse(SQL, "n" * 50), m.Sync())
    assert holding._size == 2 * before + 50
    talk(m.Close("S", "n" * 50), m.Sync())
    assert holding._size == before
