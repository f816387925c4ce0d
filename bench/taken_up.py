"""When a message was taken up: its turn was opened in the database of a release."""

from __future__ import annotations

from release.kubectl import kubectl


async def opened_at(release: str, namespace: str, sid: str) -> float:
    """Return when a session's first turn was opened, in seconds since the epoch, by the machine's clock."""
    return await _opened(release, namespace, sid, "min")


async def last_opened_at(release: str, namespace: str, sid: str) -> float:
    """Return when its newest turn was opened."""
    return await _opened(release, namespace, sid, "max")


async def _opened(release: str, namespace: str, sid: str, which: str) -> float:
    query = f"select extract(epoch from {which}(opened_at)) from hermes.turns where sid = '{sid}'"
    command = (
        f'PGPASSWORD=$(cat /run/hermes/postgres/owner-password) psql -h 127.0.0.1 -U hermes_owner -d hermes -tAc "{query}"'
    )
    return float(await kubectl("exec", "-n", namespace, f"{release}-database-0", "--", "sh", "-c", command))
