"""The families of noise by name."""

from __future__ import annotations

from tallyveil.errors import InvalidParameterValue
from tallyveil.mechanisms.laplace import DiscreteLaplace
from tallyveil.mechanisms.protocol import Mechanism

__all__ = ["mechanism", "mechanism_names", "register"]

_families: dict[str, Mechanism] = {}


def register(family: Mechanism) -> None:
    """Make a family available under its name, once: a ledger refers to it for good."""
    if family.name in _families:
        raise ValueError(f"there is a mechanism {family.name} already")
    _families[family.name] = family


def mechanism(name: str) -> Mechanism:
    """Raises InvalidParameterValue for an unknown name."""
    family = _families.get(name)
    if family is None:
        raise InvalidParameterValue(
            f'there is no mechanism "{name}"', hint=f"Known: {', '.join(mechanism_names())}."
        )
    return family


def mechanism_names() -> tuple[str, ...]:
    return tuple(_families)


register(DiscreteLaplace())
