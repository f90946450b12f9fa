from __future__ import annotations

import pytest

import tallyveil
from tallyveil.mechanisms import AUTO, BY_INVARIANTS, mechanism_names
from tests.gate.asking import Connect


@pytest.mark.parametrize("name", ["dp.epsilon", "dp.half_width", "dp.confidence"])
@pytest.mark.parametrize("value", ["1e999999999", "0." + "1" * 100_000, "1/3", "1_000", "0x1"])
def test_a_number_is_read_no_further_than_numbers_go(
    connect: Connect, name: str, value: str
) -> None:
    with pytest.raises(tallyveil.Error) as caught:
        connect().execute(f"SET {name} = '{value}'")
    assert caught.value.sqlstate == "22023"
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("sql", "message", "hint"),
    [
        (
            "SET dp.mechanism = laplce",
            'there is no mechanism "laplce"',
            f"Known: {', '.join((AUTO, *BY_INVARIANTS, *mechanism_names()))}.",
        ),
        (
            "SET search_path = ''",
            'invalid value for parameter "search_path": ""',
            "Names without a schema are always looked up in public: leave it in the path, and"
            " write dp. before the names of its relations.",
        ),
        (  # libpq ends a connection where it is told of a value of 30,000 bytes
            "SET search_path = public, " + ", ".join("x" * 58 + f"{n:02}" for n in range(20)),
            'invalid value for parameter "search_path": "public, ' + "x" * 22 + '…"',
            "A path has at most 1000 characters.",
        ),
    ],
)
def test_a_refused_setting_says_what_to_write(
    connect: Connect, sql: str, message: str, hint: str
) -> None:
    with pytest.raises(tallyveil.Error) as caught:
        connect().execute(sql)
    assert (caught.value.message, caught.value.hint) == (message, hint)
