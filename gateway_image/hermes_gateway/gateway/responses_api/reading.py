"""Reads a Responses request: what is new in it, and what its conversation is known by. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from hermes_gateway.gateway.openai_api.reading import (
    SESSION_HEADER,
    SYSTEM_ROLES,
    Saying,
    invalid,
    require_length,
    short_hash,
)
from hermes_gateway.gateway.pictures import PictureUrl
from hermes_gateway.gateway.responses_api.protocol import NamedConversation, ResponsesRequest

_RESULTS = frozenset({"function_call_output", "custom_tool_call_output", "computer_call_output", "local_shell_call_output"})
_CALLS = frozenset({"function_call", "custom_tool_call", "mcp_approval_response"})
_TEXTS = frozenset({"input_text", "output_text", "text"})
_ROLES = ("user", "assistant", *SYSTEM_ROLES)

Items = list[tuple[str, object]]
"""Role and content of each message, in order."""


def read_input(request: ResponsesRequest) -> tuple[Saying, Items]:
    """Return what is new, which is the user's messages at the end of the input, and all messages as they came.

    Raises ApiError 400 for what the platform does not do, 413 for text that is too long.
    """
    _refuse_what_we_cannot_do(request)
    given = request.input
    messages = [(0, "user", given)] if isinstance(given, str) else _messages(given)
    saying = _newest(messages, request.instructions or "")
    require_length(saying, "input")
    items: Items = [("system", request.instructions)] if request.instructions else []
    return saying, [*items, *((role, content) for _, role, content in messages)]


def _newest(messages: Sequence[tuple[int, str, object]], instructions: str) -> Saying:
    pieces: list[str] = []
    pictures: list[PictureUrl] = []
    system = [instructions]
    for n, role, content in messages:
        if role == "assistant":
            # What came before an answer is history, which the agent keeps itself.
            pieces, pictures = [], []
            continue
        text, seen = _content(content, f"input.{n}")
        if role == "user":
            pieces.append(text)
            pictures.extend(seen)
        elif seen:
            raise invalid(seen[0].param, "a system message has text only: put pictures into the user's message")
        else:
            system.append(text)
    text = "\n\n".join(piece for piece in pieces if piece.strip())
    if not text and not pictures:
        raise invalid("input", "it must end with a message of the user that is not empty")
    return Saying(text, "\n\n".join(part for part in system if part.strip()), tuple(pictures))


def named_conversation(request: ResponsesRequest, header: str | None) -> str | None:
    """Return the conversation that a request names by its field or the session header. Raises ApiError 400 when it names it
    twice."""
    given = request.conversation
    field = given.id if isinstance(given, NamedConversation) else given
    named = [name for name in (field, header, request.previous_response_id) if name is not None]
    if len(named) > 1:
        which = f"send one of conversation, previous_response_id and the {SESSION_HEADER} header"
        raise invalid("conversation", which)
    return field or header


def response_id(sid: str, update_id: str) -> str:
    """Return the response's id: the same whenever this message's answer is given."""
    return "resp_" + short_hash(f"{sid}/{update_id}")


def message_item_id(response: str) -> str:
    """Return the id of the answer's message."""
    return "msg_" + response.removeprefix("resp_")


def _refuse_what_we_cannot_do(request: ResponsesRequest) -> None:
    if request.tools:
        raise invalid("tools", "the agent uses tools of its own and cannot call yours: leave this out")
    form = request.text.format if request.text else None
    if form is not None and form.type != "text":
        raise invalid("text.format", "answers are text: leave this out")
    if request.prompt is not None:
        raise invalid("prompt", "there are no stored prompts: send instructions and input")
    if request.background and request.stream:
        raise invalid("stream", "a response in the background is asked for again, not streamed: leave one of them out")
    if request.background and request.store is False:
        raise invalid("store", "a response in the background must be stored, or nobody could ask for it")


def _messages(items: list[dict[str, object]]) -> list[tuple[int, str, object]]:
    """Return the messages of an input with their places; thoughts and references of the history are passed over."""
    found: list[tuple[int, str, object]] = []
    for n, item in enumerate(items):
        kind = item.get("type", "message")
        if kind in _RESULTS or kind in _CALLS:
            why = "tools run on the server, inside the agent: it takes no results of tool calls from outside"
            raise invalid(f"input.{n}", f"{kind}: {why}")
        if kind != "message":
            continue
        role = item.get("role")
        if role not in _ROLES:
            raise invalid(f"input.{n}.role", "must be user, assistant, system or developer")
        found.append((n, str(role), item.get("content")))
    return found


def _content(content: object, where: str) -> tuple[str, list[PictureUrl]]:
    if isinstance(content, str):
        return content, []
    if not isinstance(content, list):
        raise invalid(f"{where}.content", "must be text or a list of parts")
    pieces: list[str] = []
    pictures: list[PictureUrl] = []
    for n, part in enumerate(content):
        here = f"{where}.content.{n}"
        kind = part.get("type") if isinstance(part, dict) else None
        if kind in _TEXTS:
            pieces.append(_string(part.get("text"), f"{here}.text"))
        elif kind == "input_image":
            if part.get("image_url") is None:
                raise invalid(here, "there are no uploaded files: send image_url with a data: URL")
            pictures.append(PictureUrl(f"{here}.image_url", _string(part["image_url"], f"{here}.image_url")))
        else:
            raise invalid(here, f"only input_text and input_image parts are understood, not {str(kind)[:32]!r}")
    return "".join(pieces), pictures


def _string(value: object, where: str) -> str:
    if not isinstance(value, str):
        raise invalid(where, "must be a string")
    return value
