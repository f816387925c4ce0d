"""Which session a chat message belongs to, who may write, and what is a command."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from hermes_contracts import names
from hermes_contracts.store_api import Link
from hermes_gateway.gateway.channels.base import ChatMessage
from hermes_gateway.gateway.channels.commands import COMMANDS, Asked, NoCommand, help_text, parse_command, usage
from hermes_gateway.gateway.channels.routing import place_in_session, reached_as, session_key, session_owner
from hermes_gateway.gateway.people.authorize import Grants, Right, decide_right, sentence_for_strangers

MESSAGE = ChatMessage(
    channel="slack", account="T1.A1", team="T1", user="U1", chat="D1", kind="direct", thread="", reply_thread="",
    update_id="D1:1.0", order="1.0", text="hello",
)  # fmt: skip
ROOM = replace(MESSAGE, chat="C1", kind="group")
THREAD = replace(ROOM, thread="1.0", reply_thread="1.0")


@pytest.mark.parametrize(
    ("message", "scope", "chat", "thread", "user", "owner"),
    [
        (MESSAGE, "User", "", "", "U1", "slack:T1:U1"),
        (replace(MESSAGE, thread="9.0", reply_thread="9.0"), "User", "", "", "U1", "slack:T1:U1"),
        (THREAD, "User", "", "", "U1", "slack:T1:U1"),
        (MESSAGE, "Conversation", "D1", "", "", "slack:T1:U1"),
        (replace(MESSAGE, thread="9.0", reply_thread="9.0"), "Conversation", "D1", "9.0", "", "slack:T1:U1"),
        (ROOM, "Conversation", "C1", "", "U1", "slack:T1:U1"),
        (THREAD, "Conversation", "C1", "1.0", "", "slack:T1:chat:C1"),
    ],
)
def test_routing_keys(message: ChatMessage, scope: str, chat: str, thread: str, user: str, owner: str) -> None:
    key = session_key(message, scope)  # type: ignore[arg-type]
    assert (key.channel, key.account) == ("slack", "T1.A1")
    assert (key.chat, key.thread, key.user) == (chat, thread, user)
    assert session_owner(message, scope) == owner  # type: ignore[arg-type]


IDS = st.text("ABU019.:-/ ", min_size=1, max_size=8)
MESSAGES = st.builds(
    lambda account, team, user, chat, kind, thread: replace(
        MESSAGE, account=account, team=team, user=user, chat=chat, kind=kind, thread=thread, reply_thread=thread
    ),
    IDS, IDS, IDS, IDS, st.sampled_from(["direct", "group"]), st.one_of(st.just(""), IDS),
)  # fmt: skip


@given(MESSAGES, MESSAGES)
def test_two_peoples_sessions_never_meet(one: ChatMessage, other: ChatMessage) -> None:
    """With scope User, whatever the ids look like: one session exactly when it is the same person of the same account."""
    sids = [names.session_id("uid", "helper", session_key(message, "User")) for message in (one, other)]
    assert (sids[0] == sids[1]) == ((one.account, one.user) == (other.account, other.user))


@given(MESSAGES, MESSAGES)
def test_rooms_never_meet(one: ChatMessage, other: ChatMessage) -> None:
    """With scope Conversation people share a session in a thread of a room, and nowhere else."""
    sids = [names.session_id("uid", "helper", session_key(message, "Conversation")) for message in (one, other)]
    if sids[0] == sids[1]:
        assert (one.account, one.chat, one.reply_thread) == (other.account, other.chat, other.reply_thread)
        if one.kind == other.kind == "group" and not one.reply_thread:
            assert one.user == other.user


PEOPLE = st.tuples(st.sampled_from(["slack", "telegram"]), IDS, IDS, IDS)
"""Channel, account, team and user."""


@given(PEOPLE, PEOPLE, st.dictionaries(PEOPLE, PEOPLE, max_size=6), st.sampled_from(["any", "linked", "with"]))
def test_two_peoples_sessions_never_meet_however_people_are_linked(
    one: tuple[str, ...], other: tuple[str, ...], links: dict[tuple[str, ...], tuple[str, ...]], who: str
) -> None:
    """One session exactly when both are reached as the same person; who is not linked is reached as himself."""
    if links and who != "any":
        one = min(links)
        other = links[one] if who == "with" else other

    def reach(person: tuple[str, ...]) -> tuple[tuple[str, ...], str, str]:
        channel, account, team, user = person
        message = replace(MESSAGE, channel=channel, account=account, team=team, user=user)
        goal = links.get(person)
        link = None
        if goal is not None:
            link = Link.model_construct(account=f"{goal[0]}:{goal[1]}", person=goal[3], owner=":".join((goal[0], *goal[2:])))
        owner, key = reached_as(message, "User", link)
        assert reached_as(message, "Conversation", link) == reached_as(message, "Conversation", None)
        person = person if goal is None else goal
        return (person[0], person[1], person[3]), owner, names.session_id("uid", "helper", key)

    (first, first_owner, first_sid), (second, second_owner, second_sid) = reach(one), reach(other)
    assert (first_sid == second_sid) == (first == second)
    if one[1:3] == other[1:3] and first_sid == second_sid and not links:
        assert first_owner == second_owner


def test_places_tell_conversations_apart() -> None:
    assert len({place_in_session(message) for message in (MESSAGE, ROOM, THREAD)}) == 3


NOBODY = Grants(frozenset(), frozenset(), everyone=False)
NAMED = Grants(frozenset({"U1"}), frozenset(), everyone=False)
EVERYONE = Grants(frozenset(), frozenset(), everyone=True)
IN_ROOM = Grants(frozenset(), frozenset({"C1", "D1"}), everyone=False)


@pytest.mark.parametrize(
    ("grants", "message", "guest", "right"),
    [
        (NOBODY, MESSAGE, None, Right.DENIED),
        (NAMED, MESSAGE, None, Right.NAMED),
        (NAMED, replace(MESSAGE, bot=True, foreign=True), True, Right.NAMED),
        (NAMED, replace(MESSAGE, user="u1"), None, Right.DENIED),
        (EVERYONE, MESSAGE, None, Right.ASK_IF_GUEST),
        (EVERYONE, MESSAGE, False, Right.EVERYONE),
        (EVERYONE, MESSAGE, True, Right.DENIED),
        (EVERYONE, replace(MESSAGE, bot=True), False, Right.DENIED),
        (EVERYONE, replace(MESSAGE, foreign=True), False, Right.DENIED),
        (IN_ROOM, ROOM, False, Right.CHAT),
        (IN_ROOM, ROOM, True, Right.DENIED),
        (IN_ROOM, replace(ROOM, foreign=True), False, Right.DENIED),
        (IN_ROOM, replace(ROOM, chat="C2"), None, Right.DENIED),
        (IN_ROOM, MESSAGE, None, Right.DENIED),
    ],
)
def test_who_may(grants: Grants, message: ChatMessage, guest: bool | None, right: Right) -> None:
    assert decide_right(grants, message, guest) is right


PAIRING = Grants(frozenset({"U2"}), frozenset({"C1"}), everyone=False, pairing=True)


@pytest.mark.parametrize(
    ("grants", "message", "guest", "paired", "right"),
    [
        (PAIRING, MESSAGE, None, None, Right.ASK_IF_PAIRED),
        (PAIRING, MESSAGE, None, True, Right.PAIRED),
        (PAIRING, MESSAGE, None, False, Right.DENIED),
        (PAIRING, replace(MESSAGE, bot=True), None, True, Right.DENIED),
        (PAIRING, replace(MESSAGE, foreign=True), None, True, Right.PAIRED),
        (PAIRING, replace(MESSAGE, user="U2"), None, None, Right.NAMED),
        (PAIRING, ROOM, None, None, Right.ASK_IF_GUEST),
        (PAIRING, ROOM, False, None, Right.CHAT),
        (PAIRING, ROOM, True, None, Right.ASK_IF_PAIRED),
        (PAIRING, ROOM, True, True, Right.PAIRED),
        (NOBODY, MESSAGE, None, True, Right.DENIED),
    ],
)
def test_who_was_let_in_by_a_code(
    grants: Grants, message: ChatMessage, guest: bool | None, paired: bool | None, right: Right
) -> None:
    assert decide_right(grants, message, guest, paired) is right


def test_strangers_are_told_where_nobody_else_reads_it() -> None:
    assert "`U1`" in sentence_for_strangers(MESSAGE)
    assert sentence_for_strangers(ROOM) == ""
    assert sentence_for_strangers(replace(MESSAGE, bot=True)) == ""


@pytest.mark.parametrize(
    ("text", "name", "argument"),
    [
        ("/stop", "stop", ""),
        ("!stop", "stop", ""),
        ("  /STOP now ", "stop", "now"),
        ("/reset", "new", ""),
        ("/steer look\nleft", "steer", "look\nleft"),
    ],
)
def test_commands_are_read(text: str, name: str, argument: str) -> None:
    asked = parse_command(text)
    assert isinstance(asked, Asked)
    assert (asked.spec.name, asked.argument) == (name, argument)


@pytest.mark.parametrize("text", ["stop", "please /stop", "!ls -la", "/ stop", "//stop", "/etc/passwd is a file", "!", ""])
def test_what_is_no_command_goes_to_the_agent(text: str) -> None:
    assert parse_command(text) is None


def test_what_cannot_be_done_is_said() -> None:
    for text in ("/fly", "/steer", "/queue  "):
        assert isinstance(parse_command(text), NoCommand)


def test_help_names_every_command_and_names_are_unique() -> None:
    said = [name for spec in COMMANDS for name in (spec.name, *spec.aliases)]
    assert len(said) == len(set(said))
    assert all(f"`/{spec.name}" in help_text() for spec in COMMANDS)


def test_the_documentation_has_the_same_commands() -> None:
    page = (Path(__file__).resolve().parents[3] / "docs" / "channels.md").read_text()
    assert re.findall(r"^\| `(/[^`]+)` \| (.*) \|$", page, re.MULTILINE) == [(usage(s), s.summary) for s in COMMANDS]
