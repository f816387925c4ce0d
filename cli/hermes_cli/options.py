"""What options and variables say, before anything is looked up. Imports nothing: every start pays for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Options:
    """Options that every command has."""

    url: str | None = None
    key: str | None = field(default=None, repr=False)
    key_file: Path | None = None
    context: str | None = None
    config: Path | None = None
    profile: str | None = None
    namespace: str | None = None
    release: str | None = None
    kube_context: str | None = None


WITH_VALUE = frozenset(
    {
        "--url",
        "--key",
        "--key-file",
        "--context",
        "--config",
        "--profile",
        "--namespace",
        "--release",
        "--kube-context",
    }
)


def hoist(arguments: list[str]) -> list[str]:
    """Move the options that every command has to the front, where the parser wants them; `--` ends the search."""
    front: list[str] = []
    rest: list[str] = []
    left = iter(arguments)
    for argument in left:
        if argument == "--":
            rest += [argument, *left]
        elif argument in WITH_VALUE:
            front += [argument, *([value] if (value := next(left, None)) is not None else [])]
        elif argument.split("=", 1)[0] in WITH_VALUE:
            front.append(argument)
        else:
            rest.append(argument)
    return front + rest
