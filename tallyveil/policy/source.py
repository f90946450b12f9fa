"""Where rows come from: a file, files by a pattern, a folder, an object store, or a database."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Self, cast

from pydantic import Field, ValidationInfo, model_validator
from pydantic_core import InitErrorDetails

from tallyveil.policy.database_urls import DATABASES
from tallyveil.policy.declaration import Declaration, Derived, mistaken
from tallyveil.policy.fingerprint import relative
from tallyveil.policy.mistakes import without_passwords
from tallyveil.policy.source_kinds import FORMATS, OBJECT_STORE, SUPPORTED, SourceKind, source_kind
from tallyveil.policy.value_checks import PolicyPlace, SourceFormat, SourceUrl

__all__ = ["Source"]


class Source(Declaration):
    """Where rows come from: a file, files by a pattern, a folder, or another source.

    ``url`` is as written, ``path`` resolved where files are on this machine. ``format`` is that of
    files whose names do not tell, or of all in a folder. ``key`` is that of ``url``, for messages;
    ``columns`` are those that the policy's protected tables name, and ``relative`` is a path as it
    is written from the policy's folder.
    """

    url: SourceUrl = Field(description="a path in quotes", repr=False)
    format: SourceFormat | None = Field(
        default=None, description=f"one of {', '.join(FORMATS)}, in quotes"
    )
    path: Derived[Path] = Field(default=Path(), repr=False)
    key: Derived[str] = "source.url"
    columns: Derived[tuple[str, ...]] = ()
    relative: Derived[str] = Field(default="", repr=False)

    def conflicts(self) -> Iterator[InitErrorDetails]:
        if self.stored and re.search("[@?]", self.url):
            yield mistaken(
                self.url,
                "expected a bucket and a path alone, without credentials and options: these are"
                " taken from the environment (AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL, AWS_PROFILE)",
                "url",
            )
        elif source_kind(self.url, self.format) is None:
            yield mistaken(
                self.url,
                f"expected {SUPPORTED}; or a folder or another name with its format, one of"
                f" {', '.join(FORMATS)}. For other data, attach it to a DuckDB connection, leave"
                " out [source] and pass the connection to connect() as source",
                "url",
            )
        elif (known := DATABASES.get(self.kind.name)) and known.database(self.url) is None:
            yield mistaken(self.url, known.expected, "url")

    @model_validator(mode="after")
    def _resolve(self, info: ValidationInfo) -> Self:
        if "://" in self.url:
            return self
        folder = PolicyPlace.of(info).folder
        paths = {"path": folder / self.url, "relative": relative(self.url, folder)}
        return self.model_copy(update=paths)

    @property
    def kind(self) -> SourceKind:
        return cast(SourceKind, source_kind(self.url, self.format))

    @property
    def stored(self) -> bool:
        """Whether it lies in an object store."""
        return self.url.lower().startswith(OBJECT_STORE)

    @property
    def location(self) -> str:
        return self.url if "://" in self.url else str(self.path)

    @property
    def identity(self) -> str:
        """What a ledger is bound to: a path as written, or a database whoever connects to it."""
        known = DATABASES.get(self.kind.name)
        return (known and known.database(self.url)) or self.relative or self.url

    @property
    def shown(self) -> str:
        """For messages: without passwords, which a path may hold too if it is a mistyped url."""
        return without_passwords(self.location)
