"""Texts that PostgreSQL reads as true or false: true, yes, on, 1, false, no, off, 0, and what only
one of them begins with, in any case, with spaces around.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

__all__ = ["TRUTH_TEXTS", "truth"]

_WORDS: Final = {"true": 1, "yes": 1, "on": 2, "1": 1, "false": 1, "no": 1, "off": 2, "0": 1}
"""How many characters it takes to tell the word from all others."""

TRUTH_TEXTS: Final = MappingProxyType(
    {
        word[:length]: word in ("true", "yes", "on", "1")
        for word, least in _WORDS.items()
        for length in range(least, len(word) + 1)
    }
)


def truth(text: str) -> bool | None:
    """None for a text that stands for neither."""
    return TRUTH_TEXTS.get(text.strip(" \t\n\r\f\v").lower())
