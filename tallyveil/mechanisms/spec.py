"""Mechanisms as policies, settings and ledgers write them: ``name`` or ``name(key=value, …)``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Final, cast

from tallyveil.errors import InvalidParameterValue
from tallyveil.mechanisms.counts import FAMILIES, CountMechanism
from tallyveil.mechanisms.matrix.named import NAMED
from tallyveil.mechanisms.matrix.objective import Aggregate, Objective, Penalty
from tallyveil.mechanisms.matrix.properties import closure

__all__ = ["PARAMETERS", "Spec", "count_mechanism", "read"]

_DESIGN: Final = ("properties", "objective", "beyond", "over")

PARAMETERS: Final = MappingProxyType(
    {family: ("n", *(_DESIGN if family == "designed" else ())) for family in FAMILIES}
)

_ONE_OF: Final = MappingProxyType({"objective": ("l0", "l1", "l2"), "over": ("sum", "max")})
# Longer than any valid text; a longer one is refused before it is parsed.
_LONGEST: Final = 200
_NAME: Final = re.compile(r"[a-z][a-z0-9_]*")
_WHOLE: Final = re.compile(r"[0-9]{1,9}")


@dataclass(frozen=True)
class Spec:
    """A name and its parameters as text, in lower case."""

    name: str
    parameters: tuple[tuple[str, str], ...] = ()

    def given(self, allowed: Sequence[str], hint: str) -> dict[str, str]:
        """Return the parameters. Raises InvalidParameterValue if one is not ``allowed``."""
        for key, _ in self.parameters:
            if key not in allowed:
                raise InvalidParameterValue(f"{self.name} has no parameter {key}", hint=hint)
        return dict(self.parameters)


@lru_cache(maxsize=4096)
def read(text: str) -> Spec:
    """Parse ``text``. COUNT's names, such as EM, become names of families. Takes linear time.

    Raises InvalidParameterValue for text of another form.
    """
    if len(text) > _LONGEST:
        raise _malformed(text)
    name, opened, rest = text.lower().strip().partition("(")
    name = name.strip()
    if not _NAME.fullmatch(name) or (opened and not rest.endswith(")")):
        raise _malformed(text)
    known = NAMED.get(name.upper())
    if known is not None and known.family is None:
        raise InvalidParameterValue(
            f"{known.name} is for comparison only and cannot answer queries",
            hint=f"Use fair or weakly_honest, or see tallyveil mechanism show {known.name}.",
        )
    found: dict[str, str] = {}
    for part in rest[:-1].split(",") if rest[:-1].strip() else ():
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not (equals and _NAME.fullmatch(key) and value) or key in found:
            raise _malformed(text)
        found[key] = value
    family = name if known is None or known.family is None else known.family
    if known is not None and known.properties:
        if "properties" in found:
            raise InvalidParameterValue(
                f"{known.name} takes no properties: its own are fixed",
                hint="Use designed to choose properties.",
            )
        found["properties"] = "+".join(known.properties)
    return Spec("designed" if name == "best" else family, tuple(found.items()))


@lru_cache(maxsize=4096)
def count_mechanism(spec: Spec) -> CountMechanism:
    """Return the mechanism of a family of `FAMILIES`.

    n may be any integer from 1. `CountMechanism.matrix` checks it against the range on offer, so
    that ledgers stay readable when that range changes.

    Raises InvalidParameterValue for parameters that are unknown, missing or invalid.
    """
    family = spec.name
    given = spec.given(PARAMETERS[family], f"It takes {', '.join(PARAMETERS[family])}.")
    if "n" not in given:
        raise InvalidParameterValue(
            f"{family} needs a public range 0..n", hint=f"Write {family}(n=20), say."
        )
    for key, values in _ONE_OF.items():
        if given.get(key, values[0]) not in values:
            *others, last = values
            raise _wrong(key, given[key], f"{', '.join(others)} or {last}")
    objective = Objective(
        cast(Penalty, given.get("objective", "l0").upper()),
        beyond=_whole("beyond", given.get("beyond", "0")),
        aggregate=cast(Aggregate, given.get("over", "sum")),
    )
    n = _whole("n", given["n"])
    if n < 1:
        raise _wrong("n", given["n"], "a whole number of at least 1")
    names = (name.strip().upper() for name in given.get("properties", "").split("+"))
    return CountMechanism(family, n, closure([name for name in names if name]), objective)


def _whole(key: str, value: str) -> int:
    if not _WHOLE.fullmatch(value):
        raise _wrong(key, value, "a whole number")
    return int(value)


def _wrong(key: str, value: str, expected: str) -> InvalidParameterValue:
    return InvalidParameterValue(f"{key}={value}: expected {expected}")


def _malformed(text: str) -> InvalidParameterValue:
    return InvalidParameterValue(
        f'"{text[:60]}" is not a mechanism',
        hint="Write a name, such as laplace, or a name with parameters, such as fair(n=20).",
    )
