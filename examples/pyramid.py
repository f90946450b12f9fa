"""A population pyramid from one query to a tallyveil server, through a PostgreSQL driver.

    tallyveil serve demo/people.toml &
    python examples/pyramid.py postgresql://127.0.0.1:5432/people

Both sexes and all ages are one GROUP BY: each person is in one group, so it costs what one count
does. A notice reports the cost and the interval.
"""

from __future__ import annotations

import sys

import psycopg

QUERY = """
    SELECT age / 10 * 10 AS decade,
           count(*) FILTER (WHERE sex = 'F') AS women,
           count(*) FILTER (WHERE sex = 'M') AS men
    FROM person GROUP BY decade HAVING decade IS NOT NULL ORDER BY decade DESC
"""
WIDTH = 30


def main(dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.add_notice_handler(lambda notice: print(notice.message_primary))
        rows = connection.execute(QUERY).fetchall()
    largest = max(1, *(max(women, men) for _, women, men in rows))
    for decade, women, men in rows:
        left, right = (bar(count, largest) for count in (women, men))
        print(f"{left:>{WIDTH}} {decade:>4}  {right}")
    print(f"{'women':>{WIDTH}}       men")


def bar(count: int, largest: int) -> str:
    """A noisy count may be negative; a bar cannot."""
    return "█" * round(WIDTH * max(0, count) / largest)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "postgresql://127.0.0.1:5432/people")
