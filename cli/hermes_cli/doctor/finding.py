"""What one check found."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

State = Literal["ok", "warn", "fail", "skip"]


class Finding(BaseModel):
    """One line of the doctor. `todo` is empty when nothing needs to be done."""

    model_config = ConfigDict(frozen=True)

    check: str
    state: State
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


def skip(check: str, message: str, todo: str = "") -> Finding:
    """It could not be looked at."""
    return Finding(check=check, state="skip", message=message, todo=todo)
