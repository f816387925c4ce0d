"""The application of the API listener."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import APIRouter, FastAPI
from starlette.types import ASGIApp

from hermes_gateway.gateway.access import Keyring
from hermes_gateway.gateway.web import callers, errors
from hermes_gateway.gateway.web.limits import BodyBudget, Guard


def build_application(*routers: APIRouter) -> FastAPI:
    """Assemble the routes; `/openapi.json` describes them."""
    app = FastAPI(
        title="Hermes",
        version="1",
        description="Agents as OpenAI-compatible models, and their sessions. See docs/api.md.",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    errors.install(app)
    for router in routers:
        app.include_router(router)
    describe = app.openapi

    def openapi() -> dict[str, Any]:
        return without_422(describe())

    app.openapi = openapi  # type: ignore[method-assign]  # the framework's own way to change the document
    return app


def without_422(document: dict[str, Any]) -> dict[str, Any]:
    """Remove what the framework assumes of invalid requests: ours answer 400 in the shape of all errors."""
    for path in document["paths"].values():
        for operation in path.values():
            operation["responses"].pop("422", None)
    for name in ("HTTPValidationError", "ValidationError"):
        document.get("components", {}).get("schemas", {}).pop(name, None)
    return document


def guarded(
    app: ASGIApp, keyring: Callable[[], Keyring], *, max_bytes: int, timeout_seconds: float, budget: BodyBudget
) -> ASGIApp:
    """Put the check of keys and the limits in front."""
    gate = callers.gate(keyring)
    return Guard(app, listener="api", max_bytes=max_bytes, timeout_seconds=timeout_seconds, gate=gate, budget=budget)
