"""Reading a policy: TOML or a mapping in, a validated `Policy` or one PolicyError out."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from tallyveil.errors import PolicyError
from tallyveil.policy.mistakes import mistakes, refusal
from tallyveil.policy.policy import Policy
from tallyveil.policy.value_checks import PolicyPlace

__all__ = ["load_policy", "parse_policy", "read_policy", "read_toml"]


def read_policy(path: str | Path, what: str = "policy") -> str:
    """Return the text of a policy file; ``what`` names other files in messages.

    Raises PolicyError if it cannot be read.
    """
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise PolicyError(f"the {what} {path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise PolicyError(f"the {what} {path} is not UTF-8 text") from error


def read_toml(path: Path, text: str | None = None, what: str = "policy") -> dict[str, Any]:
    """Return the keys of a TOML file, with numbers exactly as written.

    ``text`` is the file's text if it has been read already. Raises PolicyError.
    """
    try:
        return tomllib.loads(read_policy(path, what) if text is None else text, parse_float=Decimal)
    except tomllib.TOMLDecodeError as error:
        raise PolicyError(f"the {what} {path} is not valid TOML", [str(error)]) from error


def load_policy(path: str | Path, text: str | None = None) -> Policy:
    """Load the policy from a TOML file. Paths in it are relative to the file.

    ``text`` is the file's text if it has been read already.

    Raises PolicyError, which lists every mistake.
    """
    file = Path(path)
    place = PolicyPlace(file.parent, file.with_suffix(".ledger.sqlite"), file)
    return _policy(read_toml(file, text), place)


def parse_policy(mapping: Mapping[str, Any], *, base: str | Path = ".") -> Policy:
    """Load the policy from a mapping with a file's keys. Paths in it are relative to ``base``.

    >>> people = {"attributes": {"age": {"range": [0, 115]}}, "budget": {"epsilon": 1.5}}
    >>> parse_policy({"tables": {"person": people}}).tables["person"].domain.size
    116

    Raises PolicyError, which lists every mistake.
    """
    place = PolicyPlace(Path(base), Path(base) / "tallyveil.ledger.sqlite")
    return _policy(mapping, place)


def _policy(mapping: Mapping[str, Any], place: PolicyPlace) -> Policy:
    try:
        return Policy.model_validate(dict(mapping), context=place)
    except ValidationError as error:
        found = list(mistakes(error, Policy))
    raise refusal("the policy", place.file, found)
