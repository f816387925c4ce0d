"""What the cluster shows of sessions, and a shell into their containers."""

from __future__ import annotations

import json

from hermes_contracts.names import LABEL_SID
from release.kubectl import Object, condition, get, get_all, kubectl, until


async def only_session(namespace: str, count: int = 1) -> list[Object]:
    """Wait until a namespace has this many HermesSessions, and return them."""

    async def found() -> list[Object]:
        sessions = await get_all("hermessessions", namespace)
        return sessions if len(sessions) == count else []

    return list(await until(f"{count} HermesSession(s) in {namespace}", found))


async def session_of(namespace: str, chat: str) -> Object:
    """Wait for the HermesSession of a client's session id."""

    async def found() -> Object | None:
        sessions = await get_all("hermessessions", namespace)
        mine = [s for s in sessions if s["spec"].get("key", {}).get("chat") == chat and s.get("status", {}).get("id")]
        return mine[0] if mine else None

    return dict(await until(f"the HermesSession of {chat}", found))


async def pod_of(session: Object) -> Object | None:
    """Return the running pod of a session."""
    namespace, sid = session["metadata"]["namespace"], session["status"]["id"]
    pods = await get_all("pods", namespace, f"{LABEL_SID}={sid}")
    running = [p for p in pods if not p["metadata"].get("deletionTimestamp") and p["status"]["phase"] == "Running"]
    return running[0] if running else None


async def pod_running(namespace: str, name: str) -> Object:
    """Wait for a session's pod."""

    async def found() -> Object | None:
        session = await get("hermessession", name, namespace)
        return await pod_of(session) if session and session.get("status", {}).get("id") else None

    return dict(await until(f"a running pod of session {name}", found))


async def state_of(namespace: str, name: str, *states: str, deadline_seconds: float = 90) -> Object:
    """Wait until a session's status names one of these states."""

    async def found() -> Object | None:
        session = await get("hermessession", name, namespace)
        return session if session and session.get("status", {}).get("state") in states else None

    return dict(await until(f"session {name} to be {' or '.join(states)}", found, deadline_seconds=deadline_seconds))


async def shell(namespace: str, pod: str, container: str, *command: str) -> str:
    """Run a command in a container through the API server, as an attacker with that container would from inside."""
    return await kubectl("exec", "-n", namespace, pod, "-c", container, "--", *command)


async def python_in(namespace: str, pod: str, container: str, code: str) -> str:
    """Run Python in a container; both containers have an interpreter."""
    program = "/app/bin/python3" if container == "agent" else "python3"
    return await shell(namespace, pod, container, program, "-c", code)


async def suspend(namespace: str, name: str, suspended: bool) -> None:
    """Set spec.suspend, as a person would with kubectl."""
    patch = json.dumps({"spec": {"suspend": suspended}})
    await kubectl("patch", "hermessession", name, "-n", namespace, "--type", "merge", "-p", patch)


async def events_of(namespace: str, name: str) -> list[str]:
    """Return the reasons of an object's Events."""
    events = await get_all("events", namespace)
    return [e["reason"] for e in events if (e.get("involvedObject") or e.get("regarding", {})).get("name") == name]


async def condition_of(namespace: str, kind: str, name: str, type_: str, *, status: str, says: str = "") -> Object:
    """Wait until a condition has a status and a message that holds a word."""

    async def found() -> Object | None:
        it = condition(await get(kind, name, namespace), type_)
        return it if it.get("status") == status and says.lower() in it.get("message", "").lower() else None

    what = f"{kind} {name}: condition {type_}={status} {says}"
    return dict(await until(what, found, deadline_seconds=90))
