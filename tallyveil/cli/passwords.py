"""The password file: one ``user:password`` a line, for its owner's eyes only."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

from tallyveil.errors import PolicyError
from tallyveil.proxy import Passwords

__all__ = ["read_passwords"]


def read_passwords(path: Path) -> Passwords:
    """Blank lines and lines that start with # are skipped; a password may hold colons.

    Raises PolicyError; no message holds a password.
    """
    try:
        with path.open(encoding="utf-8") as file:
            _check_mode(path, os.fstat(file.fileno()).st_mode)
            lines = file.read().splitlines()
    except OSError as error:
        raise PolicyError(f"the password file {path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise PolicyError(f"the password file {path} is not UTF-8 text") from None
    passwords: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        user, colon, password = line.partition(":")
        if not (user and colon and password):
            raise _wrong(path, number, "expected user:password")
        if user in passwords:
            raise _wrong(path, number, f'user "{user}" has a line above already')
        passwords[user] = password
    if not passwords:
        raise PolicyError(f"the password file {path} names nobody")
    return Passwords(passwords)


def _check_mode(path: Path, mode: int) -> None:
    if sys.platform != "win32" and mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise PolicyError(
            f"the password file {path} can be read by others than its owner",
            [f"chmod 600 {path}"],
        )


def _wrong(path: Path, number: int, expected: str) -> PolicyError:
    return PolicyError(f"the password file {path} has a mistake", [f"line {number}: {expected}"])
