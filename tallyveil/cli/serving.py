"""`tallyveil serve`: one gate behind one server, until a signal ends it."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import typer

from tallyveil.cli.log import Format, Level, logging_to_stderr
from tallyveil.cli.passwords import read_passwords
from tallyveil.errors import InvalidParameterValue, PolicyError
from tallyveil.events import report
from tallyveil.gate import Gate
from tallyveil.policy import load_policy
from tallyveil.proxy import Authentication, Limits, Server, Trust, leave, run

__all__ = ["Options", "address_errors", "dsn", "serve"]

_BELIEVED: Final = (
    "without --password-file whoever connects is believed, so anybody can spend any "
    "analyst's share; the tables' budgets hold all the same."
)


# Seconds after the signal by which the process has ended.
_LATEST: Final = 3.5


@dataclass(frozen=True)
class Options:
    """What `tallyveil serve` was told; sizes in MiB."""

    host: str
    port: int
    password_file: Path | None
    allow_remote_trust: bool
    max_connections: int
    memory: int
    connection_memory: int
    log_format: Format
    log_level: Level
    log_statements: bool


def serve(path: Path, options: Options) -> None:
    """Serve until SIGINT or SIGTERM; SIGHUP reads the password file anew.

    Raises PolicyError, SourceError, LedgerError, and InvalidParameterValue for an address that
    cannot be had, or that lets anybody in from elsewhere without saying so.
    """
    if sys.platform != "win32":
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until the server listens, and has a handler
    with logging_to_stderr(
        options.log_format, options.log_level, statements=options.log_statements
    ):
        _serve(path, options)
    typer.echo("closed")


def _serve(path: Path, options: Options) -> None:
    policy = load_policy(path)
    if policy.analysts and options.password_file is None:
        report(_BELIEVED, level=logging.WARNING)
    with closing(Gate(policy)) as gate:
        server = _server(gate, options)
        tables = ", ".join(policy.tables)
        with address_errors(options.host, options.port):
            ended = run(
                server,
                ready=lambda s: typer.echo(f"serving {tables}: {dsn(options.host, s.port)}"),
                reload=partial(_reload, server, options.password_file),
                ending=_end_soon,
            )
        if not ended:
            typer.echo("closed, though statements still ran")
            logging.shutdown()
            leave()


def _end_soon() -> None:
    """Whatever hangs: what is in the ledger is kept, and nothing else has to be."""
    timer = threading.Timer(_LATEST, os._exit, (0,))
    timer.daemon = True
    timer.start()


def _authentication(password_file: Path | None) -> Authentication:
    return Trust() if password_file is None else read_passwords(password_file)


def _reload(server: Server, password_file: Path | None) -> None:
    """Take the passwords as they are now; if the file is wrong, those from before go on."""
    if password_file is None:
        report("nothing to reload")
        return
    try:
        server.auth = _authentication(password_file)
    except PolicyError as error:
        # Neither message nor detail holds a password.
        reason = " ".join((error.message, *error.mistakes))
        report("passwords not reloaded", level=logging.ERROR, reason=reason)
    else:
        report("passwords reloaded")


def _server(gate: Gate, options: Options) -> Server:
    limits = Limits(
        max_connections=options.max_connections,
        memory=options.memory << 20,
        connection_memory=options.connection_memory << 20,
    )
    try:
        return Server(
            gate.session,
            options.host,
            options.port,
            auth=_authentication(options.password_file),
            limits=limits,
            allow_remote_trust=options.allow_remote_trust,
        )
    except ValueError:
        raise InvalidParameterValue(
            f"listening on {options.host} would let everybody who can reach it connect as anybody",
            hint="Give --password-file, listen on 127.0.0.1, or say --allow-remote-trust if the "
            "network is closed.",
        ) from None


@contextmanager
def address_errors(host: str, port: int) -> Iterator[None]:
    """Say which address could not be had."""
    try:
        yield
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else type(error).__name__
        raise InvalidParameterValue(
            f"cannot listen on {host} port {port}: {reason}",
            hint="Another --port may be free; --port 0 takes any free one.",
        ) from None


def dsn(host: str, port: int) -> str:
    """A line that connects: psql takes it as it is."""
    literal = f"[{host}]" if ":" in host else host
    return f"psql postgresql://{literal}:{port}/tallyveil"
