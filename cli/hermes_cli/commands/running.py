"""Runs what a command does, and turns how it ended into an exit code."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Coroutine
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from hermes_cli.errors import CliError, ExitCode


def own_version() -> str:
    """Return the version of the installed distribution; `development` in a source tree."""
    try:
        return version("hermes")
    except PackageNotFoundError:
        return "development"


def run(work: Coroutine[Any, Any, ExitCode | None]) -> int:
    """Run to the end; returns the exit code. Errors are one line on stderr."""
    try:
        return int(asyncio.run(work) or ExitCode.OK)
    except CliError as error:
        sys.stderr.write(f"hermes: {error}\n")
        return int(error.code)
    except (KeyboardInterrupt, asyncio.CancelledError):
        return int(ExitCode.INTERRUPTED)
    except BrokenPipeError:
        # Whoever read our output has what they wanted; what Python would still flush goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return int(ExitCode.OK)
