"""Who calls, for the handlers of the API: the gate puts the key's record into the request, handlers take it from there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from fastapi import Depends, Header, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.types import Scope as AsgiScope

from hermes_contracts.access import ApiKeyRecord, Scope
from hermes_gateway.gateway.access import Keyring, require_scope
from hermes_gateway.gateway.web.errors import ErrorAnswer
from hermes_gateway.gateway.web.limits import header

PUBLIC_PATHS = frozenset({"/health", "/v1/health", "/openapi.json"})

_scheme = HTTPBearer(auto_error=False, scheme_name="apiKey", description="An API key of this installation")

Problem = dict[int | str, dict[str, Any]]


def problems(*statuses: int) -> Problem:
    """Describe error answers in the OpenAPI document."""
    return {status: {"model": ErrorAnswer} for status in (400, 401, 403, *statuses)}


def gate(keyring: Callable[[], Keyring]) -> Callable[[AsgiScope], None]:
    """Refuse requests without a valid key, before their body is read."""

    def check(scope: AsgiScope) -> None:
        if scope["path"] not in PUBLIC_PATHS:
            scope.setdefault("state", {})["caller"] = keyring().authenticate(header(scope, b"authorization"))

    return check


def caller_with(scope: Scope) -> Callable[..., Awaitable[ApiKeyRecord]]:
    """Return a dependency that gives the caller's key, if it has a scope."""

    # Asynchronous though it awaits nothing: the framework sends every other dependency through a thread, which costs a call
    # more than all the rest of what is done here.
    async def dependency(
        request: Request, _: Annotated[HTTPAuthorizationCredentials | None, Depends(_scheme)]
    ) -> ApiKeyRecord:
        caller: ApiKeyRecord = request.state.caller
        require_scope(caller, scope)
        return caller

    return dependency


async def any_caller(request: Request, _: Annotated[HTTPAuthorizationCredentials | None, Depends(_scheme)]) -> ApiKeyRecord:
    """Give the caller's key, whatever its scopes."""
    caller: ApiKeyRecord = request.state.caller
    return caller


ChatCaller = Annotated[ApiKeyRecord, Depends(caller_with("chat"))]
SessionsCaller = Annotated[ApiKeyRecord, Depends(caller_with("sessions"))]
AnyCaller = Annotated[ApiKeyRecord, Depends(any_caller)]

IdempotencyKey = Annotated[
    str | None, Header(alias="Idempotency-Key", description="Repeating a call with the same key is the same message")
]
"""An optional Idempotency-Key header."""

Trace = Annotated[str | None, Header(include_in_schema=False)]
"""An optional traceparent header."""
