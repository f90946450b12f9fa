"""Parts of a release as JSON files, and the sums of several parts. All of it is public."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from tallyveil.agents.release_plan import Counted, Written, fingerprint, written
from tallyveil.errors import SourceError
from tallyveil.policy.declaration import Declaration

__all__ = ["AgentPart", "Combined", "combined"]


_Key: TypeAlias = list[Written]


class AgentPart(Declaration):
    """One agent's part of a release. ``counts`` are the released counts, for ``keys``, the values
    of ``count_by``. ``fingerprint`` is that of `Counted` with the number of the release: the
    rest of the part follows from it, except its counts and its agent."""

    plan: str
    table: str
    fingerprint: str
    release: int
    agent: str
    agents: list[str]
    count_by: list[str]
    totals: list[str]
    scale: float
    keys: list[_Key]
    counts: list[int]

    @classmethod
    def of(cls, counted: Counted, agent: str, number: int, counts: Sequence[int]) -> AgentPart:
        plan, names = counted.plan, [one.name for one in counted.attributes]
        return cls(
            plan=plan.name,
            table=plan.table,
            fingerprint=_sealed(counted.fingerprint, number),
            release=number,
            agent=agent,
            agents=list(plan.agents),
            count_by=names,
            totals=[name for name in names if name in plan.totals],
            scale=counted.scale,
            keys=[[written(value) for value in key] for key in counted.keys],
            counts=list(counts),
        )

    def as_json(self) -> str:
        return json.dumps(self.model_dump(), ensure_ascii=False)

    @classmethod
    def read(cls, path: Path) -> AgentPart:
        """Read a part from its file. Raises SourceError if it is not a part, or unreadable, or if
        anything that agents agree on was changed in it."""
        try:
            part = cls.model_validate_json(path.read_bytes())
            if len(part.keys) != len(part.counts) or part.agent not in part.agents:
                raise ValueError
            altered = part._fingerprint != part.fingerprint
        except OSError as error:
            raise SourceError(f"the part {path} cannot be read: {error.strerror}") from None
        except ValueError:
            raise SourceError(f"{path} is not a part of a release") from None
        if altered:
            raise SourceError(
                f"{path} was changed after it was released: its plan, agents, attributes or values"
                " do not fit its fingerprint",
                hint=f'Ask agent "{part.agent}" to release it again, which is free.',
            )
        return part

    @property
    def _fingerprint(self) -> str:
        """The fingerprint that follows from the rest. Raises ValueError if the keys are not all
        combinations of values, each once and in order."""
        texts = [[json.dumps(value) for value in key] for key in self.keys]
        values = [list(dict.fromkeys(own)) for own in zip(*texts, strict=True)]
        if [list(key) for key in itertools.product(*values)] != texts:
            raise ValueError
        read = [[json.loads(value) for value in own] for own in values]
        cells = list(zip(self.count_by, read, strict=True))
        plan = fingerprint(self.plan, self.table, cells, self.totals, self.scale, self.agents)
        return _sealed(plan, self.release)


def _sealed(plan: str, release: int) -> str:
    return hashlib.sha256(f"{plan} {release}".encode()).hexdigest()


@dataclass(frozen=True)
class Combined:
    """The sums of parts: ``counts`` over the agents whose parts are given.

    ``totals``, with their keys, are exact; they are None while agents are ``missing``.
    """

    keys: list[_Key]
    counts: list[int]
    missing: list[str]
    totals: list[tuple[_Key, int]] | None


def combined(parts: Sequence[AgentPart]) -> Combined:
    """Add up parts. Raises SourceError if they are not different parts of one release."""
    first, *others = parts
    for part in others:
        for name in ("plan", "release", "fingerprint"):
            if getattr(part, name) != getattr(first, name):
                raise SourceError(
                    f"the parts of {first.agent} and {part.agent} differ in their {name}"
                )
    here = [part.agent for part in parts]
    if len(set(here)) != len(here):
        raise SourceError("a part is given twice")
    counts = [sum(own) for own in zip(*(part.counts for part in parts), strict=True)]
    missing = [agent for agent in first.agents if agent not in here]
    if missing:
        return Combined(first.keys, counts, missing, None)
    places = [first.count_by.index(name) for name in first.totals]
    totals: dict[str, tuple[_Key, int]] = {}
    for key, count in zip(first.keys, counts, strict=True):
        own = [key[place] for place in places]
        _, before = totals.get(json.dumps(own), (own, 0))
        totals[json.dumps(own)] = own, before + count
    return Combined(first.keys, counts, missing, list(totals.values()))
