"""The policy's options for the server: TLS, users, limits and the catalog.

None of them changes the meaning of a charge. The server has defaults for options left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import Field, ValidationError
from pydantic_core import InitErrorDetails

from tallyveil.errors import InvalidParameterValue
from tallyveil.policy.declaration import Declaration, conflict
from tallyveil.policy.mistakes import mistakes
from tallyveil.policy.value_checks import FilePath, positive, whole_of

__all__ = ["CatalogChoice", "Certificate", "Serving", "serving_options"]


_Seconds = Annotated[float, positive(86_400, "a number of seconds above 0, at most 86,400")]
_Connections = Annotated[int, whole_of("connections", 10_000)]
_Memory = Annotated[int, whole_of("MiB", 1_048_576)]


class Certificate(Declaration):
    """The files of TLS. ``self_signed``: create certificate and key if both are missing.
    ``client_ca`` signs the clients' certificates, and ``clientcert`` chooses whether these replace
    passwords."""

    certificate: FilePath = Field(description="a path in quotes")
    key: FilePath = Field(description="a path in quotes")
    self_signed: bool = Field(default=False, description="true or false")
    client_ca: FilePath | None = Field(default=None, description="a path in quotes")
    clientcert: Literal["cert", "verify-full"] = Field(
        "verify-full",
        description='"verify-full" (a certificate and a password) or "cert" (a certificate alone)',
    )

    def conflicts(self) -> Iterator[InitErrorDetails]:
        if "clientcert" in self.model_fields_set and self.client_ca is None:
            yield conflict(
                "expected also client_ca, which signs clients' certificates", "clientcert"
            )


class CatalogChoice(Declaration):
    """The PostgreSQL that answers questions about the catalogs: ``binaries`` is the folder of
    initdb and postgres, None for those of the extra `catalog`."""

    enabled: bool = Field(default=True, description="true or false")
    binaries: FilePath | None = Field(
        default=None, description='a folder in quotes such as "/usr/lib/postgresql/16/bin"'
    )


class Serving(Declaration):
    """The keys of [server]. ``users`` is the users' file, ``workers`` the number of processes."""

    tls: Certificate | None = Field(
        default=None, description='files such as { certificate = "server.crt", key = "server.key" }'
    )
    users: FilePath | None = Field(default=None, description="a path in quotes", repr=False)
    workers: Annotated[int, whole_of("processes", 32)] | None = None
    max_connections: _Connections | None = None
    max_user_connections: _Connections | None = None
    max_message: Annotated[int, whole_of("MiB", 1_024)] | None = None
    memory: _Memory | None = None
    connection_memory: _Memory | None = None
    startup_timeout: _Seconds | None = None
    statement_timeout: _Seconds | None = None
    idle_timeout: _Seconds | None = None
    send_timeout: _Seconds | None = None

    @property
    def limits(self) -> dict[str, float]:
        """The limits that are given, by key: times in seconds, sizes in MiB."""
        return {key: value for key, value in self if key in _LIMITS and value is not None}

    def but(self, other: Serving) -> Serving:
        """Return these options, overridden by those that ``other`` gives."""
        return self.model_copy(update={key: value for key, value in other if value})


_LIMITS: Final = Serving.model_fields.keys() - {"tls", "users", "workers"}


def serving_options(given: Mapping[str, Any], declared: Serving, policy: Path) -> Serving:
    """Return the server's options given on the command line, by the keys of ``[server]``.

    Keys of inner tables have a dot, and None means not given. Missing keys of TLS default to those
    ``declared``; a self-signed certificate is stored next to the policy.

    Raises InvalidParameterValue, which lists every mistake.
    """
    known = {key: value for key, value in given.items() if value is not None}
    tls = {k.removeprefix("tls."): known.pop(k) for k in tuple(known) if k.startswith("tls.")}
    if tls:
        known["tls"] = _beside(policy, declared.tls, tls) | tls
    try:
        return Serving.model_validate(known)
    except ValidationError as error:
        lines = (f"--{line}" for line in mistakes(error, Serving))
        raise InvalidParameterValue("; ".join(map(_as_option, lines))) from None


def _beside(policy: Path, declared: Certificate | None, given: Mapping[str, Any]) -> dict[str, Any]:
    if declared is not None:
        return declared.model_dump(exclude_unset=True)
    if given.get("self_signed"):
        return {"certificate": policy.with_suffix(".crt"), "key": policy.with_suffix(".key")}
    return {}


def _as_option(mistake: str) -> str:
    """Return a mistake with its key as the command line writes it."""
    key, colon, rest = mistake.partition(" = ") if " = " in mistake else mistake.partition(":")
    return key.replace(".", "-").replace("_", "-") + colon + rest
