"""Errors as HTTP answers, always in the shape OpenAI's clients read: `{"error": {message, type, param, code}}`."""

from __future__ import annotations

import math
from collections.abc import Mapping

import structlog
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse

from hermes_contracts.errors import ErrorCode, HermesError

log = structlog.get_logger()

_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "invalid_request_error",
    405: "invalid_request_error",
    408: "invalid_request_error",
    409: "invalid_request_error",
    413: "invalid_request_error",
    429: "rate_limit_error",
}
_STATUS = {
    ErrorCode.INVALID: 400,
    ErrorCode.UNAUTHENTICATED: 401,
    ErrorCode.FORBIDDEN: 403,
    ErrorCode.NOT_FOUND: 404,
    ErrorCode.CONFLICT: 409,
    ErrorCode.TOO_LARGE: 413,
    ErrorCode.UNAVAILABLE: 503,
    ErrorCode.TIMEOUT: 504,
    ErrorCode.NOT_CONFIGURED: 503,
    ErrorCode.RATE_LIMIT: 429,
}
_DEFAULT_RETRY_SECONDS = 2.0


class ErrorDetail(BaseModel):
    """What went wrong."""

    message: str
    type: str
    param: str | None = None
    code: str | None = None


class ErrorAnswer(BaseModel):
    """Body of every answer that is not 2xx."""

    error: ErrorDetail


class ApiError(Exception):
    """An answer that is not 2xx. `retry_after_seconds` becomes the header; `final` asks clients not to retry."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str | None = None,
        param: str | None = None,
        retry_after_seconds: float | None = None,
        final: bool = False,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code
        self.param = param
        self.retry_after_seconds = retry_after_seconds
        self.final = final

    def detail(self) -> ErrorDetail:
        """Return the error as it is shown."""
        kind = _TYPES.get(self.status, "server_error" if self.status >= 500 else "invalid_request_error")
        return ErrorDetail(message=self.message, type=kind, param=self.param, code=self.code)

    def response(self, headers: Mapping[str, str] | None = None) -> JSONResponse:
        """Render the answer."""
        all_headers = dict(headers or {})
        if self.retry_after_seconds is not None:
            all_headers["Retry-After"] = str(max(1, math.ceil(self.retry_after_seconds)))
        if self.status == 401:
            all_headers["WWW-Authenticate"] = "Bearer"
        if self.final:
            # OpenAI's clients repeat a 409 and every 5xx by themselves; a repeated message would be a second turn.
            all_headers["X-Should-Retry"] = "false"
        return JSONResponse(ErrorAnswer(error=self.detail()).model_dump(), self.status, headers=all_headers)


def from_hermes(error: HermesError) -> ApiError:
    """Translate an error of ours; codes that are not a caller's business become a plain 500."""
    status = _STATUS.get(error.code)
    if status is None:
        log.error("http.unexpected_error", code=error.code, message=error.message[:300])
        return ApiError(500, "the gateway failed to handle the request", code="internal")
    retry = error.retry_after_seconds if status in (429, 503) else None
    if status == 503 and retry is None:
        retry = _DEFAULT_RETRY_SECONDS
    return ApiError(status, error.message, code=str(error.code), retry_after_seconds=retry)


def from_validation(error: RequestValidationError) -> ApiError:
    """Name the first field that is wrong, without its value."""
    first = error.errors()[0]
    path = [str(part) for part in first["loc"] if part != "body"]
    if first["type"] == "json_invalid":
        return ApiError(400, "the request body is not valid JSON", code="invalid_json")
    where = ".".join(path)
    return ApiError(400, f"{where or 'body'}: {first['msg']}", code="invalid_value", param=where or None)


def install(app: FastAPI) -> None:
    """Make every error of an application answer in this shape."""

    async def on_api_error(_: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, ApiError)
        return error.response()

    async def on_hermes_error(_: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, HermesError)
        return from_hermes(error).response()

    async def on_invalid(_: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, RequestValidationError)
        return from_validation(error).response()

    async def on_http_error(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, HTTPException)
        message = f"no such address: {request.url.path[:200]}" if error.status_code == 404 else str(error.detail)
        return ApiError(error.status_code, message).response(error.headers)

    async def on_bug(_: Request, error: Exception) -> JSONResponse:
        log.error("http.failed", exc_info=error)
        return ApiError(500, "the gateway failed to handle the request", code="internal").response()

    app.add_exception_handler(ApiError, on_api_error)
    app.add_exception_handler(HermesError, on_hermes_error)
    app.add_exception_handler(RequestValidationError, on_invalid)
    app.add_exception_handler(HTTPException, on_http_error)
    app.add_exception_handler(Exception, on_bug)
