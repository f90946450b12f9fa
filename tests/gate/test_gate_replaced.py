"""Data that is replaced: each version has its own answers, and what all versions cost adds up."""

from __future__ import annotations

import datetime as dt
import os
import re
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tallyveil
from tallyveil.accountant import ReplacementRecord
from tallyveil.accountant.store.event_codec import decode_charge
from tallyveil.accountant.store.ledger_records import ChargeRecord
from tallyveil.cli.publishing import publish
from tallyveil.cli.serving.schedule import publish_due
from tallyveil.errors import (
    BudgetExceeded,
    InvalidParameterValue,
    LedgerMismatch,
    PolicyError,
    SourceError,
    VersionReplaced,
)
from tallyveil.gate import Gate
from tallyveil.gate.growth import replacing
from tallyveil.policy import load_policy
from tallyveil.policy.value_checks import LedgerFile
from tests.dense_rows import dense_rows
from tests.gate.many_sessions import PATIENCE
from tests.gate.replaced_people import CELLS, EXACT, People, Row, counted
from tests.pairs import pairs_first
from tests.programs import called

BY_SEX = "SELECT sex, count(*) FROM people GROUP BY sex ORDER BY sex"
STABLE = '{ replace = true, stable = ["sex"] }'
EXCHANGED = 'neighbours = "replace"'
PERSON = '{ column = "pid", max_rows = 1 }'


@pytest.fixture
def people(tmp_path: Path) -> People:
    return People(tmp_path)


def _rows(random: np.random.Generator, number: int) -> list[Row]:
    return [(n, "FM"[random.integers(2)], int(random.integers(3))) for n in range(number)]


def _spent(connection: tallyveil.Connection) -> float:
    ((spent,),) = connection.execute("SELECT spent FROM dp.budget").fetchall()
    return float(spent)


def test_a_version_counts_all_rows_as_they_are_then(people: People) -> None:
    random = np.random.default_rng(1)
    for number in (1, 2, 3):
        rows = _rows(random, 40 + number)
        (line,) = people.publish(*rows)
        assert f"version {number}" in line
        assert people.counts() == Counter((sex, place) for _, sex, place in rows)
        # Whatever the file holds by then, the version stays as it was counted.
        people.fill(rows[:5])
        assert people.counts() == Counter((sex, place) for _, sex, place in rows)


def test_answers_are_about_their_own_version(people: People) -> None:
    people.publish(*((n, "F", 0) for n in range(40)))
    with people.open("SET dp.epsilon = 0.5") as connection:
        before = connection.execute(BY_SEX).fetchall()
        assert connection.execute(BY_SEX).fetchall() == before
        assert _spent(connection) == 0.5
        people.publish(*((n, "M", 0) for n in range(4000)))
        after = connection.execute(BY_SEX).fetchall()
        assert after != before
        assert "cost epsilon 0.5" in connection.notices[0].message
        assert "version 2, published on" in connection.notices[-1].message
        assert _spent(connection) == 1.0
        versions = connection.execute("SELECT version, kind, through FROM dp.versions").fetchall()
        assert versions == [(1, "replace", None), (2, "replace", None)]
        for setting, found in (("version 1", before), ("version 2", after), ("", after)):
            connection.execute(f"SET dp.as_of = '{setting}'")
            assert connection.execute(BY_SEX).fetchall() == found
        connection.execute("SET dp.as_of = 'version 1'")
        unknown = "SELECT place, count(*) FROM people GROUP BY place"
        assert {n for _, n in connection.execute(unknown).fetchall()} == {None}
        for setting, words in (("version 3", "no version 3"), ("2026-01-01", "before version 1")):
            connection.execute(f"SET dp.as_of = '{setting}'")
            assert connection.execute(BY_SEX).fetchall() == [("F", None), ("M", None)]
            assert words in connection.notices[0].message  # before how to buy
        connection.execute("SET dp.as_of = 'version 2'")  # the last one: nothing is bought either
        assert {n for _, n in connection.execute(unknown).fetchall()} == {None}
        assert _spent(connection) == 1.0
    with people.open() as connection:  # in another process too
        assert connection.execute(BY_SEX).fetchall() == after
        connection.execute("SET dp.as_of = 'version 1'")
        assert connection.execute(BY_SEX).fetchall() == before


@pytest.mark.parametrize(
    ("kind", "budget", "seed"),
    pairs_first(
        [("add_remove", False), ("add_remove", True), ("replace", False)],
        ["epsilon = 1000", "rho = 1000, delta = 1e-6"],
        range(2),
    ),
)
def test_what_is_spent_is_the_most_that_a_unit_loses_over_all_versions(
    people: People, kind: tuple[str, bool], budget: str, seed: int
) -> None:
    """Brute force over all trajectories of one or two units, with what was charged in each
    version; opened anew for each version, and with a summary or without."""
    relation, stable = kind
    data, unit = (STABLE, PERSON) if stable else ('"replace"', '"row"')
    people.declare(data=data, unit=unit, budget=budget, more=f'neighbours = "{relation}"')
    random = np.random.default_rng(seed)
    measure, number = budget.split()[0], int(random.integers(2, 4))
    asked = [f"count(*) FROM people WHERE sex = '{sex}' AND place = {n}" for sex, n in CELLS]
    asked += ["count(*) FROM people", "sum(place) FROM people WHERE sex = 'M'"]
    rates: list[list[dict[Any, float]]] = []
    spent = 0.0
    for version in range(number):
        people.publish(*_rows(random, 30))
        with people.open("SET dp.source = fresh") as connection:
            for sql in random.permutation(asked)[:5]:
                connection.execute(f"SET dp.{measure} = {random.integers(1, 9)}")
                connection.execute(f"SELECT {sql}")
            spent, rates = _spent(connection), _rates(connection)
            if version == 0:
                connection._gate.accountant.summarise(0)
    power = 1 if measure == "epsilon" else 2
    outside = [None] if relation == "add_remove" else [*CELLS, None]

    def loss(version: int, one: Any, other: Any) -> float:
        moved = (row.get(one, 0.0) - row.get(other, 0.0) for row in rates[version])
        return sum(abs(move) ** power / power for move in moved)

    def lost(sex: str | None) -> float:
        ones = [cell for cell in CELLS if sex in (None, cell[0])]
        return sum(
            max(loss(version, one, other) for one in ones for other in outside)
            for version in range(number)
        )

    every = ["F", "M"] if stable else [None]
    assert spent == pytest.approx(max(map(lost, every)), rel=1e-6)


@pytest.mark.parametrize(("data", "spent"), [('"replace"', 0.7), (STABLE, 0.6)])
def test_what_stays_the_same_of_a_unit_saves_budget(
    people: People, data: str, spent: float
) -> None:
    """The example of VERSIONS V3; cells that never change would have lost 0.5."""
    people.declare(data=data, unit=PERSON, budget="epsilon = 1")
    cells = [("F", 0), ("F", 1), ("M", 0), ("M", 1)]
    for costs in ((0.1, 0.3, 0.1, 0.2), (0.2, 0.1, 0.4, 0.3)):
        people.publish((1, "F", 0), (2, "M", 1))
        with people.open("SET dp.source = fresh") as connection:
            for (sex, place), cost in zip(cells, costs, strict=True):
                connection.execute(f"SET dp.epsilon = {cost}")
                connection.execute(
                    f"SELECT count(*) FROM people WHERE sex = '{sex}' AND place = {place}"
                )
            found = connection.execute("SELECT spent, exact FROM dp.budget").fetchall()
    assert found == [(spent, True)]


def _rates(connection: tallyveil.Connection) -> list[list[dict[Any, float]]]:
    """By version the released rows by cell, in units of their noise."""
    gate = connection._gate
    versions = gate.accountant.versions("people", ReplacementRecord)
    found: list[list[dict[Any, float]]] = [[] for _ in versions]
    with gate._ledger.snapshot() as view:
        charges = [*view.after(ChargeRecord)]
    for stored, end in charges:
        own = sum(1 for one in versions if one.charges < end.number) - 1
        charge = decode_charge(stored.table, stored.mechanism, stored.columns)
        for column, scale in zip(charge.workload.columns, charge.scales, strict=True):
            for row in dense_rows(column, {"sex": 2, "place": 3}):
                found[own].append(dict(zip(CELLS, (row / scale).ravel(), strict=True)))
    return found


def _published_by(folder: Path, rows: list[Row]) -> None:
    """For another process."""
    people = People.__new__(People)
    people.folder = folder
    people.publish(*rows)


def test_nothing_is_charged_to_a_version_that_it_is_not_about(
    people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A version is published between the decision of a statement and its charge.
    Booked under it, the charge would cost nobody anything: all who were F are M by then."""
    people.declare(budget="epsilon = 3")
    people.publish(*((n, "F", 0) for n in range(50)))
    women = "SELECT count(*) FROM people WHERE sex = 'F'"
    with people.open("SET dp.epsilon = 1", "SET dp.source = fresh") as connection:
        connection.execute(women)
        gate = connection._gate
        sell, done = gate.accountant.sell, []

        def once_replaced(*given: Any, **more: Any) -> Any:
            if not done:
                done.append(True)
                people.publish(*((n, "M", 0) for n in range(50)))
            return sell(*given, **more)

        monkeypatch.setattr(gate.accountant, "sell", once_replaced)
        ((found,),) = connection.execute(women).fetchall()
        assert done
        assert found < 25  # of the version that is the last by then: about 0
        assert "version 2, published on" in connection.notices[-1].message
        connection.execute("SELECT count(*) FROM people WHERE sex = 'M'")
        assert _spent(connection) == 2
        connection.execute(women)
        with pytest.raises(BudgetExceeded):
            connection.execute(women)
        assert _spent(connection) == 3


def test_no_condition_compares_with_an_answer_about_another_version(
    people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A version is published between a subquery's answer and the statement's own purchase."""
    people.publish(*((n, "F", n % 3) for n in range(50)))
    above = "SELECT count(*) FROM people WHERE place > (SELECT avg(place) FROM people)"
    with people.open("SET dp.epsilon = 1", "SET dp.source = fresh") as connection:
        gate = connection._gate
        sell, sales = gate.accountant.sell, []

        def second_replaced(*given: Any, **more: Any) -> Any:
            sales.append(1)
            if len(sales) == 2:
                people.publish(*((n, "M", 2) for n in range(50)))
            return sell(*given, **more)

        monkeypatch.setattr(gate.accountant, "sell", second_replaced)
        with pytest.raises(VersionReplaced, match="another version of table people") as refused:
            connection.execute(above)
        assert len(sales) == 2
        assert "epsilon 1" in (refused.value.detail or "")  # of the subquery
        assert _spent(connection) == 1
        connection.execute(above)
        assert 2 <= _spent(connection) <= 3  # records of the highest place may be above all


def test_processes_follow_and_a_version_that_cannot_be_read_is_not_served(people: People) -> None:
    people.publish(*((n, "F", 0) for n in range(50)))
    with people.open(EXACT) as one, people.open(EXACT) as other:
        assert counted(one) == counted(other) == {("F", 0): 50}
        assert called(_published_by, people.folder, [(n, "M", 1) for n in range(60)]) == 0
        assert counted(one) == counted(other) == {("M", 1): 60}
        people.publish(*((n, "M", 2) for n in range(70)))
        (file,) = (people.folder / "people.ledger.slices").glob("people.3.*.rows")
        file.rename(file.with_suffix(".away"))
        assert counted(one) == {("M", 1): 60}  # from history
        one.execute("SET dp.source = fresh")
        spent = _spent(one)
        with pytest.raises(LedgerMismatch, match="another version of table people") as refused:
            counted(one)
        assert refused.value.detail == "Nothing was charged."
        assert _spent(one) == spent
        with pytest.raises(SourceError, match="it has the counts of version 3 of table people"):
            people.open()
        file.with_suffix(".away").rename(file)
        assert counted(one) == counted(other) == {("M", 2): 70}


def test_what_was_known_at_a_moment_stays_as_it_was(people: People) -> None:
    """Two charts of one load agree, whatever others buy meanwhile, and nothing more is bought."""
    people.publish(*_rows(np.random.default_rng(3), 400))
    both = "SELECT sex, place, count(*) FROM people GROUP BY sex, place ORDER BY sex, place"
    with people.open("SET dp.epsilon = 0.1") as chart, people.open("SET dp.epsilon = 1") as other:
        first = chart.execute(BY_SEX).fetchall()
        assert chart.execute("SHOW dp.as_of").fetchall() == [("",)]
        chart.execute("SET dp.as_of = 'now'")
        ((moment,),) = chart.execute("SHOW dp.as_of").fetchall()
        other.execute(both)
        assert other.execute(BY_SEX).fetchall() != first
        finer = other.execute(both).fetchall()
        assert chart.execute(BY_SEX).fetchall() == first
        assert {n for *_, n in chart.execute(both).fetchall()} == {None}
        other.execute(f"SET dp.as_of = '{moment}'")
        other.execute("SET dp.source = fresh")
        assert other.execute(BY_SEX).fetchall() == first
        people.publish(*_rows(np.random.default_rng(4), 400))
        assert chart.execute(BY_SEX).fetchall() == first
        spent = _spent(chart)
        chart.execute("SET dp.as_of = 'version 1'")
        assert chart.execute(both).fetchall() == finer
        assert _spent(chart) == spent
    with people.open(f"SET dp.as_of = '{moment}'") as later:
        assert later.execute(BY_SEX).fetchall() == first
        later.execute("SET dp.as_of = '2026-01-01 00:00:00'")
        assert later.execute(BY_SEX).fetchall() == [("F", None), ("M", None)]
        for wrong in (
            "2999-01-01 00:00:00",
            "version x",
            "yesterday",
            "20261110",
            "9999-12-31 23:59:59-12:00",
            "0001-01-01 00:00:00+12:00",
        ):
            with pytest.raises(InvalidParameterValue, match=r"dp\.as_of") as refused:
                later.execute(f"SET dp.as_of = '{wrong}'")
            assert "such as 'version 3'" in str(refused.value.hint)


def test_a_unit_keeps_its_first_stable_values(people: People) -> None:
    people.declare(data=STABLE, unit='{ column = "pid", max_rows = 2 }')
    # Person 3 differs from herself: she counts by the first of the values in both rows.
    people.publish((1, "F", 0), (2, "M", 0), (3, "M", 1), (3, "F", 2))
    assert people.counts() == {("F", 0): 1, ("M", 0): 1, ("F", 1): 1, ("F", 2): 1}
    # Person 1 is M from now on, person 2 is away, and person 4 has no sex that is declared.
    people.publish((1, "M", 1), (3, "F", 2), (4, "X", 0))
    assert people.counts() == {("F", 1): 1, ("F", 2): 1}
    people.publish((1, "M", 1), (2, "F", 2), (4, "M", 0))
    assert people.counts() == {("F", 1): 1, ("M", 2): 1, ("M", 0): 1}
    people.publish((4, "F", 0), (1, "X", 0))
    assert people.counts() == {("M", 0): 1}


def test_a_publication_that_is_killed_leaves_the_version_before(people: People) -> None:
    people.publish((1, "F", 0))
    for moment in ("write_slice", "publish_replacement"):
        people.fill([(1, "M", 2), (2, "M", 2)])
        assert called(_killed_at, people.folder, moment) == -9
        assert people.counts() == {("F", 0): 1}
    people.publish()
    assert people.counts() == {("M", 2): 2}
    left = (people.folder / "people.ledger.slices").glob("people.*")
    assert [path.name.split(".")[1] for path in left] == ["2"]


def _killed_at(folder: Path, moment: str) -> None:
    """Publish, and die when this is done, or just before what is recorded."""
    import signal

    from tallyveil.gate.growth import publisher, replacing

    module: Any = publisher if moment == "publish_replacement" else replacing
    work = getattr(module, moment)

    def then_die(*given: Any) -> None:
        if moment != "publish_replacement":
            work(*given)
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(module, moment, then_die)
    _published_by(folder, [])


def test_publishers_at_once_publish_one_version_each(people: People) -> None:
    people.publish((1, "F", 0))
    with ThreadPoolExecutor() as pool:
        lines = [line for (line,) in pool.map(lambda _: people.publish(), range(4))]
    assert sorted(line.split(",")[0] for line in lines) == [
        f"people: version {number}" for number in range(2, 6)
    ]


def test_threads_that_buy_while_versions_come_overdraw_nothing(
    people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every purchase is of a version that was the last one, and all together stay in the budget.
    The ledger is witnessed meanwhile, whenever a session begins."""
    monkeypatch.setattr("tallyveil.gate.gate._WITNESSED", 0)
    people.declare(budget="epsilon = 6")
    people.publish((1, "F", 0))
    ended, refused, bought = [], [], threading.Event()
    with people.open("SET dp.epsilon = 0.25") as connection:
        gate = connection._gate

        def ask(number: int) -> None:
            session = gate.session(f"analyst {number}")
            session.set("dp.epsilon", "0.25")
            session.set("dp.source", "fresh")
            while not ended:
                gate.session().close()
                try:
                    session.query(f"SELECT count(*) FROM people WHERE place = {number % 3}")
                except BudgetExceeded:
                    refused.append(number)
                    return
                finally:
                    bought.set()

        with ThreadPoolExecutor() as pool:
            asking = [pool.submit(ask, number) for number in range(3)]
            try:
                for number in range(5):
                    people.publish((number, "M", number % 3))
                    bought.clear()
                    assert len(refused) == 3 or bought.wait(PATIENCE)
            finally:
                ended.append(True)
            for one in asking:
                one.result()
        spent = _spent(connection)
        rates = _rates(connection)
    most = [max(sum(row[cell] for row in rows) for cell in CELLS) for rows in rates if rows]
    assert spent == pytest.approx(sum(most))
    assert spent <= 6
    assert refused or spent < 6


def test_a_server_publishes_at_the_time_that_is_declared(people: People) -> None:
    people.declare(data="{ replace = true, publish = 06:00:00 }")
    people.publish((1, "F", 0))
    versions = "SELECT count(*) FROM dp.versions"
    with people.open() as connection:
        now = _published(connection)
        tomorrow = (now + dt.timedelta(days=1)).replace(hour=6, minute=0, second=0, microsecond=0)
        for moment, number in (
            (now, 1),
            (tomorrow - dt.timedelta(hours=24, seconds=1), 1),
            (tomorrow, 2),
        ):
            publish_due(connection._gate, moment)
            assert connection.execute(versions).fetchall() == [(number,)]


def test_of_two_processes_one_publishes_at_the_declared_time(
    people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    people.declare(data="{ replace = true, publish = 06:00:00 }")
    people.fill([(1, "F", 0)])
    with people.open() as one, people.open() as other:
        for days in (1, 2):
            moment = _published(one).replace(hour=6) + dt.timedelta(days=days)
            monkeypatch.setattr(replacing, "now", moment.isoformat)
            publish_due(one._gate, moment)
            if days == 2:  # the other does not know yet what was published
                monkeypatch.setattr(other._gate.editions, "follow", lambda: None)
            publish_due(other._gate, moment + dt.timedelta(seconds=10))
        assert one.sql("SELECT count(*) FROM dp.versions").fetchall() == [(3,)]


def _published(connection: tallyveil.Connection) -> dt.datetime:
    ((time,),) = connection.execute("SELECT max(published) FROM dp.versions").fetchall()
    return time.replace(tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"data": '{ replace = true, append = "place" }'}, "in a table that grows only"),
        ({"data": '{ replace = true, stable = ["age"] }'}, "expected attributes of the table"),
        ({"data": STABLE}, 'expected with neighbours = "add_remove" and privacy_unit'),
        ({"data": STABLE, "unit": PERSON, "more": 'neighbours = "replace"'}, "expected with neigh"),
        ({"data": "{ replace = false }"}, "append or replace missing"),
        ({"data": '"replaced"'}, 'expected "fixed", { append = "day", late = 3 } or "replace"'),
        (
            {"more": "inference_control = { min_half_width = 5, confidence = 0.95 }"},
            "inference_control: expected none in a table whose rows are replaced",
        ),
        ({"more": 'count = "pid"'}, "count: expected none in a table whose rows are replaced"),
    ],
)
def test_what_cannot_be_replaced_is_refused(
    people: People, change: dict[str, Any], message: str
) -> None:
    people.declare(**change)
    with pytest.raises(PolicyError, match=re.escape(message)):
        people.open()


def test_only_one_table_is_published_on_request(people: People) -> None:
    people.fill([(1, "F", 0)])
    text = (people.folder / "policy.toml").read_text()
    second = text[text.index("[tables.people]") :].replace("tables.people", "tables.others")
    second = second.replace("data =", 'from = "people"\nbeside = ["people"]\ndata =')
    (people.folder / "policy.toml").write_text(
        text.replace("data =", 'beside = ["others"]\ndata =', 1) + second
    )
    people.publish()
    (line,) = people.publish(tables=("others",))
    assert line.startswith("others: version 2, published on")
    with pytest.raises(InvalidParameterValue, match="--table other: no table with versions"):
        people.publish(tables=("other",))
    path = people.folder / "policy.toml"
    for given in ({"through": "2026-01-01"}, {"through": None, "recount": True}):
        with pytest.raises(InvalidParameterValue, match="for tables that grow; people does not"):
            list(publish(path, report=False, **given))


def test_statistics_and_shares_start_anew_with_each_version(people: People) -> None:
    people.declare(unit='{ column = "pid", max_rows = 2 }', more="", budget="epsilon = 100")
    text = (people.folder / "policy.toml").read_text()
    shares = "[analysts.ann]\nbudget = { epsilon = 4 }\n"
    (people.folder / "policy.toml").write_text(text + shares)
    people.publish(*((n, "F", 0) for n in range(50)))
    median = "SELECT median(place) FROM people"
    persons = "SELECT count(DISTINCT pid) FROM people"
    with people.open("SET dp.epsilon = 2", user="ann") as ann:
        assert ann.execute(median).fetchall() == [(0,)]
        people.publish(*((n, "F", 2) for n in range(500)))
        ((found,),) = ann.execute(median).fetchall()
        assert found == 2
        own = ann.execute("SELECT spent FROM dp.budget WHERE analyst = 'ann'").fetchall()
        assert own == [(4,)]
        with pytest.raises(BudgetExceeded, match='share of analyst "ann"'):
            ann.sql(persons)
        ann.execute("SET dp.as_of = 'version 1'")
        assert ann.execute(median).fetchall() == [(0,)]


def test_a_ledger_in_memory_has_its_version_too(people: People) -> None:
    """As `check --source` opens it, which looks at the source without leaving anything behind."""
    people.fill([(1, "F", 0), (2, "M", 1)])
    policy = load_policy(people.folder / "policy.toml")
    memory = policy.model_copy(update={"ledger_file": LedgerFile(Path(":memory:"))})
    with tallyveil.Connection(Gate(memory)) as connection:
        connection.execute(EXACT)
        assert counted(connection) == {("F", 0): 1, ("M", 1): 1}
    assert not list(people.folder.glob("people.ledger*"))


@pytest.mark.parametrize(
    "summarised", [(True, False), (False, True), pytest.param((True, True), marks=pytest.mark.slow)]
)
def test_a_summary_of_any_version_opens_to_the_same(
    people: People, summarised: tuple[bool, bool]
) -> None:
    """What a summary keeps of a version that was replaced since is not taken for the present."""
    found: dict[str, Any] = {}
    both = "SELECT sex, place, count(*) FROM people GROUP BY sex, place ORDER BY sex, place"
    for version, summary in enumerate(summarised, start=1):
        people.publish(*_rows(np.random.default_rng(version), 100 * version))
        with people.open("SET dp.epsilon = 1") as connection:
            for sql in (both, BY_SEX, both):
                connection.execute(sql)
            found[f"version {version}"] = connection.execute(BY_SEX).fetchall()
            spent = _spent(connection)
            if summary:
                connection._gate.accountant.summarise(0)
    people.publish(*_rows(np.random.default_rng(9), 50))
    with people.open("SET dp.source = history") as connection:
        assert _spent(connection) == spent
        assert connection.execute(BY_SEX).fetchall() == [("F", None), ("M", None)]
        for version, answers in found.items():
            connection.execute(f"SET dp.as_of = '{version}'")
            assert connection.execute(BY_SEX).fetchall() == answers
        connection._gate.accountant.summarise(0)
    with people.open() as connection:
        assert _spent(connection) == spent
        connection.execute("SET dp.as_of = 'version 2'")
        assert connection.execute(BY_SEX).fetchall() == found["version 2"]
