"""What differs between a table's declaration in the ledger and that of the policy, key by key.

Both are JSON with the keys of the policy (`policy.fingerprint`), and hold no password.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from tallyveil.policy.domain import duration, step_text

__all__ = ["changes"]

_MOST: Final = 20
_LONGEST: Final = 80
_WHOLE: Final = 2000  # characters of a list that is shown to be restored


def changes(known: str, own: str) -> list[str]:
    """One line for each key, such as ``tables.person.attributes.age.range: [0, 115] in the ledger,
    [0, 120] here``. Empty if either is not known, or both are equal."""
    if not known or not own:
        return []
    found = list(_differences("", json.loads(known), json.loads(own)))
    more = [f"and {len(found) - _MOST:,} keys more"] if len(found) > _MOST else []
    return [*found[:_MOST], *more]


def _differences(key: str, known: Any, own: Any) -> Iterator[str]:
    if json.dumps(known) == json.dumps(own):
        return
    if _has_keys(known) and _has_keys(own):
        for name in dict.fromkeys((*known, *own)):
            inner = f"{key}.{name}" if key else name
            if name not in own:
                yield f"{inner}: {_shown(known[name])} in the ledger, not given here"
            elif name not in known:
                yield f"{inner}: not given in the ledger, {_shown(own[name])} here"
            else:
                yield from _differences(inner, known[name], own[name])
        if known.keys() == own.keys() and list(known) != list(own):
            yield f"{key}: in the order {', '.join(known)} in the ledger, {', '.join(own)} here"
    elif isinstance(known, list) and isinstance(own, list):
        yield f"{key}: {_lists(known, own)}"
    else:
        yield f"{key}: {_shown(known)} in the ledger, {_shown(own)} here"


def _has_keys(value: Any) -> bool:
    """Whether it is a dict of keys, and no value that JSON lacks."""
    return isinstance(value, dict) and _value(value) is None


def _value(value: dict[str, Any]) -> str | None:
    """The value that is written as a dict of its type and text, as TOML writes it."""
    match value:
        case {"date": str(text)} | {"datetime": str(text)} | {"time": str(text)}:
            return text
        case {"number": str(text)}:
            return text
        case {"duration": str(text)}:
            return json.dumps(step_text(duration(text)))
    return None


def _lists(known: list[Any], own: list[Any]) -> str:
    texts, others = [_shown(one) for one in known], [_shown(one) for one in own]
    old, new = f"[{', '.join(texts)}]", f"[{', '.join(others)}]"
    if sorted(texts) == sorted(others):
        return f"in another order; the ledger has {_shortened(old, _WHOLE)}"
    if max(len(old), len(new)) <= _LONGEST:
        return f"{old} in the ledger, {new} here"
    here, there = set(others), set(texts)
    only = {
        "the ledger": [text for text in texts if text not in here],
        "the policy": [text for text in others if text not in there],
    }
    parts = [f"only in {where}: {_shortened(', '.join(one))}" for where, one in only.items() if one]
    return "; ".join(parts)


def _shown(value: Any) -> str:
    """The value as TOML writes it; what JSON lacks is a table of its type and text."""
    match value:
        case dict() if (text := _value(value)) is not None:
            return text
        case dict():
            pairs = ", ".join(f"{name} = {_shown(item)}" for name, item in value.items())
            return _shortened(f"{{ {pairs} }}")
        case list():
            return _shortened(f"[{', '.join(map(_shown, value))}]")
    return json.dumps(value, ensure_ascii=False)


def _shortened(text: str, most: int = _LONGEST) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
