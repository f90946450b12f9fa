"""The declaration that a ledger is bound to, as canonical JSON, and a digest of it.

Its keys are those of the policy, so that a refusal can name the one that changed.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import os
import re
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from tallyveil.policy.mistakes import without_passwords

__all__ = ["canonical", "digest", "query", "relative"]

_QUOTED = re.compile(r"""('(?:[^']|'')*'|"(?:[^"]|"")*")""")


def canonical(keys: Mapping[str, Any], *, secrets: bool) -> str:
    """Return nested keys as JSON, the same on every platform: ASCII text, floats as their shortest
    decimal, and types told apart, so that the text "1" and the number 1 differ.

    Without ``secrets`` no text in it has a password (`without_passwords`).
    """
    return json.dumps(_plain(keys, secrets), separators=(",", ":"), allow_nan=False)


def digest(text: str) -> str:
    """Return BLAKE2b (128 bits, hexadecimal)."""
    return hashlib.blake2b(text.encode("ascii"), digest_size=16).hexdigest()


def relative(url: str, folder: Path) -> str:
    """Return a path as it is written from the policy's ``folder``, if it is inside it."""
    path, base = os.path.normpath(url), os.path.abspath(folder)
    if os.path.isabs(path) and Path(path).is_relative_to(base):
        path = os.path.relpath(path, base)
    return Path(path).as_posix()


def query(text: str) -> str:
    """Return SQL with single spaces, unless it has comments or quotes that spaces could end."""
    if any(mark in text for mark in ("--", "/*", "$", "\\")):
        return text
    parts = _QUOTED.split(text)
    parts[::2] = [re.sub(r"\s+", " ", part) for part in parts[::2]]
    return "".join(parts)


def _plain(value: Any, secrets: bool) -> Any:
    match value:
        case None | bool() | int() | float():
            return value
        case str():
            return value if secrets else without_passwords(value)
        case Mapping():
            return {str(key): _plain(item, secrets) for key, item in value.items()}
        case list() | tuple():
            return [_plain(item, secrets) for item in value]
        case BaseModel():
            return {
                name: _plain(getattr(value, name), secrets) for name in type(value).model_fields
            }
        case dt.date() | dt.time():
            return {type(value).__name__: value.isoformat()}
        case dt.timedelta():
            return {"duration": str(value)}
        case Decimal():
            whole = value == value.to_integral_value()
            return int(value) if whole else {"number": f"{value.normalize():f}"}
        case Fraction():
            return {"number": str(value)}
    return {type(value).__name__: str(value)}
