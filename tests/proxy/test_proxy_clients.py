"""Unmodified clients over TCP: psycopg, asyncpg, psql."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import threading
from decimal import Decimal

import asyncpg
import psycopg
import pytest
from psycopg import pq
from psycopg.rows import dict_row

from tests.proxy.fake_session import SAMPLE_ROWS, Sessions


@pytest.mark.parametrize("binary", [False, True])
def test_psycopg_reads_every_type(dsn: str, binary: bool) -> None:
    with psycopg.connect(dsn) as connection, connection.cursor(binary=binary) as cursor:
        rows = cursor.execute("SELECT * FROM sample").fetchall()
        assert rows == list(SAMPLE_ROWS)
        assert cursor.description is not None
        assert [c.type_code for c in cursor.description] == [
            16, 21, 20, 1700, 701, 1700, 25, 1082, 1114, 2950, 17, 1009,
        ]  # fmt: skip
        assert (cursor.description[5].precision, cursor.description[5].scale) == (18, 3)


@pytest.mark.parametrize(
    ("value", "declared"),
    [
        (7, "BIGINT"),
        (-(2**60), "BIGINT"),
        ("x'y", "VARCHAR"),
        (0.1, "DOUBLE"),
        (True, "BOOLEAN"),
        (None, "VARCHAR"),
    ],
)
@pytest.mark.parametrize("code", ["%s", "%b", "%t"])
def test_psycopg_server_side_parameters(dsn: str, value: object, declared: str, code: str) -> None:
    with psycopg.connect(dsn) as connection:
        row = connection.execute(f"select {code}::{declared}", [value]).fetchone()
        assert row == (value,)


def test_psycopg_arrays_and_decimals(dsn: str) -> None:
    with psycopg.connect(dsn) as connection:
        for code in ("%s", "%b", "%t"):
            row = connection.execute(f"select {code}::varchar[]", [["a", None, "b,c"]]).fetchone()
            assert row == (["a", None, "b,c"],)
            row = connection.execute(f"select {code}::decimal", [Decimal("-1.50")]).fetchone()
            assert row == (Decimal("-1.50"),)


def test_psycopg_prepares_and_infers(dsn: str, sessions: Sessions) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        for i in range(8):
            row = connection.execute("select %s + 1", [i], prepare=True).fetchone()
            assert row == (i + 1,)
        assert sessions.last.described.count("select $1 + 1") == 1
        # Client and server agree on a name that was prepared, dropped, and prepared again.
        connection.execute("deallocate all")
        assert connection.execute("select %s + 1", [1]).fetchone() == (2,)


def test_psycopg_pipeline(dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True, row_factory=dict_row) as connection:
        with connection.pipeline():
            cursors = [connection.execute("select %s + 1", [i]) for i in range(5)]
            assert [c.fetchone() for c in cursors] == [{"n": i + 1} for i in range(5)]

        def fail_in_pipeline() -> None:
            # psycopg raises when it happens to read the error, at the latest at the end.
            with connection.pipeline():
                connection.execute("select fail()")
                connection.execute("select 1")

        with pytest.raises(psycopg.errors.ConfigurationLimitExceeded):
            fail_in_pipeline()
        assert connection.execute("select 1").fetchone() == {"n": 1}


def test_psycopg_notices(dsn: str) -> None:
    seen = []
    with psycopg.connect(dsn) as connection:
        connection.add_notice_handler(
            lambda d: seen.append((d.severity, d.sqlstate, d.message_hint))
        )
        for prepare in (False, True):
            connection.execute("select notices", prepare=prepare)
    assert seen == [("NOTICE", "00000", "ask again, free"), ("WARNING", "01000", None)] * 2


def test_psycopg_errors_carry_their_fields(dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        with pytest.raises(psycopg.errors.ConfigurationLimitExceeded) as budget:
            connection.execute("select fail()")
        assert budget.value.diag.message_hint == "history"
        with pytest.raises(psycopg.errors.UndefinedTable) as missing:
            connection.execute("select 1; select y from x")
        assert missing.value.diag.statement_position == "11"
        with pytest.raises(psycopg.errors.SyntaxError):
            connection.execute("frobnicate")


def test_psycopg_transaction_status(dsn: str) -> None:
    with psycopg.connect(dsn) as connection:
        status = connection.info
        assert status.transaction_status == pq.TransactionStatus.IDLE
        connection.execute("select 1")
        assert status.transaction_status == pq.TransactionStatus.INTRANS
        with pytest.raises(psycopg.errors.ConfigurationLimitExceeded), connection.transaction():
            connection.execute("select fail()")
        # The savepoint was rolled back to, so the block goes on.
        assert status.transaction_status == pq.TransactionStatus.INTRANS
        with pytest.raises(psycopg.errors.ConfigurationLimitExceeded):
            connection.execute("select fail()")
        assert status.transaction_status == pq.TransactionStatus.INERROR
        with pytest.raises(psycopg.errors.InFailedSqlTransaction):
            connection.execute("select 1")
        connection.rollback()
        assert status.transaction_status == pq.TransactionStatus.IDLE


def test_psycopg_cancel(dsn: str, sessions: Sessions) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        session = sessions.last

        def cancel() -> None:
            session.started.wait(10)
            connection.cancel_safe(timeout=10)

        thread = threading.Thread(target=cancel)
        thread.start()
        with pytest.raises(psycopg.errors.QueryCanceled):
            connection.execute("select wait()")
        thread.join()
        assert connection.execute("select 1").fetchone() == (1,)


def test_psycopg_settings_and_parameter_status(dsn: str, sessions: Sessions) -> None:
    options = "-c dp.epsilon=0.1"
    with psycopg.connect(dsn, options=options, application_name="tester") as connection:
        assert sessions.last.values["dp.epsilon"] == "0.1"
        assert connection.info.parameter_status("application_name") == "tester"
        connection.execute("set application_name to 'renamed'")
        assert connection.info.parameter_status("application_name") == "renamed"
        assert connection.info.server_version == 180000
    with pytest.raises(psycopg.OperationalError, match="unrecognized configuration parameter"):
        psycopg.connect(dsn, options="-c dp.nonsense=1")


def test_psycopg_reports_internal_errors_without_a_word(dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        with pytest.raises(psycopg.errors.InternalError_, match=r"^internal error$") as caught:
            connection.execute("select crash()")
        assert caught.value.diag.message_detail is None
        assert connection.execute("select 1").fetchone() == (1,)


def test_psycopg_streams_large_results(dsn: str) -> None:
    with psycopg.connect(dsn) as connection, connection.cursor() as cursor:
        assert sum(len(r[0]) for r in cursor.stream("select wide(5000)")) == 5_000_000


def test_asyncpg(dsn: str, sessions: Sessions) -> None:
    async def main() -> None:
        connection = await asyncpg.connect(dsn, ssl=False)
        try:
            assert await connection.fetchval("select 1") == 1
            rows = await connection.fetch("select * from sample")
            assert [tuple(r) for r in rows] == list(SAMPLE_ROWS)
            assert tuple(await connection.fetchrow("select n from series(4)")) == (0,)
            assert await connection.fetchval("select $1 + 1", 41) == 42
            statement = await connection.prepare("select $1 + 1")
            assert [p.name for p in statement.get_parameters()] == ["int8"]
            assert [await statement.fetchval(i) for i in range(3)] == [1, 2, 3]
            assert await connection.fetchval("select $1::varchar[]", ["a", None]) == ["a", None]
            async with connection.transaction():
                cursor = await connection.cursor("select n from series(10)")
                assert [r[0] for r in await cursor.fetch(4)] == [0, 1, 2, 3]
                assert [r[0] for r in await cursor.fetch(20)] == [4, 5, 6, 7, 8, 9]
            with pytest.raises(asyncpg.exceptions.ConfigurationLimitExceededError):
                await connection.fetch("select fail()")
            assert await connection.execute("select 1; select 2") == "SELECT 1"
        finally:
            await connection.close()
        # Asked for once, however many pages were fetched.
        assert sessions.last.executed.count("select n from series(10)") == 1

    asyncio.run(main())


def test_asyncpg_pool_resets_and_cancels(dsn: str, sessions: Sessions) -> None:
    async def main() -> None:
        async with asyncpg.create_pool(dsn, ssl=False, min_size=1, max_size=2) as pool:
            for _ in range(3):
                assert await pool.fetchval("select 1") == 1
            with pytest.raises(asyncio.TimeoutError):
                await pool.fetchval("select wait()", timeout=0.3)
            assert await pool.fetchval("select 1") == 1

    asyncio.run(main())
    assert any("RESET ALL" in s.executed for s in sessions.all)
    assert any(s.stopped.is_set() for s in sessions.all)


@pytest.mark.skipif(shutil.which("psql") is None, reason="psql is not on PATH")
def test_psql(dsn: str) -> None:
    script = "select 1;\nselect 2\\; select 3;\nbegin;\nselect fail();\nselect 4;\nrollback;\n"
    script += "select * from sample;\nselect notices;\n"
    found = subprocess.run(
        ["psql", "-X", "-A", "-t", dsn],
        input=script,
        capture_output=True,
        text=True,
        timeout=30,
        env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"},
        check=False,
    )
    lines = found.stdout.splitlines()
    assert lines[:5] == ["1", "2", "3", "BEGIN", "ROLLBACK"]
    assert lines[5].startswith("t|-7|1099511627776|10000000000000000000000000|0.25|12.500|Zürich")
    assert lines[6:] == ["|" * 11, "1"]
    assert "current transaction is aborted" in found.stderr
    assert "NOTICE:  cost 0.05" in found.stderr
