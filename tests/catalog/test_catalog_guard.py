"""What must not come from an empty table, and what nobody may do to the catalog."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tallyveil.catalog import CatalogError, CatalogQuestion
from tallyveil.catalog.pool import DATABASE, Pool
from tallyveil.deadline import Deadline
from tallyveil.errors import FeatureNotSupported
from tests.wire.waiting import until

# About a protected table, by every road: counted by the gate, or refused, and never zero.
ABOUT_ROWS = [
    "SELECT count(*) FROM patients, pg_class",
    "SELECT count(*) FROM pg_class, public.patients",
    'SELECT count(*) FROM pg_class, U&"p\\0061tients"',
    "SELECT count(*) FROM pg_class, public.U&\"p!0061tients\" UESCAPE '!'",
    "SELECT relname, (SELECT count(*) FROM patients) FROM pg_class",
    "SELECT count(*) FROM pg_class WHERE EXISTS (SELECT FROM patients)",
    "WITH pg_mine AS (SELECT * FROM patients) SELECT count(*) FROM pg_mine, pg_class",
    "WITH patients AS (SELECT 1) SELECT count(*) FROM pg_class, public.patients",
    "SELECT count(*) FROM pg_class, LATERAL (SELECT * FROM patients) t",
    "SELECT count(*) FROM pg_class JOIN by_city ON true",
    "SELECT count(*) FROM pg_class, adults",
    "SELECT count(*) FROM pg_class, dp.budget",
    "TABLE patients UNION SELECT * FROM pg_class",
    "SELECT ndoc FROM ts_stat('SELECT ''a''::tsvector FROM patients') WHERE pg_is_in_recovery()",
    "SELECT query_to_xml('SELECT count(*) FROM patients', true, true, '')",
    "SELECT table_to_xml('patients', true, true, '')",
    "SELECT schema_to_xml('public', true, true, '')",
    "SELECT database_to_xml(true, true, '') FROM pg_class",
    "SELECT query_to_xml('TABLE patients', true, true, '') FROM pg_class LIMIT 1",
    "SELECT ts_rewrite('a'::tsquery, 'SELECT ''a''::tsquery, ''b''::tsquery FROM patients')"
    " FROM pg_class LIMIT 1",
    "COPY (SELECT count(*) FROM patients, pg_class) TO STDOUT",
    "COPY patients TO STDOUT",
    "EXPLAIN SELECT count(*) FROM patients, pg_class",
    "EXPLAIN (ANALYZE) WITH a AS (SELECT FROM pg_class, patients) SELECT count(*) FROM a, patients",
    "PREPARE mixed AS SELECT count(*) FROM patients, pg_class",
    "SELECT pg_get_viewdef('by_city'::regclass), count(*) FROM patients",
    "SELECT lo_get(16384) FROM pg_class LIMIT 1",
]

HARMFUL = [
    "SELECT pg_read_file('/etc/passwd')",
    "SELECT pg_read_binary_file('/etc/passwd') FROM pg_class",
    "SELECT * FROM pg_ls_dir('.')",
    "SELECT pg_stat_file('base')",
    "SELECT lo_import('/etc/passwd')",
    "SELECT lo_creat(-1)",
    "SELECT lo_from_bytea(0, 'x') FROM pg_class",
    "SELECT lo_export(1, '/tmp/x')",
    "SELECT pg_notify('x', 'y') FROM pg_class",
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity",
    "SELECT pg_cancel_backend(pid) FROM pg_stat_activity",
    "SELECT pg_advisory_lock(1) FROM pg_class",
    "SELECT pg_try_advisory_lock_shared(1)",
    "SELECT pg_reload_conf()",
    "SELECT pg_switch_wal()",
    "SELECT set_config('statement_timeout', '0', false) FROM pg_class, patients",
    "SELECT setval('pg_toast.x', 1)",
    "SELECT * FROM pg_authid",
    "SELECT rolpassword FROM pg_catalog.pg_authid",
    "SELECT * INTO pg_temp.mine FROM pg_class",
    "SELECT * INTO TEMP mine FROM pg_class",
    "SELECT * FROM pg_class FOR UPDATE",
    "COPY (SELECT * FROM pg_class) TO '/tmp/x'",
    "COPY (SELECT * FROM pg_class) TO PROGRAM 'cat'",
    "COPY pg_class TO STDOUT",
    "WITH x AS (DELETE FROM pg_class RETURNING *) SELECT * FROM x",
    "CREATE TEMP TABLE mine AS SELECT * FROM pg_class",
    "UPDATE pg_class SET relname = 'x'",
    "DO $$ BEGIN PERFORM pg_sleep(1); END $$",
    "SELECT dblink('x', 'y') FROM pg_class",
    "SELECT pg_logical_emit_message(false, 'a', 'b')",
    "SELECT pg_export_snapshot()",
    "SET ROLE tallyveil",
    "SET SESSION AUTHORIZATION tallyveil",
    "SELECT set_config('role', 'tallyveil', false)",
    "SELECT set_config('session_authorization', 'tallyveil', false) FROM pg_class LIMIT 1",
]


@pytest.mark.parametrize("statement", ABOUT_ROWS)
def test_no_answer_about_a_protected_table_is_that_of_an_empty_one(
    catalogued: Any, statement: str
) -> None:
    spent = catalogued.spent()
    with catalogued.connect() as connection, pytest.raises(psycopg.Error):
        connection.execute(statement)
    assert catalogued.spent() == spent


@pytest.mark.parametrize("statement", HARMFUL)
def test_nobody_changes_reads_or_ends_anything_by_way_of_the_catalog(
    catalogued: Any, statement: str
) -> None:
    with catalogued.connect() as connection, pytest.raises(psycopg.Error) as refused:
        connection.execute(statement)
    assert refused.value.sqlstate not in (None, "XX000")


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT count(*) FROM patients",
        "TABLE by_city",
        "SELECT FROM dp.budget",
        'SELECT count(*) FROM U&"p\\0061tients"',
        "COPY (SELECT count(*) FROM adults) TO STDOUT",
        "SELECT FROM pg_class WHERE relnatts IN (SELECT age FROM patients)",
    ],
)
def test_what_is_sent_to_the_catalog_by_mistake_is_refused_there(
    catalogued: Any, statement: str
) -> None:
    """Whatever the routing thinks: PostgreSQL itself says which relations a statement names."""
    with pytest.raises(FeatureNotSupported, match="policy's tables"):
        catalogued.catalog.relay("alice", "clinic").answer(CatalogQuestion(statement), ())


def test_settings_of_one_statement_do_not_reach_another(catalogued: Any) -> None:
    with catalogued.connect() as connection:
        connection.execute("SELECT set_config('jit', 'on', false)")
        shown = connection.execute("SELECT setting FROM pg_settings WHERE name = 'jit'")
        assert shown.fetchone() == ("off",)


@pytest.mark.parametrize(
    ("statement", "sqlstates"),
    [
        ("SELECT * FROM generate_series(1, 1000000000)", {"54000", "53400", "53200"}),
        ("SELECT repeat(relname, 100000000) FROM pg_class", {"54000", "53200"}),
        ("SELECT array_agg(a) FROM pg_attribute a, pg_attribute b", {"54000", "53200", "57014"}),
        ("SELECT * FROM pg_attribute a, pg_proc b ORDER BY a.attname || b.proname", {"53400"}),
    ],
)
def test_what_a_statement_may_take_is_bounded(
    catalogued: Any, statement: str, sqlstates: set[str]
) -> None:
    with catalogued.connect() as connection:
        with pytest.raises(psycopg.Error) as refused:
            connection.execute(statement)
        assert refused.value.sqlstate in sqlstates
        assert connection.execute("SELECT count(*) > 0 FROM pg_class").fetchone() == (True,)


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the system does not tell")
def test_what_waits_for_the_next_question_holds_little_memory(catalogued: Any) -> None:
    """Views are kept as what they stand for: 20 MB of a statement of 5 kB."""
    views = " UNION ALL ".join(["SELECT FROM information_schema.columns WHERE false"] * 100)
    waiting = "SELECT pid FROM pg_stat_activity WHERE usename = 'bob'"
    with catalogued.connect("bob") as asking, catalogued.connect() as looking:
        for number in range(5):
            for _ in range(3):
                sql = f"SELECT count(*), {number} FROM ({views}) AS views"
                asking.pgconn.prepare(b"", sql.encode())
        until(lambda: sum(_held(pid) for (pid,) in looking.execute(waiting)) < 64 << 20)


@pytest.mark.skipif(sys.platform != "linux", reason="the system does not limit it")
def test_a_statement_that_needs_much_memory_fails_alone(catalogued: Any) -> None:
    with catalogued.connect() as connection:
        with pytest.raises(psycopg.errors.OutOfMemory):
            connection.execute("SELECT length(repeat('x', 64 << 20)) FROM pg_class LIMIT 1")
        assert connection.execute("SELECT count(*) > 0 FROM pg_class").fetchone() == (True,)


def test_connections_are_bounded_in_all_and_idle_ones_give_way(catalogued: Any) -> None:
    """With the limit of each process, this bounds the memory of the catalog."""
    pool = Pool(catalogued.catalog._pool._address, links=2)
    with contextlib.ExitStack() as end:
        end.callback(pool.clear)
        with pool.link("ann", DATABASE, ()):
            with (
                pool.link("bob", DATABASE, ()) as bobs,
                Deadline(limit=0.05).entered(),
                pytest.raises(CatalogError, match="others'"),
                pool.link("eve", DATABASE, ()),
            ):
                pass
            with pool.link("bob", DATABASE, ()) as again:
                assert again is bobs
            with pool.link("eve", DATABASE, ()):
                assert [key[0] for key, _ in pool._idle] == []
        assert [key[0] for key, _ in pool._idle] == ["eve", "ann"]
    assert pool._links._value == 2


def _held(pid: int) -> int:
    """Bytes of the memory that is a process's own; none of one that has ended."""
    with contextlib.suppress(FileNotFoundError):
        _, resident, shared, *_ = map(int, Path(f"/proc/{pid}/statm").read_text().split())
        return (resident - shared) * resource.getpagesize()
    return 0


def test_a_statement_that_was_taken_along_is_asked_again(catalogued: Any) -> None:
    """However long it had run: the end of one process ends all of them. Asked again, it has no
    need to sleep."""
    found = (
        "SELECT pid FROM pg_stat_activity WHERE usename = 'bob' AND pid <> pg_backend_pid() "
        "AND backend_start < clock_timestamp() - INTERVAL '2.2 seconds'"
    )
    catalogued.catalog.close()
    with ThreadPoolExecutor(1) as beside, catalogued.connect("bob") as connection:
        asked = beside.submit(_slept, catalogued)
        until(lambda: connection.execute(found).fetchall() != [])
        for (pid,) in connection.execute(found).fetchall():
            os.kill(pid, signal.SIGKILL)
        assert asked.result() == ("bob",)


def _slept(catalogued: Any) -> Any:
    with catalogued.connect("bob") as connection:
        until_then = "CASE WHEN clock_timestamp() < %s THEN 60 ELSE 0 END"
        soon = datetime.now(UTC) + timedelta(seconds=2)
        asked = f"SELECT current_user::text FROM pg_sleep({until_then}), pg_am"
        return connection.execute(asked, (soon,)).fetchone()


def test_an_analyst_who_comes_several_times_at_once_gets_one_role(catalogued: Any) -> None:
    question = CatalogQuestion("SELECT current_user FROM pg_am LIMIT 1")
    with ThreadPoolExecutor(8) as beside:
        for name in (f"newcomer{n}" for n in range(20)):
            relays = [catalogued.catalog.relay(name, "clinic") for _ in range(8)]
            for answer in beside.map(lambda one: one.answer(question, ()), relays):
                ((_, row),) = answer.rows
                assert row.endswith(name.encode())


@pytest.mark.parametrize(
    "looking",
    [
        "SELECT statement FROM pg_prepared_statements",
        "SELECT statement FROM pg_cursors WHERE statement NOT LIKE '%pg_cursors%'",
        "SELECT query FROM pg_stat_activity",
        "SELECT pg_stat_get_backend_activity(n) FROM generate_series(1, 20) AS n, pg_am",
    ],
)
def test_nobody_sees_what_another_asks(catalogued: Any, looking: str) -> None:
    """Who cannot have a role of their own name shares one, and its connections."""
    asked = CatalogQuestion("SELECT relname FROM pg_class WHERE relname = 'of my own'")
    first, second = (catalogued.catalog.relay(name, "clinic") for name in ("public", "none"))
    for _ in range(3):  # it is kept prepared from the second time on
        first.answer(asked, ())
    for relay in (second, first):
        rows = b"".join(row for _, row in relay.answer(CatalogQuestion(looking), ()).rows)
        assert b"of my own" not in rows
        assert b"check" not in rows
    for function in ("SELECT pg_prepared_statement()", "SELECT FROM pg_prepared_statement()"):
        with pytest.raises(CatalogError, match="permission denied"):
            second.answer(CatalogQuestion(function), ())


def test_an_analyst_sees_no_row_counts(catalogued: Any) -> None:
    """What PostgreSQL would estimate of a table that holds rows."""
    with catalogued.connect() as connection:
        query = "SELECT reltuples, pg_table_size(oid) FROM pg_class WHERE relname = %s"
        assert connection.execute(query, ["patients"]).fetchone() == (-1.0, 8192)
        activity = "SELECT n_live_tup, seq_scan FROM pg_stat_user_tables WHERE relname = %s"
        assert connection.execute(activity, ["patients"]).fetchone() == (0, 0)
        assert connection.execute(
            "SELECT count(*) FROM pg_stats WHERE schemaname = 'public'"
        ).fetchone() == (0,)


def test_the_role_has_no_rights(catalogued: Any, tmp_path: Path) -> None:
    query = (
        "SELECT rolsuper OR rolcreaterole OR rolcreatedb OR rolreplication OR rolbypassrls, "
        "has_database_privilege(current_database(), 'TEMP'), "
        "has_schema_privilege('public', 'CREATE'), has_table_privilege('patients', 'SELECT'), "
        "has_table_privilege('patients', 'INSERT') FROM pg_roles WHERE rolname = current_user"
    )
    with catalogued.connect() as connection:
        assert connection.execute(query).fetchone() == (False, False, False, True, False)


@pytest.mark.parametrize(
    "user", ["tallyveil", "analyst", "public", "none", "pg_monitor", "x" * 64, "a\0b", "\ud800", ""]
)
def test_nobody_is_a_role_of_the_catalogs_own(catalogued: Any, user: str) -> None:
    """Whatever name somebody has been let in by."""
    question = CatalogQuestion(
        "SELECT rolname, rolsuper FROM pg_roles WHERE rolname = current_user"
    )
    ((_, row),) = catalogued.catalog.relay(user, "clinic").answer(question, ()).rows
    assert b"analyst" in row
    assert row.endswith(b"\0\0\0\1f")


def test_a_name_with_quotes_is_one(catalogued: Any) -> None:
    question = CatalogQuestion("SELECT current_user FROM pg_am LIMIT 1")
    ((_, row),) = (
        catalogued.catalog.relay('o"; DROP ROLE analyst --', "clinic").answer(question, ()).rows
    )
    assert row.endswith(b'o"; DROP ROLE analyst --')
