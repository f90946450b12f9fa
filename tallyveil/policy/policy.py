"""A policy: the custodian's declarations, each an immutable value, public facts only."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Self

from pydantic import AfterValidator, Field, ValidationInfo, model_validator
from pydantic_core import InitErrorDetails

from tallyveil.policy.declaration import Declaration, Derived, Named, conflict, mistaken, wrong
from tallyveil.policy.domain import Key
from tallyveil.policy.mistakes import dotted, nearest, written
from tallyveil.policy.server_options import CatalogChoice, Serving
from tallyveil.policy.shared_units import key_conflicts, per_unit_conflicts
from tallyveil.policy.source import Source
from tallyveil.policy.sql_names import name_mistake
from tallyveil.policy.table_keys import Budget, Share
from tallyveil.policy.tables import PublicTable, Table, related
from tallyveil.policy.value_checks import (
    Confidence,
    Epsilon,
    FilePath,
    HalfWidth,
    LedgerPath,
    MechanismName,
    PolicyPlace,
    Query,
    Rho,
)

__all__ = ["Analyst", "Defaults", "Policy", "View"]


class Defaults(Declaration):
    """A session's initial settings: a cost ``epsilon`` or ``rho``, or a target ``half_width``.

    ``mechanism`` is a mechanism's name, or "auto". ``nonnegative``: no count is reported below 0.
    """

    epsilon: Epsilon | None = None
    rho: Rho | None = None
    half_width: HalfWidth | None = None
    confidence: Confidence = 0.95
    mechanism: MechanismName = "auto"
    nonnegative: bool = Field(default=False, description="true or false")

    @property
    def targets(self) -> list[str]:
        """The keys that are given of those of which one may be given."""
        keys = ("epsilon", "rho", "half_width")
        return [key for key in keys if getattr(self, key) is not None]

    def conflicts(self) -> Iterator[InitErrorDetails]:
        given = self.targets
        if len(given) > 1:
            found = "both are" if len(given) == 2 else "three are"
            yield conflict(f"expected either {' or '.join(given)}; {found} given")


class View(Declaration):
    """A query over tables and public tables, in PostgreSQL's SQL."""

    sql: Query = Field(
        description='a SELECT in quotes, such as "SELECT * FROM person WHERE age >= 18"'
    )


class _TableShare(Declaration):
    budget: Share = Field(description="a share such as { epsilon = 1.0 }")


class Analyst(Declaration):
    """A share of every table's budget, shares by table, or both. A share of one table overrides a
    share of all."""

    budget: Share | None = Field(
        default=None, description="a share of the tables' budgets such as { epsilon = 1.0 }"
    )
    tables: Named[str, _TableShare] = Field(
        default_factory=dict,
        min_length=1,
        description="shares by table such as person = { budget = { epsilon = 1.0 } }",
    )

    def conflicts(self) -> Iterator[InitErrorDetails]:
        if self.budget is None and not self.tables:
            yield conflict("budget missing; expected a share such as budget = { epsilon = 1.0 }")

    def share(self, table: str) -> tuple[Share | None, tuple[str, ...]]:
        """Return the share of a table's budget, if any, and its key."""
        if table in self.tables:
            return self.tables[table].budget, ("tables", table, "budget")
        return self.budget, ("budget",)


def _table_name(name: str) -> str:
    mistake = name_mistake(name)
    if mistake:
        raise wrong(f'{mistake}; from = "…" can name the source\'s table')
    if name == "dp":
        raise wrong("expected another name: dp is the schema of tallyveil's relations")
    return name


def _analyst_name(name: str) -> str:
    if not name or name != name.strip() or "\0" in name:
        raise wrong("expected the user name with which an analyst connects")
    return name


_TableName = Annotated[str, AfterValidator(_table_name)]
_AnalystName = Annotated[str, AfterValidator(_analyst_name)]


class Policy(Declaration):
    """The custodian's declarations. ``path`` is the file they were read from, if any.

    If no cost or target is declared, a query costs ε = 0.1, or, if all budgets are in ρ, ρ = 0.005,
    which that implies. If analysts are declared, nobody else may buy; if none are, everybody may,
    up to the tables' budgets.
    """

    path: Derived[Path | None] = None
    source: Source | None = Field(
        default=None, description='a table such as [source] with url = "people.parquet"'
    )
    tables: Named[_TableName, Table] = Field(
        min_length=1, description="at least one table such as [tables.person]"
    )
    public: Named[_TableName, PublicTable] = Field(
        default_factory=dict, description='tables such as [public.region] with url = "region.csv"'
    )
    views: Named[_TableName, View] = Field(
        default_factory=dict, description='views such as [views.adult] with sql = "SELECT …"'
    )
    defaults: Defaults = Field(default_factory=Defaults, description="a table [defaults]")
    analysts: Named[_AnalystName, Analyst] = Field(
        default_factory=dict,
        min_length=1,
        description="analysts such as [analysts.alice] with budget = { epsilon = 1.0 }",
    )
    server: Serving = Field(default_factory=Serving, description="a table [server]")
    catalog: CatalogChoice = Field(default_factory=CatalogChoice, description="a table [catalog]")
    cubes: FilePath | None = Field(
        default=None, description='a folder in quotes such as "people.cubes"'
    )
    ledger_file: LedgerPath = Field(
        default_factory=lambda: {"must_exist": False}, alias="ledger", validate_default=True
    )

    @property
    def ledger(self) -> Path:
        return self.ledger_file.path

    @property
    def view_sql(self) -> dict[str, str]:
        return {name: view.sql for name, view in self.views.items()}

    @property
    def keys(self) -> dict[str, Key]:
        """The keys of keyed tables."""
        return {name: table.key for name, table in self.tables.items() if table.key is not None}

    def sharing(self, table: str) -> list[str]:
        """Return the tables that have the same budget, of which the table is one."""
        payer = self.tables[table].payer
        return [name for name, one in self.tables.items() if one.payer == payer]

    def share(self, analyst: str, table: str) -> Budget | None:
        """Return the most that the analyst's purchases of a table may cost; None for nothing."""
        payer = self.tables[table].payer
        share, _ = self.analysts[analyst].share(payer)
        if share is None:
            return None
        delta = self.tables[payer].budget.delta
        return Budget(epsilon=share.epsilon, rho=share.rho, delta=delta)

    def conflicts(self) -> Iterator[InitErrorDetails]:
        taken: dict[str, str] = {}
        for kind in ("tables", "public", "views"):
            for name in getattr(self, kind):
                if name in taken:
                    text = f"expected another name: {taken[name]}.{name} has it already"
                    yield conflict(text, kind, name)
                taken.setdefault(name, kind)
        for name, table in self.tables.items():
            yield from per_unit_conflicts(name, table, self.tables)
            near = [column[0] for column in table.keys.values()]
            near += [one.count for one in table.per_unit.values()]
            grown = [one for one in near if one in self.tables and self.tables[one].has_versions]
            if grown:
                text = f"expected no key or count of {grown[0]}, whose data changes"
                yield conflict(text, "tables", name)
            if table.keys:
                yield from key_conflicts(name, table, self.tables)
            elif self.defaults.targets == ["rho"] and table.budget.pure:
                yield conflict(
                    f"expected epsilon or half_width: the budget of tables.{name} is in ε alone",
                    "defaults",
                    "rho",
                )
            for key, declared in table.attributes.items():
                if declared.values_from is not None and declared.values_from[0] not in self.public:
                    yield mistaken(
                        ".".join(declared.values_from),
                        f"expected a public table; there is no [public.{declared.values_from[0]}]",
                        *("tables", name, "attributes", key, "values_from"),
                    )
            for number, one in enumerate(table.invariants):
                if one.from_public is not None and one.from_public[0] not in self.public:
                    yield mistaken(
                        one.source,
                        f"expected a public table; there is no [public.{one.from_public[0]}]",
                        "tables",
                        name,
                        "invariants",
                        number,
                        "from_public",
                    )
        for analyst, own in self.analysts.items():
            yield from self._share_conflicts(analyst, own)
        if self.source is not None and self.ledger.resolve() == self.source.path.resolve():
            yield mistaken(str(self.ledger), "expected another file than source", "ledger")

    def _share_conflicts(self, analyst: str, own: Analyst) -> Iterator[InitErrorDetails]:
        """Yield the contradictions between an analyst's shares and the tables' budgets."""
        for name in own.tables:
            if name not in self.tables:
                text = f"there is no such table; {nearest(name, self.tables)}"
                yield conflict(text, "analysts", analyst, "tables", name)
            elif (key := self.tables[name].key) is not None:
                text = f"expected a share of {key.head}, whose budget it shares"
                yield conflict(text, "analysts", analyst, "tables", name)
        for name, table in self.tables.items():
            share, place = own.share(name)
            if share is not None and not table.keys:
                owner = dotted(("tables", name, "budget"))
                yield from _against(share, table.budget, owner, ("analysts", analyst, *place))

    @model_validator(mode="after")
    def _complete(self, info: ValidationInfo) -> Self:
        """Return the policy with what follows from all of it."""
        source = self.source
        if source is not None:
            named = (name for table in self.tables.values() for name in table.source_columns)
            source = source.model_copy(update={"columns": tuple(dict.fromkeys(named))})
        tables = related({name: table.named(name, source) for name, table in self.tables.items()})
        public = {name: table.named(name) for name, table in self.public.items()}
        defaults = self.defaults
        if not defaults.targets:
            pure = any(table.budget.pure for table in tables.values())
            cost = {"epsilon": Fraction(1, 10)} if pure else {"rho": Fraction(1, 200)}
            defaults = defaults.model_copy(update=cost)
        return self.model_copy(
            update={
                "path": PolicyPlace.of(info).file,
                "source": source,
                "tables": MappingProxyType(tables),
                "public": MappingProxyType(public),
                "defaults": defaults,
            }
        )


def _against(
    share: Share, budget: Budget, owner: str, key: tuple[str, ...]
) -> Iterator[InitErrorDetails]:
    """Yield the contradictions between a share and the ``budget`` of the table at ``owner``."""
    unit, other = ("epsilon", "rho") if budget.rho is None else ("rho", "epsilon")
    amount, whole = getattr(share, unit), getattr(budget, unit)
    if amount is None:
        yield mistaken(
            getattr(share, other),
            f"expected {unit}, as in {owner}; if tables' budgets differ in kind, give the shares"
            " table by table",
            *key,
            other,
        )
        return
    if not amount <= whole:
        text = f"expected at most {written(whole)}, the {unit} of {owner}"
        yield mistaken(amount, text, *key, unit)
    if share.delta is not None and share.delta != budget.delta:
        text = f"expected no delta: a share uses the delta of {owner}"
        yield mistaken(share.delta, text, *key, "delta")
