"""Who gets in, which key goes where, and what never comes out."""

from __future__ import annotations

import io
import json
import logging
import time
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import jwt
import pytest
import structlog
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from hermes_contracts.errors import ErrorBody, ErrorCode
from hermes_contracts.model_api import STREAM_PATH, ModelError
from hermes_service.logs import configure_logging
from tests.integration.models.harness import API_KEY, Models, ask, running, script, secret

BODY = ask("hello").model_dump_json()


async def _post(models: Models, token: str | None, body: str | bytes = BODY) -> tuple[int, ErrorBody]:
    headers = {} if token is None else {"authorization": token}
    response = await models.http.post(STREAM_PATH, content=body, headers=headers)
    return response.status_code, ErrorBody.model_validate_json(response.content)


def _unsigned(models: Models) -> str:
    claims = jwt.decode(models.token(), options={"verify_signature": False})
    return jwt.encode(claims, None, algorithm="none")


def _hmac(models: Models) -> str:
    """Signed with the public key's text as an HMAC secret: the old confusion of algorithms."""
    claims = jwt.decode(models.token(), options={"verify_signature": False})
    return jwt.encode(claims, "x" * 64, algorithm="HS256")


TOKENS: list[tuple[str, Any, str]] = [
    ("none", lambda m: None, "no token"),
    ("basic", lambda m: "Basic abc", "no token"),
    ("empty", lambda m: "Bearer", "no token"),
    ("garbage", lambda m: "Bearer garbage", "malformed"),
    ("huge", lambda m: "Bearer " + "a" * 5000, "too long"),
    ("foreign key", lambda m: "Bearer " + m.token(Ed25519PrivateKey.generate()), "signature"),
    ("unsigned", lambda m: "Bearer " + _unsigned(m), "malformed"),
    ("hmac", lambda m: "Bearer " + _hmac(m), "malformed"),
    ("expired", lambda m: "Bearer " + m.token(exp=int(time.time()) - 60), "expired"),
    ("no expiry", lambda m: "Bearer " + m.token(exp=None), "malformed"),
    ("audience", lambda m: "Bearer " + m.token(aud="hermes-gateway"), "audience"),
    ("issuer", lambda m: "Bearer " + m.token(iss="somebody"), "issuer"),
    ("no epoch", lambda m: "Bearer " + m.token(epoch=None), "malformed"),
    ("no profile", lambda m: "Bearer " + m.token(profile=None), "malformed"),
]


@pytest.mark.parametrize(("name", "make", "says"), TOKENS, ids=[name for name, _, _ in TOKENS])
async def test_a_wrong_token_is_refused_with_a_reason(models: Models, name: str, make: Any, says: str) -> None:
    status, body = await _post(models, make(models))
    assert (status, body.code) == (401, ErrorCode.UNAUTHENTICATED)
    assert says in body.message
    assert not models.memory.requests


async def test_foreign_namespaces_and_unknown_profiles(models: Models) -> None:
    status, body = await _post(models, "Bearer " + models.token(namespace="others"))
    assert (status, body.code) == (403, ErrorCode.FORBIDDEN)
    status, body = await _post(models, "Bearer " + models.token(profile="nobody"))
    assert (status, body.code) == (404, ErrorCode.NOT_FOUND) and "nobody" in body.message


async def test_malformed_requests(models: Models) -> None:
    token = "Bearer " + models.token()
    for broken in (b"{", b"[]", b"{}", BODY.replace('"user"', '"system"'), BODY.replace('"version":1', '"version":99')):
        status, body = await _post(models, token, broken)
        assert (status, body.code) == (422, ErrorCode.INVALID), broken
    response = await models.http.get(STREAM_PATH)
    assert response.status_code == 404


async def test_bodies_over_the_limit(tmp_path: Path) -> None:
    async with running(tmp_path, max_body_bytes=4096) as models:
        big = ask("x" * 5000).model_dump_json()
        status, body = await _post(models, "Bearer " + models.token(), big)
        assert (status, body.code) == (413, ErrorCode.TOO_LARGE)

        async def chunks() -> Any:
            for _ in range(6):
                yield b" " * 1024

        response = await models.http.post(
            STREAM_PATH, content=chunks(), headers={"authorization": "Bearer " + models.token()}
        )
        assert response.status_code == 413


async def test_a_rotated_key_is_taken_over(models: Models) -> None:
    """Old and new key stand in the file side by side during a rotation."""
    from cryptography.hazmat.primitives import serialization

    from hermes_gateway.models.tokens import TokenVerifier

    now = [0.0]
    path = models.profiles_path.parent / "public.pem"
    verifier = TokenVerifier(path, lambda: now[0])
    new = Ed25519PrivateKey.generate()
    pem = new.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    path.write_bytes(path.read_bytes() + pem)
    now[0] = 60.0
    for key in (models.private, new):
        assert verifier.verify("Bearer " + models.token(key)).epoch == 3


BASE = {"provider": "openai", "name": "m", "secretRef": {"name": "own"}}


@pytest.mark.parametrize(
    ("model", "secrets", "says"),
    [
        ({"baseUrl": "https://evil.example/v1"}, {"own": secret("api.openai.com")}, "does not name host evil.example"),
        ({"baseUrl": "https://api.openai.com@evil.example/v1"}, {"own": secret("api.openai.com")}, "without user"),
        ({"baseUrl": "https://evil.example\\@api.openai.com/v1"}, {"own": secret("api.openai.com")}, "model.baseUrl"),
        ({"baseUrl": "http://api.openai.com/v1"}, {"own": secret("api.openai.com")}, "https"),
        ({}, {"own": secret(hosts="example.com")}, "api.openai.com"),
        ({}, {}, "Secret own is not in namespace team"),
        ({}, {"own": secret(kind="Opaque")}, "hermes.run/provider"),
        ({}, {"own": {"type": "hermes.run/provider", "data": {"hosts": "api.openai.com"}}}, "`api-key`"),
        ({}, {"own": {"type": "hermes.run/provider", "data": {"api-key": "k"}}}, "`hosts`"),
        ({}, {"own": secret("api.openai.com", key="two\nlines")}, "no key has"),
    ],
)
async def test_a_key_goes_only_where_its_secret_says(
    models: Models, model: dict[str, Any], secrets: dict[str, Any], says: str
) -> None:
    models.add_profile("tricky", {**BASE, **model}, **secrets)
    error = (await models.events(ask("hello"), "tricky"))[-1]
    assert isinstance(error, ModelError) and error.code is ErrorCode.NOT_CONFIGURED, error
    assert says in error.message and API_KEY not in error.message


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1", "0.0.0.0", "[::1]", "[::]", "169.254.169.254", "[fd00:ec2::254]", "[64:ff9b::7f00:1]",
        "[::ffff:10.0.0.1]", "[::ffff:a00:1]", "10.0.0.1", "172.16.5.5", "192.168.1.1", "100.64.0.1", "100.100.100.200",
        "2130706433", "017700000001", "0x7f000001", "0177.0.0.1", "127.1", "localhost", "[fe80::1]", "[2002:7f00:1::]",
        "224.0.0.1", "255.255.255.255", "168.63.129.16",
    ],
)  # fmt: skip
async def test_private_addresses_are_not_connected_to(tmp_path: Path, host: str) -> None:
    """Even when the Secret names the host: only an administrator's values open private ranges."""
    async with running(tmp_path, allowed_private_hosts=()) as models:
        url = f"https://{host}:{models.scripted_port}/v1"
        models.add_profile("inside", {**BASE, "baseUrl": url}, own=secret(host.strip("[]")))
        error = (await models.events(ask("hello"), "inside"))[-1]
        assert isinstance(error, ModelError)
        assert error.code in (ErrorCode.FORBIDDEN, ErrorCode.NOT_CONFIGURED), error
        assert not models.memory.requests


@pytest.fixture
def captured() -> Iterator[io.StringIO]:
    """Everything that reaches stdout, stderr and the root logger, at debug level."""
    found = io.StringIO()
    root = logging.getLogger()
    before = root.handlers[:], root.level
    with redirect_stdout(found), redirect_stderr(found):
        configure_logging("models", "debug")
        structlog.configure(cache_logger_on_first_use=False, logger_factory=structlog.PrintLoggerFactory(found))
        yield found
    root.handlers[:], root.level = before
    structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()


@pytest.mark.parametrize("profile", ["openai", "anthropic"])
async def test_secrets_and_content_stay_out_of_logs_and_errors(captured: io.StringIO, tmp_path: Path, profile: str) -> None:
    async with running(tmp_path) as models:
        said = "a-very-private-sentence"
        outputs = []
        for step in (
            {"say": said},
            {"status": 400, "message": f"Bad key {API_KEY} in {said[:0]}request"},
            {"status": 401, "message": f"Incorrect API key provided: {API_KEY}"},
            {"status": 500, "message": API_KEY},
            {"error": "overloaded", "error_in_stream": True, "message": API_KEY},
            {"malformed": "sse", "say": "abc", "chunk": 1},
            {"cut_after_bytes": 10},
        ):
            request = ask(script(step), system=said)
            async with models.http.stream(
                "POST", STREAM_PATH, content=request.model_dump_json(), headers=models.headers(profile)
            ) as response:
                outputs.append((await response.aread()).decode())
        await _post(models, "Bearer " + models.token()[:-4])
        token = models.token()
    logs = captured.getvalue()
    errors = "".join(outputs[1:])
    assert "model.call" in logs and json.dumps(profile) in logs
    assert API_KEY not in errors
    ours = "\n".join(line for line in logs.splitlines() if line.startswith("{") and '"event": "model' in line)
    assert ours and API_KEY not in ours and said not in ours and token[:60] not in ours
    assert API_KEY not in logs and token[:60] not in logs
