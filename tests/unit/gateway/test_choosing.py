"""Which Profiles a person may switch to, which models he may choose, and what he is told. Pure."""

from __future__ import annotations

import pytest

from hermes_contracts.access import ChatAccount
from hermes_contracts.crd.channels import ChannelRules
from hermes_contracts.projection import ProfileProjection
from hermes_contracts.store_api import ListedConversation, UndoReply
from hermes_gateway.gateway.channels.base import ChatMessage
from hermes_gateway.gateway.conversations import sentences
from hermes_gateway.gateway.conversations.desk import model_in_use, offered_model
from hermes_gateway.gateway.people.choosing import offered
from hermes_gateway.gateway.people.places import place_of

ACCOUNT = ChatAccount(name="acme", namespace="team", profile="own", profiles=("free", "claims", "elsewhere", "gone", "own"))
MESSAGE = ChatMessage(
    channel="slack", account="T1.A1", team="T1", user="U1", chat="D1", kind="direct", thread="", reply_thread="",
    update_id="1", order="1", text="hello",
)  # fmt: skip


def profile(name: str, *rules: dict[str, object], **changes: object) -> ProfileProjection:
    facts: dict[str, object] = {
        "namespace": "team", "namespace_uid": "u", "name": name, "model": "Big-1", "provider": "openai", "ready": True,
        "message": "", "created_at": 1.0, "channels": tuple(ChannelRules.model_validate(rule) for rule in rules), **changes,
    }  # fmt: skip
    return ProfileProjection.model_validate(facts)


ROOM: dict[str, object] = {
    "channel": "slack",
    "account": "acme",
    "direct": {"enabled": False},
    "groups": {"chats": [{"id": "C1"}]},
}
OTHER_ACCOUNT: dict[str, object] = {"channel": "slack", "account": "other", "direct": {}}
PROFILES = {
    "own": profile("own"),
    "free": profile("free"),
    "claims": profile("claims", ROOM),
    "elsewhere": profile("elsewhere", OTHER_ACCOUNT),
    "unbound": profile("unbound"),
}


@pytest.mark.parametrize(
    ("kind", "chat", "profiles"),
    [
        ("direct", "D1", ("own", "free", "elsewhere")),
        ("group", "C2", ("own", "free", "elsewhere")),
        ("group", "C1", ("claims",)),
    ],
)
def test_a_person_may_switch_to_what_the_account_has_and_no_profile_keeps_for_itself(
    kind: str, chat: str, profiles: tuple[str, ...]
) -> None:
    message = ChatMessage(**{**vars(MESSAGE), "kind": kind, "chat": chat})

    def look_up(namespace: str, name: str) -> ProfileProjection | None:
        return PROFILES.get(name) if namespace == "team" else None

    place = place_of(ACCOUNT, message, look_up)
    assert offered(ACCOUNT, message, place, look_up) == profiles


@pytest.mark.parametrize(
    ("word", "model"),
    [("small", "small"), ("SMALL", "small"), ("big-1", ""), ("default", ""), ("gpt-9", None), ("", None), ("smal", None)],
)
def test_a_model_is_chosen_by_its_whole_name(word: str, model: str | None) -> None:
    assert offered_model(profile("own", choices=("small", "middle")), word) == model


def test_a_choice_that_is_not_offered_any_more_counts_as_none_and_is_told() -> None:
    own = profile("own", choices=("small",))
    assert model_in_use(own, "small") == "small"
    assert model_in_use(own, "old") == "Big-1" == model_in_use(own, "")
    said = sentences.show_models(own, "old")
    assert "is `Big-1`" in said and "`old`, which was chosen here, is not offered any more" in said and "`small`" in said
    assert "no other to choose" in sentences.show_models(profile("own"), "")
    assert sentences.no_such_model(own, "`x`\n" + "y" * 200).count("`") == 6, "a word cannot leave its quotes"


@pytest.mark.parametrize("refused", ["busy", "waiting", "nothing", "compacted", "not_a_message"])
def test_a_refusal_says_what_to_do(refused: str) -> None:
    said = sentences.undone(UndoReply.model_validate({"refused": refused}))
    assert len(said) > 40 and said.endswith(".")


def test_what_was_taken_back_is_quoted() -> None:
    assert "“one”" in sentences.undone(UndoReply(taken=("one",)))
    assert "- “two”\n- a message without words" in sentences.undone(UndoReply(taken=("two", "")))


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(-5, "less than a minute ago"), (59, "less than a minute ago"), (60, "1 minute ago"), (7200, "2 hours ago"),
     (90_000, "1 day ago")],
)  # fmt: skip
def test_conversations_are_listed_with_numbers(seconds: float, words: str) -> None:
    one = ListedConversation(
        conversation="c" + "a" * 25, title="", begins="Hello", turns=1, last_activity=1_000_000 - seconds
    )
    said = sentences.list_conversations([one], one.conversation, 1_000_000)
    assert said.splitlines()[-1] == f"1. Hello: 1 message, {words} (this one)"
