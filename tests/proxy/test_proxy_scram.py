"""SCRAM: the vectors of RFC 7677, PostgreSQL's verifiers, unknown users, and messages that lie."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import psycopg
import pytest

from tallyveil.proxy import Users, Verifier
from tallyveil.proxy.admission import scram
from tallyveil.proxy.admission.scram import Exchange, saslprep
from tallyveil.proxy.protocol_errors import ConnectionRefused
from tests.proxy.scram_client import ScramClient

SALT = b"[m\x99h\x9d\x125\x8e\xec\xa0K\x14\x126\xfa\x81"


def test_the_vectors_of_rfc_7677(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scram, "fresh_nonce", lambda: b"%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0")
    exchange = Exchange(Verifier.of("pencil", salt=SALT), True, None)
    client = ScramClient("pencil", user="user")
    first = exchange.begin(client.begin().data)
    assert first == (
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    final = client.finish(first).data
    assert final.endswith(b",p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
    assert exchange.finish(final) == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def logs_in(verifier: Verifier, password: str) -> bool:
    exchange = Exchange(verifier, True, None)
    client = ScramClient(saslprep(password))
    last = exchange.finish(client.finish(exchange.begin(client.begin().data)).data)
    return last is not None and client.trusts(last)


@pytest.mark.parametrize(
    "password", ["pencil", " a b ", "pässwörd", "I\u00adX", "\u2168", "a\u00a0b", "ﬁ", "\u05d0b"]
)
def test_verifiers_are_postgresqls(postgres_uri: str, password: str) -> None:
    """PostgreSQL makes a verifier that we take, and the same as ours from its salt."""
    with psycopg.connect(postgres_uri, autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS scram_user")
        literal = psycopg.sql.Literal(password)
        connection.execute(psycopg.sql.SQL("CREATE ROLE scram_user PASSWORD {}").format(literal))
        row = connection.execute(
            "SELECT rolpassword FROM pg_authid WHERE rolname = 'scram_user'"
        ).fetchone()
        assert row is not None
        theirs = Verifier.parse(row[0])
        assert theirs.written() == row[0]
        assert Verifier.of(password, salt=theirs.salt, iterations=theirs.iterations) == theirs
        assert logs_in(theirs, password)
        assert not logs_in(theirs, password + "x")
        # It also takes ours as it is.
        ours = Verifier.of(password).written()
        connection.execute(
            psycopg.sql.SQL("ALTER ROLE scram_user PASSWORD {}").format(psycopg.sql.Literal(ours))
        )
        kept = connection.execute(
            "SELECT rolpassword FROM pg_authid WHERE rolname = 'scram_user'"
        ).fetchone()
        assert kept == (ours,)
        connection.execute("DROP ROLE scram_user")


def test_an_unknown_user_looks_like_a_user_and_stays_the_same() -> None:
    """A restart, and users that come and go, change nothing for those who are none."""
    known = {f"user{i}": Verifier.of("x", iterations=1000, salt=bytes([i]) * 9) for i in range(4)}
    secret = bytes(range(32))
    asked: dict[str, list[bytes]] = {}
    for users in (Users(known, secret), Users(known | {"new": known["user0"]}, secret)):
        for name in (*known, *(f"nobody{i}" for i in range(40))):
            exchange = users.exchange(name, None)
            first = exchange.begin(ScramClient("").begin().data)
            asked.setdefault(name, []).append(first.partition(b",")[2])
    assert all(one == two for one, two in asked.values())
    assert len({one for one, _ in asked.values()}) == len(asked)
    shapes = {(len(one), one.partition(b",i=")[2]) for one, _ in asked.values()}
    assert shapes == {(len(b"s=" + b64encode(bytes(9)) + b",i=1000"), b"1000")}


@pytest.mark.parametrize("other", [{"iterations": 2000}, {"iterations": 1000, "salt": bytes(9)}])
def test_users_whose_challenges_differ_in_form_are_refused(other: Any) -> None:
    """Those of unknown users would have to follow one of them, and change with who is known."""
    with pytest.raises(ValueError, match="iterations or their length of salt"):
        Users({"a": Verifier.of("x", iterations=1000), "b": Verifier.of("x", **other)})


def test_an_unknown_user_cannot_log_in_whatever_is_guessed() -> None:
    """Not even with the keys of the likeness itself."""
    users = Users({"alice": Verifier.of("x")}, bytes(32))
    exchange = users.exchange("mallory", None)
    exchange._verifier = Verifier.of("guessed")
    client = ScramClient("guessed")
    assert exchange.finish(client.finish(exchange.begin(client.begin().data)).data) is None


HASH = bytes(32)
PLUS: dict[str, Any] = {
    "mechanism": "SCRAM-SHA-256-PLUS",
    "header": "p=tls-server-end-point,,",
    "bound": HASH,
}


@pytest.mark.parametrize(
    ("offered", "client", "sqlstate"),
    [
        (HASH, PLUS, None),
        (HASH, {}, None),
        (None, {"header": "y,,"}, None),
        (HASH, {"header": "y,,"}, "28000"),  # somebody took PLUS from the list
        (HASH, PLUS | {"bound": b"x" * 32}, "28000"),  # another server's certificate
        (HASH, PLUS | {"bound": b""}, "28000"),
        (HASH, PLUS | {"header": "p=tls-unique,,"}, "08P01"),
        (HASH, PLUS | {"header": "n,,", "bound": b""}, "08P01"),
        (HASH, PLUS | {"mechanism": "SCRAM-SHA-256"}, "08P01"),
        (None, PLUS, "08P01"),
        (None, {"mechanism": "SCRAM-SHA-1"}, "08P01"),
        (None, {"header": "n,a=root,"}, "0A000"),
        (None, {"header": "n,,m=x,"}, "0A000"),
        (None, {"header": "x,,"}, "08P01"),
        (None, {"nonce": ""}, "08P01"),
        (None, {"nonce": "é"}, "08P01"),
    ],
)
def test_bindings_and_lies(
    offered: bytes | None, client: dict[str, Any], sqlstate: str | None
) -> None:
    exchange = Exchange(Verifier.of("x", iterations=1), True, offered)
    speaker = ScramClient("x", **client)

    def talk() -> bytes | None:
        return exchange.finish(speaker.finish(exchange.begin(speaker.begin().data)).data)

    if sqlstate is None:
        last = talk()
        assert last is not None
        assert speaker.trusts(last)
    else:
        with pytest.raises(ConnectionRefused) as refused:
            talk()
        assert refused.value.sqlstate == sqlstate


@pytest.mark.parametrize(
    "final",
    [
        b"",
        b"c=biws,r=NONCE",
        b"c=biws,r=other,p=" + b64encode(bytes(32)),
        b"c=biws,r=NONCE,p=" + b64encode(bytes(31)),
        b"c=biws,r=NONCE,p=!",
        b"c=!,r=NONCE,p=" + b64encode(bytes(32)),
        b"c=biws,r=NONCE,p=" + b64encode(bytes(32)) + b"\0",
        b"r=NONCE,c=biws,p=" + b64encode(bytes(32)),
    ],
)
def test_final_messages_that_are_malformed(final: bytes) -> None:
    exchange = Exchange(Verifier.of("x", iterations=1), True, None)
    first = exchange.begin(ScramClient("x").begin().data)
    nonce = first.partition(b",")[0][2:]
    with pytest.raises(ConnectionRefused):
        exchange.finish(final.replace(b"NONCE", nonce))


def test_initial_responses_that_are_malformed() -> None:
    good = ScramClient("x").begin().data
    for data in (b"", good[:10], good[:20], good + b"x", good.replace(b"\0", b"", 1), b"p\0"):
        with pytest.raises(ConnectionRefused):
            Exchange(Verifier.of("x", iterations=1), True, None).begin(data)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "SCRAM-SHA-256$0:AAAA$AAAA:AAAA",
        "SCRAM-SHA-256$4096:AAAA$AAAA:AAAA",
        f"SCRAM-SHA-256$99999999:AAAA${b64encode(HASH).decode()}:{b64encode(HASH).decode()}",
        f"SCRAM-SHA-256$4096:A${b64encode(HASH).decode()}:{b64encode(HASH).decode()}",
    ],
)
def test_verifiers_are_checked(text: str) -> None:
    with pytest.raises(ValueError, match=r"verifier|expected"):
        Verifier.parse(text)
