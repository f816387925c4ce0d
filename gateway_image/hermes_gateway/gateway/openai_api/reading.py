"""Reads a chat request: what is new in it, what it adds to the prompt, and which conversation it belongs to. Pure."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from hermes_contracts.envelopes import MAX_TEXT_CHARACTERS
from hermes_contracts.names import SID_PATTERN
from hermes_gateway.gateway.openai_api.protocol import ChatMessage, ChatRequest
from hermes_gateway.gateway.pictures import PictureUrl
from hermes_gateway.gateway.web.errors import ApiError

SESSION_HEADER = "X-Hermes-Session-Id"
SESSION_KEY_HEADER = "X-Hermes-Session-Key"
SYSTEM_ROLES = ("system", "developer")
_CLIENT_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@-]{0,127}")
_SID = re.compile(SID_PATTERN)


@dataclass(frozen=True)
class Saying:
    """The new message of a request; its pictures are not decoded yet."""

    text: str
    instructions: str
    pictures: tuple[PictureUrl, ...] = ()


def read_request(request: ChatRequest) -> Saying:
    """Return what is new. Raises ApiError 400 for what the platform does not do, 413 for text that is too long."""
    _refuse_what_we_cannot_do(request)
    last = request.messages[-1]
    where = f"messages.{len(request.messages) - 1}"
    if last.role != "user":
        raise invalid(f"{where}.role", f"the last message must be the user's, not {last.role[:32]!r}")
    text, pictures = _content_of(last, where)
    if not text.strip() and not pictures:
        raise invalid(f"{where}.content", "the last message is empty")
    numbered = enumerate(request.messages)
    system = [_text_of(message, f"messages.{n}") for n, message in numbered if message.role in SYSTEM_ROLES]
    saying = Saying(text, "\n\n".join(part for part in system if part.strip()), pictures)
    require_length(saying, "messages")
    return saying


def require_length(saying: Saying, param: str) -> None:
    """Raise ApiError 413 for text that is too long."""
    for name, value in (("the last message", saying.text), ("the system messages", saying.instructions)):
        if len(value) > MAX_TEXT_CHARACTERS:
            too_long = f"{name}: {len(value)} characters are more than {MAX_TEXT_CHARACTERS}"
            raise ApiError(413, too_long, code="request_too_large", param=param)


def _refuse_what_we_cannot_do(request: ChatRequest) -> None:
    if request.n is not None and request.n != 1:
        raise invalid("n", "one answer a call: leave n out or send 1")
    if request.tools or request.functions:
        name = "tools" if request.tools else "functions"
        raise invalid(name, "the agent uses tools of its own and cannot call yours: leave this out")
    if request.response_format is not None and request.response_format.type != "text":
        raise invalid("response_format", "answers are text: leave this out")


def _text_of(message: ChatMessage, where: str) -> str:
    text, pictures = _content_of(message, where)
    if pictures:
        raise invalid(pictures[0].param, "a system message has text only: put pictures into the user's message")
    return text


def _content_of(message: ChatMessage, where: str) -> tuple[str, tuple[PictureUrl, ...]]:
    if message.content is None:
        return "", ()
    if isinstance(message.content, str):
        return message.content, ()
    pieces: list[str] = []
    pictures: list[PictureUrl] = []
    for n, part in enumerate(message.content):
        kind, here = part.get("type"), f"{where}.content.{n}"
        if kind == "text":
            pieces.append(_string(part.get("text"), f"{here}.text"))
        elif kind == "image_url":
            found = part.get("image_url")
            url = found.get("url") if isinstance(found, dict) else found
            pictures.append(PictureUrl(f"{here}.image_url.url", _string(url, f"{here}.image_url.url")))
        else:
            raise invalid(here, f"only text and image_url parts are understood, not {str(kind)[:32]!r}")
    return "".join(pieces), tuple(pictures)


def _string(value: object, where: str) -> str:
    if not isinstance(value, str):
        raise invalid(where, "must be a string")
    return value


def invalid(param: str, message: str) -> ApiError:
    """Say that the platform does not do what a field asks for."""
    return ApiError(400, f"{param}: {message}", code="unsupported_value", param=param)


def parse_session_header(value: str, param: str = SESSION_HEADER) -> str:
    """Check a client's own id of a conversation; `param` names it in the error. Raises ApiError 400."""
    if not _CLIENT_ID.fullmatch(value):
        raise invalid(param, "use 1 to 128 letters, digits and . _ : @ -, starting with a letter or digit")
    return value


def is_session_id(value: str) -> bool:
    """Tell our own session ids from the ids clients choose."""
    return _SID.fullmatch(value) is not None


def derive_client_id(user: str | None, messages: Sequence[tuple[str, object]]) -> str:
    """Return the conversation of a call that names none: the same for every call whose history (role and content of each
    message) starts alike, so that a front end which resends its history stays in one session."""
    opening: list[list[object]] = []
    for role, content in messages:
        opening.append([role, content])
        if role == "user":
            break
    return "auto-" + short_hash(json.dumps([user or "", opening], ensure_ascii=False, sort_keys=True))


def new_client_id() -> str:
    """Make an id for a conversation whose client gave none."""
    return "new-" + base64.b32encode(secrets.token_bytes(15)).decode().lower()


def completion_id(sid: str, update_id: str) -> str:
    """Return the completion's id: the same whenever this message's answer is given."""
    return "chatcmpl-" + short_hash(f"{sid}/{update_id}")


def short_hash(text: str) -> str:
    """Return 24 characters that stand for a text."""
    return base64.b32encode(hashlib.sha256(text.encode()).digest()).decode().lower()[:24]
