"""The mechanisms by name, including those that only ledgers name."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, TypeAlias

from tallyveil.errors import InvalidParameterValue
from tallyveil.inference import DiscreteLaplaceLaw, NoiseLaw
from tallyveil.mechanisms.constrained.joint_release import AgentNoise
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
    """Make a family available under its name, for good: ledgers refer to it.

    Raises ValueError if the name is taken.
    """
    if family.name in _families or family.name in _others or family.name in FAMILIES:
        raise ValueError(f"there is a mechanism {family.name} already")
    _families[family.name] = family
    _by_law.setdefault(family.law_type.name, family)


def mechanism(spec: str, *, besides: Sequence[str] = ()) -> AnyMechanism:
    """Return the mechanism that ``spec`` names in a policy, a setting or a ledger.

    ``besides`` are other valid texts that the hint should list.

    Raises InvalidParameterValue for an unknown name or unknown parameters.
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
    """Return the name by which ledgers record the law of the noise that a mechanism adds.

    None if the error depends on the truth, if records are released, or if the mechanism is unknown.
    """
    return _families[name].law_type.name if name in _families else None


def additive_by_law(name: str) -> Additive:
    """Return a mechanism that adds noise of the law with this name.

    Its cost is the same as that of any mechanism with this law.

    Raises InvalidParameterValue for an unknown law.
    """
    if name not in _by_law:
        raise InvalidParameterValue(
            f'there is no noise with the law "{name}"', hint=f"Known: {', '.join(_by_law)}."
        )
    return _by_law[name]


@lru_cache(maxsize=4096)
def law_of(spec: str, scale: float) -> NoiseLaw | None:
    """Return the law of the noise a mechanism adds, `EXACT_LAW` at scale 0.

    None for a mechanism with a public range, whose error depends on the truth.
    """
    if scale == 0:
        return EXACT_LAW
    noise = mechanism(spec)
    return None if isinstance(noise, CountMechanism) else noise.law(scale)


@lru_cache(maxsize=4096)
def recorded_law(name: str | None, scale: float) -> NoiseLaw | None:
    """As `law_of`, by the law's name in ledgers (`law_name`); None for no name."""
    if scale == 0:
        return EXACT_LAW
    return None if name is None else additive_by_law(name).law(scale)


def canonical(spec: str, *, besides: Sequence[str] = ()) -> str:
    """Return the canonical text of ``spec``. A mechanism without an n, which it takes from the
    policy, stays without. ``besides`` as for `mechanism`.

    Raises InvalidParameterValue as `mechanism`, for an n out of range, and for a distance
    (``beyond``) that no two counts of 0..n exceed: then every law would score equally.
    """
    if lacks_range(spec):
        return with_range(spec, 1).kind
    found = mechanism(spec, besides=besides)
    if isinstance(found, CountMechanism):
        checked_range(found.n)
        if not found.objective.beyond < found.n:
            raise InvalidParameterValue(
                f"beyond={found.objective.beyond}: no answer in 0..{found.n} is off by more",
                hint=f"Choose a distance less than n: beyond={found.n - 1} at most.",
            )
    return found.name


def family_of(spec: str) -> str | None:
    """Return the family with a public range that a canonical text belongs to, or None."""
    name = spec.partition("(")[0]
    return name if name in FAMILIES else None


def lacks_range(spec: str) -> bool:
    """Whether ``spec`` is a mechanism with a public range but does not give n."""
    asked = read(spec)
    return asked.name in FAMILIES and "n" not in dict(asked.parameters)


def with_range(spec: str, n: int) -> CountMechanism:
    """Return the mechanism on 0..n for a ``spec`` that lacks a range. Raises as `mechanism`."""
    asked = read(spec)
    return count_mechanism(Spec(asked.name, (("n", str(n)), *asked.parameters)))


def answered(name: str) -> bool:
    """Whether a ledger stores the answers of this mechanism, for estimates. It stores neither
    sanitised copies nor agents' parts."""
    return name not in _others


def charged(name: str) -> Charged:
    """Return what a ledger charged for under this name: noise for queries, a sanitised copy, or an
    agent's part.

    Raises InvalidParameterValue for an unknown name.
    """
    return _others[name] if name in _others else mechanism(name)


def additive() -> tuple[Additive, ...]:
    """Return the mechanisms that add noise to any answer."""
    return tuple(_families.values())


def mechanism_names() -> tuple[str, ...]:
    """Return the names of all mechanisms; families with a public range also need an n."""
    return (*_families, *FAMILIES)


register(DiscreteLaplace())
register(DiscreteGaussian())
register(Geometric())
