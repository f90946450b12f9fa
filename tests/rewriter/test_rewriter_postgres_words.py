"""What PostgreSQL says of parameters, and where its functions raise."""

from __future__ import annotations

import psycopg
import pytest
from psycopg.pq import ExecStatus

from tallyveil.errors import InvalidParameterValue
from tests.rewriter.oracles import PostgresOracle
from tests.rewriter.world import World

PARAMETERS = """
select count(*) from person where age = $1
select count(*) from person where $1 = age
select count(*) from person where age > $1 and state = $2 or sex in ($3, $4)
select count(*) from person where age between $1 and $2
select count(*) from person where $1 between 1 and age
select count(*) from person where state like $1
select count(*) from person where age = any($1)
select count(*) from person where state = any($1) and born = any($2)
select count(*) from person where born >= $1
select count(*) from person where score > $1 and big = $2 and married = $3
select count(*) from person where married and $1
select count(*) from person where not $1
select count(*) from person limit $1 offset $2
select count(*) from person where age + $1 > 3
select count(*) from person where age * 0.5 > $1
select count(*) from person where age > $1 * 2
select count(*) from person where -age = $1
select count(*) from person where $1::int = age
select count(*) from person where cast($1 as date) = born
select count(*) from person where coalesce($1, age) = 3
select count(*) from person where coalesce(sex, $1) = 'F'
select count(*) from person where nullif(age, $1) is null
select count(*) from person where upper($1) = state
select count(*) from person where length(state) = $1
select count(*) from person where left(state, $1) = 'a'
select count(*) from person where state || $1 = 'a'
select count(*) from person where extract(year from born) = $1
select count(*) from person where date_trunc('month', born)::date = $1
select count(*) from person where case when $1 then true else false end
select count(*) from person where case when age > 3 then $1 else age end = 3
select count(*) from person where case age when $1 then true end
select count(*) from person where age is distinct from $1
select $1::text, count(*) from person
select $1, count(*) from person
select count(*) + $1 from person
select count(*) from person having count(*) > $1
select sum(age) / $1 from person
select avg(age) > $1 from person
select sum(case when age > $1 then $2 else 0 end) from person
select state, count(*) c from person group by state having count(*) > $1 order by 2 limit $2
select c from (select state, count(*) c from person group by state) t where c > $1 and state = $2
with t as (select count(*) c from person) select c from t where t.c between $1 and $2
select count(*) from person where age in ($1, $2, 3)
select count(*) from person where mod(age, $1) = $2
select count(*) from person where round(score) = $1
select count(*) from person where (age > $1) = $2
select count(*) from person where split_part(state, '_', $1) = $2
select count(*) from person where born < $1::date and age < $2::int
select count(*) from person where replace(state, $1, $2) = 'a'
select count(*) filter (where age < $1) from person
""".strip().splitlines()

_DUCKDB_NAMES = {
    "int4": "INTEGER", "text": "VARCHAR", "float8": "DOUBLE", "int8": "BIGINT", "bool": "BOOLEAN",
    "date": "DATE", "_int4": "INTEGER[]", "_text": "VARCHAR[]", "_date": "DATE[]",
    "numeric": "DOUBLE",  # its precision is not known beforehand
}  # fmt: skip


@pytest.mark.parametrize("sql", PARAMETERS)
def test_parameters_have_the_types_postgresql_infers(
    world: World,
    postgres_connection: psycopg.Connection,
    postgres_oracle: PostgresOracle,
    sql: str,
) -> None:
    raw = postgres_connection.pgconn
    assert raw.prepare(b"", sql.encode()).status == ExecStatus.COMMAND_OK
    described = raw.describe_prepared(b"")
    types = [described.param_type(i) for i in range(described.nparams)]
    names = postgres_connection.execute(
        "SELECT typname::text FROM unnest(%s::oid[]) WITH ORDINALITY AS u(oid, i) "
        "JOIN pg_type USING (oid) ORDER BY i",
        (types,),
    ).fetchall()
    expected = [_DUCKDB_NAMES[name] for (name,) in names]
    assert list(world.rewriter.parameter_types(sql, "postgres")) == expected


@pytest.mark.parametrize(
    "expression",
    [
        "sqrt(age)", "ln(age)", "log(age)", "log(2, age)", "log(age + 4, 2 - age)",
        "exp(age * 100)", "power(age, -1)", "power(score, 0.5)", "age ^ -1", "power(big, 30)",
    ],
)  # fmt: skip
def test_a_function_has_no_value_where_postgresql_raises(
    world: World,
    postgres_connection: psycopg.Connection,
    postgres_oracle: PostgresOracle,
    expression: str,
) -> None:
    sql = f"select {expression}, count(*) from person group by 1"
    with pytest.raises(psycopg.DataError), postgres_connection.transaction():
        postgres_connection.execute(sql)
    with pytest.raises(InvalidParameterValue, match="Guard it"):
        world.plan(sql)
