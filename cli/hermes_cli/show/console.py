"""The two consoles, and printing of what commands found."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence

from pydantic import BaseModel
from rich.console import Console

from hermes_cli.show.text import printable

_PLAIN_WIDTH = 10_000


def output() -> Console:
    """Return the console of stdout: a pipe gets no colours, no borders and whole lines."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=_PLAIN_WIDTH, no_color=True)


def remarks() -> Console:
    """Return the console of stderr, for what is not the answer."""
    return Console(stderr=True, highlight=False)


def print_json(found: object) -> None:
    """Print as JSON, two spaces deep, models by their fields."""
    write_line(json.dumps(_plain(found), indent=2, ensure_ascii=False))


def write_line(text: str) -> None:
    """Write to stdout as it is: rich would make blanks of tabs."""
    sys.stdout.write(f"{text}\n")


def _plain(found: object) -> object:
    if isinstance(found, BaseModel):
        return found.model_dump(mode="json")
    if isinstance(found, list | tuple):
        return [_plain(item) for item in found]
    if isinstance(found, dict):
        return {key: _plain(value) for key, value in found.items()}
    return found


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]], *, empty: str) -> None:
    """Print a table on a terminal, tab-separated lines with a heading into a pipe."""
    from rich.table import Table
    from rich.text import Text

    console, all_rows = output(), [[printable(cell) for cell in row] for row in rows]
    if not console.is_terminal:
        for row in ([column.upper() for column in columns], *all_rows):
            write_line("\t".join(cell.replace("\t", " ").replace("\n", " ") for cell in row))
        return
    if not all_rows:
        console.print(empty, style="dim")
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for number, column in enumerate(columns):
        table.add_column(column, overflow="fold" if number == 0 else "ellipsis", no_wrap=number != len(columns) - 1)
    for row in all_rows:
        table.add_row(*(Text(cell) for cell in row))
    console.print(table)


def print_fields(fields: Iterable[tuple[str, str]]) -> None:
    """Print names and values, one a line."""
    from rich.text import Text

    shown = [(name, printable(value)) for name, value in fields]
    width = max((len(name) for name, _ in shown), default=0)
    console = output()
    for name, value in shown:
        console.print(Text.assemble((f"{name:<{width}}  ", "bold"), value), soft_wrap=True)
