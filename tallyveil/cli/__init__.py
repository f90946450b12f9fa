"""The shell: arguments in, text or JSON out. Nothing here decides, charges or draws noise.

What lives here reads the command line, calls the gate, the policy or the accountant, and prints
what they say; `app` is the list of commands, one file per command's work beside it. Every module
with weight is imported by the command that needs it, so that `--help` is there at once.

Exit status: 0 fine, 1 refused or wrong, 2 the command line itself makes no sense, 130 interrupted.
"""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """The `tallyveil` program."""
    try:
        from tallyveil.cli.app import app

        app()
    except KeyboardInterrupt:
        sys.exit(130)  # what a shell says of a program that Ctrl-C has ended
