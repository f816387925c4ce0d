"""docs/openapi.json: the API as the gateway describes it at /openapi.json."""

from __future__ import annotations

import json
from typing import Any, cast

from hermes_gateway.gateway import health
from hermes_gateway.gateway.api import build_application
from hermes_gateway.gateway.bindings.router import build_router as bindings_router
from hermes_gateway.gateway.jobs.router import build_router as jobs_router
from hermes_gateway.gateway.openai_api.router import build_router as openai_router
from hermes_gateway.gateway.people.router import build_router as people_router
from hermes_gateway.gateway.responses_api.router import build_router as responses_router
from hermes_gateway.gateway.runs_api.router import build_router as runs_router
from hermes_gateway.gateway.sessions_api.approvals import build_router as approvals_router
from hermes_gateway.gateway.sessions_api.conversations import build_router as conversations_router
from hermes_gateway.gateway.sessions_api.files import build_router as files_router
from hermes_gateway.gateway.sessions_api.router import build_events_router, build_router


def files() -> dict[str, str]:
    """Return the generated file. Routes are built without what they need to answer: nothing is asked of them here."""
    nothing = cast(Any, None)
    app = build_application(
        openai_router(nothing, nothing),
        responses_router(nothing),
        runs_router(nothing),
        build_router(nothing),
        approvals_router(nothing, nothing),
        conversations_router(nothing, nothing, nothing, nothing),
        files_router(nothing, nothing),
        jobs_router(nothing),
        people_router(nothing, nothing),
        build_events_router(nothing, nothing, nothing, nothing, nothing, heartbeat_seconds=15),
        health.build_router(nothing),
        bindings_router(nothing),
    )
    return {"docs/openapi.json": json.dumps(app.openapi(), indent=2, ensure_ascii=False, sort_keys=True) + "\n"}
