"""A row's ends are used again as long as its answers go on from those they were computed from."""

from __future__ import annotations

from fractions import Fraction

from tallyveil.inference import DiscreteLaplaceLaw
from tallyveil.knowledge.all_looks import EndsCache, Look

HALF = Fraction(1, 2)
ANSWERS = [Look(DiscreteLaplaceLaw(9.0), value, 1) for value in (4, -7, 12)]
UNKNOWN = (0, (0, 0))


def test_ends_serve_answers_that_go_on() -> None:
    cache = EndsCache()
    assert cache.before(b"row", HALF, ANSWERS) == UNKNOWN
    cache.keep(b"row", HALF, ANSWERS[:2], (-3, 5))
    assert cache.before(b"row", HALF, ANSWERS[:2]) == (2, (-3, 5))
    assert cache.before(b"row", HALF, ANSWERS) == (2, (-3, 5))


def test_they_serve_no_others() -> None:
    cache = EndsCache()
    cache.keep(b"row", HALF, ANSWERS[:2], (-3, 5))
    assert cache.before(b"row", HALF, ANSWERS[:1]) == UNKNOWN
    assert cache.before(b"row", HALF, [ANSWERS[0], ANSWERS[2], ANSWERS[1]]) == UNKNOWN
    assert cache.before(b"row", Fraction(1, 3), ANSWERS) == UNKNOWN
    assert cache.before(b"other", HALF, ANSWERS) == UNKNOWN


def test_too_many_are_forgotten() -> None:
    cache = EndsCache(limit=2)
    for row in (b"1", b"2", b"3"):
        cache.keep(row, HALF, ANSWERS, (-3, 5))
    assert cache.before(b"1", HALF, ANSWERS) == UNKNOWN
    assert cache.before(b"3", HALF, ANSWERS) == (3, (-3, 5))
