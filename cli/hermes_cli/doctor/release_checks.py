"""Checks of what a release needs around it: volumes, Secrets, a way in, schedules, and what the gateway logs. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hermes_cli.doctor.cluster_checks import why_not_ready
from hermes_cli.doctor.finding import Finding, fail, ok, warn

Object = Mapping[str, Any]

_MISSING = re.compile(r'(secret|configmap) "([^"]+)" not found')
_MOST = 5
_FROM_OUTSIDE = {"webhooks": "/webhooks", "slack": "/slack", "telegram": "/telegram"}


def check_claims(claims: Sequence[Object]) -> list[Finding]:
    """Say which volumes nobody provides."""
    found = []
    for claim in claims:
        if claim.get("status", {}).get("phase") == "Pending":
            wanted = claim.get("spec", {}).get("storageClassName")
            name, why = claim["metadata"]["name"], f"StorageClass {wanted!r}" if wanted else "the default StorageClass"
            todo = f"kubectl get storageclass; kubectl describe pvc {name}; name a class in the chart's values"
            found.append(fail(f"volume {name}", f"waits for {why}", todo))
    return found


def check_mounts(pods: Sequence[Object], events: Sequence[Object]) -> list[Finding]:
    """Say which Secrets pods wait for."""
    waiting = {pod["metadata"]["name"] for pod in pods if why_not_ready(pod)}
    missing = {
        (match[1], match[2])
        for event in events
        if event.get("involvedObject", {}).get("name") in waiting and (match := _MISSING.search(event.get("message", "")))
    }
    todo = "make it, or correct the chart's value that names it; those of the release are made by the operator: see its log"
    return [fail(f"{kind} {name}", "pods wait for it and it is not there", todo) for kind, name in sorted(missing)]


def check_way_in(deployments: Sequence[Object], routes: Sequence[Object]) -> list[Finding]:
    """Say that platforms cannot reach what they are to post to."""
    volumes = {
        volume["name"]
        for deployment in deployments
        for volume in deployment["spec"]["template"]["spec"].get("volumes", [])
        if volume["name"] in _FROM_OUTSIDE
    }
    # A bot of Telegram's without webhook_url fetches what is for it.
    needed = sorted(volumes - {"telegram"})
    if not needed or routes:
        return [ok("way in", f"{len(routes)} Ingress or HTTPRoute")] if routes else []
    paths = ", ".join(_FROM_OUTSIDE[name] for name in needed)
    what = f"no Ingress or HTTPRoute of the release: {paths} are reached from inside the cluster only"
    todo = "set ingress.enabled or httpRoute.enabled; Slack does without by Socket Mode (app_token)"
    return [warn("way in", what, todo)]


def check_cron_jobs(jobs: Sequence[Object]) -> list[Finding]:
    """Say which schedules do not work, run late, or whose answers do not arrive."""
    found = []
    for job in jobs:
        name, status = job["metadata"]["name"], job.get("status", {})
        conditions = {c["type"]: c for c in status.get("conditions", [])}
        check, todo = f"cron {name}", f"kubectl describe hcj {name}"
        for kind in ("Ready", "Clock"):
            said = conditions.get(kind)
            if said is not None and said["status"] == "False":
                found.append(fail(check, f"{kind}: {said.get('reason', '')} {said.get('message', '')}".rstrip(), todo))
        delivery = (status.get("lastRun") or {}).get("delivery")
        if delivery in ("Failed", "Partial"):
            what = f"the last run's answer was not delivered everywhere ({delivery})"
            found.append(warn(check, what, f"{todo}; a webhook or account must be bound to the job's namespace"))
    return found or ([ok("cron", f"{len(jobs)} jobs, none in trouble")] if jobs else [])


def check_log(text: str) -> list[Finding]:
    """Say what the gateway has complained about."""
    entries = [entry for line in text.splitlines() if (entry := _entry(line))]
    found = [*_listening(entries), *_files(entries), *_denied(entries)]
    return found or [ok("gateway's log", f"{len(entries)} lines of the last minutes, no complaint")]


def _entry(line: str) -> dict[str, Any]:
    try:
        entry = json.loads(line)
    except ValueError:
        return {}
    return entry if isinstance(entry, dict) else {}


def _of(entries: Iterable[dict[str, Any]], event: str) -> list[dict[str, Any]]:
    return [entry for entry in entries if str(entry.get("event", "")).startswith(event)]


def _listening(entries: Sequence[dict[str, Any]]) -> list[Finding]:
    found = []
    told = _of(entries, "telegram.")
    newest = {str(entry.get("account")): entry.get("error") for entry in told}
    for account in sorted({str(entry.get("account")) for entry in told if entry.get("error") == "Conflict"}):
        # Each try is told of before it fails: only a while without a failure would say that it is over.
        state = fail if newest[account] == "Conflict" else warn
        what = "another process fetches this bot's updates (Conflict), or did in the last minutes"
        found.append(state(f"telegram account {account}", what, "stop the other process, or give each a bot of its own"))
    if _of(entries, "Failed to retrieve WSS URL"):
        todo = "socket_mode_enabled in the app's manifest, and an app-level token of this app with connections:write"
        found.append(fail("slack: Socket Mode", "Slack opens no connection for an app_token", todo))
    return found


def _files(entries: Sequence[dict[str, Any]]) -> list[Finding]:
    problems = {str(entry.get("problem", ""))[:300] for entry in _of(entries, "access.unreadable")}
    todo = "correct the Secret; what was good before is still in force"
    return [fail("access files", problem, todo) for problem in sorted(problems)]


def _denied(entries: Sequence[dict[str, Any]]) -> list[Finding]:
    people = sorted({f"{e.get('channel')} {e.get('account')} {e.get('user')}" for e in _of(entries, "people.denied")})
    if not people:
        return []
    more = f" and {len(people) - _MOST} more" if len(people) > _MOST else ""
    todo = "add the ids to allow_users, or let them in by pairing, if they may talk"
    return [warn("people turned away", ", ".join(people[:_MOST]) + more, todo)]
