"""Routes for administrators: who is let into a chat account by a code, and the record of who decided what.

A key of the scope `people` looks after the accounts that are bound to its namespace and Profiles; others are not found.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Path, Query, Response
from pydantic import BaseModel, ConfigDict, StringConstraints

from hermes_contracts.access import ApiKeyRecord, ChatAccount
from hermes_contracts.chat_ids import PlatformId
from hermes_contracts.store_api import (
    APPROVE_PAIRING,
    LIST_PAIRINGS,
    PEOPLE_RECORD,
    REVOKE_PAIRING,
    ApprovePairingRequest,
    PairingsRequest,
    PeopleRecordRequest,
    RevokePairingRequest,
)  # fmt: skip
from hermes_contracts.store_api.people import PeopleAction
from hermes_gateway.gateway.people.pairing import CODE
from hermes_gateway.gateway.web.callers import caller_with, problems
from hermes_gateway.gateway.web.errors import ApiError
from hermes_service.rpc import StoreClient

PeopleCaller = Annotated[ApiKeyRecord, Depends(caller_with("people"))]
Accounts = Mapping[str, Callable[[], Mapping[str, ChatAccount]]]
"""The accounts of each platform as they are now, by name."""
_Channel = Annotated[str, Path(max_length=32)]
_Name = Annotated[str, Path(max_length=63)]


class AccountView(BaseModel):
    """A chat account as the administrator bound it; `account` is what the platform's ids are from."""

    channel: str
    name: str
    account: str
    profile: str
    pairing: bool


class AccountPage(BaseModel):
    """By channel and name."""

    object: Literal["list"] = "list"
    data: list[AccountView]


class LetIn(BaseModel):
    """Somebody who was let in, when in seconds since the epoch."""

    person: str
    approved_by: str
    approved_at: float


class Waiting(BaseModel):
    """Somebody who was given a code that is still good."""

    person: str
    asked_at: float


class AccountPeople(BaseModel):
    """Newest first, at most 200. Those whom the account itself allows are not among them."""

    people: list[LetIn]
    waiting: list[Waiting]


class Code(BaseModel):
    """A code that a person has shown."""

    model_config = ConfigDict(extra="forbid")

    code: Annotated[str, StringConstraints(strip_whitespace=True, max_length=64)]


class Approved(BaseModel):
    """Who may use the account from now on."""

    person: str


class RecordedDeed(BaseModel):
    """What somebody did; `at` in seconds since the epoch. `actor` is a platform's id, an owner, or `api:<key id>`."""

    id: int
    at: float
    actor: str
    action: PeopleAction
    person: str
    account: str
    profile: str
    session: str
    detail: str


class RecordPage(BaseModel):
    """Newest first; `next_before` is the `before` of the next page."""

    object: Literal["list"] = "list"
    data: list[RecordedDeed]
    next_before: int | None


def build_router(store: StoreClient, accounts: Accounts) -> APIRouter:
    """Build the routes."""
    router = APIRouter(prefix="/api", tags=["People"], responses=problems(503))

    @router.get("/accounts")
    async def list_accounts(caller: PeopleCaller) -> AccountPage:
        """List the chat accounts that the key looks after."""
        found = [
            AccountView(channel=channel, account=one.account, **one.model_dump(include=_SHOWN))
            for channel, of_channel in sorted(accounts.items())
            for _, one in sorted(of_channel().items())
            if _looks_after(caller, one)
        ]
        return AccountPage(data=found)

    @router.get("/accounts/{channel}/{name}/people", responses=problems(404))
    async def list_people(channel: _Channel, name: _Name, caller: PeopleCaller) -> AccountPeople:
        """List who was let into an account by a code, and who waits."""
        key, _ = _require(accounts, caller, channel, name)
        found = await store.call(LIST_PAIRINGS, PairingsRequest(account=key))
        return AccountPeople(
            people=[LetIn(**one.model_dump(exclude={"version"})) for one in found.people],
            waiting=[Waiting(**one.model_dump(exclude={"version"})) for one in found.waiting],
        )

    @router.post("/accounts/{channel}/{name}/people", responses=problems(404, 409))
    async def let_in(channel: _Channel, name: _Name, body: Code, caller: PeopleCaller) -> Approved:
        """Let in whoever was given a code. Saying the same code again is harmless."""
        key, account = _require(accounts, caller, channel, name)
        code = body.code.upper()
        if CODE.fullmatch(code) is None:
            raise ApiError(400, "code: has eight letters and digits", code="invalid_value", param="code")
        request = ApprovePairingRequest(
            account=key, code=code, by=_actor(caller), namespace=account.namespace, profile=account.profile
        )
        reply = await store.call(APPROVE_PAIRING, request)
        if reply.outcome == "approved":
            return Approved(person=reply.person)
        if reply.outcome == "locked":
            locked = "too many wrong codes were given for this account; nobody can be let in by a code for an hour"
            raise ApiError(409, locked, code="locked", final=True)
        unknown = "no code like this is waiting: it may be mistyped or more than an hour old; have the person ask again"
        raise ApiError(404, unknown, code="not_found", param="code")

    @router.delete("/accounts/{channel}/{name}/people/{person}", status_code=204, responses=problems(404))
    async def put_out(channel: _Channel, name: _Name, person: PlatformId, caller: PeopleCaller) -> Response:
        """Put somebody out who was let in by a code. What the account itself allows stays."""
        key, account = _require(accounts, caller, channel, name)
        request = RevokePairingRequest(
            account=key, person=person, by=_actor(caller), namespace=account.namespace, profile=account.profile
        )
        await store.call(REVOKE_PAIRING, request)
        return Response(status_code=204)

    @router.get("/audit")
    async def read_record(
        caller: PeopleCaller,
        before: Annotated[int | None, Query(ge=1, description="Only what came before this id")] = None,
        limit: Annotated[int, Query(ge=1, le=200)] = 100,
        sent: Annotated[
            bool, Query(description="Also who sent messages: a row a person, account, agent and UTC day")
        ] = False,
    ) -> RecordPage:
        """Read who decided what about whom, in the key's namespace and Profiles."""
        request = PeopleRecordRequest(
            namespace=caller.namespace, profiles=caller.profiles, before=before, limit=limit, sent=sent
        )
        found = await store.call(PEOPLE_RECORD, request)
        deeds = [RecordedDeed(session=e.sid, **e.model_dump(exclude={"version", "sid"})) for e in found.events]
        return RecordPage(data=deeds, next_before=deeds[-1].id if found.more and deeds else None)

    return router


_SHOWN = {"name", "profile", "pairing"}


def _looks_after(caller: ApiKeyRecord, account: ChatAccount) -> bool:
    return account.namespace == caller.namespace and account.profile in caller.profiles


def _require(accounts: Accounts, caller: ApiKeyRecord, channel: str, name: str) -> tuple[str, ChatAccount]:
    found = accounts[channel]().get(name) if channel in accounts else None
    if found is None or not _looks_after(caller, found):
        raise ApiError(404, f"no account {channel}:{name} that this key looks after", code="not_found", param="name")
    return f"{channel}:{found.account}", found


def _actor(caller: ApiKeyRecord) -> str:
    return f"api:{caller.id}"
