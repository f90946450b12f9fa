"""python -m tallyveil: the shell."""

from tallyveil.cli import main

main()
