"""The commands of all chats: one table, which feeds every chat's reader, `/help` and the documentation. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from hermes_contracts.store_api import CommandKind


@dataclass(frozen=True)
class CommandSpec:
    """One command. `control`: what the session's agent is told, through a durable record in the store."""

    name: str
    summary: str
    argument: str = ""
    """What follows the name, as help shows it; `<...>` is needed, `[...]` may be left out."""
    aliases: tuple[str, ...] = ()
    control: CommandKind | None = None
    admins_only: bool = False
    """For people whom the account names as admins; for nobody where it names none."""

    @property
    def needs_argument(self) -> bool:
        """Whether nothing can be done without one."""
        return self.argument.startswith("<")


COMMANDS: tuple[CommandSpec, ...] = (
    CommandSpec("help", "Show what you can say", aliases=("commands", "start")),
    CommandSpec("new", "Begin a new conversation here; the old one is kept", "[title]", ("reset",)),
    CommandSpec("resume", "List the conversations of this place, or go back to one", "[number]"),
    CommandSpec("title", "Show or say how this conversation is called", "[text]"),
    CommandSpec("undo", "Take back our last exchange, or the last few", "[how many]"),
    CommandSpec("retry", "Take back our last exchange, and have me do it again"),
    CommandSpec("model", "Show or choose the model that answers in this conversation", "[name]"),
    CommandSpec("profile", "Show or choose which agent you talk to here", "[name]"),
    CommandSpec("stop", "Stop what I am doing", control=CommandKind.STOP),
    CommandSpec("steer", "Tell me something while I work, without stopping me", "<text>", control=CommandKind.STEER),
    CommandSpec("queue", "Have me do this next, after what I am doing", "<text>"),
    CommandSpec(
        "compress", "Shorten this conversation's history", "[what matters]", ("compact",), control=CommandKind.COMPRESS
    ),
    CommandSpec("approve", "Let me run what I asked about", "[id] [once, session or always]"),
    CommandSpec("deny", "Do not let me run what I asked about", "[id] [reason]"),
    CommandSpec("answer", "Answer my question, by number or in your words", "[id] <text>"),
    CommandSpec("status", "Show what I am doing"),
    CommandSpec("usage", "Show tokens and cost of your session"),
    CommandSpec("sessions", "List your sessions with this agent"),
    CommandSpec(
        "pair", "Show, let in or put out people who were given a code", "[approve code, revoke id]", admins_only=True
    ),
    CommandSpec("link", "Be the same person here and in another chat: get a code in one, say it in the other", "[code]"),
    CommandSpec("unlink", "Be somebody of your own here again"),
    CommandSpec("whoami", "Show who you are to me"),
    CommandSpec("cron", "List and keep what I do by the clock", '[add "when" what; pause, resume, run, remove name]'),
    CommandSpec("sethome", "Make this chat the place where scheduled runs find you", "[off]"),
    CommandSpec("home", "Show where scheduled runs find you"),
)

COMMANDS_BY_NAME = {name: spec for spec in COMMANDS for name in (spec.name, *spec.aliases)}
"""Commands by name and alias."""
_FORM = re.compile(r"([/!])([a-z][a-z-]{0,31})(?:\s+(.*))?", re.DOTALL | re.IGNORECASE)


@dataclass(frozen=True)
class Asked:
    """A command as a person gave it."""

    spec: CommandSpec
    argument: str


@dataclass(frozen=True)
class NoCommand:
    """A command that is not carried out, for there is none such or the person may not, and what he is told."""

    sentence: str


def parse_command(text: str) -> Asked | NoCommand | None:
    """Read a command; None for a message to the agent.

    `!stop` is the same as `/stop`, for chats that keep the slash for themselves. An unknown `/word` is answered, because it
    was meant as a command; an unknown `!word` goes to the agent.
    """
    match = _FORM.fullmatch(text.strip())
    if match is None:
        return None
    mark, name, argument = match.group(1), match.group(2).lower(), (match.group(3) or "").strip()
    spec = COMMANDS_BY_NAME.get(name)
    if spec is None:
        return NoCommand(f"There is no command `/{name}`. `/help` shows what there is.") if mark == "/" else None
    if spec.needs_argument and not argument:
        return NoCommand(f"`/{spec.name}` needs more: `/{spec.name} {spec.argument}`.")
    return Asked(spec, argument)


def help_text(commands: Sequence[CommandSpec] = COMMANDS) -> str:
    """Return the answer to `/help` for somebody who may say these."""
    lines = [f"- `{usage(spec)}`: {spec.summary}" for spec in commands]
    return "\n".join(("Write to me, or say:", "", *lines, "", "`!stop` is the same as `/stop`, wherever a slash is taken."))


def usage(spec: CommandSpec) -> str:
    """Return a command as one types it."""
    return f"/{spec.name} {spec.argument}".rstrip()
