"""Texts that PostgreSQL reads as true or false: true, yes, on, 1, false, no, off, 0, and their
unambiguous beginnings, in upper or lower case, with optional spaces around.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

__all__ = ["TRUTH_TEXTS", "truth"]

_WORDS: Final = {"true": 1, "yes": 1, "on": 2, "1": 1, "false": 1, "no": 1, "off": 2, "0": 1}
"""The number of characters that distinguish each word from all others."""

TRUTH_TEXTS: Final = MappingProxyType(
    {
        word[:length]: word in ("true", "yes", "on", "1")
        for word, least in _WORDS.items()
        for length in range(least, len(word) + 1)
    }
)


def truth(text: str) -> bool | None:
    """Return the truth value that the text stands for, or None if it stands for neither."""
    return TRUTH_TEXTS.get(text.strip(" \t\n\r\f\v").lower())
