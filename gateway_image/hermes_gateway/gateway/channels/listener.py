"""The public listener: what platforms post, to the channel whose address it is."""

from __future__ import annotations

from collections.abc import Sequence

import structlog
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route as HttpRoute
from starlette.types import ASGIApp, Scope

from hermes_gateway.gateway.channels.base import Door
from hermes_gateway.gateway.web.errors import ApiError
from hermes_gateway.gateway.web.limits import Guard

log = structlog.get_logger()


def build_listener(doors: Sequence[Door], *, max_bytes: int, timeout_seconds: float) -> ASGIApp:
    """Build the application. What is nobody's address is refused before its body is read."""

    def gate(scope: Scope) -> None:
        if scope["path"] != "/health" and not any(door.serves(scope["path"]) for door in doors):
            raise ApiError(404, "no such webhook", code="not_found")

    app = Starlette(
        routes=[HttpRoute("/health", _health, methods=["GET"]), *(route for door in doors for route in door.routes())],
        exception_handlers={ApiError: _on_api_error, HTTPException: _on_http_error, Exception: _on_bug},
    )
    app.router.redirect_slashes = False
    return Guard(app, listener="webhooks", max_bytes=max_bytes, timeout_seconds=timeout_seconds, gate=gate)


async def _health(_: Request) -> Response:
    return JSONResponse({"status": "ok"})


async def _on_api_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, ApiError)
    return error.response()


async def _on_http_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return ApiError(error.status_code, str(error.detail)).response(error.headers)


async def _on_bug(_: Request, error: Exception) -> Response:
    log.error("http.failed", exc_info=error)
    return ApiError(500, "the gateway failed to handle the request", code="internal").response()
