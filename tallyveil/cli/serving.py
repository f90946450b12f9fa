"""`tallyveil serve`: one gate behind one server, until a signal ends it."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import typer

from tallyveil.cli.passwords import read_passwords
from tallyveil.errors import InvalidParameterValue
from tallyveil.gate import Gate
from tallyveil.policy import load_policy
from tallyveil.proxy import Authentication, Server, Trust, leave, run

__all__ = ["address_errors", "dsn", "serve"]


_BELIEVED = (
    "warning: without --password-file whoever connects is believed, so anybody can spend any "
    "analyst's share; the tables' budgets hold all the same."
)


def serve(
    path: Path, host: str, port: int, password_file: Path | None, allow_remote_trust: bool
) -> None:
    """Serve until SIGINT or SIGTERM.

    Raises PolicyError, SourceError, LedgerError, and InvalidParameterValue for an address that
    cannot be had, or that lets anybody in from elsewhere without saying so.
    """
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s")
    policy = load_policy(path)
    if policy.analysts and password_file is None:
        typer.echo(_BELIEVED, err=True)
    auth: Authentication = Trust() if password_file is None else read_passwords(password_file)
    with closing(Gate(policy)) as gate:
        server = _server(gate, host, port, auth, allow_remote_trust)
        tables = ", ".join(policy.tables)
        with address_errors(host, port):
            ended = run(
                server, ready=lambda s: typer.echo(f"serving {tables}: {dsn(host, s.port)}")
            )
        if not ended:
            typer.echo("closed, though statements still ran")
            leave()
    typer.echo("closed")


def _server(
    gate: Gate, host: str, port: int, auth: Authentication, allow_remote_trust: bool
) -> Server:
    try:
        return Server(gate.session, host, port, auth=auth, allow_remote_trust=allow_remote_trust)
    except ValueError:
        raise InvalidParameterValue(
            f"listening on {host} would let everybody who can reach it connect as anybody",
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
