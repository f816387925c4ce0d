"""`python -m hermes_cli`."""

from hermes_cli.app import main

main()
