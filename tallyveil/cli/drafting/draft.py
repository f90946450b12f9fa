"""The text of a draft: TOML with comments that say what to fill in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tallyveil.cli.drafting.declarations import Declared
from tallyveil.cli.drafting.toml_text import comment, quoted, usable_name

__all__ = ["Draft", "TableDraft", "draft"]

_CHARACTERS = 72  # where remarks begin at most, unless the declaration is longer

_OF_TEXT = (
    "Every column is text in this file. Write, for each one that analysts may ask about,",
    '  values = ["F", "M"], other = true         its words, or its numbers or days one by one',
    "  range = [0, 115], clamp = true            whole numbers; or days, with other = true",
    "  bins = [0, 15000, 30000], clamp = true    other numbers, by the edges of bins",
    "into its braces. nullable = true counts empty fields.",
)
_OF_TYPES = (
    "For each column that analysts may ask about, fill in what a record can be there: the words,",
    "the lowest and highest possible number or day, or the edges of bins. Delete the others.",
)


class TableDraft(NamedTuple):
    """One table: ``origin`` is what ``from`` says, if anything; ``unit`` the privacy unit as TOML,
    if it is known; ``notes`` are comments; ``columns`` have their names in the source."""

    name: str
    origin: str
    columns: Sequence[tuple[str, Declared]]
    unit: str | None = None
    units: Sequence[str] = ()
    notes: Sequence[str] = ()


class Draft(NamedTuple):
    text: str
    tables: int
    attributes: int
    blanks: int


def draft(
    opening: Sequence[str], url: str | None, tables: Sequence[TableDraft], *, text_only: bool
) -> Draft:
    """Return the draft of a policy that begins with these comments. Public facts only, if the
    tables are."""
    lines = [*map(comment, opening), ""]
    source = "# [source]               # or pass a connection or data frame to tallyveil.connect"
    lines += (
        [source, '# url = "people.parquet"']
        if url is None
        else ["[source]", f"url = {quoted(url)}"]
    )
    names: list[str] = []
    for table in tables:
        name = usable_name(table.name, [*names, "dp"], cased=False)
        names.append(name)
        lines += ["", *_table(name, table), "", *_attributes(name, table, text_only=text_only)]
    used = [found for table in tables for _, found in table.columns if not found.unused]
    blanks = sum(found.blank for found in used) + sum(1 + (t.unit is None) for t in tables)
    return Draft("\n".join(lines) + "\n", len(tables), len(used), blanks)


def _table(name: str, table: TableDraft) -> Iterator[str]:
    yield f"[tables.{name}]"
    yield from map(comment, table.notes)
    if table.origin and table.origin != name:
        yield f"from = {quoted(table.origin)}"
    if table.unit is not None:
        yield f"privacy_unit = {table.unit}"
    else:
        yield comment(
            'Who is protected: "row" if each person has one row; otherwise all rows of one'
        )
        yield comment(
            'person, { column = "…", max_rows = 3 }, of which at most max_rows are counted.'
        )
        yield from (comment(f"May identify whose a row is: {text}.") for text in table.units)
        yield "privacy_unit = { }"
    yield comment("All answers together, for ever: { epsilon = 1.0 }, say.")
    yield "budget = { }"


def _attributes(name: str, table: TableDraft, *, text_only: bool) -> Iterator[str]:
    yield f"[tables.{name}.attributes]"
    yield from map(comment, _OF_TEXT if text_only else _OF_TYPES)
    names: list[str] = []
    lines = []
    for column, found in table.columns:
        own = usable_name(column, names, cased=True)
        names.append(own)
        keys = dict(found.keys) | ({} if own == column else {"column": column})
        written = ", ".join(f"{key} = {quoted(value)}" for key, value in keys.items())
        line = f"{own} = {{ {written} }}" if written else f"{own} = {{ }}"
        lines.append(f"# {line}" if found.unused else line)
    end = min(_CHARACTERS, max(map(len, lines), default=0) + 2)
    for line, (_, found) in zip(lines, table.columns, strict=True):
        yield line + comment(found.remark, max(2, end - len(line)))
