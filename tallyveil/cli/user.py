"""Whom the ledger names for what is charged on the shell."""

from __future__ import annotations

import getpass

__all__ = ["user"]


def user() -> str:
    """The operating system's user, empty where it has no name."""
    try:
        return getpass.getuser()
    except OSError:
        return ""
