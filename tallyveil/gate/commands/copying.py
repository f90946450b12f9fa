"""COPY (query) TO STDOUT and its options, in the current syntax and in that of PostgreSQL 7.3."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from tallyveil.errors import (
    FeatureNotSupported,
    InsufficientPrivilege,
    InvalidParameterValue,
    SQLSyntaxError,
    StatementError,
    UndefinedParameter,
)
from tallyveil.gate.commands.reader import TokenReader, as_statement
from tallyveil.gate.interface import CopyFormat, Statement
from tallyveil.truth import truth

__all__ = ["parse_copy"]

_QUERY: Final = "COPY (SELECT …) TO STDOUT"
_KINDS: Final = ("text", "csv", "binary")
_FROM_ONLY: Final = frozenset(
    {"freeze", "force_not_null", "force_null", "on_error", "log_verbosity", "reject_limit",
     "default"}
)  # fmt: skip

_READ: Final = frozenset(
    {"format", "delimiter", "null", "header", "quote", "escape", "force_quote", "encoding"}
)
# The text format writes these after a backslash.
_NO_DELIMITER: Final = "\\.abcdefghijklmnopqrstuvwxyz0123456789"

_Options = dict[str, "str | bool | tuple[str, ...] | None"]


def parse_copy(reader: TokenReader) -> Statement:
    """Raises FeatureNotSupported unless it copies a query, UndefinedParameter if that has
    parameters, and InsufficientPrivilege for files."""
    reader.usage = f"{_QUERY}, perhaps WITH (FORMAT csv, HEADER)"
    if reader.word() != "(":
        raise FeatureNotSupported(
            "COPY of a table is not answered", hint=f"Write {_QUERY}.", position=1
        )
    query = reader.query(reader.bracketed())
    if query.parameters:
        raise UndefinedParameter(
            "there is no parameter $1", hint="Write the value into the statement."
        )
    reader.expect("TO")
    if reader.ended():
        raise reader.error()
    if not reader.take("STDOUT"):
        raise InsufficientPrivilege(
            "COPY to a file or program of the server is not answered",
            hint="COPY … TO STDOUT sends it to the client; psql's \\copy writes it into a file.",
            position=reader.position(),
        )
    reader.take("WITH")
    options: _Options = {}
    if reader.word() == "(":
        reader.in_brackets(lambda: _option(reader, options))
    else:
        while not reader.ended():
            _old_option(reader, options)
    found = reader.statement("copy", "COPY")
    return replace(found, inner=as_statement(query), copy=_checked(options))


def _option(reader: TokenReader, options: _Options) -> None:
    position = reader.position()
    name = reader.name().lower()
    _refuse_twice(name, options, position)
    options[name] = _value(reader, name, position)


def _refuse_twice(name: str, options: _Options, position: int) -> None:
    if name in options:
        raise SQLSyntaxError("conflicting or redundant options", position=position)


def _value(reader: TokenReader, name: str, position: int) -> str | bool | tuple[str, ...] | None:
    if name in _FROM_ONLY:
        raise InvalidParameterValue(
            f"COPY {name.upper()} cannot be used with COPY TO", position=position
        )
    if name not in _READ:
        raise SQLSyntaxError(f'option "{name}" not recognized', position=position)
    if name == "force_quote":
        return None if reader.take("*") else tuple(reader.in_brackets(reader.name))
    value = reader.option()
    if name == "header":
        return _header(value, position)
    if value is None:
        raise SQLSyntaxError(f"{name} requires a parameter", position=position)
    return value


def _header(value: str | None, position: int) -> bool:
    if value is not None and value.lower() == "match":
        raise FeatureNotSupported('cannot use "match" with HEADER in COPY TO', position=position)
    on = True if value is None else truth(value)
    if on is None:
        raise SQLSyntaxError('header requires a Boolean value or "match"', position=position)
    return on


def _old_option(reader: TokenReader, options: _Options) -> None:
    position = reader.position()
    name, value = _read_old(reader)
    _refuse_twice(name, options, position)
    options[name] = value


def _read_old(reader: TokenReader) -> tuple[str, str | bool | tuple[str, ...] | None]:
    word = reader.one_of(
        "BINARY", "CSV", "DELIMITER", "NULL", "HEADER", "QUOTE", "ESCAPE", "FORCE",
        "ENCODING",
    )  # fmt: skip
    if word in ("BINARY", "CSV"):
        return "format", word.lower()
    if word == "HEADER":
        return "header", True
    if word == "FORCE":
        reader.expect("QUOTE")
        return "force_quote", None if reader.take("*") else tuple(reader.listed(reader.name))
    reader.take("AS")
    value = reader.escaped_string()
    if value is None:
        raise reader.error()
    return word.lower(), value


def _checked(options: _Options) -> CopyFormat:
    """The format that the options give, checked in PostgreSQL's order."""
    kind = str(options.pop("format", "text")).lower()
    if kind not in _KINDS:
        raise InvalidParameterValue(f'COPY format "{kind}" not recognized')
    encoding = str(options.pop("encoding", "utf8")).lower().replace("-", "").replace("_", "")
    if encoding not in ("utf8", "unicode"):
        raise FeatureNotSupported("COPY is answered only in UTF-8", hint="Leave ENCODING out.")
    if kind == "binary":
        if options:
            raise SQLSyntaxError(f"cannot specify {next(iter(options)).upper()} in BINARY mode")
        return CopyFormat("binary")
    base = CopyFormat() if kind == "text" else CopyFormat("csv", ",", "")
    quote, forced = str(options.get("quote", base.quote)), options.get("force_quote", ())
    found = CopyFormat(
        base.kind,
        str(options.get("delimiter", base.delimiter)),
        str(options.get("null", base.null)),
        bool(options.get("header", False)),
        quote,
        str(options.get("escape", quote)),
        forced if forced is None or isinstance(forced, tuple) else (),
    )
    for mistake in _mistakes(found, options):
        raise mistake
    return found


def _mistakes(given: CopyFormat, options: _Options) -> Iterator[StatementError]:
    csv = given.kind == "csv"
    if not _one_byte(given.delimiter):
        yield FeatureNotSupported("COPY delimiter must be a single one-byte character")
    if given.delimiter in ("\r", "\n"):
        yield InvalidParameterValue("COPY delimiter cannot be newline or carriage return")
    if set(given.null) & {"\r", "\n"}:
        yield InvalidParameterValue(
            "COPY null representation cannot use newline or carriage return"
        )
    if not csv and given.delimiter in _NO_DELIMITER:
        yield InvalidParameterValue(
            f'COPY delimiter cannot be "{given.delimiter}"', hint="Use a character such as | or ;."
        )
    for name in () if csv else ("quote", "escape", "force_quote"):
        if name in options:
            yield FeatureNotSupported(f"COPY {name.upper()} requires CSV mode")
    if not _one_byte(given.quote):
        yield FeatureNotSupported("COPY quote must be a single one-byte character")
    if csv and given.delimiter == given.quote:
        yield InvalidParameterValue("COPY delimiter and quote must be different")
    if not _one_byte(given.escape):
        yield FeatureNotSupported("COPY escape must be a single one-byte character")
    if given.delimiter in given.null:
        yield InvalidParameterValue(
            "COPY delimiter character must not appear in the NULL specification"
        )
    if csv and given.quote in given.null:
        yield InvalidParameterValue("CSV quote character must not appear in the NULL specification")


def _one_byte(text: str) -> bool:
    return len(text.encode()) == 1
