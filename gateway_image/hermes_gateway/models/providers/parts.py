"""What every wire shares on the way out: ids, pictures, arguments, whose thoughts go back. Pure and deterministic."""

from __future__ import annotations

import hashlib
import json
import math
import re
from base64 import b64encode
from collections.abc import Mapping

from hermes_contracts.conversation import ImagePart, Message, Part, ReasoningPart
from hermes_contracts.model_api import ModelRequest
from hermes_gateway.models.providers.shapes import Json
from hermes_gateway.models.target import Medium, Target

IMAGE_MISSING = "[A picture was here. It cannot be read any more.]"
NO_OUTPUT = "(no output)"
_NOT_IN_IDS = re.compile(r"[^a-zA-Z0-9_-]")


def wire_id(identity: str, limit: int = 64) -> str:
    """Return a call's id as every API takes it: another provider may have made it. Mostly it is returned as it is."""
    plain = _NOT_IN_IDS.sub("_", identity)
    if plain == identity and 0 < len(plain) <= limit:
        return identity
    return f"{plain[: limit - 9]}_{hashlib.sha256(identity.encode()).hexdigest()[:8]}"


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError("not a number that JSON can hold")
    return value


_DECODER = json.JSONDecoder(parse_constant=_finite, parse_float=_finite)


def arguments_object(arguments: str) -> Json:
    """Return arguments as the object that an API wants; what cannot be one is shown to the model as it wrote it."""
    try:
        value = _DECODER.decode(arguments or "{}")
        if "\\ud" in arguments.lower():
            json.dumps(value, ensure_ascii=False).encode()  # half of a pair of escapes is no text that can be sent
    except (ValueError, RecursionError):
        value = None
    return value if isinstance(value, dict) else {"invalid_json": arguments}


def picture(part: ImagePart, media: Mapping[str, Medium]) -> tuple[str, str] | None:
    """Return media type and base64 text of a picture, or None when its bytes are not there."""
    medium = media.get(part.media_id)
    return None if medium is None else (medium.media_type, b64encode(medium.data).decode("ascii"))


def thoughts_of(part: Part, origin: str) -> ReasoningPart | None:
    """Return the part if it is a thought of the model that is asked now: nobody else may see or could read it."""
    return part if isinstance(part, ReasoningPart) and part.origin == origin else None


def answer_tokens(request: ModelRequest, target: Target) -> int | None:
    """Return the longest answer to ask for; None leaves it to the provider."""
    return request.max_output_tokens or target.max_output_tokens


def texts(message: Message) -> str:
    """Return a message's texts, a line each."""
    return "\n".join(part.text for part in message.parts if part.type == "text")
