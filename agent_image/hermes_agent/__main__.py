"""Entry point: `python -m hermes_agent`."""

from __future__ import annotations

import time

_STARTED = time.time()

import asyncio  # noqa: E402 - the clock of the start-up breakdown starts before the imports that it measures
import sys  # noqa: E402

import structlog  # noqa: E402

from hermes_agent import app, settings  # noqa: E402
from hermes_agent.transport.worker import ExitCode  # noqa: E402
from hermes_service.logs import configure_logging  # noqa: E402


def main() -> int:
    """Run the agent; return the exit code."""
    clock = app.Clock(_STARTED, time.time())
    configure_logging("agent")
    try:
        folder = settings.load(settings.session_directory())
    except settings.SettingsError as error:
        structlog.get_logger().error("settings.unusable", problem=str(error))
        return ExitCode.UNUSABLE_SETTINGS
    try:
        return asyncio.run(app.run(folder, clock))
    except KeyboardInterrupt:
        return ExitCode.DRAINED
    except Exception:  # noqa: BLE001 - the last word of a process that cannot go on
        structlog.get_logger().exception("agent.failed")
        return ExitCode.FAILED


if __name__ == "__main__":
    sys.exit(main())
