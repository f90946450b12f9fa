"""Who may connect to a served policy, and over which TLS: the files, read, checked and written.

The file of users has one ``name:verifier`` a line, for its owner's eyes only. Blank lines and lines
that start with # are kept and skipped. The line without a name holds the secret that makes up what
unknown users are asked, so that it is the same after a restart.
"""

from __future__ import annotations

import logging
import os
import secrets
import stat
import sys
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
    "# The line without a name makes up what unknown users are asked.",
)
_SCRAM: Final = "SCRAM-SHA-256$"


@dataclass(frozen=True)
class UserFile:
    """``verifiers`` by name; a plain password in its place is of `str`."""

    path: Path
    lines: tuple[str, ...]
    secret: bytes
    verifiers: Mapping[str, Verifier | str]

    def users(self, *, plaintext: bool, clientcert: Clientcert | None) -> Users:
        """Raises PolicyError for a plain password that is not allowed, and for no users."""
        plain = [name for name, value in self.verifiers.items() if isinstance(value, str)]
        if plain and not plaintext:
            raise PolicyError(
                f"{self.path} has plain passwords",
                [
                    f"make a verifier: tallyveil user add --replace POLICY {name}; or allow them:"
                    " plaintext_passwords = true in [server]"
                    for name in plain[:1]
                ],
            )
        if not self.verifiers:
            raise PolicyError(f"the file of users {self.path} names nobody")
        return Users(
            {name: self._verifier(name, value) for name, value in self.verifiers.items()},
            self.secret,
            clientcert,
        )

    def _verifier(self, name: str, value: Verifier | str) -> Verifier:
        if isinstance(value, Verifier):
            return value
        # The salt of an unknown user of that name: it does not change when the file is read again.
        likeness = Verifier.of("", salt=bytes(16), iterations=1).likeness(self.secret, name)
        return Verifier.of(value, salt=likeness.salt)

    def add(self, name: str, password: str, *, replace: bool) -> None:
        """Write the file with one user more. Raises InvalidParameterValue."""
        if not name or name != name.strip() or ":" in name or name.startswith("#"):
            raise InvalidParameterValue(
                "the name of a user is not empty, has no colon and no spaces around it, and does"
                " not start with #"
            )
        if not (name.isprintable() and password):
            raise InvalidParameterValue("a name has printable characters, and a password has some")
        if name in self.verifiers and not replace:
            raise InvalidParameterValue(
                f'user "{name}" exists', hint="Give --replace for another password."
            )
        line = f"{name}:{Verifier.of(password).written()}"
        lines = tuple(line if _name(each) == name else each for each in self.lines)
        self._write(lines if name in self.verifiers else (*lines, line))

    def remove(self, name: str) -> None:
        """Write the file without one. Raises InvalidParameterValue."""
        if name not in self.verifiers:
            raise InvalidParameterValue(
                f'there is no user "{name}"', hint="tallyveil user list shows who there is."
            )
        self._write(tuple(line for line in self.lines if _name(line) != name))

    def _write(self, lines: tuple[str, ...]) -> None:
        """Whole or not at all, whatever happens meanwhile. Raises OutputError."""
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
    """Raises PolicyError; no message holds a password or a verifier. With ``create``, a file that
    is missing is an empty one.
    """
    try:
        with path.open(encoding="utf-8") as file:
            check_private("file of users", path, os.fstat(file.fileno()).st_mode)
            lines = file.read().splitlines()
    except OSError as error:
        if not (create and isinstance(error, FileNotFoundError)):
            raise PolicyError(
                f"the file of users {path} cannot be read: {error.strerror}",
                ["tallyveil user add POLICY NAME makes it"],
            ) from None
        lines = []
    except UnicodeDecodeError:
        raise PolicyError(f"the file of users {path} is not UTF-8 text") from None
    secret, verifiers = b"", dict[str, Verifier | str]()
    for number, line in enumerate(lines, 1):
        name = _name(line)
        if name is None:
            if line.strip() and not line.startswith("#"):
                raise _wrong(path, number, "expected name:verifier")
        elif name in verifiers or (name == "" and secret):
            raise _wrong(path, number, f'user "{name}" has a line above already')
        elif name == "":
            secret = _secret(path, number, line[1:])
        else:
            verifiers[name] = _value(path, number, line[len(name) + 1 :])
    return UserFile(path, tuple(lines), secret or secrets.token_bytes(32), verifiers)


def check_private(what: str, path: Path, mode: int) -> None:
    """Raises PolicyError for a file that others than the owner may read."""
    others = mode & (stat.S_IRWXG | stat.S_IRWXO)
    if sys.platform != "win32" and others and not stat.S_ISDIR(mode):
        raise PolicyError(
            f"the {what} {path} can be read by others than its owner", [f"chmod 600 {path}"]
        )


def _name(line: str) -> str | None:
    """Whose line it is; None for a comment, and for what is no line of a user."""
    name, colon, _ = line.partition(":")
    return name if colon and not line.startswith("#") else None


def _value(path: Path, number: int, text: str) -> Verifier | str:
    if not text:
        raise _wrong(path, number, "expected name:verifier")
    if not text.startswith(_SCRAM):
        return text
    try:
        return Verifier.parse(text)
    except ValueError as error:
        raise _wrong(path, number, str(error)) from None


def _secret(path: Path, number: int, text: str) -> bytes:
    try:
        secret = b64decode(text, validate=True)
    except ValueError:
        secret = b""
    if len(secret) < 16:
        raise _wrong(path, number, "expected a secret of 16 bytes or more, in base64")
    return secret


def _wrong(path: Path, number: int, expected: str) -> PolicyError:
    return PolicyError(f"the file of users {path} has a mistake", [f"line {number}: {expected}"])


def user_path(policy: Path, serving: Serving) -> Path:
    """Where the users are: beside the policy unless it says otherwise."""
    return serving.users or policy.with_suffix(".users")


def authentication(policy: Path, serving: Serving) -> Authentication:
    """The users of the file; trust where neither a file nor certificates are used.

    Raises PolicyError.
    """
    clientcert = (
        None if serving.tls is None or not serving.tls.client_ca else serving.tls.clientcert
    )
    path = user_path(policy, serving)
    if serving.users is not None or path.exists():
        file = read_user_file(path)
        return file.users(plaintext=serving.plaintext_passwords, clientcert=clientcert)
    if clientcert == "verify-full":
        raise PolicyError(
            "certificates beside passwords need users",
            [f'tallyveil user add {policy} NAME; or clientcert = "cert" for certificates alone'],
        )
    return Trust() if clientcert is None else Users({}, clientcert=clientcert)


def encryption(serving: Serving, host: str) -> Tls | None:
    """What the files say; with a certificate made for a first run, where that is wanted.

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
    hints = ["self_signed = true makes both for a first run"] if none else []
    return PolicyError(
        f"TLS cannot be had from {files.certificate} and {files.key}", [reason, *hints]
    )


def reloaded(
    policy: Path, serving: Serving, host: str, before: Authentication
) -> tuple[Authentication, Tls | None] | None:
    """Both as they are now; None, and a line in the log, if there is a mistake."""
    try:
        return still_users(authentication(policy, serving), before), encryption(serving, host)
    except PolicyError as error:
        # Neither message nor detail holds a password.
        reason = " ".join((error.message, *error.mistakes))
        report("users not reloaded", level=logging.ERROR, reason=reason)
        return None


def still_users(now: Authentication, before: Authentication) -> Authentication:
    """Whoever had to prove who they are has to go on: a file that is gone lets nobody in.

    Raises PolicyError.
    """
    if isinstance(now, Trust) and not isinstance(before, Trust):
        raise PolicyError("the file of users is gone", ["put it back, or restart without users"])
    return now
