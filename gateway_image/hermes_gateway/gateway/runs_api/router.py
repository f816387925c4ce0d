"""Routes of the runs API, and of what clients ask before they call."""

from __future__ import annotations

from fastapi import APIRouter, Response

from hermes_gateway.gateway.openai_api.shape import CallHeadersOf
from hermes_gateway.gateway.runs_api.approving import RunApproval, RunApproved
from hermes_gateway.gateway.runs_api.protocol import (
    ENDPOINTS,
    FEATURES,
    Capabilities,
    Run,
    RunRequest,
    RunStarted,
    RunTold,
    Steering,
)
from hermes_gateway.gateway.runs_api.service import RunsService
from hermes_gateway.gateway.web.callers import ChatCaller, IdempotencyKey, Problem, Trace, problems
from hermes_gateway.gateway.web.sse import EventStream
from hermes_service import tracing

_EVENTS: Problem = {
    **problems(404, 503),
    200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}, "description": "Events"},
}


def build_router(runs: RunsService) -> APIRouter:
    """Build the routes."""
    router = APIRouter(prefix="/v1", tags=["Runs"])

    @router.get("/capabilities", responses=problems())
    async def capabilities(caller: ChatCaller) -> Capabilities:
        """Say what this server can do."""
        return Capabilities(model=caller.profiles[0], models=list(caller.profiles), features=FEATURES, endpoints=ENDPOINTS)

    @router.post("/runs", status_code=202, responses=problems(404, 409, 413, 429, 503))
    async def start_run(body: RunRequest, caller: ChatCaller, headers: CallHeadersOf, response: Response) -> RunStarted:
        """Start a run; its id comes at once, when its message is on disk."""
        started = await runs.start(caller, body, headers)
        response.headers.update(headers.answer(started.record.client_id, started.record.sid, started.record.update_id))
        if started.repeated:
            response.headers["Idempotent-Replayed"] = "true"
        return RunStarted(run_id=started.record.id, session_id=started.record.client_id)

    @router.get("/runs/{run_id}", responses=problems(404, 503))
    async def get_run(run_id: str, caller: ChatCaller) -> Run:
        """Show a run."""
        return await runs.get(caller, run_id)

    @router.get("/runs/{run_id}/events", response_class=Response, responses=_EVENTS)
    async def watch_run(run_id: str, caller: ChatCaller) -> Response:
        """Watch a run until it ends: server-sent events."""
        record, call = await runs.watch(caller, run_id)
        return EventStream(runs.frames(record, call), close=call.close)

    @router.post("/runs/{run_id}/stop", responses=problems(404, 409, 503))
    async def stop_run(run_id: str, caller: ChatCaller, idempotency_key: IdempotencyKey = None) -> RunTold:
        """Stop a run."""
        return await runs.stop(caller, run_id, idempotency_key)

    @router.post("/runs/{run_id}/steer", responses=problems(404, 409, 503))
    async def steer_run(run_id: str, body: Steering, caller: ChatCaller, idempotency_key: IdempotencyKey = None) -> RunTold:
        """Tell a run something without ending it: the model reads it after its next tool result."""
        return await runs.steer(caller, run_id, body.text, idempotency_key)

    @router.post("/runs/{run_id}/approval", responses=problems(404, 409, 503))
    async def answer_run(run_id: str, body: RunApproval, caller: ChatCaller, traceparent: Trace = None) -> RunApproved:
        """Answer what a run asks; the first answer counts, and saying the same again is the same answer."""
        return await runs.approve(caller, run_id, body, tracing.accept(traceparent))

    return router
