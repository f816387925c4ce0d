"""Our requests to Bedrock beside those of AWS' own client: the same path, the same body, the same signature."""

from __future__ import annotations

import asyncio
import datetime
import json
import threading
from base64 import b64decode
from collections.abc import AsyncIterator, Iterator
from contextlib import closing, contextmanager
from typing import Any

import boto3
import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials

from hermes_contracts.conversation import ImagePart, Message, ReasoningPart, Role, TextPart, ToolCallPart, ToolResultPart
from hermes_gateway.models.providers.errors import Reason
from hermes_gateway.models.target import Medium
from scripted_model.http_server import Connection, Request
from scripted_model.server import Server
from tests.integration.models.provider_kit import (
    AWS,
    MODELS,
    TERMINAL,
    Kit,
    ask,
    calls,
    raw_kit,
    script,
    scripted_kit,
    target,
    text,
    thoughts,
)

MODE = "bedrock_converse"
MEDIA_ID = "m" + "a" * 25
MEDIA = {MEDIA_ID: Medium("image/png", b"\x89PNG not really \xff")}
ORIGIN = target(MODE, 1).origin
HISTORY = (
    Message(
        role=Role.USER,
        parts=(TextPart(text="Grüße 🙂"), ImagePart(media_id=MEDIA_ID, media_type="image/png", size=1)),
    ),
    Message(
        role=Role.ASSISTANT,
        parts=(
            ReasoningPart(text="hm", signature="sig", origin=ORIGIN),
            ReasoningPart(text="", data="b3BhcXVl", origin=ORIGIN),
            TextPart(text="I look."),
            ToolCallPart(id="c1", name="terminal", arguments='{"command": "ls", "n": 1.5, "deep": [true, null]}'),
        ),
    ),
    Message(role=Role.TOOL, parts=(ToolResultPart(call_id="c1", name="terminal", text="no", is_error=True),)),
)


@pytest.fixture
async def kit() -> AsyncIterator[Kit]:
    async with scripted_kit() as running:
        yield running


@contextmanager
def aws_client(port: int) -> Iterator[Any]:
    client = boto3.client(
        "bedrock-runtime", region_name=AWS.region, endpoint_url=f"http://127.0.0.1:{port}",
        aws_access_key_id=AWS.access_key_id, aws_secret_access_key=AWS.secret_access_key,
        aws_session_token=AWS.session_token, config=Config(retries={"total_max_attempts": 1}),
    )  # fmt: skip
    with closing(client):
        yield client


def _streamed(client: Any, **request: Any) -> list[Any]:
    with closing(client.converse_stream(**request)["stream"]) as stream:
        return list(stream)


def _with_bytes(value: Any) -> Any:
    """Turn base64 text into the bytes that AWS' client wants to be given."""
    if isinstance(value, list):
        return [_with_bytes(entry) for entry in value]
    if isinstance(value, dict):
        blobs = ("bytes", "redactedContent")
        return {k: b64decode(v) if k in blobs and isinstance(v, str) else _with_bytes(v) for k, v in value.items()}
    return value


def _signature(request: Request, port: int) -> str:
    """Sign a request again as it arrived, at the time it names."""
    shown = request.headers["authorization"]
    signed = shown.partition("SignedHeaders=")[2].partition(",")[0].split(";")
    again = AWSRequest("POST", f"http://127.0.0.1:{port}{request.path}", data=request.body)
    for name in signed:
        if name != "host":
            again.headers[name] = request.headers[name]
    time = request.headers["x-amz-date"]
    signer = SigV4Auth(Credentials(AWS.access_key_id, AWS.secret_access_key, AWS.session_token), "bedrock", AWS.region)
    again.context["timestamp"] = time
    text = signer.string_to_sign(again, signer.canonical_request(again))
    return str(signer.signature(text, again))


async def test_the_same_request_as_from_aws_own_client(kit: Kit) -> None:
    request = ask(*HISTORY, tools=(TERMINAL,), max_output_tokens=8000)
    await kit.events(MODE, request, MEDIA, effort="Low")
    ours = kit.asked()
    body = json.loads(ours.body)

    def call() -> list[Any]:
        with aws_client(kit.port) as client:
            return _streamed(client, modelId=MODELS[MODE], **_with_bytes(body))

    events = await asyncio.to_thread(call)
    theirs = kit.asked()
    assert theirs is not ours and events[-1].keys() == {"metadata"}
    assert ours.path == theirs.path
    assert json.loads(theirs.body) == body, "what AWS' client accepts and writes is what we write"
    assert ours.headers["content-type"] == theirs.headers["content-type"]
    for request_seen in (ours, theirs):
        shown = request_seen.headers["authorization"]
        assert shown.partition("Signature=")[2] == _signature(request_seen, kit.port)
    assert {"host", "x-amz-date", "x-amz-security-token"} <= set(
        ours.headers["authorization"].partition("SignedHeaders=")[2].partition(",")[0].split(";")
    )
    then = datetime.datetime.strptime(ours.headers["x-amz-date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=datetime.UTC)
    assert abs((datetime.datetime.now(datetime.UTC) - then).total_seconds()) < 60


async def test_the_scripted_model_is_read_by_aws_own_client(kit: Kit) -> None:
    step = {
        "reason": "hm", "signature": "sig", "say": "hello 🙂", "calls": [{"name": "f", "arguments": {"a": "ü"}, "id": "c9"}],
        "usage": {"input": 100, "cached": 60, "cache_write": 30, "output": 20},
    }  # fmt: skip
    message = {"role": "user", "content": [{"text": script(step)}]}

    def call() -> tuple[list[Any], Any]:
        with aws_client(kit.port) as client:
            streamed = _streamed(client, modelId="m", messages=[message])
            return streamed, client.converse(modelId="m", messages=[message])

    streamed, whole = await asyncio.to_thread(call)
    deltas = [e["contentBlockDelta"]["delta"] for e in streamed if "contentBlockDelta" in e]
    assert "".join(d.get("text", "") for d in deltas) == "hello 🙂"
    assert {"reasoningContent": {"signature": "sig"}} in deltas
    assert json.loads("".join(d["toolUse"]["input"] for d in deltas if "toolUse" in d)) == {"a": "ü"}
    usage = {
        "inputTokens": 10,
        "outputTokens": 20,
        "totalTokens": 120,
        "cacheReadInputTokens": 60,
        "cacheWriteInputTokens": 30,
    }
    assert streamed[-1]["metadata"]["usage"] == usage == whole["usage"]
    assert whole["stopReason"] == "tool_use"
    assert whole["output"]["message"]["content"][-1] == {"toolUse": {"toolUseId": "c9", "name": "f", "input": {"a": "ü"}}}


async def test_errors_of_the_scripted_model_are_aws_errors(kit: Kit) -> None:
    def refused(step: dict[str, Any]) -> str:
        message = {"role": "user", "content": [{"text": script(step)}]}
        with aws_client(kit.port) as client:
            try:
                _streamed(client, modelId="m", messages=[message])
            except client.exceptions.ClientError as error:
                return str(error.response["Error"]["Code"])
        return ""

    assert await asyncio.to_thread(refused, {"error": "rate_limit"}) == "ThrottlingException"
    assert await asyncio.to_thread(refused, {"error": "context_overflow"}) == "ValidationException"
    assert "hrottlingException" in await asyncio.to_thread(refused, {"error": "rate_limit", "error_in_stream": True})


@pytest.mark.parametrize(
    ("status", "kind", "words"),
    [
        (400, "ValidationException", "This model doesn't support tool use in streaming mode."),
        (403, "AccessDeniedException", "User is not authorized to perform: bedrock:InvokeModelWithResponseStream"),
    ],
)
async def test_where_nothing_is_streamed_the_whole_answer_is_asked_for(status: int, kind: str, words: str) -> None:
    model = Server(keep_requests=True)

    async def whole_only(request: Request, connection: Connection) -> None:
        if request.path.endswith("/converse-stream"):
            connection.send(status, {"x-amzn-errortype": kind}, json.dumps({"message": words}).encode())
        else:
            await model.handle(request, connection)

    calls_one = {"name": "terminal", "arguments": {"command": "ls", "n": 1.5}}
    async with scripted_kit() as streaming, raw_kit(whole_only) as kit:
        for step in ({"say": "Grüße"}, {"reason": "hm", "signature": "sig", "say": "I look.", "calls": [calls_one]}):
            request = ask(script(step), tools=(TERMINAL,))
            streamed, whole = await streaming.events(MODE, request), await kit.events(MODE, request)
            assert (text(whole), thoughts(whole), calls(whole)) == (text(streamed), thoughts(streamed), calls(streamed))
            assert whole[-1] == streamed[-1], "usage and the reason of its end"
        error = await kit.failure(MODE, {"error": "overloaded"})
        assert error.reason is Reason.OVERLOADED
    assert model.memory.kept is not None and {request.path.split("/")[-1] for request in model.memory.kept} == {"converse"}


async def test_an_unsigned_request_is_refused(kit: Kit) -> None:
    answer = await kit.http.post(f"http://127.0.0.1:{kit.port}/model/m/converse-stream", content=b"{}")
    assert answer.status_code == 403 and "MissingAuthenticationToken" in answer.headers["x-amzn-errortype"]


async def test_a_hundred_streams_cost_no_thread_each(kit: Kit) -> None:
    step = {"say": "firstsecond", "chunk": 5, "hang_seconds": 600}
    before = threading.active_count()
    tasks = [asyncio.create_task(kit.play(MODE, step)) for _ in range(100)]
    async with asyncio.timeout(10):
        while sum(seen.outcome == "running" for seen in kit.memory.requests) < 100:
            await asyncio.sleep(0.01)
    assert threading.active_count() < before + 40, "only those that resolve names"
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
