"""What every process shares: health and metrics over HTTP, trace context, credentials that stay out of logs."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import httpx
import pytest
from prometheus_client import CollectorRegistry, Counter
from pydantic import ValidationError

from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.store_api import METHODS
from hermes_service import tracing
from hermes_service.bus import BusCredentials
from hermes_service.bus_keys import BusKeys
from hermes_service.operations import Operations
from hermes_service.settings import ProcessSettings, explain


async def test_health_names_what_is_wrong() -> None:
    operations = Operations(CollectorRegistry())
    problem: list[str] = ["no connection to the bus"]
    operations.ready["bus"] = lambda: problem[0] if problem else None
    async with operations.serve("127.0.0.1", 0) as port, httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
        assert (await client.get("/livez")).status_code == 200
        unready = await client.get("/readyz")
        assert (unready.status_code, unready.text) == (503, "bus: no connection to the bus\n")
        problem.clear()
        assert (await client.get("/readyz")).text == "bus: ok\n"
        assert (await client.get("/secrets")).status_code == 404


async def test_metrics_are_served() -> None:
    registry = CollectorRegistry()
    Counter("hermes_test_things", "Things", registry=registry).inc()
    async with Operations(registry).serve("127.0.0.1", 0) as port, httpx.AsyncClient() as client:
        assert "hermes_test_things_total 1.0" in (await client.get(f"http://127.0.0.1:{port}/metrics")).text


@pytest.mark.parametrize("sent", [b"", b"\r\n\r\n", b"GET\r\n\r\n", b"\x00" * 20_000])
async def test_a_probe_that_speaks_no_http_does_no_harm(sent: bytes) -> None:
    operations = Operations(CollectorRegistry())
    async with operations.serve("127.0.0.1", 0) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(sent)
        writer.write_eof()
        await reader.read()
        writer.close()
        await writer.wait_closed()
        async with httpx.AsyncClient() as client:
            assert (await client.get(f"http://127.0.0.1:{port}/livez")).status_code == 200


def test_a_trace_keeps_its_id_through_processes() -> None:
    first = tracing.new_traceparent()
    with tracing.span("outer", first) as outer:
        assert tracing.current() == outer
        with tracing.span("inner", outer) as inner:
            assert inner.split("-")[1] == first.split("-")[1]
            assert inner != outer
    assert tracing.current() == ""


@pytest.mark.parametrize("header", [None, "", "00-zz-zz-01", "x" * 10_000])
def test_a_broken_trace_header_starts_a_new_trace(header: str | None) -> None:
    assert tracing.accept(header) != header


def test_seeds_do_not_show_in_reprs() -> None:
    keys = BusKeys.generate()
    assert keys.account_seed not in repr(keys)
    credentials = BusCredentials("jwt", "SUSEED")
    assert "SUSEED" not in repr(credentials)
    assert BusCredentials.parse(credentials.render()) == credentials


def test_broken_credentials_are_refused_without_showing_them() -> None:
    with pytest.raises(ValueError, match="expected a user JWT and an nkey seed") as caught:
        BusCredentials.parse("SUSECRET")
    assert "SUSECRET" not in str(caught.value)


def test_the_server_configuration_holds_no_seed() -> None:
    keys = BusKeys.generate()
    config = keys.server_config()
    assert not any(seed in config for seed in (keys.operator_seed, keys.account_seed, keys.system_seed))


def test_a_wrong_variable_is_named_without_its_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERMES_OPERATIONS_PORT", "hunter2")
    with pytest.raises(ValidationError) as caught:
        ProcessSettings()
    assert explain(caught.value).startswith("HERMES_OPERATIONS_PORT: ")
    assert "hunter2" not in explain(caught.value)


def test_an_error_survives_the_journey() -> None:
    error = HermesError(ErrorCode.RATE_LIMIT, "too fast", retryable=True, retry_after_seconds=3)
    back = HermesError.from_body(error.body())
    assert (back.code, back.message, back.retryable, back.retry_after_seconds) == (error.code, "too fast", True, 3)


def test_method_names_are_single_tokens_and_unique() -> None:
    assert len({method.name for method in METHODS}) == len(METHODS) > 0
    assert all(method.name.replace("_", "").isalpha() for method in METHODS)


def test_importing_the_contracts_brings_nothing_but_pydantic() -> None:
    code = (
        "import sys, importlib, pkgutil, hermes_contracts as c\n"
        "for m in pkgutil.walk_packages(c.__path__, 'hermes_contracts.'): importlib.import_module(m.name)\n"
        "bad = {'nats', 'httpx', 'structlog', 'kubernetes'} & set(sys.modules); sys.exit(str(bad) if bad else 0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": ":".join(p for p in sys.path if p)})


@pytest.mark.parametrize("parent", ["", "x", "00-1-2-3", tracing.new_traceparent() + "-more"])
def test_work_without_a_readable_trace_begins_one(parent: str) -> None:
    child = tracing.child_of(parent)
    assert tracing.accept(child) == child


def test_a_child_stays_in_its_trace() -> None:
    parent = tracing.new_traceparent()
    assert tracing.child_of(parent).split("-")[1] == parent.split("-")[1]
    assert tracing.child_of(parent) != parent
