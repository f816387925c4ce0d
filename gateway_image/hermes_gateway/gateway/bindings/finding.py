"""What one check found, as `hermes doctor` shows it. It names no secret."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict


class Finding(BaseModel):
    """One line. `todo` is what to do; empty when all is well."""

    model_config = ConfigDict(frozen=True)

    check: str
    state: Literal["ok", "warn", "fail"]
    message: str
    todo: str = ""


def ok(check: str, message: str) -> Finding:
    """All is well."""
    return Finding(check=check, state="ok", message=message)


def warn(check: str, message: str, todo: str) -> Finding:
    """It works, and somebody should look at it."""
    return Finding(check=check, state="warn", message=message, todo=todo)


def fail(check: str, message: str, todo: str) -> Finding:
    """It does not work."""
    return Finding(check=check, state="fail", message=message, todo=todo)
