"""`python -m hermes_operator`: the operator; `python -m hermes_operator replay --help`: dead letters."""

from __future__ import annotations

import sys

from pydantic import ValidationError

from hermes_operator.settings import OperatorSettings
from hermes_service.lifecycle import run as run_until_signal
from hermes_service.logs import configure_logging
from hermes_service.settings import explain


def main() -> None:
    """Start one operator, or a command beside it; exits 1 when its settings are wrong."""
    try:
        settings = OperatorSettings()
    except ValidationError as error:
        sys.exit(f"hermes-operator: {explain(error)}")
    configure_logging("operator", settings.log_level)
    if sys.argv[1:2] == ["replay"]:
        from hermes_operator.replay import main as replay

        replay(settings, sys.argv[2:])
        return
    from hermes_operator.app import run

    run_until_signal(lambda: run(settings))


if __name__ == "__main__":
    main()
