"""Accounts that survive a slow store, and Profiles from a file that somebody edits."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
import yaml
from prometheus_client import CollectorRegistry

from hermes_contracts.conversation import Usage
from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.store_api import RecordUsageRequest
from hermes_gateway.models.file_profiles import FileProfiles
from hermes_gateway.models.metrics import ModelsMetrics
from hermes_gateway.models.provider_secret import read_secret
from hermes_gateway.models.usage import UsageRecorder


def _record(number: int) -> RecordUsageRequest:
    return RecordUsageRequest(
        sid="s" + "a" * 25, epoch=1, turn_id="t", step=number, call_id=str(number), provider="openai", model="m",
        usage=Usage(model_calls=1), outcome="ok", milliseconds=1,
    )  # fmt: skip


def _lost(metrics: ModelsMetrics) -> float:
    return metrics.usage_lost._value.get()


async def test_a_store_that_fails_for_a_while_gets_every_record() -> None:
    taken: list[int] = []
    failures = 3

    async def send(record: RecordUsageRequest) -> None:
        nonlocal failures
        if failures:
            failures -= 1
            raise HermesError(ErrorCode.UNAVAILABLE, "away", retryable=True)
        taken.append(record.step)

    metrics = ModelsMetrics(CollectorRegistry())
    recorder = UsageRecorder(send, metrics, pause_seconds=0.001)
    async with asyncio.TaskGroup() as group:
        worker = group.create_task(recorder.run())
        for number in range(10):
            recorder.put(_record(number))
        await recorder.drain(5)
        worker.cancel()
    assert sorted(taken) == list(range(10)) and _lost(metrics) == 0


async def test_a_full_queue_loses_aloud_and_never_waits() -> None:
    async def send(record: RecordUsageRequest) -> None:
        await asyncio.Event().wait()

    metrics = ModelsMetrics(CollectorRegistry())
    recorder = UsageRecorder(send, metrics, size=2)
    for number in range(5):
        recorder.put(_record(number))
    assert _lost(metrics) == 3
    await recorder.drain(0.01)
    assert _lost(metrics) == 5


async def test_a_record_the_store_refuses_is_not_tried_again() -> None:
    tries: list[int] = []

    async def send(record: RecordUsageRequest) -> None:
        tries.append(record.step)
        raise HermesError(ErrorCode.INVALID, "no")

    metrics = ModelsMetrics(CollectorRegistry())
    recorder = UsageRecorder(send, metrics, pause_seconds=0.001)
    async with asyncio.TaskGroup() as group:
        worker = group.create_task(recorder.run())
        recorder.put(_record(1))
        await recorder.drain(5)
        worker.cancel()
    assert tries == [1] and _lost(metrics) == 1


def _write(path: Path, name: str) -> None:
    spec = {"model": {"provider": "scripted", "name": name}}
    path.write_text(yaml.safe_dump([{"namespace": "team", "name": "p", "spec": spec}]))


async def test_an_edited_file_is_taken_over_and_a_broken_one_is_not(tmp_path: Path) -> None:
    path = tmp_path / "profiles.yaml"
    profiles = FileProfiles(path)
    assert profiles.problem() is not None
    _write(path, "first")
    assert profiles.problem() is None
    path.write_text("[{namespace: team, name: p, spec: {model: {provider: Nobody!, name: m}}}]")
    assert "model.provider" in str(profiles.problem())
    found = await profiles.profile("team", "p")
    assert found is not None and found.model.name == "first"
    path.write_text("{{{")
    assert "cannot be read" in str(profiles.problem())
    _write(path, "second, and longer")
    found = await profiles.profile("team", "p")
    assert profiles.problem() is None and found is not None and found.model.name.startswith("second")


@pytest.mark.parametrize(
    "data",
    [
        {"api-key": "sk-secret"},
        {"aws-access-key-id": "AKIA", "aws-secret-access-key": "sk-secret", "region": "eu-central-1"},
        {"oauth-refresh-token": "sk-secret", "oauth-token-url": "https://h/token", "oauth-client-id": "c"},
    ],
)
def test_keys_do_not_show_in_text(data: dict[str, str]) -> None:
    secret = read_secret("key", "hermes.run/provider", {**data, "hosts": "h"})
    assert "sk-secret" not in repr(secret) and "sk-secret" not in str(secret)


@pytest.mark.parametrize("text", ["sk-broken-secret"])
def test_a_broken_file_does_not_show_its_secrets(tmp_path: Path, text: str) -> None:
    path = tmp_path / "profiles.yaml"
    secret = {"key": {"type": 5, "data": {"api-key": {"nested": text}}}}
    spec = {"model": {"provider": "scripted", "name": "m"}}
    path.write_text(yaml.safe_dump([{"namespace": "team", "name": "p", "spec": spec, "secrets": secret}]))
    assert text not in str(FileProfiles(path).problem())
