"""`tallyveil serve`: a gate and a catalog behind a server, in one process or several."""

from __future__ import annotations

import ipaddress
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import typer

from tallyveil.accountant import Budgets
from tallyveil.catalog import CatalogSocket
from tallyveil.catalog.binaries import NoPostgreSQL, find_binaries
from tallyveil.catalog.catalog_schema import setup
from tallyveil.cli.serving.log import Format, Level, logging_to_stderr
from tallyveil.cli.serving.schedule import publishing_on_time
from tallyveil.cli.serving.security import authentication, encryption, reloaded, still_users
from tallyveil.errors import InvalidParameterValue, TallyveilError
from tallyveil.events import report
from tallyveil.gate import STATEMENT_TIMEOUT, Gate
from tallyveil.policy import CatalogChoice, Serving, load_policy, read_policy, serving_options
from tallyveil.proxy import (
    Authentication,
    InsecureAddress,
    Server,
    ServerLimits,
    Tls,
    Trust,
    Users,
    check_address,
    leave,
    run,
)
from tallyveil.proxy.pgtypes import sql_type
from tallyveil.proxy.processes import WorkerFailed, WorkerListener, WorkerSupervisor

__all__ = ["ServeOptions", "address_errors", "catalog_beside", "dsn", "serve", "serve_as_worker"]

_NO_USERS: Final = (
    "without users any user name is accepted, so anybody can spend any analyst's share; the "
    "tables' budgets still hold."
)
_NEW_LEDGER: Final = (
    "there was none, so the whole budget is left; if these people were asked about before, stop and"
    " restore the ledger from its backup"
)
_MEBIBYTES: Final = frozenset({"max_message", "memory", "connection_memory"})


# The process ends at most this many seconds after the signal.
_LATEST: Final = 3.5


def _catalog_option(given: str | None, declared: CatalogChoice) -> CatalogChoice:
    """Return the catalog to use. The command line, a folder or "off", overrides the policy."""
    if given is None:
        return declared
    return CatalogChoice(enabled=False) if given == "off" else CatalogChoice(binaries=Path(given))


@contextmanager
def catalog_beside(
    gate: Gate, choice: CatalogChoice, processes: int = 1
) -> Iterator[CatalogSocket | None]:
    """Start the catalog without waiting for it, and stop it at the end. Each of several
    ``processes`` has one.

    Yields None if there is no PostgreSQL to start. Raises InvalidParameterValue if ``choice`` names
    one that cannot be used.
    """
    if not choice.enabled:
        yield None
        return
    from tallyveil.catalog.supervisor import CatalogSupervisor

    try:
        binaries = find_binaries(choice.binaries)
    except NoPostgreSQL as error:
        if choice.binaries is not None:
            raise InvalidParameterValue(f"catalog.binaries: {error}") from None
        report("no catalog", level=logging.WARNING, reason=str(error))
        yield None
        return
    gate.server_version = binaries.version
    with closing(gate.session()) as session:
        supervisor = CatalogSupervisor(binaries, tuple(setup(session.relations(), sql_type)))
    policy = gate.policy
    names = {*policy.tables, *policy.public, *policy.views}
    with (
        closing(supervisor),
        closing(CatalogSocket(supervisor.address, names, processes)) as catalog,
    ):
        supervisor.start()
        yield catalog


@dataclass(frozen=True)
class ServeOptions:
    """The options of `tallyveil serve`.

    ``server`` overrides the policy's ``[server]`` and has its keys; keys of inner tables have a
    dot. ``catalog`` is a folder of programs, or "off". None leaves the choice to the policy.
    """

    host: str
    port: int
    allow_insecure: bool
    server: Mapping[str, Any]
    catalog: str | None
    log_format: Format
    log_level: Level
    log_statements: bool


def serve(path: Path, options: ServeOptions) -> None:
    """Serve until SIGINT or SIGTERM, then end the process. SIGHUP reloads users, certificates,
    budgets and shares.

    Raises PolicyError, SourceError, LedgerError, and InvalidParameterValue for a wrong option, an
    address that cannot be opened, or one that other machines can reach without TLS and users.
    """
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until the server listens, and has a handler
    with logging_to_stderr(
        options.log_format, options.log_level, statements=options.log_statements
    ):
        service = _Service(path, options, read_policy(path))
        auth, tls = service.security()
        if service.policy.analysts and isinstance(auth, Trust):
            report(_NO_USERS, level=logging.WARNING)
        if service.workers > 1:
            _supervise(service, auth, tls)
        else:
            service.serve(auth, tls)
    typer.echo("closed")
    leave()  # everything is closed; freeing the memory would take seconds


def serve_as_worker(job: Mapping[str, Any], end: socket.socket) -> None:
    """Serve as one of several processes; ``job`` comes from `_supervise`. Raises as `serve`."""
    options = ServeOptions(**job["options"])
    worker = job["worker"]
    with logging_to_stderr(
        options.log_format, options.log_level, statements=options.log_statements, worker=worker
    ):
        service = _Service(Path(job["path"]), options, job["text"])
        auth, tls = service.security()
        still_users(auth, Trust() if job["trust"] else Users({}))
        service.serve(auth, tls, WorkerListener(job, end, service.limits), job["budgets"])
    leave()


class _Service:
    """A policy, read from ``text``, and the options with which to serve it."""

    def __init__(self, path: Path, options: ServeOptions, text: str) -> None:
        self.path, self.options, self.text = path, options, text
        self.policy = load_policy(path, text)
        declared = self.policy.server
        self.serving = declared.but(serving_options(options.server, declared, path))
        self.workers = self.serving.workers or 1
        self.catalog = _catalog_option(options.catalog, self.policy.catalog)
        limits = {k: v for k, v in self.serving.limits.items() if k != "statement_timeout"}
        self.limits = _limits(limits)

    def security(self) -> tuple[Authentication, Tls | None]:
        """Load users and TLS files (`authentication`, `encryption`), and check that the address
        is safe for them."""
        auth = authentication(self.path, self.serving)
        tls = encryption(self.serving, self.options.host)
        if not self.options.allow_insecure:
            with _address_refused():
                check_address(self.options.host, auth, tls)
        return auth, tls

    def serve(
        self,
        auth: Authentication,
        tls: Tls | None,
        listener: WorkerListener | None = None,
        budgets: Budgets = "declared",
    ) -> None:
        """Serve in this process, alone or as one of the workers."""
        options, serving = self.options, self.serving
        seconds = serving.limits.get("statement_timeout", STATEMENT_TIMEOUT)
        new = not self.policy.ledger.exists()
        with closing(Gate(self.policy, time_limit=seconds, budgets=budgets)) as gate:
            if new:
                report("new ledger", level=logging.WARNING, reason=_NEW_LEDGER)
            with (
                catalog_beside(gate, self.catalog, self.workers) as catalog,
                publishing_on_time(gate),
            ):
                server = Server(
                    gate.session,
                    options.host,
                    options.port,
                    auth=auth,
                    tls=tls,
                    limits=self.limits.shared_by(self.workers),
                    allow_insecure=options.allow_insecure,
                    listener=listener,
                    catalog=catalog,
                )
                with address_errors(options.host, options.port):
                    ended = run(
                        server,
                        ready=partial(self.announce, auth, tls) if listener is None else None,
                        reload=partial(_reload, gate, server, self.path, serving),
                        ending=partial(_end_soon, _LATEST),
                    )
            if not ended:  # the catalog has ended and removed its folder
                if listener is None:
                    typer.echo("closed, though statements still ran")
                logging.shutdown()
                leave()

    def announce(
        self, auth: Authentication, tls: Tls | None, server: Server | WorkerSupervisor
    ) -> None:
        tables, user = ", ".join(self.policy.tables), None if isinstance(auth, Trust) else "USER"
        line = dsn(self.options.host, server.port, user=user, tls=tls is not None)
        typer.echo(f"serving {tables}: {line}")


def _supervise(service: _Service, auth: Authentication, tls: Tls | None) -> None:
    job = {
        "path": str(service.path),
        "text": service.text,
        "options": asdict(service.options),
        "trust": isinstance(auth, Trust),
    }
    command = [sys.executable, "-P", "-m", "tallyveil.cli.serving.worker"]
    options = service.options
    supervisor = WorkerSupervisor(
        command, job, service.workers, options.host, options.port, service.limits
    )
    with address_errors(options.host, options.port):
        try:
            run(
                supervisor,
                ready=partial(service.announce, auth, tls),
                reload=supervisor.reload,
                ending=partial(_end_soon, _LATEST + 1.0),
            )
        except WorkerFailed:  # it has logged the reason
            raise typer.Exit(1) from None


def _end_soon(seconds: float) -> None:
    """End the process in ``seconds``, even if something hangs. The ledger is always durable."""
    timer = threading.Timer(seconds, os._exit, (0,))
    timer.daemon = True
    timer.start()


def _reload(gate: Gate, server: Server, path: Path, serving: Serving) -> None:
    """Reload users and certificates, budgets and shares. On a mistake, keep the current ones."""
    if not isinstance(server.auth, Trust) or server.tls is not None:
        found = reloaded(path, serving, server.host, server.auth)
        if found is not None:
            server.auth, server.tls = found
            report("users reloaded")
    try:
        gate.redeclare(load_policy(path))
    except TallyveilError as error:
        report("budgets not reloaded", level=logging.ERROR, reason=error.message)
    else:
        report("budgets reloaded")


def _limits(given: Mapping[str, float]) -> ServerLimits:
    sizes: dict[str, Any] = {
        key: int(value) << 20 if key in _MEBIBYTES else value for key, value in given.items()
    }
    return ServerLimits(**sizes)


@contextmanager
def _address_refused() -> Iterator[None]:
    try:
        yield
    except InsecureAddress as error:
        raise InvalidParameterValue(
            error.args[0],
            hint="Give --tls-certificate and --tls-key, or --tls-self-signed for a first run; "
            "add users with `tallyveil user add`; or listen on 127.0.0.1. On a closed network, "
            "--allow-insecure skips this check.",
        ) from None


@contextmanager
def address_errors(host: str, port: int) -> Iterator[None]:
    """Turn an OSError into an InvalidParameterValue that names the address."""
    try:
        yield
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else type(error).__name__
        raise InvalidParameterValue(
            f"cannot listen on {host} port {port}: {reason}",
            hint="Another --port may be free; --port 0 takes any free one.",
        ) from None


def dsn(host: str, port: int, *, user: str | None = None, tls: bool = False) -> str:
    """Return a shell command that connects with psql. A server that listens at all addresses is
    reached from here at the local one."""
    local = host
    with suppress(ValueError):  # a name
        address = ipaddress.ip_address(host)
        if address.is_unspecified:
            local = "127.0.0.1" if address.version == 4 else "::1"
    literal = f"[{local}]" if ":" in local else local
    who = "" if user is None else f"{user}@"
    url = f"postgresql://{who}{literal}:{port}/tallyveil"
    return f"psql '{url}?sslmode=require'" if tls else f"psql {url}"
