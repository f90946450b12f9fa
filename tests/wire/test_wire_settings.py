"""Settings over the wire: what they promise is kept, and wrong ones end nothing but themselves."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest


def test_a_statement_ends_at_its_timeout(house: Any) -> None:
    with house.connect() as connection:
        connection.execute("SET statement_timeout = '200ms'")
        assert connection.execute("SHOW statement_timeout").fetchone() == ("200ms",)
        values = ", ".join(f"({i})" for i in range(10))
        slow = " + ".join(f"d{i}.a" for i in range(9)) + " = 1000"
        many = "SELECT count(*) FROM " + ", ".join(f"d d{i}" for i in range(9))
        with pytest.raises(psycopg.errors.QueryCanceled, match="due to statement timeout"):
            connection.execute(f"WITH d (a) AS (VALUES {values}) {many} WHERE {slow}")
        with pytest.raises(psycopg.Error) as caught:
            connection.execute("SET statement_timeout = 'banana'")
        assert caught.value.sqlstate == "22023"
        connection.execute("RESET statement_timeout")
        assert connection.execute("SELECT 1").fetchone() == (1,)
    assert house.spent() == 0


@pytest.mark.parametrize(
    ("options", "name", "value"),
    [
        ("-c statement_timeout=5s", "statement_timeout", "5s"),
        ("-c dp.epsilon=0.5 --dp.source=history", "dp.epsilon", "0.5"),
        ("-c TimeZone=europe/paris", "timezone", "Europe/Paris"),
        ("-csearch_path=public", "search_path", "public"),
        (
            "-c idle_in_transaction_session_timeout=60000",
            "idle_in_transaction_session_timeout",
            "1min",
        ),
        ("--work-mem=65536 -c enable_seqscan=0", "work_mem", "64MB"),
        ("-c default_transaction_isolation=serializable", "transaction_isolation", "serializable"),
    ],
)
def test_connection_options_are_settings(house: Any, options: str, name: str, value: str) -> None:
    with house.connect(options=options) as connection:
        assert connection.execute(f"SHOW {name}").fetchone() == (value,)


@pytest.mark.parametrize(
    "options",
    ["-c dp.epsilon=1 0", r"-c dp.epsilon=1\ 0", "-c statement_timeout=banana", "-c search_path=dp",
     "-c dp.epsilon=0x10", "-c dp.epsilon=1_0", "-c default_transaction_isolation=banana"],
)  # fmt: skip
def test_wrong_connection_options_are_refused(house: Any, options: str) -> None:
    with pytest.raises(psycopg.OperationalError, match=r"invalid|not answered"):
        house.connect(options=options).close()


def test_a_client_is_told_of_a_long_name_in_a_short_message(house: Any) -> None:
    with house.connect() as connection:
        connection.execute("SET application_name = '" + 40_000 * "é" + "'")
        assert connection.execute("SHOW application_name").fetchone() == (31 * "é",)


def test_a_transaction_is_of_the_level_asked(house: Any) -> None:
    """As pgx, lib/pq, tokio-postgres and Sequelize begin one."""
    with house.connect() as connection:
        for begin in ("BEGIN ISOLATION LEVEL", "START TRANSACTION READ ONLY, ISOLATION LEVEL"):
            for level in ("serializable", "repeatable read", "read committed", "read uncommitted"):
                connection.execute(f"{begin} {level.upper()}".encode())
                shown = connection.execute("SHOW transaction_isolation").fetchone()
                assert shown == (level,)
                connection.execute("COMMIT")


def test_a_savepoint_is_known_by_its_name(house: Any) -> None:
    with house.connect() as connection:
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        assert connection.execute("SHOW transaction_isolation").fetchone() == ("repeatable read",)
        connection.execute("SAVEPOINT a")
        with pytest.raises(psycopg.errors.InvalidSavepointSpecification):
            connection.execute("ROLLBACK TO b")
        connection.execute("ROLLBACK TO SAVEPOINT a")
        connection.execute("COMMIT WORK")
        assert connection.execute("SHOW transaction_isolation").fetchone() == ("read committed",)


@pytest.mark.parametrize("written", ["'a b'", "E'a b'", r"e'a\'b'", "E'a''b'", "$$a b$$"])
def test_a_value_is_a_string_in_each_way_of_writing_one(
    house: Any, postgres: psycopg.Connection[Any], written: str
) -> None:
    def shown(connection: psycopg.Connection[Any]) -> Any:
        connection.execute(f"SET application_name = {written}".encode())
        return connection.execute("SHOW application_name").fetchone()

    with house.connect() as connection:
        try:
            assert shown(connection) == shown(postgres)
        finally:
            postgres.execute("RESET ALL")


@pytest.mark.parametrize(
    "interval",
    [
        "'+00:00' HOUR TO MINUTE",
        "'-08:00' HOUR TO MINUTE",
        "'+02:00:00'",
        "'2 hours'",
        "'3' HOUR",
        "'180' HOUR TO MINUTE",
        "'-3600'",
    ],
)
def test_a_time_zone_may_be_an_interval(
    free_house: Any, postgres: psycopg.Connection[Any], interval: str
) -> None:
    """As Sequelize sets one when it connects."""
    instant = b"SELECT CAST(timestamptz '2020-01-01 12:00+00' AS timestamp)"
    with free_house.connect() as connection:
        for session in (connection, postgres):
            session.execute(f"SET TIME ZONE INTERVAL {interval}".encode())
        assert connection.execute(instant).fetchone() == postgres.execute(instant).fetchone()
    postgres.execute("SET TIME ZONE 'UTC'")


@pytest.mark.parametrize("interval", ["'+05:30' HOUR TO MINUTE", "'1 day'", "'1 month'"])
def test_a_time_zone_that_is_not_of_whole_hours_is_refused(free_house: Any, interval: str) -> None:
    with free_house.connect() as connection:
        with pytest.raises(psycopg.errors.InvalidParameterValue):
            connection.execute(f"SET TIME ZONE INTERVAL {interval}".encode())
        assert connection.execute("SHOW timezone").fetchone() == ("UTC",)


@pytest.mark.parametrize(
    ("arguments", "value"),
    [
        ("'no.such', true", None),
        ("'no.such', 'true'", None),
        ("'TimeZone', true", "UTC"),
        ("'timezone', false", "UTC"),
    ],
)
def test_a_setting_that_may_be_missing_is_null(
    house: Any, arguments: str, value: str | None
) -> None:
    """What clients ask to see whether this is a server of a certain kind."""
    with house.connect() as connection:
        found = connection.execute(f"SELECT current_setting({arguments})".encode())
        assert found.fetchall() == [(value,)]
        with pytest.raises(psycopg.errors.UndefinedObject, match=r"no\.such"):
            connection.execute("SELECT current_setting('no.such', false)")


def test_set_config_sets_as_set_does(free_house: Any) -> None:
    """As Django and PostgREST set the time zone and the schemas: described, explained and refused
    statements set nothing, and a rollback undoes it."""
    set_zone = "SELECT set_config('TimeZone', %s, %s)"

    def zone() -> Any:
        [shown] = connection.execute("SHOW timezone").fetchone() or [None]
        return shown

    with free_house.connect() as connection, free_house.connect() as other:
        with connection.transaction():
            connection.execute(set_zone, ("Europe/Rome", True))
            assert zone() == "Europe/Rome"
        connection.execute(set_zone, ("Europe/Rome", True))
        assert zone() == "UTC"
        connection.execute("EXPLAIN SELECT set_config('TimeZone', 'Europe/Rome', false)")
        with free_house.connect(cursor_factory=psycopg.ClientCursor) as client:
            client.execute(set_zone, ("Europe/Paris", False))
            assert client.execute("SHOW timezone").fetchone() == ("Europe/Paris",)
        with connection.transaction(force_rollback=True):
            assert connection.execute(
                set_zone, ("Europe/Rome", False), prepare=True
            ).fetchall() == [("Europe/Rome",)]
            assert connection.info.parameter_status("TimeZone") == "Europe/Rome"
        assert zone() == "UTC"
        for wrong in (
            "SELECT set_config('TimeZone', 'Europe/Rome', false), set_config('jit', 'x', false)",
            "SELECT set_config('TimeZone', 'Europe/Rome', false) FROM person",
            "SELECT set_config('TimeZone', 'Europe/Rome', false) WHERE false",
            "SELECT lower(set_config('TimeZone', 'Europe/Rome', false))",
            "SELECT set_config('nothing', '1', false)",
        ):
            with pytest.raises(psycopg.Error):
                connection.execute(wrong.encode())
            assert zone() == "UTC", wrong
        connection.execute(set_zone, ("Europe/Rome", False))
        assert zone() == connection.info.parameter_status("TimeZone") == "Europe/Rome"
        assert other.execute("SHOW timezone").fetchone() == ("UTC",)
    assert free_house.spent() == 0
