"""What others say to this agent: hints that commands wait, and orders to this epoch."""

from __future__ import annotations

from collections.abc import Callable

import structlog
from nats.aio.client import Client
from nats.aio.msg import Msg
from pydantic import TypeAdapter, ValidationError

from hermes_agent.settings import ModelsToken
from hermes_contracts import subjects
from hermes_contracts.envelopes import Credentials, Drain, EpochOrder
from hermes_service.bus import BusCredentials

log = structlog.get_logger()

_ORDER: TypeAdapter[EpochOrder] = TypeAdapter(EpochOrder)


class Orders:
    """Listens on the session's and the epoch's control subjects."""

    def __init__(
        self,
        bus: Client,
        credentials: BusCredentials,
        token: ModelsToken,
        *,
        on_commands: Callable[[], None],
        on_drain: Callable[[float], None],
        on_renewal: Callable[[], None],
    ) -> None:
        self._bus = bus
        self._credentials = credentials
        self._token = token
        self._on_commands = on_commands
        self._on_drain = on_drain
        self._on_renewal = on_renewal

    async def start(self, sid: str, epoch: int) -> None:
        """Subscribe."""
        await self._bus.subscribe(subjects.control(sid), cb=self._hint)
        await self._bus.subscribe(subjects.control_epoch(sid, epoch), cb=self._order)

    async def _hint(self, _: Msg) -> None:
        self._on_commands()

    async def _order(self, message: Msg) -> None:
        try:
            order = _ORDER.validate_json(message.data)
        except ValidationError as error:
            log.warning("order.invalid", problems=error.error_count())
            return
        match order:
            case Drain():
                log.info("order.drain", deadline_seconds=order.deadline_seconds)
                self._on_drain(order.deadline_seconds)
            case Credentials():
                log.info("order.credentials")
                self._credentials.jwt = order.bus_jwt
                self._token.value = order.models_token
                self._on_renewal()
