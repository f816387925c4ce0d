"""Schedules as objects of the cluster, through kubectl."""

from __future__ import annotations

import json
import secrets
import time
from dataclasses import dataclass
from typing import Any

from hermes_cli.commands.cluster import cell, condition, conditions_of
from hermes_cli.connection.kubectl import Kubectl, Object
from hermes_cli.errors import refused
from hermes_cli.show.text import one_line
from hermes_contracts.names import ANNOTATION_JOB_TITLE, ANNOTATION_RUN_NOW, GROUP

CRON = f"hermescronjobs.{GROUP}"


@dataclass(frozen=True)
class ClusterJobs:
    """The HermesCronJobs of the namespace."""

    kubectl: Kubectl

    async def all(self) -> list[dict[str, Any]]:
        """List them."""
        return [cron_facts(job) for job in await self.kubectl.get_all(CRON)]

    async def one(self, word: str) -> tuple[Any, list[tuple[str, str]]]:
        """Show one."""
        job = await self._found(word)
        facts = [(key, cell(value)) for key, value in cron_facts(job).items()]
        prompt = one_line(str(job.get("spec", {}).get("prompt", "")), 200)
        whole = {"name": word, "spec": job.get("spec", {}), "status": job.get("status", {})}
        return whole, [*facts, ("prompt", prompt), *conditions_of(job)]

    async def run(self, word: str) -> str:
        """Run one now."""
        await self._found(word)
        value = f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{secrets.token_hex(3)}"
        await self.kubectl.run("annotate", CRON, word, f"{ANNOTATION_RUN_NOW}={value}", "--overwrite")
        return word

    async def suspend(self, word: str, *, suspend: bool) -> str:
        """Pause one, or let it go on."""
        await self._found(word)
        patch = json.dumps({"spec": {"suspend": suspend}})
        await self.kubectl.run("patch", CRON, word, "--type", "merge", "-p", patch)
        return word

    async def remove(self, word: str) -> str:
        """Delete one."""
        await self._found(word)
        await self.kubectl.run("delete", CRON, word)
        return word

    async def _found(self, name: str) -> Object:
        found = await self.kubectl.get(CRON, name)
        if found is None:
            raise refused(f"no hermescronjobs {name!r} in namespace {self.kubectl.place.namespace}", "see hermes cron list")
        return found


def cron_facts(job: Object) -> dict[str, Any]:
    """Return what a list shows of a schedule. Pure."""
    meta, spec, status = job["metadata"], job.get("spec", {}), job.get("status", {})
    last = status.get("lastRun") or {}
    return {
        "name": meta["name"],
        "title": (meta.get("annotations") or {}).get(ANNOTATION_JOB_TITLE, meta["name"]),
        "schedules": "; ".join(str(text) for text in spec.get("schedules", [])),
        "profile": spec.get("profileRef", {}).get("name"),
        "suspended": bool(spec.get("suspend", False)),
        "ready": condition(job, "Ready").get("status"),
        "next": status.get("nextRun"),
        "last": last.get("outcome") if isinstance(last, dict) else None,
    }
