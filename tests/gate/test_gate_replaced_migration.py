"""Ledgers of data that is replaced are carried to other declarations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

import tallyveil
from tallyveil.cli.migration import migrate
from tallyveil.errors import (
    BudgetExceeded,
    FeatureNotSupported,
    LedgerMismatch,
    SourceError,
)
from tallyveil.gate.growth.publisher import Publisher
from tests.gate.replaced_people import ATTRIBUTES, EXACT, People
from tests.pairs import alternately

BY_SEX = "SELECT sex, count(*) FROM people GROUP BY sex ORDER BY sex"
BY_PLACE = "SELECT place, count(*) FROM people GROUP BY place ORDER BY place"
STABLE = '{ replace = true, stable = ["sex"] }'
EXCHANGED = 'neighbours = "replace"'
EXACT_COUNT = f'{EXCHANGED}\ninvariants = [{{ sql = "SELECT count(*) FROM people" }}]'
PERSON = '{ column = "pid", max_rows = 1 }'
THRICE = PERSON.replace("1", "3")
MENDED = ATTRIBUTES.replace("] }", "], other = true }", 1)
MISTYPED = MENDED.replace('"F"', '"W"')
WIDER = ATTRIBUTES.replace("[0, 2]", "[0, 3]")
SEX, PLACE = ATTRIBUTES.split("\n")
ROWS = [(1, "F", 0), (2, "M", 1), (3, "F", 2), (4, "M", 3), (5, "F", 0)]


@pytest.fixture
def people(tmp_path: Path) -> People:
    return People(tmp_path)


def _spent(connection: tallyveil.Connection) -> float:
    ((spent,),) = connection.execute("SELECT spent FROM dp.budget").fetchall()
    return float(spent)


def _migrated(people: People) -> list[str]:
    return list(migrate(people.folder / "policy.toml", False, [], yes=True).lines)


def test_fixed_rows_can_become_replaced_ones(people: People) -> None:
    """What was spent on them adds up with all versions, and what was answered stays answered."""
    people.declare(data='"fixed"', budget="epsilon = 1")
    people.fill([(1, "F", 0), (2, "M", 1)])
    women = "SELECT count(*) FROM people WHERE sex = 'F'"
    men = women.replace("'F'", "'M'")
    with people.open("SET dp.epsilon = 0.25") as connection:
        ((before,),) = connection.execute(women).fetchall()
        connection.execute(men)
        assert _spent(connection) == 0.25
    people.declare(budget="epsilon = 1")
    people.fill([(1, "M", 2)])
    with pytest.raises(LedgerMismatch, match="tallyveil migrate POLICY"):
        people.open()
    lines = _migrated(people)
    assert any("spent: 0.25 epsilon before, 0.25 epsilon after" in line for line in lines)
    assert any("answers that are kept: 2" in line for line in lines)
    with people.open("SET dp.epsilon = 0.25") as connection:
        assert connection.execute("SELECT version FROM dp.versions").fetchall() == [(1,)]
        connection.execute(men)
        assert _spent(connection) == 0.5  # of women who are men now
        connection.execute("SET dp.as_of = '2026-01-01'")
        assert connection.execute(women).fetchall() == [(before,)]
    people.publish((1, "F", 2))
    with people.open("SET dp.epsilon = 0.5") as connection:
        connection.execute(women)
        assert _spent(connection) == 1
        with pytest.raises(BudgetExceeded):
            connection.execute("SELECT count(*) FROM people WHERE place = 2 AND sex = 'F'")


def test_the_next_version_can_be_read_from_elsewhere(people: People) -> None:
    people.publish((1, "F", 0))
    with people.open("SET dp.epsilon = 1") as connection:
        before = connection.execute(BY_SEX).fetchall()
    policy = people.folder / "policy.toml"
    (people.folder / "people.csv").rename(people.folder / "later.csv")
    text = policy.read_text().replace("people.csv", "later.csv")
    policy.write_text(text.replace("data =", 'from = "later"\ndata ='))
    with pytest.raises(LedgerMismatch, match="tallyveil migrate POLICY"):
        people.open()
    _migrated(people)
    with people.open() as connection:
        assert connection.execute(BY_SEX).fetchall() == before
    (people.folder / "later.csv").write_text("pid,sex,place\n1,M,1\n2,M,1\n")
    people.publish()
    assert people.counts() == {("M", 1): 2}


def test_a_typo_is_mended_in_the_next_version(people: People) -> None:
    """What does not mention the attribute stays answered, in its version."""
    people.declare(attributes=MISTYPED, budget="epsilon = 3")
    people.fill(ROWS)
    with people.open("SET dp.epsilon = 0.5") as connection:
        connection.execute(BY_PLACE)
        connection.execute(BY_SEX)
        assert _spent(connection) == 1
    people.declare(attributes=MENDED, budget="epsilon = 3")
    with pytest.raises(LedgerMismatch, match=r"another declaration") as refused:
        people.open()
    assert "tables.people.attributes.sex.values" in str(refused.value.detail)
    assert "tallyveil migrate POLICY" in str(refused.value.hint)
    lines = "\n".join(_migrated(people))
    assert "spent: 1 epsilon before, 1 epsilon after" in lines
    assert "sex is another attribute now" in lines
    assert "A version is published when the policy is opened next" in lines
    with people.open("SET dp.epsilon = 0.5") as connection:
        assert connection.execute("SELECT version FROM dp.versions").fetchall() == [(1,), (2,)]
        assert _spent(connection) == 1
        assert [sex for sex, _ in connection.execute(BY_SEX).fetchall()] == ["F", "M", "other"]
        assert _spent(connection) == 1.5
        connection.execute("SET dp.as_of = 'version 1'")
        assert None not in dict(connection.execute(BY_PLACE).fetchall()).values()
        assert connection.execute(BY_SEX).fetchall() == [("F", None), ("M", None), ("other", None)]
    people.declare(attributes=MENDED)
    assert people.counts() == {("F", 0): 2, ("M", 1): 1, ("F", 2): 1}


CHANGED: list[tuple[dict[str, str], str, str]] = [
    ({"attributes": f"{PLACE}\n{SEX}"}, "sex, place", "sex, place"),
    ({"attributes": WIDER}, "place, sex", "place, sex"),
    ({"attributes": PLACE}, "place", "place"),
    ({"attributes": f"{ATTRIBUTES}\npid = {{ range = [2, 9] }}"}, "pid, sex", "pid, sex"),
    ({"attributes": f'{PLACE}\ngender = {{ column = "sex", values = ["M", "F"] }}'},
     "gender, place", "sex, place"),
    ({"attributes": ATTRIBUTES.replace('["F", "M"]', '["M", "F"]')}, "sex", "sex"),
    ({"attributes": ATTRIBUTES.replace("2]", "1], clamp = true")}, "place", "least(place, 1)"),
    ({"attributes": ATTRIBUTES, "more": EXCHANGED}, "sex, place", "sex, place"),
    ({"attributes": ATTRIBUTES, "unit": THRICE}, "sex, place", "sex, place"),
    ({"attributes": WIDER, "unit": THRICE}, "sex, place", "sex, place"),
]  # fmt: skip
"""What is declared now, the keys that are asked then, and these by the engine."""


@pytest.mark.parametrize(
    ("now", "asked", "counted_now", "data"),
    [
        pytest.param(*change, data, marks=[pytest.mark.slow] if (n + m) % 2 else [])
        for n, change in enumerate(CHANGED)
        for m, data in enumerate(["replace", "fixed"])
    ],
)
def test_every_change_of_what_is_counted_is_carried_over(
    people: People, now: dict[str, str], asked: str, counted_now: str, data: str
) -> None:
    """Also together with the change from fixed rows; and back again, as one more change."""
    unit = PERSON if "unit" in now else '"row"'
    people.declare(data=f'"{data}"', unit=unit)
    people.fill(ROWS)
    raw = duckdb.connect()
    raw.execute(f"CREATE TABLE people AS FROM '{people.folder / 'people.csv'}'")
    with people.open("SET dp.epsilon = 8", "SET dp.source = fresh") as connection:
        connection.execute(BY_SEX)
        connection.execute("SELECT count(*) FROM people WHERE place = 1")
        assert _spent(connection) == 16
    back = {"attributes": ATTRIBUTES, "unit": unit}
    for given, sql, oracle in ((now, asked, counted_now), (back, *["sex, place"] * 2)):
        people.declare(**given)
        lines = "\n".join(_migrated(people))
        assert "spent: 16 epsilon before" in lines or given is back
        end = 3 if "3]" in given["attributes"] or "clamp" in given["attributes"] else 2
        first = 2 if "pid =" in given["attributes"] else 1
        expected = raw.execute(
            f"SELECT {oracle}, count(*) FROM people WHERE place <= {end} AND pid >= {first}"
            " GROUP BY ALL"
        )
        with people.open(EXACT, "SET dp.source = fresh") as connection:
            found = connection.execute(
                f"SELECT {sql}, count(*) FROM people GROUP BY {sql}"
            ).fetchall()
            assert sorted(row for row in found if row[-1]) == sorted(expected.fetchall())


@pytest.mark.parametrize(
    ("relation", "budget"),
    alternately(["add_remove", "replace"], ["epsilon = 1000", "rho = 1000, delta = 1e-6"]),
)
def test_what_is_spent_adds_up_over_versions_and_declarations(
    people: People, budget: str, relation: str
) -> None:
    """Brute force over what each version may have lost, with other cells in each; opened with a
    summary or without."""
    random = np.random.default_rng(1)
    measure, power = (budget.split()[0], 1 if budget.startswith("e") else 2)
    lost, before = 0.0, ""
    for version in range(4):
        values, top = random.permutation(["F", "M", "X"])[:2], int(random.integers(1, 5))
        declared = f"sex = {{ values = ['{values[0]}', '{values[1]}'] }}\n"
        declared += f"place = {{ range = [0, {top}] }}"
        people.declare(budget=budget, more=f'neighbours = "{relation}"', attributes=declared)
        if version and declared != before:
            people.fill(ROWS)
            _migrated(people)
        else:
            people.publish(*ROWS)
        before = declared
        cells = [(sex, place) for sex in values for place in range(top + 1)]
        rows: list[dict[Any, float]] = []
        with people.open("SET dp.source = fresh", "SET dp.strategy = direct") as connection:
            for _ in range(3):
                sex, place = cells[random.integers(len(cells))]
                amount = int(random.integers(1, 9))
                connection.execute(f"SET dp.{measure} = {amount}")
                where, kept = [
                    (f"sex = '{sex}'", [cell for cell in cells if cell[0] == sex]),
                    (f"place = {place}", [cell for cell in cells if cell[1] == place]),
                    ("true", cells),
                ][random.integers(3)]
                connection.execute(f"SELECT count(*) FROM people WHERE {where}")
                rows.append(dict.fromkeys(kept, amount ** (1 / power)))
            spent = _spent(connection)
            if random.integers(2):
                connection._gate.accountant.summarise(0)
        outside = [None] if relation == "add_remove" else [*cells, None]
        lost += max(
            sum(abs(row.get(one, 0.0) - row.get(other, 0.0)) ** power for row in rows)
            for one in cells
            for other in outside
        )
        assert spent == pytest.approx(lost, rel=1e-6)
    with people.open() as connection:
        assert _spent(connection) == pytest.approx(lost, rel=1e-6)


def test_stable_values_are_kept_while_other_attributes_change(people: People) -> None:
    people.declare(data=STABLE, unit=PERSON, budget="epsilon = 3")
    people.fill(ROWS)
    with people.open("SET dp.epsilon = 1") as connection:
        connection.execute("SELECT count(*) FROM people WHERE sex = 'F'")
    people.declare(data=STABLE, unit=PERSON, budget="epsilon = 3", attributes=WIDER)
    people.fill([(1, "M", 3), (2, "M", 3)])
    _migrated(people)
    with people.open("SET dp.epsilon = 1") as connection:
        connection.execute("SELECT count(*) FROM people WHERE sex = 'M'")
        assert _spent(connection) == 1  # of women in one version, of men in the other
    people.declare(data=STABLE, unit=PERSON, attributes=WIDER)
    assert people.counts() == {("F", 3): 1, ("M", 3): 1}
    changed = {"attributes": WIDER.replace('"F"', '"F", "X"'), "unit": PERSON}
    people.declare(data=STABLE, **changed)
    with pytest.raises(FeatureNotSupported, match=r"sex is among data\.stable") as refused:
        _migrated(people)
    assert "leave stable out" in str(refused.value.hint)
    people.declare(**changed)
    _migrated(people)
    assert people.counts() == {("M", 3): 2}


def test_what_was_migrated_with_fixed_rows_becomes_replaced(people: People) -> None:
    """Its joint codes are of attributes that nobody asks about any more."""
    people.declare(data='"fixed"', attributes=MISTYPED)
    people.fill(ROWS)
    with people.open("SET dp.epsilon = 1") as connection:
        connection.execute(BY_PLACE)
        connection.execute(BY_SEX)
    people.declare(data='"fixed"', attributes=MENDED)
    _migrated(people)
    with people.open("SET dp.epsilon = 1") as connection:
        connection.execute("SELECT count(*) FROM people WHERE sex = 'F'")
        assert _spent(connection) == 3
    people.declare(attributes=MENDED)
    _migrated(people)
    with people.open("SET dp.epsilon = 1") as connection:
        assert _spent(connection) == 3
        connection.execute("SET dp.epsilon = 1000")
        assert connection.execute(BY_SEX).fetchall() == [("F", 3), ("M", 1), ("other", 0)]
        assert _spent(connection) == 1003


def test_a_version_that_cannot_be_counted_leaves_the_ledger_as_it_was(people: People) -> None:
    people.publish(*ROWS)
    with people.open("SET dp.epsilon = 1") as connection:
        connection.execute(BY_SEX)
    people.declare(attributes=WIDER)
    _migrated(people)
    file = people.folder / "people.csv"
    file.rename(people.folder / "away.csv")
    for _ in range(2):
        with pytest.raises(SourceError, match=r"people\.csv"):
            people.open()
    (people.folder / "away.csv").rename(file)
    with people.open() as connection:
        assert connection.execute("SELECT max(version) FROM dp.versions").fetchall() == [(2,)]
        assert _spent(connection) == 1


def test_no_table_is_pointed_at_the_rows_of_another_that_has_charges(people: People) -> None:
    two = "\n[tables.town]\n" + (people.folder / "policy.toml").read_text().split("people]\n")[1]
    two = two.split("[tables.people.attributes]")[0] + "[tables.town.attributes]\n" + ATTRIBUTES
    policy = people.folder / "policy.toml"
    (people.folder / "rows").mkdir()
    for name in ("people", "town"):
        people.fill(ROWS)
        (people.folder / "people.csv").rename(people.folder / "rows" / f"{name}.csv")
    whole = policy.read_text().replace("people.csv", "rows.duckdb") + two
    with duckdb.connect(str(people.folder / "rows.duckdb")) as raw:
        for name in ("people", "town"):
            raw.execute(f"CREATE TABLE {name} AS FROM '{people.folder}/rows/{name}.csv'")
    policy.write_text(whole)
    with people.open("SET dp.epsilon = 1") as connection:
        connection.execute(BY_SEX)
        connection.execute(BY_SEX.replace("people", "town"))
    policy.write_text(whole.replace("[tables.people]", '[tables.people]\nfrom = "town"'))
    with pytest.raises(LedgerMismatch, match=r'is to read the same rows .* as table "town"') as no:
        _migrated(people)
    beside = 'beside = ["town"]'
    assert beside in str(no.value.hint)
    moved = f'[tables.people]\nfrom = "town"\n{beside}'
    policy.write_text(whole.replace("[tables.people]", moved))
    assert "stays, until you publish the next one" in "".join(_migrated(people))


@pytest.mark.parametrize("first", [True, False])
def test_of_two_that_open_at_once_one_publishes(
    people: People, first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    people.fill(ROWS)
    if not first:
        people.open().close()
        people.declare(attributes=WIDER)
        _migrated(people)
    publishing = Publisher.publish

    def after_another(*given: Any, **more: Any) -> Any:
        monkeypatch.setattr(Publisher, "publish", publishing)
        people.open().close()
        return publishing(*given, **more)

    monkeypatch.setattr(Publisher, "publish", after_another)
    with people.open() as connection:
        found = connection.execute("SELECT max(version) FROM dp.versions").fetchall()
        assert found == [(1 if first else 2,)]


@pytest.mark.parametrize(
    ("was", "now", "message"),
    [
        ({}, {"unit": PERSON}, "and privacy_unit changed"),
        ({"data": '"fixed"', "unit": PERSON}, {"data": STABLE, "unit": PERSON}, 'stable changed'),
        ({"data": '"fixed"', "more": EXACT_COUNT}, {"more": EXCHANGED}, "exact counts were pub"),
        ({}, {"data": '"fixed"'}, "its data is or was not fixed"),
        ({"unit": PERSON}, {"data": STABLE, "unit": PERSON}, 'stable changed'),
    ],
)  # fmt: skip
def test_no_other_change_of_replaced_rows_is_migrated(
    people: People, was: dict[str, str], now: dict[str, str], message: str
) -> None:
    people.declare(**was)
    people.fill((n, "F", 0) for n in range(20))
    with people.open(EXACT) as connection:
        connection.execute(BY_SEX)
    people.declare(**now)
    before = (people.folder / "people.ledger").read_bytes()
    with pytest.raises(FeatureNotSupported, match=message):
        _migrated(people)
    assert (people.folder / "people.ledger").read_bytes() == before


def test_labels_of_the_next_version_are_as_it_has_them(people: People) -> None:
    people.publish(*ROWS)
    people.declare(attributes=MENDED)
    with pytest.raises(FeatureNotSupported, match="labels are those of the next") as refused:
        migrate(people.folder / "policy.toml", False, ["people.sex:F=W"], yes=True)
    assert "Leave --recoded out" in str(refused.value.hint)
