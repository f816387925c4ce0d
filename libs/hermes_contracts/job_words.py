"""Jobs in words, as people and models name and read them. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hermes_contracts.crd.cron_job import CHAT_CHANNELS, DeliverTarget
from hermes_contracts.jobs import MAX_TARGETS, JobView
from hermes_contracts.names import HOME_CHANNEL

_LOCAL, _ORIGIN = "local", "origin"
_WEBHOOK = re.compile(r"webhook:([a-z0-9][a-z0-9-]{0,62})")
_SHOWN_CHARACTERS = 120


def targets_of(words: str, *, origin: DeliverTarget | None, owner: str) -> tuple[DeliverTarget, ...]:
    """Read where answers go, several places with commas between them. Raises ValueError with a sentence.

    `origin` is where it is asked; without a chat there, answers are kept and read on demand, as with `local`.
    """
    found: list[DeliverTarget] = []
    for word in filter(None, (part.strip() for part in words.split(","))):
        if word == _ORIGIN:
            found += [origin] if origin is not None else []
        elif word == HOME_CHANNEL or word in CHAT_CHANNELS:
            found.append(DeliverTarget(channel=HOME_CHANNEL, account=owner, chat="" if word == HOME_CHANNEL else word))
        elif match := _WEBHOOK.fullmatch(word):
            found.append(DeliverTarget(channel="webhook", account=match[1]))
        elif word != _LOCAL:
            raise ValueError(
                f"deliver: {word[:64]!r} is none of local, origin, home, {', '.join(CHAT_CHANNELS)} and webhook:<route>"
            )
    if len(found) > MAX_TARGETS:
        raise ValueError(f"deliver: at most {MAX_TARGETS} places")
    return tuple(dict.fromkeys(found))


def words_of(targets: Sequence[DeliverTarget], *, origin: DeliverTarget | None = None) -> str:
    """Say where answers go."""
    return ", ".join(_word(target, origin) for target in targets) or _LOCAL


def _word(target: DeliverTarget, origin: DeliverTarget | None) -> str:
    if target == origin:
        return _ORIGIN
    if target.channel == HOME_CHANNEL:
        return target.chat or HOME_CHANNEL
    return ":".join(part for part in (target.channel, target.account, target.chat, target.thread) if part)


def job_named(jobs: Sequence[JobView], word: str) -> JobView:
    """Return the job of an id or a name, whatever its case. Raises ValueError with a sentence."""
    by_id = [job for job in jobs if job.id == word]
    found = by_id or [job for job in jobs if job.title.casefold() == word.casefold()]
    if len(found) == 1:
        return found[0]
    if found:
        raise ValueError(f"job_id: several jobs are called {word[:64]!r}: {', '.join(job.id for job in found)}")
    known = ", ".join(job.title for job in jobs[:20])
    raise ValueError(f"job_id: there is no job {word[:64]!r}{f'; there are: {known}' if known else '; there are none'}")


def show_job(job: JobView, *, origin: DeliverTarget | None = None) -> str:
    """Describe a job in one line of Markdown."""
    state = "paused" if job.suspended else f"next run {job.next_run}" if job.next_run else "no next run yet"
    parts = [f"{'; '.join(job.schedules)} ({job.time_zone})", state]
    if job.last_outcome:
        delivery = f", delivery {job.last_delivery}" if job.last_delivery not in ("", "None") else ""
        parts.append(f"last run {job.last_outcome}{delivery}")
    parts.append(f"to {words_of(job.deliver, origin=origin)}")
    if job.managed_by:
        parts.append(f"kept by {job.managed_by}, read-only here")
    what = " ".join((job.prompt or job.script).split())
    shown = what if len(what) <= _SHOWN_CHARACTERS else what[: _SHOWN_CHARACTERS - 1] + "…"
    return f"**{job.title}** (`{job.id}`): {', '.join(parts)}. {shown}"
