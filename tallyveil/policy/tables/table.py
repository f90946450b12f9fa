"""The protected tables of a policy."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator, Mapping
from fractions import Fraction
from types import MappingProxyType
from typing import Annotated, Any, Self

from pydantic import AfterValidator, Field, ValidationInfo, field_validator
from pydantic_core import InitErrorDetails, PydanticKnownError

from tallyveil.cache import cached_property
from tallyveil.policy.axes import UNREAD, AttributeDeclaration, attribute
from tallyveil.policy.declaration import Derived, Named, wrong
from tallyveil.policy.domain import Attribute, Domain, Key, Neighbours
from tallyveil.policy.fingerprint import canonical, digest, query
from tallyveil.policy.growth.growth import DATA, Growth, PlanDeclaration
from tallyveil.policy.limits import Limits
from tallyveil.policy.shared_units import joined_axes, per_unit_axes
from tallyveil.policy.source import Source
from tallyveil.policy.sql_names import is_table_reference, name_mistake
from tallyveil.policy.table_keys import (
    Budget,
    CountRange,
    InferenceControl,
    Invariant,
    PerUnit,
    PrivacyUnit,
)
from tallyveil.policy.tables.relation import Relation
from tallyveil.policy.tables.table_conflicts import table_conflicts
from tallyveil.policy.value_checks import MechanismNames, TableColumn, TableNames

__all__ = ["Table", "related"]


def _attribute_name(name: str) -> str:
    mistake = name_mistake(name, cased=True)
    if mistake:
        raise wrong(f'{mistake}; column = "…" can name the source\'s column')
    return name


def _plan_name(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name):
        raise wrong("expected a name of letters, digits and _, such as dashboard")
    return name


_PlanName = Annotated[str, AfterValidator(_plan_name)]
_AttributeName = Annotated[str, AfterValidator(_attribute_name)]


class Table(Relation):
    """One protected table.

    - The column ``columns[i]`` of ``origin`` holds ``domain.attributes[i]``. The attributes after
      these are the counts ``per_unit``, of the tables ``counted`` that have a key to this one.
      ``selected``: such a count has a condition on this table's rows.
    - ``neighbours``: neighbouring tables differ in one privacy unit, added or removed
      (``add_remove``) or exchanged for another (``replace``).
    - ``left_out``: as `SourceKind.left_out`; None for a table in memory.
    - ``count``: a column of whole numbers, the number of records that each row of the source stands
      for; each of these records is a unit by itself.
    - ``mechanisms``: the names of those that may answer, None if all may.
    - ``count_range`` bounds how many records have equal values, ``inference_control`` how precisely
      a count may become known, and ``limits`` what the ledger records.
    - ``beside``: tables in the ledger, of the same rows or from former policies. The custodian
      accepts that this table has a budget of its own in addition to theirs.
    - ``invariants``: those that the custodian declares; `exact` has all.
    - ``keys``: the column of the privacy unit, with the table and column of the same units whose
      budget this table shares; ``head`` is that table (`shared_units`).
    """

    source_url: Derived[str | None] = None
    left_out: Derived[str | None] = None
    domain: Derived[Domain] = Domain("", ())
    privacy_unit: PrivacyUnit = Field(
        default="row",
        validate_default=True,
        description='"row" or { column = "…", max_rows = 3 }',
    )
    count: str | None = Field(
        default=None,
        min_length=1,
        description="the name of the column with the number of records that a row stands for",
    )
    neighbours: Neighbours = Field(default="add_remove", description='"add_remove" or "replace"')
    keys: Named[str, TableColumn] = Field(
        default_factory=dict, description='a key such as { pid = "person.pid" }'
    )
    head: Derived[Table | None] = None
    counted: Derived[Mapping[str, Table]] = Field(default_factory=dict, exclude=True)
    selected: Derived[bool] = False
    budget: Budget = Field(
        default=None, validate_default=True, description="a budget such as { epsilon = 3.0 }"
    )
    mechanisms: MechanismNames | None = None
    count_range: CountRange | None = Field(
        default=None, description='a whole number or { at_most = 20, by = ["household"] }'
    )
    inference_control: InferenceControl | None = Field(
        default=None, description="a limit such as { min_half_width = 5, confidence = 0.95 }"
    )
    limits: Limits = Field(
        default_factory=Limits,
        description="limits such as { least_cost = 1e-6, rows = 1000000 }",
    )
    data: Growth = Field(
        default="fixed",
        validate_default=True,
        description=DATA,
    )
    plans: Named[_PlanName, PlanDeclaration] = Field(
        default_factory=dict, description="plans such as [tables.visits.plans.dashboard]"
    )
    beside: TableNames = ()
    attributes: Named[_AttributeName, AttributeDeclaration] = Field(
        min_length=1, description="at least one attribute such as age = { range = [0, 115] }"
    )
    per_unit: Named[_AttributeName, PerUnit] = Field(
        default_factory=dict, description='attributes such as visits = { count = "visit" }'
    )
    invariants: tuple[Invariant, ...] = Field(
        default=(),
        strict=False,
        description='tables such as [[tables.person.invariants]] with sql = "SELECT …"',
    )

    @field_validator("budget", mode="before")
    @classmethod
    def _shared(cls, value: Any, info: ValidationInfo) -> Any:
        """A keyed table has its head's budget, which is inserted once the head is known."""
        if value is not None:
            return value
        if info.data.get("keys", True):  # wrong keys are reported as such
            return Budget(epsilon=Fraction(1))
        raise PydanticKnownError("missing")

    def conflicts(self) -> Iterator[InitErrorDetails]:
        return table_conflicts(self)

    @property
    def reserved(self) -> Fraction:
        """The part of the budget that its plans keep from all other questions."""
        shares = (plan.budget for plan in self.plans.values())
        return sum((one.epsilon or one.rho or Fraction(0) for one in shares), Fraction(0))

    def named(self, name: str, source: Source | None) -> Self:
        """Return the table with its name, which is its key, and the policy's source."""
        axes = tuple(attribute(key, declared) for key, declared in self.attributes.items())
        return self.model_copy(
            update={
                "name": name,
                "source_url": None if source is None else source.identity,
                "left_out": None if source is None else source.kind.left_out,
                "domain": Domain(name, axes),
                "origin": self.origin or name,
            }
        )

    def sharing(self, head: Table) -> Self:
        """Return the table with its ``head``, whose budget it shares."""
        return self.model_copy(update={"head": head, "budget": head.budget})

    def counting(self, tables: Mapping[str, Table]) -> Self:
        """Return the table with its attributes ``per_unit``, which count rows of ``tables``."""
        counted = {one.count: tables[one.count] for one in self.per_unit.values()}
        axes = per_unit_axes(self.per_unit, counted)
        domain = Domain(self.name, (*self.domain.attributes, *axes))
        return self.model_copy(update={"domain": domain, "counted": MappingProxyType(counted)})

    @property
    def key(self) -> Key | None:
        """The key of a keyed table."""
        return next((Key(column, *key) for column, key in self.keys.items()), None)

    @property
    def payer(self) -> str:
        """The name of the table that has the budget: its own, or its head's."""
        return self.name if self.head is None else self.head.name

    @property
    def cells(self) -> Domain:
        """The axes by which its rows are counted: the domain's, and its head's attributes."""
        key, head = self.key, self.head
        joined = () if key is None or head is None else joined_axes(key, head)
        return Domain(self.name, (*self.domain.attributes, *joined))

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(declared.column or name for name, declared in self.attributes.items())

    @property
    def origin_key(self) -> str:
        """The key of ``from``, for messages."""
        return f"tables.{self.name}.from"

    @property
    def source_columns(self) -> tuple[str, ...]:
        """All columns of the source that it names, of which a column may be there twice."""
        unit = self.privacy_unit
        others = (self.count, unit.column, unit.earliest_by, self.data.arrived)
        return (*self.columns, *(name for name in others if name is not None))

    @property
    def unit_words(self) -> str:
        """A short name of one privacy unit, for messages."""
        return self.privacy_unit.column or ("row" if self.count is None else f"one of {self.count}")

    @property
    def capped(self) -> str | None:
        """How many rows of a privacy unit are counted, for messages; None where all are."""
        unit = self.privacy_unit
        if unit.column is None:
            return None
        one, rows = unit.max_rows == 1, "1 row" if unit.max_rows == 1 else f"{unit.max_rows} rows"
        counted = "counted" if unit.per is None else f"counted a {unit.per}"
        first = "" if unit.earliest_by is None else f", the earliest by {unit.earliest_by},"
        return (
            f"at most {rows} of each {unit.column}{first} {'is' if one else 'are'} {counted}, and"
            " totals are too low where one has more"
        )

    @property
    def grows(self) -> bool:
        return self.data.append is not None

    @property
    def has_versions(self) -> bool:
        """Whether its data changes, by versions."""
        return self.grows or self.data.replace

    @property
    def days(self) -> Attribute:
        """The attribute by whose days it grows."""
        return self.domain[self.data.append or ""]

    @property
    def day_range(self) -> tuple[dt.date, dt.date]:
        """The first and the last day of a table that grows."""
        ends: tuple[dt.date, dt.date] = self.days.ends or (dt.date.max, dt.date.min)
        return ends

    @property
    def whole(self) -> bool:
        """Whether every record of the source is a row of the table, for any values of the record.

        A SELECT may filter, a CSV file can have lines that cannot be read, and a row without a
        privacy unit is left out: then replacing a record may change the number of rows. So it may
        where data changes: the other record may be of a day that is not over, arrive late, or be
        there in other versions.
        """
        if self.has_versions:
            return False
        named = is_table_reference(self.origin)
        alone = self.privacy_unit.column is None
        return named and alone and self.left_out is None

    @property
    def total_public(self) -> bool:
        """Whether ``replace`` makes the number of rows public, so that count(*) is exact."""
        return self.neighbours == "replace" and self.domain.complete and self.whole

    @property
    def exact(self) -> tuple[Invariant, ...]:
        """All invariants, including the number of records if the neighbouring relation makes it
        public."""
        if not self.total_public:
            return self.invariants
        return (Invariant(sql=f"SELECT count(*) FROM {self.name}"), *self.invariants)

    def declaration(self, *, secrets: bool = False) -> str:
        """Everything that determines the meaning of the ledger's charges, as JSON with the
        policy's keys; with passwords in it only if ``secrets``.

        It covers where the rows come from, the neighbouring relation, the privacy unit and the
        domain. It does not cover the invariants, each of which the ledger records separately, nor
        the budget, the range of counts, the inference control, the limits and the defaults, which
        the custodian may change later.
        """
        names = [self, *self.counted.values()]
        if self.head is not None:
            names = [self, self.head, *self.head.counted.values()]
        keys: dict[str, Any] = {"tables": {one.name: one._declared() for one in names}}
        if self.source_url is not None:
            keys = {"source": {"url": self.source_url}, **keys}
        return canonical(keys, secrets=secrets)

    def _declared(self) -> dict[str, Any]:
        if any(one.kind == UNREAD for one in self.domain.attributes):
            raise ValueError(f"values of table {self.name} are not read yet")
        given = {
            "count": self.count,
            "keys": {column: ".".join(key) for column, key in self.keys.items()},
            "per_unit": self.per_unit,
            "data": self.has_versions and self.data.declared,
        }
        return {name: value for name, value in given.items() if value} | {
            "from": query(self.origin),
            "privacy_unit": self.privacy_unit.declared,
            "neighbours": self.neighbours,
            "attributes": {name: one.keys(name) for name, one in self.attributes.items()},
        }

    @cached_property
    def fingerprint(self) -> str:
        """A digest of the `declaration`."""
        return digest(self.declaration(secrets=True))


def related(tables: Mapping[str, Table]) -> dict[str, Table]:
    """The tables, completed by what follows from the keys between them."""
    per_unit = [one for table in tables.values() for one in table.per_unit.values()]
    selected = {one.count for one in per_unit if one.where is not None}
    tables = {n: t.model_copy(update={"selected": n in selected}) for n, t in tables.items()}
    found = {name: table.counting(tables) for name, table in tables.items()}
    for name, table in found.items():
        if table.key is not None:
            found[name] = table.sharing(found[table.key.head])
    return found
