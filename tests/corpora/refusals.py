"""Statements that are to be refused, whatever the data: each would tell more than counts do."""

from __future__ import annotations

from tests.corpora.draw import Draw

__all__ = ["refusal"]

_WORDS = (
    "max(age + 1)", "min(born)", "percentile_disc(0) within group (order by age)",
    "percentile_disc(0.5) within group (order by state)", "string_agg(state, ',')",
    "count(*) filter (where random() < 0.5)", "count(nothing)", "sum({key}) over ()",
    "any_value({key})", "count(*) + age", "sum(distinct age)", "first({key})",
    "sum((select count(*) from person p2 where p2.age = person.age))", "sum(count(*))",
    "count(*) filter (where income > 50)", "count(*) filter (where income between 1 and 99)",
    "sum(income)", "sum(age / 0.0)", "count(*) filter (where 1 // (age - 7) > 0)",
    "count(*) filter (where cast(state as integer) > 0)", "count(age, sex)", "nosuch({key})",
    "count(*) filter (where uuid() > state)", "sum(age * 9223372036854775807)",
)  # fmt: skip
_SOURCES = (
    "person as a join person as b on a.age = b.age", "person join visit using (state)",
    "person right join region on code = state", "person full join region on code = state",
    "(select * from person limit 5) as t", "(select distinct age from person) as t",
    "(select age, rank() over (order by age) as r from person) as t",
    "(select age from person union select age from person) as t",
    "(select age from person except select age from person where age > 3) as t",
    "(select age from person union all select cost from visit) as t",
    "(select age from person union all select low from band) as t",
    "(select age from person offset 3) as t", "nowhere", "people", "main.people",
    "person tablesample bernoulli (10)", "person natural join region",
    "person join by_state using (state)", "read_csv('people.csv')", "range(5)",
    "pg_class", "person join dp.budget on true",
    "person, lateral (select person.age) as l", "unnest([1, 2])",
)  # fmt: skip
_CONDITIONS = (
    "age in (select age from person)", "exists (select 1 from visit)",
    "age > (select avg(q.age) from person q where q.sex = person.sex)", "income > 50",
    "income <> 17", "income % 2 = 0",
    "random() < 0.5", "uuid() = state", "rowid = 3", "nothing = 1", "getenv('HOME') is not null",
    "exists (select count(*) from person)", "gen_random_uuid() is null", "count(*) > 3",
    "(state, age) in (select state, n from by_state)", "wage in (select cost from visit)",
)  # fmt: skip
_OTHERS = (
    "select * from {table}", "select age from {table} limit 3", "select {key} from {table}",
    "delete from {table}", "insert into {table} values (1)", "update {table} set age = 3",
    "drop table {table}", "create table t as select count(*) from {table}", "copy {table} to 'x'",
    "attach 'x.db'", "pragma version", "install httpfs", "set memory_limit = '1GB'",
    "select count(*) form {table}", "select count(* from {table}", "select count(*) from",
    "select * exclude (age) from {table}", "select columns(*) from {table}", "table {table}",
    "select {key}, count(*) from {table} group by age + 1", "summarize {table}",
    "select count(*) from {table} group by 7", "select count(*) from {table} qualify true",
    "with recursive r as (select 1 union all select 1 from {table}) select count(*) from r",
    "select count(*) from {table} for update", "pivot {table} on sex using min(age)",
    "select count(*) from {table} order by {key}", "describe {table}", "explain analyze table t",
    "select distinct on ({key}) {key}, count(*) from {table} group by {key}",
)  # fmt: skip


def refusal(draw: Draw) -> str:
    """A statement that nobody is to get an answer to."""
    key = draw.one(["age", "state", "sex", "born"])
    match draw.below(4):
        case 0:
            words = draw.one(_WORDS).format(key=key)
            where = draw.one(["", " where age > 3", " where state like 'A%'"])
            group = draw.one(["", " group by sex", " group by rollup (sex, married)"])
            return f"select {words} from person{where}{group}"
        case 1:
            return f"select count(*) from {draw.one(_SOURCES)}"
        case 2:
            joint = draw.one(["{0}", "not ({0})", "married and {0}", "{0} or sex = 'F'"])
            return f"select count(*) from person where {joint.format(draw.one(_CONDITIONS))}"
    return draw.one(_OTHERS).format(table=draw.one(["person", "adult", "placed"]), key=key)
