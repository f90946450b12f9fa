"""The catalog's contents: the policy's relations, empty, which every analyst may only read.

The order of the statements depends on the policy alone, so that objects get the same OIDs at each
start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from tallyveil.catalog.pool import EVERYBODY
from tallyveil.gate.relations.shown import Shown, ShownColumn
from tallyveil.quoting import identifier, literal

__all__ = ["setup"]

# Analysts may execute no volatile functions but these, and pg_stat_get_…: they report sizes, locks
# and numbers, or wait, and have no lasting effect.
_HARMLESS: Final = (
    "clock_timestamp",
    "current_query",
    "gen_random_uuid",
    "pg_advisory_unlock_all",
    "pg_blocking_pids",
    "pg_collation_actual_version",
    "pg_database_collation_actual_version",
    "pg_database_size",
    "pg_indexes_size",
    "pg_is_in_recovery",
    "pg_jit_available",
    "pg_lock_status",
    "pg_notification_queue_usage",
    "pg_partition_ancestors",
    "pg_partition_tree",
    "pg_prepared_xact",
    "pg_relation_size",
    "pg_safe_snapshot_blocking_pids",
    "pg_sequence_last_value",
    "pg_sleep",
    "pg_sleep_for",
    "pg_sleep_until",
    "pg_table_size",
    "pg_tablespace_size",
    "pg_total_relation_size",
    "random",
    "timeofday",
    "txid_status",
)

# Stable functions that execute SQL given as text.
_RUNS_TEXTS: Final = "%\\_to\\_xml%"

_REVOKE: Final = """
DO $$
DECLARE routine regprocedure;
BEGIN
  FOR routine IN
    SELECT p.oid FROM pg_proc p WHERE p.pronamespace = 'pg_catalog'::regnamespace
      AND (p.provolatile = 'v' AND p.proname <> ALL ({harmless})
             AND p.proname NOT LIKE 'pg\\_stat\\_get\\_%'
           OR p.proname LIKE '{texts}')
  LOOP
    EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', routine);
  END LOOP;
END $$
"""

# Analysts share connections, and the statements prepared there, which they must not see. Redefining
# the function has no effect, since it always runs PostgreSQL's own code. So the view is redefined.
_HIDE_PREPARED: Final = """
DO $$
BEGIN
  SET LOCAL allow_system_table_mods = on;
  EXECUTE (
    SELECT 'CREATE OR REPLACE VIEW pg_catalog.pg_prepared_statements AS SELECT '
      || string_agg(format('NULL::%s AS %I', format_type(atttypid, atttypmod), attname), ', '
                    ORDER BY attnum) || ' WHERE false'
    FROM pg_attribute WHERE attrelid = 'pg_catalog.pg_prepared_statements'::regclass);
  REVOKE ALL ON FUNCTION pg_catalog.pg_prepared_statement() FROM PUBLIC;
END $$
"""


# A definition may call functions that this PostgreSQL lacks. Then the view has its columns alone.
_CREATE_VIEW: Final = """
BEGIN
  EXECUTE {view};
EXCEPTION WHEN OTHERS THEN
  EXECUTE {empty};
END
"""


def setup(relations: Sequence[Shown], sql_type: Callable[[str], str]) -> Iterator[str]:
    """Yield the statements that turn an empty database into the catalog. ``sql_type`` converts the
    name of a DuckDB type to PostgreSQL's."""
    harmless = "ARRAY[" + ", ".join(map(_literal, _HARMLESS)) + "]"
    # pgAdmin calls set_config beside a catalog. On a shared connection the setting would outlast
    # the session, so the function must not set anything.
    yield (
        "CREATE OR REPLACE FUNCTION pg_catalog.set_config(text, text, boolean) RETURNS text "
        "LANGUAGE sql STABLE RETURN $2"
    )
    yield _REVOKE.format(harmless=harmless, texts=_RUNS_TEXTS)
    yield _HIDE_PREPARED
    yield "REVOKE ALL ON SCHEMA public FROM PUBLIC"
    for schema in ("public", "dp"):
        yield f"CREATE SCHEMA IF NOT EXISTS {schema}"
        yield f"GRANT USAGE ON SCHEMA {schema} TO {EVERYBODY}"
    yield "COMMENT ON SCHEMA dp IS 'budgets, attributes, history: what may be asked, at what cost'"
    for relation in relations:
        yield from _relation(relation, sql_type)


def _relation(relation: Shown, sql_type: Callable[[str], str]) -> Iterator[str]:
    name = f"{identifier(relation.schema)}.{identifier(relation.name)}"
    kind = "TABLE" if relation.definition is None else "VIEW"
    if relation.definition is None:
        columns = ", ".join(_column(column, sql_type) for column in relation.columns)
        yield f"CREATE TABLE {name} ({columns})"
    else:
        typed = (f"NULL::{sql_type(c.type)} AS {identifier(c.name)}" for c in relation.columns)
        create = _CREATE_VIEW.format(
            view=_literal(f"CREATE VIEW {name} AS {relation.definition}"),
            empty=_literal(f"CREATE VIEW {name} AS SELECT {', '.join(typed)} WHERE false"),
        )
        yield f"DO {_literal(create)}"
    yield f"GRANT SELECT ON {name} TO {EVERYBODY}"
    if relation.comment is not None:
        yield f"COMMENT ON {kind} {name} IS {_literal(relation.comment)}"
    for column in relation.columns:
        if column.comment is not None:
            target = f"{name}.{identifier(column.name)}"
            yield f"COMMENT ON COLUMN {target} IS {_literal(column.comment)}"


def _column(column: ShownColumn, sql_type: Callable[[str], str]) -> str:
    words = [identifier(column.name), sql_type(column.type), "" if column.nullable else "NOT NULL"]
    return " ".join(filter(None, words))


def _literal(text: str) -> str:
    return "E" + literal(text.replace("\\", "\\\\").replace("\0", ""))
