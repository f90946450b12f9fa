"""Messages for a failed validation: one line per mistake, with its key as TOML writes it."""

from __future__ import annotations

import datetime as dt
import difflib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from tallyveil.errors import PolicyError

__all__ = ["SECRET", "dotted", "mistakes", "nearest", "refusal", "without_passwords", "written"]

_ENTRY = "a table of keys, such as { range = [0, 115] }"
_VALUES = 'a table of keys, such as { values = ["F", "M"] }'
_LONGEST = 60
SECRET = re.compile(
    "password|passwd|pwd|secret|token|authorization|credential"
    "|access_?key|account_?key|api_?key|private_?key",
    re.IGNORECASE,
)
"""What a name has in it that is one of a secret."""
_PASSWORD = re.compile(
    rf"""(?<=//)([^\s:/@]*:)(?!\d+(?:[,/?\s'"]|$))[^\s/@'"]+(?=[/?\s'"]|$)"""
    rf"""|(?<=//)([^\s:/@]*:).*(?=@)|(?<=//)()[^\s/@]+(?=@)|\b([^\s:/@'"]+:)[^\s/]*(?=@)"""
    rf"""|\b((?:{SECRET.pattern})['"]?\s*[=:]\s*|[?&#][^\s=&]+=)"""
    r"""(?:''[^']*''|'[^']*'?|"[^"]*"?|[^\s&;'"}]+)""",
    re.IGNORECASE,
)


def without_passwords(text: str) -> str:
    """Return the text with … in place of what may be a secret in urls and connection strings:
    passwords, a user's name alone before @, and the values in a url's query."""
    return _PASSWORD.sub(lambda found: f"{''.join(filter(None, found.groups()))}…", text)


def written(value: Any) -> str:
    """Return a value as TOML writes it, without passwords and shortened to 60 characters."""
    match value:
        case bool():
            text = str(value).lower()
        case str():
            # TOML has the same escapes.
            text = json.dumps(without_passwords(value), ensure_ascii=False)
        case list() | tuple():
            text = "[" + ", ".join(written(v) for v in value[:20]) + "]"
        case dict():
            pairs = ", ".join(
                f"{k} = {'…' if SECRET.search(str(k)) else written(v)}" for k, v in value.items()
            )
            text = f"{{ {pairs} }}" if pairs else "{}"
        case dt.date() | dt.time():
            text = value.isoformat()
        case dt.timedelta():
            text = f'"{value // dt.timedelta(seconds=1)} seconds"'
        case Fraction():
            text = str(value.numerator if value.denominator == 1 else float(value))
        case _:
            text = str(value)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def dotted(location: tuple[int | str, ...]) -> str:
    """Return the key as TOML writes it; tables of a list are numbered from 0."""
    keys = [
        f"[{part}]"
        if isinstance(part, int)
        else f".{part if re.fullmatch(r'[A-Za-z0-9_-]+', part) else written(part)}"
        for part in location
    ]
    return "".join(keys).removeprefix(".")


def refusal(what: str, path: Path | None, found: Sequence[str]) -> PolicyError:
    """Return the error that lists all mistakes of the policy or plan in the file ``path``."""
    where = what if path is None else f"{what} {path}"
    count = "a mistake" if len(found) == 1 else f"{len(found)} mistakes"
    return PolicyError(f"{where} has {count}", found)


def mistakes(error: ValidationError, model: type[BaseModel]) -> Iterator[str]:
    """Yield one line per error, in the file's order. ``model`` is the model of the whole file."""
    seen: set[str] = set()
    for found in error.errors(include_url=False):
        location = tuple(part for part in found["loc"] if part != "[key]")
        line = _line(found["type"], location, found, model)
        if line not in seen:
            seen.add(line)
            yield line


def _line(kind: str, location: tuple[int | str, ...], found: Any, model: type[BaseModel]) -> str:
    location, field, owner = _place(location, model)
    key = dotted(location) or "the policy"
    if kind == "extra_forbidden":
        known = [f.alias or name for name, f in owner.model_fields.items() if not f.exclude]
        return f"{key}: unknown key; {nearest(str(location[-1]), known)}"
    expected = f"expected {field.description}" if field is not None else f"expected {_ENTRY}"
    if kind == "missing":
        return f"{key}: missing; {expected}"
    if kind in ("mistake", "conflict"):
        expected = found["msg"]
    if kind == "conflict" or "[key]" in found["loc"]:
        return f"{key}: {expected}"
    value = found["input"]
    if field is None and isinstance(value, list):
        expected = f"expected {_VALUES}"
    hidden = field is not None and not field.repr and isinstance(value, Mapping | list)
    return f"{key} = {'…' if hidden else written(value)}: {expected}"


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a hint with the known name closest to ``name``, or else with all of them."""
    names = list(map(str, known))
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    return f"did you mean {near[0]}?" if near else f"expected one of {', '.join(names)}"


def _place(
    location: tuple[int | str, ...], model: type[BaseModel]
) -> tuple[tuple[int | str, ...], FieldInfo | None, type[BaseModel]]:
    """Return the key without the parts that a validator adds, its field, and the key's model.

    Below a field that is not a table, all parts are such additions (the branch of a union, the
    place in a list), and the mistake is reported for the field.
    """
    owner, field, inside_mapping = model, None, False
    for depth, part in enumerate(location):
        if isinstance(part, int):
            continue
        if inside_mapping:
            inside_mapping, field = False, None
            continue
        found = next((f for n, f in owner.model_fields.items() if part in (f.alias, n)), None)
        if found is None:
            return location[: depth + 1], None, owner
        field = found
        table, inside_mapping = _table_of(found.annotation)
        if table is None:
            return location[: depth + 1], field, owner
        owner = table
    return location, field, owner


def _table_of(annotation: Any) -> tuple[type[BaseModel] | None, bool]:
    """Return the model that a field holds, or None, and whether the field maps names to models."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation, False
    mapping = getattr(annotation, "__origin__", None) is Mapping
    for argument in get_args(annotation):
        table, nested = _table_of(argument)
        if table is not None:
            return table, mapping or nested
    return None, False
