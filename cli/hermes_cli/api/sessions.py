"""The calls on sessions and Profiles, with types."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from hermes_cli.api.client import Api
from hermes_cli.api.shapes import (
    SESSION_ID,
    Answered,
    Entry,
    Model,
    ModelList,
    Questions,
    SentFile,
    SentFiles,
    Session,
    SessionPage,
    Settings,
    Told,
    TranscriptPage,
    Turn,
    Undone,
)  # fmt: skip
from hermes_cli.errors import CliError, ExitCode, refused, unreachable, usage

_PAGE = 100
_MOST_SEARCHED = 2000

S = TypeVar("S", bound=BaseModel)


def shaped(kind: type[S], found: object) -> S:
    """Read an answer. Raises CliError when it is none that this client knows."""
    try:
        return kind.model_validate(found)
    except ValidationError as error:
        what = f"the gateway's answer is not what this client knows ({kind.__name__})"
        raise unreachable(what, "check the address, and the versions of both") from error


async def list_sessions(api: Api, *, profile: str | None = None, most: int = _PAGE) -> AsyncIterator[Session]:
    """Yield sessions, newest activity first, `most` of them."""
    cursor: str | None = None
    given = 0
    while given < most:
        params = {"limit": str(min(_PAGE, most - given))}
        params |= {"profile": profile} if profile else {}
        params |= {"cursor": cursor} if cursor else {}
        page = shaped(SessionPage, await api.call("GET", "/api/sessions", params=params))
        for session in page.data:
            yield session
        given += len(page.data)
        cursor = page.next_cursor
        if cursor is None:
            return


async def get_session(api: Api, sid: str) -> Session:
    """Return a session by its id."""
    return shaped(Session, await api.call("GET", f"/api/sessions/{sid}"))


async def make_session(api: Api, profile: str, *, client_id: str | None = None, title: str = "") -> Session:
    """Make a session, or return the one that has this client id."""
    body = {"profile": profile, "title": title} | ({"id": client_id} if client_id else {})
    return shaped(Session, await api.call("POST", "/api/sessions", body=body))


async def find_session(api: Api, word: str) -> Session:
    """Return the one session that a person means: by id, client id, or the beginning of an id. Raises CliError."""
    if SESSION_ID.match(word):
        return await get_session(api, word)
    close: list[Session] = []
    async for session in list_sessions(api, most=_MOST_SEARCHED):
        if session.client_id == word:
            return session
        if len(word) >= 4 and session.id.startswith(word):
            close.append(session)
    if not close:
        raise refused(f"no session {word!r}", "see hermes sessions list")
    if len(close) > 1:
        raise usage(f"{len(close)} sessions begin with {word!r}", "give more of the id")
    return close[0]


async def transcript(api: Api, sid: str) -> AsyncIterator[Entry]:
    """Yield a session's messages, oldest first."""
    after = 0
    while True:
        params = {"after": str(after), "limit": str(_PAGE)}
        page = shaped(TranscriptPage, await api.call("GET", f"/api/sessions/{sid}/messages", params=params))
        for entry in page.data:
            yield entry
            after = entry.sequence
        if not page.has_more or not page.data:
            return


async def list_files(api: Api, sid: str) -> list[SentFile]:
    """Return the files that a session's agent has sent, newest first."""
    return shaped(SentFiles, await api.call("GET", f"/api/sessions/{sid}/files")).data


async def post_message(
    api: Api, sid: str, text: str, images: Sequence[str], idempotency_key: str, *, patience_seconds: float
) -> str:
    """Send a message and return its id. With the same key it is one message, however often it is sent."""
    body = {"text": text, **({"images": list(images)} if images else {})}
    found = await api.call(
        "POST",
        f"/api/sessions/{sid}/messages",
        body=body,
        idempotency_key=idempotency_key,
        patience_seconds=patience_seconds,
    )
    return shaped(Turn, found).message_id


async def get_turn(api: Api, sid: str, message_id: str, *, patience_seconds: float = 0) -> Turn:
    """Return what became of a message."""
    found = await api.call("GET", f"/api/sessions/{sid}/turns/{message_id}", patience_seconds=patience_seconds)
    return shaped(Turn, found)


async def tell(api: Api, sid: str, command: str, body: dict[str, str] | None, *, wait_seconds: float) -> str | None:
    """Give a command (`stop`, `steer`, `redirect`, `compress`); returns what became of it, None when it is under way."""
    found = await api.call(
        "POST",
        f"/api/sessions/{sid}/{command}",
        body=body,
        params={"wait": f"{wait_seconds:g}"},
        wait_seconds=wait_seconds,
    )
    return shaped(Told, found).result


async def get_settings(api: Api, sid: str) -> Settings:
    """Return what is set for a session's conversation."""
    return shaped(Settings, await api.call("GET", f"/api/sessions/{sid}/settings"))


async def change_settings(api: Api, sid: str, **changes: str) -> Settings:
    """Set `title` or `model` of a session's conversation."""
    return shaped(Settings, await api.call("PATCH", f"/api/sessions/{sid}/settings", body=changes))


async def undo(api: Api, sid: str, exchanges: int, idempotency_key: str) -> str:
    """Take exchanges back; returns what became of it, in words."""
    path, body = f"/api/sessions/{sid}/undo", {"exchanges": exchanges}
    return shaped(Undone, await api.call("POST", path, body=body, idempotency_key=idempotency_key)).text


async def retry(api: Api, sid: str, idempotency_key: str) -> str:
    """Take the last exchange back and send its message again; returns the new message's id."""
    return shaped(Turn, await api.call("POST", f"/api/sessions/{sid}/retry", idempotency_key=idempotency_key)).message_id


async def answer_question(api: Api, sid: str, decision: str, argument: str) -> tuple[str, str]:
    """Answer what the agent asks; returns what became of it and the id of the message that goes on with it. Raises CliError.

    Without an id the newest open question is meant.
    """
    asked = shaped(Questions, await api.call("GET", f"/api/sessions/{sid}/approvals")).data
    first, _, rest = argument.partition(" ")
    known = next((one.approval_id for one in asked if one.approval_id == first), "")
    words = (rest if known else argument).strip()
    if not asked:
        raise usage("the agent asks nothing", "its questions are shown when they come")
    if decision == "approve" and words not in ("", "once", "session", "always"):
        raise usage(f"{words!r} is no scope", "say once, session or always")
    said = {"scope": words or "once"} if decision == "approve" else {"text": words}
    path = f"/api/sessions/{sid}/approvals/{known or asked[0].approval_id}"
    answered = shaped(Answered, await api.call("POST", path, body={"decision": decision, **said}))
    return answered.text, answered.message_id


async def delete_session(api: Api, sid: str) -> None:
    """Delete a session with all it holds."""
    await api.call("DELETE", f"/api/sessions/{sid}")


async def list_profiles(api: Api) -> list[Model]:
    """Return the Profiles that the key may use."""
    return shaped(ModelList, await api.call("GET", "/v1/models")).data


async def pick_profile(api: Api, named: str | None) -> str:
    """Return the Profile of a new session: the named one, the only one, or `default`. Raises CliError."""
    if named:
        return named
    try:
        known = [model.id for model in await list_profiles(api)]
    except CliError as error:
        # A key for sessions only may not list them.
        if error.code is ExitCode.REFUSED:
            return "default"
        raise
    if "default" in known or not known:
        return "default"
    if len(known) > 1:
        raise usage("which Profile?", f"give --profile, one of: {', '.join(known)}")
    return known[0]
