"""Which commands a person may say: admins, the others, and rooms apart from direct chats."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, strategies as st
from pydantic import ValidationError

from hermes_contracts.access import ChatAccount
from hermes_gateway.gateway.channels.base import ChatMessage
from hermes_gateway.gateway.channels.commands import COMMANDS, Asked, NoCommand, help_text, parse_command
from hermes_gateway.gateway.people.command_rights import FLOOR, commands_for, permit

DIRECT = ChatMessage(
    channel="slack", account="T1.A1", team="T1", user="U1", chat="D1", kind="direct", thread="", reply_thread="",
    update_id="D1:1.0", order="1.0", text="hello",
)  # fmt: skip
ROOM = replace(DIRECT, chat="C1", kind="group")
EVERY = {spec.name for spec in COMMANDS}
OTHERS = EVERY - {"pair"}


def account(**fields: object) -> ChatAccount:
    return ChatAccount.model_validate({"name": "acme", "namespace": "team", "profile": "helper", **fields})


OPEN = account()
SPLIT = account(admins=["UBOSS"], user_commands=["status", "reset"])
ROOMS = account(group_admins=["UBOSS"], group_user_commands=["queue"])


@pytest.mark.parametrize(
    ("bound", "message", "user", "names"),
    [
        (OPEN, DIRECT, "U1", OTHERS),
        (OPEN, ROOM, "U1", OTHERS),
        (SPLIT, DIRECT, "UBOSS", EVERY),
        (SPLIT, DIRECT, "uboss", {*FLOOR, "status", "new"}),
        (SPLIT, DIRECT, "U1", {*FLOOR, "status", "new"}),
        (SPLIT, ROOM, "U1", OTHERS),
        (ROOMS, ROOM, "UBOSS", EVERY),
        (ROOMS, ROOM, "U1", {*FLOOR, "queue"}),
        (ROOMS, DIRECT, "U1", OTHERS),
        (account(admins=["UBOSS"]), DIRECT, "U1", FLOOR),
        (account(admins=["UBOSS"], user_commands=["pair"]), DIRECT, "U1", FLOOR),
    ],
)
def test_who_may_say_what(bound: ChatAccount, message: ChatMessage, user: str, names: set[str]) -> None:
    assert {spec.name for spec in commands_for(bound, replace(message, user=user))} == names


@given(st.sampled_from(COMMANDS), st.lists(st.sampled_from(sorted(EVERY)), max_size=5), st.sampled_from([DIRECT, ROOM]))
def test_nobody_but_an_admin_says_what_is_not_listed(spec: object, listed: list[str], message: ChatMessage) -> None:
    bound = account(admins=["UBOSS"], user_commands=listed, group_admins=["UBOSS"], group_user_commands=listed)
    asked = Asked(spec, "")  # type: ignore[arg-type]
    answer = permit(asked, commands_for(bound, message))
    assert (answer is asked) == (asked.spec.name in (FLOOR | set(listed)) - {"pair"})


def test_a_refusal_says_what_may_be_said_and_so_does_help() -> None:
    allowed = commands_for(SPLIT, DIRECT)
    refused = permit(parse_command("!stop"), allowed)
    assert isinstance(refused, NoCommand)
    assert refused.sentence == "`/stop` is for admins here. You may say: `/help`, `/new [title]`, `/status`, `/whoami`."
    assert "/stop`:" not in help_text(allowed)
    assert "`/status`" in help_text(allowed)


def test_what_is_no_command_is_nobodys_to_refuse() -> None:
    assert permit(parse_command("stop it"), ()) is None


def test_codes_need_somebody_who_approves_them() -> None:
    with pytest.raises(ValidationError, match="pairing: nobody"):
        account(pairing=True)


@pytest.mark.parametrize("field", ["user_commands", "group_user_commands"])
def test_a_list_that_would_keep_nobody_out_is_refused(field: str) -> None:
    with pytest.raises(ValidationError, match=f"{field}: without"):
        account(**{field: ["status"]})
    with pytest.raises(ValidationError):
        account(**{field: ["/status"]}, admins=["UBOSS"], group_admins=["UBOSS"])
