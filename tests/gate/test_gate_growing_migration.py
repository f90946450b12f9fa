"""Migrations of tables that grow: days that are over are lifted to the cells of now."""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import numpy as np
import pytest

from tallyveil.accountant import Ledger
from tallyveil.accountant.migrations import Lineage, lineages
from tallyveil.accountant.store.event_codec import decode_charge
from tallyveil.accountant.store.ledger_records import ChargeRecord
from tallyveil.cli.migration import migrate
from tallyveil.cli.serving.schedule import publish_due
from tallyveil.errors import (
    FeatureNotSupported,
    InvalidParameterValue,
    LedgerError,
    LedgerMismatch,
    SourceError,
)
from tallyveil.mechanisms.noise.calibrate import rate
from tallyveil.mechanisms.units import UNIT
from tests.gate.growing_visits import EXACT, FIRST, Row, Visits, day
from tests.pairs import alternately, one_in

ROWS: list[Row] = [(n, kind, n % 3, late) for n in range(8) for kind in range(5) for late in (0, 3)]
WARDS = "nswxy"


@pytest.fixture
def visits(tmp_path: Path) -> Visits:
    made = Visits(tmp_path)
    made.fill(ROWS)
    return made


def carry(visits: Visits, *recoded: str, yes: bool = True) -> list[str]:
    return list(migrate(visits.folder / "policy.toml", False, recoded, yes=yes).lines)


def counts(visits: Visits) -> Counter[tuple[int, int]]:
    with visits.open() as connection:
        return visits.counts(connection)


def ward(*values: str, **keys: str) -> str:
    more = "".join(f", {name} = {value}" for name, value in keys.items())
    return f'kind = {{ column = "ward", values = {[*values]}{more} }}'


class Change(NamedTuple):
    """What was ``asked`` is ``known`` since, of days that are over; ``over`` is how the records of
    such a day are counted since, and ``later`` those of other days, - for not."""

    before: str
    since: str
    asked: str
    known: str
    over: str
    later: str


CHANGES = {
    "another order and another label of other": Change(
        ward("n", "s", other='"else"'),
        ward("s", "n", other='"more"'),
        "kind = 'else'",
        "kind = 'more'",
        "n s more more more",
        "n s more more more",
    ),
    "another name": Change(
        ward("n", "s", other="true"),
        ward("n", "s", other="true").replace("kind", "which", 1),
        "kind = 'n'",
        "which = 'n'",
        "n s other other other",
        "n s other other other",
    ),
    "a value that had no cell": Change(
        ward("n", "s"),
        ward("n", "w", "s"),
        "kind <> 'n'",
        "kind = 's'",
        "n s - - -",
        "n s w - -",
    ),
    "a value that is counted no more": Change(
        ward("n", "s", "w"),
        ward("s", "n"),
        "kind <> 'w'",
        "kind IN ('n', 's')",
        "n s - - -",
        "n s - - -",
    ),
    "a value that is other": Change(
        ward("n", "s", "w", other="true"),
        ward("n", "s", other="true"),
        "kind IN ('w', 'other')",
        "kind = 'other'",
        "n s other other other",
        "n s other other other",
    ),
    "joined bins": Change(
        "kind = { bins = [0, 1, 2, 4, 5] }",
        "kind = { bins = [0, 2, 5] }",
        "kind < 2",
        "kind < 2",
        "0 0 2 2 2",
        "0 0 2 2 2",
    ),
    "bins of a range, which reach further": Change(
        "kind = { range = [0, 2] }",
        "kind = { bins = [0, 2, 3, 5] }",
        "kind <= 1",
        "kind < 2",
        "0 0 2 - -",
        "0 0 2 3 3",
    ),
}


@pytest.mark.parametrize("change", one_in(2, CHANGES.values()), ids=[*CHANGES])
def test_days_that_are_over_are_lifted_and_what_was_answered_stays(
    visits: Visits, change: Change
) -> None:
    visits.declare(kind=change.before)
    visits.publish(2)
    total = f"SELECT count(*) FROM visits WHERE day <= '{day(2)}' AND "
    with visits.open("SET dp.epsilon = 0.5") as connection:
        connection.execute(total + change.asked)
        connection.execute("SET dp.source = history")
        answers = connection.execute(total + change.asked).fetchall()
    sealed = {path.name: path.read_bytes() for path in _slices(visits)}
    visits.declare(kind=change.since, days=25)
    with pytest.raises(LedgerMismatch, match="belongs to another declaration"):
        visits.open()
    assert "answers that are kept: 1" in " ".join(carry(visits))
    visits.fill([row for row in ROWS if row[0] > 2])  # closed days are not read again
    with visits.open("SET dp.source = history") as connection:
        assert connection.execute(total + change.known).fetchall() == answers
        ((spent,),) = connection.execute("SELECT spent FROM dp.budget").fetchall()
        assert spent == 0.5
    visits.publish(4)
    assert sealed.items() <= {path.name: path.read_bytes() for path in _slices(visits)}.items()
    name = change.since.split()[0]
    for _ in range(2):  # as published, and as read again
        with visits.open(EXACT) as connection:
            sql = f"SELECT day, {name}, count(*) FROM visits GROUP BY day, {name}"
            counted = connection.execute(sql).fetchall()
        found = Counter({((d - FIRST).days, str(kind)): n for d, kind, n in counted if n})
        each = {n: change.over if n <= 2 else change.later for n in range(5)}
        wanted = Counter((n, kind) for n in range(5) for kind in each[n].split() if kind != "-")
        assert found == wanted


def _slices(visits: Visits) -> list[Path]:
    return [*(visits.folder / "visits.ledger.slices").glob("*.slice")]


def test_a_value_that_is_declared_again_has_not_lost_nothing(visits: Visits) -> None:
    """Also of the day that was published while it was not declared."""
    three, two = ward("n", "s", "w"), ward("s", "n")
    west = "SELECT count(*) FROM visits WHERE kind = 'w'"
    visits.declare(kind=three)
    visits.publish(1)
    with visits.open("SET dp.epsilon = 2") as connection:
        known = connection.execute(west).fetchall()
    visits.declare(kind=two)
    carry(visits)
    visits.publish(2)
    visits.declare(kind=three)
    carry(visits)
    with visits.open("SET dp.source = history") as connection:
        assert connection.execute(f"{west} AND day <= '{day(1)}'").fetchall() == known
        connection.execute("SET dp.source = fresh")
        connection.execute("SET dp.epsilon = 3")
        connection.execute(west)
        assert connection.execute("SELECT spent FROM dp.budget").fetchall() == [(5,)]
    assert counts(visits) == Counter({(n, kind): 1 for n in range(3) for kind in "nsw"})


KEPT = ward("n", "s", other="true")
REFUSED: list[tuple[dict[str, str | int], str, str]] = [
    ({"data": 'append = "day", late = 1, arrived = "loaded"'}, r"data\.late has", "Put data.late"),
    ({"unit": '{ column = "pid", max_rows = 1 }'}, "privacy_unit has changed", "Put privacy_unit"),
    ({"more": 'neighbours = "replace"'}, "neighbours has changed", "Put neighbours back"),
    ({"more": 'from = "SELECT * FROM visits"'}, "from has changed", "Put from back"),
    ({"days": 19}, r"attributes\.day lacks days of before", "extended at its end"),
    ({"kind": ward("n", "s", "w", other="true")},
     r'kind divides the records of "other" among "w" and "other"', "--recoded visits.kind"),
    ({"kind": ward("n", other="true").replace("ward", "day")}, "another column", "column back"),
    ({"kind": f"{KEPT}\n pid = {{ range = [0, 2] }}"}, r"attributes\.pid is new", "Leave it out"),
]  # fmt: skip


@pytest.mark.parametrize(("since", "message", "hint"), REFUSED)
def test_what_slices_do_not_tell_is_refused_and_changes_nothing(
    visits: Visits, since: dict[str, Any], message: str, hint: str
) -> None:
    visits.declare(kind=KEPT)
    visits.publish(2)
    before = {path.name: path.read_bytes() for path in visits.folder.iterdir() if path.is_file()}
    visits.declare(**{"kind": KEPT, **since})
    with pytest.raises(FeatureNotSupported, match=message) as refused:
        carry(visits)
    assert hint in (refused.value.hint or "")
    visits.declare(kind=KEPT)
    after = {path.name: path.read_bytes() for path in visits.folder.iterdir() if path.is_file()}
    assert after == before


def test_labels_that_the_source_writes_since_are_vouched_for(visits: Visits) -> None:
    visits.declare(kind=KEPT)
    visits.publish(2)
    visits.declare(kind=ward("w", "s", other="true"))
    with pytest.raises(FeatureNotSupported, match="divides"):
        carry(visits)
    carry(visits, "visits.kind:n=w")
    visits.publish(3)
    found = counts(visits)
    assert {kind: found[2, kind] for kind in ("w", "s", "other")} == {"w": 1, "s": 1, "other": 3}
    assert {kind: found[3, kind] for kind in ("w", "s", "other")} == {"w": 1, "s": 1, "other": 3}
    with pytest.raises(InvalidParameterValue, match="cannot be counted once more"):
        visits.publish(None, recount=True)  # a row of before may still have its former label


@pytest.mark.parametrize("per", ["", ', per = "day", window = 2'])
def test_rows_of_a_unit_stay_those_that_were_kept(visits: Visits, per: str) -> None:
    """A row without a cell uses up its unit, and gives it no other row when it has a cell."""
    unit = f'{{ column = "pid", max_rows = 1{per} }}'
    visits.fill([(0, 0, 1, 0), (0, 2, 2, 0), (1, 0, 2, 0), (1, 2, 3, 0), (1, 1, 1, 0)])
    visits.declare(unit=unit, kind=ward("n", "s"))
    visits.publish(0)
    assert counts(visits) == {(0, "n"): 1}
    visits.declare(unit=unit, kind=ward("w", "s", "n"))
    assert any("no cell of kind before" in line for line in carry(visits))
    visits.publish(1)
    more = {(1, "n"): 1, (1, "s"): 1} if per else {}
    assert counts(visits) == {(0, "n"): 1, (1, "w"): 1, **more}


def test_an_attribute_that_is_dropped_leaves_the_others(visits: Visits) -> None:
    """Also the number of units, and what a server publishes by the clock."""
    unit, more = (
        '{ column = "pid", max_rows = 20 }',
        'late = { range = [0, 4], column = "kind", other = true }',
    )
    data = 'append = "day", late = 2, arrived = "loaded", publish = 00:00:00'
    units = "SELECT count(DISTINCT pid) FROM visits WHERE kind = 'n'"
    visits.declare(unit=unit, data=data, kind=f"{KEPT}\n{more}")
    visits.publish(2)
    with visits.open() as connection:
        known = connection.execute(units).fetchall()
        connection.execute("SELECT late, count(*) FROM visits GROUP BY late")
    visits.declare(unit=unit, data=data, kind=KEPT)
    lines = "; ".join(carry(visits))
    assert "late is no attribute any more" in lines
    assert "answers that are kept: 2" in lines
    with visits.open("SET dp.source = history") as connection:
        assert connection.execute(units).fetchall() == known
        publish_due(connection._gate, dt.datetime(2026, 1, 7, tzinfo=dt.UTC))
        assert connection.execute("SELECT max(through) FROM dp.versions").fetchall() == [(day(3),)]
        connection.execute("SET dp.source = auto")
        found = visits.counts(connection)
        each = {(n, k): 3 if k == "other" else 1 for n in range(4) for k in ("n", "s", "other")}
        assert found == each
        assert connection.execute(units).fetchall() == [(3,)]
    visits.declare(unit=unit, data=data, kind=f"{KEPT}\n{more}")
    with pytest.raises(FeatureNotSupported, match=r"attributes\.late is new"):
        carry(visits)


def test_days_are_counted_once_more_only_as_they_were(visits: Visits) -> None:
    visits.declare(kind=ward("n", "s"))
    visits.publish(2)
    visits.declare(kind=ward("s", "n"))
    carry(visits)
    visits.fill([row for row in ROWS if row[2] != 1])
    visits.publish(None, recount=True)
    left = {(n, WARDS[kind]): 1 for n, kind, person, late in ROWS
            if n <= 2 and kind < 2 and person != 1 and not late}  # fmt: skip
    assert counts(visits) == left
    visits.declare(kind=ward("n", "s", "w"))
    carry(visits)
    assert counts(visits) == left
    with pytest.raises(InvalidParameterValue, match=r"migrated \(kind\), records"):
        visits.publish(None, recount=True)


def test_plans_go_on(visits: Visits) -> None:
    plan = """
    [tables.visits.plans.board]
    by = ["kind"]
    tiles = ["day"]
    budget = { epsilon = 10 }
    """
    visits.declare(kind=ward("n", "s", "w"), more=plan)
    visits.publish(1)
    visits.declare(kind=ward("n", "w"), more=plan)
    carry(visits)
    visits.publish(3)
    with visits.open("SET dp.source = history") as connection:
        sql = "SELECT day, kind, count(*) FROM visits GROUP BY day, kind"
        assert {n for *_, n in connection.execute(sql).fetchall()} == {1}
        total = "SELECT day, count(*) FROM visits GROUP BY day"
        assert {n for _, n in connection.execute(total).fetchall()} == {2}
        assert connection.execute("SELECT spent < 10 FROM dp.budget").fetchall() == [(True,)]


PERSON = """
    [views.wards]
    sql = "SELECT * FROM person"
    [views.recent]
    sql = "SELECT * FROM VISITS WHERE day > '2026-01-02'"
    [views.late]
    sql = "SELECT * FROM recent WHERE kind = 'n'"
    [tables.person]
    from = "SELECT * FROM visits"
    beside = ["visits"]
    budget = {{ epsilon = 1.0 }}
    neighbours = "replace"
    invariants = [{{ sql = "SELECT ward, count(*) FROM wards GROUP BY ward", acknowledge = [] }}]
    [tables.person.attributes]
    ward = {{ values = {}, other = true }}
    kind = {{ range = [0, 4] }}
"""


def test_views_over_it_stay_where_another_table_has_exact_counts(visits: Visits) -> None:
    visits.declare(kind=KEPT, more=PERSON.format('["n", "s"]'))
    with visits.open() as connection:
        connection.execute("SELECT count(*) FROM late")
    visits.declare(kind=ward("s", other="true"), more=PERSON.format('["s"]'))
    with pytest.raises(LedgerMismatch, match="no longer declares an invariant"):
        carry(visits)
    visits.declare(kind=ward("s", other="true"), more=PERSON.format('["s", "n"]'))
    assert [line for line in carry(visits) if line.endswith(":")] == ["visits:", "person:"]
    with visits.open() as connection:
        connection.execute("SELECT count(*) FROM late")
        exact = connection.execute("SELECT ward, count(*) FROM wards GROUP BY ward").fetchall()
    assert dict(exact) == {"n": 16, "s": 16, "other": 48}


def test_a_process_that_serves_is_noticed(visits: Visits) -> None:
    visits.declare(kind=KEPT)
    visits.publish(1)
    with visits.open() as connection:
        visits.declare(kind=ward("s", other="true"))
        with pytest.raises(LedgerError, match="is in use"):
            carry(visits)
        assert len(visits.counts(connection)) == 6
    carry(visits)


class Declared(NamedTuple):
    """Bins of whole numbers, and whether there is a cell for all others."""

    edges: tuple[int, ...]
    other: bool

    @property
    def text(self) -> str:
        more = ", other = true" if self.other else ""
        return f"kind = {{ bins = {[*self.edges]}{more} }}"

    def code(self, kind: int) -> int | None:
        if self.edges[0] <= kind < self.edges[-1]:
            return sum(edge <= kind for edge in self.edges) - 1
        return len(self.edges) - 1 if self.other else None

    def value(self, kind: int) -> str | None:
        code = self.code(kind)
        return None if code is None else [*map(str, self.edges[:-1]), "None"][code]


KINDS = range(-2, 9)


def follows(known: Sequence[Declared], since: Declared) -> bool:
    """Whether the new cell of every record that was counted is that of all like it."""
    each: dict[Any, set[int | None]] = {}
    for kind in KINDS:
        each.setdefault(tuple(one.code(kind) for one in known), set()).add(since.code(kind))
    each.pop((None,) * len(known), None)
    return all(len(codes) == 1 for codes in each.values())


@pytest.mark.parametrize(
    "seed", [*range(2), *(pytest.param(n, marks=pytest.mark.slow) for n in range(2, 60))]
)
def test_losses_and_counts_over_any_migrations_and_versions(visits: Visits, seed: int) -> None:
    draw = random.Random(seed)
    relation, unit = draw.choice(["add_remove", "replace"]), draw.choice(["epsilon", "rho"])
    budget = "epsilon = 1e6" if unit == "epsilon" else "rho = 1e6, delta = 1e-9"
    visits.fill([(n, kind, 0, 0) for n in range(4) for kind in KINDS])
    chain, eras, through = list[Declared](), list[int](), -1

    def declare(one: Declared) -> None:
        more = f'neighbours = "{relation}"'
        visits.declare(kind=one.text, budget=budget, days=4 + len(chain), more=more)

    def drawn() -> Declared:
        edges = draw.sample(range(6), draw.randint(2, 4))
        return Declared(tuple(sorted(edges)), draw.random() < 0.5)

    for number in range(3):
        found = drawn()
        for _ in range(200):
            if found not in chain and (not chain or follows(chain, found)):
                break
            found = drawn()
        else:
            break
        if chain and draw.random() < 0.5:
            wrong = next((w for w in (drawn() for _ in range(99)) if not follows(chain, w)), None)
            if wrong is not None:
                declare(wrong)
                with pytest.raises(FeatureNotSupported, match="divides the records"):
                    carry(visits)
        declare(found)
        if chain:
            carry(visits)
        chain.append(found)
        if not number or draw.random() < 0.8:
            visits.publish(through + 1)
            eras.append(number)
            through += 1
        with visits.open("SET dp.source = fresh", f"SET dp.{unit} = 1") as connection:
            for sql in draw.sample(ASKED, 2):
                connection.execute(sql)
            spent = connection._gate.accountant.balance("visits").spent
            assert losses(visits, chain, eras, relation, unit, counted=True) <= spent
            most = losses(visits, chain, eras, relation, unit, counted=False)
            assert 0 <= spent - most <= Fraction(10_000, UNIT)
    wanted = Counter(
        (n, value)
        for n, era in enumerate(eras)
        for kind in KINDS
        if any(one.code(kind) is not None for one in chain[: era + 1])
        and (value := chain[-1].value(kind)) is not None
    )
    with visits.open("SET dp.source = fresh", f"SET dp.{unit} = 1e5") as connection:
        sql = "SELECT day, kind, count(*) FROM visits GROUP BY day, kind"
        found_now = connection.execute(sql).fetchall()
        assert Counter({((d - FIRST).days, str(k)): n for d, k, n in found_now if n}) == wanted


ASKED = [
    "SELECT kind, count(*) FROM visits GROUP BY kind",
    "SELECT day, count(*) FROM visits GROUP BY day",
    "SELECT day, kind, count(*) FROM visits GROUP BY day, kind",
    "SELECT count(*) FROM visits",
    f"SELECT kind, count(*) FROM visits WHERE day <> '{FIRST}' GROUP BY kind",
]


def losses(
    visits: Visits, chain: Sequence[Declared], eras: Sequence[int], relation: str, unit: Any,
    counted: bool,
) -> Fraction:  # fmt: skip
    """The most that a record has lost, or that an exchange of two has, by brute force. Of records
    that have no cell on the day they are published, with ``counted`` as it is, without as if they
    were counted once they have a cell."""
    records = [(kind, n) for kind in KINDS for n in range(4)]
    with closing(Ledger(visits.folder / "visits.ledger")) as ledger, ledger.snapshot() as view:
        lineage = lineages(view)["visits"]
        charges = [(end.number, one) for one, end in view.after(ChargeRecord)]
    ends = [one.ends["charge"] for one in lineage.migrations]
    steps, lines = list[Fraction](), list[Any]()
    for number, stored in charges:
        era = sum(1 for end in ends if end < number)
        charge = decode_charge("visits", stored.mechanism, stored.columns)
        for column, scale in zip(charge.workload.columns, charge.scales, strict=True):
            whole = column.multiplied_out(10**6)
            assert whole is not None
            dense = whole.dense().reshape(-1, *whole.shape)
            values = np.zeros((len(records), len(dense)), dtype=np.int64)
            for place, (kind, n) in enumerate(records):
                code = chain[era].code(kind)
                known = n < len(eras) and chain[: eras[n] + 1]
                met = bool(known) and any(one.code(kind) is not None for one in known)
                if code is not None and (met or not counted):
                    at = {"kind": _joint(lineage, era, code), "day": n}
                    values[place] = dense[:, *(at[axis] for axis in whole.axes)]
            lines += values.T.tolist()
            steps += [rate(scale, unit)] * len(dense)
    table = np.array([[*line, 0] for line in lines], dtype=np.int64).T
    others = table if relation == "replace" else table[-1:]
    moved = abs(table[:, None, :] - others[None, :, :]) ** (2 if unit == "rho" else 1)
    different = np.unique(moved.reshape(-1, len(steps)), axis=0).tolist()
    return max(
        sum((s * m for s, m in zip(steps, one, strict=True)), Fraction(0)) for one in different
    )


def _joint(lineage: Lineage, era: int, code: int) -> int:
    """A cell of the code: rows do not tell them apart."""
    if not era:
        return code
    axis = next(one for one in lineage.migrations[era - 1].axes if one.name == "kind")
    return code if axis.new is None else axis.new.index(code)


ADDED = [
    (ward("n", "s"), ward("n", "w", "s"), "kind = 'w'"),
    ("kind = { range = [0, 1] }", "kind = { range = [0, 4] }", "kind > 1"),
    ("kind = { bins = [0, 1, 2] }", "kind = { bins = [0, 1, 2, 5] }", "kind >= 2"),
    (ward("n", "s"), ward("n", "s", "x", nullable="true"), "kind = 'x' OR kind IS NULL"),
]
TOTALS = (
    "SELECT count(*) FROM visits WHERE day <= '2026-01-04'",
    "SELECT day, count(*) FROM visits WHERE day <= '2026-01-04' GROUP BY day ORDER BY day",
)


@pytest.mark.parametrize(("before", "since", "added"), one_in(2, ADDED))
def test_a_value_that_is_counted_from_now_on_takes_no_answer_from_days_before(
    visits: Visits, before: str, since: str, added: str
) -> None:
    """Nobody had it on these days, so totals that mention no value are what they were, and how many
    have it is exactly 0."""
    visits.declare(kind=before)
    visits.publish(3)
    with visits.open("SET dp.epsilon = 0.5") as connection:
        _ = [connection.execute(sql).fetchall() for sql in TOTALS]
        known = [connection.execute(sql).fetchall() for sql in TOTALS]
    visits.declare(kind=since)
    carry(visits)
    for through in (None, 5):
        if through is not None:
            visits.publish(through)
        with visits.open("SET dp.source = history") as connection:
            assert [connection.execute(sql).fetchall() for sql in TOTALS] == known
            none = f"SELECT count(*) FROM visits WHERE ({added}) AND day <= '2026-01-04'"
            assert connection.execute(none).fetchall() == [(0,)]
            assert "exact, from public facts; free" in connection.notices[-1].message
    with visits.open(EXACT) as connection:
        found = connection.sql(f"SELECT day, count(*) FROM visits WHERE {added} GROUP BY day")
        assert {own for own, n in found.fetchall() if n > 0} == {day(4), day(5)}


def test_very_many_new_values_leave_a_table_that_can_be_asked(visits: Visits) -> None:
    """More than a statement could tell apart by day."""
    visits.declare(kind="kind = { range = [0, 1] }", days=3_650)
    visits.publish(3)
    visits.declare(kind="kind = { range = [0, 1_999] }", days=3_650)
    carry(visits)
    visits.publish(5)
    with visits.open(EXACT) as connection:
        ((every,),) = connection.execute("SELECT count(*) FROM visits").fetchall()
        assert every == sum(n for n in visits.counts(connection).values() if n > 0) > 0


@pytest.mark.parametrize(
    ("by", "budget"), alternately(["[]", '["kind"]'], ["epsilon = 3", "rho = 3, delta = 1e-6"])
)
def test_a_plan_goes_on_over_values_that_are_counted_from_now_on(
    visits: Visits, budget: str, by: str
) -> None:
    """What it bought before and what it buys since add up to the year so far."""
    own = "epsilon = 2.5" if "rho" not in budget else "rho = 2.5"
    plan = (
        f'\n[tables.visits.plans.board]\nby = {by}\ntiles = ["day", "week", "year"]\n'
        f"budget = {{ {own} }}\n"
    )
    policy = visits.folder / "policy.toml"
    year = "SELECT count(*) FROM visits"
    visits.declare(kind=ward("n", "s"), budget=budget)
    policy.write_text(policy.read_text() + plan)
    visits.publish(3)
    with visits.open("SET dp.source = history") as connection:
        ((before,),) = connection.execute(year).fetchall()
        assert before is not None
    visits.declare(kind=ward("n", "s", "w"), budget=budget)
    policy.write_text(policy.read_text() + plan)
    carry(visits)
    with visits.open("SET dp.source = history") as connection:
        assert connection.execute(year).fetchall() == [(before,)]
    visits.publish(5)
    with visits.open("SET dp.source = history") as connection:
        ((since,),) = connection.execute(year).fetchall()
        assert since is not None
        by_day = connection.execute("SELECT day, count(*) FROM visits GROUP BY day").fetchall()
        assert len(by_day) == 6
        assert all(n is not None for _, n in by_day)


@pytest.mark.parametrize("file", ["visits.parquet", "visits.duckdb"])
def test_what_a_source_writes_in_another_way_is_written_back_in_it(
    visits: Visits, file: str
) -> None:
    """The labels, and the type of the units, as the hints say: in the file, or by a view in it."""

    def declare(kind: str) -> None:
        visits.declare(unit='{ column = "pid", max_rows = 8 }', kind=kind)
        policy = visits.folder / "policy.toml"
        policy.write_text(policy.read_text().replace("visits.parquet", file))

    def write(*steps: str) -> None:
        with duckdb.connect(visits.folder / "visits.duckdb") as source:
            for step in steps:
                source.execute(step)
            if file.endswith("parquet"):
                source.execute(f"COPY visits TO '{visits.folder / file}'")

    visits.fill([(n, kind, 3 * n + kind, 0) for n in range(4) for kind in range(3)])
    declare(ward("n", "s", other="true"))
    write(f"CREATE TABLE visits AS FROM '{visits.folder / 'visits.parquet'}'")
    visits.publish(1)
    others = "SELECT * REPLACE (pid::VARCHAR AS pid, upper(ward) AS ward) FROM raw"
    write("ALTER TABLE visits RENAME TO raw", f"CREATE TABLE visits AS {others}")
    way = "in its file, or in a DuckDB file by a view in place of the table, under its name"
    with pytest.raises(SourceError, match="its type has changed") as cast:
        visits.publish(2)
    assert f"Cast it to the former type in the source: {way}" in (cast.value.hint or "")
    declare(ward("N", "S", other="true"))
    for recoded in ((), ("visits.kind:n=N", "visits.kind:s=S")):
        with pytest.raises(FeatureNotSupported) as refused:
            carry(visits, *recoded)
        assert f"write them in the source: {way}" in (refused.value.hint or "")
        assert "--recoded" not in (refused.value.hint or "")
    declare(ward("n", "s", other="true"))
    former = "SELECT * REPLACE (pid::INTEGER AS pid, lower(ward) AS ward) FROM changed"
    write("ALTER TABLE visits RENAME TO changed", f"CREATE VIEW visits AS {former}")
    visits.publish(3)
    assert counts(visits) == {(n, kind): 1 for n in range(4) for kind in ("n", "s", "other")}
