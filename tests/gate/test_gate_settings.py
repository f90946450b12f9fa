from __future__ import annotations

import pytest

import tallyveil
from tallyveil.mechanisms import AUTO, BY_INVARIANTS, mechanism_names
from tests.gate.asking import Connect


def show(connection: tallyveil.Connection, name: str) -> str:
    row = connection.execute(f"SHOW {name}").fetchone()
    assert row is not None
    return str(row[0])


def test_a_cost_and_a_target_exclude_each_other(connect: Connect) -> None:
    connection = connect()
    connection.execute("SET dp.half_width TO 12.5")
    assert (show(connection, "dp.epsilon"), show(connection, "dp.half_width")) == ("", "12.5")
    connection.execute("SET dp.epsilon = '0.25'")
    assert (show(connection, "dp.epsilon"), show(connection, "dp.half_width")) == ("0.25", "")
    connection.execute("RESET dp.epsilon")
    assert show(connection, "dp.epsilon") == "0.1"
    connection.execute("SET dp.half_width = 3")
    connection.execute("RESET ALL")
    assert (show(connection, "dp.epsilon"), show(connection, "dp.half_width")) == ("0.1", "")


@pytest.mark.parametrize(
    ("statement", "sqlstate"),
    [
        ("SET dp.confidence = 1", "22023"),
        ("SET dp.confidence = 0", "22023"),
        ("SET dp.confidence = nan", "22023"),
        ("SET dp.half_width = -3", "22023"),
        ("SET dp.source = everywhere", "22023"),
        ("SET dp.notices = perhaps", "22023"),
        ("SET dp.mechanism = none", "22023"),
        ("SET dp.noise = off", "42704"),
        ("SET noise = off", "42704"),
        ("SET client_encoding = 'LATIN1'", "22023"),
        ("SET standard_conforming_strings = off", "22023"),
        ("SET server_version = '9'", "22023"),
        ("SET LOCAL dp.epsilon = -1", "22023"),
        ("SET dp.epsilon", "42601"),
        ("SHOW nothing", "42704"),
        ("RESET nothing", "42704"),
    ],
)
def test_wrong_settings_change_nothing(connect: Connect, statement: str, sqlstate: str) -> None:
    connection = connect()
    before = connection.execute("SHOW ALL").fetchall()
    with pytest.raises(tallyveil.Error) as caught:
        connection.execute(statement)
    assert caught.value.sqlstate == sqlstate
    assert connection.execute("SHOW ALL").fetchall() == before


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        ("x", "Give a number, such as 0.1."),
        ("1e-300", "an exponent of at most two digits"),
        (f"0.{'0' * 30}1", "at most 20 digits on each side of the point"),
        ("-1", "It must be greater than 0"),
    ],
)
def test_the_hint_says_what_is_wrong_with_a_number(connect: Connect, value: str, hint: str) -> None:
    with pytest.raises(tallyveil.Error) as caught:
        connect().execute(f"SET dp.epsilon = '{value}'")
    assert hint in str(caught.value.hint)


@pytest.mark.parametrize(
    "statement",
    [
        "SET application_name TO 'x'",
        "SET SESSION extra_float_digits = 3",
        "SET TIME ZONE 'Europe/Paris'",
        "SET NAMES 'UTF8'",
        "SET search_path = public, x",
        "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY",
        "SET client_encoding = UTF8",
        "DISCARD ALL",
        "RESET ALL",
        "UNLISTEN *",
        "CLOSE ALL",
        "SET dp.epsilon = DEFAULT",
    ],
)
def test_what_clients_send_on_connecting(connect: Connect, statement: str) -> None:
    assert connect().execute(statement).description is None


@pytest.mark.parametrize("name", ["dp.epsilon", "dp.half_width", "dp.confidence"])
@pytest.mark.parametrize("value", ["1e999999999", "0." + "1" * 100_000, "1/3", "1_000", "0x1"])
def test_a_number_is_read_no_further_than_numbers_go(
    connect: Connect, name: str, value: str
) -> None:
    with pytest.raises(tallyveil.Error) as caught:
        connect().execute(f"SET {name} = '{value}'")
    assert caught.value.sqlstate == "22023"
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("sql", "message", "hint"),
    [
        (
            "SET dp.mechanism = laplce",
            'there is no mechanism "laplce"',
            f"Known: {', '.join((AUTO, *BY_INVARIANTS, *mechanism_names()))}.",
        ),
        (
            "SET search_path = ''",
            'invalid value for parameter "search_path": ""',
            "Names without a schema are always looked up in public: leave it in the path, and"
            " write dp. before the names of its relations.",
        ),
        (  # libpq ends a connection where it is told of a value of 30,000 bytes
            "SET search_path = public, " + ", ".join("x" * 58 + f"{n:02}" for n in range(20)),
            'invalid value for parameter "search_path": "public, ' + "x" * 22 + '…"',
            "A path has at most 1000 characters.",
        ),
    ],
)
def test_a_refused_setting_says_what_to_write(
    connect: Connect, sql: str, message: str, hint: str
) -> None:
    with pytest.raises(tallyveil.Error) as caught:
        connect().execute(sql)
    assert (caught.value.message, caught.value.hint) == (message, hint)


def test_in_process_a_block_may_undo_its_settings(connect: Connect) -> None:
    connection = connect()

    def epsilon() -> object:
        row = connection.execute("SHOW dp.epsilon").fetchone()
        return None if row is None else row[0]

    default = epsilon()
    for end, left in (("COMMIT", "0.25"), ("ROLLBACK", default)):
        connection.execute("RESET ALL")
        connection.execute("BEGIN")
        connection.execute("SET dp.epsilon = 0.25")
        connection.execute("SET LOCAL dp.epsilon = 0.5")
        assert epsilon() == "0.5"
        connection.execute(end)
        assert epsilon() == left
    cursor = connection.execute("SET LOCAL dp.epsilon = 0.5")
    assert [notice.sqlstate for notice in cursor.notices] == ["25P01"]
    assert epsilon() == default
    for statement in ("DECLARE c CURSOR FOR SELECT 1", "EXECUTE p", "FETCH c", "CLOSE c"):
        with pytest.raises(tallyveil.Error) as caught:
            connection.execute(statement)
        assert caught.value.sqlstate == "0A000"
