"""Routes of the scripted model."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections import deque
from dataclasses import asdict
from urllib.parse import unquote

from pydantic import ValidationError

from scripted_model import asked as requests
from scripted_model.asked import Asked, BadRequest, Format
from scripted_model.choose import choose
from scripted_model.http_server import Connection, Request
from scripted_model.memory import MAX_REQUESTS, Memory, Seen
from scripted_model.pieces import encode
from scripted_model.play import play
from scripted_model.provider_errors import ProviderError, error_body, error_headers
from scripted_model.script import MatchedScript, explain

MAX_SCRIPT_BYTES = 256 * 1024
MODEL = "scripted"
_JSON = {"content-type": "application/json"}
_MODEL_PATHS: dict[str, Format] = {
    "/v1/chat/completions": "openai",
    "/chat/completions": "openai",
    "/v1/responses": "responses",
    "/responses": "responses",
    "/v1/messages": "anthropic",
}
_CONVERSE = re.compile(r"/model/([^/]+)/converse(-stream)?")


class Server:
    """Answers model requests, and what tests ask about them."""

    def __init__(self, *, keep_requests: bool = False) -> None:
        self.memory = Memory(kept=deque(maxlen=MAX_REQUESTS) if keep_requests else None)

    async def handle(self, request: Request, connection: Connection) -> None:
        """Answer one request."""
        kind = "bedrock" if _CONVERSE.fullmatch(request.path) else _MODEL_PATHS.get(request.path)
        if kind is not None and request.method == "POST":
            await self._answer(request, kind, connection)
            return
        status, body = self._manage(request)
        connection.send(status, _JSON, encode(body) + b"\n")

    async def _answer(self, request: Request, kind: Format, connection: Connection) -> None:
        if self.memory.kept is not None:
            self.memory.kept.append(request)
        if kind == "bedrock" and not _is_signed(request):
            unsigned = ProviderError(403, "MissingAuthenticationTokenException", "Missing Authentication Token")
            connection.send(403, {**_JSON, **error_headers(unsigned, kind)}, encode(error_body(unsigned, kind, "")))
            return
        try:
            asked = _read(request, kind)
        except BadRequest as problem:
            error = ProviderError(400, "ValidationException" if kind == "bedrock" else "invalid_request_error", str(problem))
            connection.send(400, {**_JSON, **error_headers(error, kind)}, encode(error_body(error, kind, "")))
            return
        seen = self._note(request, asked, connection.peer)
        try:
            await play(choose(asked, self.memory), asked, connection, seen)
        except asyncio.CancelledError:
            seen.outcome = "disconnected"
            raise
        finally:
            seen.prefix = requests.prefix_hashes(asked.body, kind)

    def _note(self, request: Request, asked: Asked, peer: str) -> Seen:
        self.memory.total += 1
        seen = Seen(
            number=self.memory.total,
            format=asked.format,
            path=request.path,
            model=asked.model,
            stream=asked.stream,
            step=asked.step,
            sha256=asked.digest,
            bytes=asked.size,
            header_names=sorted(request.headers),
            peer=peer,
        )
        self.memory.requests.append(seen)
        return seen

    def _manage(self, request: Request) -> tuple[int, object]:
        match (request.method, request.path):
            case ("GET", "/v1/models" | "/models"):
                model = {"id": MODEL, "object": "model", "created": 1_700_000_000, "owned_by": "hermes"}
                return 200, {"object": "list", "data": [model]}
            case ("GET", "/requests"):
                return 200, {"total": self.memory.total, "requests": [asdict(seen) for seen in self.memory.requests]}
            case ("POST", "/script"):
                return self._put(request.body)
            case ("DELETE", "/script" | "/requests"):
                self.memory.clear()
                return 200, {}
            case ("GET", "/livez" | "/readyz"):
                return 200, {"status": "ok"}
        return 404, {"error": {"message": f"Unknown request URL: {request.method} {request.path}", "type": "not_found"}}

    def _put(self, body: bytes) -> tuple[int, object]:
        if len(body) > MAX_SCRIPT_BYTES:
            return 413, {"error": {"message": f"a script has at most {MAX_SCRIPT_BYTES} bytes"}}
        try:
            script = MatchedScript.model_validate(json.loads(body))
        except ValidationError as error:
            return 422, {"error": {"message": explain(error)}}
        except ValueError as error:
            return 400, {"error": {"message": f"not JSON: {error}"}}
        if not script.id:
            script = script.model_copy(update={"id": hashlib.sha256(body).hexdigest()[:16]})
        self.memory.put(script)
        return 200, {"id": script.id}


def _read(request: Request, kind: Format) -> Asked:
    found = _CONVERSE.fullmatch(request.path)
    if found is None:
        return requests.parse(request.body, kind)
    return requests.parse(request.body, kind, model=unquote(found[1]), stream=found[2] is not None)


def _is_signed(request: Request) -> bool:
    """Tell whether a request has a signature or a key; neither is checked."""
    shown = request.headers.get("authorization", "")
    signed = shown.startswith("AWS4-HMAC-SHA256 ") and "Signature=" in shown and "x-amz-date" in request.headers
    return signed or shown.startswith("Bearer ")
