"""The public database's cursor: interrupts, limits, and tables that come and go."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from tallyveil.errors import EvaluationFailed, QueryCanceled, StatementError, StatementTooComplex
from tallyveil.policy.domain import Attribute, Domain
from tallyveil.rewriter import PublicCursor, PublicDatabase, Rewriter
from tallyveil.rewriter.engine.public_cursor import Engine
from tallyveil.rewriter.engine.public_database import domain_table, public_table
from tallyveil.rewriter.engine.watchdog import Watchdog
from tests.rewriter.surface import World as Surface
from tests.rewriter.world import DOMAIN, World

TABLE = pa.table({"x": [1, 2, 3]})
ENDLESS = "SELECT count(*) FROM range(10000) a, range(10000) b, range(10000) c WHERE a < b + c"


class Interrupted:
    """A connection that is interrupted at the given calls of register and unregister."""

    def __init__(self, at: set[int]) -> None:
        self._connection = duckdb.connect()
        self._at = at
        self._calls = 0
        self.names: set[str] = set()

    def _step(self) -> None:
        self._calls += 1
        if self._calls in self._at:
            raise duckdb.InterruptException("INTERRUPT Error: Interrupted!")

    def register(self, name: str, table: Any) -> None:
        self._step()
        self.names.add(name)

    def unregister(self, name: str) -> None:
        self._step()
        self.names.discard(name)

    def interrupt(self) -> None: ...

    def cursor(self) -> Interrupted:
        return self


def cursor_of(connection: Any, watchdog: Watchdog) -> PublicCursor:
    return PublicCursor(Engine(lambda: connection), watchdog)


@pytest.mark.parametrize("at", [{1}, {2}, {2, 3}])
def test_an_interrupt_while_tables_come_is_a_cancel(world: World, at: set[int]) -> None:
    connection = Interrupted(at)
    cursor = cursor_of(connection, world.cursor._watchdog)
    with pytest.raises(QueryCanceled), cursor.tables({"a": TABLE, "b": TABLE}):
        pytest.fail("the statement is not run")
    assert connection.names == set()


def test_an_interrupt_while_tables_go_leaves_none(world: World) -> None:
    connection = Interrupted({3, 5})
    cursor = cursor_of(connection, world.cursor._watchdog)
    with cursor.tables({"a": TABLE, "b": TABLE}):
        assert connection.names == {"a", "b"}
    assert connection.names == set()


def test_tables_are_seen_by_their_cursor_only_and_for_a_while(world: World) -> None:
    other = world.database.cursor()
    with world.cursor.tables({"__noisy_0": TABLE}):
        assert world.cursor.rows('SELECT count(*) FROM "__noisy_0"')[1] == [(3,)]
        with pytest.raises(Exception, match="__noisy_0"):
            other.rows('SELECT count(*) FROM "__noisy_0"')
    with pytest.raises(Exception, match="__noisy_0"):
        world.cursor.rows('SELECT count(*) FROM "__noisy_0"')
    other.close()


@pytest.fixture
def _in_new_york(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "America/New_York")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("_in_new_york")
def test_the_time_zone_is_utc_wherever_the_machine_is() -> None:
    domain = Domain("abroad", DOMAIN.attributes)  # none that was opened before
    public = PublicDatabase([domain])
    cursor = public.cursor()
    midnight = "SELECT CAST(TIMESTAMPTZ '2020-01-01 00:00:00+00' AS VARCHAR)"
    assert cursor.rows(midnight)[1] == [("2020-01-01 00:00:00+00",)]
    cursor.close()
    public.close()


def test_tables_and_attributes_may_share_their_underscores() -> None:
    domains = [
        Domain("a", (Attribute("b_c", "range", "INTEGER", (0, 1, 2)),)),
        Domain("a_b", (Attribute("c", "range", "INTEGER", (0, 1)),)),
    ]
    public = PublicDatabase(domains)
    rewriter = Rewriter({domain.table: domain for domain in domains})
    cursor = public.cursor()
    heights = [
        rewriter.plan(sql, "duckdb", cursor).noisy[0].height
        for sql in ("SELECT DISTINCT b_c FROM a", "SELECT DISTINCT c FROM a_b")
    ]
    assert heights == [3, 2]
    cursor.close()
    public.close()


def test_what_gates_over_the_same_domains_share_outlives_each_and_shows_neither_the_other() -> None:
    first, second = PublicDatabase([DOMAIN]), PublicDatabase([DOMAIN])
    one, other = first.cursor(), second.cursor()
    one.use_time_zone("Asia/Tokyo")
    with one.tables({"__noisy_0": TABLE}):
        assert one.rows('SELECT count(*) FROM "__noisy_0"')[1] == [(3,)]
        with pytest.raises(Exception, match="__noisy_0"):
            other.rows('SELECT count(*) FROM "__noisy_0"')
    assert other.rows("SELECT current_setting('TimeZone')")[1] == [("UTC",)]
    one.close()
    first.close()
    table = domain_table(DOMAIN, DOMAIN.attributes[0])
    assert other.rows(f'SELECT count(*) FROM "{table}"')[1] == [(DOMAIN.attributes[0].size,)]
    other.close()
    second.close()


def test_gates_over_other_domains_or_public_tables_share_nothing() -> None:
    fewer = Domain(DOMAIN.table, DOMAIN.attributes[:1])
    bases = [PublicDatabase([fewer]), PublicDatabase([DOMAIN], {"t": TABLE})]
    bases += [PublicDatabase([DOMAIN], {"t": pa.table({"x": [5]})})]
    sqls = [
        f'FROM "{domain_table(DOMAIN, DOMAIN.attributes[1])}"',
        *2 * [f'FROM "{public_table("t")}"'],
    ]
    cursors = [base.cursor() for base in bases]
    with pytest.raises(Exception, match="does not exist"):
        cursors[0].rows(sqls[0])
    assert [cursor.rows(sql)[1] for cursor, sql in zip(cursors[1:], sqls[1:], strict=True)] == [
        [(1,), (2,), (3,)],
        [(5,)],
    ]
    for opened in (*cursors, *bases):
        opened.close()


SLOW = "SELECT count(*) FROM range(100000) a, range(100000) b, range(100000) c WHERE a.range = 7"


def test_the_watchdog_ends_what_runs_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also once its thread has ended, since there was no statement for a while."""
    monkeypatch.setattr("tallyveil.rewriter.engine.watchdog._IDLE", 2)
    public = PublicDatabase([DOMAIN], time_limit=0.2)
    cursor = public.cursor()
    for _ in range(2):
        with pytest.raises(StatementTooComplex, match="time limit"):
            cursor.rows(SLOW)
        if (thread := public._watchdog._thread) is not None:
            thread.join(60)
        assert public._watchdog._thread is None
        assert cursor.rows("SELECT 1")[1] == [(1,)]
    cursor.close()
    public.close()


def test_an_interrupt_from_another_thread_is_a_cancel(world: World) -> None:
    cursor = world.database.cursor()
    done = threading.Event()

    def interrupt() -> None:
        while not done.wait(0.02):
            cursor.interrupt()

    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        with pytest.raises(QueryCanceled):
            cursor.rows(SLOW)
    finally:
        done.set()
        thread.join()
    cursor.close()


class Broken:
    """A connection of a database that DuckDB has given up."""

    def cursor(self) -> Broken:
        return self

    def close(self) -> None: ...

    def _fail(self, *arguments: Any) -> None:
        raise duckdb.FatalException("FATAL Error: database has been invalidated")

    execute = sql = register = unregister = _fail


def _closed_while(
    database: PublicDatabase, asks: Callable[[PublicCursor], object], running: threading.Event
) -> list[BaseException]:
    """What is raised where another thread closes the cursor of a statement that is ``running``."""
    cursor = database.cursor()
    raised: list[BaseException] = []

    def ask() -> None:
        try:
            with cursor.limited(cancelled=looked_at):
                asks(cursor)
        except StatementError as error:
            raised.append(error)

    def looked_at() -> bool:
        if threading.current_thread().name == "watchdog":  # it looks at what DuckDB is at
            running.set()
        return False

    asker = threading.Thread(target=ask)
    asker.start()
    assert running.wait(60)
    cursor.close()
    asker.join(60)
    assert not asker.is_alive()
    return raised


def test_a_cursor_is_closed_while_duckdb_is_at_its_statement(world: World) -> None:
    found = _closed_while(world.database, lambda cursor: cursor.arrow(ENDLESS), threading.Event())
    assert [type(error) for error in found] == [QueryCanceled]


def test_a_cursor_is_closed_while_its_rows_are_read_and_the_watchdog_goes_on() -> None:
    database = PublicDatabase([DOMAIN], time_limit=0.2)
    running, never = threading.Event(), threading.Event()

    def ask(cursor: PublicCursor) -> None:
        def take(rows: object) -> None:
            running.set()
            never.wait(1.0)  # beyond the limit: the watchdog interrupts a closed connection

        cursor.values("SELECT range FROM range(100000)", ["BIGINT"], take)

    with contextlib.closing(database):
        found = _closed_while(database, ask, running)
        assert [type(error) for error in found] == [QueryCanceled]
        with contextlib.closing(database.cursor()) as cursor, pytest.raises(StatementTooComplex):
            cursor.arrow(ENDLESS)


def test_a_database_that_duckdb_gave_up_is_opened_anew(world: World) -> None:
    opened: list[Any] = [Broken(), duckdb.connect()]
    engine = Engine(lambda: opened.pop(0))
    one, other = (PublicCursor(engine, world.cursor._watchdog) for _ in range(2))
    with pytest.raises(EvaluationFailed, match="remembered"), one.tables({"a": TABLE}):
        pytest.fail("the statement is not run")
    for cursor in (one, other, PublicCursor(engine, world.cursor._watchdog)):
        with cursor.tables({"a": TABLE}):
            assert cursor.rows("SELECT count(*) FROM a")[1] == [(3,)]
    assert opened == []  # once for all cursors
    engine.close()


def test_a_database_that_is_left_takes_its_tables_along(world: World) -> None:
    opened: list[Any] = [duckdb.connect(), duckdb.connect()]
    engine = Engine(lambda: opened.pop(0))
    cursor = PublicCursor(engine, world.cursor._watchdog)
    with cursor.tables({"a": TABLE}):
        engine.renew(0)
        assert cursor.rows("SELECT count(*) FROM a")[1] == [(3,)]
    with pytest.raises(Exception, match="does not exist"):
        cursor.rows("SELECT count(*) FROM a")
    engine.close()


# Ends in an assertion inside DuckDB 2.0, which then refuses every further statement.
FATAL = (
    "SELECT count(*) FROM (SELECT b.label, p.married, b.low FROM person p LEFT JOIN state_name n "
    "ON p.state = n.name AND p.sex NOT IN (SELECT code FROM region WHERE pop > 5) AND true "
    "CROSS JOIN band b) t JOIN band c ON t.low >= c.high"
)


def test_no_statement_takes_the_public_database_away_from_others() -> None:
    world = Surface(30)
    other = world.database.cursor()
    with contextlib.suppress(EvaluationFailed):  # as long as DuckDB fails
        assert world.exact(FATAL) == world.direct(FATAL)
    sql = "SELECT count(*) FROM person JOIN region ON code = state"
    assert world.exact(sql) == world.direct(sql)
    assert other.rows("SELECT 1")[1] == [(1,)]
    other.close()
    world.close()


def test_noisy_rows_are_read_in_the_thread_that_asks(world: World) -> None:
    read = set[str]()

    def batches() -> Iterator[pa.RecordBatch]:
        read.add(threading.current_thread().name)
        yield from TABLE.to_batches()

    for _ in range(50):
        rows = pa.RecordBatchReader.from_batches(TABLE.schema, batches())
        with world.cursor.tables({"a": rows}):
            assert world.cursor.arrow("SELECT sum(x) AS x FROM a").to_pylist() == [{"x": 6}]
    assert read == {threading.current_thread().name}
