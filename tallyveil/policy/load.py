"""Reading a policy: TOML or a mapping in, a validated `Policy` or one PolicyError out."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

from pydantic import ValidationError

from tallyveil.errors import PolicyError
from tallyveil.policy.axes import attribute
from tallyveil.policy.conflicts import conflicts
from tallyveil.policy.declaration import PolicyDeclaration, PublicDeclaration, TableDeclaration
from tallyveil.policy.domain import Domain
from tallyveil.policy.mistakes import mistakes, refusal, written
from tallyveil.policy.model import Defaults, Policy, PublicTable, Source, Table
from tallyveil.policy.shares import share_conflicts, shares
from tallyveil.policy.source_kinds import SourceKind, source_kind

__all__ = ["load_policy", "parse_policy", "read_policy", "read_toml"]


def read_policy(path: str | Path, what: str = "policy") -> str:
    """Return the text of a policy file; ``what`` names other files in messages.

    Raises PolicyError if it cannot be read.
    """
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise PolicyError(f"the {what} {path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise PolicyError(f"the {what} {path} is not UTF-8 text") from error


def read_toml(path: Path, text: str | None = None, what: str = "policy") -> dict[str, Any]:
    """Return the keys of a TOML file, with numbers exactly as written.

    ``text`` is the file's text if it has been read already. Raises PolicyError.
    """
    try:
        return tomllib.loads(read_policy(path, what) if text is None else text, parse_float=Decimal)
    except tomllib.TOMLDecodeError as error:
        raise PolicyError(f"the {what} {path} is not valid TOML", [str(error)]) from error


def load_policy(path: str | Path, text: str | None = None) -> Policy:
    """Load the policy from a TOML file. Paths in it are relative to the file.

    ``text`` is the file's text if it has been read already.

    Raises PolicyError, which lists every mistake.
    """
    file = Path(path)
    ledger = file.with_suffix(".ledger.sqlite")
    return _policy(read_toml(file, text), base=file.parent, ledger=ledger, path=file)


def parse_policy(mapping: Mapping[str, Any], *, base: str | Path = ".") -> Policy:
    """Load the policy from a mapping with a file's keys. Paths in it are relative to ``base``.

    >>> people = {"attributes": {"age": {"range": [0, 115]}}, "budget": {"epsilon": 1.5}}
    >>> parse_policy({"tables": {"person": people}}).tables["person"].domain.size
    116

    Raises PolicyError, which lists every mistake.
    """
    ledger = Path(base) / "tallyveil.ledger.sqlite"
    return _policy(mapping, base=Path(base), ledger=ledger, path=None)


def _policy(mapping: Mapping[str, Any], *, base: Path, ledger: Path, path: Path | None) -> Policy:
    found: list[str] = []
    declared = source = None
    try:
        declared = PolicyDeclaration.model_validate(dict(mapping), context=base)
    except ValidationError as error:
        found.extend(mistakes(error, PolicyDeclaration))
    found.extend(conflicts(mapping))
    found.extend(share_conflicts(mapping))
    if declared is not None:
        source = None if declared.source is None else _file(declared.source.url, base)
        ledger = ledger if declared.ledger[0] is None else base / declared.ledger[0]
        if source is not None and ledger.resolve() == source.path.resolve():
            found.append(
                f"ledger = {written(declared.ledger[0])}: expected another file than source"
            )
    if found or declared is None:
        raise refusal("the policy", path, found)
    url = None if declared.source is None else declared.source.url
    tables = {name: _table(name, table, url) for name, table in declared.tables.items()}
    return Policy(
        tables=MappingProxyType(tables),
        ledger=ledger,
        ledger_must_exist=declared.ledger[1],
        source=source,
        defaults=_defaults(declared.defaults, tables),
        path=path,
        public=MappingProxyType({n: _public(n, p, base) for n, p in declared.public.items()}),
        views=MappingProxyType({n: v.sql for n, v in declared.views.items()}),
        analysts=MappingProxyType(shares(declared.analysts, tables)),
        server=declared.server,
        catalog=declared.catalog,
    )


def _file(url: str, base: Path) -> Source:
    return Source(url, base / url, cast(SourceKind, source_kind(url)))


def _public(name: str, declared: PublicDeclaration, base: Path) -> PublicTable:
    file = None if declared.url is None else _file(declared.url, base)
    return PublicTable(name, declared.origin or name, file)


def _table(name: str, declared: TableDeclaration, url: str | None) -> Table:
    axes = {n: attribute(n, a) for n, a in declared.attributes.items()}
    return Table(
        name=name,
        origin=declared.origin or name,
        source_url=url,
        privacy_unit=declared.privacy_unit,
        count=declared.count,
        neighbours=declared.neighbours,
        budget=declared.budget,
        domain=Domain(name, tuple(axes.values())),
        columns=tuple(a.column or n for n, a in declared.attributes.items()),
        mechanisms=declared.mechanisms,
        count_range=declared.count_range,
        inference_control=declared.inference_control,
        limits=declared.limits,
        beside=declared.beside,
        invariants=tuple(declared.invariants),
    )


def _defaults(declared: Defaults, tables: Mapping[str, Table]) -> Defaults:
    """Return the defaults. If no cost or target is declared, a query costs ε = 0.1, or, if all
    budgets are in ρ, ρ = 0.005, which that implies."""
    if (declared.epsilon, declared.rho, declared.half_width) != (None, None, None):
        return declared
    if any(table.budget.pure for table in tables.values()):
        return declared.model_copy(update={"epsilon": Fraction(1, 10)})
    return declared.model_copy(update={"rho": Fraction(1, 200)})
