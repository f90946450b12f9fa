"""How a conversation begins: encryption, versions, settings, passwords, a full server."""

from __future__ import annotations

from typing import Any

import pytest

from tallyveil.proxy.conversation import ProtocolPhase
from tallyveil.proxy.protocol import messages as m
from tests.proxy.scram_client import ScramClient
from tests.proxy.scram_users import with_passwords
from tests.proxy.talk import STARTUP, FakeHost, Talk, error_of, query


def test_startup_says_everything_once() -> None:
    answer = Talk()(STARTUP)
    assert answer[0] == ("R", 0)
    assert answer[-2:] == [("K", (7, b"abcd")), ("Z", "I")]
    status = dict(fields for kind, fields in answer if kind == "S")
    assert status["server_version"] == "18.0"
    assert status["client_encoding"] == "UTF8"


def test_encryption_is_declined_once_each() -> None:
    talk = Talk()
    assert b"".join(talk.conversation.respond([m.SSLRequest()])) == b"N"
    assert b"".join(talk.conversation.respond([m.GSSENCRequest()])) == b"N"
    assert error_of(talk(m.SSLRequest()))["C"] == "08P01"
    assert talk.conversation.phase is ProtocolPhase.CLOSED


@pytest.mark.parametrize(
    ("minor", "options", "spoken", "key"),
    [
        (0, (), None, 4),
        (0, ("_pq_.x",), 0, 4),
        (1, (), None, 4),
        (2, (), None, 32),
        (2, ("_pq_.x", "_pq_.y"), 2, 32),
        (3, (), 2, 32),
        (9999, ("_pq_.x",), 2, 32),
    ],
)
def test_the_protocol_is_negotiated(
    minor: int, options: tuple[str, ...], spoken: int | None, key: int
) -> None:
    """As PostgreSQL 18 does: down to 3.2, which has longer keys; options are declined."""
    given = (("user", "a"), *((name, "1") for name in options))
    answer = Talk()(m.Startup(3 << 16 | minor, given))
    told = [fields for kind, fields in answer if kind == "v"]
    assert told == ([] if spoken is None else [(3 << 16 | spoken, list(options))])
    assert [len(fields[1]) for kind, fields in answer if kind == "K"] == [key]
    assert answer[-1] == ("Z", "I")


@pytest.mark.parametrize(
    ("message", "sqlstate"),
    [
        (m.Startup(2 << 16, ()), "0A000"),
        (m.Startup(4 << 16, (("user", "a"),)), "0A000"),
        (m.Startup(3 << 16, (("database", "a"),)), "28000"),
        (m.Startup(3 << 16, (("user", "a"), ("replication", "database"))), "0A000"),
        (m.Startup(3 << 16, (("user", "a"), ("nonsense", "1"))), "42704"),
        (m.Startup(3 << 16, (("user", "a"), ("options", "-x"))), "08P01"),
        (m.Startup(3 << 16, (("user", "a"), ("options", "-c dp.epsilon"))), "08P01"),
        (m.Startup(3 << 16, (("user", "a"), ("database", "closed"))), "0A000"),
        (query("select 1"), "08P01"),
        (m.Credentials(b"x"), "08P01"),
    ],
)
def test_refused_at_startup(message: m.Message, sqlstate: str) -> None:
    talk = Talk()
    answer = talk(message, query("select 1"))
    assert len(answer) == 1
    assert error_of(answer)["C"] == sqlstate
    assert error_of(answer)["S"] == "FATAL"
    assert talk.conversation.phase is ProtocolPhase.CLOSED


def test_options_become_settings() -> None:
    talk = Talk()
    options = r"-c dp.epsilon=0.2 -cjit=on  --application-name=two\ words"
    talk(m.Startup(3 << 16, (("user", "a"), ("options", options), ("DateStyle", "ISO"))))
    assert talk.session.values["dp.epsilon"] == "0.2"
    assert talk.session.values["jit"] == "on"
    assert talk.session.values["application_name"] == "two words"
    assert talk.session.values["datestyle"] == "ISO"
    assert talk.session.database == "a"


def log_in(talk: Talk, user: str, password: str) -> list[tuple[str, Any]]:
    """The last answer of the dialogue, whose other answers must be as they should."""
    ((kind, (code, mechanisms)),) = talk(m.Startup(3 << 16, (("user", user),)))
    assert (kind, code, mechanisms) == ("R", 10, b"SCRAM-SHA-256\0\0")
    client = ScramClient(password)
    ((kind, (code, first)),) = talk(client.begin())
    assert (kind, code) == ("R", 11)
    answer = talk(client.finish(first), query("select 1"))
    if answer[0][0] == "R":
        code, last = answer[0][1]
        assert code == 12
        assert client.trusts(last)
    return answer


def test_a_password_is_proved_and_so_is_that_the_server_knows_it() -> None:
    users = with_passwords({"alice": "open sesame"})
    answer = log_in(Talk(FakeHost(users)), "alice", "open sesame")
    assert answer[1] == ("R", 0)
    assert answer[-1] == ("Z", "I")
    assert "sesame" not in repr(users) + repr(vars(users))


def test_wrong_password_and_unknown_user_are_told_alike() -> None:
    users = with_passwords({"alice": "open sesame"})
    answers = []
    for user, password in (("alice", "wrong"), ("mallory", "open sesame"), ("mallory", "")):
        talk = Talk(FakeHost(users))
        answers.append(error_of(log_in(talk, user, password)))
        assert talk.host.open_session.all == []
    assert {a["C"] for a in answers} == {"28P01"}
    assert len({a["M"].replace("mallory", "alice") for a in answers}) == 1


def test_nobody_gets_in_without_the_password() -> None:
    talk = Talk(FakeHost(with_passwords({"alice": "x"})))
    answer = talk(STARTUP, query("select 1"))
    assert [kind for kind, _ in answer] == ["R", "E"]
    assert talk.host.open_session.all == []


def test_who_comes_from_elsewhere_needs_tls() -> None:
    talk = Talk()
    talk.conversation.address = "192.0.2.1"
    assert error_of(talk(STARTUP))["C"] == "28000"
    assert talk.host.open_session.all == []


def test_a_full_server_says_so() -> None:
    talk = Talk(FakeHost(full=True))
    assert error_of(talk(STARTUP))["C"] == "53300"
    assert talk.host.open_session.all == []


def test_cancel_requests_are_passed_on_and_answered_by_nothing() -> None:
    talk = Talk()
    assert talk(m.CancelRequest(7, b"abcd")) == []
    assert talk.host.cancelled == [(7, b"abcd")]
    assert talk.conversation.phase is ProtocolPhase.CLOSED
