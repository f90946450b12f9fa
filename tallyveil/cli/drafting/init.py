"""`tallyveil init`: write a draft of a policy."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError

from tallyveil.cli.drafting.declarations import declared
from tallyveil.cli.drafting.draft import TableDraft, draft
from tallyveil.cli.text import Output
from tallyveil.cube import SourceTable, is_there, source_schema
from tallyveil.errors import InvalidParameterValue, OutputError, SourceError
from tallyveil.policy import Source
from tallyveil.policy.mistakes import mistakes, nearest, without_passwords
from tallyveil.policy.source_kinds import SUPPORTED, source_kind
from tallyveil.policy.value_checks import PolicyPlace

__all__ = ["init"]

_YAML = (".yaml", ".yml")
_PASSWORD = re.compile(r"(?<=//)([^:/@?]*):[^/@]*(?=@)")
_FILL = (
    "Everything in this file is public. Fill in what is left blank, [] or { }, by what you know of",
    "such data, and never by looking at these rows. tallyveil check names what is missing.",
)
_FILL_LOOKED = ("Fill in what is left blank, [] or { }; tallyveil check names what is missing.",)
_HEADER = (
    "The columns are named by the first line of the file. If that is a record, do not use this",
    "draft: add a line with names to the file.",
)
_LOOKED = (
    "DRAFTED FROM ROWS (--look): values and ends below are what the rows hold, and tell something",
    "about them. Only for data that is public. For other data draft without --look.",
)


def init(
    source: str | None,
    metadata: Path | None,
    only: Sequence[str],
    output: Path | None,
    *,
    look: bool,
    force: bool,
) -> Output:
    """Write the draft, and say what to do next.

    Raises InvalidParameterValue, SourceError, PolicyError and OutputError.
    """
    if source is not None and metadata is None and source.lower().endswith(_YAML):
        metadata = Path(source)
        source = None
    if look and metadata is not None:
        raise InvalidParameterValue("--look cannot be combined with SmartNoise's metadata")
    named = source or str(metadata)
    target = output or Path(Path(named.partition("?")[0]).name.split(".")[0] + ".toml")
    file = None if source is None else _file(source)
    text_only = file is not None and file.kind.name == "csv" and not look and metadata is None
    if metadata is None:
        if file is None:
            raise InvalidParameterValue("expected a source, or --from-smartnoise with a file")
        tables = source_schema(file, only, look=look)
        drafts = [_draft(table, text_only=text_only) for table in tables]
    else:
        drafts = _of_metadata(metadata, file, only)
    basis = "names and types alone" if metadata is None else f"SmartNoise's {metadata}"
    opening = [f"A draft of a policy for {named}, from {basis}: no row was read.", *_FILL]
    if look:
        opening = [*_LOOKED, *_FILL_LOOKED]
    elif text_only:
        opening += _HEADER
    if len(drafts) > 1:
        opening.append("Delete the tables that nobody shall ask about. Budgets of tables add up.")
    url = source if source is None or "://" in source else _relative(source, target)
    if url is not None and (kept := _PASSWORD.sub(r"\1", url)) != url:
        url = kept
        opening.append("The password is left out: PGPASSWORD or a password file gives it.")
    text, tables_count, attributes, blanks = draft(opening, url, drafts, text_only=text_only)
    _write(target, text, force=force)
    return Output(
        None,
        [
            f"{target} drafts {_number(tables_count, 'table')} with"
            f" {_number(attributes, 'attribute')}. Fill in {_number(blanks, 'blank')}, then run"
            f" tallyveil check {target}."
        ],
        [f"WARNING: {target} holds what the rows hold: only for data that is public."]
        if look
        else [],
    )


def _file(source: str) -> Source:
    if source_kind(source) is None:
        raise SourceError(
            f"{without_passwords(source)} is not a source that can be read: expected {SUPPORTED}"
        )
    try:
        found = Source.model_validate({"url": source}, context=PolicyPlace())
    except ValidationError as error:
        first, *_ = mistakes(error, Source)
        raise SourceError(first) from None
    if not is_there(found):
        raise SourceError(f"there is no file {found.shown}")
    return found


def _draft(table: SourceTable, *, text_only: bool) -> TableDraft:
    columns = [(c.name, declared(table, c, text_only=text_only)) for c in table.columns]
    units = [f"{name} ({one.remark})" for name, one in columns if one.unit]
    return TableDraft(table.name, table.origin, columns, units=units)


def _of_metadata(metadata: Path, file: Source | None, only: Sequence[str]) -> list[TableDraft]:
    from tallyveil.cli.drafting.smartnoise import matched, read_metadata

    drafts = read_metadata(metadata)
    names = {one.name.lower(): one for one in drafts}
    for name in only:
        if name.lower() not in names:
            hint = nearest(name, names)
            raise SourceError(f"the metadata has no table {name}", hint=hint[0].upper() + hint[1:])
    drafts = [names[name.lower()] for name in only] or drafts
    return drafts if file is None else matched(drafts, source_schema(file))


def _relative(source: str, target: Path) -> str:
    if os.path.isabs(source):
        return source
    return os.path.relpath(source, target.parent).replace(os.sep, "/")


def _write(target: Path, text: str, *, force: bool) -> None:
    try:
        with target.open("w" if force else "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise OutputError(
            f"{target} exists already",
            hint="Name another file: --output FILE; or overwrite it: --force.",
        ) from None
    except OSError as error:
        raise OutputError(f"{target} cannot be written: {error.strerror}") from None


def _number(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"
