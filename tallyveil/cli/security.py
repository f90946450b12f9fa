"""Who may connect to a served policy, and over which TLS: the files, read and checked."""

from __future__ import annotations

import logging
import ssl
from pathlib import Path

from tallyveil.cli.user_file import check_private, read_user_file
from tallyveil.errors import PolicyError
from tallyveil.events import report
from tallyveil.policy import Certificate, Serving
from tallyveil.proxy import Authentication, Tls, Trust, Users, self_sign

__all__ = ["authentication", "encryption", "reloaded", "still_users", "user_path"]


def user_path(policy: Path, serving: Serving) -> Path:
    """Where the users are: beside the policy unless it says otherwise."""
    return serving.users or policy.with_suffix(".users")


def authentication(policy: Path, serving: Serving) -> Authentication:
    """The users of the file; trust where neither a file nor certificates are used.

    Raises PolicyError.
    """
    clientcert = (
        None if serving.tls is None or not serving.tls.client_ca else serving.tls.clientcert
    )
    path = user_path(policy, serving)
    if serving.users is not None or path.exists():
        file = read_user_file(path)
        return file.users(plaintext=serving.plaintext_passwords, clientcert=clientcert)
    if clientcert == "verify-full":
        raise PolicyError(
            "certificates beside passwords need users",
            [f'tallyveil user add {policy} NAME; or clientcert = "cert" for certificates alone'],
        )
    return Trust() if clientcert is None else Users({}, clientcert=clientcert)


def encryption(serving: Serving, host: str) -> Tls | None:
    """What the files say; with a certificate made for a first run, where that is wanted.

    Raises PolicyError.
    """
    files = serving.tls
    if files is None:
        return None
    try:
        if files.self_signed and not files.certificate.exists() and not files.key.exists():
            self_sign(files.certificate, files.key, host)
            report("certificate made", certificate=str(files.certificate))
        check_private("key", files.key, files.key.stat().st_mode)
        return Tls(files.certificate, files.key, files.client_ca)
    except ssl.SSLError as error:
        raise _unusable(files, str(error.reason).lower().replace("_", " ")) from None
    except OSError as error:
        raise _unusable(files, f"{error.filename or ''}: {error.strerror}") from None
    except ValueError as error:
        raise _unusable(files, str(error)) from None


def _unusable(files: Certificate, reason: str) -> PolicyError:
    return PolicyError(
        f"TLS cannot be had from {files.certificate} and {files.key}",
        [reason, "self_signed = true makes both for a first run, if neither is there"],
    )


def reloaded(
    policy: Path, serving: Serving, host: str, before: Authentication
) -> tuple[Authentication, Tls | None] | None:
    """Both as they are now; None, and a line in the log, if there is a mistake."""
    try:
        return still_users(authentication(policy, serving), before), encryption(serving, host)
    except PolicyError as error:
        # Neither message nor detail holds a password.
        reason = " ".join((error.message, *error.mistakes))
        report("users not reloaded", level=logging.ERROR, reason=reason)
        return None


def still_users(now: Authentication, before: Authentication) -> Authentication:
    """Whoever had to prove who they are has to go on: a file that is gone lets nobody in.

    Raises PolicyError.
    """
    if isinstance(now, Trust) and not isinstance(before, Trust):
        raise PolicyError("the file of users is gone", ["put it back, or restart without users"])
    return now
