"""What one client may take: places, time to log in, silence, unread answers, long messages."""

from __future__ import annotations

import struct
import threading
import time
from contextlib import ExitStack
from typing import Any

import pytest

from tallyveil.proxy import ServerLimits, Tls
from tallyveil.proxy.protocol import messages as m
from tests.proxy.fake_session import Sessions
from tests.proxy.raw_client import RawClient, write
from tests.proxy.serving import serving
from tests.proxy.test_proxy_tls import ask_for_tls

IDLE = 0.5


def refusal(client: RawClient, user: str) -> str:
    client.send(m.Startup(3 << 16, (("user", user),)))
    return str(client.until("E")[-1][1]["C"])


def test_one_user_leaves_places_to_others(sessions: Sessions) -> None:
    with serving(sessions, max_user_connections=2) as port:
        with RawClient(port) as one, RawClient(port) as two, RawClient(port) as three:
            one.start("alice")
            two.start("alice")
            assert refusal(three, "alice") == "53300"
            with RawClient(port) as other:
                assert other.start("bob")[-1] == ("Z", "I")
        for session in sessions.all:
            assert session.closed.wait(5)
        with RawClient(port) as again:
            assert again.start("alice")[-1] == ("Z", "I")


def test_by_default_one_user_leaves_half_of_the_places_to_others(sessions: Sessions) -> None:
    with serving(sessions, max_connections=4) as port, ExitStack() as opened:
        clients = [opened.enter_context(RawClient(port)) for _ in range(4)]
        for client in clients[:2]:
            client.start("alice")
        assert refusal(clients[2], "alice") == "53300"
        for user in ("bob", "carol"):
            with RawClient(port) as other:
                assert other.start(user)[-1] == ("Z", "I")


def test_a_login_that_the_gate_refuses_leaves_no_place_taken(sessions: Sessions) -> None:
    with serving(sessions, max_connections=1, max_user_connections=1) as port:
        for _ in range(3):
            with RawClient(port) as client:
                client.send(m.Startup(3 << 16, (("user", "a"), ("database", "closed"))))
                assert client.until("E")[-1][1]["C"] == "0A000"
                assert client.at_end()
        with RawClient(port) as client:
            assert client.start("a")[-1] == ("Z", "I")


@pytest.mark.parametrize("encrypted", [False, True])
def test_who_asks_nothing_for_too_long_is_told_and_closed(
    sessions: Sessions, tls: Tls, encrypted: bool
) -> None:
    with serving(sessions, idle_timeout=IDLE, tls=tls) as port:
        stayed = False
        while not stayed:
            with RawClient(port) as client:
                if encrypted:
                    ask_for_tls(client)
                client.start()
                stayed = stays_while_it_asks(client)
                if stayed:
                    kind, fields = client.read()
                    assert (kind, fields["C"]) == ("E", "57P05")
                    assert client.at_end()
            assert sessions.last.closed.wait(5)


def stays_while_it_asks(client: RawClient) -> bool:
    """A little at a time, for twice as long as it may be idle. It may not have stayed where this
    machine was so busy that it was idle."""
    start = asked = time.monotonic()
    while time.monotonic() < start + 2 * IDLE:
        threading.Event().wait(IDLE / 5)
        before, asked = asked, time.monotonic()
        try:
            assert client.ask("select 1")[-1] == ("Z", "I")
        except (ConnectionError, EOFError):
            assert time.monotonic() > before + IDLE
            return False
    return True


def test_who_waits_for_an_answer_is_not_idle(sessions: Sessions) -> None:
    with serving(sessions, idle_timeout=0.2) as port, RawClient(port) as client:
        client.start()
        client.send(m.Query(b"select wait()"))
        assert sessions.last.started.wait(5)
        assert not sessions.last.stopped.wait(0.6)
        with RawClient(port) as other:
            other.send(m.CancelRequest(*client.key))
            assert other.at_end()
        assert dict(client.until("Z"))["E"]["C"] == "57014"


def test_half_a_message_is_silence(sessions: Sessions) -> None:
    with serving(sessions, idle_timeout=0.3) as port, RawClient(port) as client:
        client.start()
        client.socket.sendall(write(m.Query(b"select 1"))[:-1])
        assert client.until("E")[-1][1]["C"] == "57P05"


@pytest.mark.parametrize(("encrypted", "seconds"), [(False, 0.3), (True, 3.0)])
def test_who_does_not_read_is_dropped(
    sessions: Sessions,
    tls: Tls,
    caplog: pytest.LogCaptureFixture,
    encrypted: bool,
    seconds: float,
) -> None:
    """The handshake is read in time, even on a machine that does other work."""
    caplog.set_level("INFO", "tallyveil")
    with serving(sessions, send_timeout=seconds, tls=tls) as port, RawClient(port) as client:
        if encrypted:
            ask_for_tls(client)
        client.start()
        client.send(m.Query(b"select wide(50000)"))
        assert sessions.last.closed.wait(30)
    assert "dropped" in caplog.text


@pytest.mark.parametrize("most", [1 << 14, 1 << 20])
def test_messages_up_to_the_limit(sessions: Sessions, most: int) -> None:
    with serving(sessions, max_message=most) as port, RawClient(port) as client:
        client.start()
        body = b"select 1 --".ljust(most - 5, b"x") + b"\0"
        client.socket.sendall(b"Q" + struct.pack("!I", most) + body)
        assert client.until("Z")[-1] == ("Z", "I")
        client.socket.sendall(b"Q" + struct.pack("!I", most + 1))
        assert client.until("E")[-1][1]["C"] == "08P01"
        assert client.at_end()


@pytest.mark.parametrize(
    "wrong",
    [
        {"threads": -1},
        {"threads": float("inf")},
        {"max_user_connections": 0},
        {"max_user_connections": 1.5},
        {"idle_timeout": 0},
        {"send_timeout": float("nan")},
        {"send_timeout": None},
    ],
)
def test_limits_are_checked(wrong: dict[str, Any]) -> None:
    with pytest.raises((ValueError, TypeError)):
        ServerLimits(**wrong)
