"""The commands of a conversation as one table, and how a line is read. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from hermes_cli.errors import CliError, usage


@dataclass(frozen=True)
class Slash:
    """A command: its name, what follows it, and what it does."""

    name: str
    argument: str
    help: str
    required: bool = False
    other_names: tuple[str, ...] = ()


SLASHES = (
    Slash("help", "", "show these commands", other_names=("commands",)),
    Slash("new", "[TITLE]", "begin another conversation, with a workspace of its own", other_names=("reset",)),
    Slash("stop", "", "stop the running turn, as Ctrl-C does"),
    Slash("steer", "TEXT", "tell the running turn something; it goes on", required=True),
    Slash("redirect", "TEXT", "give the running turn another goal", required=True),
    Slash("approve", "[ID] [once, session or always]", "let the agent run what it asked about"),
    Slash("deny", "[ID] [REASON]", "do not let it"),
    Slash("answer", "[ID] TEXT", "answer the agent's question, by number or in your words", required=True),
    Slash("queue", "TEXT", "send a message that is answered after the running turn", required=True),
    Slash("image", "PATH [TEXT]", "send a picture, with a text", required=True),
    Slash("compress", "[FOCUS]", "sum up the older part of the conversation", other_names=("compact",)),
    Slash("status", "", "show the session and what it does"),
    Slash("usage", "", "show tokens and cost of the session"),
    Slash("title", "[TEXT]", "show the session's title, or set it"),
    Slash("undo", "[HOW MANY]", "take back the last exchange, or the last few"),
    Slash("retry", "", "take back the last exchange, and have it done again"),
    Slash("model", "[NAME]", "show the model that answers, or choose another"),
    Slash("profile", "[NAME]", "show whom you talk to, or begin a session with another"),
    Slash("sessions", "", "list your sessions"),
    Slash("resume", "[NUMBER or ID]", "list your sessions with numbers, or go on with one"),
    Slash("quit", "", "leave; a running turn goes on", other_names=("exit", "q")),
)


def parse_line(line: str) -> tuple[Slash, str] | None:
    """Return the command of a line and its argument; None for a message. Raises CliError for no command of ours.

    A command may be cut short where only one begins so. `//` begins a message with a slash.
    """
    if not line.startswith("/") or line.startswith("//"):
        return None
    word, _, argument = line[1:].partition(" ")
    command, argument = _find(word.strip()), argument.strip()
    if command.required and not argument:
        raise usage(f"/{command.name} {command.argument}", command.help)
    return command, argument


def message_of(line: str) -> str:
    """Return the message that a line without a command is."""
    return line[1:] if line.startswith("//") else line


def _find(word: str) -> Slash:
    known = {name: slash for slash in SLASHES for name in (slash.name, *slash.other_names)}
    if word in known:
        return known[word]
    close = {slash.name: slash for name, slash in known.items() if word and name.startswith(word)}
    if len(close) == 1:
        return next(iter(close.values()))
    raise _unknown(word, sorted(close))


def _unknown(word: str, close: list[str]) -> CliError:
    if close:
        return usage(f"/{word} may be {', '.join('/' + name for name in close)}", "write more of it")
    return usage(f"no command /{word}", "see /help; // begins a message with a slash")


def help_lines() -> list[tuple[str, str]]:
    """Return the commands with their arguments, and what they do."""
    return [(f"/{slash.name} {slash.argument}".rstrip(), slash.help) for slash in SLASHES]
