"""The calls on chat accounts and those who are let into them, with types."""

from __future__ import annotations

from urllib.parse import quote

from pydantic import BaseModel, ConfigDict

from hermes_cli.api.client import Api
from hermes_cli.api.sessions import shaped
from hermes_cli.errors import usage


class _Shape(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class Account(_Shape):
    """A chat account that the key looks after."""

    channel: str
    name: str
    account: str = ""
    profile: str = ""
    pairing: bool = False

    @property
    def word(self) -> str:
        """How it is named on a command line."""
        return f"{self.channel}:{self.name}"


class _Accounts(_Shape):
    data: list[Account]


class LetIn(_Shape):
    """Somebody who was let in by a code."""

    person: str
    approved_by: str = ""
    approved_at: float = 0


class Waiting(_Shape):
    """Somebody who was given a code."""

    person: str
    asked_at: float = 0


class People(_Shape):
    """Who is let into an account, and who waits."""

    people: list[LetIn]
    waiting: list[Waiting] = []


class Approved(_Shape):
    """Who was let in."""

    person: str


class Deed(_Shape):
    """What somebody decided about whom."""

    id: int
    at: float
    actor: str
    action: str
    person: str = ""
    account: str = ""
    profile: str = ""
    session: str = ""
    detail: str = ""


class _Record(_Shape):
    data: list[Deed]
    next_before: int | None = None


async def list_accounts(api: Api) -> list[Account]:
    """Return the accounts that the key looks after."""
    return shaped(_Accounts, await api.call("GET", "/api/accounts")).data


async def find_account(api: Api, word: str) -> Account:
    """Return the account that a word names: `slack:acme`, or `acme` or `slack` where that is one only. Raises CliError."""
    accounts = await list_accounts(api)
    found = [one for one in accounts if word in (one.word, one.name, one.channel)]
    if len(found) == 1:
        return found[0]
    known = ", ".join(one.word for one in accounts) or "none"
    what = f"{word!r} is more than one account" if found else f"no account {word!r} that this key looks after"
    raise usage(what, f"the key looks after: {known}")


async def people_of(api: Api, account: Account) -> People:
    """Return who is let in and who waits."""
    return shaped(People, await api.call("GET", f"{_path(account)}/people"))


async def approve(api: Api, account: Account, code: str) -> str:
    """Let in whoever was given a code; returns who that is."""
    return shaped(Approved, await api.call("POST", f"{_path(account)}/people", body={"code": code})).person


async def revoke(api: Api, account: Account, person: str) -> None:
    """Put somebody out."""
    await api.call("DELETE", f"{_path(account)}/people/{quote(person, safe='')}")


async def read_record(api: Api, most: int, *, sent: bool) -> list[Deed]:
    """Return who decided what, newest first, `most` of it."""
    found: list[Deed] = []
    before: int | None = None
    while len(found) < most:
        params = {"limit": str(min(200, most - len(found))), "sent": str(sent).lower()}
        params |= {"before": str(before)} if before else {}
        page = shaped(_Record, await api.call("GET", "/api/audit", params=params))
        found += page.data
        before = page.next_before
        if before is None:
            break
    return found


def _path(account: Account) -> str:
    return f"/api/accounts/{account.channel}/{account.name}"
