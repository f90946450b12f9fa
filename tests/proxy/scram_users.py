"""Users by their passwords."""

from __future__ import annotations

from collections.abc import Mapping

from tallyveil.proxy.admission.auth import Clientcert, Users
from tallyveil.proxy.admission.scram import Verifier


def with_passwords(passwords: Mapping[str, str], clientcert: Clientcert | None = None) -> Users:
    made = {user: Verifier.of(password) for user, password in passwords.items()}
    return Users(made, clientcert=clientcert)
