"""Texts, names and comments of a policy, as TOML writes them."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Sequence
from typing import Any

from tallyveil.policy.mistakes import without_passwords
from tallyveil.policy.sql_names import name_mistake

__all__ = ["comment", "quoted", "usable_name"]

_ROOM = 50  # characters of a name, before what makes it unlike others


def quoted(value: Any) -> str:
    """Return a text, number, truth value, day or list of these as TOML writes it."""
    match value:
        case list() | tuple():
            return f"[{', '.join(map(quoted, value))}]"
        case bool():
            return str(value).lower()
        case str():
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return str(value)


def comment(text: str, column: int = 0) -> str:
    """Return the text as a comment on one line, without passwords."""
    line = "".join(c if c.isprintable() else " " for c in without_passwords(text))
    return f"{' ' * column}# {line}"


def usable_name(name: str, taken: Sequence[str], *, cased: bool) -> str:
    """Return the name if a policy can have it, or one like it that is not ``taken``."""
    found = name
    if name_mistake(name, cased=cased) is not None:
        plain = unicodedata.normalize("NFKD", name.casefold()).encode("ascii", "ignore").decode()
        found = re.sub(r"[^a-z0-9]+", "_", plain).strip("_")[:_ROOM]
        if not found or found[0].isdigit():
            found = f"c_{found}".rstrip("_")
        if name_mistake(found) is not None:
            found += "_"
    folded, number, unlike = {other.lower() for other in taken}, 1, found
    while unlike.lower() in folded:
        number += 1
        unlike = f"{found}_{number}"
    return unlike
