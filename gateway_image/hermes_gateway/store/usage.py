"""Token counts: how rows hold them, and the ledger of every model call, failed and repeated ones included."""

from __future__ import annotations

from dataclasses import dataclass

from hermes_contracts.conversation import Usage
from hermes_contracts.store_api import Empty, RecordUsageRequest
from hermes_gateway.store.answers import storable
from hermes_gateway.store.database import Database, Row, Scope, Transaction
from hermes_service.rpc import Caller

_INSERT = """
insert into usage (sid, turn_id, step, call_id, epoch, provider, model, outcome, milliseconds,
    input_tokens, output_tokens, cached_input_tokens, reasoning_tokens, model_calls)
values (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s) on conflict do nothing
"""


def usage_values(usage: Usage) -> tuple[int, int, int, int, int]:
    """Return a usage in the order of the tables' columns."""
    return (
        usage.input_tokens, usage.output_tokens, usage.cached_input_tokens, usage.reasoning_tokens, usage.model_calls,
    )  # fmt: skip


def usage_of(row: Row) -> Usage:
    """Read a usage from a row."""
    return Usage(**{name: row[name] for name in Usage.model_fields})


@dataclass(frozen=True)
class UsageLedger:
    """Handler of `record_usage`."""

    database: Database

    async def record(self, _: Caller, request: RecordUsageRequest) -> Empty:
        """Write one model call. Independent of epochs: what was spent was spent."""
        words = (request.provider, request.model, request.outcome)
        values = (
            request.sid,
            storable(request.turn_id[:100]),
            request.step,
            storable(request.call_id[:200]),
            request.epoch,
            *(storable(word[:200]) for word in words),
            request.milliseconds,
            *usage_values(request.usage),
        )

        async def work(transaction: Transaction) -> Empty:
            await transaction.commit((_INSERT, values))
            return Empty()

        return await self.database.run(Scope(sid=request.sid), work)
