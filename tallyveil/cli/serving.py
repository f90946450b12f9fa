"""`tallyveil serve`: one gate behind one server, until a signal ends it."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import typer

from tallyveil.cli.log import Format, Level, logging_to_stderr
from tallyveil.cli.security import authentication, encryption, reloaded
from tallyveil.errors import InvalidParameterValue
from tallyveil.events import report
from tallyveil.gate import STATEMENT_TIMEOUT, Gate
from tallyveil.policy import Policy, Serving, load_policy, serving_options
from tallyveil.proxy import (
    Authentication,
    InsecureAddress,
    Limits,
    Server,
    Tls,
    Trust,
    leave,
    run,
)

__all__ = ["Options", "address_errors", "dsn", "serve"]

_BELIEVED: Final = (
    "without users whoever connects is believed, so anybody can spend any analyst's share; the "
    "tables' budgets hold all the same."
)
_MEBIBYTES: Final = frozenset({"max_message", "memory", "connection_memory"})


# Seconds after the signal by which the process has ended.
_LATEST: Final = 3.5


@dataclass(frozen=True)
class Options:
    """What `tallyveil serve` was told. ``server`` goes before the policy's ``[server]``, and has
    its keys, with a dot between those of tables; None is left to the policy."""

    host: str
    port: int
    allow_insecure: bool
    server: Mapping[str, Any]
    log_format: Format
    log_level: Level
    log_statements: bool


def serve(path: Path, options: Options) -> None:
    """Serve until SIGINT or SIGTERM; SIGHUP reads users and certificates anew.

    Raises PolicyError, SourceError, LedgerError, and InvalidParameterValue for a wrong option, an
    address that cannot be had, or one reachable from elsewhere without TLS and users.
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
    serving = policy.server.but(serving_options(options.server, policy.server, path))
    seconds = serving.limits.get("statement_timeout", STATEMENT_TIMEOUT)
    auth, tls = authentication(path, serving), encryption(serving, options.host)
    with closing(Gate(policy, time_limit=seconds)) as gate:
        server = _server(gate, auth, tls, serving, options)
        _warn(policy, server)
        tables = ", ".join(policy.tables)
        with address_errors(options.host, options.port):
            ended = run(
                server,
                ready=lambda s: typer.echo(f"serving {tables}: {dsn(options.host, s.port)}"),
                reload=partial(_reload, server, path, serving),
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


def _warn(policy: Policy, server: Server) -> None:
    if policy.analysts and isinstance(server.auth, Trust):
        report(_BELIEVED, level=logging.WARNING)


def _reload(server: Server, path: Path, serving: Serving) -> None:
    """Take users and certificates as they are now; if they are wrong, those before go on."""
    if isinstance(server.auth, Trust) and server.tls is None:
        report("nothing to reload")
        return
    found = reloaded(path, serving, server.host)
    if found is not None:
        server.auth, server.tls = found
        report("users reloaded")


def _limits(given: Mapping[str, float]) -> Limits:
    sizes: dict[str, Any] = {
        key: int(value) << 20 if key in _MEBIBYTES else value for key, value in given.items()
    }
    return Limits(**sizes)


def _server(
    gate: Gate, auth: Authentication, tls: Tls | None, serving: Serving, options: Options
) -> Server:
    limits = {k: v for k, v in serving.limits.items() if k != "statement_timeout"}
    try:
        return Server(
            gate.session,
            options.host,
            options.port,
            auth=auth,
            tls=tls,
            limits=_limits(limits),
            allow_insecure=options.allow_insecure,
        )
    except InsecureAddress as error:
        raise InvalidParameterValue(
            error.args[0],
            hint="Give --tls-certificate and --tls-key, or --tls-self-signed for a first run; "
            "make users with `tallyveil user add`; or listen on 127.0.0.1. --allow-insecure "
            "listens all the same, for a closed network.",
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
