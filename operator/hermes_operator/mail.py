"""Messages that wait on the bus or were given up: reads them, takes them away, puts a dead letter back."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from nats.aio.client import Client
from nats.errors import Error as NatsError
from nats.js.errors import KeyNotFoundError, NotFoundError
from pydantic import ValidationError

from hermes_contracts import subjects
from hermes_contracts.envelopes import HEADER_MESSAGE_ID, HEADER_ROUTE, HEADER_SIGNATURE, Inbound, Route, message_id
from hermes_operator.bus import bus_api, unavailable
from hermes_service.signing import Signer, Verifier

_TIMEOUT_SECONDS = 5.0


@dataclass(frozen=True)
class Waiting:
    """A message that waits. `route` is None when the gateway did not sign it, or not for this session."""

    sequence: int
    at: float
    """Seconds since the epoch when the bus took it."""
    route: Route | None
    body: bytes

    def inbound(self) -> Inbound | None:
        """Return what a person wrote, or None for what is no message."""
        try:
            return Inbound.model_validate_json(self.body) if self.route is not None else None
        except ValidationError:
            return None


@dataclass(frozen=True)
class DeadLetter:
    """A message that was given up, as the store wrote it down."""

    sequence: int
    at: float
    reason: str
    inbound: Inbound


class Mail:
    """Every failure is a HermesError UNAVAILABLE."""

    def __init__(self, client: Client, verifier: Verifier) -> None:
        self._client = client
        self._js = client.jetstream(timeout=_TIMEOUT_SECONDS)
        self._verifier = verifier

    async def waiting(self, sid: str) -> AsyncIterator[Waiting]:
        """Yield a session's messages, oldest first."""
        subject, stream = subjects.inbound(sid), subjects.in_stream(sid)
        async for message in self._messages(stream, subject):
            headers = message.headers or {}
            text, data = headers.get(HEADER_ROUTE, ""), message.data or b""
            identity, signature = headers.get(HEADER_MESSAGE_ID, ""), headers.get(HEADER_SIGNATURE, "")
            route = None
            if self._verifier.verify(signature, subject, identity, text, data):
                signed = Route.model_validate_json(text)
                route = signed if signed.sid == sid else None
            yield Waiting(message.seq, message.time.timestamp(), route, data)

    async def oldest(self, sid: str) -> float | None:
        """Return when the bus took a session's first waiting message, in seconds since the epoch; None without one."""
        async for message in self._messages(subjects.in_stream(sid), subjects.inbound(sid)):
            return float(message.time.timestamp())
        return None

    async def _messages(self, stream: str, subject: str) -> AsyncIterator[Any]:
        sequence = 1
        while True:
            try:
                message = await self._js.get_msg(stream, seq=sequence, subject=subject, next=True)
            except (NotFoundError, KeyNotFoundError):
                return
            except (NatsError, TimeoutError) as error:
                raise unavailable(error) from error
            yield message
            sequence = (message.seq or sequence) + 1

    async def remove(self, stream: str, sequence: int) -> None:
        """Delete one message; harmless when it is gone."""
        try:
            await self._js.delete_msg(stream, sequence)
        except NotFoundError:
            return
        except (NatsError, TimeoutError) as error:
            # The server says "no message found" under a code that the library knows no exception for.
            if "no message found" in str(error).lower():
                return
            raise unavailable(error) from error

    async def purge(self, sid: str) -> None:
        """Delete everything that the bus holds of a session: waiting messages, events, dead letters."""
        places = (
            (subjects.in_stream(sid), subjects.inbound(sid)),
            (subjects.EVENTS_STREAM, subjects.event(sid)),
            (subjects.DEAD_STREAM, subjects.dead(sid)),
        )
        for stream, subject in places:
            await bus_api(self._client, f"STREAM.PURGE.{stream}", {"filter": subject})

    async def dead_counts(self) -> dict[str, int]:
        """Return the number of dead letters by session id."""
        found: dict[str, int] = {}
        while True:
            request = {"subjects_filter": subjects.dead("*"), "offset": len(found)}
            body = await bus_api(self._client, f"STREAM.INFO.{subjects.DEAD_STREAM}", request)
            page = body["state"].get("subjects") or {}
            found.update({subject.rpartition(".")[2]: count for subject, count in page.items()})
            if not page or len(found) >= body.get("total", 0):
                return found

    async def dead_letters(self, sid: str) -> list[DeadLetter]:
        """Return a session's dead letters, oldest first; what cannot be read is left out."""
        found = []
        async for message in self._messages(subjects.DEAD_STREAM, subjects.dead(sid)):
            try:
                document = json.loads(message.data or b"")
                inbound = Inbound.model_validate(document["inbound"])
            except (ValueError, KeyError, TypeError):
                continue
            found.append(DeadLetter(message.seq, message.time.timestamp(), str(document.get("reason", "")), inbound))
        return found

    async def send_again(self, letter: DeadLetter, route: Route, signer: Signer) -> str:
        """Publish a dead letter as a new message and delete the letter; returns its new update id.

        The old id stays what it is: a turn that is dead. Doing this twice with one letter sends it once.
        """
        update_id = f"{letter.inbound.update_id[:180]}/again-{letter.sequence}"
        inbound = letter.inbound.model_copy(update={"update_id": update_id})
        subject, body = subjects.inbound(inbound.sid), inbound.model_dump_json().encode()
        identity = message_id(inbound.sid, inbound.channel, inbound.account, update_id)
        facts = route.model_dump_json()
        headers = {
            HEADER_MESSAGE_ID: identity,
            HEADER_ROUTE: facts,
            HEADER_SIGNATURE: signer.sign(subject, identity, facts, body),
        }
        try:
            await self._js.publish(subject, body, headers=headers)
        except (NatsError, TimeoutError) as error:
            raise unavailable(error) from error
        await self.remove(subjects.DEAD_STREAM, letter.sequence)
        return update_id
