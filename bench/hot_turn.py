"""Platform time of a hot turn, HTTP in to HTTP out, with an instant model on the local stack; then memory by process."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from pathlib import Path

import httpx

from bench.report import emit
from local_stack.runner import LocalRunner
from local_stack.stack import Stack, running_stack, stack_folder

WARM_UP, SAMPLES = 20, 100
ROUNDS, ROUND_SAMPLES = 20, 8


async def _turn(client: httpx.AsyncClient, text: str, session: str = "bench") -> float:
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
    return (await _turn(client, _rounds(), session) - plain) / ROUNDS


def _rounds() -> str:
    calls = ({"calls": [{"name": "terminal", "arguments": {"command": f"echo round {n}"}}]} for n in range(ROUNDS))
    return "\n".join(["go", *(f"#script {json.dumps(step)}" for step in (*calls, {"say": "done"}))])


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
        first = await _turn(client, "hello")
        emit("first_turn_local_processes", [first])
        for _ in range(WARM_UP):
            await _turn(client, "hello")
        hot = [await _turn(client, "hello") for _ in range(SAMPLES)]
        emit("hot_turn", hot, what="HTTP in to HTTP out")
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
