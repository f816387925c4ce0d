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
        return asyncio.run(_live(clock))
    except settings.SettingsError as error:
        structlog.get_logger().error("settings.unusable", problem=str(error))
        return ExitCode.UNUSABLE_SETTINGS
    except KeyboardInterrupt:
        return ExitCode.DRAINED
    except Exception:  # noqa: BLE001 - the last word of a process that cannot go on
        structlog.get_logger().exception("agent.failed")
        return ExitCode.FAILED


async def _live(clock: app.Clock) -> ExitCode:
    """Be the agent that the session folder describes, or wait to be told which one to be."""
    directory = settings.session_directory()
    waiting = settings.load_waiting(directory)
    if waiting is None:
        return await app.run(settings.load(directory), clock)
    # Only a pod that waits pays for the import of what opens a sealed message.
    from hermes_agent.waiting import wait_for_identity

    folder = await wait_for_identity(waiting)
    if folder is None:
        return ExitCode.DRAINED
    return await app.run(folder, app.Clock(time.time(), time.time()))


if __name__ == "__main__":
    sys.exit(main())
