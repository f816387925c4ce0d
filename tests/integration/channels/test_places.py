"""Which conversation goes on in a place, in a real bucket: beginnings, and ways back."""

from __future__ import annotations

from hermes_contracts import names
from hermes_contracts.store_api import MAX_LISTED
from hermes_gateway.gateway.channels.conversations import Beginning, Conversations
from tests.integration.channels.chat_world import ChatWorld

SID, PLACE = "s" + "a" * 25, "D1/"


async def test_one_goes_back_to_conversations_of_the_place_and_none_is_forgotten(chat: ChatWorld) -> None:
    mine, other = (Conversations(chat.world.admin.jetstream()) for _ in range(2))
    first = names.conversation_id(SID, PLACE)
    assert await mine.known(SID, PLACE) == (first,)
    await mine.begin(SID, PLACE, Beginning(update_id="u1", order=1))
    second = names.conversation_id(SID, PLACE, "u1")
    await other.begin(SID, PLACE, Beginning(update_id="u2", order=2))
    third = names.conversation_id(SID, PLACE, "u2")
    assert await mine.known(SID, PLACE) == (first, second, third)
    back = Beginning(update_id="u3", order=3, conversation=first)
    await mine.begin(SID, PLACE, back)
    await other.begin(SID, PLACE, back)
    assert await other.current(SID, PLACE) == first
    assert await mine.known(SID, PLACE) == (second, third, first)
    await mine.begin(SID, PLACE, Beginning(update_id="u1", order=1, conversation=second))
    assert await mine.current(SID, PLACE) == first, "what was written before does not count"
    assert await mine.known(SID, "D1/thread") == (names.conversation_id(SID, "D1/thread"),)
    for number in range(4, 4 + MAX_LISTED):
        await mine.begin(SID, PLACE, Beginning(update_id=f"u{number}", order=number))
    known = await mine.known(SID, PLACE)
    assert len(known) <= MAX_LISTED + 1 and known[0] == first, "the place's first one can always be reached"
