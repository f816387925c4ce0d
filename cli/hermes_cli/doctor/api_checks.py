"""Checks of the gateway: its address, the key, what it depends on, the Profiles. Pure."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import ValidationError

from hermes_cli.api.client import API_VERSION, Probe
from hermes_cli.api.shapes import Health
from hermes_cli.connection.choose import Direct, Release
from hermes_cli.doctor.finding import Finding, fail, ok, warn
from hermes_cli.errors import CliError

_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
_CLOCK_SECONDS = 5.0
_SLOW_MILLISECONDS = 1000.0
_PART_TODO = {
    "bus": "look at the bus: kubectl get pods -l app.kubernetes.io/component=bus; kubectl logs of the gateway",
    "store": "look at the store and the database: kubectl logs -l app.kubernetes.io/component=store",
    "profiles": "look at the operator, which writes them: kubectl logs -l app.kubernetes.io/component=operator",
    "access_files": "correct the Secret of the API keys or webhook routes that the message names",
}


def check_target(target: Direct | Release) -> Finding:
    """Say which gateway is meant, and whether a key would travel in the clear."""
    if isinstance(target, Release):
        place = target.place
        where = f"release {place.release} in namespace {place.namespace}, through kubectl port-forward"
        return ok("configuration", where)
    address = urlsplit(target.url)
    if address.scheme == "http" and address.hostname not in _LOOPBACK:
        return warn("configuration", f"{target.url}: the key travels unencrypted", "use https")
    return ok("configuration", target.url)


def check_key_file(path: Path | None, mode: int | None) -> Finding | None:
    """Say that others may read the key; None when there is no file to look at."""
    if path is None or mode is None:
        return None
    if mode & 0o077:
        return warn("key file", f"others may read {path} (mode {mode & 0o777:o})", f"chmod 600 {path}")
    return ok("key file", f"{path} is yours alone")


def check_reach(found: Probe | CliError) -> Finding:
    """Say whether a gateway answers, and how fast."""
    if isinstance(found, CliError):
        return fail("reachable", found.what, found.todo)
    if found.status != 200 or '"status"' not in found.text:
        return fail("reachable", f"what answers there is no Hermes gateway (status {found.status})", "check the address")
    took = f"answers in {found.milliseconds:.0f} ms"
    if found.milliseconds > _SLOW_MILLISECONDS:
        return warn("reachable", took, "look at the network between you and the gateway, and at its CPU limit")
    return ok("reachable", took)


def check_clock(found: Probe) -> Finding | None:
    """Compare the two clocks; None when the gateway does not tell the time."""
    ahead = found.clock_ahead_seconds
    if ahead is None:
        return None
    if abs(ahead) > _CLOCK_SECONDS:
        which = "ahead of" if ahead > 0 else "behind"
        return warn("clock", f"the gateway's clock is {abs(ahead):.0f} s {which} yours", "synchronise both clocks (NTP)")
    return ok("clock", "the same as the gateway's")


def check_version(found: Probe | CliError) -> Finding:
    """Compare the version of the API with the one this client is made for."""
    if isinstance(found, CliError):
        return fail("API version", found.what, found.todo)
    try:
        version = json.loads(found.text)["info"]["version"]
    except (ValueError, KeyError, TypeError):
        return fail("API version", "the gateway does not describe its API", "check the address")
    if version != API_VERSION:
        newer = f"the gateway speaks version {version}, this client {API_VERSION}"
        return fail("API version", newer, "install the client of the gateway's release")
    return ok("API version", str(version))


def check_key(models: Probe | CliError, sessions: Probe | CliError) -> list[Finding]:
    """Say what the key may do: both scopes are asked for."""
    findings = []
    for scope, found in (("chat", models), ("sessions", sessions)):
        name = f"key, scope {scope}"
        if isinstance(found, CliError):
            findings.append(fail(name, found.what, found.todo))
        elif found.status == 401:
            todo = "check HERMES_API_KEY_FILE, HERMES_API_KEY or keyFile; a changed Secret takes a minute or two"
            return [fail("key", "the gateway does not know this key", todo)]
        elif found.status == 403:
            without = "hermes chat and send need it" if scope == "sessions" else "OpenAI clients need it"
            findings.append(warn(name, "the key lacks it", f"{without}; ask for a key that has it"))
        elif found.status >= 400:
            findings.append(fail(name, _message(found), "see the checks of the gateway's parts"))
        else:
            findings.append(ok(name, "accepted"))
    return findings


def check_parts(found: Probe | CliError) -> list[Finding]:
    """Say how what the gateway depends on is."""
    if isinstance(found, CliError):
        return [fail("gateway", found.what, found.todo)]
    try:
        health = Health.model_validate_json(found.text)
    except ValidationError:
        return [fail("gateway", _message(found), "see kubectl logs of the gateway")]
    return [
        ok(f"gateway: {name}", "" if part.milliseconds is None else f"answers in {part.milliseconds:.0f} ms")
        if part.ok
        else fail(f"gateway: {name}", part.message, _PART_TODO.get(name, "see kubectl logs of the gateway"))
        for name, part in health.parts.items()
    ]


def check_profile(name: str, found: Probe | CliError) -> Finding:
    """Say whether somebody can be talked to."""
    check = f"Profile {name}"
    if isinstance(found, CliError):
        return fail(check, found.what, found.todo)
    if found.status != 200:
        return fail(check, _message(found), f"kubectl describe profile {name}")
    return ok(check, "ready")


def _message(found: Probe) -> str:
    try:
        return str(json.loads(found.text)["error"]["message"])[:500]
    except (ValueError, KeyError, TypeError):
        return f"status {found.status}"
