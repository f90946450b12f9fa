"""What migrations must not believe: each rule here understates a loss, or gives a wrong answer."""

from __future__ import annotations

import datetime as dt
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import tallyveil
from tallyveil.accountant import Ledger
from tallyveil.accountant.store.ledger_records import MigrationRecord
from tallyveil.errors import (
    FeatureNotSupported,
    InvalidParameterValue,
    LedgerError,
    LedgerMismatch,
    TallyveilError,
)
from tallyveil.gate import Gate
from tallyveil.gate.declared.migrating import migrating
from tests.gate.test_gate_migration import ALL, COUNT, RHO, SEX, STATE, WHOLE, World, check_spent

F, X = (f"{COUNT} WHERE sex = '{one}'" for one in "FX")
BY_SEX = "SELECT sex, count(*) FROM person GROUP BY sex ORDER BY sex"


def sexes(*values: str, **more: Any) -> dict[str, Any]:
    return {"sex": {"values": [*values], **more}}


def test_a_value_that_was_dropped_and_is_declared_again_has_not_lost_nothing(
    tmp_path: Path,
) -> None:
    """As "formerly uncounted, so 0" would have it. What was answered of it is known again."""
    world = World(tmp_path, {"sex": SEX, "state": STATE})
    state = {"state": {"values": ["AL"], **ALL}}
    policies = [world.policy(sexes(*one) | state) for one in ("FMX", "FM", "FX")]
    with world.opened(policies[0]) as asked:
        asked(X, paid=2)
        known = asked(X)
    world.migrate(policies[1])
    world.ask(policies[1], F, paid=0.5)
    world.migrate(policies[2])
    with world.opened(policies[2]) as asked:
        assert asked(X) == known
        assert asked.spent == 2
        asked("SELECT state, count(*) FROM person WHERE sex = 'X' GROUP BY state", paid=1)
        assert asked.spent == 3
        check_spent(world, asked, *policies)


def test_an_attribute_that_was_dropped_and_is_declared_again_is_the_same(tmp_path: Path) -> None:
    world = World(tmp_path, {"sex": SEX, "state": STATE})
    both = sexes("F", "M", **ALL) | {"state": {"values": ["AL"], "other": True}}
    policies = [world.policy(one) for one in (both, sexes("F", "M", **ALL), both)]
    al = f"{COUNT} WHERE state = 'AL'"
    with world.opened(policies[0]) as asked:
        asked(al, paid=1)
        known = asked(al)
    world.migrate(policies[1])
    world.ask(policies[1], F, paid=0.5)
    world.migrate(policies[2])
    with world.opened(policies[2]) as asked:
        assert asked(al) == known
        asked(f"{COUNT} WHERE state = 'AL' AND sex = 'M'", paid=1)
        check_spent(world, asked, *policies)


def test_labels_that_were_changed_in_the_source_are_vouched_for_and_compared(
    tmp_path: Path,
) -> None:
    world = World(tmp_path, {"sex": ("VARCHAR", ["F", "M", "M ", "x"])})
    before, since = (
        world.policy(sexes("F", "M", **ALL)),
        world.policy(sexes("male", "female", **ALL)),
    )
    with world.opened(before) as asked:
        asked(F, paid=1)
        known = asked(F)
    for table in ("people", "numbered"):
        world.source.execute(
            f"UPDATE {table} SET sex = CASE sex WHEN 'F' THEN 'female' WHEN 'M' THEN 'male'"
            " ELSE sex END"
        )
    with (
        pytest.raises(LedgerMismatch, match="other data") as refused,
        migrating(since, world.source),
    ):
        pass
    assert "--recoded person.ATTRIBUTE:OLD=NEW" in (refused.value.hint or "")
    for mistyped in ({"sex": {"f": "male"}}, {"age": {"F": "x"}}):
        with pytest.raises(InvalidParameterValue, match="had no value"):
            world.migrate(since, labels={"person": mistyped})
    with pytest.raises(InvalidParameterValue, match='table "people" has changed'):
        world.migrate(since, labels={"people": {}})
    wrong = {"person": {"sex": {"F": "male", "M": "female"}}}
    with pytest.raises(LedgerMismatch, match="other data"):  # as many records as labels say
        world.migrate(since, labels=wrong)
    right = {"person": {"sex": {"F": "female", "M": "male"}}}
    world.migrate(since, labels=right)
    with world.opened(since) as asked:
        assert asked(f"{COUNT} WHERE sex = 'female'") == known
        asked(f"{COUNT} WHERE sex = 'female'", paid=2)
        assert asked.spent > 2


UNITS = {
    "pid": ("INTEGER", [1, 2, 3]),
    "kind": ("VARCHAR", ["a", "b"]),
    "sex": ("VARCHAR", ["F", "M"]),
}


def unit(most: int) -> dict[str, Any]:
    return {"privacy_unit": {"column": "pid", "max_rows": most}}


def test_where_other_rows_of_a_unit_may_be_chosen_losses_of_all_cells_add_up(
    tmp_path: Path,
) -> None:
    """A column more is another choice of rows: a unit that was counted as F may be counted as M
    since. By cells, both could lose 1: filter 1, loss 2."""
    world = World(tmp_path, UNITS)
    kinds = {"kind": {"values": ["a", "b"], **ALL}}
    before, since = (
        world.policy(one, **unit(1)) for one in (sexes("F", "M"), sexes("F", "M") | kinds)
    )
    male = F.replace("'F'", "'M'")
    world.ask(before, F, paid=1)
    (done,) = world.migrate(since)
    assert (done.folds, done.retires) == (True, True)
    with world.opened(since) as asked:
        assert asked(F) == [[(None,)]]  # not known any more
        assert asked.spent == 1
        asked(male, paid=1)
        assert asked.spent == 2
        asked(F, paid=0.5)
        assert asked.spent == 2
    with world.opened(since) as asked:  # as it follows from the ledger alone
        assert asked.spent == 2
        assert asked(male)[0][0][0] is not None


def test_another_order_of_a_units_rows_is_another_choice(tmp_path: Path) -> None:
    """With the same columns: the earliest row may be M, and the one before by its hash F."""
    world = World(tmp_path, {**UNITS, "day": ("DATE", [dt.date(2026, 1, n) for n in (1, 2)])})
    days = {"day": {"range": [dt.date(2026, 1, 1), dt.date(2026, 1, 2)], **ALL}}
    first = {"privacy_unit": {"column": "pid", "max_rows": 1, "earliest_by": "day"}}
    before, since = (world.policy(sexes("F", "M") | days, **one) for one in (unit(1), first))
    world.ask(before, F, paid=1)
    (done,) = world.migrate(since)
    assert (done.folds, done.retires) == (True, True)
    with world.opened(since) as asked:
        asked(F.replace("'F'", "'M'"), paid=1)
        assert asked.spent == 2


def test_folded_losses_count_for_shares_and_exchanges_too(tmp_path: Path) -> None:
    """F against M lost 1, F against X a half. Pair by pair, F against X could lose a half more."""
    world = World(tmp_path, UNITS, neighbours="replace")
    kinds = {"kind": {"values": ["a", "b"], **ALL}}
    before = world.policy(sexes("F", "M", "X"), **unit(1))
    since = world.policy(sexes("F", "M", "X") | kinds, **unit(1))
    both = "SELECT sex, count(*) FROM person WHERE sex <> 'X' GROUP BY sex"
    with world.opened(before) as asked:
        asked(both, paid=1)
        assert asked.spent == 1
    world.migrate(since)
    for _ in range(2):  # then as it follows from the ledger alone
        with world.opened(since) as asked:
            asked(X, paid=0.5)
            assert asked.spent == Fraction(3, 2)
            [share] = asked._gate.accountant.spending()
            assert share.spent == asked.spent


@pytest.mark.parametrize(("rows", "later"), [(1, 2), (2, 1)])
def test_with_another_max_rows_all_is_counted_at_the_larger(
    rows: int, later: int, tmp_path: Path
) -> None:
    """Each charge at its own: a = (3, 0), b = (0, 2), 1 then 2 rows: 4, and the true loss is 5."""
    world = World(tmp_path, UNITS)
    before, since = (world.policy(sexes("F", "M"), **unit(one)) for one in (rows, later))
    with world.opened(before) as asked:
        asked(F, paid=3)
        scaled = asked.spent * 2 / rows
    (done,) = world.migrate(since)
    assert (done.folds, done.retires) == (False, True)
    with world.opened(since) as asked:
        assert asked.spent == scaled
        assert asked(F) == [[(None,)]]
        asked(F.replace("'F'", "'M'"), paid=2)
        assert asked.spent >= max(scaled, 2 if later > rows else 0)


def test_neighbours_may_change_unless_a_number_of_rows_was_public(tmp_path: Path) -> None:
    world = World(tmp_path, {"sex": SEX})
    declared = sexes("F", "M", **ALL)
    adding, replacing = (world.policy(declared, neighbours=n) for n in ("add_remove", "replace"))
    world.ask(adding, F, BY_SEX, paid=0.5)
    world.migrate(replacing)
    with world.opened(replacing) as asked:
        check_spent(world, asked, adding, replacing, pairs=True)
        assert (
            asked(COUNT)[0][0][0]
            == world.source.execute("SELECT count(*) FROM people").fetchone()[0]
        )
    with pytest.raises(FeatureNotSupported, match="exact counts were published"):
        world.migrate(adding)


def test_noisy_numbers_of_rows_let_neighbours_change_back(tmp_path: Path) -> None:
    world = World(tmp_path, {"sex": SEX})
    replacing, adding = (
        world.policy(sexes("F", "M"), neighbours=n) for n in ("replace", "add_remove")
    )
    world.ask(replacing, F, BY_SEX, paid=0.5)
    world.migrate(adding)
    with world.opened(adding) as asked:
        check_spent(world, asked, replacing, adding)


def test_a_budget_may_become_one_of_rho_with_it(tmp_path: Path) -> None:
    world = World(tmp_path, {"sex": SEX})
    before = world.policy(sexes("F", "M", **ALL))
    world.ask(before, F, BY_SEX, paid=0.5)
    since = world.policy(sexes("F", "M", "X", **ALL), budget=RHO)
    (done,) = world.migrate(since)
    assert done.after.measure == "rho"
    with world.opened(since) as asked:
        check_spent(world, asked, before, since)


REFUSED: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"from": "people"}, {"from": "SELECT * FROM people"}, r"read from elsewhere \(from\)"),
    ({}, unit(1), "privacy unit is another"),
    (unit(1), {}, "privacy unit is another"),
    (unit(1), {"privacy_unit": {"column": "kind", "max_rows": 1}}, "privacy unit is another"),
    ({}, {"count": "pid"}, "privacy unit is another"),
]


@pytest.mark.parametrize(("before", "since", "message"), REFUSED)
def test_what_cannot_be_carried_over_is_refused_and_changes_nothing(
    before: dict[str, Any], since: dict[str, Any], message: str, tmp_path: Path
) -> None:
    world = World(tmp_path, UNITS)
    policy = world.policy(sexes("F", "M"), **before)
    world.ask(policy, F, paid=1)
    content = policy.ledger.read_bytes()
    with pytest.raises(FeatureNotSupported, match=message) as refused:
        world.migrate(world.policy(sexes("F", "M", "X"), **since))
    assert "new ledger file would begin with the whole budget" in (refused.value.hint or "")
    assert policy.ledger.read_bytes() == content
    assert [one.name for one in tmp_path.iterdir()] == [policy.ledger.name]


def test_rows_that_were_moved_are_vouched_for_and_compared(tmp_path: Path) -> None:
    world = World(tmp_path, {"sex": SEX})
    before = world.policy(sexes("F", "M", **ALL))
    with world.opened(before) as asked:
        asked(F, paid=1)
        known = asked(F)
    view = "SELECT sex AS gender FROM people"
    gender = {"sex": {"values": ["F", "M", "X"], **ALL, "column": "gender"}}
    since = world.policy(gender, **{"from": view})
    with pytest.raises(FeatureNotSupported, match=r"attributes\.sex\.column") as refused:
        world.migrate(since)
    assert "--vouch same-rows" in (refused.value.hint or "")
    fewer = world.policy(gender, **{"from": f"{view} WHERE sex = 'F'"})
    with pytest.raises(LedgerMismatch, match="other data") as refused_too:
        world.migrate(fewer, same_rows=True)
    assert "put from, attributes.sex.column back" in (refused_too.value.hint or "")
    world.migrate(since, same_rows=True)
    with world.opened(since) as asked:
        assert asked(F) == known


def test_other_rows_are_no_migration(tmp_path: Path) -> None:
    world = World(tmp_path, {"sex": SEX})
    world.ask(world.policy(sexes("F", "M", **ALL)), F, paid=1)
    world.source.execute("INSERT INTO people VALUES ('F')")
    with pytest.raises(LedgerMismatch, match="other data"):
        world.migrate(world.policy(sexes("F", **ALL)))


def test_tables_that_share_units_and_tables_with_copies_are_refused(tmp_path: Path) -> None:
    world = World(tmp_path, UNITS)
    kinds = {"attributes": {"kind": {"values": ["a"]}}}
    visits = {"keys": {"pid": "person.pid"}, "from": "people", **kinds, **unit(2)}

    def both(**more: Any) -> Any:
        person = {"attributes": sexes("F", "M", **more), **world.keys, **unit(1)}
        tables = {"person": person, "visit": visits}
        return tallyveil.parse_policy({"tables": tables}, base=tmp_path)

    world.ask(both(), F, paid=1)
    with pytest.raises(FeatureNotSupported, match="shares its units"):
        world.migrate(both(other=True))


def test_statistics_stay_known(tmp_path: Path) -> None:
    world = World(tmp_path, {"age": WHOLE, "sex": SEX})
    ages = {"age": {"range": [0, 9], "clamp": True, "nullable": True}}
    before, since = world.policy(ages), world.policy(ages | sexes("F", **ALL))
    asked_for = "SELECT count(DISTINCT age) FROM person"
    median = "SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY age) FROM person"
    with world.opened(before) as asked:
        first = asked(asked_for, median, paid=1)
        spent = asked.spent
    world.migrate(since)
    with world.opened(since) as asked:
        assert asked(asked_for, median) == first
        assert asked.spent == spent
        asked(f"{asked_for} WHERE sex = 'F'", paid=1)
        assert asked.spent == spent + 1


def test_numbers_of_units_stay_known_and_are_counted_over_joint_codes(tmp_path: Path) -> None:
    world = World(tmp_path, UNITS, budget={"epsilon": 1000.0})
    kinds = {"kind": {"values": ["a", "b"], **ALL}}
    before = world.policy(sexes("F", "M", **ALL) | kinds, **unit(12))
    since = world.policy(sexes("M", "F", **ALL) | {"kind": {"values": ["b"], **ALL}}, **unit(12))
    of_all = "SELECT count(DISTINCT pid) FROM person"
    with world.opened(before) as asked:
        asked(of_all, paid=1)
        known, spent = asked(of_all), asked.spent
    world.migrate(since)
    with world.opened(since) as asked:
        assert (asked(of_all), asked.spent) == (known, spent)
        assert asked(f"{of_all} WHERE sex = 'F' AND kind = 'b'", paid=200) == [[(3,)]]
        assert asked(f"{of_all} WHERE kind = 'other'", paid=200) == [[(3,)]]
        assert asked.spent > spent


def test_exact_counts_and_translates_stay(tmp_path: Path) -> None:
    world = World(tmp_path, {"sex": SEX, "state": STATE})
    states = {"state": {"values": ["AL", "AK"], **ALL}}
    by_state = "SELECT state, count(*) FROM person GROUP BY state"
    exact = {"neighbours": "replace", "invariants": [{"sql": by_state, "acknowledge": []}]}
    world.source.execute("CREATE TABLE more AS FROM people, range(20)")
    keys = {"from": "SELECT * EXCLUDE (range) FROM more", **exact}
    before = world.policy(states | sexes("F", "M", **ALL), **keys)
    since = world.policy(sexes("F", "M", "X", **ALL) | states, **keys)
    each = "SELECT state, sex, count(*) FROM person WHERE sex = 'F' GROUP BY state, sex ORDER BY 1"
    with world.opened(before) as asked:
        asked(each, paid=1)
        known, spent = asked(each, by_state), asked.spent
    world.migrate(since)
    with world.opened(since) as asked:
        assert asked(each, by_state) == known
        assert asked.spent == spent
        asked(each.replace("'F'", "'X'"), paid=1)
    fewer = world.policy(sexes("F", **ALL) | {"state": {"values": ["AL"], **ALL}}, **keys)
    with pytest.raises(LedgerMismatch, match="no longer declares an invariant"):
        world.migrate(fewer)


def test_noise_that_was_drawn_together_stays(tmp_path: Path) -> None:
    world = World(tmp_path, {"sex": SEX, "state": STATE})
    states = {"state": {"values": ["AL", "AK"], **ALL}}
    sql = "SELECT state, count(*) FROM person GROUP BY state"
    world.source.execute("CREATE TABLE more AS FROM people, range(20)")
    keys = {
        "from": "SELECT * EXCLUDE (range) FROM more", "neighbours": "replace",
        "invariants": [{"sql": sql}],
    }  # fmt: skip
    before = world.policy(states | sexes("F", "M", **ALL), **keys)
    since = world.policy(states | sexes("F", "M", "X", **ALL), **keys)
    each = "SELECT state, sex, count(*) FROM person GROUP BY state, sex ORDER BY 1, 2"
    male = f"{COUNT} WHERE sex = 'M' AND state = 'AL'"
    with world.opened(before) as asked:
        asked._connection.execute("SET dp.mechanism = conditioned")
        asked(each, paid=1)
        known, spent = asked(male), asked.spent
    world.migrate(since)
    with world.opened(since) as asked:
        assert asked(male) == known
        assert asked.spent == spent


def test_servers_that_use_the_ledger_are_noticed_and_end(tmp_path: Path) -> None:
    world = World(tmp_path, {"sex": SEX})
    before, since = world.policy(sexes("F", **ALL)), world.policy(sexes("F", "M", **ALL))
    with world.opened(before) as asked:
        asked(F, paid=1)
        with pytest.raises(LedgerError, match="is in use"):
            world.migrate(since)
        asked(X.replace("'X'", "'F'"), paid=2)
    world.migrate(since)
    assert "belongs to another declaration" in str(_raised(world, before))


def _raised(world: World, policy: Any) -> TallyveilError:
    with pytest.raises(TallyveilError) as refused:
        world.ask(policy, F)
    return refused.value


def test_of_two_migrations_at_once_one_wins(tmp_path: Path) -> None:
    world = World(tmp_path, {"sex": SEX})
    world.ask(world.policy(sexes("F", **ALL)), F, paid=1)
    one, other = world.policy(sexes("F", "M", **ALL)), world.policy(sexes("F", "X", **ALL))
    with migrating(one, world.source) as first, migrating(other, world.source) as second:
        kept = first.apply()
        with pytest.raises(LedgerError, match="written to meanwhile"):
            second.apply()
    assert kept.exists()
    assert len(world.ask(one, BY_SEX)[0]) == 4
    with closing(Ledger(one.ledger)) as ledger, ledger.snapshot() as view:
        assert len(list(view.after(MigrationRecord))) == 1


def test_a_charge_after_it_was_shown_is_not_lost(tmp_path: Path) -> None:
    world = World(tmp_path, {"sex": SEX})
    before, since = world.policy(sexes("F", **ALL)), world.policy(sexes("F", "M", **ALL))
    world.ask(before, F, paid=1)
    with migrating(since, world.source) as prepared:
        world.ask(before, F, paid=2)
        with pytest.raises(LedgerError, match="written to meanwhile"):
            prepared.apply()
    with world.opened(before) as asked:
        assert asked.spent > 1


def test_nothing_has_changed(tmp_path: Path) -> None:
    world = World(tmp_path, {"sex": SEX})
    policy = world.policy(sexes("F", **ALL))
    world.ask(policy, F, paid=1)
    with migrating(policy, world.source) as prepared:
        assert prepared.tables == ()


def test_counts_that_are_kept_in_files_are_over_joint_codes(tmp_path: Path) -> None:
    world = World(tmp_path, {"sex": SEX})
    world.source.execute(f"COPY people TO '{tmp_path / 'people.parquet'}'")
    world.source.execute(f"COPY numbered TO '{tmp_path / 'numbered.parquet'}'")

    def policy(**declared: Any) -> Any:
        table = {"budget": {"epsilon": 10}, "attributes": declared}
        keys = {"source": {"url": "people.parquet"}, "cubes": "cubes", "tables": {"person": table}}
        return tallyveil.parse_policy(keys, base=tmp_path)

    before, since = policy(**sexes("F", "M", **ALL)), policy(**sexes("F", "X", **ALL))
    with closing(Gate(before)) as gate:
        tallyveil.Connection(gate, None).sql(BY_SEX).fetchall()
    with migrating(since) as prepared:
        prepared.apply()
    for _ in range(2):  # counted, then read from the file
        with closing(Gate(since)) as gate:
            connection = tallyveil.Connection(gate, None)
            connection.execute("SET dp.epsilon = 2")
            (count,) = connection.execute(f"{COUNT} WHERE sex = 'X' OR sex = 'F'").fetchall()[0]
        true = "SELECT count(*) FROM people WHERE sex IN ('X', 'F')"
        ((truth,),) = world.source.execute(true).fetchall()
        assert abs(count - truth) < 60
