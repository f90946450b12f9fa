"""The plan: a public TOML file, the same for all agents."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, TypeAlias

from pydantic import AfterValidator, Field, ValidationError

from tallyveil.errors import InvalidParameterValue, PolicyError
from tallyveil.mechanisms import DiscreteLaplace
from tallyveil.mechanisms.adjacency import Adjacency
from tallyveil.mechanisms.constrained.agent_noise import SharedNoise
from tallyveil.policy import Attribute, Policy, Table
from tallyveil.policy.declaration import Declaration, wrong
from tallyveil.policy.domain import Value
from tallyveil.policy.mistakes import mistakes, refusal
from tallyveil.policy.policy_file import read_toml
from tallyveil.policy.value_checks import Epsilon
from tallyveil.workload.workload import Column, Factor, Workload

__all__ = ["Counted", "ReleasePlan", "Written", "fingerprint", "load_plan", "written"]

Written: TypeAlias = str | bool | int | float | None
"""A value as JSON has it."""


def _distinct(names: list[str]) -> list[str]:
    if len(set(names)) != len(names) or not all(names):
        raise wrong("expected different names, none of them empty")
    return names


_Name = Annotated[str, Field(min_length=1, max_length=100)]
_Names = Annotated[list[_Name], AfterValidator(_distinct)]


class ReleasePlan(Declaration):
    """The keys of a plan.

    Each of the ``agents`` releases a count for each combination of values of ``count_by``, which
    are attributes of ``table``. Over all agents, the totals by the attributes ``totals``, a subset
    of ``count_by``, are exact. A part costs its table's budget ``epsilon``, for a privacy unit of
    one row.
    """

    name: _Name
    table: _Name
    count_by: Annotated[_Names, Field(min_length=1)]
    totals: _Names = Field(default_factory=list)
    epsilon: Epsilon
    agents: Annotated[_Names, Field(min_length=2)]

    def place(self, agent: str) -> int:
        """Return the agent's index. Raises InvalidParameterValue if the plan does not name it."""
        if agent not in self.agents:
            raise InvalidParameterValue(
                f'the plan has no agent "{agent}"', hint=f"Known: {', '.join(self.agents)}."
            )
        return self.agents.index(agent)

    def counted(self, policy: Policy) -> Counted:
        """Return one agent's cells under its policy.

        Raises PolicyError if the policy does not fit the plan, and StatementTooComplex if a total
        has too many counts (`SharedNoise`).
        """
        table = policy.tables.get(self.table)
        if table is None:
            raise _unfit([f'the policy has no protected table "{self.table}"'])
        found = [
            f'{self.table} has no attribute "{name}"'
            for name in self.count_by
            if name not in table.domain
        ]
        found += [
            f'totals: "{name}" is not in count_by'
            for name in self.totals
            if name not in self.count_by
        ]
        if len(policy.sharing(self.table)) > 1:
            found.append(f"{self.table} shares its unit with another table, which is not supported")
        if table.neighbours != "replace":
            found.append(
                f'tables.{self.table}.neighbours: expected "replace", since exact totals reveal'
                " whether a record is in the table"
            )
        if found:
            raise _unfit(found)
        return Counted(self, table)


class Counted:
    """The cells of one agent, in the order of the domain. All agents have the same cells."""

    def __init__(self, plan: ReleasePlan, table: Table) -> None:
        self.plan, self.table = plan, table
        self.attributes: Sequence[Attribute] = [
            one for one in table.domain.attributes if one.name in plan.count_by
        ]
        factors = (Factor.identity((one.name,), (one.size,)) for one in self.attributes)
        self.workload = Workload(table.name, (Column(tuple(factors)),))
        relation = Adjacency("replace")
        laplace = DiscreteLaplace()
        (self.scale,) = laplace.scales_for(self.workload, plan.epsilon, relation, "epsilon")
        SharedNoise.check(len(plan.agents) * max(map(len, self.groups.values())), self.scale)

    @property
    def keys(self) -> list[tuple[Value, ...]]:
        return list(itertools.product(*(one.cells for one in self.attributes)))

    @property
    def groups(self) -> dict[tuple[Value, ...], list[int]]:
        """The cells of each total, by its key."""
        places = [n for n, one in enumerate(self.attributes) if one.name in self.plan.totals]
        found: dict[tuple[Value, ...], list[int]] = {}
        for number, key in enumerate(self.keys):
            found.setdefault(tuple(key[place] for place in places), []).append(number)
        return found

    @property
    def fingerprint(self) -> str:
        """A digest of everything that agents must agree on."""
        plan = self.plan
        cells = [(one.name, [written(cell) for cell in one.cells]) for one in self.attributes]
        return fingerprint(plan.name, plan.table, cells, plan.totals, self.scale, plan.agents)


def fingerprint(
    name: str,
    table: str,
    cells: Sequence[tuple[str, Sequence[Written]]],
    totals: Sequence[str],
    scale: float,
    agents: Sequence[str],
) -> str:
    """The digest of a plan and of its attributes' ``cells``."""
    common = [name, table, cells, sorted(totals), scale.hex(), agents]
    return hashlib.sha256(json.dumps(common).encode()).hexdigest()


def written(value: Value) -> Written:
    """Return the value as JSON can represent it; dates become text."""
    return value if value is None or isinstance(value, str | int | float) else str(value)


def load_plan(path: Path) -> ReleasePlan:
    """Load a plan from its file. Raises PolicyError, which lists every mistake."""
    try:
        return ReleasePlan.model_validate(read_toml(path, what="plan"))
    except ValidationError as error:
        raise refusal("the plan", path, list(mistakes(error, ReleasePlan))) from None


def _unfit(found: list[str]) -> PolicyError:
    return PolicyError("the policy does not fit the plan", found)
