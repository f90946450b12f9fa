"""A process that has imported the package and forks programs: python -m tests.nursery END.

``END`` is a socket of packets. Each asks for a program, as JSON: its code, arguments, folder and
variables, and the numbers of its descriptors; with it come standard input, output and error, a
socket that takes the program's number, and at last how it ended, and those descriptors.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import gc
import importlib
import json
import os
import signal
import socket
import sys

# What a server imports, also where it does so only when it needs it.
IMPORTED = (
    "tallyveil.catalog.supervisor",
    "tallyveil.cli.agents",
    "tallyveil.cli.app",
    "tallyveil.cli.demo",
    "tallyveil.cli.serving.serving",
    "tallyveil.proxy.inprocess",
    "pandas",  # by pyarrow, for the first array
    "uvloop",
)
LARGEST = 1 << 17
MOST = 100
"""The most descriptors that come with a packet."""
HIGH = 500
"""No program asks for a descriptor of so high a number."""


def program(end: socket.socket) -> str:
    """Fork programs as they are asked for; in each of them, return its code.

    Raises SystemExit, where there is nobody left to ask for one.
    """
    while True:
        asked, sockets, _, _ = socket.recv_fds(end, LARGEST, MOST)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG) != (0, 0):
                pass
        if not asked:
            raise SystemExit(0)
        if os.fork() == 0:
            end.close()
            streams, told = sockets[:3] + sockets[4:], socket.socket(fileno=sockets[3])
            if (number := os.fork()) == 0:
                told.close()
                return _prepared(streams, **json.loads(asked))
            for each in streams:  # whoever reads them waits for the program's end alone
                os.close(each)
            _await(number, told)
        for each in sockets:
            os.close(each)


def _await(number: int, told: socket.socket) -> None:
    """The program is a child of this process, which is a child of nobody who waits for programs."""
    told.send(str(number).encode())
    _, status = os.waitpid(number, 0)
    with contextlib.suppress(OSError):
        told.send(str(os.waitstatus_to_exitcode(status)).encode())
    os._exit(0)


def _prepared(
    streams: list[int],
    code: str,
    arguments: list[str],
    folder: str,
    variables: dict[str, str],
    descriptors: list[int],
) -> str:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    away = [(each, fcntl.fcntl(each, fcntl.F_DUPFD, HIGH)) for each in streams]
    for each, _ in away:
        os.close(each)
    for number, (_, each) in zip([0, 1, 2, *descriptors], away, strict=True):
        os.dup2(each, number)
        os.close(each)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(variables)
    sys.stdout.reconfigure(write_through="PYTHONUNBUFFERED" in variables)
    sys.argv = ["-c", *arguments]
    return code


class _End:
    """How this process ends: as Python does, except that what was imported is not taken down, which
    would copy all its pages and take ten times as long as most programs."""

    def __init__(self) -> None:
        self._status, self._interrupted = 0, False

    def after(self, code: str) -> None:
        """Execute it."""
        try:
            exec(code, {"__name__": "__main__"})
        except BaseException as error:
            coded = error.code if isinstance(error, SystemExit) else 1
            self._status = coded if isinstance(coded, int) else int(coded is not None)
            self._interrupted = isinstance(error, KeyboardInterrupt)
            raise

    def __call__(self) -> None:
        """Leave, after all other functions that were registered to be called at the end."""
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(AttributeError, OSError, ValueError):
                stream.flush()
        if self._interrupted:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGINT)
        os._exit(self._status & 0xFF)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end = _End()
    atexit.register(end)  # the first that is registered is the last that is called
    for module in IMPORTED:
        with contextlib.suppress(ModuleNotFoundError):  # the last two need not be there
            importlib.import_module(module)
    gc.freeze()
    end.after(program(socket.socket(fileno=int(sys.argv[1]))))
