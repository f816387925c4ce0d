"""Reads a chat request: what is new in it, what it adds to the prompt, and which conversation it belongs to. Pure."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import secrets
from dataclasses import dataclass

from hermes_contracts.envelopes import MAX_TEXT_CHARACTERS
from hermes_contracts.names import SID_PATTERN
from hermes_gateway.gateway.openai_api.protocol import ChatMessage, ChatRequest
from hermes_gateway.gateway.web.errors import ApiError

_SYSTEM_ROLES = ("system", "developer")
_CLIENT_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@-]{0,127}")
_SID = re.compile(SID_PATTERN)


@dataclass(frozen=True)
class Saying:
    """The new message of a request."""

    text: str
    instructions: str


def read_request(request: ChatRequest) -> Saying:
    """Return what is new. Raises ApiError 400 for what the platform does not do, 413 for text that is too long."""
    _refuse_what_we_cannot_do(request)
    last = request.messages[-1]
    where = f"messages.{len(request.messages) - 1}"
    if last.role != "user":
        raise _invalid(f"{where}.role", f"the last message must be the user's, not {last.role[:32]!r}")
    text = _text_of(last, where)
    if not text.strip():
        raise _invalid(f"{where}.content", "the last message is empty")
    numbered = enumerate(request.messages)
    system = [_text_of(message, f"messages.{n}") for n, message in numbered if message.role in _SYSTEM_ROLES]
    instructions = "\n\n".join(part for part in system if part.strip())
    for name, value in (("the last message", text), ("the system messages", instructions)):
        if len(value) > MAX_TEXT_CHARACTERS:
            too_long = f"{name}: {len(value)} characters are more than {MAX_TEXT_CHARACTERS}"
            raise ApiError(413, too_long, code="request_too_large", param="messages")
    return Saying(text, instructions)


def _refuse_what_we_cannot_do(request: ChatRequest) -> None:
    if request.n is not None and request.n != 1:
        raise _invalid("n", "one answer a call: leave n out or send 1")
    if request.tools or request.functions:
        name = "tools" if request.tools else "functions"
        raise _invalid(name, "the agent uses tools of its own and cannot call yours: leave this out")
    if request.response_format is not None and request.response_format.type != "text":
        raise _invalid("response_format", "answers are text: leave this out")


def _text_of(message: ChatMessage, where: str) -> str:
    if message.content is None:
        return ""
    if isinstance(message.content, str):
        return message.content
    pieces = []
    for n, part in enumerate(message.content):
        kind = part.get("type")
        if kind != "text":
            shown = str(kind)[:32]
            raise _invalid(
                f"{where}.content.{n}", f"only text parts are understood, not {shown!r}: images are not supported"
            )
        text = part.get("text")
        if not isinstance(text, str):
            raise _invalid(f"{where}.content.{n}.text", "must be a string")
        pieces.append(text)
    return "".join(pieces)


def _invalid(param: str, message: str) -> ApiError:
    return ApiError(400, f"{param}: {message}", code="unsupported_value", param=param)


def parse_session_header(value: str) -> str:
    """Check an `X-Hermes-Session-Id`. Raises ApiError 400."""
    if not _CLIENT_ID.fullmatch(value):
        message = "use 1 to 128 letters, digits and . _ : @ -, starting with a letter or digit"
        raise _invalid("X-Hermes-Session-Id", message)
    return value


def is_session_id(value: str) -> bool:
    """Tell our own session ids from the ids clients choose."""
    return _SID.fullmatch(value) is not None


def derive_client_id(request: ChatRequest) -> str:
    """Return the conversation of a call that names none: the same for every call whose history starts alike, so that a
    front end which resends its history stays in one session."""
    opening: list[list[object]] = []
    for message in request.messages:
        opening.append([message.role, message.content])
        if message.role == "user":
            break
    material = json.dumps([request.user or "", opening], ensure_ascii=False, sort_keys=True)
    return "auto-" + _short_hash(material)


def new_client_id() -> str:
    """Make an id for a conversation whose client gave none."""
    return "new-" + base64.b32encode(secrets.token_bytes(15)).decode().lower()


def completion_id(sid: str, update_id: str) -> str:
    """Return the completion's id: the same whenever this message's answer is given."""
    return "chatcmpl-" + _short_hash(f"{sid}/{update_id}")


def _short_hash(text: str) -> str:
    return base64.b32encode(hashlib.sha256(text.encode()).digest()).decode().lower()[:24]
