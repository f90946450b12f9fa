"""Programs of this package in processes of their own, without the second that they take to import
it: they are forked by a process that has, see ``nursery``. A test whose point is how a program
begins or ends starts a Python of its own.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import functools
import json
import os
import pickle
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any

from tests.nursery import LARGEST

__all__ = [
    "FORKING",
    "TALLYVEIL",
    "Program",
    "called",
    "fork_workers",
    "of_its_own",
    "prepare",
    "run",
    "start",
]

TALLYVEIL = "from tallyveil.cli import main; main()"
"""The command line."""

FORKING = "from tests.programs import fork_workers; fork_workers(); "
"""Before the code of a supervisor: its workers, too, are forked, see `fork_workers`."""

_NURSERY = "TALLYVEIL_NURSERY"
"""The variable that tells a program which descriptor forks others."""


class Program:
    """As `subprocess.Popen` for text, of Python's ``code``; ``sys.argv[1:]`` are ``arguments``."""

    def __init__(
        self,
        code: str,
        *arguments: object,
        stdin: int | None = None,
        stdout: int | IO[str] | None = None,
        stderr: int | IO[str] | None = None,
        env: Mapping[str, str] | None = None,
        pass_fds: Sequence[int] = (),
    ) -> None:
        nursery, variables = _nursery(), dict(os.environ if env is None else env)
        if code.startswith(FORKING):
            pass_fds = [*pass_fds, nursery.fileno()]
            variables[_NURSERY] = str(nursery.fileno())
        asked = {
            "code": code,
            "arguments": [str(each) for each in arguments],
            "folder": os.getcwd(),
            "variables": variables,
            "descriptors": list(pass_fds),
        }
        packet = json.dumps(asked).encode()
        assert len(packet) <= LARGEST
        self.args = [code, *asked["arguments"]]
        self.returncode: int | None = None
        self._end, told = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with contextlib.ExitStack() as given:
            given.enter_context(told)
            self.stdin, reading = _stream(given, stdin, 0)
            self.stdout, writing = _stream(given, stdout, 1)
            self.stderr, saying = _stream(given, stderr, 2)
            given_to_it = [reading, writing, saying, told.fileno(), *pass_fds]
            socket.send_fds(nursery, [packet], given_to_it)
        self.pid = int(self._end.recv(32))

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()
        self.wait()

    def _close(self) -> None:
        for each in (self.stdin, self.stdout, self.stderr):
            if each is not None:
                each.close()

    def wait(self, timeout: float | None = None) -> int:
        """Raises subprocess.TimeoutExpired."""
        if self.returncode is None:
            self._end.settimeout(timeout)
            try:
                self.returncode = int(self._end.recv(32))
            except (TimeoutError, BlockingIOError):
                raise subprocess.TimeoutExpired(self.args, timeout or 0.0) from None
            self._end.close()
        return self.returncode

    def poll(self) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0.0)
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """What is left of its output. Raises TimeoutExpired, and kills it, after ``timeout``."""
        with ThreadPoolExecutor(2) as readers:
            said = [readers.submit(each.read) for each in (self.stdout, self.stderr) if each]
            try:
                self.wait(timeout)
            except subprocess.TimeoutExpired:
                self.kill()
                raise
        texts = iter(each.result() for each in said)
        out, err = (next(texts) if each else "" for each in (self.stdout, self.stderr))
        self._close()
        return out, err

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def _stream(
    given: contextlib.ExitStack, wanted: int | IO[str] | None, number: int
) -> tuple[IO[str] | None, int]:
    """Our end of it, if we have one, and the program's, which ``given`` closes here."""
    if wanted == subprocess.PIPE:
        reading, writing = os.pipe()
        ours, theirs = (writing, reading) if number == 0 else (reading, writing)
        given.callback(os.close, theirs)
        return open(ours, "w" if number == 0 else "r"), theirs
    if wanted == subprocess.DEVNULL:
        return None, given.enter_context(open(os.devnull, "r+b", buffering=0)).fileno()
    if wanted is None or isinstance(wanted, int):
        return None, number
    return None, wanted.fileno()


@functools.cache
def _nursery() -> socket.socket:
    if number := os.environ.pop(_NURSERY, None):  # this program is of one, too
        return socket.socket(fileno=int(number))
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.nursery", str(theirs.fileno())],
            cwd=Path(__file__).parents[1],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
        )
    atexit.register(_end, ours, process)
    return ours


def _end(ours: socket.socket, process: subprocess.Popen[bytes]) -> None:
    ours.close()
    process.wait()


def prepare() -> None:
    """Have the process that forks programs begin: forks of this process share it."""
    if sys.platform == "linux":
        _nursery()


def of_its_own(code: str, *arguments: object, **options: Any) -> Any:
    """By a Python that has imported nothing; the only way where processes are not forked, or not
    safely."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(command, text=True, **options)


start = Program if sys.platform == "linux" else of_its_own


def run(code: str, *arguments: object, timeout: float) -> subprocess.CompletedProcess[str]:
    """As `subprocess.run`, with what was printed. Raises subprocess.TimeoutExpired."""
    with start(code, *arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as program:
        out, err = program.communicate(timeout)
    return subprocess.CompletedProcess(program.args, program.returncode, out, err)


_CALLED = "import pickle, sys; f, given = pickle.loads(bytes.fromhex(sys.argv[1])); f(*given)"


def called(function: Callable[..., object], *arguments: object, timeout: float = 100) -> int:
    """The status of a program that calls a function of a module. Raises TimeoutExpired."""
    return run(_CALLED, pickle.dumps((function, arguments)).hex(), timeout=timeout).returncode


class _Worker:
    """As `asyncio.subprocess.Process`, of what a supervisor does with one."""

    def __init__(self, program: Program) -> None:
        self.pid = program.pid
        self.send_signal = program.send_signal
        self.stdin = _Input(program.stdin)
        self._ended = asyncio.ensure_future(asyncio.to_thread(program.wait))

    async def wait(self) -> int:
        return await asyncio.shield(self._ended)


class _Input:
    """As `asyncio.StreamWriter`; a pipe holds what is written."""

    def __init__(self, pipe: IO[str]) -> None:
        self._pipe = pipe
        self.close = pipe.close

    def write(self, data: bytes) -> None:
        self._pipe.write(data.decode())

    async def drain(self) -> None:
        self._pipe.flush()


def fork_workers() -> None:
    """Have this program's supervisor start its workers as `Program`, not as a Python each."""
    if sys.platform != "linux":
        return
    _nursery()

    async def fork(*command: str, **options: Any) -> _Worker:
        code = "import runpy, sys; runpy.run_module(sys.argv.pop(1), run_name='__main__')"
        return _Worker(Program(code, *command[command.index("-m") + 1 :], **options))

    asyncio.create_subprocess_exec = fork
