"""What can go wrong, and the exit code that says so to a script."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """Exit codes of every command."""

    OK = 0
    FAILED = 1
    """The agent's turn failed, or the doctor found something."""
    USAGE = 2
    """Options or configuration are wrong; nothing was asked of anybody."""
    UNREACHABLE = 3
    """Nobody answered, or the answer was that it cannot work now."""
    REFUSED = 4
    """The gateway, or the cluster, said no."""
    INTERRUPTED = 130


class CliError(Exception):
    """Ends a command with one line: what is wrong, and what to do about it."""

    def __init__(self, what: str, todo: str = "", *, code: ExitCode = ExitCode.FAILED) -> None:
        super().__init__(f"{what}: {todo}" if todo else what)
        self.what = what
        self.todo = todo
        self.code = code


def usage(what: str, todo: str = "") -> CliError:
    """Say that the command line or the configuration is wrong."""
    return CliError(what, todo, code=ExitCode.USAGE)


def unreachable(what: str, todo: str = "") -> CliError:
    """Say that nobody answers."""
    return CliError(what, todo, code=ExitCode.UNREACHABLE)


def refused(what: str, todo: str = "") -> CliError:
    """Say that somebody said no."""
    return CliError(what, todo, code=ExitCode.REFUSED)
