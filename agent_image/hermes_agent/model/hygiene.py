"""Cleans what a model wrote before anything believes, stores or runs it. Pure."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Literal

from hermes_agent.model.collect import RawCall

_CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")
_NOT_NAME = re.compile(r"[^A-Za-z0-9_-]")
_TRAILING_COMMA = re.compile(r",(\s*[}\]])")
MAX_NAME = 64
MAX_ARGUMENT_CHARACTERS = 200_000
"""Longest arguments of one call; longer ones would not fit the bus beside the rest of their step."""


def clean_text(text: str) -> str:
    """Drop control characters (except tab, newline and carriage return) and lone surrogates."""
    return _CONTROLS.sub("", text)


def clean_name(name: str) -> str:
    """Return a name that every provider takes back: 1 to 64 letters, digits, underscores and hyphens."""
    return _NOT_NAME.sub("_", name)[:MAX_NAME] or "unnamed"


MAX_CLOSERS = 50
"""Closing brackets that are added or dropped to make sense of arguments."""

Problem = Literal["truncated", "invalid"]


@dataclass(frozen=True)
class ParsedCall:
    """A call whose id and name are clean. `arguments` is JSON text fit for the transcript; `value` is None when broken."""

    id: str
    name: str
    arguments: str
    value: dict[str, object] | None
    problem: Problem | None = None
    detail: str = ""


def parse_call(raw: RawCall) -> ParsedCall:
    """Read a call's arguments, with small repairs. Broken ones become `{}` so that they cannot poison the transcript."""
    text = clean_text(raw.arguments).strip()
    call_id, name = clean_id(raw.id), clean_name(raw.name.strip())
    if len(text) > MAX_ARGUMENT_CHARACTERS:
        detail = f"the arguments are longer than {MAX_ARGUMENT_CHARACTERS} characters: split the work into smaller calls"
        return ParsedCall(call_id, name, "{}", None, "invalid", detail)
    if not text or text == "null":
        return ParsedCall(call_id, name, "{}", {})
    try:
        value = _loads(text)
    except ValueError as first:
        if _is_cut(text):
            return ParsedCall(call_id, name, "{}", None, "truncated", "the arguments stop before their closing bracket")
        text = trimmed(_TRAILING_COMMA.sub(r"\1", text))
        try:
            value = _loads(text)
        except ValueError:
            return ParsedCall(call_id, name, "{}", None, "invalid", f"the arguments are not JSON: {first}"[:300])
    arguments = _as_object(value)
    if arguments is None:
        return ParsedCall(call_id, name, "{}", None, "invalid", "the arguments are not a JSON object")
    return ParsedCall(call_id, name, _strict(text, arguments, same=value is arguments), arguments)


def _strict(text: str, arguments: dict[str, object], *, same: bool) -> str:
    """Return the arguments as JSON that every provider reads: as the model wrote them where that is possible."""
    if same and "\n" not in text and "\t" not in text and "\r" not in text:
        return text
    return json.dumps(arguments, ensure_ascii=False)


def trimmed(text: str) -> str:
    """Return JSON without surplus closing brackets behind its value, at most `MAX_CLOSERS` of them."""
    end = _value_end(text)
    rest = "".join(text[end:].split())
    return text[:end] if end and len(rest) <= MAX_CLOSERS and not rest.strip("}]") else text


def balanced(text: str) -> str:
    """Return JSON with the closing brackets that it lacks, at most `MAX_CLOSERS`; unchanged when that is no help.

    For text that is only shown to a model again: arguments that were cut are never run.
    """
    open_brackets, in_string = _open_brackets(text)
    if len(open_brackets) > MAX_CLOSERS:
        return text
    closers = "".join("}" if bracket == "{" else "]" for bracket in reversed(open_brackets))
    return text + ('"' if in_string else "") + closers


def readable_arguments(text: str) -> str:
    """Return stored arguments as a JSON object that every provider takes back; `{}` when nothing can be saved."""
    text = clean_text(text)
    for attempt in (text, _TRAILING_COMMA.sub(r"\1", trimmed(text)), _TRAILING_COMMA.sub(r"\1", balanced(text))):
        try:
            value = _loads(attempt)
        except ValueError:
            continue
        arguments = _as_object(value)
        if arguments is not None:
            return _strict(attempt, arguments, same=value is arguments)
    return "{}"


def _value_end(text: str) -> int:
    """Return where the first JSON object or array of a text ends; 0 when it does not."""
    depth, in_string, escaped = 0, False, False
    for index, character in enumerate(text):
        if escaped:
            escaped = False
        elif in_string:
            escaped = character == "\\"
            in_string = character != '"'
        elif character == '"':
            in_string = True
        elif character in "{[":
            depth += 1
        elif character in "}]":
            depth -= 1
            if depth <= 0:
                return index + 1
    return 0


def _loads(text: str) -> object:
    def refuse(constant: str) -> object:
        raise ValueError(f"{constant} is not JSON")

    try:
        # Not strict: models write line breaks and tabs into strings as they are.
        parsed: object = json.loads(text, parse_constant=refuse, strict=False)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    return parsed


def _as_object(value: object) -> dict[str, object] | None:
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if isinstance(value, str):
        try:
            value = _loads(value)
        except ValueError:
            return None
    return value if isinstance(value, dict) else None


def _is_cut(text: str) -> bool:
    open_brackets, in_string = _open_brackets(text)
    return in_string or bool(open_brackets)


def _open_brackets(text: str) -> tuple[list[str], bool]:
    """Return the brackets that are open at the end of a text, and whether a string is."""
    found: list[str] = []
    in_string = escaped = False
    for character in text:
        if escaped:
            escaped = False
        elif in_string:
            escaped = character == "\\"
            in_string = character != '"'
        elif character == '"':
            in_string = True
        elif character in "{[":
            found.append(character)
        elif character in "}]" and found:
            found.pop()
    return found, in_string


def clean_id(call_id: str) -> str:
    """Return an id of at most 56 safe characters; empty when nothing is left of it."""
    return _NOT_NAME.sub("_", call_id)[:56]


def unique_id(call_id: str, taken: set[str]) -> str:
    """Return the id, made different from all `taken` ones if need be, and take it."""
    base = call_id or "call"
    unique, number = base, 1
    while unique in taken:
        number += 1
        unique = f"{base}-{number}"
    taken.add(unique)
    return unique
