"""The command `tallyveil serve` and its options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from tallyveil.cli.error_messages import complaints
from tallyveil.cli.options import Policy

__all__ = ["serve"]

Host = Annotated[str, typer.Option(help="The address to listen on.")]
Port = Annotated[int, typer.Option(help="0 takes any free one.", min=0, max=65535)]
Users = Annotated[
    Path | None,
    typer.Option(help="Who may connect, see `tallyveil user`; by default beside the policy."),
]
PlaintextPasswords = Annotated[
    bool | None, typer.Option("--plaintext-passwords", help="Take plain passwords in it, too.")
]
TlsCertificate = Annotated[
    Path | None, typer.Option(help="The server's certificate, and those that lead to its CA.")
]
TlsKey = Annotated[Path | None, typer.Option(help="The key of the certificate.")]
TlsSelfSigned = Annotated[
    bool | None,
    typer.Option("--tls-self-signed", help="Make both if there are none, for a first run."),
]
TlsClientCa = Annotated[Path | None, typer.Option(help="Who signs the certificates of clients.")]
TlsClientcert = Annotated[
    str | None,
    typer.Option(
        help="verify-full: beside a password; cert: instead.", metavar="<verify-full|cert>"
    ),
]
AllowInsecure = Annotated[
    bool, typer.Option("--allow-insecure", help="Listen elsewhere without TLS or without users.")
]
Workers = Annotated[
    int | None, typer.Option(help="Processes that share the port and the ledger; 1.")
]
MaxConnections = Annotated[
    int | None, typer.Option(help="Clients that may be logged in at a time; 100.")
]
MaxUserConnections = Annotated[int | None, typer.Option(help="Of one user; all unless given.")]
MaxMessage = Annotated[int | None, typer.Option(help="MiB of one message; 1.")]
Memory = Annotated[
    int | None, typer.Option(help="MiB kept for all clients: results, parameters, statements; 512.")
]
ConnectionMemory = Annotated[int | None, typer.Option(help="MiB kept for one connection; 128.")]
StartupTimeout = Annotated[
    float | None, typer.Option(help="Seconds a client may take to log in; 10.")
]
StatementTimeout = Annotated[float | None, typer.Option(help="Seconds a statement may take; 10.")]
IdleTimeout = Annotated[
    float | None, typer.Option(help="Seconds a client may ask nothing; for ever unless given.")
]
SendTimeout = Annotated[
    float | None, typer.Option(help="Seconds a client may leave its answer unread; 300.")
]
Catalog = Annotated[
    str | None,
    typer.Option(help="Whose initdb and postgres answer for the catalogs.", metavar="<FOLDER|off>"),
]
LogFormat = Annotated[
    Literal["text", "json"], typer.Option(help="How the log on standard error is written.")
]
LogLevel = Annotated[
    Literal["debug", "info", "warning", "error"], typer.Option(help="The least that is logged.")
]
LogStatements = Annotated[
    bool, typer.Option("--log-statements", help="Log the SQL of charges and refusals, too.")
]


def serve(
    policy: Policy,
    host: Host = "127.0.0.1",
    port: Port = 5432,
    users: Users = None,
    plaintext_passwords: PlaintextPasswords = None,
    tls_certificate: TlsCertificate = None,
    tls_key: TlsKey = None,
    tls_self_signed: TlsSelfSigned = None,
    tls_client_ca: TlsClientCa = None,
    tls_clientcert: TlsClientcert = None,
    allow_insecure: AllowInsecure = False,
    workers: Workers = None,
    max_connections: MaxConnections = None,
    max_user_connections: MaxUserConnections = None,
    max_message: MaxMessage = None,
    memory: Memory = None,
    connection_memory: ConnectionMemory = None,
    startup_timeout: StartupTimeout = None,
    statement_timeout: StatementTimeout = None,
    idle_timeout: IdleTimeout = None,
    send_timeout: SendTimeout = None,
    catalog: Catalog = None,
    log_format: LogFormat = "text",
    log_level: LogLevel = "info",
    log_statements: LogStatements = False,
) -> None:
    """Serve the policy's tables to PostgreSQL clients, until Ctrl-C."""
    from tallyveil.cli.serving import Options
    from tallyveil.cli.serving import serve as work

    server = {
        "users": users and str(users),
        "plaintext_passwords": plaintext_passwords,
        "tls.certificate": tls_certificate and str(tls_certificate),
        "tls.key": tls_key and str(tls_key),
        "tls.self_signed": tls_self_signed,
        "tls.client_ca": tls_client_ca and str(tls_client_ca),
        "tls.clientcert": tls_clientcert,
        "workers": workers,
        "max_connections": max_connections,
        "max_user_connections": max_user_connections,
        "max_message": max_message,
        "memory": memory,
        "connection_memory": connection_memory,
        "startup_timeout": startup_timeout,
        "statement_timeout": statement_timeout,
        "idle_timeout": idle_timeout,
        "send_timeout": send_timeout,
    }
    options = Options(
        host=host,
        port=port,
        allow_insecure=allow_insecure,
        server=server,
        catalog=catalog,
        log_format=log_format,
        log_level=log_level,
        log_statements=log_statements,
    )
    with complaints():
        work(policy, options)
