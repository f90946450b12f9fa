"""The mechanisms by name, and what else a ledger may name."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, TypeAlias

from tallyveil.errors import InvalidParameterValue
from tallyveil.inference import DiscreteLaplaceLaw, NoiseLaw
from tallyveil.mechanisms.constrained.release import AgentNoise
from tallyveil.mechanisms.counts import FAMILIES, CountMechanism
from tallyveil.mechanisms.matrix.privacy_level import checked_range
from tallyveil.mechanisms.noise.additive import Additive
from tallyveil.mechanisms.noise.gaussian import DiscreteGaussian
from tallyveil.mechanisms.noise.laplace import DiscreteLaplace, Geometric
from tallyveil.mechanisms.protocol import Charged
from tallyveil.mechanisms.records.sanitiser import Sanitiser
from tallyveil.mechanisms.spec import Spec, count_mechanism, read

__all__ = [
    "AnyMechanism",
    "additive",
    "additive_by_law",
    "answered",
    "canonical",
    "charged",
    "family_of",
    "lacks_range",
    "law_name",
    "law_of",
    "mechanism",
    "mechanism_names",
    "recorded_law",
    "register",
    "with_range",
]

AnyMechanism: TypeAlias = Additive | CountMechanism

EXACT_LAW: Final = DiscreteLaplaceLaw(0.0)

_families: dict[str, Additive] = {}
_by_law: dict[str, Additive] = {}
_others: dict[str, Charged] = {one.name: one for one in (Sanitiser(), AgentNoise())}


def register(family: Additive) -> None:
    """Make a family available under its name, once: a ledger refers to it for good."""
    if family.name in _families or family.name in _others or family.name in FAMILIES:
        raise ValueError(f"there is a mechanism {family.name} already")
    _families[family.name] = family
    _by_law.setdefault(family.law_type.name, family)


def mechanism(spec: str, *, besides: Sequence[str] = ()) -> AnyMechanism:
    """The mechanism a policy, a setting or a ledger means. Its ``name`` is the canonical text.
    ``besides``: what else could have been written, for the hint.

    Raises InvalidParameterValue for an unknown one, or parameters it does not have.
    """
    if spec in _families:
        return _families[spec]
    asked = read(spec)
    if asked.name in FAMILIES:
        return count_mechanism(asked)
    if asked.name not in _families:
        raise InvalidParameterValue(
            f'there is no mechanism "{spec}"',
            hint=f"Known: {', '.join((*besides, *mechanism_names()))}.",
        )
    if asked.parameters:
        raise InvalidParameterValue(f"{asked.name} has no parameters", hint=f"Write {asked.name}.")
    return _families[asked.name]


def law_name(name: str) -> str | None:
    """What a ledger calls the law of the noise that a mechanism adds, for good; None where the
    error depends on the truth, records are released, or the mechanism is unknown."""
    return _families[name].law_type.name if name in _families else None


def additive_by_law(name: str) -> Additive:
    """A mechanism that adds noise of this law, and costs what such noise costs, whatever name it
    was charged under.

    Raises InvalidParameterValue for an unknown one.
    """
    if name not in _by_law:
        raise InvalidParameterValue(
            f'there is no noise with the law "{name}"', hint=f"Known: {', '.join(_by_law)}."
        )
    return _by_law[name]


@lru_cache(maxsize=4096)
def law_of(spec: str, scale: float) -> NoiseLaw | None:
    """The law of the noise a mechanism adds, `EXACT_LAW` at scale 0; None for a mechanism with a
    public range, whose error depends on the truth."""
    if scale == 0:
        return EXACT_LAW
    noise = mechanism(spec)
    return None if isinstance(noise, CountMechanism) else noise.law(scale)


@lru_cache(maxsize=4096)
def recorded_law(name: str | None, scale: float) -> NoiseLaw | None:
    """As `law_of`, by what a ledger calls the law."""
    if scale == 0:
        return EXACT_LAW
    return None if name is None else additive_by_law(name).law(scale)


def canonical(spec: str, *, besides: Sequence[str] = ()) -> str:
    """The text ``spec`` is kept as: what takes its n from the policy stays without. ``besides`` as
    for `mechanism`.

    Raises InvalidParameterValue as `mechanism`, for an n beyond what is offered, and for a distance
    that no two counts of 0..n exceed: any law would be as good, and its answers worth nothing.
    """
    if lacks_range(spec):
        return with_range(spec, 1).kind
    found = mechanism(spec, besides=besides)
    if isinstance(found, CountMechanism):
        checked_range(found.n)
        if not found.objective.beyond < found.n:
            raise InvalidParameterValue(
                f"beyond={found.objective.beyond}: no answer in 0..{found.n} is off by more",
                hint=f"It is less than n: beyond={found.n - 1} at most.",
            )
    return found.name


def family_of(spec: str) -> str | None:
    """The family of mechanisms with a public range that a canonical text belongs to, if any."""
    name = spec.partition("(")[0]
    return name if name in FAMILIES else None


def lacks_range(spec: str) -> bool:
    """Whether it is a mechanism with a public range that does not say which."""
    asked = read(spec)
    return asked.name in FAMILIES and "n" not in dict(asked.parameters)


def with_range(spec: str, n: int) -> CountMechanism:
    """What ``spec``, which lacks a range, means on 0..n. Raises as `mechanism`."""
    asked = read(spec)
    return count_mechanism(Spec(asked.name, (("n", str(n)), *asked.parameters)))


def answered(name: str) -> bool:
    """Whether a ledger keeps the answers of what it charged, for estimates. A sanitised copy and an
    agent's part leave by themselves."""
    return name not in _others


def charged(name: str) -> Charged:
    """Whatever a ledger may have charged for: noise for queries, a sanitised copy, or
    an agent's part.

    Raises InvalidParameterValue for an unknown name.
    """
    return _others[name] if name in _others else mechanism(name)


def additive() -> tuple[Additive, ...]:
    """Those that add noise to any answer."""
    return tuple(_families.values())


def mechanism_names() -> tuple[str, ...]:
    """The names of all; those of families with a public range need an n besides."""
    return (*_families, *FAMILIES)


register(DiscreteLaplace())
register(DiscreteGaussian())
register(Geometric())
