"""A command as the shell would understand it: each simple command by itself, quotes and disguises taken off. Pure.

This reads what a model wrote in good faith; somebody who wants to hide a command from it can. The wall is the sandbox.
"""

from __future__ import annotations

import re
import shlex
import unicodedata
from dataclasses import dataclass

MAX_COMMAND_CHARACTERS = 100_000
MAX_DEPTH = 6
MAX_PIECES = 512
_SEPARATORS = frozenset({";", "&", "&&", "||", "|", "|&", "\n", "(", ")", ";;", "&|"})
_WORDS_BEFORE = frozenset({"if", "then", "else", "elif", "do", "while", "until", "!", "{", "}", "time", "fi", "done"})
_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "ash"})
# Options that take a value of their own, by wrapper; what follows the wrapper's words is the command.
_WRAPPERS: dict[str, frozenset[str]] = {
    "sudo": frozenset({"-u", "-g", "-h", "-p", "-C", "-r", "-t", "-T", "-U", "--user", "--group"}),
    "doas": frozenset({"-u", "-C"}),
    "env": frozenset({"-u", "--unset", "-C", "--chdir"}),
    "nohup": frozenset(),
    "timeout": frozenset({"-s", "--signal", "-k", "--kill-after"}),
    "nice": frozenset({"-n", "--adjustment"}),
    "ionice": frozenset({"-c", "-n", "-p"}),
    "stdbuf": frozenset({"-i", "-o", "-e"}),
    "setsid": frozenset(),
    "command": frozenset(),
    "builtin": frozenset(),
    "exec": frozenset({"-a"}),
    "xargs": frozenset({"-I", "-n", "-P", "-L", "-d", "-s", "-a", "-E"}),
    "busybox": frozenset(),
}
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=.*", re.DOTALL)
_SUBSTITUTION = re.compile(r"\$\(([^()]*(?:\([^()]*\)[^()]*)*)\)|`([^`]*)`")
_INVISIBLE = dict.fromkeys([0x00AD, 0x200B, 0x200C, 0x200D, 0x2060, 0xFEFF, *range(0x202A, 0x202F), *range(0x2066, 0x206A)])


@dataclass(frozen=True)
class Command:
    """One simple command: its words without quotes, and the wrappers that were around it."""

    words: tuple[str, ...]
    wrappers: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Program without its folder."""
        return self.words[0].rsplit("/", 1)[-1] if self.words else ""

    @property
    def text(self) -> str:
        """The command on one line, program without its folder."""
        return " ".join((self.name, *self.words[1:]))


@dataclass(frozen=True)
class Reading:
    """What a text runs. `readable` False: it is too deep, too long or not a command at all."""

    text: str
    """The whole, folded."""
    commands: tuple[Command, ...]
    readable: bool = True


def fold(text: str) -> str:
    """Return text with full-width letters and the like as what they look like, and invisible characters gone."""
    folded = unicodedata.normalize("NFKC", text).translate(_INVISIBLE)
    return folded.replace("\\\n", " ").replace("\0", "")


def read(command: str) -> Reading:
    """Read a command line, and what it hands to other shells."""
    if len(command) > MAX_COMMAND_CHARACTERS:
        return Reading(command[:1000], (), readable=False)
    text = fold(command)
    found: list[Command] = []
    readable = _read(text, 0, (), found)
    return Reading(text, tuple(found), readable)


def _read(text: str, depth: int, outer: tuple[str, ...], found: list[Command]) -> bool:
    if depth > MAX_DEPTH or len(found) > MAX_PIECES:
        return False
    readable = True
    for match in _SUBSTITUTION.finditer(text):
        readable &= _read(match.group(1) or match.group(2) or "", depth + 1, outer, found)
    pieces, whole = _pieces(text)
    readable &= whole
    for words in pieces:
        command = _unwrap(words, outer)
        if not command.words:
            continue
        found.append(command)
        inner = _payload(command)
        if inner is not None:
            readable &= _read(inner, depth + 1, (*command.wrappers, command.name), found)
    return readable


def _pieces(text: str) -> tuple[list[list[str]], bool]:
    """Split into simple commands; a text that ends inside a quote is read word by word."""
    lexer = shlex.shlex(text.replace("\n", " ; "), posix=True, punctuation_chars=";&|()")
    lexer.commenters = ""
    lexer.whitespace_split = True
    tokens, whole = [], True
    try:
        for token in lexer:
            tokens.append(token)
    except ValueError:
        tokens, whole = text.replace("'", " ").replace('"', " ").split(), False
    pieces: list[list[str]] = [[]]
    for token in tokens:
        if token in _SEPARATORS or (token and set(token) <= set(";&|()")):
            pieces.append([])
        else:
            pieces[-1].append(token)
    return [piece for piece in pieces if piece], whole


def _unwrap(words: list[str], outer: tuple[str, ...]) -> Command:
    wrappers = list(outer)
    rest = list(words)
    while rest:
        name = rest[0].rsplit("/", 1)[-1]
        if name in _WORDS_BEFORE or _ASSIGNMENT.fullmatch(rest[0]):
            rest.pop(0)
            continue
        options = _WRAPPERS.get(name)
        if options is None:
            break
        inner = _after_options(rest[1:], options, name)
        if not inner:
            break
        wrappers.append(name)
        rest = inner
    return Command(tuple(rest), tuple(wrappers))


def _after_options(words: list[str], with_value: frozenset[str], wrapper: str) -> list[str]:
    rest = list(words)
    while rest and rest[0].startswith("-") and rest[0] != "-":
        option = rest.pop(0)
        if option == "--":
            break
        if option in with_value and rest:
            rest.pop(0)
    if wrapper == "timeout" and rest:
        rest.pop(0)
    return rest


def _payload(command: Command) -> str | None:
    """Return the command line that a command hands to a shell."""
    words = command.words
    if command.name in _SHELLS:
        for place, word in enumerate(words[1:], 1):
            if re.fullmatch(r"-[a-z]*c[a-z]*", word) and place + 1 < len(words):
                return words[place + 1]
    if command.name == "eval":
        return " ".join(words[1:])
    if command.name == "su":
        for place, word in enumerate(words[1:], 1):
            if word in {"-c", "--command"} and place + 1 < len(words):
                return words[place + 1]
    if command.name == "find":
        for option in ("-exec", "-execdir", "-ok"):
            if option in words:
                inner = words[words.index(option) + 1 :]
                return shlex.join([word for word in inner if word not in {"{}", ";", "+", "\\;"}])
    return None
