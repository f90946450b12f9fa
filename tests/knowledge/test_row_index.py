"""The index from rows to columns, beside a dictionary of lists."""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence

import pytest

from tallyveil.knowledge.recorded import row_index
from tallyveil.knowledge.recorded.row_index import RowIndex


def numbers_in(columns: Sequence[Sequence[bytes]], key: bytes) -> tuple[int, ...]:
    """The oracle."""
    return tuple(number for number, keys in enumerate(columns) if key in keys)


def key(number: int) -> bytes:
    return random.Random(number).randbytes(16)


@pytest.mark.parametrize("seed", range(5))
def test_it_finds_the_columns_of_each_key(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Few or many keys, repeated ones too, in any order of adding, settling and writing."""
    monkeypatch.setattr(row_index, "_MANY", 12)
    draw = random.Random(seed)
    index, columns, pool = RowIndex(), list[list[bytes]](), [key(n) for n in range(60)]
    for number in range(200):
        keys = [draw.choice(pool) for _ in range(draw.randrange(1, 25))]
        columns.append(columns[-1] if number and draw.random() < 0.2 else keys)
        index.add(number, tuple(columns[-1]))
        if draw.random() < 0.2:
            index.settle()
        if draw.random() < 0.05:
            index = RowIndex(*index.copy().written())
        asked = tuple(columns[-1] if draw.random() < 0.3 else draw.choices(pool, k=7))
        expected = [numbers_in(columns, one) for one in asked]
        assert (index.find(asked) or [()] * len(asked)) == expected
    absent = tuple(key(1_000 + n) for n in range(3))
    assert not any(index.find(absent) or ())


def test_many_columns_of_one_key_share_no_memory_with_what_they_replace() -> None:
    """One tuple is kept for a set of columns that some key is in."""
    index = RowIndex()
    for number in range(1_000):
        index.add(number, (key(1), key(2)))
    assert index.find((key(2),)) == [tuple(range(1_000))]
    assert len(index._sets) == 2


def test_a_wide_column_that_nobody_settles_is_settled_by_those_who_look() -> None:
    """As where another process sold it."""
    wide = tuple(key(n) for n in range(row_index._MANY + 1))
    index = RowIndex()
    index.add(0, wide)
    for _ in range(row_index._LOOKS):
        assert index.find((wide[7],)) == [(0,)]
        assert index._waiting
    assert index.find((wide[7],)) == [(0,)]
    assert not index._waiting


def test_threads_find_while_another_adds_and_settles() -> None:
    """A column is found from when it was added, once, however far it is settled."""
    wide = tuple(key(n) for n in range(row_index._MANY + 1))
    index, added, ended = RowIndex(), [0], threading.Event()
    wrong: list[object] = []

    def look(place: int) -> None:
        while not ended.is_set():
            least = added[0]
            found = index.find((wide[place], key(1_000_000)))
            numbers = () if found is None else found[0]
            if numbers != tuple(range(len(numbers))) or len(numbers) < least:
                wrong.append((least, numbers))
                return

    readers = [threading.Thread(target=look, args=(place,)) for place in (0, len(wide) - 1)]
    for reader in readers:
        reader.start()
    for number in range(60):
        index.add(number, wide if number % 3 else (wide[0], wide[-1]))
        added[0] = number + 1
        if number % 2:
            index.settle()
    ended.set()
    for reader in readers:
        reader.join()
    assert not wrong
