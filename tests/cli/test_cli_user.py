"""`tallyveil user`: a file of verifiers that nobody else can read, and what may be wrong in it."""

from __future__ import annotations

import json
import os
from contextlib import nullcontext
from pathlib import Path

import psycopg
import pytest
from typer.testing import CliRunner, Result

from tallyveil.cli.app import app
from tallyveil.cli.demo_data import copy_example
from tallyveil.cli.serving.security import read_user_file
from tallyveil.errors import PolicyError
from tallyveil.proxy import Server, ServerThread, Verifier
from tests.proxy.fake_session import Sessions
from tests.proxy.scram_client import ScramClient


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    return copy_example(tmp_path)


def run(*arguments: object, said: str | bytes = "") -> Result:
    return CliRunner().invoke(app, ["user", *map(str, arguments)], input=said)


def asked(path: Path, user: str) -> bytes:
    """Salt and iterations, as anybody who connects is asked."""
    users = read_user_file(path).users(None)
    first = users.exchange(user, None).begin(ScramClient("").begin().data)
    return first.partition(b",")[2]


def test_users_come_and_go(policy: Path) -> None:
    path = policy.with_suffix(".users")
    assert run("add", policy, "alice", said="secret\nsecret\n").exit_code == 0
    assert run("add", policy, "bob@example.org", "--stdin", said="pass word\n").exit_code == 0
    assert path.stat().st_mode & 0o777 == 0o600
    assert "secret" not in path.read_text()
    assert "pass word" not in path.read_text()
    assert run("list", policy).output.split() == ["alice", "bob@example.org"]
    nobody = asked(path, "nobody")
    path.write_text(path.read_text() + "\n# a remark\n")
    assert run("add", policy, "alice", "--replace", "--stdin", said="other\n").exit_code == 0
    assert run("remove", policy, "bob@example.org").exit_code == 0
    assert "# a remark" in path.read_text()
    assert json.loads(run("list", policy, "--json").output) == ["alice"]
    # Who asks as nobody cannot tell that users came and went.
    assert asked(path, "nobody") == nobody
    verifier = read_user_file(path).verifiers["alice"]
    assert isinstance(verifier, Verifier)
    assert verifier == Verifier.of("other", salt=verifier.salt)


def test_a_new_verifier_has_the_iterations_and_length_of_salt_of_the_others(policy: Path) -> None:
    path = policy.with_suffix(".users")
    made = {name: Verifier.of("x", salt=bytes(9), iterations=n) for name, n in (("a", 5), ("b", 7))}
    path.write_text("".join(f"{name}:{each.written()}\n" for name, each in made.items()))
    path.chmod(0o600)
    with pytest.raises(PolicyError, match="the verifiers of b differ from a's"):
        asked(path, "nobody")
    assert run("add", policy, "b", "--replace", "--stdin", said="y\n").exit_code == 0
    assert run("add", policy, "c", "--stdin", said="z\n").exit_code == 0
    forms = {(len(one), one.partition(b",i=")[2]) for one in (asked(path, n) for n in "abcz")}
    assert len(forms) == 1
    assert forms.pop()[1] == b"5"


def test_a_password_of_any_bytes_lets_in(
    policy: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert run("add", policy, "alice", "--stdin", said=b"a\xffb\n").exit_code == 0
    users = read_user_file(policy.with_suffix(".users")).users(None)
    monkeypatch.setenv("PGPASSFILE", str(tmp_path / "none"))
    with ServerThread(Server(Sessions(), port=0, auth=users)) as thread:
        for password, enters in [(b"a\xffb", True), (b"a\xfeb", False)]:
            monkeypatch.setenv("PGPASSWORD", os.fsdecode(password))
            where = f"postgresql://alice@127.0.0.1:{thread.port}/demo"
            with nullcontext() if enters else pytest.raises(psycopg.Error, match="password"):
                psycopg.connect(where, sslmode="disable").close()


@pytest.mark.parametrize(
    ("arguments", "said", "told"),
    [
        (["add", "alice", "--stdin"], "x\n", 'user "alice" exists'),
        (["add", "bob", "--stdin"], "\n", "a password must not be empty"),
        (["add", "bob", "--stdin"], "", "a password must not be empty"),
        (["add", "b:ob", "--stdin"], "x\n", "contain a colon"),
        (["add", " bob", "--stdin"], "x\n", "start or end with a space"),
        (["add", "#bob", "--stdin"], "x\n", "must not be empty, contain a colon, start with #"),
        (["add", "bo\nb", "--stdin"], "x\n", "printable"),
        (["remove", "eve"], "", 'there is no user "eve"'),
    ],
)
def test_what_is_refused_changes_nothing(
    policy: Path, arguments: list[str], said: str, told: str
) -> None:
    run("add", policy, "alice", "--stdin", said="secret\n")
    before = policy.with_suffix(".users").read_text()
    command, *rest = arguments
    found = run(command, policy, *rest, said=said)
    assert found.exit_code == 1
    assert told in found.stderr
    assert policy.with_suffix(".users").read_text() == before


VERIFIER = Verifier.of("x", iterations=1).written()


@pytest.mark.parametrize(
    ("text", "mode", "told"),
    [
        (f"alice:{VERIFIER}\n", 0o644, "chmod 600"),
        ("alice\n", 0o600, "line 1: expected name:verifier"),
        ("# alice\nalice:\n", 0o600, "line 2: expected SCRAM-SHA-256$"),
        (f"alice:{VERIFIER}\nalice:{VERIFIER}\n", 0o600, 'line 2: user "alice"'),
        (f"alice:{VERIFIER[:-8]}\n", 0o600, "line 1: a verifier has"),
        (":c2hvcnQ=\n", 0o600, "line 1: expected a secret"),
        ("# nobody\n", 0o600, "has no users"),
        ("alice:plainsecret\n", 0o600, "line 1: expected SCRAM-SHA-256$"),
    ],
)
def test_a_wrong_file(tmp_path: Path, text: str, mode: int, told: str) -> None:
    path = tmp_path / "users"
    path.write_text(text)
    path.chmod(mode)
    with pytest.raises(PolicyError) as refused:
        read_user_file(path).users(None)
    assert told in str(refused.value)
    for hidden in ("plainsecret", VERIFIER[30:60], "c2hvcnQ="):
        assert hidden not in str(refused.value)
