"""Sends the message of a run, signed as the gateway signs: an agent believes no other."""

from __future__ import annotations

from nats.errors import Error as NatsError
from nats.js import JetStreamContext

from hermes_contracts import subjects
from hermes_contracts.envelopes import (
    HEADER_MESSAGE_ID,
    HEADER_ROUTE,
    HEADER_SIGNATURE,
    MAX_BODY_BYTES,
    Inbound,
    Route,
    message_id,
)
from hermes_contracts.errors import ErrorCode, HermesError
from hermes_operator.bus import unavailable
from hermes_service.signing import Signer


class Post:
    """Publishes runs."""

    def __init__(self, js: JetStreamContext, signer: Signer) -> None:
        self._js = js
        self._signer = signer

    async def send(self, route: Route, inbound: Inbound) -> None:
        """Return when the bus has the message on disk. Raises HermesError UNAVAILABLE or TOO_LARGE.

        It may be sent again: the store makes one turn of it.
        """
        subject, body = subjects.inbound(route.sid), inbound.model_dump_json().encode()
        if len(body) > MAX_BODY_BYTES:
            raise HermesError(ErrorCode.TOO_LARGE, f"the run's message is larger than {MAX_BODY_BYTES} bytes")
        identity = message_id(route.sid, inbound.channel, inbound.account, inbound.update_id)
        facts = route.model_dump_json()
        headers = {
            HEADER_MESSAGE_ID: identity,
            HEADER_ROUTE: facts,
            HEADER_SIGNATURE: self._signer.sign(subject, identity, facts, body),
        }
        try:
            await self._js.publish(subject, body, headers=headers)
        except (NatsError, TimeoutError) as error:
            raise unavailable(error) from error
