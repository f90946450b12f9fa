"""Migrations of ledgers: every kind of change, with what was answered and what was spent.

The oracle of spending is brute force over raw records: a record loses in a release what the row
says of the cell that the loader puts it in, under the declaration of then; all releases add up. It
knows nothing of joint codes.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import numpy as np
import pytest

import tallyveil
from tallyveil.accountant import Ledger
from tallyveil.accountant.migrations import lineages
from tallyveil.accountant.store.event_codec import decode_charge
from tallyveil.accountant.store.ledger_copies import verify
from tallyveil.accountant.store.ledger_records import ChargeRecord
from tallyveil.cube import load_cubes
from tallyveil.gate import Gate
from tallyveil.gate.declared.migrating import Vouched, migrating
from tallyveil.mechanisms.noise.calibrate import rate
from tallyveil.mechanisms.units import UNIT
from tallyveil.policy import Policy, parse_policy
from tests.gate.many_sessions import PATIENCE
from tests.pairs import one_in

COUNT = "SELECT count(*) FROM person"


class World:
    """A table of raw records in DuckDB, and policies over it with one ledger."""

    def __init__(self, folder: Path, columns: dict[str, tuple[str, Sequence[Any]]], **keys: Any):
        self.folder, self.keys = folder, {"from": "people", "budget": {"epsilon": 100.0}} | keys
        self.columns = columns
        self.source = duckdb.connect()
        kinds = ", ".join(f"{name} {kind}" for name, (kind, _) in columns.items())
        self.source.execute(f"CREATE TABLE numbered ({kinds}, id INTEGER)")
        self.raw = list(itertools.product(*(values for _, values in columns.values())))
        marks = ", ".join("?" * (len(columns) + 1))
        rows = [(*row, number) for number, row in enumerate(self.raw)]
        self.source.executemany(f"INSERT INTO numbered VALUES ({marks})", rows)
        self.source.execute("CREATE TABLE people AS SELECT * EXCLUDE (id) FROM numbered")
        for times in (1, 2):
            more = f"SELECT * EXCLUDE (id) FROM numbered WHERE id % 3 >= {times}"
            self.source.execute(f"INSERT INTO people {more}")

    def policy(self, attributes: dict[str, Any], **keys: Any) -> Policy:
        table = {**self.keys, "attributes": attributes, **keys}
        return parse_policy({"tables": {"person": table}}, base=self.folder)

    @contextmanager
    def opened(self, policy: Policy) -> Iterator[Asked]:
        with closing(Gate(policy, self.source, time_limit=PATIENCE)) as gate:
            yield Asked(gate, policy)

    def ask(self, policy: Policy, *questions: str, paid: Any = None) -> list[Any]:
        with self.opened(policy) as asked:
            return asked(*questions, paid=paid)

    def migrate(self, policy: Policy, **vouched: Any) -> Any:
        with migrating(policy, self.source, Vouched(**vouched)) as prepared:
            prepared.apply()
            assert not prepared.draft.exists()
        verify(policy.ledger)
        return prepared.tables

    def codes(self, policy: Policy) -> list[tuple[int, ...] | None]:
        """The cell of each raw record, by the loader; None where it has none."""
        table = policy.tables["person"]
        numbered = {"id": {"range": [0, len(self.raw) - 1]}}
        attributes = {n: one.model_dump(exclude_unset=True) for n, one in table.attributes.items()}
        own = self.policy({**attributes, **numbered}, **{"from": "numbered"})
        counts = load_cubes(own, self.source, key=b"")["person"]._counts
        *cells, ids = counts.codes
        found: list[tuple[int, ...] | None] = [None] * len(self.raw)
        for number, *cell in zip(ids.tolist(), *(one.tolist() for one in cells), strict=True):
            found[number] = tuple(cell)
        return found


class Asked:
    """A session: the answers to questions, from history if nothing is to be ``paid``."""

    def __init__(self, gate: Gate, policy: Policy) -> None:
        self._gate, self._connection = gate, tallyveil.Connection(gate, None)
        self._unit = "rho" if policy.tables["person"].budget.rho else "epsilon"

    def __call__(self, *questions: str, paid: Any = None) -> list[Any]:
        source = "auto" if paid else "history"
        self._connection.execute(f"SET dp.source = '{source}'")
        if paid:
            self._connection.execute(f"SET dp.{self._unit} = {paid}")
        return [self._connection.execute(one).fetchall() for one in questions]

    @property
    def spent(self) -> Fraction:
        return self._gate.accountant.balance("person").spent


def losses(world: World, policies: Sequence[Policy], pairs: bool = False) -> Fraction:
    """The most that a raw record has lost, or that an exchange of two has, by brute force.

    ``policies`` are those between the migrations. A row of a later one has one coefficient for all
    joint codes of a present code.
    """
    last = policies[-1]
    measure = "rho" if last.tables["person"].budget.rho else "epsilon"
    power = 2 if measure == "rho" else 1
    with closing(Ledger(last.ledger)) as ledger, ledger.snapshot() as view:
        lineage = lineages(view)["person"]
        charges = [(end.number, one) for one, end in view.after(ChargeRecord)]
    ends = [one.ends["charge"] for one in lineage.migrations]
    codes = [world.codes(policy) for policy in policies]
    outside = (
        not all(p.tables["person"].domain.complete for p in policies)
        or not last.tables["person"].whole
    )
    records = [*range(len(world.raw)), *([-1] if outside or not pairs else [])]
    rows = list[tuple[Fraction, list[int]]]()
    for number, stored in charges:
        era = sum(1 for end in ends if end < number)
        names = policies[era].tables["person"].domain.names
        charge = decode_charge("person", stored.mechanism, stored.columns)
        for column, scale in zip(charge.workload.columns, charge.scales, strict=True):
            whole = column.multiplied_out(10**6)
            assert whole is not None
            dense = whole.dense().reshape(-1, *whole.shape)
            own = []
            for cell in codes[era]:
                at = list[int]()
                for axis in whole.axes if cell is not None else ():
                    code = cell[names.index(axis)] if axis in names else 0
                    at.append(_joint(lineage, era, axis, code, dense, whole.axes))
                own.append(np.zeros(len(dense), dtype=int) if cell is None else dense[:, *at])
            values = np.array(own).T
            rows += [(rate(scale, measure), [*line.tolist(), 0]) for line in values]
    # Records in the same cells lose the same.
    values = np.array([line for _, line in rows], dtype=np.int64).reshape(len(rows), -1)
    values, steps = np.unique(values[:, records], axis=1), [step for step, _ in rows]
    others = values.T if pairs else np.zeros((1, len(rows)), dtype=np.int64)
    moved = abs(values.T[:, None, :] - others[None, :, :]) ** power
    different = np.unique(moved.reshape(-1, len(rows)), axis=0).tolist()
    return max(
        (
            sum((s * m for s, m in zip(steps, one, strict=True) if m), Fraction(0))
            for one in different
        ),
        default=Fraction(0),
    )


def _joint(lineage: Any, era: int, axis: str, code: int, dense: Any, axes: Sequence[str]) -> int:
    """A cell with the code. Rows do not tell cells of one code apart."""
    if not era:
        return code
    found = next(one for one in lineage.migrations[era - 1].axes if one.name == axis)
    if found.new is None:
        return code
    cells = [n for n, own in enumerate(found.new) if own == code]
    place = 1 + list(axes).index(axis)
    first = dense.take(cells[0], place)
    assert all((dense.take(n, place) == first).all() for n in cells)
    return cells[0]


def check_spent(world: World, asked: Asked, *policies: Policy, pairs: bool = False) -> None:
    expected = losses(world, policies, pairs)
    assert 0 <= asked.spent - expected <= Fraction(10_000, UNIT)


class Change(NamedTuple):
    """A row of the table of changes: ``asked`` before, and how the same is ``known`` since."""

    columns: dict[str, tuple[str, Sequence[Any]]]
    before: dict[str, Any]
    since: dict[str, Any]
    asked: dict[str, str]
    later: Sequence[str]


SEX = ("VARCHAR", ["F", "M", "X", "", None])
STATE = ("VARCHAR", ["AL", "AK", "TX", None])
AGE = ("DOUBLE", [-3.0, *np.arange(0, 11, 0.5).tolist(), 12.0, None, float("nan")])
WHOLE = ("INTEGER", [-3, 0, 1, 4, 5, 6, 7, 9, None])
ALL = {"other": True, "nullable": True}
F = "SELECT count(*) FROM person WHERE sex = 'F'"
BY_SEX = "SELECT sex, count(*) FROM person GROUP BY sex ORDER BY sex"
UNDER_5 = "SELECT count(*) FROM person WHERE age < 5"
OVER_5 = "SELECT count(*) FROM person WHERE age >= 5"

CHANGES = {
    "another label of other, and another order": Change(
        {"sex": SEX},
        {"sex": {"values": ["F", "M"], "other": "else"}},
        {"sex": {"values": ["M", "F"], "other": "neither"}},
        {F: F, "SELECT count(*) FROM person WHERE sex = 'else'":
            "SELECT count(*) FROM person WHERE sex = 'neither'"},
        [BY_SEX],
    ),
    "another name of an attribute": Change(
        {"sex": SEX},
        {"sex": {"values": ["F", "M"], **ALL}},
        {"gender": {"column": "sex", "values": ["F", "M"], **ALL}},
        {F: F.replace("sex", "gender")},
        [BY_SEX.replace("sex", "gender")],
    ),
    "attributes in another order": Change(
        {"sex": SEX, "age": WHOLE},
        {"sex": {"values": ["F", "M"], **ALL}, "age": {"range": [0, 6], **ALL}},
        {"age": {"range": [0, 7], **ALL}, "sex": {"values": ["F", "M"], **ALL}},
        {f"{F} AND age < 5 AND age >= 0": f"{F} AND age >= 0 AND age < 5",
         "SELECT age, sex, count(*) FROM person GROUP BY age, sex ORDER BY 1, 2 LIMIT 3":
         "SELECT age, sex, count(*) FROM person GROUP BY age, sex ORDER BY 1, 2 LIMIT 3"},
        ["SELECT age, sex, count(*) FROM person GROUP BY age, sex"],
    ),
    "a value added, formerly other": Change(
        {"sex": SEX},
        {"sex": {"values": ["F", "M"], "other": True}},
        {"sex": {"values": ["F", "M", "X"], "other": True}},
        {F: F, "SELECT count(*) FROM person WHERE sex = 'other'":
            "SELECT count(*) FROM person WHERE sex IN ('other', 'X')"},
        [BY_SEX],
    ),
    "a value added, formerly uncounted": Change(
        {"sex": SEX},
        {"sex": {"values": ["F", "M"]}},
        {"sex": {"values": ["F", "M", "X"]}},
        {F: F, COUNT: f"{COUNT} WHERE sex <> 'X'"},
        ["SELECT count(*) FROM person WHERE sex = 'X'", BY_SEX],
    ),
    "a value dropped into other": Change(
        {"sex": SEX},
        {"sex": {"values": ["F", "M", "X"], "other": True}},
        {"sex": {"values": ["F", "M"], "other": True}},
        {F: F, "SELECT count(*) FROM person WHERE sex IN ('X', 'other')":
            "SELECT count(*) FROM person WHERE sex = 'other'"},
        [BY_SEX],
    ),
    "a value dropped and counted no more": Change(
        {"sex": SEX, "state": STATE},
        {"sex": {"values": ["F", "M", "X"]}, "state": {"values": ["AL", "AK"], **ALL}},
        {"sex": {"values": ["F", "M"]}, "state": {"values": ["AL", "AK"], **ALL}},
        {F: F, f"{COUNT} WHERE sex <> 'X'": COUNT},
        [f"{COUNT} WHERE state = 'AL'", BY_SEX],
    ),
    "NULL dropped": Change(
        {"sex": SEX},
        {"sex": {"values": ["F", "M"], "nullable": True}},
        {"sex": {"values": ["F", "M"]}},
        {F: F, f"{COUNT} WHERE sex IS NOT NULL": COUNT},
        [BY_SEX],
    ),
    "finer bins": Change(
        {"age": AGE},
        {"age": {"bins": [0, 5, 10], **ALL}},
        {"age": {"bins": [0, 1, 5, 6, 10], **ALL}},
        {UNDER_5: UNDER_5, OVER_5: OVER_5},
        [f"{COUNT} WHERE age < 1", UNDER_5],
    ),
    "coarser bins": Change(
        {"age": AGE},
        {"age": {"bins": [0, 1, 5, 6, 10], **ALL}},
        {"age": {"bins": [0, 5, 10], **ALL}},
        {f"{COUNT} WHERE age < 1": "", UNDER_5: UNDER_5},
        [OVER_5, UNDER_5],
    ),
    "shifted bins": Change(
        {"age": AGE},
        {"age": {"bins": [0, 2, 4, 6, 8], **ALL}},
        {"age": {"bins": [1, 3, 5, 7, 9], **ALL}},
        {f"{COUNT} WHERE age < 4": "", COUNT: COUNT},
        [f"{COUNT} WHERE age < 5", f"{COUNT} WHERE age >= 7"],
    ),
    "a range for bins": Change(
        {"age": WHOLE},
        {"age": {"bins": [0, 5, 8], "clamp": True, "nullable": True}},
        {"age": {"range": [0, 7], "clamp": True, "nullable": True}},
        {UNDER_5: UNDER_5, OVER_5: OVER_5},
        [f"{COUNT} WHERE age = 4"],
    ),
    "an extended range with clamp": Change(
        {"age": AGE},
        {"age": {"range": [0, 6], "clamp": True, "nullable": True}},
        {"age": {"range": [0, 8], "clamp": True, "nullable": True}},
        {UNDER_5: UNDER_5, f"{COUNT} WHERE age = 6": "", COUNT: COUNT},
        [f"{COUNT} WHERE age IS NULL", f"{COUNT} WHERE age >= 7"],
    ),
    "an extended range with clamp, of what is whole": Change(
        {"age": WHOLE},
        {"age": {"range": [0, 6], "clamp": True}},
        {"age": {"range": [-1, 8], "clamp": True}},
        {f"{COUNT} WHERE age >= 6": f"{COUNT} WHERE age >= 6",
         f"{COUNT} WHERE age = 0": f"{COUNT} WHERE age <= 0"},
        [f"{COUNT} WHERE age >= 7"],
    ),
    "an extended range without clamp": Change(
        {"age": AGE},
        {"age": {"range": [0, 6], "nullable": True}},
        {"age": {"range": [0, 9], "nullable": True}},
        {UNDER_5: UNDER_5, COUNT: f"{COUNT} WHERE age <= 6 OR age IS NULL"},
        [f"{COUNT} WHERE age > 6", UNDER_5],
    ),
    "clamp on": Change(
        {"age": AGE},
        {"age": {"range": [0, 6], "nullable": True}},
        {"age": {"range": [0, 6], "clamp": True, "nullable": True}},
        {f"{COUNT} WHERE age BETWEEN 1 AND 4": f"{COUNT} WHERE age BETWEEN 1 AND 4"},
        [COUNT, f"{COUNT} WHERE age = 6"],
    ),
    "clamp and NULL off": Change(
        {"age": AGE, "state": STATE},
        {"age": {"range": [0, 6], "clamp": True, "nullable": True},
         "state": {"values": ["AL"], **ALL}},
        {"age": {"range": [0, 6]}, "state": {"values": ["AL"], **ALL}},
        {f"{COUNT} WHERE age BETWEEN 1 AND 4": f"{COUNT} WHERE age BETWEEN 1 AND 4"},
        [COUNT, f"{COUNT} WHERE state = 'AL'"],
    ),
    "an attribute added": Change(
        {"sex": SEX, "state": STATE},
        {"sex": {"values": ["F", "M"], **ALL}},
        {"state": {"values": ["AL", "AK"], **ALL}, "sex": {"values": ["F", "M"], **ALL}},
        {F: F, BY_SEX: BY_SEX},
        [f"{F} AND state = 'AL'"],
    ),
    "an attribute added that leaves records out": Change(
        {"sex": SEX, "state": STATE},
        {"sex": {"values": ["F", "M"], **ALL}},
        {"state": {"values": ["AL", "AK"]}, "sex": {"values": ["F", "M"], **ALL}},
        {F: ""},
        [f"{F} AND state = 'AL'", COUNT],
    ),
    "an attribute dropped": Change(
        {"sex": SEX, "state": STATE},
        {"sex": {"values": ["F", "M"], **ALL}, "state": {"values": ["AL"], "other": True}},
        {"sex": {"values": ["F", "M"], **ALL}},
        {F: F, f"{F} AND state = 'AL'": ""},
        [BY_SEX],
    ),
    "an attribute dropped that left records out": Change(
        {"sex": SEX, "state": STATE},
        {"sex": {"values": ["F", "M"], **ALL}, "state": {"values": ["AL", "AK"]}},
        {"sex": {"values": ["F", "M"], **ALL}},
        {F: "", f"{F} AND state = 'AL'": ""},
        [BY_SEX],
    ),
    "steps": Change(
        {"age": AGE},
        {"age": {"range": [0, 8], "step": 2, **ALL}},
        {"age": {"range": [0, 8], "step": 0.5, **ALL}},
        {f"{COUNT} WHERE age = 4": "", COUNT: COUNT},
        [f"{COUNT} WHERE age = 4.5", f"{COUNT} WHERE age = 4"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", one_in(2, CHANGES))
def test_what_was_answered_stays_answered_and_losses_add_up(name: str, tmp_path: Path) -> None:
    change = CHANGES[name]
    world = World(tmp_path, change.columns)
    before, since = world.policy(change.before), world.policy(change.since)
    kept = {old: new for old, new in change.asked.items() if new}
    with world.opened(before) as asked:
        asked(*change.asked, paid=0.5)
        known, spent = asked(*kept), asked.spent
    (done,) = world.migrate(since)
    assert (done.before.spent, done.after.spent, done.retires) == (spent, spent, False)
    with world.opened(since) as asked:
        assert asked(*kept.values()) == known
        assert asked.spent == spent
        asked(*change.later, paid=0.25)
        check_spent(world, asked, before, since)


def _losses_add_up(name: str, neighbours: str, budget: dict[str, float], folder: Path) -> None:
    change = CHANGES[name]
    world = World(folder, change.columns, budget=budget, neighbours=neighbours)
    since = world.policy(change.since)
    if not since.tables["person"].domain.complete:  # a public number of rows has to stay public
        world.keys["from"] = "SELECT * FROM people"
    before, since = world.policy(change.before), world.policy(change.since)
    world.ask(before, *change.asked, paid=0.1)
    world.migrate(since)
    with world.opened(since) as asked:
        asked(*change.later, paid=0.05)
        check_spent(world, asked, before, since, pairs=neighbours == "replace")


RHO = {"rho": 50.0, "delta": 1e-9}


@pytest.mark.parametrize("name", ["shifted bins", "a value dropped and counted no more"])
def test_losses_of_exchanges_in_rho(name: str, tmp_path: Path) -> None:
    _losses_add_up(name, "replace", RHO, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize(
    ("neighbours", "budget"),
    [("add_remove", RHO), ("replace", RHO), ("replace", {"epsilon": 50.0})],
)
def test_losses_of_every_kind(
    name: str, neighbours: str, budget: dict[str, float], tmp_path: Path
) -> None:
    _losses_add_up(name, neighbours, budget, tmp_path)


def _drawn(draw: random.Random) -> dict[str, Any]:
    """Attributes that nobody would declare."""
    more = draw.choice([{}, {"other": True}, {"nullable": True}, ALL])
    found: dict[str, Any] = {"sex": {"values": draw.sample("FMX", draw.randint(1, 3)), **more}}
    low, ends = draw.randint(-1, 2), draw.choice([{}, {"clamp": True}, {"other": True}])
    age = draw.choice(
        [
            {"range": [low, low + draw.randint(1, 3)]},
            {"bins": sorted(draw.sample(range(-1, 6), draw.randint(2, 4)))},
            {"range": [2 * low, 2 * low + 2], "step": draw.choice([0.5, 1, 2])},
        ]
    )
    found["age"] = age | ends | draw.choice([{}, {"nullable": True}])
    names = draw.sample(["sex", "age"], draw.choice([1, 2, 2, 2]))
    return {name: found[name] for name in names}


def _questions(draw: random.Random, names: Sequence[str]) -> Iterator[str]:
    for size in draw.sample(range(len(names) + 1), draw.randint(1, len(names))):
        by = ", ".join(draw.sample([*names], size))
        yield f"SELECT {by}, count(*) FROM person GROUP BY {by}" if by else COUNT


def _truth(world: World, policy: Policy, by: Sequence[str]) -> dict[tuple[Any, ...], int]:
    """The counts by these attributes, of the cells that the loader puts records in."""
    cube = load_cubes(policy, world.source, key=b"")["person"]
    found = dict[tuple[Any, ...], int]()
    for n, count in enumerate(cube._counts.counts.tolist()):
        axes = zip(cube.domain.attributes, cube._counts.codes, strict=True)
        cell = {axis.name: axis.cells[codes[n]] for axis, codes in axes}
        key = tuple(cell[name] for name in by)
        found[key] = found.get(key, 0) + count
    return found


@pytest.mark.parametrize(
    "seed", [*range(2), *(pytest.param(n, marks=pytest.mark.slow) for n in range(2, 60))]
)
def test_what_history_knows_over_any_migrations_is_true(seed: int, tmp_path: Path) -> None:
    """With a cost at which noise is 0, as good as always: what is known has no other value."""
    draw = random.Random(seed)
    ages = [*np.arange(-2, 7, 0.25).tolist(), None]
    columns = {"sex": ("VARCHAR", ["F", "M", "X", "?", None]), "age": ("DOUBLE", ages)}
    world = World(tmp_path, columns, budget={"epsilon": 10_000.0})
    known, before = 0, ""
    for number in range(3):
        policy = world.policy(_drawn(draw))
        if policy.tables["person"].fingerprint == before:
            continue
        before = policy.tables["person"].fingerprint
        if number:
            world.migrate(policy)
        names = policy.tables["person"].domain.names
        with world.opened(policy) as asked:
            for size in range(len(names) + 1):
                for by in itertools.combinations(names, size):
                    keys = ", ".join((*by, "count(*)"))
                    sql = f"SELECT {keys} FROM person" + (
                        f" GROUP BY {', '.join(by)}" if by else ""
                    )
                    truth = _truth(world, policy, by)
                    for *key, count in asked(sql)[0]:
                        known += count is not None
                        assert count in (None, truth.get(tuple(key), 0)), (sql, key)
            for sql in _questions(draw, names):
                asked(sql, paid=60)
    assert known or seed > 1


@pytest.mark.parametrize(
    "seed", [*range(2), *(pytest.param(n, marks=pytest.mark.slow) for n in range(2, 60))]
)
def test_losses_over_any_migrations(seed: int, tmp_path: Path) -> None:
    draw = random.Random(seed)
    replaced, unit = draw.random() < 0.4, draw.choice(["epsilon", "rho"])
    budget = {"rho": 50.0, "delta": 1e-9} if unit == "rho" else {"epsilon": 90.0}
    ages = [*np.arange(-2, 7, 0.25).tolist(), None]
    world = World(
        tmp_path,
        {"sex": ("VARCHAR", ["F", "M", "X", "?", None]), "age": ("DOUBLE", ages)},
        budget=budget,
        neighbours="replace" if replaced else "add_remove",
        **{"from": "SELECT * FROM people"},
    )
    policies = list[Policy]()
    for number in range(3):
        policy = world.policy(_drawn(draw))
        known = [one.tables["person"].fingerprint for one in policies]
        if known[-1:] == [policy.tables["person"].fingerprint]:
            continue
        policies.append(policy)
        if number:
            world.migrate(policy)
        with world.opened(policy) as asked:
            names = policy.tables["person"].domain.names
            asked(*_questions(draw, names), paid=draw.choice([0.25, 1]))
            check_spent(world, asked, *policies, pairs=replaced)
