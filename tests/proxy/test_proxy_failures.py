"""Wrong passwords make connections from the same address wait, and no others."""

from __future__ import annotations

import select
import socket
import sys

import psycopg
import pytest

from tallyveil.proxy.admission import failures
from tallyveil.proxy.admission.failures import HALF_LIFE, STEP, FailedLogins
from tallyveil.proxy.protocol import messages as m
from tests.proxy.fake_session import Sessions
from tests.proxy.raw_client import write
from tests.proxy.scram_users import with_passwords
from tests.proxy.serving import serving


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_each_wrong_password_adds_to_the_delay_of_its_address_and_time_takes_it_away() -> None:
    clock = Clock()
    failed = FailedLogins(2.0, clock)
    assert failed.delay("10.0.0.1") == 0
    for count in range(1, 6):
        failed.add("10.0.0.1")
        assert failed.delay("10.0.0.1") == pytest.approx(count * STEP)
    assert failed.delay("10.0.0.2") == failed.delay("") == 0
    clock.now += HALF_LIFE
    assert failed.delay("10.0.0.1") == pytest.approx(2.5 * STEP)
    for _ in range(1000):
        failed.add("10.0.0.1")
    assert failed.delay("10.0.0.1") == 2.0


@pytest.mark.parametrize(
    ("one", "other", "together"),
    [
        ("2001:db8::1", "2001:db8::ffff:2", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("fe80::1%eth0", "fe80::2%eth1", True),
        ("::ffff:10.0.0.1", "10.0.0.1", True),
        ("::ffff:10.0.0.1", "::ffff:10.0.0.2", False),
    ],
)
def test_addresses_that_one_client_can_choose_from_are_one(
    one: str, other: str, together: bool
) -> None:
    failed = FailedLogins(2.0)
    failed.add(one)
    assert (failed.delay(other) > 0) is together


def test_a_flood_of_addresses_makes_it_forget_those_of_the_shortest_delay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(failures, "MOST", 8)
    failed = FailedLogins(2.0, Clock())
    for _ in range(3):
        failed.add("10.0.0.1")
    for number in range(100):
        failed.add(f"10.0.1.{number}")
        assert len(failed._failed) <= 8
    assert failed.delay("10.0.0.1") == pytest.approx(3 * STEP)


STARTUP = write(m.Startup(3 << 16, (("user", "alice"),)))


def fail(port: int) -> None:
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(f"postgresql://alice:wrong@127.0.0.1:{port}/demo", sslmode="disable")


@pytest.mark.skipif(sys.platform != "linux", reason="needs a second address of this machine")
def test_a_connection_after_a_wrong_password_is_answered_later_than_one_from_elsewhere(
    sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though it begins first, and nobody knows yet whether its password is right."""
    monkeypatch.setattr(failures, "STEP", 1000.0)  # as long as can be: half of startup_timeout
    with serving(sessions, auth=with_passwords({"alice": "x"}), startup_timeout=120) as port:
        fail(port)
        with socket.create_connection(("127.0.0.1", port), 20) as late:
            late.sendall(STARTUP)
            with socket.create_connection(("127.0.0.1", port), 20, ("127.0.0.2", 0)) as other:
                other.sendall(STARTUP)
                assert other.recv(1) == b"R"
            assert not select.select([late], [], [], 0)[0]


def test_after_the_delay_all_is_read_that_was_sent_before_and_after(sessions: Sessions) -> None:
    with serving(sessions, auth=with_passwords({"alice": "right"})) as port:
        fail(port)
        with socket.create_connection(("127.0.0.1", port), 20) as slow:
            slow.sendall(STARTUP[:9])
            with psycopg.connect(f"postgresql://alice:right@127.0.0.1:{port}/demo") as let_in:
                assert let_in.execute("select 1").fetchall()
            slow.sendall(STARTUP[9:])
            assert slow.recv(1) == b"R"
