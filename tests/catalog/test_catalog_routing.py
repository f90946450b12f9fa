"""Which statements are questions about the catalogs."""

from __future__ import annotations

import pytest

from tallyveil.catalog.routing import Routing
from tallyveil.rewriter import split

ROUTING = Routing({"person", "pg_people"})

CATALOGS = [
    "SELECT relname FROM pg_class",
    "select * from PG_CATALOG.PG_CLASS c join pg_namespace n on c.relnamespace = n.oid",
    'SELECT * FROM "pg_catalog"."pg_class"',
    "SELECT * FROM information_schema.tables WHERE table_name = 'person'",
    "SELECT 'person'::regclass",
    "SELECT to_regclass('person')",
    "SELECT format_type(23, -1), has_table_privilege('person', 'SELECT')",
    "SELECT c.relname FROM pg_class c WHERE c.relname OPERATOR(pg_catalog.~) '^(person)$' "
    "COLLATE pg_catalog.default",
    "WITH mine AS (SELECT oid FROM pg_class) SELECT * FROM mine",
    "COPY (SELECT oid FROM pg_class) TO STDOUT (FORMAT binary)",
    "SELECT g FROM generate_series(1, 10) g",
    "SELECT * FROM pg_get_keywords()",
    "SELECT relname AS person FROM pg_class",
    "SELECT set_config('bytea_output', 'hex', false) FROM pg_settings WHERE name = 'bytea_output'",
    "SELECT * FROM pg_class WHERE (((",
    "TABLE pg_class",
    "VALUES ('pg_class'::regclass)",
    "EXPLAIN SELECT * FROM pg_class",
    "EXPLAIN ANALYZE VERBOSE SELECT * FROM pg_class",
    "EXPLAIN (FORMAT json, COSTS off) WITH a AS (SELECT oid FROM pg_class) SELECT * FROM a",
    "EXPLAIN (SELECT * FROM pg_class)",
]

GATES = [
    "SELECT 1",
    "SELECT count(*) FROM person",
    "SELECT count(*) FROM person, pg_class",
    "SELECT count(*) FROM public.person WHERE EXISTS (SELECT FROM pg_class)",
    "SELECT count(*) FROM pg_people",
    "SELECT count(*) FROM dp.pg_budget",
    "SELECT * FROM dp.budget WHERE table_name = 'pg_class'",
    "SELECT 'pg_class'",
    "SELECT 1 -- pg_class",
    "SELECT count(*) FROM person TABLESAMPLE system (1) -- pg_class",
    'SELECT * FROM pg_class, U&"p\\0065rson"',
    "SELECT dp_interval_low(c) FROM pg_class",
    "SELECT version(), current_schema()",
    "SELECT pg_backend_pid()",
    "SELECT pg_is_in_recovery()",
    "SELECT set_config('search_path', '', false)",
    "SELECT current_setting('jit') AS cur, pg_catalog.set_config('jit', $1, false)",
    "SELECT set_config('bytea_output', 'escape', false) FROM pg_settings",
    "SELECT set_config('search_path', '', false) FROM pg_class",
    "SET search_path = pg_catalog",
    "INSERT INTO pg_class VALUES (1)",
    "CREATE TABLE pg_mine (a int)",
    "COPY pg_class TO STDOUT",
    "COPY (SELECT oid FROM pg_class) TO '/tmp/x'",
    "COPY (SELECT count(*) FROM person, pg_class) TO STDOUT",
    "EXPLAIN SELECT count(*) FROM person, pg_class",
    "EXPLAIN (VERBOSE) (SELECT count(*) FROM person)",
    "EXPLAIN",
    "EXPLAIN (pg_class)",
    "EXPLAIN " * 5000 + "SELECT * FROM pg_class",
    "COPY (" * 2000 + "SELECT * FROM pg_class" + ") TO STDOUT" * 2000,
    "EXPLAIN INSERT INTO pg_class VALUES (1)",
    "VALUES ((SELECT count(*) FROM person), 'pg_class'::regclass)",
    "TABLE person",
    "SELECT * FROM pg_class, person WHERE (((",
]


@pytest.mark.parametrize("sql", CATALOGS)
def test_a_question_about_the_catalogs_goes_there(sql: str) -> None:
    (piece,) = split(sql, "postgres")
    assert ROUTING.takes(piece)


@pytest.mark.parametrize("sql", GATES)
def test_everything_else_is_the_gates(sql: str) -> None:
    (piece,) = split(sql, "postgres")
    assert not ROUTING.takes(piece)
