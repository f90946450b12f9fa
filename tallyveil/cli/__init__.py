"""The shell: arguments in, text or JSON out. Nothing here decides, charges or draws noise.

Modules here read the command line, call the gate, the policy or the accountant, and print their
results. `app` lists the commands; each has a file for its work. A command imports slow modules only
when it runs, so that `--help` starts fast.

Exit status: 0 success, 1 refused or failed, 2 invalid command line, 130 interrupted.
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
        sys.exit(130)  # a shell's exit status for a program interrupted by Ctrl-C
