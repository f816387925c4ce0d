"""Makes docs/images/*.svg: runs the terminal client against the local stack and draws what it really wrote.

Start it with `python tools/screenshots.py`, in the environment of `make setup`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

from local_stack.runner import LocalRunner
from local_stack.stack import Stack, running_stack, stack_folder

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs" / "images"
COLUMNS = 92

_ANSWER = (
    "Two files are there:\n\n| file | what it is |\n|---|---|\n| `plan.md` | three steps, **one** is done |\n"
    "| `test.py` | runs them |\n\n```python\ndef test_plan():\n    assert done() == 1\n```\n\nShall I go on with step 2?"
)


def _script(*steps: Mapping[str, object]) -> str:
    return json.dumps({"steps": steps, "match": "What is in my workspace?"})


@dataclass(frozen=True)
class Picture:
    """One command line: its title, its arguments, and what is typed into it."""

    name: str
    arguments: tuple[str, ...]
    typed: str = ""

    @property
    def title(self) -> str:
        """What stands above it."""
        return " ".join(["hermes", *(f'"{a}"' if " " in a else a for a in self.arguments)])


PICTURES = (
    Picture("chat", ("chat", "--session", "tour"), "What is in my workspace?\n!uname -s; date +%Y\n/usage\n"),
    Picture("sessions", ("sessions", "list")),
    Picture("doctor", ("doctor", "--send")),
    Picture("help", ("chat",), "/help\n"),
)


async def _teach(stack: Stack) -> None:
    import httpx

    calls = {"calls": [{"name": "terminal", "arguments": {"command": "ls"}}]}
    async with httpx.AsyncClient(base_url=stack.scripted_url) as client:
        (await client.post("/script", content=_script(calls, {"say": _ANSWER}))).raise_for_status()


async def _run(stack: Stack, home: Path, picture: Picture) -> str:
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "PYTHONPATH": f"{ROOT / 'libs'}:{ROOT / 'cli'}",
        "HERMES_URL": stack.api_url,
        "HERMES_API_KEY": stack.api_key,
        "KUBECONFIG": str(home / "none"),
        "FORCE_COLOR": "1",
        "TERM": "xterm-256color",
        "COLORTERM": "truecolor",
        "COLUMNS": str(COLUMNS),
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "hermes_cli", *picture.arguments,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, env=environment,
    )  # fmt: skip
    out, _ = await process.communicate(picture.typed.encode())
    return out.decode()


def draw(picture: Picture, written: str) -> str:
    """Return what a terminal would show as SVG, without the address of a stylesheet or font elsewhere."""
    console = Console(record=True, width=COLUMNS, file=open(os.devnull, "w"), force_terminal=True)  # noqa: SIM115, PTH123
    console.print(Text.from_ansi(written.rstrip()))
    svg = console.export_svg(title=picture.title, theme=MONOKAI, unique_id=f"hermes-{picture.name}")
    return re.sub(r"@font-face \{.*?\}\n?", "", svg, flags=re.DOTALL)


async def main() -> None:
    """Draw every picture."""
    IMAGES.mkdir(parents=True, exist_ok=True)
    with stack_folder() as folder, tempfile.TemporaryDirectory() as home:
        async with running_stack(folder) as stack:
            runner = asyncio.create_task(LocalRunner(stack).run())
            try:
                await _teach(stack)
                for picture in PICTURES:
                    written = await _run(stack, Path(home), picture)
                    stable = written.replace(stack.api_url, "http://127.0.0.1:8642")
                    (IMAGES / f"terminal-{picture.name}.svg").write_text(draw(picture, stable))
            finally:
                runner.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await runner


if __name__ == "__main__":
    asyncio.run(main())
