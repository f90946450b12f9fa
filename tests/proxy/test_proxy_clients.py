"""What a session hears of unmodified drivers; `tests/clients` has what they are answered."""

from __future__ import annotations

import asyncio

import asyncpg
import psycopg
import pytest

from tests.proxy.fake_session import Sessions


def test_psycopg_prepares_and_infers(dsn: str, sessions: Sessions) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        for i in range(8):
            row = connection.execute("select %s + 1", [i], prepare=True).fetchone()
            assert row == (i + 1,)
        assert sessions.last.described.count("select $1 + 1") == 1
        # Client and server agree on a name that was prepared, dropped, and prepared again.
        connection.execute("deallocate all")
        assert connection.execute("select %s + 1", [1]).fetchone() == (2,)


def test_psycopg_notices(dsn: str) -> None:
    seen = []
    with psycopg.connect(dsn) as connection:
        connection.add_notice_handler(
            lambda d: seen.append((d.severity, d.sqlstate, d.message_hint))
        )
        for prepare in (False, True):
            connection.execute("select notices", prepare=prepare)
    assert seen == [("NOTICE", "00000", "ask again, free"), ("WARNING", "01000", None)] * 2


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
