"""Mechanisms as policies, settings and ledgers write them: ``name`` or ``name(key=value, …)``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final

from tallyveil.errors import InvalidParameterValue
from tallyveil.mechanisms.counts import FAMILIES, CountMechanism
from tallyveil.mechanisms.matrix.named import named
from tallyveil.mechanisms.matrix.objective import Objective
from tallyveil.mechanisms.matrix.properties import closure

__all__ = ["PARAMETERS", "Spec", "count_mechanism", "read"]

_DESIGN: Final = ("properties", "objective", "beyond", "over")

PARAMETERS: Final = MappingProxyType(
    {family: ("n", *(_DESIGN if family == "designed" else ())) for family in FAMILIES}
)

# The names of COUNT, in `matrix.NAMED`, and what they are called here.
_OTHER_NAMES: Final = MappingProxyType(
    {
        "gm": ("truncated_geometric", None),
        "em": ("fair", None),
        "wh": ("weakly_honest", None),
        "wm": ("designed", "wh+rm+cm"),
        "best": ("designed", None),
    }
)
_SHELL_ONLY: Final = ("rr", "exp", "um")

# Longer than any that says something; whoever reads it has no more to do than that.
_LONGEST: Final = 200
_NAME: Final = re.compile(r"[a-z][a-z0-9_]*")
_WHOLE: Final = re.compile(r"[0-9]{1,9}")


@dataclass(frozen=True)
class Spec:
    """A name and its parameters as text, in lower case."""

    name: str
    parameters: tuple[tuple[str, str], ...] = ()


@lru_cache(maxsize=4096)
def read(text: str) -> Spec:
    """The names of COUNT are read as the family's own. Takes time in proportion to the text.

    Raises InvalidParameterValue for text of another form.
    """
    if len(text) > _LONGEST:
        raise _malformed(text)
    name, opened, rest = text.lower().strip().partition("(")
    name = name.strip()
    if not _NAME.fullmatch(name) or (opened and not rest.endswith(")")):
        raise _malformed(text)
    if name in _SHELL_ONLY:
        raise InvalidParameterValue(
            f"{named(name).name} is there to be compared with, and answers no query",
            hint="To look at it: tallyveil mechanism show. To ask with: fair or weakly_honest.",
        )
    found: dict[str, str] = {}
    for part in rest[:-1].split(",") if rest[:-1].strip() else ():
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not (equals and _NAME.fullmatch(key) and value) or key in found:
            raise _malformed(text)
        found[key] = value
    family, properties = _OTHER_NAMES.get(name, (name, None))
    if properties is not None:
        if "properties" in found:
            raise InvalidParameterValue(
                f"{name.upper()} has the properties it has", hint="They are chosen for designed."
            )
        found["properties"] = properties
    return Spec(family, tuple(found.items()))


def count_mechanism(spec: Spec) -> CountMechanism:
    """The mechanism of a family of `FAMILIES`. n may be anything from 1; what it is used at is
    checked there, so that a ledger stays readable whatever is offered now.

    Raises InvalidParameterValue for parameters that are unknown, missing or no value of theirs.
    """
    family, given = spec.name, dict(spec.parameters)
    for key in given:
        if key not in PARAMETERS[family]:
            raise InvalidParameterValue(
                f"{family} has no parameter {key}",
                hint=f"It takes {', '.join(PARAMETERS[family])}.",
            )
    if "n" not in given:
        raise InvalidParameterValue(
            f"{family} needs a public range 0..n", hint=f"Write {family}(n=20), say."
        )
    options: dict[str, Any] = {}
    if given.get("objective", "l0") not in ("l0", "l1", "l2"):
        raise _wrong("objective", given["objective"], "l0, l1 or l2")
    if given.get("over", "sum") not in ("sum", "max"):
        raise _wrong("over", given["over"], "sum or max")
    if "objective" in given:
        options["penalty"] = given["objective"].upper()
    if "beyond" in given:
        options["beyond"] = _whole("beyond", given["beyond"])
    if "over" in given:
        options["aggregate"] = given["over"]
    n = _whole("n", given["n"])
    if n < 1:
        raise _wrong("n", given["n"], "a whole number of at least 1")
    names = (name.strip().upper() for name in given.get("properties", "").split("+"))
    return CountMechanism(
        family, n, closure([name for name in names if name]), Objective(**options)
    )


def _whole(key: str, value: str) -> int:
    if not _WHOLE.fullmatch(value):
        raise _wrong(key, value, "a whole number")
    return int(value)


def _wrong(key: str, value: str, expected: str) -> InvalidParameterValue:
    return InvalidParameterValue(f"{key}={value}: expected {expected}")


def _malformed(text: str) -> InvalidParameterValue:
    return InvalidParameterValue(
        f'"{text[:60]}" is no mechanism',
        hint="Write a name, such as laplace, or a name with parameters, such as fair(n=20).",
    )
