"""The in-process face: DB-API 2.0, relations, DuckDB's dialect."""

from __future__ import annotations

import datetime as dt
import operator
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import tallyveil
from tests.gate.asking import Connect


def test_db_api(connect: Connect) -> None:
    assert (tallyveil.apilevel, tallyveil.threadsafety, tallyveil.paramstyle) == ("2.0", 1, "qmark")
    connection = connect()
    with connection.cursor() as cursor:
        cursor.execute("SELECT state, count(*) AS n FROM person WHERE age < ? GROUP BY 1", [30])
        assert cursor.description is not None
        assert [(d[0], d[1]) for d in cursor.description] == [("state", "VARCHAR"), ("n", "BIGINT")]
        assert cursor.rowcount == 5  # AL, AK, WY, other, NULL
        first = cursor.fetchone()
        assert [first, *cursor.fetchmany(2), *cursor.fetchall()] != []
        assert cursor.fetchone() is None
        assert "cost epsilon 0.1" in cursor.notices[0].message
        cursor.execute("SET dp.notices = off")
        assert cursor.description is None
        with pytest.raises(tallyveil.InterfaceError):
            cursor.fetchall()
    with pytest.raises(tallyveil.InterfaceError):
        cursor.execute("SELECT 1")
    connection.commit()
    connection.rollback()
    assert connection.budget()[0]["spent"] == 0.1


def test_a_relation_is_computed_once(connect: Connect) -> None:
    connection = connect()
    relation = connection.sql("SELECT state, count(*) AS n FROM person GROUP BY ALL")
    spent = connection.budget()[0]["spent"]
    frame = relation.df()
    assert list(frame.columns) == ["state", "n"]
    assert relation.to_arrow_table().num_rows == 5
    assert relation.aggregate("sum(n)").fetchall() == [(frame["n"].sum(),)]
    assert connection.budget()[0]["spent"] == spent


def test_duckdb_divides_as_duckdb_does(connect: Connect) -> None:
    connection = connect()
    assert connection.execute("SELECT 10 / 4, 10 // 4").fetchall() == [(2.5, 2)]
    names = connection.execute("SELECT age // 10 * 10 AS d, count(*) FROM person GROUP BY d")
    assert {row[0] for row in names} == {*range(0, 100, 10), None}


def test_a_joined_query_needs_no_name(connect: Connect) -> None:
    cursor = connect().cursor()
    groups = "(SELECT sex, count(*) AS n FROM person GROUP BY sex)"
    total = "(SELECT count(*) AS m FROM person)"
    one = cursor.execute(f"SELECT min(n / m) FROM {groups} JOIN {total} ON true").fetchone()
    named = cursor.execute(f"SELECT min(n / m) FROM {groups} AS t JOIN {total} AS u ON true")
    assert named.fetchone() == one


def test_group_by_all_of_nothing_is_one_group(connect: Connect) -> None:
    assert len(connect().execute("SELECT count(*) AS n FROM person GROUP BY ALL").fetchall()) == 1


def test_parameters_of_both_kinds(connect: Connect) -> None:
    connection = connect()
    first = connection.execute("SELECT count(*) FROM person WHERE age = ? AND sex = ?", [3, "F"])
    again = connection.execute("SELECT count(*) FROM person WHERE sex = $2 AND age = $1", [3, "F"])
    assert first.fetchall() == again.fetchall()
    with pytest.raises(tallyveil.StatementError):
        connection.execute("SELECT count(*) FROM person WHERE age = ?", [])


@pytest.mark.parametrize(
    ("value", "sqlstate"),
    [
        *[(one, "42804") for one in ({"a": 1}, [{"a": 1}], {1, 2}, bytearray(b"F"), object())],
        *[(one, "42804") for one in (np.array([1, 2]), np.complex64(1), np.longdouble(1))],
        *[(one, "42804") for one in (np.datetime64(1, "ns"), np.timedelta64(1, "M"))],
        *[(one, "22003") for one in (2**127, -(2**130), 2**200, [1, 2**200])],
    ],
)
def test_a_parameter_that_is_no_constant_is_refused_with_the_way_out(
    connect: Connect, value: object, sqlstate: str
) -> None:
    """2²⁰⁰ was 0, and an unhashable value a TypeError."""
    with pytest.raises(tallyveil.StatementError) as caught:
        connect().execute("SELECT count(*), ? FROM person", [value])
    assert caught.value.sqlstate == sqlstate
    assert caught.value.hint


@pytest.mark.parametrize(
    ("scalar", "plain"),
    [
        (np.int64(3), 3),
        (np.uint8(200), 200),
        (np.float64(2.5), 2.5),
        (np.float32(0.1), float(np.float32(0.1))),
        (np.bool_(True), True),
        (np.str_("AL"), "AL"),
        (np.datetime64("2020-01-02"), dt.date(2020, 1, 2)),
        (np.datetime64("2020-01-02T03:04:05", "ns"), dt.datetime(2020, 1, 2, 3, 4, 5)),
        (np.timedelta64(90, "s"), dt.timedelta(seconds=90)),
        (np.datetime64("NaT"), None),
    ],
)
def test_a_scalar_of_numpy_is_the_value_it_equals(
    connect: Connect, scalar: Any, plain: object
) -> None:
    found, equal = (
        connect().execute("SELECT ?, ? = ANY(?)", [scalar, plain, [scalar]]).fetchall()[0]
    )
    assert (found, type(found)) == (plain, type(plain))
    assert equal is (None if plain is None else True)


def test_a_parameter_has_its_value_by_name(connect: Connect) -> None:
    connection = connect()
    sql = "SELECT count(*) FROM person WHERE age < $age AND (sex = $s OR age = $age - 1)"
    expected = connection.execute(sql.replace("$age", "30").replace("$s", "'F'")).fetchall()
    values = {"s": "F", "age": 30}
    assert connection.execute(sql, values).fetchall() == expected
    assert connection.sql(sql, params=values).fetchall() == expected
    assert connection.sql(sql.replace("$age", "$1").replace("$s", "$2"), [30, "F"]).fetchall() == (
        expected
    )


@pytest.mark.parametrize(
    ("sql", "values", "says", "position"),
    [
        ("SELECT $a, $b", {"a": 1}, "there is no value for parameter $b", 12),
        ("SELECT $a", {"a": 1, "c": 2}, "the statement has no parameter $c", None),
        ("SELECT $a, ?", {"a": 1}, "? has no name", 12),
        ("SELECT $a", [1], "there is no parameter $a", None),
        ("SELECT $a + nothing", {"a": 1}, 'column "nothing" does not exist', 13),
    ],
)
def test_names_and_values_of_parameters_match(
    connect: Connect, sql: str, values: Any, says: str, position: int | None
) -> None:
    with pytest.raises(tallyveil.ProgrammingError) as refused:
        connect().execute(sql, values)
    assert refused.value.message == says
    assert refused.value.position == position


def test_tables_and_their_columns_are_listed_as_by_duckdb(
    connect: Connect, source: duckdb.DuckDBPyConnection
) -> None:
    """The oracle is a table of the declared types in DuckDB."""
    source.execute("CREATE TABLE person (state VARCHAR, age INTEGER, sex VARCHAR NOT NULL)")
    connection = connect()
    assert connection.sql("SHOW TABLES").fetchall() == [("person",)]
    theirs = source.execute("DESCRIBE person")
    names = [column[0] for column in theirs.description]
    for sql in ("DESCRIBE person", "DESC main.person", "DESCRIBE public.person"):
        ours = connection.execute(sql)
        assert [column[0] for column in ours.description or ()] == names
        rows = ours.fetchall()
        assert [row[:5] for row in rows] == [row[:5] for row in theirs.fetchall() or rows]
    assert "0 to 99; others clamped" in rows[1][5]
    columns = (
        "SELECT table_name, column_name, data_type, is_nullable FROM information_schema.columns"
        " WHERE table_name = 'person' ORDER BY ordinal_position"
    )
    assert connection.execute(columns).fetchall() == source.execute(columns).fetchall()
    kinds = "SELECT table_type FROM information_schema.tables WHERE table_name = 'person'"
    assert connection.execute(kinds).fetchall() == source.execute(kinds).fetchall()
    every = connection.execute("SELECT table_schema, table_name FROM information_schema.tables")
    for schema, table in every.fetchall():
        described = connection.execute(f"DESCRIBE {schema}.{table}").fetchall()
        if schema == "dp":
            shown = connection.execute(f"SELECT * FROM dp.{table}").description
            assert [row[:2] for row in described] == [column[:2] for column in shown or ()]
    for sql, says in [
        ("DESCRIBE people", 'relation "people" does not exist'),
        ("DESCRIBE SELECT 1", 'syntax error at or near "1"'),
        ("SELECT count(*) FROM person, information_schema.tables", "cannot read both"),
    ]:
        with pytest.raises(tallyveil.StatementError, match=says):
            connection.execute(sql)
    assert connection.budget()[0]["spent"] == 0


NOTEBOOK = """
import sys, types
# How DuckDB finds out that it runs in a notebook; ipywidgets are missing.
kernel = types.SimpleNamespace(config={"IPKernelApp": {}})
sys.modules["IPython"] = types.SimpleNamespace(get_ipython=lambda: kernel)
sys.modules["ipywidgets"] = None
import tallyveil
with tallyveil.connect(sys.argv[1]) as connection:
    print(connection.sql("SELECT count(*) AS n FROM person").columns)
"""


@pytest.mark.slow
def test_a_notebook_without_widgets_connects(tmp_path: Path) -> None:
    """DuckDB refuses there even to turn its progress bar off."""
    (tmp_path / "person.csv").write_text("age\n1\n2\n")
    policy = tmp_path / "policy.toml"
    policy.write_text(
        'source.url = "person.csv"\n[tables.person]\nbudget = { epsilon = 1 }\n'
        "attributes.age = { range = [0, 99] }\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", NOTEBOOK, policy], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("['n']\n", "")


def test_a_refusal_in_a_notebook_is_the_callers_line_and_the_message(connect: Connect) -> None:
    connection = connect()
    with pytest.raises(tallyveil.Error) as refused:
        connection.sql("SELECT * FROM person")
    first, *others = refused.value._render_traceback_()
    assert first.endswith(': connection.sql("SELECT * FROM person")')
    assert others == [f"FeatureNotSupported: {refused.value}"]


def test_closed_is_closed(connect: Connect) -> None:
    connection = connect()
    connection.close()
    connection.close()
    for use in (connection.cursor, connection.budget, connection.commit):
        with pytest.raises(tallyveil.InterfaceError):
            use()


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        ("", "the statement is empty"),
        (" ; -- nothing", "the statement is empty"),
        ("SELECT 1; SELECT 2", "execute() takes one statement, not 2"),
    ],
)
def test_execute_takes_one_statement(connect: Connect, sql: str, says: str) -> None:
    with pytest.raises(tallyveil.TallyveilError) as refused:
        connect().execute(sql)
    assert str(refused.value).startswith(says)
    assert refused.value.sqlstate == "42601"


def test_answers_beyond_a_small_type_have_the_sqlstate_of_postgres(connect: Connect) -> None:
    with pytest.raises(tallyveil.TallyveilError, match="smallint out of range") as refused:
        connect().execute("SELECT count(*)::tinyint FROM person")
    assert refused.value.sqlstate == "22003"


def test_without_a_source_the_policy_must_name_one(tmp_path: Path) -> None:
    policy = tallyveil.parse_policy(
        {"tables": {"t": {"budget": {"epsilon": 1}, "attributes": {"a": {"range": [0, 1]}}}}},
        base=tmp_path,
    )
    with pytest.raises(tallyveil.Error, match="source"):
        tallyveil.connect(policy)


_DAY = dt.date(2020, 1, 2)
_NOON = dt.datetime(2020, 1, 2, 12)


@pytest.mark.parametrize(
    ("condition", "values", "days"),
    [
        ("day < ?", [_NOON], 2),
        ("day >= ?", [_NOON], 3),
        ("day = ?", [_NOON], 0),
        ("day < ?", [_NOON.replace(tzinfo=dt.UTC)], 2),
        ("day = ?", [_DAY], 1),
        ("day < ? + 1", [_DAY], 2),
        ("day IN (?, ?)", [_NOON, _DAY], 1),
        ("day = ANY(?)", [[None, _DAY]], 1),
        ("day = ANY(?)", [[_DAY, _NOON]], 1),
        ("day BETWEEN ? AND ?", [_NOON, dt.date(2020, 1, 4)], 2),
        ("n = ANY(?)", [[2, 2.5]], 1),
    ],
)
def test_a_parameter_is_of_its_values_type(
    source: duckdb.DuckDBPyConnection, connect: Connect, condition: str, values: list[object],
    days: int,
) -> None:  # fmt: skip
    source.execute(
        "CREATE TABLE visits AS SELECT DATE '2020-01-01' + CAST(i AS INTEGER) AS day, i AS n "
        "FROM range(5) t(i)"
    )
    attributes = {"day": {"range": [dt.date(2020, 1, 1), dt.date(2020, 1, 5)]}}
    attributes["n"] = {"range": [0, 4]}
    connection = connect(**{"from": "visits", "attributes": attributes, "budget": {"epsilon": 1e4}})
    connection.execute("SET dp.epsilon = 1000")
    sql = f"SELECT count(*) FROM person WHERE {condition}"
    assert connection.execute(sql, values).fetchone() == (days,)


def test_a_relation_shows_its_cost_and_intervals(connect: Connect) -> None:
    connection = connect()
    relation = connection.sql('SELECT state, count(*) AS "n<" FROM person GROUP BY ALL')
    (notice,) = relation.notices
    assert "cost epsilon 0.1; interval ±" in notice.message
    shown = relation._repr_html_()
    assert shown.count("<tr>") == 1 + 5
    assert "<th>n&lt;</th>" in shown
    for said in (shown, repr(relation)):
        assert notice.message in said
    many = connection.sql("SELECT age, count(*) FROM person GROUP BY age")
    assert "81 more rows" in many._repr_html_()
    instants = connection.sql("SELECT to_timestamp(0) AS at, NULL AS nothing, 1.5 AS number")
    assert "<td>1970-01-01 00:00:00+00</td><td>None</td><td>1.5</td>" in instants._repr_html_()
    # Other libraries take it for what it is, and it asks nothing more.
    ((at, *_),) = instants.fetchall()
    assert at == dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    (total,) = duckdb.sql('SELECT sum("n<") FROM relation').fetchall()
    assert total == relation.aggregate('sum("n<")').fetchall()[0]
    assert pa.table(relation).num_rows == len(relation) == 5
    with pytest.raises(AttributeError):
        relation.nothing()


VALUES = """
    SELECT 1::HUGEINT AS h, 1.5::DECIMAL(5, 2) AS d, DATE '2020-02-29' AS day, 'é' AS t, NULL AS z,
           TIMESTAMP '2020-01-01 10:00:00.5' AS at, [1, NULL] AS l, true AS b, TIME '10:00' AS c,
           0.25::DOUBLE AS f
"""


def test_a_cursor_gives_frames_as_duckdb_does(connect: Connect) -> None:
    connection, cursor = connect(), connect().cursor()
    expected = connection.sql(VALUES)
    assert cursor.execute(VALUES).arrow().equals(expected.to_arrow_table())
    assert cursor.execute(VALUES).df().equals(expected.df())
    spans = "SELECT INTERVAL '1 month 2 days 3 seconds' AS i, INTERVAL '-1 day' AS j"
    assert cursor.execute(spans).arrow().equals(connection.sql(spans).to_arrow_table())


def test_a_cursor_gives_frames_of_polars(connect: Connect) -> None:
    pytest.importorskip("polars")
    connection = connect()
    assert connection.cursor().execute(VALUES).pl().equals(connection.sql(VALUES).pl())
    assert connection.sql("SELECT state, count(*) FROM person GROUP BY ALL").pl().height == 5


def test_a_frame_has_the_rows_that_were_not_fetched(connect: Connect) -> None:
    cursor = connect().execute("SELECT state, count(*) AS n FROM person GROUP BY 1")
    row = cursor.fetchone()
    frame = cursor.df()
    assert list(frame.columns) == ["state", "n"]
    assert len(frame) == 4
    assert row not in list(frame.itertuples(index=False, name=None))
    assert cursor.arrow().num_rows == 0
    assert cursor.execute("SELECT 1 AS n WHERE false").arrow().schema.names == ["n"]
    cursor.execute("SET dp.notices = off")
    with pytest.raises(tallyveil.InterfaceError, match="returned no rows") as refused:
        cursor.df()
    assert refused.value.sqlstate == "24000"
    cursor.close()
    with pytest.raises(tallyveil.InterfaceError, match="the cursor is closed") as refused:
        cursor.df()
    assert refused.value.sqlstate == "24000"


def test_what_a_frame_cannot_hold_or_be_is_said(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    cursor = connect().execute("SELECT INTERVAL 3000000 HOUR AS long")
    with pytest.raises(tallyveil.InterfaceError, match='column "long" holds a'):
        cursor.arrow()
    relation = cursor.connection.sql("SELECT 1 AS n")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    for missing in (cursor.execute("SELECT 1").pl, relation.pl, relation.df):
        with pytest.raises(tallyveil.InterfaceError, match=r"(polars|pandas) is not installed"):
            missing()
    assert cursor.fetchall() == [(1,)]


@pytest.mark.parametrize(("wanted", "cost"), [("auto", 0.1), ("fresh", 0.2)])
def test_what_another_process_buys_meanwhile_is_found(
    connect: Connect, monkeypatch: pytest.MonkeyPatch, wanted: str, cost: float
) -> None:
    """After this one has looked, and before it pays. Whoever wants fresh answers buys them."""
    one, two = connect(), connect()
    two.execute(f"SET dp.source = {wanted}")
    decision = two._gate.decision
    settle, sql = decision._settle, "SELECT state, count(*) FROM person GROUP BY 1 ORDER BY 1"

    def meanwhile(*arguments: Any) -> Any:
        one.execute(sql)
        return settle(*arguments)

    monkeypatch.setattr(decision, "_settle", meanwhile)
    answer = two.execute(sql).fetchall()
    assert two.budget()[0]["spent"] == cost
    assert (one.execute(sql).fetchall() == answer) == (wanted == "auto")


# The way of a statement that buys, by whose step it is.
_STEPS = [
    ("decision", "_wanted"),
    ("decision", "_recorded"),
    ("decision", "_decide"),
    ("decision.reservations", "of"),
    ("decision.others", "settled"),
    ("decision", "_settle"),
    ("decision.control", "state"),
    ("decision.control", "refusal"),
    ("decision.accountant", "price"),
    ("decision", "_buy"),
    ("decision.accountant", "sell"),
]


@pytest.mark.parametrize(
    ("owner", "step", "drawn"),
    [
        pytest.param(*step, drawn, marks=[pytest.mark.slow] if (n + m) % 2 else [])
        for n, step in enumerate(_STEPS)
        for m, drawn in enumerate(["in the charge", "later"])
    ],
)
def test_a_question_is_bought_once_before_whichever_step_another_process_buys_it(
    connect: Connect, monkeypatch: pytest.MonkeyPatch, owner: str, step: str, drawn: str
) -> None:
    """Its answer is recorded with the charge, or not before somebody waits for it."""
    one, two = connect(), connect()
    sql, late = "SELECT count(*) FROM person WHERE age < 30 AND state = 'AL'", drawn == "later"
    for each in (one, two):
        each.execute("SELECT count(*) FROM person WHERE age < 40 AND state = 'WY'")
    charged, waited_for = threading.Event(), threading.Event()
    accountant = one._gate.decision.accountant
    record = accountant.record

    def recorded(*arguments: Any) -> None:
        charged.set()
        waited_for.wait(10)
        record(*arguments)

    monkeypatch.setattr(accountant, "record", recorded)
    monkeypatch.setattr(one._gate.decision, "_quickly_drawn", Mock(return_value=not late))
    other = threading.Thread(target=one.execute, args=(sql,))

    def buys() -> None:
        if other.ident is None:
            other.start()
            if late:
                assert charged.wait(10)
            else:
                other.join(10)

    def pause() -> None:
        waited_for.set()
        other.join(10)

    monkeypatch.setattr(two._gate.decision.others, "_pause", pause)
    whose = operator.attrgetter(owner)(two._gate)
    work = getattr(whose, step)

    def interrupted(*arguments: Any, **keywords: Any) -> Any:
        buys()
        return work(*arguments, **keywords)

    monkeypatch.setattr(whose, step, interrupted)
    answer = two.execute(sql).fetchall()
    waited_for.set()
    other.join(10)
    assert two.budget()[0]["spent"] == 0.1
    assert one.execute(sql).fetchall() == answer


def test_who_will_not_answer_is_not_waited_for(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A statement that failed after its charge. The next who asks buys."""
    one, two = connect(), connect()
    sql = "SELECT count(*) FROM person WHERE age < 30"
    monkeypatch.setattr(one._gate.decision, "_quickly_drawn", Mock(return_value=False))
    died = Mock(side_effect=OSError("died"))
    monkeypatch.setattr(one._gate.decision, "_drawing", Mock(return_value=died))
    with pytest.raises(OSError, match="died"):
        one.execute(sql)
    waited = Mock(side_effect=AssertionError("it waited"))
    monkeypatch.setattr(two._gate.decision.others, "_pause", waited)
    two.execute(sql)
    assert two.budget()[0]["spent"] == 0.2
