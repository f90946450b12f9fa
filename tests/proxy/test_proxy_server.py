"""Sockets: limits, cancelling, leaving, attacks; and that nobody else notices."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tallyveil.proxy import InsecureAddress, Server, ServerThread, Tls, Trust, run
from tallyveil.proxy.admission.port_listener import is_loopback
from tallyveil.proxy.processes import WorkerSupervisor
from tallyveil.proxy.protocol import messages as m
from tests.programs import start
from tests.proxy.fake_session import FakeSession, Sessions
from tests.proxy.raw_client import RawClient, write
from tests.proxy.scram_users import with_passwords
from tests.proxy.serving import serving

STARTUP = write(m.Startup(3 << 16, (("user", "a"),)))


def error_of(answer: list[tuple[str, Any]]) -> str:
    (code,) = [fields["C"] for kind, fields in answer if kind == "E"]
    return str(code)


@pytest.fixture
def bystander(server: Server) -> Iterator[RawClient]:
    """Another client, who must get the same answer before and after."""
    with RawClient(server.port) as client:
        client.start()
        assert client.ask("select 1")[-2:] == [("C", "SELECT 1"), ("Z", "I")]
        yield client
        assert client.ask("select 1")[-2:] == [("C", "SELECT 1"), ("Z", "I")]


ATTACKS = {
    "garbage": b"\xde\xad\xbe\xef" * 50,
    "http": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "tls hello": bytes.fromhex("16030100c8010000c40303") + b"\0" * 200,
    "oversized startup": struct.pack("!I", 10_001),
    "plaintext after SSLRequest": write(m.SSLRequest()) + STARTUP,
    "plaintext after GSSENCRequest": write(m.GSSENCRequest()) + STARTUP,
    "unknown type": STARTUP + b"\x01\0\0\0\x04",
    "oversized message": STARTUP + b"Q\x7f\xff\xff\xff",
    "malformed bind": STARTUP + b"B\0\0\0\x05\0",
    "query before startup": b"Q\0\0\0\x0dselect 1\0",
}


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_attacks_end_their_own_connection(
    server: Server, bystander: RawClient, attack: bytes
) -> None:
    with RawClient(server.port) as client:
        client.socket.sendall(attack)
        answer = client.until("E")
        assert answer[-1][1]["S"] == "FATAL"
        assert client.at_end()


@pytest.mark.parametrize("cut", [0, 1, 4, 8, len(STARTUP) - 1, len(STARTUP), len(STARTUP) + 3])
def test_half_messages_and_gone(server: Server, bystander: RawClient, cut: int) -> None:
    with RawClient(server.port) as client:
        client.socket.sendall((STARTUP + write(m.Query(b"select 1")))[:cut])


@pytest.mark.parametrize("sent", [b"", STARTUP[:9], write(m.SSLRequest())])
def test_slow_and_silent_clients_are_closed(sessions: Sessions, sent: bytes) -> None:
    with serving(sessions, startup_timeout=0.2) as port, RawClient(port) as client:
        client.socket.sendall(sent)
        if sent == write(m.SSLRequest()):
            assert client.exactly(1) == b"N"
        assert client.at_end()


def test_who_has_logged_in_may_be_silent(sessions: Sessions) -> None:
    with serving(sessions, startup_timeout=0.2) as port, RawClient(port) as client:
        client.start()
        client.socket.settimeout(0.5)
        with pytest.raises(TimeoutError):
            client.socket.recv(1)
        client.socket.settimeout(10)
        assert client.ask("select 1")[-1] == ("Z", "I")


def test_too_many_clients(sessions: Sessions) -> None:
    with serving(sessions, max_connections=2, max_waiting=2) as port:
        with RawClient(port) as one, RawClient(port) as two:
            one.start("a")
            two.start("b")
            with RawClient(port) as three:
                three.send(m.Startup(3 << 16, (("user", "c"),)))
                assert error_of(three.until("E")) == "53300"
                assert three.at_end()
            assert one.ask("select 1")[-1] == ("Z", "I")
        sessions.all[0].closed.wait(5)
        sessions.all[1].closed.wait(5)
        with RawClient(port) as again:
            assert again.start()[-1] == ("Z", "I")


def test_who_is_slow_to_log_in_gives_way_to_newcomers(
    sessions: Sessions, caplog: pytest.LogCaptureFixture
) -> None:
    packet = write(m.Startup(3 << 16, (("user", "slow"),)))
    with (
        contextlib.ExitStack() as opened,
        serving(sessions, max_waiting=4, startup_timeout=2) as port,
    ):
        slow = [opened.enter_context(RawClient(port)) for _ in range(12)]
        for byte in packet[:-1]:
            for client in slow:
                with contextlib.suppress(OSError):
                    client.socket.sendall(bytes([byte]))
        for _ in range(24):
            with RawClient(port) as newcomer:
                newcomer.start()
                assert newcomer.ask("select 1")[-1] == ("Z", "I")
        assert all(client.at_end() for client in slow)
    assert 1 <= caplog.text.count("connections dropped") < 10


def test_who_has_logged_in_gives_way_to_nobody(sessions: Sessions) -> None:
    with serving(sessions, max_waiting=1) as port, RawClient(port) as client:
        client.start()
        with contextlib.ExitStack() as opened:
            for _ in range(5):
                opened.enter_context(RawClient(port)).socket.sendall(b"\0")
            assert client.ask("select 1")[-1] == ("Z", "I")


def test_cancel_needs_the_secret_and_hits_only_what_runs(
    server: Server, sessions: Sessions
) -> None:
    def cancel(pid: int, secret: bytes) -> None:
        with RawClient(server.port) as other:
            other.send(m.CancelRequest(pid, secret))
            assert other.at_end()

    with RawClient(server.port) as client:
        client.start()
        pid, secret = client.key
        session = sessions.last
        cancel(pid, secret)  # nothing runs yet
        assert client.ask("select 1")[-1] == ("Z", "I")
        client.send(m.Query(b"select wait()"))
        assert session.started.wait(5)
        cancel(pid, bytes(4))
        cancel(pid, secret + b"\0")
        cancel(pid ^ 1, secret)
        assert not session.stopped.wait(0.1)
        cancel(pid, secret)
        assert error_of(client.until("Z")) == "57014"
        # It is over, also where it had been sent in parts.
        for asked in ("select 1", "select text from wide(5000)", "select n from series(9)"):
            cancel(pid, secret)
            kinds = [kind for kind, _ in client.ask(asked)]
            assert (kinds[0], *kinds[-2:]) == ("T", "C", "Z")


def test_cancel_gets_through_when_every_worker_is_busy(sessions: Sessions) -> None:
    with (
        serving(sessions, threads=1) as port,
        RawClient(port) as busy,
        RawClient(port) as waiting,
    ):
        busy.start()
        waiting.start()
        busy.send(m.Query(b"select wait()"))
        assert sessions.all[0].started.wait(5)
        # The second statement waits for the only worker; its cancel stops it before it begins.
        waiting.send(m.Query(b"select 1"))
        for client in (waiting, busy):
            with RawClient(port) as other:
                # The query must have been read first; a round trip on the same loop shows it.
                other.send(m.SSLRequest())
                assert other.exactly(1) == b"N"
                other.send(m.CancelRequest(*client.key))
                assert other.at_end()
        assert error_of(busy.until("Z")) == "57014"
        assert error_of(waiting.until("Z")) == "57014"
        assert sessions.all[1].executed == []


def test_a_slow_statement_stalls_nobody(server: Server, bystander: RawClient) -> None:
    with RawClient(server.port) as client:
        client.start()
        client.send(m.Query(b"select wait()"))
        assert bystander.ask("select 1")[-1] == ("Z", "I")


def test_leaving_cancels_and_closes_the_session(server: Server, sessions: Sessions) -> None:
    with RawClient(server.port) as client:
        client.start()
        client.send(m.Query(b"select wait(); select 2"))
        assert sessions.last.started.wait(5)
    assert sessions.last.stopped.wait(5)
    assert sessions.last.closed.wait(5)
    assert sessions.last.executed == ["select wait()"]


ENDED = [b"select 1", b"select n from series(3)"]


def ends_its_stream(client: RawClient) -> None:
    socket.socket.shutdown(client.socket, socket.SHUT_WR)  # also of TLS, which it does not end


@pytest.mark.parametrize("partial", [b"", b"Q\0\0\0\x0dselect"])
def test_what_came_before_the_end_of_the_stream_is_answered(
    server: Server, sessions: Sessions, partial: bytes
) -> None:
    with RawClient(server.port) as client:
        asked = [STARTUP, *(write(m.Query(sql)) for sql in ENDED), partial]
        client.socket.sendall(b"".join(asked))
        ends_its_stream(client)
        found = [client.until("Z") for _ in range(3)]
        assert [kind for kind, _ in found[1]] == ["T", "D", "C", "Z"]
        assert [kind for kind, _ in found[2]] == ["T", "D", "D", "D", "C", "Z"]
        assert client.at_end()
    assert sessions.last.closed.wait(5)


@pytest.mark.parametrize("asked", [[m.Query(b"select wide(3000)")], [m.Query(b"select 1")] * 500])
def test_all_of_an_answer_comes_after_the_end_of_the_stream(
    sessions: Sessions, asked: list[m.Query]
) -> None:
    with serving(sessions, close_timeout=60) as port, RawClient(port) as client:
        client.start()
        client.send(*asked)
        ends_its_stream(client)
        for _ in asked:
            client.until("Z")
        assert client.at_end()


@pytest.mark.parametrize("sent", [b"", b"Q\0\0", STARTUP[:9], write(m.SSLRequest())])
def test_who_has_asked_nothing_ends_with_the_stream(sessions: Sessions, sent: bytes) -> None:
    with (
        serving(sessions, close_timeout=60, startup_timeout=60) as port,
        RawClient(port) as client,
    ):
        if sent.startswith(b"Q"):
            client.start()
        client.socket.sendall(sent)
        ends_its_stream(client)
        if sent == write(m.SSLRequest()):
            assert client.exactly(1) == b"N"
        assert client.at_end()


def test_a_statement_is_stopped_some_time_after_the_end_of_the_stream(
    sessions: Sessions,
) -> None:
    with serving(sessions, close_timeout=0.3) as port, RawClient(port) as client:
        client.start()
        client.send(m.Query(b"select wait()"), m.Query(b"select 2"))
        ends_its_stream(client)
        assert error_of(client.until("E")) == "08006"
        assert client.at_end()
        assert sessions.last.closed.wait(5)
        assert sessions.last.executed == ["select wait()"]


def test_a_place_is_free_again_after_the_end_of_the_stream(sessions: Sessions) -> None:
    with serving(sessions, max_connections=1, close_timeout=0.3) as port:
        for sql in (b"select 1", b"select wait()", b"select wide(50000)"):
            with RawClient(port) as client:
                client.start()
                client.send(m.Query(sql))
                ends_its_stream(client)
                assert sessions.last.closed.wait(60)
        with RawClient(port) as client:
            assert client.start()[-1] == ("Z", "I")


def test_messages_sent_meanwhile_are_kept_in_order(server: Server, sessions: Sessions) -> None:
    with RawClient(server.port) as client:
        client.start()
        client.send(*[m.Query(f"select {i}".encode()) for i in range(200)])
        found: list[bytes] = []
        for _ in range(200):
            found += [fields[0] for kind, fields in client.until("Z") if kind == "D"]
        assert found == [str(i).encode() for i in range(200)]


@pytest.mark.parametrize("rows", [3000, 3001])
def test_what_is_asked_while_a_large_answer_is_read_is_answered(server: Server, rows: int) -> None:
    """Also where so little of it is left in the end that no worker has to write it."""
    with RawClient(server.port, timeout=5) as client:
        client.start()
        client.send(m.Query(f"select wide({rows})".encode()))
        assert client.read()[0] == "T"
        client.send(m.Query(b"select 1"))
        for _ in range(2):
            client.until("Z")


def test_a_flood_without_reading_is_held_back(server: Server, bystander: RawClient) -> None:
    """The client's own writes stall, because the server stops reading what it cannot answer."""
    with RawClient(server.port) as client:
        client.start()
        client.socket.settimeout(1)
        flood = write(m.Query(b"select wide(200)")) * 1000

        def pour() -> None:
            sent = 0
            while sent < 1 << 28:
                sent += client.socket.send(flood)

        with pytest.raises(TimeoutError):
            pour()
        assert bystander.ask("select 1")[-1] == ("Z", "I")


def test_a_large_result_waits_for_its_reader(
    server: Server, bystander: RawClient, sessions: Sessions
) -> None:
    with RawClient(server.port) as client:
        client.start()
        client.send(m.Query(b"select wide(20000)"))
        client.exactly(5)
        assert bystander.ask("select 1")[-1] == ("Z", "I")
        size = 5
        while size < 20_000 * 1011:
            size += len(client.socket.recv(1 << 16))


def test_shutdown_says_goodbye_and_stops_what_runs(sessions: Sessions) -> None:
    with serving(sessions) as port:
        idle, busy, silent = (RawClient(port) for _ in range(3))
        idle.start()
        busy.start()
        busy.send(m.Query(b"select wait()"))
        assert sessions.all[1].started.wait(5)
    with idle, busy, silent:
        assert error_of(idle.until("E")) == "57P01"
        assert error_of(busy.until("E")) == "57P01"  # it was no user who stopped its statement
        assert all(client.at_end() for client in (idle, busy))
    assert all(session.closed.wait(5) for session in sessions.all)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "192.0.2.1", "db.example.org"])
def test_without_tls_and_users_it_stays_at_home(sessions: Sessions, host: str, tls: Tls) -> None:
    assert not is_loopback(host)
    users = with_passwords({"a": "b"})
    for auth, encryption, missing in (
        (Trust(), None, "TLS and users"),
        (users, None, "needs TLS$"),
        (Trust(), tls, "needs users$"),
    ):
        with pytest.raises(InsecureAddress, match=missing):
            Server(sessions, host, auth=auth, tls=encryption)
    for server in (
        Server(sessions, host, allow_insecure=True),
        Server(sessions, host, auth=users, tls=tls),
    ):
        asyncio.run(server.close())


def test_who_needs_tls(sessions: Sessions, tls: Tls) -> None:
    """Where there is TLS other machines use it, whatever else is missing."""
    for given, insecure, needed in ((tls, False, True), (tls, True, True), (None, True, False)):
        server = Server(sessions, tls=given, allow_insecure=insecure)
        assert server.needs_tls("192.0.2.1") is needed
        assert server.needs_tls("fe80::1%eth0") is needed
        for here in ("127.0.0.1", "::1", ""):
            assert not server.needs_tls(here)
        asyncio.run(server.close())


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost"])
def test_loopback(host: str) -> None:
    assert is_loopback(host)


def test_a_taken_port_is_reported(server: Server, sessions: Sessions) -> None:
    with pytest.raises(OSError, match="in use"):
        ServerThread(Server(sessions, port=server.port)).start()


def test_port_before_start(sessions: Sessions) -> None:
    server = Server(sessions)
    with pytest.raises(RuntimeError, match="not listening"):
        _ = server.port
    asyncio.run(server.close())


def test_sessions_are_used_by_one_thread_at_a_time(sessions: Sessions) -> None:
    inside = threading.Lock()
    clashes = []

    class Watchful(FakeSession):
        def execute(self, *args: Any, **kwargs: Any) -> Any:
            if not inside.acquire(blocking=False):
                clashes.append(args)
            try:
                return super().execute(*args, **kwargs)
            finally:
                inside.release()

    def factory(user: str, database: str) -> FakeSession:
        return Watchful(user, database)

    server = Server(factory, port=0)
    with ServerThread(server), RawClient(server.port) as client:
        client.start()
        for _ in range(50):
            client.send(m.Query(b"select 1"))
        for _ in range(50):
            client.until("Z")
    assert clashes == []


RUNNER = """
from tallyveil.proxy import Server, run
from tests.proxy.fake_session import Sessions
run(Server(Sessions(), port=0), ready=lambda server: print(server.port, flush=True))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGTERM handlers on Windows")
def test_run_until_sigterm() -> None:
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with start(RUNNER, **pipes) as process:
        with RawClient(int(process.stdout.readline())) as client:
            client.start()
            process.send_signal(signal.SIGTERM)
            assert error_of(client.until("E")) == "57P01"
            assert client.at_end()
        _, errors = process.communicate(timeout=20)
    assert (process.returncode, errors) == (0, "")


def test_a_nul_in_a_statement_ends_the_statement_alone(server: Server) -> None:
    with RawClient(server.port) as client:
        client.start()
        client.socket.sendall(b"Q" + struct.pack("!I", 14) + b"select\x001;\0")
        assert error_of(client.until("Z")) == "22021"
        body = b"\0select 1\0x\0\0\0"
        client.socket.sendall(b"P" + struct.pack("!I", len(body) + 4) + body + b"S\0\0\0\x04")
        assert error_of(client.until("Z")) == "22021"
        assert client.ask("select 1")[-1] == ("Z", "I")


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGHUP")
def test_a_reload_while_the_server_starts_is_not_lost() -> None:
    """A worker reports that it is ready while it starts, and may have to reload at once."""
    reloaded = threading.Event()

    class Starting(WorkerSupervisor):
        busy = False

        def __init__(self) -> None:
            pass

        async def start(self) -> None:
            os.kill(os.getpid(), signal.SIGHUP)

        async def serve_forever(self) -> None:
            await asyncio.to_thread(reloaded.wait, 20)

    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert run(Starting(), reload=reloaded.set)
    finally:
        signal.signal(signal.SIGHUP, before)
    assert reloaded.is_set()
