"""Spoilt messages, by the thousand: no crash, no hang, no memory, and nobody else notices.

A server of its own is told the conversations of `mutations`. After each it has to answer a last
statement, or has to have closed; meanwhile another client asks, and has to get its answer. The
suite tells it 10,000 messages, others each day; `make fuzz-wire` a million (MESSAGES, SEED and
FIRST say which).
"""

from __future__ import annotations

import os
import re
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
import pytest

from tallyveil.proxy.protocol import messages as m
from tests.programs import start
from tests.proxy.memory_server import PROGRAM
from tests.proxy.mutations import MESSAGES, STARTUP, Conversation, conversation
from tests.proxy.raw_client import RawClient, write

_SUITE = 10_000
_LONG = int(os.environ.get("FUZZ_MESSAGES", "100000"))
_SEED = int(os.environ.get("FUZZ_SEED", str(int(time.time()) // 86_400)))
_FIRST = int(os.environ.get("FUZZ_FIRST", "0"))

_PATIENCE = 60.0
"""Seconds for an answer, on a machine that may be busy."""
_ROOM = 200
"""MB that the server may grow by: it may keep 64 MiB for clients, and what past work is worth."""

_LAST = b"".join(map(write, (m.Sync(), m.Query(b"ROLLBACK"), m.Query(b"SELECT 424242424"))))
_ANSWERED = re.compile(rb"D\0\0\0\x13\0\x01\0\0\0\x09424242424C\0\0\0\x0dSELECT 1\0Z\0\0\0\x05I$")


@dataclass
class Server:
    """A process, and another client of it that asks all the time."""

    port: int
    pid: int
    answers: list[object] = field(default_factory=list)
    slowest: float = 0.0
    _stopped: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def another_client(self) -> Iterator[None]:
        address = f"postgresql://another@127.0.0.1:{self.port}/people"
        with psycopg.connect(address, autocommit=True) as connection:
            asking = threading.Thread(target=self._ask, args=(connection,))
            asking.start()
            try:
                yield
            finally:
                self._stopped.set()
                asking.join()

    def _ask(self, connection: psycopg.Connection[tuple[object, ...]]) -> None:
        while not self._stopped.wait(0.002):
            began = time.monotonic()
            self.answers += connection.execute("SELECT count(*) FROM person WHERE age > 50")
            self.slowest = max(self.slowest, time.monotonic() - began)

    def memory(self) -> float:
        """The most it ever took, in MB; 0 where /proc does not tell."""
        status = Path(f"/proc/{self.pid}/status")
        if not status.exists():
            return 0.0
        (size,) = re.findall(r"VmHWM:\s+(\d+) kB", status.read_text())
        return int(size) * 1024 / 1e6


@contextmanager
def served(folder: Path) -> Iterator[Server]:
    """What it says on standard error is read in the end: who failed to log in, and no more."""
    with (
        open(folder / "said", "w+") as said,
        start(PROGRAM, folder, 32, 64, stdout=subprocess.PIPE, stderr=said) as process,
    ):
        assert process.stdout is not None
        try:
            yield Server(int(process.stdout.readline()), process.pid)
            assert process.poll() is None, "the server has ended"
        finally:
            process.terminate()
            process.wait(30)
        said.seek(0)
        assert set(said.read().splitlines()) <= {"login failed", "connections dropped"}


def tell(port: int, one: Conversation) -> bool:
    """Say it, and hear the server out: until it closes, or has answered the last statement. Whether
    it has.

    Raises AssertionError, and TimeoutError where it does neither.
    """
    with RawClient(port, timeout=_PATIENCE) as client:
        if one.logs_in:
            client.send(STARTUP)
            client.until("Z")
        threading.Thread(target=_send, args=(client, one.data + _LAST), daemon=True).start()
        heard = b""
        while not _ANSWERED.search(heard):
            try:
                piece = client.socket.recv(1 << 16)
            except ConnectionResetError:
                piece = b""
            if not piece:
                return False
            heard = heard[-200:] + piece
        return True


def _send(client: RawClient, data: bytes) -> None:
    """On a thread: a server that waits to be read does not read."""
    try:
        client.socket.sendall(data)
    except OSError:
        return


def fuzz(folder: Path, messages: int) -> None:
    with served(folder) as server, server.another_client():
        for number in range(MESSAGES):  # others than later: what the first ones take is no growth
            tell(server.port, conversation(-1, number))
        before, whole = server.memory(), 0
        for number in range(_FIRST, _FIRST + max(1, messages // MESSAGES)):
            try:
                whole += tell(server.port, conversation(_SEED, number))
            except (AssertionError, OSError, EOFError) as error:
                again = f"make fuzz-wire SEED={_SEED} FIRST={number} MESSAGES={MESSAGES}"
                pytest.fail(f"{type(error).__name__} {error}: {again}", pytrace=False)
        grown = server.memory() - before
    print(whole, messages // 50, server.slowest, grown, len(server.answers))
    assert len(server.answers) > 10
    assert messages == MESSAGES or whole > 0.05 * messages / MESSAGES
    assert len(set(server.answers)) == 1
    assert server.slowest < 60  # it does not hang
    assert grown < _ROOM, f"{grown:.0f} MB more; SEED={_SEED}"


def test_spoilt_messages_harm_nobody(tmp_path: Path) -> None:
    fuzz(tmp_path, _SUITE)


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_many_spoilt_messages_harm_nobody(tmp_path: Path) -> None:
    fuzz(tmp_path, _LONG)


def test_a_seed_is_a_conversation() -> None:
    assert conversation(7, 3) == conversation(7, 3)
    assert conversation(7, 3) != conversation(7, 4)
