"""Shows a conversation: as Markdown on a terminal, as it came into a pipe."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol, TextIO

from rich.console import Console
from rich.markdown import Markdown
from rich.text import Text as RichText

from hermes_cli.api.shapes import Turn
from hermes_cli.show.text import dollars, printable
from hermes_cli.talk.blocks import Blocks
from hermes_cli.talk.progress import Action, Anew, Ended, Notice, Text, Tool

BEGINS_ANEW = "[The answer begins anew.]"
_WORTH_TELLING_SECONDS = 1.0


class Screen(Protocol):
    """Where a conversation is shown."""

    def show(self, action: Action) -> None:
        """Show what happens in a turn."""

    def say(self, text: str) -> None:
        """Show a remark of this program."""

    def problem(self, text: str) -> None:
        """Show what went wrong."""

    def asked(self, text: str) -> None:
        """Show what the person said, where it is not on the screen already."""


def ending(turn: Turn) -> str:
    """Return the line below an answer. Empty when there is nothing to say."""
    if turn.stopped:
        return "stopped"
    match turn.state:
        case "merged":
            return "answered together with the message before"
        case "done":
            usage = turn.usage
            if not usage.model_calls:
                return ""
            calls = "1 call" if usage.model_calls == 1 else f"{usage.model_calls} calls"
            cost = dollars(usage.cost_usd, usage.unpriced_calls)
            return f"{usage.input_tokens:,} tokens in, {usage.output_tokens:,} out, {calls}, {cost}"
    return f"the turn {turn.state if turn.state == 'failed' else 'was given up'}: {turn.reason or 'no reason given'}"


class PlainScreen:
    """The answers to `out`, byte for byte; everything else to `remarks`."""

    def __init__(self, out: TextIO, remarks: Console) -> None:
        self._out = out
        self._remarks = remarks
        self._inside = False

    def show(self, action: Action) -> None:
        """Show what happens in a turn."""
        match action:
            case Text(text):
                self._write(text)
            case Anew():
                self._write(f"\n\n{BEGINS_ANEW}\n\n")
            case Tool(name, finished):
                self._end_line()
                if not finished:
                    self.say(f"[{name}]")
            case Notice(text):
                self.say(text)
            case Ended(turn):
                self._end_line()
                if not turn.answered:
                    self.problem(ending(turn))

    def say(self, text: str) -> None:
        """Show a remark of this program."""
        self._remarks.print(RichText(printable(text)), style="dim", soft_wrap=True)

    def problem(self, text: str) -> None:
        """Show what went wrong."""
        self._remarks.print(RichText(printable(text)), style="red", soft_wrap=True)

    def asked(self, text: str) -> None:
        """Nobody reads along."""

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()
        self._inside = bool(text) and not text.endswith("\n")

    def _end_line(self) -> None:
        if self._inside:
            self._write("\n")


class RichScreen:
    """A terminal. Blocks of Markdown are printed when they are complete; `unfinished` is the one that is not."""

    def __init__(self, console: Console, changed: Callable[[], None] = lambda: None) -> None:
        self._console = console
        self.changed = changed
        """Called when `unfinished` or `doing` may be another."""
        self._blocks = Blocks()
        self._printed = False
        self._since: dict[str, float] = {}
        self.doing = ""
        """What the agent does, in a word."""

    @property
    def unfinished(self) -> str:
        """The block that is being written."""
        return printable(self._blocks.unfinished)

    def show(self, action: Action) -> None:
        """Show what happens in a turn."""
        match action:
            case Text(text):
                self.doing = "writing"
                for block in self._blocks.feed(text):
                    self._block(block)
            case Anew():
                self._blocks.drop()
                if self._printed:
                    self.say(BEGINS_ANEW)
                self._printed = False
            case Tool(name, finished):
                self._flush()
                self._tool(name, finished)
            case Notice(text):
                self.say(text)
            case Ended(turn):
                self._flush()
                self.doing = ""
                self._end(turn)
        self.changed()

    def say(self, text: str) -> None:
        """Show a remark of this program."""
        self._console.print(RichText(printable(text)), style="dim")

    def problem(self, text: str) -> None:
        """Show what went wrong."""
        self._console.print(RichText(printable(text)), style="red")

    def asked(self, text: str) -> None:
        """Show what the person said."""
        self._console.print(RichText.assemble(("› ", "bold cyan"), (printable(text), "bold")))

    def _tool(self, name: str, finished: bool) -> None:
        self._printed = False
        if not finished:
            self._since[name] = time.monotonic()
            self.doing = name
            self.say(f"  ▸ {name}")
            return
        self.doing = "thinking"
        took = time.monotonic() - self._since.pop(name, time.monotonic())
        if took >= _WORTH_TELLING_SECONDS:
            self.say(f"  ✓ {name}, {took:.1f} s")

    def _end(self, turn: Turn) -> None:
        line = ending(turn)
        if not turn.answered and not turn.stopped:
            self.problem(line)
        elif line:
            self.say(line)
        self._printed = False
        self._console.print()

    def _flush(self) -> None:
        block = self._blocks.drop()
        if block.strip():
            self._block(block)

    def _block(self, block: str) -> None:
        if self._printed:
            self._console.print()
        self._printed = True
        self._console.print(Markdown(printable(block), hyperlinks=False))
