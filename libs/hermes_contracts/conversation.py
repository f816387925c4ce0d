"""Neutral messages: what a transcript is made of. No word of any provider in it."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

MediaId = Annotated[str, StringConstraints(pattern=r"^m[a-z2-7]{25}$")]
"""Hash of a medium's bytes: the same picture is stored once a session."""
MediaType = Literal["image/png", "image/jpeg", "image/gif", "image/webp"]
StoredType = Literal["image/png", "image/jpeg", "image/gif", "image/webp", "application/octet-stream"]
"""What bytes are stored as: a picture's own type, and one for everything that no model is shown."""


def picture_type(data: bytes) -> MediaType | None:
    """Tell the type of a picture by its first bytes; None when it is none that models take."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return None


class Role(StrEnum):
    """Who speaks. The system prompt is not a message: it is frozen beside the conversation."""

    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True)


class TextPart(_Part):
    """Plain text."""

    type: Literal["text"] = "text"
    text: str


class ImagePart(_Part):
    """A picture. Its bytes are in the store under `media_id`; the models service puts them in at the wire."""

    type: Literal["image"] = "image"
    media_id: MediaId
    media_type: MediaType
    size: int = Field(ge=1)
    """Bytes."""


class ReasoningPart(_Part):
    """A provider's thinking, kept because some providers want it back, signature and all.

    `origin` is wire and model that made it (`anthropic_messages/<model>`): it goes back there and nowhere else.
    """

    type: Literal["reasoning"] = "reasoning"
    text: str
    signature: str | None = None
    data: str | None = None
    """What only its provider can read: encrypted or redacted content, as text."""
    item_id: str | None = None
    """The provider's own id of the block, where it wants that back too."""
    origin: str = ""


class ToolCallPart(_Part):
    """A call the model asked for; `arguments` is the JSON text exactly as the model wrote it."""

    type: Literal["tool_call"] = "tool_call"
    id: str
    name: str
    arguments: str


class ToolResultPart(_Part):
    """The answer to a call."""

    type: Literal["tool_result"] = "tool_result"
    call_id: str
    name: str
    text: str
    is_error: bool = False


Part = Annotated[TextPart | ImagePart | ReasoningPart | ToolCallPart | ToolResultPart, Field(discriminator="type")]


class Message(BaseModel):
    """One message of a transcript. A tool message holds the results of one assistant message, in call order."""

    model_config = ConfigDict(frozen=True)

    role: Role
    parts: tuple[Part, ...]

    @classmethod
    def user(cls, text: str) -> Message:
        """Build a user message of one text."""
        return cls(role=Role.USER, parts=(TextPart(text=text),))

    @classmethod
    def assistant(cls, text: str) -> Message:
        """Build an assistant message of one text."""
        return cls(role=Role.ASSISTANT, parts=(TextPart(text=text),))

    def text(self) -> str:
        """Return all text parts, joined."""
        return "".join(p.text for p in self.parts if isinstance(p, TextPart))

    def tool_calls(self) -> list[ToolCallPart]:
        """Return the calls in this message, in order."""
        return [p for p in self.parts if isinstance(p, ToolCallPart)]


class Usage(BaseModel):
    """Tokens of one or many model calls, and what they cost.

    `input_tokens` counts cached ones too; `cost_nano_usd` is in billionths of a US dollar and a lower bound when
    `unpriced_calls` is not 0: that many calls were of models whose price nobody knows.
    """

    model_config = ConfigDict(frozen=True)

    input_tokens: int = 0
    output_tokens: int = 0
    cached_input_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    model_calls: int = 0
    unpriced_calls: int = 0
    cost_nano_usd: int = 0

    def __add__(self, other: Usage) -> Usage:
        """Add two usages, field by field."""
        return Usage(**{name: getattr(self, name) + getattr(other, name) for name in type(self).model_fields})


class ToolSpec(BaseModel):
    """A tool as the model sees it; `parameters` is a JSON Schema object."""

    model_config = ConfigDict(frozen=True)

    name: str
    description: str
    parameters: dict[str, object]
