"""The edges of the process: settings, imports, deltas, start-up clock."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bench.agent_imports import FORBIDDEN, largest, measure
from hermes_agent import app, settings
from hermes_agent.transport.deltas import BusDeltas
from hermes_agent.transport.envelope import open_envelope, stream_sequence
from hermes_contracts import subjects
from hermes_contracts.envelopes import HEADER_SIGNATURE, Delta
from tests.unit.agent.agent_scene import CONFIG, SID, inbound

CREDS = (
    "-----BEGIN NATS USER JWT-----\nj.w.t\n------END NATS USER JWT------\n\n-----BEGIN USER NKEY SEED-----\nSUAX\n------END"
)


def folder(tmp_path: Path, **changes: str) -> Path:
    files = {"session.json": CONFIG.model_dump_json(), "bus.creds": CREDS, "models.token": "tok\n", **changes}
    for name, text in files.items():
        (tmp_path / name.replace("_", ".")).write_text(text)
    return tmp_path


def test_the_session_folder_is_read_and_its_secrets_have_no_text(tmp_path: Path) -> None:
    session = settings.load(folder(tmp_path))
    assert session.config == CONFIG and session.models_token.value == "tok" and session.credentials.jwt == "j.w.t"
    assert "tok\n" not in repr(session) and "j.w.t" not in repr(session) and "SUAX" not in repr(session)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"session_json": "{"}, "session.json"),
        ({"session_json": '{"sid": "x", "persona": "PRIVATE"}'}, "session.json: sid"),
        ({"bus_creds": "PRIVATE"}, "bus.creds: bus credentials"),
        ({"models_token": " "}, "models.token: empty"),
        ({"models_token": "x" * (settings.MAX_FILE_BYTES + 1)}, "models.token: larger"),
    ],
)
def test_a_bad_folder_names_the_file_and_the_field_and_no_content(
    tmp_path: Path, changes: dict[str, str], words: str
) -> None:
    with pytest.raises(settings.SettingsError, match=words) as caught:
        settings.load(folder(tmp_path, **changes))
    assert "PRIVATE" not in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(settings.SettingsError, match=r"session\.json: cannot be read"):
        settings.load(tmp_path)


def test_imports_are_few_and_light() -> None:
    found, trace = measure(importtime=True)
    modules: list[str] = found["modules"]  # type: ignore[assignment]
    forbidden = [m for m in modules if any(m == f or m.startswith(f + ".") for f in FORBIDDEN)]
    print(f"imports: {float(str(found['cpu'])) * 1000:.0f} ms of CPU, {len(modules)} modules")
    for name, milliseconds in largest(trace):
        print(f"  {milliseconds:7.1f} ms  {name}")
    assert forbidden == []
    # CPU seconds, because a busy machine says nothing about us; tracing itself takes about a third.
    assert len(modules) < 530 and float(str(found["cpu"])) < 1.5


def test_the_clock_counts_from_the_operators_decision() -> None:
    clock = app.Clock(started=11.0, imported=11.25)
    assert clock.breakdown(10.0, 11.3) == {"started": 1000.0, "imports": 250.0, "connected": 50.0, "total": 1300.0}
    assert clock.breakdown(0.0, 11.3)["started"] == 0.0


class Bus:
    def __init__(self) -> None:
        self.sent: list[Delta] = []

    async def publish(self, subject: str, data: bytes) -> None:
        assert subject == subjects.delta(SID, 1)
        self.sent.append(Delta.model_validate_json(data))


async def test_deltas_keep_their_order_and_join_text_that_waits() -> None:
    bus: Any = Bus()
    deltas = BusDeltas(bus, SID, 1)
    deltas.begin("t1", 2)
    for piece in ("a", "b"):
        deltas.emit("text", text=piece)
    deltas.emit("tool_started", tool="terminal", call_id="c1")
    deltas.emit("text", text="c\x00")
    deltas.begin("t2", 1)
    deltas.emit("text", text="d")
    pump = asyncio.ensure_future(deltas.pump())
    deadline = time.monotonic() + 5
    while len(bus.sent) < 4:
        assert time.monotonic() < deadline
        await asyncio.sleep(0)
    pump.cancel()
    assert [(d.turn_id, d.attempt, d.sequence, d.kind, d.text) for d in bus.sent] == [
        ("t1", 2, 1, "text", "ab"), ("t1", 2, 2, "tool_started", ""), ("t1", 2, 3, "text", "c"), ("t2", 1, 1, "text", "d"),
    ]  # fmt: skip


class Believer:
    def verify(self, signature: str, subject: str, message_id: str, route: str, body: bytes) -> bool:
        return signature == "good"


@pytest.mark.parametrize(
    ("signature", "subject", "data", "accepted"),
    [
        ("good", subjects.inbound(SID), inbound().model_dump_json(), True),
        ("bad", subjects.inbound(SID), inbound().model_dump_json(), False),
        ("good", "hermes.in.0.other", inbound().model_dump_json(), False),
        ("good", subjects.inbound(SID), "{}", False),
        ("good", subjects.inbound(SID), inbound(sid="s" + "a" * 25).model_dump_json(), False),
    ],
)
def test_only_signed_messages_of_this_session_are_believed(signature: str, subject: str, data: str, accepted: bool) -> None:
    message: Any = SimpleNamespace(subject=subject, data=data.encode(), headers={HEADER_SIGNATURE: signature})
    assert (open_envelope(message, Believer(), SID) is not None) is accepted


def test_the_stream_sequence_is_read_from_both_forms_of_ack_subjects() -> None:
    assert stream_sequence("$JS.ACK.HERMES_IN_0.s-1.1.42.7.1700000000.0") == 42
    assert stream_sequence("$JS.ACK.dom.hash.HERMES_IN_0.s-1.1.42.7.1700000000.0.rnd") == 42
    assert stream_sequence("nonsense") == 0
