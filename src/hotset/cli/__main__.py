"""Runs the command line: ``python -m hotset.cli``."""

from hotset.cli.main import main

main()
