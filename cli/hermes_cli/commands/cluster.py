"""`hermes profile` and `hermes logs`: what kubectl can show."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from hermes_cli.api.sessions import find_session, list_profiles
from hermes_cli.api.shapes import SESSION_ID
from hermes_cli.connection.choose import kubernetes_place
from hermes_cli.connection.contexts import read_configuration
from hermes_cli.connection.kubectl import Kubectl, Object, find_kubectl
from hermes_cli.connection.opening import connected
from hermes_cli.errors import CliError, ExitCode, refused
from hermes_cli.options import Options
from hermes_cli.show.console import print_fields, print_json, print_table
from hermes_cli.show.text import one_line
from hermes_contracts.names import GROUP, LABEL_SID

PROFILES = f"profiles.{GROUP}"
SESSIONS = f"hermessessions.{GROUP}"


def kubectl_of(options: Options) -> Kubectl:
    """Return kubectl, aimed at the release that is meant."""
    return Kubectl(kubernetes_place(options, read_configuration(options.config)))


async def list_profiles_of(options: Options, *, as_json: bool) -> ExitCode:
    """List the Profiles that the key may use; with a cluster at hand, with what they are."""
    async with connected(options) as connection:
        names = [model.id for model in await list_profiles(connection.api)]
    known = await _profiles_on_cluster(options)
    found = [{"name": name, **_profile_facts(known.get(name))} for name in names]
    if as_json:
        print_json(found)
        return ExitCode.OK
    columns = ("name", "provider", "model", "ready", "live", "asleep")
    print_table(columns, [tuple(cell(row[c]) for c in columns) for row in found], empty="The key may use no Profile.")
    return ExitCode.OK


async def _profiles_on_cluster(options: Options) -> dict[str, Object]:
    """Return the Profiles by name; none when no cluster can be asked, which is no error: the API has their names."""
    if find_kubectl() is None:
        return {}
    try:
        return {item["metadata"]["name"]: item for item in await kubectl_of(options).get_all(PROFILES)}
    except CliError:
        return {}


def _profile_facts(profile: Object | None) -> dict[str, Any]:
    spec, status = (profile or {}).get("spec", {}), (profile or {}).get("status", {})
    model = spec.get("model", {})
    ready = condition(profile or {}, "Ready")
    return {
        "provider": model.get("provider"),
        "model": model.get("name"),
        "ready": ready.get("status"),
        "live": status.get("liveSessions"),
        "asleep": status.get("asleepSessions"),
    }


def cell(value: object) -> str:
    """Return a value as a table shows it."""
    return "-" if value is None else str(value)


def condition(thing: Object, kind: str) -> dict[str, Any]:
    """Return a condition of an object, empty when it has none."""
    return next((c for c in thing.get("status", {}).get("conditions", []) if c.get("type") == kind), {})


async def show_profile(options: Options, name: str, *, as_json: bool) -> ExitCode:
    """Show a Profile of the cluster: its model and its conditions."""
    profile = await _required(options, PROFILES, name, "hermes profile list")
    if as_json:
        print_json({"name": name, "spec": profile.get("spec", {}), "status": profile.get("status", {})})
        return ExitCode.OK
    facts, status = _profile_facts(profile), profile.get("status", {})
    print_fields(
        [
            ("name", name),
            ("model", f"{cell(facts['provider'])}/{cell(facts['model'])}"),
            ("sessions", f"{cell(facts['live'])} live, {cell(facts['asleep'])} asleep"),
            ("spent", f"{status.get('spentTodayUsd') or '-'} today, {status.get('spentMonthUsd') or '-'} this month (USD)"),
            *conditions_of(profile),
        ]
    )
    return ExitCode.OK


def conditions_of(thing: Object) -> list[tuple[str, str]]:
    """Return an object's conditions, by kind."""
    found = thing.get("status", {}).get("conditions", [])
    return [(c["type"], _said(c)) for c in found]


def _said(found: dict[str, Any]) -> str:
    return f"{found['status']} {found.get('reason', '')}: {one_line(found.get('message', ''), 200)}".rstrip(": ")


async def _required(options: Options, kind: str, name: str, where: str) -> Object:
    kubectl = kubectl_of(options)
    found = await kubectl.get(kind, name)
    if found is None:
        raise refused(f"no {kind.split('.')[0]} {name!r} in namespace {kubectl.place.namespace}", f"see {where}")
    return found


@dataclass(frozen=True)
class LogsWanted:
    """Which lines of a session's containers."""

    container: str
    follow: bool
    tail: int
    previous: bool


async def logs(options: Options, word: str, wanted: LogsWanted) -> ExitCode:
    """Print what a session's agent or sandbox has logged. Raises CliError when it has no pod."""
    kubectl = kubectl_of(options)
    pod = await _pod_of(options, kubectl, word)
    arguments = ["logs", pod, "-c", wanted.container, f"--tail={wanted.tail}"]
    arguments += ["-f"] if wanted.follow else []
    arguments += ["--previous"] if wanted.previous else []
    process = await asyncio.create_subprocess_exec(*kubectl.command(*arguments), stdin=asyncio.subprocess.DEVNULL)
    try:
        return ExitCode.OK if await process.wait() == 0 else ExitCode.REFUSED
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()


async def _pod_of(options: Options, kubectl: Kubectl, word: str) -> str:
    named = await kubectl.get(SESSIONS, word) if not SESSION_ID.match(word) else None
    if named is not None:
        sid = named.get("status", {}).get("id", "")
    elif SESSION_ID.match(word):
        sid = word
    else:
        async with connected(options) as connection:
            sid = (await find_session(connection.api, word)).id
    pods = await kubectl.get_all("pods", f"{LABEL_SID}={sid}")
    if not pods:
        raise refused(f"session {sid or word} has no pod: it is asleep", "a message wakes it; kubectl describe hs says why")
    newest = max(pods, key=lambda pod: pod["metadata"]["creationTimestamp"])
    return str(newest["metadata"]["name"])
