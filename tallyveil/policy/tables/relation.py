"""What every relation has that a policy reads: its name, and the table, view or SELECT it is."""

from __future__ import annotations

from pydantic import Field

from tallyveil.policy.declaration import Declaration, Derived
from tallyveil.policy.value_checks import Origin

__all__ = ["Relation"]


class Relation(Declaration):
    """``origin`` is the table, view or SELECT to read, by default the one of this ``name``."""

    name: Derived[str] = ""
    origin: Origin = Field(
        default="",
        alias="from",
        description="the name of a table or view, or a SELECT, in quotes",
    )
