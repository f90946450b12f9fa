"""`tallyveil ledger verify`, `backup` and `restore`: no charge is lost, none is given back."""

from __future__ import annotations

import json
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import tallyveil
from tallyveil.errors import LedgerError
from tests.accountant.ledgers import altered
from tests.cli.shell import shell, spent

COUNT = "SELECT count(*) FROM person WHERE age = {}"


def done(*arguments: object) -> dict[str, Any]:
    found = shell("ledger", *arguments, "--json")
    assert found.exit_code == 0, found.stdout + found.stderr
    document: dict[str, Any] = json.loads(found.stdout)
    return document


def refused(*arguments: object) -> str:
    found = shell("ledger", *arguments)
    assert found.exit_code == 1
    return str(found.stderr)


def ledger_of(policy: Path) -> Path:
    path: Path = tallyveil.load_policy(policy).ledger
    return path


def test_a_copy_has_the_charges_of_then_and_is_for_its_owner_alone(
    policy: Path, tmp_path: Path
) -> None:
    shell("sql", policy, COUNT.format(3))
    copy = tmp_path / "copy"
    copied = done("backup", policy, copy)
    assert copied == done("verify", policy)
    assert (copied["charges"], copied["answers"]) == (1, 1)
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".copy")] == []
    assert "exists already" in refused("backup", policy, copy)
    shell("sql", policy, COUNT.format(4))
    later = done("verify", policy, "--witness", copied["witness"])
    assert later["charges"] == 2
    assert "has charges that the copy lacks" in refused("restore", policy, copy)
    assert done("verify", policy) == later


def test_no_copy_without_a_version_or_a_migration_is_put_back(policy: Path, tmp_path: Path) -> None:
    """What was counted for the versions of the copy is removed, and the ledger would be refused."""
    fixed = policy.read_text()
    policy.write_text(fixed.replace("[tables.person]", '[tables.person]\ndata = "replace"'))
    shell("sql", policy, COUNT.format(3))
    first, second = tmp_path / "first", tmp_path / "second"
    done("backup", policy, first)
    assert shell("publish", policy).exit_code == 0
    whole = done("verify", policy)
    assert "has versions that the copy lacks" in refused("restore", policy, first)
    done("backup", policy, second)
    policy.write_text(policy.read_text().replace("[0, 115]", "[0, 120]"))
    assert shell("migrate", policy, "--yes").exit_code == 0
    assert "has migrations that the copy lacks" in refused("restore", policy, second)
    assert done("verify", policy) == whole
    assert shell("sql", policy, COUNT.format(3)).exit_code == 0


def test_a_lost_ledger_is_put_back_and_an_older_copy_is_noticed(
    policy: Path, tmp_path: Path
) -> None:
    shell("sql", policy, COUNT.format(3))
    copy, before = tmp_path / "copy", spent(policy)
    done("backup", policy, copy)
    shell("sql", policy, COUNT.format(4))
    witness = done("verify", policy)["witness"]
    ledger = ledger_of(policy)
    ledger.unlink()
    ledger.with_name(f"{ledger.name}-journal").write_bytes(b"of the old ledger")
    found = shell("ledger", "restore", policy, copy)
    assert "treat the budget as spent" in found.stdout
    assert spent(policy) == before
    assert "lacks charges" in refused("verify", policy, "--witness", witness)
    assert "is no witness" in refused("verify", policy, "--witness", "2-xyz")


def test_a_ledger_set_back_is_noticed_by_what_is_kept_beside(policy: Path) -> None:
    policy.write_text(f'cubes = "kept"\n{policy.read_text()}')
    shell("sql", policy, COUNT.format(3))
    ledger, text = ledger_of(policy), policy.read_text()
    older = ledger.read_bytes()
    shell("sql", policy, COUNT.format(4))
    whole = ledger.read_bytes()
    assert shell("budget", policy).stderr == ""
    done("verify", policy)
    ledger.write_bytes(older)
    warned = shell("budget", policy)
    assert warned.exit_code == 0
    policy.write_text(text.replace("[0, 115]", "[0, 120]"))
    refusal = shell("migrate", policy, "--yes")
    assert ledger.read_bytes() == older
    for stderr in (warned.stderr, refused("verify", policy), refusal.stderr):
        assert "lacks charges that it had before: it is an older copy" in stderr
        assert "Put back the ledger with 2 charges or more" in stderr
    ledger.write_bytes(whole)
    assert shell("migrate", policy, "--yes").exit_code == 0
    done("verify", policy)


def test_what_was_altered_is_not_copied_and_not_put_back(policy: Path, tmp_path: Path) -> None:
    shell("sql", policy, COUNT.format(3))
    copy = tmp_path / "copy"
    done("backup", policy, copy)
    altered(copy, "UPDATE charge SET cost = 1")
    whole = done("verify", policy)
    assert "lost or altered" in refused("restore", policy, copy)
    assert done("verify", policy) == whole
    assert "there is no ledger" in refused("restore", policy, tmp_path / "none")


def test_copies_of_a_ledger_in_use_are_whole(policy: Path, tmp_path: Path) -> None:
    shell("sql", policy, COUNT.format(20))

    def ask() -> None:
        with tallyveil.connect(policy) as connection:
            for age in range(20):
                connection.execute(COUNT.format(age)).fetchall()

    copies = []
    with ThreadPoolExecutor() as pool:
        asking = pool.submit(ask)
        while not asking.done():
            copies.append(done("backup", policy, tmp_path / f"copy{len(copies)}"))
        asking.result()
    assert done("verify", policy)["charges"] == 21
    for copied in copies:
        done("verify", policy, "--witness", copied["witness"])


def test_whoever_uses_a_ledger_that_was_replaced_gives_no_answer(
    policy: Path, tmp_path: Path
) -> None:
    with tallyveil.connect(policy) as connection:
        connection.execute(COUNT.format(3)).fetchall()
        copy = tmp_path / "copy"
        done("backup", policy, copy)
        done("restore", policy, copy)
        with pytest.raises(LedgerError, match="replaced while in use"):
            connection.execute(COUNT.format(4))
    assert done("verify", policy)["charges"] == 1
