"""Reads a webhook's body: JSON or a form, which kind of event it is, and which delivery. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl

from hermes_contracts.access import SignatureStyle
from hermes_gateway.gateway.web.errors import ApiError

DELIVERY_ID = "Hermes-Delivery-Id"
_MAX_FIELDS = 200
_DELIVERY_HEADERS = {
    "hermes": (DELIVERY_ID, "Idempotency-Key"),
    "github": ("X-GitHub-Delivery",),
    "standard": ("webhook-id",),
}

Headers = Mapping[str, str]


@dataclass(frozen=True)
class Payload:
    """A body. `value` is None when it is neither JSON nor a form; then only `raw` says anything."""

    raw: str
    value: object

    def string_at(self, *path: str) -> str:
        """Return a text at a path of object keys; empty when there is none."""
        found = self.value
        for key in path:
            found = found.get(key) if isinstance(found, dict) else None
        return found if isinstance(found, str) else ""


def read_payload(body: bytes, content_type: str) -> Payload:
    """Read a body. A form with a field `payload` is the JSON in it, as GitHub and Slack send it. Raises ApiError 400."""
    try:
        raw = body.decode()
    except UnicodeDecodeError as error:
        raise ApiError(400, "the body is not UTF-8 text", code="invalid_value") from error
    value = _json(raw)
    # Whoever posts JSON with curl calls it a form without knowing so.
    if value is not None or content_type.partition(";")[0].strip().lower() != "application/x-www-form-urlencoded":
        return Payload(raw, value)
    try:
        fields: dict[str, object] = dict(parse_qsl(raw, keep_blank_values=True, max_num_fields=_MAX_FIELDS))
    except ValueError as error:
        raise ApiError(400, f"the form has more than {_MAX_FIELDS} fields", code="invalid_value") from error
    inner = fields.get("payload")
    value = _json(inner) if isinstance(inner, str) else None
    return Payload(raw, fields if value is None else value)


def event_of(style: SignatureStyle, headers: Headers, payload: Payload) -> str:
    """Return the kind of event, `pull_request.opened` say; empty when the sender names none."""
    if style == "github":
        action = payload.string_at("action")
        return ".".join(part for part in (headers.get("X-GitHub-Event", ""), action) if part)
    if style == "slack":
        return payload.string_at("event", "type") or payload.string_at("command") or payload.string_at("type")
    return payload.string_at("type")


def is_wanted(event: str, wanted: tuple[str, ...]) -> bool:
    """Tell whether a filter takes an event: by its whole name, or by what it begins with up to a dot."""
    return not wanted or any(event == one or event.startswith(one + ".") for one in wanted)


def delivery_id(style: SignatureStyle, headers: Headers, body: bytes, payload: Payload) -> str:
    """Return the sender's id of a delivery, the same when it sends it again. Raises ApiError 400 when there must be one.

    Slack gives events an id, and commands and presses none: these are known by what was signed.
    """
    if style == "stripe":
        found = payload.string_at("id")
        name = "id"
    elif style == "slack":
        signed = headers.get("X-Slack-Request-Timestamp", "").encode() + b":" + body
        return payload.string_at("event_id") or "slack-" + hashlib.sha256(signed).hexdigest()
    else:
        names = _DELIVERY_HEADERS[style]
        found = next((headers[name] for name in names if name in headers), "")
        name = names[0]
    if not found:
        needed = f"{name} is required: the sender's own id of this delivery, the same when it tries again"
        raise ApiError(400, needed, code="missing_header", param=name)
    return found


def _json(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
