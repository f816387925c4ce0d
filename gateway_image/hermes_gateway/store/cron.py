"""What the operator asks about a scheduled job: how its runs ended, and what it said last."""

from __future__ import annotations

from dataclasses import dataclass

from hermes_contracts.store_api import CronTurn, CronTurns, CronTurnsRequest, TurnState
from hermes_gateway.store.database import Database, Row, Scope, Transaction
from hermes_service.rpc import Caller

MAX_ANSWER_CHARACTERS = 8_000
"""Longest answer that another job is given; the end of a longer one is left out."""

_TURNS = """
select t.sid, t.update_id, t.state, t.reason, extract(epoch from t.opened_at)::float8 as opened_at,
    count(d.part) as parts, count(d.part) filter (where d.state = 'delivered') as delivered,
    count(d.part) filter (where d.state = 'failed') as undeliverable
from turns t left join deliveries d using (sid, turn_id)
where t.channel = 'cron' and t.account = %s and t.update_id = any(%s)
group by t.sid, t.turn_id
"""
_COUNTS = """
select count(*) filter (where state in ('done', 'merged')) as succeeded,
    count(*) filter (where state in ('failed', 'dead')) as failed
from turns where channel = 'cron' and account = %s
"""
_ANSWER = """
select left(reply, %s::integer) as reply from turns
where channel = 'cron' and account = %s and state = 'done' and reason not in ('silent', 'not_woken', 'stopped_by_user')
order by settled_at desc limit 1
"""


@dataclass(frozen=True)
class CronRuns:
    """Handler of `cron_turns`."""

    database: Database

    async def turns(self, _: Caller, request: CronTurnsRequest) -> CronTurns:
        """Return the asked runs that were opened, how many ended how, and the last answer."""
        job = request.job_uid

        async def work(transaction: Transaction) -> CronTurns:
            turns, counts, answers = await transaction.commit(
                (_TURNS, (job, list(request.runs))), (_COUNTS, (job,)), (_ANSWER, (MAX_ANSWER_CHARACTERS, job))
            )
            return CronTurns(
                turns=tuple(map(_turn, turns)),
                succeeded=counts[0]["succeeded"],
                failed=counts[0]["failed"],
                answer=answers[0]["reply"] if answers else "",
            )

        return await self.database.run(Scope(task=f"job:{job}"), work)


def _turn(row: Row) -> CronTurn:
    return CronTurn(
        sid=row["sid"],
        run=row["update_id"],
        state=TurnState(row["state"]),
        reason=row["reason"],
        opened_at=row["opened_at"],
        delivered=row["delivered"],
        undeliverable=row["undeliverable"],
        parts=row["parts"],
    )
