"""Whose a place of a chat account is, and how its Profile narrows who may use it there."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, strategies as st

from hermes_contracts.access import ChatAccount
from hermes_contracts.crd.channels import USER_COMMANDS, ChannelRules, claims, conflicts
from hermes_contracts.projection import ProfileProjection
from hermes_gateway.gateway.channels.base import ChatMessage
from hermes_gateway.gateway.channels.commands import COMMANDS, COMMANDS_BY_NAME
from hermes_gateway.gateway.people.authorize import Grants, Right, decide_right
from hermes_gateway.gateway.people.command_rights import FLOOR, commands_for
from hermes_gateway.gateway.people.places import Place, place_of

DIRECT = ChatMessage(
    channel="slack", account="T1.A1", team="T1", user="U1", chat="D1", kind="direct", thread="", reply_thread="",
    update_id="D1:1.0", order="1.0", text="hello",
)  # fmt: skip
ROOM = replace(DIRECT, chat="C1", kind="group")
EVERYONE = Grants(frozenset(), frozenset(), everyone=True)
Said = dict[str, Any]


def account(**fields: object) -> ChatAccount:
    return ChatAccount.model_validate(
        {"name": "acme", "namespace": "team", "profile": "helper", "profiles": ["ops", "late"], **fields}
    )


def rules(said: Said | None) -> tuple[ChannelRules, ...]:
    if said is None:
        return ()
    return (ChannelRules.model_validate({"channel": "slack", "account": "acme", **said}),)


def profile(name: str, said: Said | None, created_at: float, namespace: str = "team") -> ProfileProjection:
    return ProfileProjection(
        namespace=namespace, namespace_uid="u", name=name, model="m", provider="p", ready=True, message="",
        channels=rules(said), created_at=created_at,
    )  # fmt: skip


def place(message: ChatMessage, bound: ChatAccount | None = None, /, **said: Said | None) -> Place:
    """Where a message belongs; Profiles are made in the order they are given."""
    found = {("team", name): profile(name, one, at) for at, (name, one) in enumerate(said.items())}
    return place_of(bound or account(), message, lambda namespace, name: found.get((namespace, name)))


ROOMS_ONLY: Said = {"direct": {"enabled": False}}
IN_C1: Said = {"direct": {"enabled": False}, "groups": {"chats": [{"id": "C1"}]}}
IN_C2: Said = {"direct": {"enabled": False}, "groups": {"chats": [{"id": "C2"}]}}


@pytest.mark.parametrize(
    ("message", "said", "whose", "closed"),
    [
        (DIRECT, {"helper": None}, "helper", False),
        (DIRECT, {}, "helper", False),
        (ROOM, {"helper": None, "ops": IN_C1}, "ops", False),
        (ROOM, {"helper": None, "ops": IN_C2}, "helper", False),
        (DIRECT, {"helper": None, "ops": IN_C1}, "helper", False),
        (ROOM, {"helper": {}, "ops": IN_C1}, "ops", False),
        (ROOM, {"ops": IN_C1, "late": IN_C1}, "ops", False),
        (ROOM, {"late": IN_C1, "ops": IN_C1}, "late", False),
        (ROOM, {"helper": None, "stranger": IN_C1}, "helper", False),
        (ROOM, {"helper": {"groups": {"enabled": False}}}, "helper", True),
        (DIRECT, {"helper": {"groups": {"enabled": False}}}, "helper", False),
        (DIRECT, {"helper": ROOMS_ONLY}, "helper", True),
        (ROOM, {"helper": IN_C2}, "helper", True),
        (ROOM, {"helper": IN_C2, "ops": {"direct": {"enabled": False}}}, "ops", False),
        (ROOM, {"helper": {"account": "other", "groups": {"enabled": False}}}, "helper", False),
        (ROOM, {"helper": {"channel": "telegram", "groups": {"enabled": False}}}, "helper", False),
    ],
)  # fmt: skip
def test_whose_a_place_is(message: ChatMessage, said: dict[str, Said | None], whose: str, closed: bool) -> None:
    found = place(message, **said)
    assert (found.profile, found.closed) == (whose, closed)


def test_a_profile_that_the_administrator_does_not_name_claims_nothing() -> None:
    assert place(ROOM, account(profiles=[]), helper=None, ops=IN_C1).profile == "helper"


NAMED: Said = {"direct": {"allowUsers": ["U1"]}, "groups": {"allowUsers": ["U1", "U2"]}}
GRANTED: Said = {"groups": {"allowUsers": ["U1", "U2"], "chats": [{"id": "C1", "allowUsers": ["U2", "U3"]}, {"id": "C2"}]}}


@pytest.mark.parametrize(
    ("said", "message", "right"),
    [
        (None, DIRECT, Right.EVERYONE),
        (NAMED, DIRECT, Right.EVERYONE),
        (NAMED, replace(DIRECT, user="U2"), Right.DENIED),
        (NAMED, replace(DIRECT, user="u1"), Right.DENIED),
        (NAMED, replace(ROOM, user="U2"), Right.EVERYONE),
        (NAMED, replace(ROOM, user="U3"), Right.DENIED),
        (GRANTED, replace(DIRECT, user="U9"), Right.EVERYONE),
        (GRANTED, replace(ROOM, user="U1"), Right.DENIED),
        (GRANTED, replace(ROOM, user="U2"), Right.EVERYONE),
        (GRANTED, replace(ROOM, user="U3"), Right.DENIED),
        (GRANTED, replace(ROOM, user="U1", chat="C2"), Right.EVERYONE),
        (GRANTED, replace(ROOM, user="U1", chat="C3"), Right.DENIED),
        (NAMED, replace(DIRECT, bot=True), Right.DENIED),
        ({"groups": {"allowUsers": ["U1"], "chats": [{"id": "C1", "allowUsers": ["U2"]}]}}, ROOM, Right.DENIED),
    ],
)
def test_a_profile_narrows_who_may(said: Said | None, message: ChatMessage, right: Right) -> None:
    assert decide_right(EVERYONE, message, False, place=place(message, helper=said)) is right


def test_a_profile_lets_nobody_in() -> None:
    nobody = Grants(frozenset(), frozenset(), everyone=False)
    assert decide_right(nobody, DIRECT, False, place=place(DIRECT, helper=NAMED)) is Right.DENIED
    paired = replace(nobody, pairing=True)
    assert decide_right(paired, DIRECT, False, paired=True, place=place(DIRECT, helper=NAMED)) is Right.PAIRED
    other = replace(DIRECT, user="U2")
    assert decide_right(paired, other, False, paired=True, place=place(other, helper=NAMED)) is Right.DENIED


OTHERS = {spec.name for spec in COMMANDS if not spec.admins_only}
SPLIT = account(admins=["UBOSS", "UTWO"], user_commands=["status", "new"])


@pytest.mark.parametrize(
    ("bound", "direct", "user", "names"),
    [
        (account(), {}, "U1", OTHERS),
        (account(), {"userCommands": ["new"]}, "U1", {*FLOOR, "new"}),
        (account(), {"userCommands": []}, "U1", FLOOR),
        (account(), {"admins": ["UBOSS"]}, "U1", FLOOR),
        (account(), {"admins": ["UBOSS"]}, "UBOSS", OTHERS),
        (SPLIT, {}, "U1", {*FLOOR, "status", "new"}),
        (SPLIT, {"userCommands": ["new", "stop"]}, "U1", {*FLOOR, "new"}),
        (SPLIT, {"userCommands": ["new"]}, "UBOSS", {spec.name for spec in COMMANDS}),
        (SPLIT, {"admins": ["UTWO"], "userCommands": ["stop"]}, "UBOSS", {*FLOOR, "stop"}),
        (SPLIT, {"admins": ["UTWO"]}, "UTWO", {spec.name for spec in COMMANDS}),
        (SPLIT, {"admins": ["UEVE"]}, "UEVE", {*FLOOR, "status", "new"}),
    ],
)
def test_a_profile_narrows_what_may_be_said(bound: ChatAccount, direct: Said, user: str, names: set[str]) -> None:
    found = commands_for(bound, replace(DIRECT, user=user), place(DIRECT, bound, helper={"direct": direct}))
    assert {spec.name for spec in found} == names


PEOPLE = st.lists(st.sampled_from(["U1", "U2", "U3"]), max_size=2)
RULES = st.fixed_dictionaries(
    {
        "enabled": st.booleans(), "allowUsers": PEOPLE, "admins": PEOPLE,
        "userCommands": st.one_of(st.none(), st.lists(st.sampled_from(["new", "stop"]), max_size=2)),
    }
)  # fmt: skip


@given(RULES, RULES, PEOPLE, st.lists(st.sampled_from(["C1", "C2"]), max_size=2, unique=True), PEOPLE)
def test_whatever_a_profile_says_nobody_gets_more(
    direct: Said, groups: Said, allowed: list[str], chats: list[str], admins: list[str]
) -> None:
    bound = account(allow_users=allowed, admins=admins, group_admins=admins)
    said = {"direct": direct, "groups": {**groups, "chats": [{"id": chat, "allowUsers": allowed} for chat in chats]}}
    for message in (replace(one, user=user) for one in (DIRECT, ROOM) for user in ("U1", "U2", "U3")):
        found = place(message, bound, helper=said)
        if decide_right(Grants.of(bound), message, False, place=found) is not Right.DENIED:
            assert decide_right(Grants.of(bound), message, False) is not Right.DENIED
        assert set(commands_for(bound, message, found)) <= set(commands_for(bound, message))


def test_the_later_profile_is_told_what_the_older_one_has() -> None:
    mine, same, direct = rules(IN_C1), rules(IN_C1), rules({})
    assert conflicts((2.0, "b", mine), [(1.0, "a", same)]) == (("room C1 of slack:acme", "a"),)
    assert conflicts((1.0, "a", same), [(2.0, "b", mine)]) == ()
    assert conflicts((1.0, "b", mine), [(1.0, "a", same)]) == (("room C1 of slack:acme", "a"),)
    assert conflicts((2.0, "b", mine), [(1.0, "a", direct)]) == (), "a room that is named is another claim than all rooms"
    assert len(conflicts((2.0, "b", direct), [(1.0, "a", rules({})), (0.0, "first", rules({}))])) == 2
    assert {older for _, older in conflicts((2.0, "b", direct), [(1.0, "a", rules({})), (0.0, "z", rules({}))])} == {"z"}


@given(st.permutations([("a", 1.0), ("b", 2.0), ("c", 2.0)]), st.sampled_from([DIRECT, ROOM]))
def test_one_profile_has_a_place_and_the_others_are_told(order: list[tuple[str, float]], message: ChatMessage) -> None:
    said = {name: profile(name, {}, at) for name, at in order}
    bound = account(profile=order[0][0], profiles=[name for name, _ in order])
    winner = place_of(bound, message, lambda _, name: said.get(name)).profile
    for name, at in order:
        others = [(other.created_at, other.name, other.channels) for other in said.values() if other.name != name]
        told = conflicts((at, name, said[name].channels), others)
        assert (name == winner) == (told == ()), (name, winner)
    assert claims(said["a"].channels[0]) == ("every direct chat of slack:acme", "every room of slack:acme")


def test_a_profile_can_name_the_commands_that_there_are() -> None:
    """`USER_COMMANDS` is what `kubectl apply` checks a Profile by: add a new command, and its aliases are not needed."""
    assert set(USER_COMMANDS) == {spec.name for spec in COMMANDS_BY_NAME.values() if not spec.admins_only}
