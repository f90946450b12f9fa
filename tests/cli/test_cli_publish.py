"""`tallyveil publish` beside a server: what its clients see, also after it was killed."""

from __future__ import annotations

import datetime as dt
import json
import math
from pathlib import Path

import duckdb
import numpy as np
import psycopg
import pytest
from typer.testing import CliRunner

from tallyveil.cli.app import app
from tallyveil.cli.publishing import publish
from tests.cli.test_cli_serve import serving
from tests.gate.growing_visits import Visits, day, random_rows

BY_DAY = "SELECT day, count(*) FROM visits GROUP BY day ORDER BY day"


def test_connections_stay_and_see_the_next_version(tmp_path: Path) -> None:
    visits = Visits(tmp_path)
    visits.declare(budget="epsilon = 3")
    visits.fill(random_rows(np.random.default_rng(1), 300))
    visits.publish(2)
    policy, told = tmp_path / "policy.toml", list[str]()
    with (
        serving(policy) as (server, address),
        psycopg.connect(address, autocommit=True) as one,
        psycopg.connect(address, autocommit=True) as other,
    ):
        one.add_notice_handler(lambda notice: told.append(notice.message_primary or ""))
        first = one.execute(BY_DAY).fetchall()
        assert one.execute(BY_DAY).fetchall() == other.execute(BY_DAY).fetchall() == first
        assert [d for d, _ in first] == [day(n) for n in range(3)]
        published = CliRunner().invoke(
            app, ["publish", str(policy), "--through", str(day(4)), "--report", "--json"]
        )
        assert published.exit_code == 0, published.output
        found = json.loads(published.output)
        assert (found["version"], found["through"], found["new"]) == (2, str(day(4)), True)
        assert found["records"] > 0
        then = one.execute(BY_DAY).fetchall()
        assert then[:3] == first
        assert [d for d, _ in then] == [day(n) for n in range(5)]
        assert other.execute(BY_DAY).fetchall() == then
        assert [text.partition(": ")[2].split(" are")[0] for text in told if "version" in text] == [
            f"days through {day(2)}",
            f"days through {day(4)}",
        ]
        server.kill()
    with serving(policy) as (_, address), psycopg.connect(address) as again:
        assert again.execute(BY_DAY).fetchall() == then


def test_what_cannot_be_published_is_said(tmp_path: Path) -> None:
    visits = Visits(tmp_path)
    visits.fill(random_rows(np.random.default_rng(2), 20))
    policy = str(tmp_path / "policy.toml")
    soon = dt.datetime.now(dt.UTC).date()
    visits.declare(days=(soon - day(0)).days + 9)
    for arguments, message in (
        ((policy, "--through", str(soon)), "is not over for table visits"),
        ((policy, "--through", "yesterday"), "expected a day, such as 2026-11-20"),
    ):
        result = CliRunner().invoke(app, ["publish", *arguments])
        assert result.exit_code == 1
        assert message in result.stderr
    with visits.open() as connection:  # which publishes the first version itself
        assert connection.sql("SELECT count(*) FROM dp.versions").fetchall() == [(1,)]


def test_what_was_asked_before_is_bought_of_a_new_day_together(tmp_path: Path) -> None:
    visits = Visits(tmp_path)
    visits.declare(budget="epsilon = 3")
    visits.fill(random_rows(np.random.default_rng(3), 300))
    visits.publish(2)
    asked = (BY_DAY, "SELECT day, kind, count(*) FROM visits GROUP BY day, kind")
    policy = tmp_path / "policy.toml"
    nothing = CliRunner().invoke(app, ["warm", str(policy)])
    assert "no statement that can be asked again" in nothing.stderr
    with visits.open() as connection:
        for sql in asked:
            connection.execute(sql)
        connection.execute("SELECT count(*) FROM visits WHERE kind = $1", [1])  # is left out
    visits.publish(4)
    warmed = CliRunner().invoke(app, ["warm", str(policy), "--json"])
    assert warmed.exit_code == 0, warmed.output
    left_out, found = map(json.loads, warmed.output.splitlines())
    assert left_out == {"left_out": 1}
    assert (found["statements"], found["rows"]) == (2, 20)
    with visits.open() as connection:
        for sql in asked:
            connection.execute(sql)
            assert "free" in connection.notices[0].message


@pytest.mark.slow
def test_a_year_of_days_is_answered_on_one_budget(tmp_path: Path) -> None:
    """The counts of each day, bought once, give the week, the last 28 days and the year so far."""
    first = dt.date(2025, 1, 1)
    (tmp_path / "days").mkdir()
    (tmp_path / "policy.toml").write_text(
        f"""
        ledger = "visits.ledger"
        [source]
        url = "days/*.parquet"
        [tables.visits]
        budget = {{ epsilon = 1.0 }}
        data = {{ append = "day", late = 3 }}
        [tables.visits.attributes]
        day = {{ range = [{first}, 2034-12-31] }}
        age = {{ range = [0, 6] }}
        """
    )

    def arrives(number: int) -> str:
        """The file of a day is there before it is published."""
        day = first + dt.timedelta(days=number)
        duckdb.sql(
            f"COPY (SELECT DATE '{day}' AS day, i % 7 AS age FROM range({140 + number}) t(i))"
            f" TO '{tmp_path}/days/{number:03}.parquet'"
        )
        list(publish(tmp_path / "policy.toml", str(day), report=False))
        return str(day)

    arrives(0)
    with (
        serving(tmp_path / "policy.toml") as (_, address),
        psycopg.connect(address, autocommit=True) as connection,
    ):
        widths = "age, count(*), dp_stddev(count(*)) FROM visits WHERE day"
        for number in range(1, 365):
            day = arrives(number)
            connection.execute("SET dp.source = auto; SET dp.epsilon = 1")
            bought = connection.execute(f"SELECT {widths} = '{day}' GROUP BY age").fetchall()
            assert [sd for *_, sd in bought] == pytest.approx([1.3569625] * 7, rel=1e-5)
            connection.execute("SET dp.source = history")
            if number % 28 and number < 364:
                continue
            for days in (7, 28, 364):
                days = min(days, number)  # the first day was not asked
                expected = 1.3569625 * math.sqrt(days)
                least = f"> DATE '{day}' - {days}"
                known = connection.execute(f"SELECT {widths} {least} GROUP BY age").fetchall()
                assert [sd for *_, sd in known] == pytest.approx([expected] * 7, rel=1e-5)
                counted = range(number + 1 - days, number + 1)
                true = sum(140 + n for n in counted) / 7
                assert all(abs(n - true) < len(counted) + 6 * expected for _, n, _ in known)
        ((spent, versions),) = connection.execute(
            "SELECT spent, (SELECT count(*) FROM dp.versions) FROM dp.budget"
        ).fetchall()
        assert (spent, versions) == (1, 365)


def test_that_the_range_of_days_has_ended_is_said_until_it_is_extended(tmp_path: Path) -> None:
    """A day beyond it is refused, and without one the custodian is told of the later ones."""
    visits, policy = Visits(tmp_path), str(tmp_path / "policy.toml")
    visits.fill([(0, 0, 1, 0), (25, 1, 2, 0)])
    end, later = day(19), day(25)
    how = "a later end of tables.visits.attributes.day.range in the policy, and carry the ledger"
    beyond = CliRunner().invoke(app, ["publish", policy, "--through", str(later)])
    assert beyond.exit_code == 1
    assert f"{later} is after the range of days of table visits, which ends on {end}" in (
        beyond.stderr
    )
    assert how in " ".join(beyond.stderr.split())
    for _ in range(2):  # also where nothing is new
        found = CliRunner().invoke(app, ["publish", policy])
        assert found.exit_code == 0
        assert f"Its range of days ended on {end}" in found.output
        assert how in found.output
    assert json.loads(CliRunner().invoke(app, ["publish", policy, "--json"]).output)["range_ended"]
    with visits.open("SET dp.epsilon = 1000") as connection:
        assert connection.sql("SELECT count(*) FROM visits").fetchall() == [(1,)]
    visits.declare(days=(dt.datetime.now(dt.UTC).date() - day(0)).days + 9)
    assert CliRunner().invoke(app, ["migrate", policy, "--yes"]).exit_code == 0
    found = CliRunner().invoke(app, ["publish", policy, "--through", str(later), "--json"])
    assert json.loads(found.output)["range_ended"] is False
    with visits.open("SET dp.epsilon = 1000") as connection:
        assert connection.sql("SELECT count(*) FROM visits").fetchall() == [(2,)]
