"""From a bus message to what a person wrote, believed only with the gateway's signature."""

from __future__ import annotations

from typing import Protocol

import structlog
from nats.aio.msg import Msg
from pydantic import ValidationError

from hermes_contracts import subjects
from hermes_contracts.envelopes import HEADER_MESSAGE_ID, HEADER_ROUTE, HEADER_SIGNATURE, Inbound

log = structlog.get_logger()


class SignatureCheck(Protocol):
    """`hermes_service.signing.Verifier`."""

    def verify(self, signature: str, subject: str, message_id: str, route: str, body: bytes) -> bool:
        """Tell whether the signature is the gateway's."""
        ...


def open_envelope(message: Msg, verifier: SignatureCheck, sid: str) -> Inbound | None:
    """Return the message, or None when it is not the gateway's, not this session's or malformed: it is then discarded."""
    headers = message.headers or {}
    signed = verifier.verify(
        headers.get(HEADER_SIGNATURE, ""),
        message.subject,
        headers.get(HEADER_MESSAGE_ID, ""),
        headers.get(HEADER_ROUTE, ""),
        message.data,
    )
    if not signed or message.subject != subjects.inbound(sid):
        log.warning("message.discarded", reason="not signed by the gateway", subject=message.subject[:100])
        return None
    try:
        inbound = Inbound.model_validate_json(message.data)
    except ValidationError as error:
        log.warning("message.discarded", reason="malformed", problems=error.error_count())
        return None
    if inbound.sid != sid:
        log.warning("message.discarded", reason="for another session")
        return None
    return inbound


def stream_sequence(ack_subject: str) -> int:
    """Return the stream sequence that an acknowledgement subject carries; 0 when it has none.

    `$JS.ACK.<stream>.<consumer>.<delivered>.<stream seq>...`, or with domain and account hash after `$JS.ACK`.
    """
    tokens = ack_subject.split(".")
    index = 5 if len(tokens) == 9 else 7
    return int(tokens[index]) if len(tokens) > index and tokens[index].isdigit() else 0
