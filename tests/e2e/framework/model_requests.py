"""What the scripted model was asked: never contents, but hashes that tell whether one request continues another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import httpx

from hermes_contracts.installation import PORT_SCRIPTED_MODEL
from release.forward import forwarded
from release.kubectl import until
from tests.e2e.framework.installation import NAMESPACE, RELEASE


@dataclass(frozen=True)
class Asked:
    """A request to the model. `prefix`: cumulative hashes of tools, prompt, and then each message."""

    number: int
    format: str
    model: str
    step: int
    prefix: tuple[str, ...]
    status: int
    outcome: str

    def continues(self, earlier: Asked) -> bool:
        """Tell whether this request begins with all of an earlier one, byte for byte."""
        return self.prefix[: len(earlier.prefix)] == earlier.prefix


async def asked(*models: str) -> list[Asked]:
    """Return the requests for these models, oldest first."""
    async with (
        forwarded(f"{RELEASE}-scripted-model", PORT_SCRIPTED_MODEL, NAMESPACE) as forward,
        httpx.AsyncClient(base_url=forward.url, verify=False) as client,
    ):
        found: list[dict[str, Any]] = (await client.get("/requests")).json()["requests"]
    return [
        Asked(
            number=one["number"], format=one["format"], model=one["model"], step=one["step"], prefix=tuple(one["prefix"]),
            status=one["status"], outcome=one["outcome"],
        )
        for one in found
        if one["model"] in models
    ]  # fmt: skip


async def hanging(*models: str, after: int = 0, step: int = 0) -> Asked:
    """Wait until a request for one of these models, later than number `after`, waits for its answer at this step."""

    async def found() -> Asked | None:
        waiting = [one for one in await asked(*models) if one.outcome == "running" and one.step == step]
        return next((one for one in waiting if one.number > after), None)

    it: Asked = await until(f"one of the models {', '.join(models)} to be asked", found, deadline_seconds=120)
    return it


def breaks(requests: list[Asked]) -> list[tuple[Asked, Asked]]:
    """Return the neighbours of one wire format whose later one does not continue the earlier; running ones are left out."""
    found, last = [], dict[str, Asked]()
    for one in requests:
        if one.outcome == "running":
            continue
        earlier = last.get(one.format)
        if earlier is not None and not one.continues(earlier):
            found.append((earlier, one))
        last[one.format] = one
    return found
