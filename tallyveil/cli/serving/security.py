"""Users and TLS of a server: reads, checks and writes their files.

The users' file has one ``name:verifier`` per line, and only its owner may read it. Blank lines and
lines that start with # are preserved and ignored. The line without a name holds a secret. From it
the server derives the SCRAM challenges of unknown users, so that they stay equal after a restart.
"""

from __future__ import annotations

import logging
import os
import secrets
import stat
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tallyveil.errors import InvalidParameterValue, OutputError, PolicyError
from tallyveil.events import report
from tallyveil.files import write_new
from tallyveil.policy import Certificate, Serving
from tallyveil.proxy import Authentication, Clientcert, Tls, Trust, Users, Verifier, self_sign

__all__ = [
    "UserFile",
    "authentication",
    "check_private",
    "encryption",
    "read_user_file",
    "reloaded",
    "still_users",
    "user_path",
]

_HEAD: Final = (
    "# Users and their SCRAM verifiers: tallyveil user add, remove, list.",
    "# The line without a name determines the challenges of unknown users.",
)


@dataclass(frozen=True)
class UserFile:
    """The users' file. ``verifiers`` maps names to verifiers."""

    path: Path
    lines: tuple[str, ...]
    secret: bytes
    verifiers: Mapping[str, Verifier]

    def users(self, clientcert: Clientcert | None) -> Users:
        """Return the users. Raises PolicyError if there are none, or if their verifiers differ in
        what clients are sent of them."""
        if not self.verifiers:
            raise PolicyError(
                f"the users' file {self.path} has no users", ["tallyveil user add POLICY NAME"]
            )
        self._check_alike()
        return Users(dict(self.verifiers), self.secret, clientcert)

    def _model(self, name: str) -> Verifier:
        """A verifier with the parameters that the one of ``name`` must have: another user's."""
        others = (v for n, v in self.verifiers.items() if n != name)
        return next(others, Verifier.of(""))

    def _check_alike(self) -> None:
        """Raise PolicyError if clients could tell users from others by the parameters of SCRAM."""
        found = {n: v.parameters for n, v in self.verifiers.items()}
        first = next(iter(found), "")
        unlike = [name for name, parameters in found.items() if parameters != found[first]]
        if unlike:
            raise PolicyError(
                f"{self.path}: the verifiers of {', '.join(unlike)} differ from {first}'s in"
                " iterations or length of salt, which would show clients who is a user",
                [f"change their passwords: tallyveil user add --replace POLICY {unlike[0]}"],
            )

    def add(self, name: str, password: str, *, replace: bool) -> None:
        """Write the file with this user added or replaced.

        Raises InvalidParameterValue for invalid names and passwords, and if the user exists, unless
        ``replace``; OutputError if the file cannot be written.
        """
        if not name or name != name.strip() or ":" in name or name.startswith("#"):
            raise InvalidParameterValue(
                "a user's name must not be empty, contain a colon, start with #, or start or end"
                " with a space"
            )
        if not (name.isprintable() and password):
            raise InvalidParameterValue(
                "a user's name must be printable, and a password must not be empty"
            )
        if name in self.verifiers and not replace:
            raise InvalidParameterValue(
                f'user "{name}" exists', hint="Give --replace to change the password."
            )
        model = self._model(name)
        salt = secrets.token_bytes(len(model.salt))
        verifier = Verifier.of(password, salt=salt, iterations=model.iterations)
        line = f"{name}:{verifier.written()}"
        lines = tuple(line if _name(each) == name else each for each in self.lines)
        self._write(lines if name in self.verifiers else (*lines, line))

    def remove(self, name: str) -> None:
        """Write the file without this user. Raises InvalidParameterValue if there is none."""
        if name not in self.verifiers:
            raise InvalidParameterValue(
                f'there is no user "{name}"', hint="tallyveil user list shows the users."
            )
        self._write(tuple(line for line in self.lines if _name(line) != name))

    def _write(self, lines: tuple[str, ...]) -> None:
        """Replace the file atomically. Raises OutputError."""
        if not any(_name(line) == "" for line in lines):
            lines = (*_HEAD, f":{b64encode(self.secret).decode()}", *lines)
        written = self.path.with_name(f".{self.path.name}.{secrets.token_hex(4)}")
        try:
            write_new(written, "".join(f"{line}\n" for line in lines).encode())
            os.replace(written, self.path)
        except OSError as error:
            written.unlink(missing_ok=True)
            raise OutputError(f"{self.path} cannot be written: {error.strerror}") from None


def read_user_file(path: Path, *, create: bool = False) -> UserFile:
    """Read the users' file. With ``create``, a missing file counts as empty.

    Raises PolicyError if it cannot be read or has a mistake. No message contains a password or a
    verifier.
    """
    try:
        with path.open(encoding="utf-8") as file:
            check_private("users' file", path, os.fstat(file.fileno()).st_mode)
            lines = file.read().splitlines()
    except OSError as error:
        if not (create and isinstance(error, FileNotFoundError)):
            raise PolicyError(
                f"the users' file {path} cannot be read: {error.strerror}",
                ["tallyveil user add POLICY NAME creates it"],
            ) from None
        lines = []
    except UnicodeDecodeError:
        raise PolicyError(f"the users' file {path} is not UTF-8 text") from None
    secret, verifiers = b"", dict[str, Verifier]()
    for number, line in enumerate(lines, 1):
        name = _name(line)
        if name is None:
            if line.strip() and not line.startswith("#"):
                raise _wrong(path, number, "expected name:verifier")
        elif name in verifiers or (name == "" and secret):
            raise _wrong(path, number, f'user "{name}" already has a line above')
        elif name == "":
            secret = _secret(path, number, line[1:])
        else:
            verifiers[name] = _verifier(path, number, line[len(name) + 1 :])
    return UserFile(path, tuple(lines), secret or secrets.token_bytes(32), verifiers)


def check_private(what: str, path: Path, mode: int) -> None:
    """Raise PolicyError if others than the owner may access the file."""
    others = mode & (stat.S_IRWXG | stat.S_IRWXO)
    if others and not stat.S_ISDIR(mode):
        raise PolicyError(
            f"others than its owner can access the {what} {path}", [f"chmod 600 {path}"]
        )


def _name(line: str) -> str | None:
    """Return the name of the line's user; None for comments and other lines."""
    name, colon, _ = line.partition(":")
    return name if colon and not line.startswith("#") else None


def _verifier(path: Path, number: int, text: str) -> Verifier:
    try:
        return Verifier.parse(text)
    except ValueError as error:
        raise _wrong(path, number, f"{error}, as tallyveil user add writes it") from None


def _secret(path: Path, number: int, text: str) -> bytes:
    try:
        secret = b64decode(text, validate=True)
    except ValueError:
        secret = b""
    if len(secret) < 16:
        raise _wrong(path, number, "expected a secret of 16 bytes or more, in base64")
    return secret


def _wrong(path: Path, number: int, expected: str) -> PolicyError:
    return PolicyError(f"the users' file {path} has a mistake", [f"line {number}: {expected}"])


def user_path(policy: Path, serving: Serving) -> Path:
    """Return the path of the users' file, by default next to the policy."""
    return serving.users or policy.with_suffix(".users")


def authentication(policy: Path, serving: Serving) -> Authentication:
    """Return the users in the file, or trust if there is neither a file nor a client CA.

    Raises PolicyError.
    """
    clientcert = (
        None if serving.tls is None or not serving.tls.client_ca else serving.tls.clientcert
    )
    path = user_path(policy, serving)
    if serving.users is not None or path.exists():
        return read_user_file(path).users(clientcert)
    if clientcert == "verify-full":
        raise PolicyError(
            "clientcert = verify-full needs users with passwords",
            [f'tallyveil user add {policy} NAME; or clientcert = "cert" for certificates alone'],
        )
    return Trust() if clientcert is None else Users({}, clientcert=clientcert)


def encryption(serving: Serving, host: str) -> Tls | None:
    """Load the files of TLS, or return None if none are declared. With ``self_signed``, create
    certificate and key if both are missing.

    Raises PolicyError.
    """
    files = serving.tls
    if files is None:
        return None
    try:
        if files.self_signed and not files.certificate.exists() and not files.key.exists():
            self_sign(files.certificate, files.key, host)
            report("certificate made", certificate=str(files.certificate))
        check_private("key", files.key, files.key.stat().st_mode)
        return Tls(files.certificate, files.key, files.client_ca)
    except OSError as error:
        raise _unusable(files, f"{error.filename}: {error.strerror}") from None
    except ValueError as error:
        raise _unusable(files, str(error)) from None


def _unusable(files: Certificate, reason: str) -> PolicyError:
    none = not (files.certificate.exists() or files.key.exists())
    hints = ["self_signed = true creates both for a first run"] if none else []
    return PolicyError(f"TLS cannot use {files.certificate} and {files.key}", [reason, *hints])


def reloaded(
    policy: Path, serving: Serving, host: str, before: Authentication
) -> tuple[Authentication, Tls | None] | None:
    """Read users and TLS again. On a mistake, log it and return None."""
    try:
        return still_users(authentication(policy, serving), before), encryption(serving, host)
    except PolicyError as error:
        # Neither message nor mistakes contain a password.
        reason = " ".join((error.message, *error.mistakes))
        report("users not reloaded", level=logging.ERROR, reason=reason)
        return None


def still_users(now: Authentication, before: Authentication) -> Authentication:
    """Return ``now``. Raises PolicyError if it would end authentication, so that deleting the
    users' file lets nobody in."""
    if isinstance(now, Trust) and not isinstance(before, Trust):
        raise PolicyError(
            "the users' file does not exist", ["restore it, or restart without users"]
        )
    return now
