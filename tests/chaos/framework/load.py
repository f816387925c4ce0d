"""Numbered messages over several sessions; each has a command append its number to a file, and wants to hear it back."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from dataclasses import dataclass, field

from release.kubectl import until
from tests.e2e.framework.person import Person

BURST = 3
"""Messages that wait for a session at a time: they are answered one after the other."""
SETTLE_SECONDS = 600.0
SETTLED_STATES = ("done", "failed", "merged", "dead")
EFFECTS = "effects"


@dataclass(frozen=True)
class Sent:
    """A message that was accepted, and when."""

    name: str
    message_id: str
    at: float


@dataclass
class Client:
    """One session's person: sends bursts, and waits for the last answer of each."""

    person: Person
    chat: str
    profile: str
    pause_seconds: float = 0.0
    """Between bursts: long enough, and the session sleeps and is woken."""
    sid: str = ""
    sent: list[Sent] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    """Seconds from sending a burst's last message to its answer."""

    async def run(self, stop: asyncio.Event) -> None:
        """Send until told to stop, then wait for what is open."""
        body = {"profile": self.profile, "id": self.chat}
        self.sid = str((await self.person.request("POST", "/api/sessions", json=body)).json()["id"])
        while not stop.is_set():
            for _ in range(BURST):
                await self._send()
            await self._settled(self.sent[-1])
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), self.pause_seconds + 0.001)

    async def _send(self) -> None:
        name = f"{self.chat}-{len(self.sent):04d}"
        accepted = await self.person.send(self.sid, message(name), key=name)
        self.sent.append(Sent(name, accepted["message_id"], time.monotonic()))

    async def _settled(self, last: Sent) -> None:
        async def settled() -> bool:
            return (await self.person.turn(self.sid, last.message_id))["state"] in SETTLED_STATES

        what = f"{last.name} to be answered"
        await until(what, settled, deadline_seconds=SETTLE_SECONDS, period_seconds=0.5)
        self.waits.append(time.monotonic() - last.at)


def message(name: str) -> str:
    """Return a message that runs one command with one effect, and is answered with its name."""
    command = f"echo {name} >> {EFFECTS} && sleep 0.4 && echo recorded {name}"
    steps = [{"calls": [{"name": "terminal", "arguments": {"command": command}}]}, {"say": answer(name)}]
    return "\n".join([f"message {name}", *(f"#script {json.dumps(step)}" for step in steps)])


def answer(name: str) -> str:
    """Return what a message is answered with."""
    return f"answer {name}"
