"""Platform time of a hot turn, HTTP in to HTTP out, with an instant model on the local stack; where it goes, by hop, as the
bus shows it; then memory by process.

Conversations stay short, since the scripted model, too, takes milliseconds to read a long one; `hot_turn_long` has one of
hundreds of messages."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import httpx
from nats.aio.msg import Msg

from bench.report import emit
from hermes_contracts.bus_permissions import Permissions
from hermes_service.bus import connect
from local_stack.runner import LocalRunner
from local_stack.stack import Stack, running_stack, stack_folder

SESSIONS, WARM_UP, TURNS = 10, 3, 10
"""A hundred turns, none in a conversation of more than 26 messages."""
HOP_TURNS, LONG_WARM_UP, LONG_TURNS = 5, 150, 50
ROUNDS, ROUND_SAMPLES = 20, 8


async def _turn(client: httpx.AsyncClient, text: str, session: str) -> float:
    body = {"model": "default", "messages": [{"role": "user", "content": text}]}
    started = time.perf_counter()
    response = await client.post("/v1/chat/completions", json=body, headers={"X-Hermes-Session-Id": session})
    elapsed = (time.perf_counter() - started) * 1000
    response.raise_for_status()
    return elapsed


async def _round(client: httpx.AsyncClient, session: str) -> float:
    """Milliseconds of one tool round: a turn of many, in a conversation of its own, less a turn without any."""
    await _turn(client, "hello", session)
    plain = await _turn(client, "hello", session)
    return (await _turn(client, tool_rounds(), session) - plain) / ROUNDS


def tool_rounds() -> str:
    """Return the message that makes the scripted model ask for ROUNDS commands, one after the other."""
    calls = ({"calls": [{"name": "terminal", "arguments": {"command": f"echo round {n}"}}]} for n in range(ROUNDS))
    return "\n".join(["go", *(f"#script {json.dumps(step)}" for step in (*calls, {"say": "done"}))])


@dataclass
class Hops:
    """Listens to the bus and notes when the messages of one turn pass. Times are seconds of `perf_counter`."""

    seen: list[tuple[float, str, str]] = field(default_factory=list)
    """When, subject, reply subject."""

    async def hear(self, message: Msg) -> None:
        """Note a message."""
        self.seen.append((time.perf_counter(), message.subject, message.reply))

    def of(self, started: float, ended: float) -> dict[str, float]:
        """Return the milliseconds between the steps of the turn that ran between two times; {} when one was not seen."""
        turn = [one for one in self.seen if started <= one[0] <= ended]
        marks = [("sent", started)]
        for name, find in (
            ("gateway_published", lambda s: s.startswith("hermes.in.")),
            ("agent_opened", lambda s: s.endswith(".open_turn")),
            ("store_opened", self._reply_to(turn, ".open_turn")),
            ("agent_committed", lambda s: s.endswith(".commit")),
            ("store_committed", self._reply_to(turn, ".commit")),
            ("event_published", lambda s: s.startswith("hermes.event.")),
        ):
            at = next((when for when, subject, _ in turn if when >= marks[-1][1] and find(subject)), None)
            if at is None:
                return {}
            marks.append((name, at))
        marks.append(("answered", ended))
        return {name: (at - marks[n][1]) * 1000 for n, (name, at) in enumerate(marks[1:])}

    @staticmethod
    def _reply_to(turn: list[tuple[float, str, str]], method: str) -> Callable[[str], bool]:
        inbox = next((reply for _, subject, reply in turn if subject.endswith(method)), "")
        return lambda subject: bool(inbox) and subject == inbox


async def _measure_hops(stack: Stack, client: httpx.AsyncClient) -> None:
    permissions = Permissions((), (">",), "_INBOX.bench")
    bus = await connect(stack.bus_url, stack.keys.user("bench", permissions), name="bench", inbox="_INBOX.bench")
    hops, found = Hops(), []
    await bus.subscribe(">", cb=hops.hear)
    await bus.flush()
    for number in range(SESSIONS * HOP_TURNS):
        hops.seen.clear()
        started = time.perf_counter()
        await _turn(client, "hello", f"bench-{number % SESSIONS}")
        ended = time.perf_counter()
        await bus.flush()
        found.append(hops.of(started, ended))
    await bus.close()
    whole = [one for one in found if one]
    medians: dict[str, object] = {
        f"{name}_ms": round(median(one[name] for one in whole), 2) for name in (whole[0] if whole else {})
    }
    emit("hot_turn_hops", (), samples=len(whole), what="median of each step after the one before", **medians)


def _resident_mib(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    kib = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))
    return round(kib / 1024, 1)


def _emit_memory(stack: Stack, runner: LocalRunner) -> None:
    session = next(iter(runner.sessions.values()))
    pids = {name: stack.processes[name].pid for name in ("gateway", "store", "models")}
    pids |= {"agent": session.agent.pid, "sandboxd": session.sandbox.pid}
    for name, pid in pids.items():
        emit("resident_memory", process=name, mib=_resident_mib(pid))


async def _measure(stack: Stack) -> None:
    headers = {"Authorization": f"Bearer {stack.api_key}"}
    async with httpx.AsyncClient(base_url=stack.api_url, headers=headers, timeout=60) as client:
        first = await _turn(client, "hello", "bench-0")
        emit("first_turn_local_processes", [first])
        hot: list[float] = []
        for number in range(SESSIONS):
            for _ in range(WARM_UP):
                await _turn(client, "hello", f"bench-{number}")
            hot += [await _turn(client, "hello", f"bench-{number}") for _ in range(TURNS)]
        emit("hot_turn", hot, what="HTTP in to HTTP out, conversations of up to 26 messages")
        await _measure_hops(stack, client)
        for _ in range(LONG_WARM_UP):
            await _turn(client, "hello", "long")
        long = [await _turn(client, "hello", "long") for _ in range(LONG_TURNS)]
        emit(
            "hot_turn_long",
            long,
            what=f"the same in a conversation of {2 * LONG_WARM_UP} to {2 * (LONG_WARM_UP + LONG_TURNS)}",
        )
        each = [await _round(client, f"rounds-{n}") for n in range(ROUND_SAMPLES)]
        emit(
            "tool_round_whole_product", each, what=f"mean of {ROUNDS} rounds a turn: model, shell command, two synced writes"
        )


async def main() -> None:
    """Run the stack, measure, print."""
    with stack_folder() as folder:
        async with running_stack(folder) as stack:
            runner = LocalRunner(stack)
            task = asyncio.create_task(runner.run())
            try:
                await _measure(stack)
                _emit_memory(stack, runner)
            finally:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task


if __name__ == "__main__":
    asyncio.run(main())
