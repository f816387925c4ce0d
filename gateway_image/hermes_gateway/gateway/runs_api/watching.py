"""Watches a run through all its turns: the one that was started, and those that answers to its questions began."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing

from hermes_gateway.gateway.approvals.desk import update_id
from hermes_gateway.gateway.openai_api.calls import Call
from hermes_gateway.gateway.responses_api.records import ResponseRecord
from hermes_gateway.gateway.runs_api.approving import RunQuestions
from hermes_gateway.gateway.runs_api.events import RunEvents
from hermes_gateway.gateway.runs_api.standing import ASKED, SILENCE, choice_of
from hermes_gateway.gateway.turns import Answer
from hermes_gateway.gateway.web.sse import HEARTBEAT

Follow = Callable[[ResponseRecord, str], Awaitable[Call]]


class RunWatch:
    """One reader of one run."""

    def __init__(self, record: ResponseRecord, questions: RunQuestions, follow: Follow, heartbeat_seconds: float) -> None:
        self._record = record
        self._questions = questions
        self._follow = follow
        self._heartbeat_seconds = heartbeat_seconds
        self._events = RunEvents(record.id)
        self._answer: Answer | None = None
        self._told: list[str] = []
        self._followed: list[str] = []

    async def frames(self, call: Call) -> AsyncGenerator[bytes, None]:
        """Give out a run's events until it has ended, or nobody may answer any more. Raises HermesError."""
        async for piece in self._turn(call):
            yield piece
        while self._asked():
            questions = await self._questions.of(self._record)
            for approval in questions.waiting:
                if approval.approval_id not in self._told:
                    self._told.append(approval.approval_id)
                    yield self._events.of_question(approval)
            following = questions.next(self._followed)
            if following is None:
                break
            if following.approval_id not in self._told:
                # It was answered before anybody looked; who reads along is told of the question first all the same.
                self._told.append(following.approval_id)
                yield self._events.of_question(following)
            self._events.next_turn()
            call = await self._follow(self._record, update_id(following.approval_id))
            try:
                async with aclosing(self._later(call, following.approval_id)) as pieces:
                    async for piece in pieces:
                        yield piece
            finally:
                await call.close()
        assert self._answer is not None
        for piece in self._events.of_silence(SILENCE) if self._answer.reason == ASKED else self._events.of_end(self._answer):
            yield piece

    def _asked(self) -> bool:
        return self._answer is not None and (self._answer.reason == ASKED or bool(self._told or self._followed))

    async def _turn(self, call: Call) -> AsyncGenerator[bytes, None]:
        def keep(answer: Answer) -> list[bytes]:
            self._answer = answer
            return self._events.of_answer(answer)

        async with aclosing(call.frames(self._heartbeat_seconds, self._events.of_delta, keep)) as frames:
            async for piece in frames:
                yield piece

    async def _later(self, call: Call, approval_id: str) -> AsyncGenerator[bytes, None]:
        """Give out the turn of a question, once it is answered; ends early when another one is to be followed instead."""
        begun = False
        async with aclosing(self._turn(call)) as pieces:
            async for piece in pieces:
                if not begun and piece is HEARTBEAT:
                    following = (await self._questions.of(self._record)).next(self._followed)
                    if following is None or following.approval_id != approval_id:
                        return
                elif not begun:
                    begun = True
                    yield await self._answered(approval_id)
                yield piece
        if not begun:
            yield await self._answered(approval_id)

    async def _answered(self, approval_id: str) -> bytes:
        self._followed.append(approval_id)
        questions = await self._questions.of(self._record)
        choice = next((choice_of(one) for one in questions.answered if one.approval_id == approval_id), "")
        return self._events.of_answered(approval_id, choice)
