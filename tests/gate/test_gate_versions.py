"""Data that grows by days: what a version shows, what it costs, and what changes nothing."""

from __future__ import annotations

import datetime as dt
import os
import shutil
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

import tallyveil
from tallyveil.accountant.store.event_codec import decode_charge
from tallyveil.accountant.store.ledger_records import ChargeRecord
from tallyveil.cli.publishing import publish
from tallyveil.cli.serving.schedule import publish_due, warn
from tallyveil.errors import (
    BudgetExceeded,
    InvalidParameterValue,
    LedgerError,
    LedgerMismatch,
    PolicyError,
    SourceError,
)
from tallyveil.gate.growth import joint_slices
from tallyveil.policy import load_policy
from tallyveil.policy.policy_summary import summary
from tests.dense_rows import dense_rows
from tests.gate.growing_visits import EXACT, FIRST, Visits, day, random_rows
from tests.pairs import alternately, one_in
from tests.programs import called


@pytest.fixture
def visits(tmp_path: Path) -> Visits:
    return Visits(tmp_path)


def test_a_version_counts_the_days_that_are_over_of_rows_that_arrived_in_time(
    visits: Visits,
) -> None:
    rows = random_rows(np.random.default_rng(1), 200)
    visits.fill(rows)
    for through in (3, 4, 8):
        visits.publish(through)
        counted = Counter((n, kind) for n, kind, _, late in rows if n <= through and late <= 2)
        assert visits.counts() == counted


def test_what_was_answered_stays_answered(visits: Visits) -> None:
    visits.fill(random_rows(np.random.default_rng(2), 300))
    by_day = "SELECT day, count(*) FROM visits GROUP BY day ORDER BY day"
    visits.publish(3)
    with visits.open("SET dp.epsilon = 0.5") as connection:
        before = connection.execute(by_day).fetchall()
        assert [d for d, _ in before] == [day(n) for n in range(4)]
        visits.publish(5)
        after = connection.execute(by_day).fetchall()
        assert after[:4] == before
        assert len(after) == 6
        assert "for 2 of the 6 different numbers" in connection.notices[0].message
        assert "days through 2026-01-06 are counted (version 2)" in connection.notices[-1].message
        ((spent,),) = connection.execute("SELECT spent FROM dp.budget").fetchall()
        assert spent == 0.5  # no day lost more than once
    with visits.open() as connection:
        assert connection.execute(by_day).fetchall() == after


def test_days_that_are_not_over_are_exactly_0_and_free(visits: Visits) -> None:
    visits.fill(random_rows(np.random.default_rng(3), 100))
    visits.publish(3)
    with visits.open() as connection:
        later = f"SELECT count(*) FROM visits WHERE day > '{day(3)}'"
        assert connection.execute(later).fetchall() == [(0,)]
        warning, notice, *_ = connection.notices
        assert warning.hint == f"Days after {day(3)} are not counted yet."
        assert "free" in notice.message
        ((spent,),) = connection.execute("SELECT spent FROM dp.budget").fetchall()
        assert spent == 0


def test_late_and_corrected_rows_change_nothing_that_was_counted(visits: Visits) -> None:
    """Neither where the rule is the rows' own, nor where what was counted is all that is known."""
    for data in ('append = "day", late = 2, arrived = "loaded"', 'append = "day"'):
        for left in visits.folder.glob("visits.ledger*"):
            visits.folder.joinpath(left).unlink() if left.is_file() else _empty(left)
        visits.declare(data=data)
        visits.fill([(0, 0, 1, 0), (1, 1, 2, 0)])
        visits.publish(1)
        assert visits.counts() == {(0, 0): 1, (1, 1): 1}
        # A row of day 0 comes late, one is deleted, one is dated anew, and day 2 is as usual.
        visits.fill([(0, 0, 3, 9), (2, 1, 2, 0), (2, 2, 4, 1)])
        visits.publish(2)
        assert visits.counts() == {(0, 0): 1, (1, 1): 1, (2, 1): 1, (2, 2): 1}


def _empty(folder: Path) -> None:
    for each in folder.iterdir():
        each.unlink()
    folder.rmdir()


@pytest.mark.parametrize("seed", one_in(2, range(4), first=1))
@pytest.mark.parametrize(
    ("unit", "most", "each_day"),
    [
        ('{ column = "pid", max_rows = 2 }', 2, False),
        ('{ column = "pid", max_rows = 1, per = "day", window = 3 }', 1, True),
    ],
)
def test_rows_of_a_unit_are_kept_in_the_order_of_days(
    visits: Visits, unit: str, most: int, each_day: bool, seed: int
) -> None:
    """However the days are published, the same rows are kept, and never more than declared."""
    random = np.random.default_rng(seed)
    rows = random_rows(random, 60)
    in_time = [row for row in rows if row[3] <= 2]
    visits.declare(unit=unit)
    visits.fill(rows)
    steps = sorted({*random.integers(0, 9, size=seed).tolist(), 9})
    known: Counter[tuple[int, int]] = Counter()
    for through in steps:
        visits.publish(through)
        counted = visits.counts()
        before = {cell: n for cell, n in counted.items() if cell in known}
        assert before == dict(known), "a day that was over has changed"
        known = counted
    left = Counter[Any]()
    kept = Counter[int]()
    for n, _, person, _ in sorted(in_time):
        of = (person, n) if each_day else person
        left[of] += 1
        kept[n] += left[of] <= most
    by_day = Counter[int]()
    for (n, _), number in known.items():
        by_day[n] += number
    assert by_day == +kept


def test_a_new_row_displaces_none_that_was_counted(visits: Visits) -> None:
    """Rows in the order of cells, kind before day, would exchange one, and a unit lose twice."""
    visits.declare(unit='{ column = "pid", max_rows = 1 }')
    visits.fill([(0, 2, 1, 0)])
    visits.publish(0)
    assert visits.counts() == {(0, 2): 1}
    visits.fill([(0, 2, 1, 0), (1, 0, 1, 0)])
    visits.publish(1)
    assert visits.counts() == {(0, 2): 1}


@pytest.mark.parametrize(
    ("budget", "relation"),
    alternately(["epsilon = 40", "rho = 40, delta = 1e-6"], ["add_remove", "replace"]),
)
def test_what_is_spent_is_the_most_that_a_record_loses_over_all_versions(
    visits: Visits, relation: str, budget: str
) -> None:
    """Brute force over all records: the rows of all versions, masked, with their scales."""
    visits.declare(budget=budget, days=4, more=f'neighbours = "{relation}"')
    visits.fill(random_rows(np.random.default_rng(5), 50, 4))
    asked = (
        "SELECT kind, count(*) FROM visits GROUP BY kind",
        "SELECT count(*) FROM visits WHERE kind < 2",
        "SELECT sum(kind) FROM visits",
    )
    losses: list[dict[tuple[int, int], float]] = []
    spent = 0.0
    unit = budget.split()[0]
    for through in range(4):
        visits.publish(through)
        with visits.open("SET dp.source = fresh", f"SET dp.{unit} = {1 + through}") as connection:
            for sql in asked:
                connection.execute(sql)
            ((spent,),) = connection.execute("SELECT spent FROM dp.budget").fetchall()
            losses = _rates(connection)
    cells = [(kind, n) for kind in range(3) for n in range(4)]
    absent: dict[tuple[int, int], float] = dict.fromkeys(cells, 0.0)
    power = 1 if unit == "epsilon" else 2

    def loss(one: tuple[int, int], other: tuple[int, int] | None) -> float:
        moved = (row[one] - (absent if other is None else row)[other or one] for row in losses)
        return sum(abs(move) ** power / power for move in moved)

    pairs = [(a, None) for a in cells] if relation == "add_remove" else _pairs(cells)
    assert spent == pytest.approx(max(loss(*pair) for pair in pairs), rel=1e-6)


def _pairs(cells: list[Any]) -> list[Any]:
    return [(a, b) for a in cells for b in cells if a != b]


def _rates(connection: tallyveil.Connection) -> list[dict[tuple[int, int], float]]:
    """Each released row by cell, in units of its noise: its scale, or its deviation."""
    with connection._gate._ledger.snapshot() as view:
        charges = [one for one, _ in view.after(ChargeRecord)]
    found = []
    for stored in charges:
        charge = decode_charge(stored.table, stored.mechanism, stored.columns)
        for column, scale in zip(charge.workload.columns, charge.scales, strict=True):
            for row in dense_rows(column, {"kind": 3, "day": 4}):
                found.append({(k, n): row[k, n] / scale for k in range(3) for n in range(4)})
    return found


def test_processes_follow_what_another_publishes(visits: Visits) -> None:
    visits.fill(random_rows(np.random.default_rng(6), 200))
    visits.publish(2)
    with visits.open() as one, visits.open() as other:
        first = visits.counts(one)
        assert visits.counts(other) == first
        assert called(_publish, visits.folder, 6) == 0
        assert visits.counts(one) == visits.counts(other) != first
        versions = "SELECT version, through FROM dp.versions ORDER BY version"
        assert other.execute(versions).fetchall() == [(1, day(2)), (2, day(6))]


def _publish(folder: Path, through: int) -> None:
    Visits.publish(_at(folder), through)


def _at(folder: Path) -> Visits:
    visits = Visits.__new__(Visits)
    visits.folder = folder
    return visits


def test_what_was_known_on_a_day_can_be_asked_again(visits: Visits) -> None:
    visits.fill(random_rows(np.random.default_rng(7), 200))
    visits.publish(2)
    total = "SELECT count(*) FROM visits"
    with visits.open() as connection:
        before = connection.execute(total).fetchall()
        visits.publish(5)
        connection.execute(f"SET dp.as_of = '{day(2)}'")
        assert connection.execute(total).fetchall() == before
        assert "free" in connection.notices[0].message
        assert f"days through {day(2)} are counted" in connection.notices[-1].message
        connection.execute(f"SET dp.as_of = '{day(9)}'")
        plan = connection.explain(total)
        assert f"days through {day(5)} are counted" in plan
        connection.execute("SET dp.as_of = '2025-01-01'")
        assert connection.execute(total).fetchall() == [(0,)]
        words = f"visits: no day is counted: dp.as_of is before the first one, {FIRST}"
        assert connection.notices[-1].message == words
        with pytest.raises(InvalidParameterValue, match=r"dp\.as_of"):
            connection.execute("SET dp.as_of = 'soon'")


def test_what_was_known_at_a_moment_stays_while_days_are_published_and_bought(
    visits: Visits,
) -> None:
    visits.fill(random_rows(np.random.default_rng(21), 200))
    visits.publish(2)
    by_day = "SELECT day, count(*) FROM visits GROUP BY day ORDER BY day"
    with visits.open("SET dp.epsilon = 0.5") as held, visits.open("SET dp.epsilon = 5") as other:
        before = held.execute(by_day).fetchall()
        held.execute("SET dp.as_of = 'now'")
        visits.publish(5)
        assert len(other.execute(by_day).fetchall()) == 6
        assert other.execute(by_day).fetchall()[:3] != before
        assert held.execute(by_day).fetchall() == before
        assert "days through 2026-01-03 are counted" in held.explain(by_day)
        assert held.execute("SELECT count(*) FROM visits WHERE kind = 1").fetchall() == [(None,)]
        held.execute("SET dp.as_of = '2026-01-01 00:00:00'")  # before the first version
        assert held.execute(by_day).fetchall() == []
        assert "visits: before version 1" in [one.message for one in held.notices]


def test_a_publication_that_is_killed_leaves_the_version_before(
    visits: Visits, monkeypatch: pytest.MonkeyPatch
) -> None:
    visits.fill(random_rows(np.random.default_rng(8), 200))
    visits.publish(2)
    before = visits.counts()
    for moment in ("count_slice", "fsync", "write_slice", "publish_version"):
        assert called(_killed_at, visits.folder, moment) == -9
        assert visits.counts() == before
    visits.publish(2)
    left = list((visits.folder / "visits.ledger.slices").glob("visits.*"))
    assert len(left) == 1  # and nothing of what was killed
    visits.publish(4)
    after = visits.counts()
    assert {cell: n for cell, n in after.items() if cell[0] <= 2} == before
    assert len(after) > len(before)


def _killed_at(folder: Path, moment: str) -> None:
    """Publish, and die when this is done."""
    import signal

    from tallyveil.gate.growth import joint_slices, publisher
    from tallyveil.gate.growth import publishing as versions

    modules: dict[str, Any] = {
        "publish_version": publisher, "fsync": os, "count_slice": joint_slices
    }  # fmt: skip
    module = modules.get(moment, versions)
    work = getattr(module, moment)

    def then_die(*given: Any) -> None:
        if moment != "publish_version":
            work(*given)
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(module, moment, then_die)
    _publish(folder, 4)


def test_a_person_can_be_taken_out_of_what_was_counted(visits: Visits) -> None:
    """All rows of one are deleted from the source, and the days counted once more."""
    visits.declare(unit='{ column = "pid", max_rows = 3 }')
    rows = [(n, n % 3, person, 0) for n in range(6) for person in range(3)]
    visits.fill(rows)
    visits.publish(2)
    visits.publish(3)
    with visits.open() as connection:
        before = visits.counts(connection)
        assert sum(before.values()) == 9
        left = [row for row in rows if row[2] != 1]
        visits.fill(left)
        visits.publish(None, recount=True)
        connection.execute("SET dp.source = fresh")
        assert visits.counts(connection) == {c: n * 2 // 3 for c, n in before.items()}
        assert not any("version" in notice.message for notice in connection.notices)
    files = (visits.folder / "visits.ledger.slices").glob("*.slice")
    assert [one.name.split(".")[1] for one in files] == ["3"]  # nothing else has counted them
    visits.publish(4)
    with visits.open("SET dp.source = fresh") as connection:
        assert visits.counts(connection) == {c: n * 2 // 3 for c, n in before.items()}
        versions = "SELECT version, through FROM dp.versions ORDER BY version"
        found = connection.execute(versions).fetchall()
        assert found == [(1, day(2)), (2, day(3)), (3, day(4))]  # nobody is told


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ({"more": 'neighbours = "replace"'}, "none may be deleted"),
        ({"data": 'append = "day"'}, "rows that came late would be counted now"),
    ],
)
def test_nothing_is_counted_once_more_that_could_move(
    visits: Visits, declared: dict[str, Any], message: str
) -> None:
    visits.declare(**declared)
    visits.fill([(0, 0, 1, 0)])
    visits.publish(2)
    with pytest.raises(InvalidParameterValue, match=message):
        visits.publish(None, recount=True)


def test_units_must_be_found_again_by_their_values(visits: Visits) -> None:
    """A whole number that is read as a double has another text: nobody would be known again."""
    visits.declare(unit='{ column = "pid", max_rows = 1 }')
    visits.fill([(0, 0, 1, 0)])
    visits.publish(0)
    source = str(visits.folder / "visits.parquet")
    rows = "SELECT DATE '2026-01-02' AS day, 0 AS kind, {} AS pid, DATE '2026-01-02' AS loaded"
    for kind, message in (("1::DOUBLE", "which values are the same unit"), ("'1'", "has changed")):
        duckdb.sql(f"COPY ({rows.format(kind)}) TO '{source}'")
        with pytest.raises(SourceError, match=message):
            visits.publish(1)
    duckdb.sql(f"COPY ({rows.format('1::BIGINT')}) TO '{source}'")
    visits.publish(1)
    assert visits.counts() == {(0, 0): 1}


def test_what_arrived_is_a_day_in_utc_also_as_text(visits: Visits) -> None:
    visits.declare(data='append = "day", arrived = "loaded"')
    source = str(visits.folder / "visits.parquet")
    times = ("2026-01-01T20:00:00-05:00", "2026-01-02T04:00:00+05:00", "2026-01-01 23:00:00Z",
             "2026-01-01", "2026-01-02T00:00:00+0000", "soon")  # fmt: skip
    rows = ", ".join(f"(DATE '2026-01-01', {n % 3}, 1, '{time}')" for n, time in enumerate(times))
    duckdb.sql(f"COPY (FROM (VALUES {rows}) t(day, kind, pid, loaded)) TO '{source}'")
    visits.publish(0)
    assert visits.counts() == {(0, 1): 1, (0, 2): 1, (0, 0): 1}


def test_tables_follow_together_or_not_at_all(visits: Visits) -> None:
    """While the file of one cannot be read, both stay as they were; no day is opened that has no
    counts yet."""
    policy = visits.folder / "policy.toml"
    other = policy.read_text().split("[tables.visits]")[1].replace("tables.visits", "tables.zzz")
    policy.write_text(f'{policy.read_text()}\n[tables.zzz]\nfrom = "visits"\n{other}')
    visits.fill([(n, 0, 1, 0) for n in range(6)])
    visits.publish(1)
    ask = "SELECT day, count(*) FROM {} GROUP BY day"
    with visits.open(EXACT) as connection:
        visits.publish(4)
        (kept,) = (visits.folder / "visits.ledger.slices").glob("zzz.2.*")
        kept.chmod(0o644)
        for name in ("visits", "zzz"):
            assert len(connection.execute(ask.format(name)).fetchall()) == 2
        connection.execute(f"SET dp.as_of = '{day(3)}'")
        assert len(connection.execute(ask.format("visits")).fetchall()) == 2
        connection.execute("SET dp.as_of = ''")
        kept.chmod(0o600)
        for name in ("visits", "zzz"):
            found = connection.execute(ask.format(name)).fetchall()
            assert found == [(day(n), 1) for n in range(5)]


def test_a_new_table_leaves_the_versions_of_others(visits: Visits) -> None:
    visits.fill([(0, 0, 1, 0)])
    visits.publish(1)
    policy = visits.folder / "policy.toml"
    other = policy.read_text().split("[tables.visits]")[1].replace("tables.visits", "tables.zzz")
    policy.write_text(
        f'{policy.read_text()}\n[tables.zzz]\nfrom = "visits"\nbeside = ["visits"]\n{other}'
    )
    with visits.open() as connection:
        found = connection.execute(
            "SELECT table_name, version, through FROM dp.versions"
        ).fetchall()
        assert found == [("visits", 1, day(1)), ("zzz", 1, day(19))]


def test_two_publishers_count_every_day_once(visits: Visits) -> None:
    visits.fill(random_rows(np.random.default_rng(9), 300))
    with ThreadPoolExecutor() as pool:
        list(pool.map(visits.publish, [4] * 4))
    with visits.open() as connection:
        assert connection.execute("SELECT count(*) FROM dp.versions").fetchall() == [(1,)]
        published = visits.counts(connection)
    alone = Visits(visits.folder / "alone") if (visits.folder / "alone").mkdir() is None else visits
    (alone.folder / "visits.parquet").write_bytes((visits.folder / "visits.parquet").read_bytes())
    alone.publish(4)
    assert alone.counts() == published


def test_days_are_neither_published_early_nor_taken_back(visits: Visits) -> None:
    visits.fill([(0, 0, 1, 0)])
    today = dt.datetime.now(dt.UTC).date()
    visits.declare(days=(today - FIRST).days + 10)
    over = (today - FIRST).days - 3
    with pytest.raises(InvalidParameterValue, match="is not over for table visits") as refused:
        visits.publish(over + 1)
    assert refused.value.hint == f"The last day that is over is {day(over)}, in UTC."
    assert visits.publish(None) == [
        f"visits: days through {day(over)} are counted (version 1), later ones not yet"
    ]
    with pytest.raises(InvalidParameterValue, match="days are never taken back"):
        visits.publish(over - 1)
    assert visits.publish(None)[0].endswith("nothing new to publish")


def test_the_first_opening_publishes_what_is_over(visits: Visits) -> None:
    rows = random_rows(np.random.default_rng(10), 100)
    visits.fill(rows)
    assert visits.counts() == Counter((n, k) for n, k, _, late in rows if late <= 2)


def test_a_server_publishes_at_the_time_that_is_declared(visits: Visits) -> None:
    visits.fill(random_rows(np.random.default_rng(13), 200))
    visits.declare(data='append = "day", late = 2, arrived = "loaded", publish = 06:00:00')
    visits.publish(2)
    total = "SELECT day, count(*) FROM visits GROUP BY day"
    with visits.open() as connection:
        for hour, last in ((5, 4), (6, 5), (7, 5)):
            publish_due(connection._gate, dt.datetime(2026, 1, 9, hour, tzinfo=dt.UTC))
            assert max(connection.execute(total).fetchall())[0] == day(last)
        versions = "SELECT version, through FROM dp.versions ORDER BY version"
        assert connection.execute(versions).fetchall() == [(1, day(2)), (2, day(4)), (3, day(5))]


def test_a_server_says_once_that_the_range_of_days_has_ended(
    visits: Visits, caplog: pytest.LogCaptureFixture
) -> None:
    visits.fill(random_rows(np.random.default_rng(13), 20))
    told: set[tuple[str, str]] = set()
    with visits.open() as connection, caplog.at_level("WARNING", "tallyveil"):
        warn(connection._gate, dt.datetime(2026, 1, 9, tzinfo=dt.UTC), {}, told)
        assert not caplog.records
        for _ in range(2):
            warn(connection._gate, dt.datetime(2026, 3, 9, tzinfo=dt.UTC), {}, told)
    ((table, reason),) = [tuple(vars(one)["fields"].values()) for one in caplog.records]
    assert (table, reason) == ("visits", f"days after {day(19)} are not published")


def test_a_table_whose_days_are_to_come_is_empty(visits: Visits) -> None:
    today = dt.datetime.now(dt.UTC).date()
    first = today + dt.timedelta(days=5)
    text = (visits.folder / "policy.toml").read_text().replace(str(FIRST), str(first))
    text = text.replace(str(day(19)), str(first + dt.timedelta(days=365)))
    (visits.folder / "policy.toml").write_text(text)
    visits.fill([(0, 0, 1, 0)])
    with visits.open() as connection:
        assert connection.execute("SELECT count(*) FROM visits").fetchall() == [(0,)]
        assert connection.execute("SELECT through FROM dp.versions").fetchall() == [(None,)]


def test_an_older_ledger_beside_the_counts_is_missed(visits: Visits) -> None:
    visits.fill(random_rows(np.random.default_rng(14), 50))
    visits.publish(2)
    ledger = visits.folder / "visits.ledger"
    with visits.open() as connection:
        connection.execute("SELECT count(*) FROM visits WHERE kind = 1")
    older = ledger.read_bytes()
    with visits.open() as connection:
        connection.execute("SELECT count(*) FROM visits WHERE kind = 2")
    for left in visits.folder.glob("visits.ledger-*"):
        left.unlink()
    ledger.write_bytes(older)
    for work in (visits.open, lambda: visits.publish(4)):
        with pytest.raises(LedgerError, match="lacks charges that it had before"):
            work()


def test_an_older_ledger_is_missed_though_nothing_was_closed(
    visits: Visits, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its processes were killed: what is written while sessions begin and versions are published
    tells, or the files of versions that it does not know, none of which is removed."""
    visits.fill(random_rows(np.random.default_rng(23), 50))
    visits.publish(2)
    ledger, folder = visits.folder / "visits.ledger", visits.folder / "visits.ledger.slices"
    witness, oldest, first = folder / "ledger.witness", ledger.read_bytes(), None
    connection = visits.open()
    first = witness.read_bytes()
    connection.execute("SELECT count(*) FROM visits WHERE kind = 1")
    assert witness.read_bytes() == first
    monkeypatch.setattr("tallyveil.gate.gate._WITNESSED", 0)
    connection._gate.session()  # somebody else's, a minute later
    newer = witness.read_bytes()
    assert newer != first
    copied = ledger.read_bytes()
    visits.publish(3)
    last = witness.read_bytes()
    visits.publish(5)
    for kept, seen, message in (
        (oldest, newer, "lacks charges that it had before"),
        (copied, last, "lacks versions that it had before"),
        (copied, newer, "has the counts of version 3 of table visits, and the ledger knows 1"),
    ):
        for left in visits.folder.glob("visits.ledger-*"):
            left.unlink()
        now, files = ledger.read_bytes(), sorted(folder.glob("*.slice"))
        ledger.write_bytes(kept)
        witness.write_bytes(seen)
        with pytest.raises(LedgerError, match=message):
            visits.publish(6)
        assert sorted(folder.glob("*.slice")) == files
        ledger.write_bytes(now)
    witness.write_bytes(last)
    visits.publish(6)


def test_a_version_says_when_it_was_due_and_not_how_long_it_took(
    visits: Visits, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a moment while it is counted, the version before is the one that was served."""
    visits.declare(data='append = "day", late = 2, arrived = "loaded", publish = 06:30:00')
    visits.fill(random_rows(np.random.default_rng(24), 100))
    visits.publish(2)
    by_day = "SELECT day, count(*) FROM visits GROUP BY day ORDER BY day"
    with visits.open() as connection:
        before = connection.execute(by_day).fetchall()
        work, held = joint_slices.count_slice, []

        def meanwhile(*given: Any, **more: Any) -> Any:
            connection.execute("SET dp.as_of = 'now'")
            ((moment,),) = connection.execute("SHOW dp.as_of").fetchall()
            held.append(moment)
            return work(*given, **more)

        monkeypatch.setattr(joint_slices, "count_slice", meanwhile)
        visits.publish(4)
        assert connection.execute(by_day).fetchall() == before
        connection.execute("SET dp.as_of = ''")
        assert len(connection.execute(by_day).fetchall()) == 5
        connection.execute(f"SET dp.as_of = '{held[0]}'")
        assert connection.execute(by_day).fetchall() == before
        times = connection.execute("SELECT published FROM dp.versions").fetchall()
        assert [time.time() for (time,) in times] == [dt.time(6, 30)] * 2
    assert len(held) == 1


def test_the_custodian_alone_is_told_which_rows_do_not_count(visits: Visits) -> None:
    rows = [(0, 0, 1, 0), (0, 1, 2, 3), (1, 0, 3, 0), (1, 2, 4, 9), (5, 0, 5, 0), (90, 0, 6, 0)]
    visits.fill(rows)
    found = [*publish(visits.folder / "policy.toml", str(day(1)), report=True)]
    assert found[0].document["records"] == 2
    assert [found[0].document[key] for key in ("late", "later", "undated")] == [2, 1, 1]
    again = [*publish(visits.folder / "policy.toml", str(day(1)), report=True)]
    assert again[0].document["new"] is False
    assert again[0].document["late"] == 2
    told = "came too late for their day: 2; of days that are not over: 1; without a day"
    assert any(told in line for line in again[0].lines)


def test_a_version_can_be_named_and_is_not_bought(visits: Visits) -> None:
    visits.fill(random_rows(np.random.default_rng(25), 100))
    visits.publish(2)
    by_day = "SELECT day, count(*) FROM visits GROUP BY day ORDER BY day"
    with visits.open() as connection:
        first = connection.execute(by_day).fetchall()
        visits.publish(4)
        for setting, found, words in (
            ("version 1", first, f"days through {day(2)} are counted"),
            ("version 9", [], "there is no version 9"),
            ("version 0", [], "before version 1"),
        ):
            connection.execute(f"SET dp.as_of = '{setting}'")
            assert connection.execute(by_day).fetchall() == found
            assert words in connection.explain(by_day)
        connection.execute("SET dp.as_of = 'version 2'")
        assert [n for _, n in connection.execute(by_day).fetchall()][3:] == [None, None]
        assert _spent(connection) == 0.1


def _spent(connection: tallyveil.Connection) -> float:
    ((spent,),) = connection.execute("SELECT spent FROM dp.budget").fetchall()
    return float(spent)


def test_counts_that_are_lost_are_missed(visits: Visits) -> None:
    visits.fill(random_rows(np.random.default_rng(11), 50))
    visits.publish(2)
    (kept,) = (visits.folder / "visits.ledger.slices").glob("*.slice")
    content = kept.read_bytes()
    assert kept.stat().st_mode & 0o777 == 0o600
    kept.unlink()
    with pytest.raises(SourceError, match="is missing") as refused:
        visits.open()
    assert "Restore it from its backup" in (refused.value.hint or "")
    kept.touch(0o600)
    kept.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(SourceError, match="was changed"):
        visits.open()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"data": 'append = "month"'}, "data.append = .*: expected an attribute that is a range"),
        ({"data": 'append = "kind"'}, "data.append = .*: expected an attribute that is a range"),
        ({"data": "late = 3"}, "append or replace missing"),
        ({"data": 'append = "day", late = -1'}, "data.late = -1: expected a whole number of days"),
        ({"data": 'append = "day", publish = "06:00"'}, "expected a time of day"),
        ({"data": "replace = true, late = 3"}, "expected append, late and arrived in a table that"),
        ({"data": 'append = "day", stable = ["kind"]'}, "expected with replace = true only"),
        ({"unit": '{ column = "pid", max_rows = 1, window = 7 }'}, 'expected with per = "day"'),
        ({"unit": '{ column = "pid", max_rows = 1, per = "hour" }'}, 'expected "day"'),
        (
            {"more": '[[tables.visits.invariants]]\nsql = "SELECT count(*) FROM visits"'},
            "invariants: expected none in a table that grows",
        ),
    ],
)
def test_what_cannot_grow_is_refused(visits: Visits, change: dict[str, Any], message: str) -> None:
    visits.declare(**change)
    with pytest.raises(PolicyError, match=message):
        visits.open()


def test_no_table_has_a_key_to_one_that_grows(visits: Visits) -> None:
    visits.declare(unit='{ column = "pid", max_rows = 1 }')
    policy = visits.folder / "policy.toml"
    calls = 'keys = { pid = "visits.pid" }\nprivacy_unit = { column = "pid", max_rows = 1 }'
    policy.write_text(
        f"{policy.read_text()}\n[tables.calls]\n{calls}\n[tables.calls.attributes]\n"
        "kind = { range = [0, 2] }"
    )
    with pytest.raises(PolicyError, match=r"tables\.calls: expected no key .* whose data changes"):
        visits.open()


def test_another_rule_of_growth_is_another_declaration(visits: Visits) -> None:
    visits.fill([(0, 0, 1, 0)])
    visits.publish(1)
    visits.declare(data='append = "day", late = 3, arrived = "loaded"')
    with pytest.raises(LedgerMismatch) as refused:
        visits.open()
    assert "tables.visits.data.late: 2 in the ledger, 3 here" in (refused.value.detail or "")


def test_a_window_multiplies_what_a_unit_may_have_lost(visits: Visits) -> None:
    """One row a day in 3 days is protected as 3 rows: the same noise costs three times as much."""
    visits.declare(
        unit='{ column = "pid", max_rows = 1, per = "day", window = 3 }', budget="epsilon = 1"
    )
    visits.fill(random_rows(np.random.default_rng(12), 50))
    visits.publish(5)
    with visits.open("SET dp.epsilon = 0.5") as connection:
        plan = connection.explain("SELECT count(*) FROM visits")
        assert "scale 6" in plan
        connection.execute("SELECT count(*) FROM visits")
        connection.execute("SET dp.source = fresh")
        connection.execute("SELECT kind, count(*) FROM visits GROUP BY kind")
        with pytest.raises(BudgetExceeded):
            connection.execute("SELECT count(*) FROM visits WHERE kind = 1")
        ((words, exact),) = connection.execute("SELECT guarantee, exact FROM dp.budget").fetchall()
        assert "the records of one pid in 3 successive days" in words
        assert not exact  # it need not have lost the most on each of the days
    (protects,) = [
        one for one in summary(load_policy(visits.folder / "policy.toml")) if "protects" in one
    ]
    assert "the rows of one pid in any 3 successive days, added or removed" in protects
    assert "at most 1 row of each pid is counted a day" in protects
    assert "by its rows in n times as many days one loses up to n times as much" in protects


def test_counts_of_single_days_add_up_less_over_a_window_in_rho(visits: Visits) -> None:
    """Each of 3 days moves other rows: Σ d² over the days, not (Σ d)². A total moves by all."""
    visits.declare(
        unit='{ column = "pid", max_rows = 1, per = "day", window = 3 }',
        budget="epsilon = 8, delta = 1e-6",
    )
    visits.fill(random_rows(np.random.default_rng(12), 50))
    visits.publish(5)
    by_day, total = "SELECT day, count(*) FROM visits GROUP BY day", "SELECT count(*) FROM visits"
    with visits.open("SET dp.rho = 0.125", "SET dp.mechanism = gaussian") as connection:
        assert "L2 sensitivity 1.732050808: 1 × 1.732050808 for 3 rows" in connection.explain(
            by_day
        )
        assert "L2 sensitivity 3: 1 × 3 rows" in connection.explain(total)
        assert "scale 3.464101615" in connection.explain(by_day)
        assert "scale 6" in connection.explain(total)
        connection.execute(by_day)
        (one,) = connection.budget()
        assert one["spent"] == pytest.approx(0.125)


@pytest.mark.parametrize("confidence", [0.8, pytest.param(0.95, marks=pytest.mark.slow)])
def test_intervals_over_versions_hold_the_truth_as_often_as_they_say(
    visits: Visits, confidence: float
) -> None:
    """Of 600 kinds, whose noises are independent: totals combined from what four versions bought.
    A coverage of the confidence fails once in a million runs."""
    kinds, random = 600, np.random.default_rng(22)
    policy = visits.folder / "policy.toml"
    policy.write_text(policy.read_text().replace("range = [0, 2]", f"range = [0, {kinds - 1}]"))
    rows = [(n, k, 1, 0) for k in range(kinds) for n in range(4) for _ in range(random.integers(3))]
    visits.fill(rows)
    for through in range(4):
        visits.publish(through)
        with visits.open("SET dp.epsilon = 0.4", "SET dp.source = fresh") as connection:
            connection.execute("SELECT kind, count(*) FROM visits GROUP BY kind")
            connection.execute(
                f"SELECT kind, count(*) FROM visits WHERE day = '{day(0)}' GROUP BY 1"
            )
    truth = Counter(kind for _, kind, _, _ in rows)
    settings = f"SET dp.confidence = {confidence}", "SET dp.source = history"
    with visits.open(*settings) as connection:
        found = connection.sql(
            "SELECT kind, dp_interval_low(count(*)), dp_interval_high(count(*))"
            " FROM visits GROUP BY kind"
        ).fetchall()
        assert "free" in connection.notices[0].message
    held = sum(low <= truth[kind] <= high for kind, low, high in found) / kinds
    slack = 4.9 * (confidence * (1 - confidence) / kinds) ** 0.5
    assert confidence - slack <= held <= confidence + slack + 0.05


@pytest.mark.parametrize("cubes", [False, True])
def test_a_ledger_without_charges_is_made_anew_once_what_was_counted_is_deleted_too(
    visits: Visits, cubes: bool
) -> None:
    visits.fill([(0, 0, 1, 0), (1, 1, 2, 0), (1, 2, 3, 0)])
    policy, ledger = visits.folder / "policy.toml", visits.folder / "visits.ledger"

    def declare(kind: str) -> None:
        visits.declare(kind=kind)
        if cubes:
            policy.write_text(f'cubes = "kept.cubes"\n{policy.read_text()}')

    declare("kind = { range = [0, 2] }")
    visits.publish(2)
    declare("kind = { range = [0, 1] }")
    with pytest.raises(LedgerMismatch, match="another declaration") as refused:
        visits.open()
    folders = [f"{ledger}.slices", *[str(visits.folder / "kept.cubes")] * cubes]
    assert f"{ledger}.slices and cubes of the policy" in (refused.value.hint or "")
    for left in visits.folder.glob("visits.ledger*"):
        if left.is_file():
            left.unlink()
    with pytest.raises(LedgerError, match="it is an older copy, or another ledger") as older:
        visits.open()
    assert "with 1 version or more" in (older.value.hint or "")
    for folder in folders:
        shutil.rmtree(folder)
    visits.publish(2)
    assert visits.counts() == {(0, 0): 1, (1, 1): 1}
