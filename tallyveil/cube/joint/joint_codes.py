"""Joint codes: in which cells of a former declaration, and of the present one, values lie.

Nothing is matched by labels: `pairs` runs the reading and the coding of each declaration, as
loading does, on `representatives` of all classes of values that a column can hold. `widened` and
`joined` count a table over joint codes: each record is coded by each declaration of a migrated
attribute.

Declarations that read a column in different orders, such as texts and numbers, are refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

import duckdb
import numpy as np

from tallyveil.arrays import CodeArray, IntArray
from tallyveil.cube.coding import code
from tallyveil.cube.cube import Cube
from tallyveil.cube.joint.representatives import represented
from tallyveil.cube.reading import read
from tallyveil.errors import FeatureNotSupported
from tallyveil.policy import Attribute, Domain, Table
from tallyveil.policy.axes import AttributeDeclaration

__all__ = ["Former", "Pairs", "joined", "joint_codes", "pairs", "present", "widened"]

_MOST: Final = 1_000_000  # representatives of one column
_ULPS: Final = 3  # doubles on both sides of a border that arithmetic may have rounded across
_UNITS: Final = 1 << 63


@dataclass(frozen=True)
class Pairs:
    """A migration's cells of an attribute: cell k has the code ``new[k]`` of the declaration since
    then, and lay in cell ``old[k]`` of before; −1 where nothing is counted."""

    new: tuple[int, ...]
    old: tuple[int, ...]

    def cells(self, codes: IntArray, former: IntArray) -> IntArray:
        """The cells of values with these codes, that lay in these cells; −1 for none. Where a pair
        has no cell, it is the first one of its code."""
        size = max(self.old) + 2
        keys = (np.array(self.new, dtype=np.int64) + 1) * size + np.array(self.old) + 1
        order = np.argsort(keys, kind="stable")
        place = np.searchsorted(keys[order], (codes + 1) * size + former + 1)
        place = np.minimum(place, len(keys) - 1)
        exact = keys[order][place] == (codes + 1) * size + former + 1
        first = np.full(max(*self.new, int(codes.max(initial=0))) + 2, -1, dtype=np.int64)
        for cell in reversed(range(len(self.new))):
            first[self.new[cell]] = cell
        first[-1] = -1
        return np.where(exact, order[place], first[codes])


@dataclass(frozen=True)
class Former:
    """An axis as it was before: its attribute then, None where it had none, and the pairs of the
    migration that followed, None where each cell of then is one since."""

    declared: AttributeDeclaration | None
    attribute: Attribute | None
    pairs: Pairs | None


def widened(table: Table, former: Mapping[str, Sequence[Former]]) -> Table:
    """The table with further axes: of each attribute as it was in each of its ``former``
    declarations. A value that has no cell gets one, the last; not so the days of a table that
    grows."""
    if not former:
        return table
    days = table.data.append
    declared = dict(table.attributes)
    axes = [one if one.name == days else _completed(one) for one in table.domain.attributes]
    for name, every in former.items():
        column = table.attributes[name].column or name
        for number, one in enumerate(every):
            if one.declared is not None and one.attribute is not None:
                own = f"{name}.{number}"
                declared[own] = one.declared.model_copy(update={"column": column})
                axes.append(_completed(replace(one.attribute, name=own)))
    update = {"attributes": MappingProxyType(declared), "domain": Domain(table.name, tuple(axes))}
    found = table.model_copy(update=update)
    vars(found).pop("fingerprint", None)
    return found


def _completed(attribute: Attribute) -> Attribute:
    if attribute.complete:
        return attribute
    last = attribute.size
    null, other = attribute.null_cell, attribute.other_cell
    return replace(
        attribute,
        cells=(*attribute.cells, "(not counted)"),
        null_cell=last if null is None and other is None else null,
        other_cell=last if other is None and not attribute.clamp else other,
    )


def present(table: Table, cube: Cube) -> Cube:
    """The counts over the table's own axes, from those over the axes of the `widened` table."""
    attributes = []
    for one, counted in zip(table.domain.attributes, cube.domain.attributes, strict=False):
        attributes.append(replace(one, truncates=counted.truncates))
    codes = [_own(held, one) for held, one in zip(cube._counts.codes, attributes, strict=False)]
    return _summed(Domain(table.name, tuple(attributes)), codes, cube)


def joined(
    table: Table, cube: Cube, former: Mapping[str, Sequence[Former]], domain: Domain
) -> Cube:
    """The counts over joint codes, the cells of ``domain``, from those over the axes of the
    `widened` table."""
    held = dict(zip(cube.domain.names, cube._counts.codes, strict=True))
    return _summed(domain, joint_codes(table, held, former), cube)


def joint_codes(
    table: Table, held: Mapping[str, CodeArray], former: Mapping[str, Sequence[Former]]
) -> list[IntArray]:
    """For each attribute the joint codes, −1 for none, from the codes ``held`` over the axes of the
    `widened` table."""
    codes = []
    for attribute in table.domain.attributes:
        every = former.get(attribute.name, ())
        since = [_own(held[attribute.name], attribute)]
        for number, one in reversed([*enumerate(every)]):
            own = np.zeros_like(since[0])
            if one.attribute is not None:
                own = _own(held[f"{attribute.name}.{number}"], one.attribute)
            since.insert(0, own)
        codes.append(_cells(every, since))
    return codes


def _cells(every: Sequence[Former], codes: Sequence[IntArray]) -> IntArray:
    """The cells of values from their codes by each declaration, oldest first."""
    cell = codes[0]
    for one, since in zip(every, codes[1:], strict=False):
        if one.pairs is not None:
            cell = one.pairs.cells(since, cell)
    return cell


def _own(codes: CodeArray, attribute: Attribute) -> IntArray:
    own = codes.astype(np.int64)
    return np.where(own < attribute.size, own, -1)


def _summed(domain: Domain, codes: Sequence[IntArray], cube: Cube) -> Cube:
    """The counts of the cells with these codes, each cell once; none where a code is −1."""
    own = cube._counts
    order = np.lexsort(codes[::-1])
    order = order[np.all([one[order] >= 0 for one in codes], axis=0)]
    sorted_codes = [one[order] for one in codes]
    changed = np.ones(len(order), dtype=np.bool_)
    changed[1:] = np.any([one[1:] != one[:-1] for one in sorted_codes], axis=0)
    starts, places = np.flatnonzero(changed), np.full(len(own.counts), -1, dtype=np.int64)
    places[order] = np.cumsum(changed) - 1
    total = np.zeros(len(starts), dtype=np.int64)
    np.add.at(total, places[order], own.counts[order])
    units = None
    if own.units is not None:
        sums = np.zeros(len(starts), dtype=np.uint64)
        np.add.at(sums, places[order], own.units[order].astype(np.uint64))
        units = (sums % np.uint64(_UNITS)).astype(np.int64)
    members = None if own.members is None else own.members.moved(places)
    return Cube(domain, tuple(one[starts] for one in sorted_codes), total, units, members)


def pairs(
    attribute: Attribute | None, former: Sequence[Former], last: int, name: str, column_type: str
) -> tuple[Pairs, bool]:
    """The cells of joint codes of an ``attribute``, None for a dropped one, and of its ``former``
    declarations, the first of which has ``pairs`` for all but the last; ``last`` is the number of
    cells of before. Also whether every conceivable value has a cell.

    A code that no representative has is in a pair with every cell of before, and the other way.

    Raises FeatureNotSupported where there are too many representatives, and where declarations read
    the column in orders of which not all classes are represented.
    """
    declared = [one.attribute for one in (*former, Former(None, attribute, None))]
    _check_orders([one for one in declared if one is not None], name, column_type)
    found = _coded([one for one in declared if one is not None], name, column_type)
    number = iter(range(len(declared)))
    each = [
        np.zeros(len(found[0]), dtype=np.int64) if one is None else found[next(number)]
        for one in declared
    ]
    cell = _cells(former[:-1], each[:-1])
    both = {*zip(each[-1].tolist(), cell.tolist(), strict=True)}
    size = 1 if attribute is None else attribute.size
    missing = set(range(size)) - {new for new, _ in both}
    unreached = set(range(last)) - {old for _, old in both}
    if len(missing) * (last + 1) + len(unreached) * (size + 1) > _MOST:
        raise _too_many(name)
    both |= {(new, old) for new in missing for old in range(-1, last)}
    both |= {(new, old) for new in range(-1, size) for old in unreached}
    # No representative without a cell proves nothing: one of the declarations must have all.
    complete = any(one is None or one.complete for one in declared[-2:])
    covers = complete and (-1, -1) not in both
    # Cells of one code follow each other, in the order of before; uncounted ones come last.
    chosen = sorted(both - {(-1, -1)}, key=lambda pair: (pair[0] < 0, pair))
    return Pairs(tuple(new for new, _ in chosen), tuple(old for _, old in chosen)), covers


def _check_orders(attributes: Sequence[Attribute], name: str, column_type: str) -> None:
    """Raise FeatureNotSupported unless the attributes read the column in one order, of which
    `represented` has all classes, or all values of the column are represented one by one."""
    if column_type.startswith("ENUM") or column_type == "BOOLEAN":
        return
    textual = column_type.split("(")[0] in ("VARCHAR", "JSON")
    orders = dict.fromkeys(_order(one) for one in attributes)
    known = len(orders) == 1 or (not textual and orders.keys() <= {"days", "times"})
    if known and (textual or "texts" not in orders):
        return
    read = " and as ".join(orders)
    raise FeatureNotSupported(
        f"{name} is read as {read} from a column of {column_type}: which values are in a cell of"
        " before and in one of now is not certain",
        hint="Keep the attribute as it was declared, and declare the new one under another name,"
        " with a column that a SELECT in from makes.",
    )


def _order(attribute: Attribute) -> str:
    """In what order an attribute reads values."""
    orders = {
        "VARCHAR": "texts",
        "BOOLEAN": "truth values",
        "DATE": "days",
        "TIMESTAMP": "times",
        "TIMESTAMP WITH TIME ZONE": "instants",
        "TIME": "times of day",
        "INTERVAL": "durations",
    }
    return orders.get(attribute.sql_type, "numbers")


def _too_many(name: str) -> FeatureNotSupported:
    return FeatureNotSupported(
        f"{name} has too many cells to be migrated", hint="Declare it with fewer cells."
    )


def _coded(attributes: Sequence[Attribute], name: str, column_type: str) -> list[IntArray]:
    """The codes of all representatives by each attribute, −1 where there is none."""
    texts = list(represented(attributes, column_type))
    if len(texts) > _MOST:
        raise _too_many(name)
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute(f"CREATE TABLE given (v {column_type})")
        cast = f"TRY_CAST(unnest($texts) AS {column_type})"
        connection.execute(f"INSERT INTO given SELECT DISTINCT {cast}", {"texts": texts})
        connection.execute("INSERT INTO given VALUES (NULL)")
        if column_type.startswith("ENUM"):
            labels = f"unnest(enum_range(NULL::{column_type}))"
            connection.execute(f"INSERT INTO given SELECT {labels}")
        reads = [f"{read(one, 'v', column_type)} AS v{n}" for n, one in enumerate(attributes)]
        codings = [code(n, one) for n, one in enumerate(attributes)]
        parameters = {k: v for one in codings for k, v in one.parameters.items()}
        codes = ", ".join(f"{one.expression} AS c{n}" for n, one in enumerate(codings))
        joins = " ".join(one.join for one in codings)
        record = f"SELECT {', '.join(reads)} FROM given"
        query = f"SELECT DISTINCT {codes} FROM ({record}) AS record {joins}"
        rows = connection.execute(query, parameters).fetchall()
    table = [[-1 if one is None else int(one) for one in row] for row in rows]
    return [np.array(own, dtype=np.int64) for own in zip(*table, strict=True)]
