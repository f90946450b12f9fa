"""The mechanisms by name, and what else a ledger may name."""

from __future__ import annotations

from tallyveil.errors import InvalidParameterValue
from tallyveil.mechanisms.gaussian import DiscreteGaussian
from tallyveil.mechanisms.geometric import Geometric
from tallyveil.mechanisms.laplace import DiscreteLaplace
from tallyveil.mechanisms.protocol import Charged, Mechanism
from tallyveil.mechanisms.sanitiser import Sanitiser

__all__ = ["charged", "mechanism", "mechanism_names", "register"]

_families: dict[str, Mechanism] = {}
_others: dict[str, Charged] = {Sanitiser.name: Sanitiser()}


def register(family: Mechanism) -> None:
    """Make a family available under its name, once: a ledger refers to it for good."""
    if family.name in _families or family.name in _others:
        raise ValueError(f"there is a mechanism {family.name} already")
    _families[family.name] = family


def mechanism(spec: str) -> Mechanism:
    """The mechanism a policy, a setting or a ledger means. Its ``name`` is the canonical text.

    Raises InvalidParameterValue for an unknown one.
    """
    family = _families.get(spec)
    if family is None:
        raise InvalidParameterValue(
            f'there is no mechanism "{spec}"', hint=f"Known: {', '.join(mechanism_names())}."
        )
    return family


def charged(name: str) -> Charged:
    """Whatever a ledger may have charged for: noise for queries, or a sanitised copy.

    Raises InvalidParameterValue for an unknown name.
    """
    return _others[name] if name in _others else mechanism(name)


def mechanism_names() -> tuple[str, ...]:
    return tuple(_families)


register(DiscreteLaplace())
register(DiscreteGaussian())
register(Geometric())
