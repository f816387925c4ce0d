"""`hermes pairing` and `hermes audit`."""

from __future__ import annotations

import time

from hermes_cli.api import people
from hermes_cli.connection.opening import connected
from hermes_cli.errors import ExitCode
from hermes_cli.options import Options
from hermes_cli.show.console import print_json, print_table, remarks
from hermes_cli.show.text import ago, one_line, printable


async def list_them(options: Options, word: str | None, *, as_json: bool) -> ExitCode:
    """List who is let in and who waits, of one account or of all."""
    async with connected(options) as connection:
        api = connection.api
        accounts = [await people.find_account(api, word)] if word else await people.list_accounts(api)
        found = [(account, await people.people_of(api, account)) for account in accounts]
    if as_json:
        print_json([{"account": account.word, **of.model_dump(mode="json")} for account, of in found])
        return ExitCode.OK
    rows = [
        row
        for account, of in found
        for row in (
            *((account.word, one.person, "waits for approval", "", _ago(one.asked_at)) for one in of.waiting),
            *((account.word, one.person, "let in", one.approved_by, _ago(one.approved_at)) for one in of.people),
        )
    ]
    columns = ("account", "person", "state", "by", "since")
    print_table(columns, rows, empty="Nobody was let in by a code, and nobody waits.")
    return ExitCode.OK


async def approve(options: Options, word: str, code: str) -> ExitCode:
    """Let in whoever was given a code."""
    async with connected(options) as connection:
        account = await people.find_account(connection.api, word)
        person = await people.approve(connection.api, account, code)
    remarks().print(f"{printable(person)} may use {account.word} from now on.", markup=False)
    return ExitCode.OK


async def revoke(options: Options, word: str, person: str) -> ExitCode:
    """Put somebody out who was let in by a code."""
    async with connected(options) as connection:
        account = await people.find_account(connection.api, word)
        await people.revoke(connection.api, account, person)
    said = f"{printable(person)} is not let into {account.word} by a code any more. What the account itself allows stays."
    remarks().print(said, markup=False)
    return ExitCode.OK


async def audit(options: Options, *, most: int, sent: bool, as_json: bool) -> ExitCode:
    """Print who decided what about whom, newest first."""
    async with connected(options) as connection:
        found = await people.read_record(connection.api, most, sent=sent)
    if as_json:
        print_json(found)
        return ExitCode.OK
    rows = [
        (
            time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(deed.at)),
            deed.actor,
            deed.action,
            deed.person,
            deed.account,
            one_line(" ".join(part for part in (deed.session, deed.detail) if part), 100),
        )
        for deed in found
    ]
    print_table(("when", "who", "did", "about", "account", "what"), rows, empty="Nothing is recorded.")
    return ExitCode.OK


def _ago(at: float) -> str:
    return f"{ago(time.time() - at)} ago"
