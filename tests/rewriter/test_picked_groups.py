"""Groups that a join picks: Superset's series limit, against PostgreSQL."""

from __future__ import annotations

import pytest

from tallyveil.errors import FeatureNotSupported
from tests.rewriter.oracles import PostgresOracle, agree
from tests.rewriter.world import World

# The statement that Superset sends where a chart over time has a limit of series.
SUPERSET = """SELECT
  DATE_TRUNC('MONTH', born) AS born,
  state AS state,
  COUNT(*) AS count
FROM public.person
JOIN (
  SELECT
    state AS state__,
    COUNT(*) AS mme_inner__
  FROM public.person
  WHERE
    born >= TO_DATE('2020-01-01', 'YYYY-MM-DD')
    AND born < TO_DATE('2020-02-01', 'YYYY-MM-DD')
  GROUP BY
    state
  ORDER BY
    mme_inner__ DESC, state
  LIMIT 3
) AS series_limit
  ON state = state__
WHERE
  born >= TO_DATE('2020-01-01', 'YYYY-MM-DD')
  AND born < TO_DATE('2020-02-01', 'YYYY-MM-DD')
GROUP BY
  DATE_TRUNC('MONTH', born),
  state
ORDER BY
  count DESC
LIMIT 1000"""

TOP = "(SELECT {} AS k, count(*) AS m FROM person GROUP BY {} ORDER BY count(*) DESC, 1 LIMIT 2)"
STATES = TOP.format("state", "state")
BOTH = """(SELECT sex AS s, state AS k FROM person GROUP BY sex, state
           ORDER BY count(*) DESC, sex, state LIMIT 4)"""

ANSWERED = [
    SUPERSET,
    f"SELECT state, count(*) FROM person JOIN {STATES} AS t ON state = k GROUP BY state",
    f"SELECT state, count(*) FROM person p JOIN {STATES} t ON t.k = p.state GROUP BY p.state",
    f"SELECT state, sex, count(*) FROM person JOIN {STATES} AS t ON (state = k) GROUP BY 1, 2 "
    "HAVING count(*) > 3 OR sex = 'F'",
    f"SELECT upper(state), sum(age) FROM person JOIN {TOP.format('upper(state)', 'upper(state)')} "
    "AS t ON upper(state) = k GROUP BY upper(state)",
    # NULL equals nothing, also where it is one of the groups picked.
    f"SELECT sex, count(*) FROM person JOIN {TOP.format('sex', 'sex').replace('2', '3')} AS t "
    "ON sex = k GROUP BY sex",
    f"SELECT state, sex, count(*) FROM person JOIN {BOTH.replace('4', '40')} AS t "
    "ON state = k AND sex = s GROUP BY state, sex",
    f"SELECT state, sex, count(*) FROM person JOIN {BOTH} AS t ON state = k AND sex = s "
    "GROUP BY state, sex",
]


@pytest.mark.parametrize("sql", ANSWERED)
def test_they_are_those_that_the_join_keeps(
    world: World, postgres_oracle: PostgresOracle, sql: str
) -> None:
    world.plan(sql)
    assert agree(world, postgres_oracle, sql, ordered=False)


@pytest.mark.parametrize(
    "sql",
    [
        # A record hangs on noisy rows, not its group.
        f"SELECT count(*) FROM person JOIN {STATES} AS t ON state = k",
        f"SELECT sex, count(*) FROM person JOIN {STATES} AS t ON state = k GROUP BY sex",
        # It keeps records twice, or those of no group of the query.
        f"SELECT sex, count(*) FROM person JOIN {BOTH} AS t ON sex = s GROUP BY sex",
        f"SELECT state, count(*) FROM person LEFT JOIN {STATES} AS t ON state = k GROUP BY state",
        f"SELECT state, count(*) FROM person JOIN {STATES} AS t ON state <= k GROUP BY state",
        f"SELECT age, count(*) FROM person JOIN {STATES} AS t ON age = m GROUP BY age",
        f"SELECT state, count(*) FROM person JOIN {STATES} AS t ON true GROUP BY state",
        # It reads the other columns.
        f"SELECT state, m, count(*) FROM person JOIN {STATES} AS t ON state = k GROUP BY state, m",
        f"SELECT state, sum(m) FROM person JOIN {STATES} AS t ON state = k GROUP BY state",
        f"SELECT state, count(*) FROM person JOIN {STATES} AS t ON state = k WHERE m > 3 "
        "GROUP BY state",
    ],
)
def test_a_join_that_does_more_is_refused(world: World, sql: str) -> None:
    with pytest.raises(FeatureNotSupported, match="below an aggregation"):
        world.plan(sql)
