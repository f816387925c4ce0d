"""What a request asks, whichever format it came in."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from scripted_model.turns import Format, Json, as_list, as_object, tools_of, turns_of

__all__ = ["Asked", "BadRequest", "Format", "Json", "parse", "prefix_hashes"]

_APPROVED = re.compile(r"^\[approved [a-z ]{1,20}, [2-7][a-z2-7]{7}\]", re.MULTILINE)
_DENIED = re.compile(r"^\[denied, [2-7][a-z2-7]{7}\]", re.MULTILINE)


class BadRequest(ValueError):
    """A request that the provider would refuse with 400."""


@dataclass(frozen=True)
class Asked:
    """One request. `step` counts the assistant's messages since the person spoke last.

    A person's yes or no to an approval is not spoken: what he said before it goes on. Then neither the question counts nor
    the approved call, which the agent has put there.
    """

    format: Format
    model: str
    stream: bool
    include_usage: bool
    text: str
    step: int
    tools: Mapping[str, Json]
    """Parameter schemas of the offered tools, by name."""
    calls: Sequence[tuple[str, str]]
    """Name and argument text of the calls made since the person spoke last."""
    results: Sequence[str]
    """What came of calls since the person spoke, or approved, last."""
    denied: bool
    """The person's last word was a no to an approval."""
    conversation: str
    """Hash of everything up to what the person said last."""
    digest: str
    size: int
    body: Json = field(repr=False)


def parse(body: bytes, kind: Format, *, model: str | None = None, stream: bool | None = None) -> Asked:
    """Read a request; `model` and `stream` are given where the path says them. Raises BadRequest."""
    try:
        data = json.loads(body)
    except ValueError as error:
        raise BadRequest(f"We could not parse the JSON body of your request: {error}") from error
    if not isinstance(data, dict) or not isinstance(data.get("model", model), str):
        raise BadRequest("you must provide a model parameter")
    turns = turns_of(data, kind)
    if not turns:
        raise BadRequest("messages: at least one message is required")
    people = [n for n, turn in enumerate(turns) if turn.speaker == "person"]
    last = max((n for n in people if not _answers(turns[n].text)), default=-1)
    answered = [n for n in people if n > last]
    since = turns[last + 1 :]
    approved = sum(_APPROVED.search(turns[n].text) is not None for n in answered)
    played = sum(turn.speaker == "model" for turn in since) - len(answered) - approved
    system = data.get("instructions") if kind == "responses" else data.get("system")
    return Asked(
        format=kind,
        model=model or data["model"],
        stream=bool(data.get("stream")) if stream is None else stream,
        include_usage=kind != "openai" or bool(as_object(data.get("stream_options")).get("include_usage")),
        text=turns[last].text if last >= 0 else "",
        step=max(0, played),
        tools=tools_of(data, kind),
        calls=[call for turn in since for call in turn.calls],
        results=[result for turn in turns[(people[-1] if people else -1) + 1 :] for result in turn.results],
        denied=bool(answered) and _DENIED.search(turns[people[-1]].text) is not None,
        conversation=hashlib.sha256(_bytes([system, [turn.raw for turn in turns[: last + 1]]])).hexdigest(),
        digest=hashlib.sha256(body).hexdigest(),
        size=len(body),
        body=data,
    )


def _answers(text: str) -> bool:
    return _APPROVED.search(text) is not None or _DENIED.search(text) is not None


def _bytes(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def prefix_hashes(body: Json, kind: Format) -> list[str]:
    """Return cumulative hashes: tools, then system, then after each message (item, block: the format's smallest piece).

    One request continues another byte for byte when the other's list is the start of its own. Cache markers are left out:
    they move from request to request and are no content.
    """
    running = hashlib.sha256()
    found = []
    for value in _pieces(body, kind):
        running.update(_bytes(_without_markers(value)) + b"\n")
        found.append(running.hexdigest()[:16])
    return found


def _pieces(body: Json, kind: Format) -> Iterator[object]:
    if kind == "bedrock":
        yield as_object(body.get("toolConfig")).get("tools")
        yield body.get("system")
        for message in map(as_object, as_list(body.get("messages"))):
            for block in as_list(message.get("content")):
                if "cachePoint" not in as_object(block):
                    yield [message.get("role"), block]
        return
    yield body.get("tools")
    if kind == "responses":
        yield body.get("instructions")
        yield from as_list(body.get("input"))
        return
    yield body.get("system")
    yield from as_list(body.get("messages"))


def _without_markers(value: object) -> object:
    if isinstance(value, dict):
        return {k: _without_markers(v) for k, v in value.items() if k != "cache_control"}
    if isinstance(value, list):
        return [_without_markers(v) for v in value if not (isinstance(v, dict) and "cachePoint" in v)]
    return value
