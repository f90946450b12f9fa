"""TLS on real sockets: asked for and at once, attacks, and what SCRAM and certificates bind to."""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from cryptography.hazmat.primitives import hashes

from tallyveil.proxy import Server, Tls
from tallyveil.proxy.protocol import messages as m
from tests.proxy.certificates import Authority, write_pair
from tests.proxy.fake_session import Sessions
from tests.proxy.raw_client import RawClient, split, write
from tests.proxy.scram_client import ScramClient
from tests.proxy.scram_users import with_passwords
from tests.proxy.serving import serving

STARTUP = m.Startup(3 << 16, (("user", "alice"),))
ONE = [("C", "SELECT 1"), ("Z", "I")]


def context(*protocols: str) -> ssl.SSLContext:
    """Of a client that takes any certificate."""
    made = ssl.create_default_context()
    made.check_hostname = False
    made.verify_mode = ssl.CERT_NONE
    if protocols:
        made.set_alpn_protocols(protocols)
    return made


def ask_for_tls(client: RawClient) -> ssl.SSLSocket:
    client.send(m.SSLRequest())
    assert client.exactly(1) == b"S"
    client.socket = encrypted = context().wrap_socket(client.socket)
    return encrypted


@pytest.fixture
def port(sessions: Sessions, tls: Tls) -> Iterator[int]:
    with serving(sessions, tls=tls) as port:
        yield port


def test_on_request(port: int) -> None:
    with RawClient(port) as client:
        client.send(m.GSSENCRequest())
        assert client.exactly(1) == b"N"
        assert ask_for_tls(client).version() == "TLSv1.3"
        client.start()
        assert client.ask("select 1")[-2:] == ONE
        client.send(m.Terminate())
        assert client.at_end()  # and not by an error of TLS: the server says that it ends


def test_at_once_with_the_protocol_named(port: int) -> None:
    with RawClient(port) as client:
        client.socket = context("postgresql", "other").wrap_socket(client.socket)
        client.start()
        assert client.ask("select 1")[-2:] == ONE


@pytest.mark.parametrize("protocols", [(), ("h2",)])
def test_at_once_without_the_protocol_it_ends(
    port: int, protocols: tuple[str, ...], caplog: pytest.LogCaptureFixture
) -> None:
    """As in PostgreSQL: another protocol's client may have been led here."""
    caplog.set_level("INFO", "tallyveil")
    with RawClient(port) as client:
        client.socket = context(*protocols).wrap_socket(client.socket)
        client.send(STARTUP)
        with pytest.raises((ssl.SSLError, EOFError, ConnectionResetError)):
            client.read()
    [failed] = [record.__dict__ for record in caplog.records if "fail" in record.msg.lower()]
    assert failed["fields"]["reason"] == "NO_APPLICATION_PROTOCOL"
    assert "asyncio" not in caplog.text


@pytest.mark.parametrize("size", [1, 7])
def test_in_the_smallest_pieces(port: int, size: int) -> None:
    """Whatever the network makes of it: the handshake, and what follows in the same breath."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    spoken = context("postgresql").wrap_bio(incoming, outgoing)
    with RawClient(port) as client:

        def pump() -> None:
            data = outgoing.read()
            for at in range(0, len(data), size):
                client.socket.sendall(data[at : at + size])

        def read(call: Any) -> Any:
            while True:
                try:
                    return call()
                except ssl.SSLWantReadError:
                    pump()
                    incoming.write(client.socket.recv(size))

        read(spoken.do_handshake)
        spoken.write(write(STARTUP) + write(m.Query(b"select 1")))
        pump()
        answer = b""
        while answer.count(b"Z\0\0\0\x05I") < 2:
            answer += read(lambda: spoken.read(100))
        assert b"SELECT 1\0" in answer


def test_large_results_and_large_messages(port: int) -> None:
    with RawClient(port) as client:
        ask_for_tls(client)
        client.start()
        assert client.ask("select wide(20000)")[-1] == ("Z", "I")
        assert client.ask("select 1 -- " + "x" * 500_000)[-2:] == ONE


@pytest.mark.parametrize("also", [write(STARTUP), b"\x16", write(m.SSLRequest())])
def test_clear_text_beside_the_request_is_an_attack(
    port: int, sessions: Sessions, also: bytes
) -> None:
    """CVE-2021-23222: it would be taken for what the client says within TLS."""
    with RawClient(port) as client:
        client.socket.sendall(write(m.SSLRequest()) + also)
        kind, fields = client.read()
        assert (kind, fields["C"]) == ("E", "08P01")
        assert client.at_end()
    assert sessions.all == []


@pytest.mark.parametrize(
    "sent", [write(STARTUP), b"\x16\x03\x01\0\x05hello", b"GET / HTTP/1.1\r\n"]
)
def test_clear_text_in_place_of_a_handshake(port: int, sessions: Sessions, sent: bytes) -> None:
    with RawClient(port) as client:
        client.send(m.SSLRequest())
        assert client.exactly(1) == b"S"
        client.socket.sendall(sent)
        with contextlib.suppress(ConnectionResetError):
            assert client.socket.recv(100)[:1] in (b"\x15", b"")  # an alert, if anything
    assert sessions.all == []


@pytest.mark.parametrize("request_", [m.SSLRequest(), m.GSSENCRequest()])
def test_no_encryption_within_encryption(port: int, request_: m.Message) -> None:
    with RawClient(port) as client:
        ask_for_tls(client)
        client.send(request_)
        kind, fields = client.read()
        assert (kind, fields["C"]) == ("E", "08P01")


@pytest.mark.parametrize("running", [False, True])
def test_garbage_after_the_handshake_ends_it(port: int, sessions: Sessions, running: bool) -> None:
    with RawClient(port) as client:
        raw = socket.socket(fileno=socket.dup(client.socket.fileno()))
        with contextlib.closing(raw):
            ask_for_tls(client)
            client.start()
            if running:
                client.send(m.Query(b"select wait()"))
                assert sessions.last.started.wait(5)
            raw.sendall(b"\x17\x03\x03\0\x20" + bytes(32))
            assert sessions.last.closed.wait(5)
            with pytest.raises((ssl.SSLError, EOFError, ConnectionResetError)):
                client.read()


@pytest.mark.parametrize("begun", [write(m.SSLRequest()), b"\x16\x03\x01\x02\0\x01"])
def test_handshakes_that_stop_are_closed(sessions: Sessions, tls: Tls, begun: bytes) -> None:
    with serving(sessions, tls=tls, startup_timeout=0.3) as port, RawClient(port) as client:
        client.socket.sendall(begun)
        if begun[0] == 0:
            assert client.exactly(1) == b"S"
        assert client.at_end()


def test_handshakes_that_stop_give_way_to_newcomers(sessions: Sessions, tls: Tls) -> None:
    with contextlib.ExitStack() as opened, serving(sessions, tls=tls, max_waiting=3) as port:
        half = [opened.enter_context(RawClient(port)) for _ in range(9)]
        for client in half:
            with contextlib.suppress(OSError):
                client.socket.sendall(b"\x16\x03\x01\x02\0\x01")
        for _ in range(5):
            with RawClient(port) as newcomer:
                ask_for_tls(newcomer)
                newcomer.start()
                assert newcomer.ask("select 1")[-2:] == ONE
        assert sum(client.at_end() for client in half[:6]) == 6


def test_a_cancel_over_tls(port: int, sessions: Sessions) -> None:
    with RawClient(port) as client, RawClient(port) as other:
        ask_for_tls(client)
        client.start()
        client.send(m.Query(b"select wait()"))
        assert sessions.last.started.wait(5)
        ask_for_tls(other)
        other.send(m.CancelRequest(*client.key))
        other.socket.close()  # at once, as some clients do
        kinds = dict(client.until("Z"))
        assert kinds["E"]["C"] == "57014"


def test_on_plain_asyncio(sessions: Sessions, tls: Tls) -> None:
    def talk(port: int) -> list[tuple[str, Any]]:
        with RawClient(port) as client:
            ask_for_tls(client)
            client.start()
            return client.ask("select n from series(3)")

    async def main() -> None:
        server = Server(sessions, port=0, tls=tls)
        await server.start()
        assert (await asyncio.to_thread(talk, server.port))[-1] == ("Z", "I")
        await server.close()

    asyncio.run(main())


DIGESTS: list[tuple[str, hashes.HashAlgorithm | None, bool]] = [
    ("rsa", hashes.SHA256(), True),
    ("rsa", hashes.SHA512(), True),
    ("ec", hashes.SHA384(), True),
    ("ed25519", None, False),
]


@pytest.mark.parametrize(("kind", "digest", "plus"), DIGESTS)
def test_libpq_binds_to_any_certificate_that_can_be_bound_to(
    sessions: Sessions, tmp_path: Path, kind: str, digest: hashes.HashAlgorithm | None, plus: bool
) -> None:
    path = write_pair(tmp_path / "server.crt", kind, digest)
    users = with_passwords({"alice": "x"})
    with serving(sessions, tls=Tls(path, path.with_suffix(".key")), auth=users) as port:
        for binding, works in (("prefer", True), ("require", plus)):
            address = f"host=127.0.0.1 port={port} user=alice dbname=d password=x sslmode=require"
            if works:
                psycopg.connect(f"{address} channel_binding={binding}").close()
            else:
                with pytest.raises(psycopg.OperationalError, match="channel binding"):
                    psycopg.connect(f"{address} channel_binding={binding}")


def test_a_relayed_login_fails(sessions: Sessions, tls: Tls, tmp_path: Path) -> None:
    """Who stands between with a certificate of his own gives the client another end point."""
    users = with_passwords({"alice": "x"})
    with serving(sessions, tls=tls, auth=users) as port, RawClient(port) as client:
        ask_for_tls(client)
        client.send(STARTUP)
        code, mechanisms = client.read()[1]
        assert (code, mechanisms) == (10, b"SCRAM-SHA-256-PLUS\0SCRAM-SHA-256\0\0")
        scram = ScramClient(
            "x",
            mechanism="SCRAM-SHA-256-PLUS",
            header="p=tls-server-end-point,,",
            bound=bytes(32),
        )
        client.send(scram.begin())
        client.send(scram.finish(client.read()[1][1]))
        kind, fields = client.read()
        assert (kind, fields["C"]) == ("E", "28000")
    assert sessions.all == []


def connect(port: int, user: str, **options: str) -> str:
    """'in', or the SQLSTATE or message of the refusal."""
    try:
        psycopg.connect(
            host="127.0.0.1", port=port, user=user, dbname="d", sslmode="require", **options
        ).close()
    except psycopg.OperationalError as error:
        return str(error)
    return "in"


def test_certificates_of_clients(sessions: Sessions, certificate: Path, tmp_path: Path) -> None:
    authority, stranger = Authority(tmp_path), Authority(tmp_path, "stranger")
    tls = Tls(certificate, certificate.with_suffix(".key"), authority.path)
    alice, two = authority.client("alice"), authority.client("alice", "bob")
    users = {"alice": "x", "bob": "x"}

    with serving(sessions, tls=tls, auth=with_passwords(users, clientcert="cert")) as port:
        assert connect(port, "alice", **alice) == "in"
        assert "certificate authentication failed" in connect(port, "bob", password="x", **alice)
        assert "certificate authentication failed" in connect(port, "alice", **two)
        assert connect(port, "bob", password="x") == "in"
        assert "password" in connect(port, "bob", password="y")
        assert connect(port, "alice", password="x", **stranger.client("alice")) != "in"
        assert connect(port, "alice", password="x", **authority.client("alice", days=-1)) != "in"
    with serving(sessions, tls=tls, auth=with_passwords(users, clientcert="verify-full")) as port:
        assert connect(port, "alice", password="x", **alice) == "in"
        assert "password" in connect(port, "alice", password="y", **alice)
        assert "certificate authentication failed" in connect(port, "bob", password="x", **alice)
        assert "requires a valid client certificate" in connect(port, "bob", password="x")


def test_an_encrypted_key_is_refused_without_asking(tmp_path: Path, certificate: Path) -> None:
    key = tmp_path / "key"
    key.write_text(
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n"
    )
    with pytest.raises(ValueError, match=r"key: expected .*, without a passphrase"):
        Tls(certificate, key)


def test_the_file_that_does_not_fit_is_named(tmp_path: Path, certificate: Path) -> None:
    key, other, text = certificate.with_suffix(".key"), tmp_path / "b.crt", tmp_path / "text"
    write_pair(other, "rsa", hashes.SHA256())
    text.write_text("a text")
    empty = tmp_path / "empty"
    empty.touch()
    private = "expected the certificate's private key in PEM"
    for files, told in [
        ((text, key), f"{text}: expected a certificate in PEM"),
        ((empty, key), f"{empty}: expected a certificate in PEM"),
        ((key, key), f"{key}: expected a certificate in PEM"),
        ((certificate, text), f"{text}: {private}"),
        ((certificate, certificate), f"{certificate}: {private}"),
        ((certificate, empty), f"{empty}: {private}"),
        ((certificate, other.with_suffix(".key")), f"b.key: {private}"),
        ((certificate, key, text), f"{text}: expected certificates in PEM"),
    ]:
        with pytest.raises(ValueError, match=re.escape(told)):
            Tls(*files)
    for files in (tmp_path, key), (certificate, tmp_path), (certificate, key, tmp_path):
        with pytest.raises(IsADirectoryError, match=re.escape(f"'{tmp_path}'")):
            Tls(*files)


@pytest.mark.parametrize("said", [True, False], ids=["by TLS", "of the socket alone"])
def test_what_came_before_the_end_of_the_stream_is_answered(port: int, said: bool) -> None:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context("postgresql").wrap_bio(incoming, outgoing)
    found: list[bytes] = []
    with RawClient(port) as client:
        established = False
        while not established:
            with contextlib.suppress(ssl.SSLWantReadError):
                tls.do_handshake()
                established = True
            client.socket.sendall(outgoing.read())
            if not established:
                incoming.write(client.socket.recv(1 << 16))
        tls.write(write(STARTUP) + write(m.Query(b"select 1")))
        if said:
            with contextlib.suppress(ssl.SSLWantReadError):
                tls.unwrap()
        client.socket.sendall(outgoing.read())
        client.socket.shutdown(socket.SHUT_WR)
        while received := client.socket.recv(1 << 16):
            incoming.write(received)
        with contextlib.suppress(ssl.SSLWantReadError, ssl.SSLZeroReturnError):
            while part := tls.read():
                found.append(part)
    assert split(b"".join(found))[-2:] == ONE
