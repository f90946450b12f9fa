"""What a client receives: rows, types, costs, errors, through psycopg over TCP."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from psycopg import errors


def test_a_count_costs_epsilon_once_however_it_is_written(house: Any) -> None:
    with house.connect() as connection:
        first = connection.execute(
            "SELECT count(*) FROM person WHERE age BETWEEN 20 AND 29 AND sex = 'F'"
        ).fetchall()
        assert house.spent() == pytest.approx(0.05)
        again = connection.execute(
            "SELECT count(sex) AS n FROM person p WHERE p.sex IN ('F') AND p.age >= 20 AND age < 30"
        ).fetchall()
    assert again == first
    assert len(first) == 1
    assert house.spent() == pytest.approx(0.05)


def test_a_group_by_answers_the_declared_groups(house: Any) -> None:
    with house.connect() as connection:
        rows = connection.execute(
            "SELECT state, sex, count(*) FROM person WHERE age > 100 GROUP BY 1, 2"
        ).fetchall()
    # Nobody is that old, yet every declared group is there: its presence says nothing.
    assert {row[:2] for row in rows} == {
        (state, sex) for state in ("AL", "AK", "WY") for sex in ("F", "M", None)
    }
    assert house.spent() == pytest.approx(0.05)


def test_having_order_and_limit_work_on_the_noisy_rows(house: Any) -> None:
    with house.connect() as connection:
        rows = connection.execute(
            "SELECT income, count(*) AS n FROM person GROUP BY income "
            "HAVING count(*) > -1000000 ORDER BY n DESC LIMIT 2"
        ).fetchall()
        everything = connection.execute(
            "SELECT income, count(*) FROM person GROUP BY income"
        ).fetchall()
    assert [n for _, n in rows] == sorted((n for _, n in everything), reverse=True)[:2]


def test_a_notice_says_cost_interval_and_what_remains(house: Any) -> None:
    notices: list[str] = []
    with house.connect() as connection:
        connection.add_notice_handler(lambda d: notices.append(d.message_primary or ""))
        connection.execute("SELECT count(*) FROM person")
        connection.execute("SELECT count(*) FROM person")
        connection.execute("SET dp.notices = off")
        connection.execute("SELECT count(*) FROM person")
    # 60 is the least h with P(|K| <= h) >= 0.95 at scale 20.
    assert notices == [
        "cost epsilon 0.05; interval ±60 at 95 %; 2.95 of 3 remains for person",
        "answered from history, free; interval ±60 at 95 %; 2.95 of 3 remains for person",
    ]


def test_interval_functions_stand_around_the_answer(house: Any) -> None:
    with house.connect() as connection:
        row = connection.execute(
            "SELECT dp_interval_low(n), count(*) AS n, dp_interval_high(count(*)) FROM person"
        ).fetchone()
    assert row is not None
    assert (row[1] - row[0], row[2] - row[1]) == (60, 60)


def test_a_target_buys_just_enough(house: Any) -> None:
    with house.connect() as connection:
        connection.execute("SET dp.half_width = 10")
        row = connection.execute(
            "SELECT dp_interval_high(n) - count(*), count(*) AS n FROM person WHERE age = 3"
        ).fetchone()
    assert row is not None
    assert row[0] == 10


def test_distinct_lists_the_declared_values_free(free_house: Any) -> None:
    with free_house.connect() as connection:
        values = connection.execute("SELECT DISTINCT sex AS v FROM person ORDER BY 1").fetchall()
    assert values == [("F",), ("M",), (None,)]
    assert free_house.spent() == 0


def test_public_relations(house: Any) -> None:
    with house.connect() as connection:
        connection.execute("SELECT count(*) FROM person WHERE age = 30")
        budget = connection.execute(
            "SELECT table_name, budget, spent, remaining FROM dp.budget"
        ).fetchall()
        history = connection.execute("SELECT analyst, sql, cost FROM dp.history").fetchall()
        settings = dict(connection.execute("SELECT name, value FROM dp.settings").fetchall())
        attributes = connection.execute("SELECT attribute FROM dp.attributes").fetchall()
    assert budget == [("person", 3.0, 0.05, 2.95)]
    assert history == [("alice", "SELECT count(*) FROM person WHERE age = 30", 0.05)]
    assert settings["dp.epsilon"] == "0.05"
    assert [name for (name,) in attributes] == ["state", "age", "sex", "income", "married", "pid"]


@pytest.mark.parametrize("columns", ["nosuch", "cost, nosuch", "nosuch + 1 AS n", "nosuch AS x"])
def test_a_column_that_a_public_relation_lacks(free_house: Any, columns: str) -> None:
    with (
        free_house.connect() as connection,
        pytest.raises(errors.UndefinedColumn, match='olumn "nosuch"'),
    ):
        connection.execute(f"SELECT {columns} FROM dp.history")


REFUSED = [
    ("SELECT count(*) FORM person", "42601", 22),
    ("SELECT count(*) FROM people", "42P01", 22),
    ("SELECT count(*) FROM person WHERE moved IS NULL", "42703", 35),
    ("SELECT * FROM person", "0A000", 8),
    ("SELECT age FROM person", "0A000", 8),
    ("SELECT count(DISTINCT age) FROM person", "0A000", 8),
    ("SELECT max(age) FROM person", "0A000", 8),
    ("SELECT count(*) FROM person WHERE random() < 0.5", "0A000", 35),
    ("SELECT count(*) FROM person WHERE income > 20000", "22023", 35),
    ("SELECT state, age, count(*) FROM person GROUP BY state", "42803", 15),
    ("SELECT count(*) FROM person TABLESAMPLE BERNOULLI (10)", "0A000", None),
    ("SELECT count(*) FROM person a JOIN person b ON a.age = b.age", "0A000", None),
    ("DELETE FROM person", "0A000", 1),
    ("SELEC count(*) FROM person", "42601", 1),
    ("SELECT 1; 42", "42601", 11),
    ("COPY person TO STDOUT", "0A000", 1),
    ("COPY (SELECT count(*) FORM person) TO STDOUT", "42601", 28),
    ("EXPLAIN SELECT count(*) FORM person", "42601", 30),
    ("SELECT 1; EXPLAIN SELECT count(*) FORM person", "42601", 40),
    ("SELECT 1; SELECT count(*) FROM nowhere", "42P01", 32),
]


@pytest.mark.parametrize(("sql", "sqlstate", "position"), REFUSED)
def test_a_refusal_names_its_place_and_costs_nothing(
    free_house: Any, sql: str, sqlstate: str, position: int | None
) -> None:
    with free_house.connect() as connection, pytest.raises(psycopg.Error) as caught:
        connection.execute(sql)
    assert caught.value.sqlstate == sqlstate
    if position is not None:
        assert caught.value.diag.statement_position == str(position)
    assert free_house.spent() == 0


def test_nothing_about_the_source_is_hinted(free_house: Any) -> None:
    """The source has a table people and a column moved that the policy does not declare."""
    with free_house.connect() as connection:
        for sql in ("SELECT count(*) FROM peopl", "SELECT count(move) FROM person"):
            with pytest.raises(psycopg.Error) as caught:
                connection.execute(sql)
            said = f"{caught.value.diag.message_detail}{caught.value.diag.message_hint}"
            assert "people" not in said
            assert "moved" not in said


def test_a_bin_cut_names_the_nearest_edges(free_house: Any) -> None:
    with free_house.connect() as connection, pytest.raises(errors.InvalidParameterValue) as caught:
        connection.execute("SELECT count(*) FROM person WHERE income >= 20000")
    assert "15000 and 30000" in (caught.value.diag.message_hint or "")


def test_the_budget_is_a_filter(house: Any) -> None:
    """60 statements at 0.05 on the same cells exhaust 3.0 exactly; the 61st is refused."""
    with house.connect() as connection:
        connection.execute("SET dp.source = fresh")
        for _ in range(60):
            connection.execute("SELECT count(*) FROM person WHERE age < 50")
        assert house.remaining() == 0
        with pytest.raises(errors.ConfigurationLimitExceeded) as caught:
            connection.execute("SELECT count(*) FROM person WHERE age < 20")
        # Other cells have not been asked about.
        assert connection.execute("SELECT count(*) FROM person WHERE age >= 50").fetchone()
    assert "remains" in (caught.value.diag.message_primary or "")
    assert "history" in (caught.value.diag.message_hint or "")


@pytest.mark.parametrize("value", ["0", "-1", "nan", "inf", "'1e999'", "abc", "''"])
def test_a_senseless_epsilon_is_refused(free_house: Any, value: str) -> None:
    with free_house.connect() as connection:
        with pytest.raises(errors.InvalidParameterValue):
            connection.execute(f"SET dp.epsilon = {value}")
        assert connection.execute("SHOW dp.epsilon").fetchone() == ("0.05",)


def test_parameters(house: Any) -> None:
    with house.connect() as connection:
        literal = connection.execute(
            "SELECT count(*) FROM person WHERE age = 30 AND state = 'AL'"
        ).fetchall()
        for binary in (False, True):
            bound = connection.execute(
                "SELECT count(*) FROM person WHERE age = %s AND state = ANY(%s)",
                (30, ["AL"]),
                binary=binary,
            ).fetchall()
            assert bound == literal
    assert house.spent() == pytest.approx(0.05)
