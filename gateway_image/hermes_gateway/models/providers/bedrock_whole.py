"""Bedrock where it does not stream: which refusals mean that, and a whole answer as the events of a stream. Pure.

Some models take tools in whole calls only, and an account's policy may allow whole calls only.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

from hermes_gateway.models.providers.shapes import Json, mapping

_NO_STREAM = re.compile(
    r"(not|n't) support.{0,60}stream|InvokeModelWithResponseStream|stream\w* (is )?not supported", re.IGNORECASE
)


def wants_whole(status: int, words: str) -> bool:
    """Tell whether a refused stream would be answered as a whole call."""
    return status in (400, 403) and _NO_STREAM.search(words) is not None


def events_of(answer: Mapping[str, object]) -> Iterator[Json]:
    """Yield an answer of Converse as the events of ConverseStream. A wrong shape raises ValueError or TypeError."""
    content = mapping(mapping(answer.get("output")).get("message")).get("content")
    if not isinstance(content, list):
        raise TypeError("expected a list of blocks")
    for index, value in enumerate(content):
        block = mapping(value)
        if use := mapping(block.get("toolUse")):
            start = {name: use[name] for name in ("toolUseId", "name") if name in use}
            yield {"contentBlockStart": {"contentBlockIndex": index, "start": {"toolUse": start}}}
        for delta in _deltas(block):
            yield {"contentBlockDelta": {"contentBlockIndex": index, "delta": delta}}
        yield {"contentBlockStop": {"contentBlockIndex": index}}
    yield {"messageStop": {"stopReason": answer.get("stopReason")}}
    yield {"metadata": {"usage": answer.get("usage")}}


def _deltas(block: Mapping[str, object]) -> Iterator[Json]:
    if "text" in block:
        yield {"text": block["text"]}
    if use := mapping(block.get("toolUse")):
        yield {"toolUse": {"input": json.dumps(use.get("input", {}), ensure_ascii=False)}}
    if thought := mapping(block.get("reasoningContent")):
        said = mapping(thought.get("reasoningText"))
        for name in ("text", "signature"):
            if said.get(name):
                yield {"reasoningContent": {name: said[name]}}
        if thought.get("redactedContent"):
            yield {"reasoningContent": {"redactedContent": thought["redactedContent"]}}
