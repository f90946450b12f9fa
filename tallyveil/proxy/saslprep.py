"""Passwords as SCRAM takes them: the same characters, however they were typed (SASLprep, RFC 4013).

PostgreSQL and its clients do the same, and take a password as it is where RFC 4013 forbids it.
"""

from __future__ import annotations

import stringprep
import unicodedata
from typing import Final

__all__ = ["saslprep"]

_PROHIBITED: Final = (
    stringprep.in_table_a1,  # not assigned in Unicode 3.2
    stringprep.in_table_c12,
    stringprep.in_table_c21_c22,
    stringprep.in_table_c3,
    stringprep.in_table_c4,
    stringprep.in_table_c5,
    stringprep.in_table_c6,
    stringprep.in_table_c7,
    stringprep.in_table_c8,
    stringprep.in_table_c9,
)


def saslprep(password: str) -> str:
    """The normalised password; unchanged if it has prohibited characters or nothing would be left.

    >>> saslprep("I\\u00adX"), saslprep("\\u2168"), saslprep("\\u0007")
    ('IX', 'IX', '\\x07')
    """
    if password.isascii():
        return password
    spaced = (" " if stringprep.in_table_c12(c) else c for c in password)
    mapped = "".join(c for c in spaced if not stringprep.in_table_b1(c))
    prepared = unicodedata.normalize("NFKC", mapped)
    if not prepared or any(table(c) for c in prepared for table in _PROHIBITED):
        return password
    return prepared if _one_direction(prepared) else password


def _one_direction(text: str) -> bool:
    """Whether right-to-left characters stand alone, and at both ends (RFC 3454, section 6)."""
    if not any(map(stringprep.in_table_d1, text)):
        return True
    ends = stringprep.in_table_d1(text[0]) and stringprep.in_table_d1(text[-1])
    return ends and not any(map(stringprep.in_table_d2, text))
