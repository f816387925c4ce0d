"""People take exchanges back, name conversations and find them again; a real store says what the agent then sees."""

from __future__ import annotations

import pytest

from hermes_contracts.bus_permissions import Role
from hermes_contracts.conversation import Message
from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.store_api import (
    APPEND,
    ASK_APPROVAL,
    COMMIT,
    COMPACT,
    CONVERSATION,
    FREEZE_PROMPT,
    GET_APPROVAL,
    GET_SESSION,
    LIST_CONVERSATIONS,
    LOAD,
    OPEN_TURN,
    PUT_COMMAND,
    SET_TITLE,
    TRANSCRIPT,
    UNDO,
    AppendRequest,
    ApprovalIdRequest,
    AskApprovalRequest,
    CommandKind,
    CommitRequest,
    CompactRequest,
    ConversationRequest,
    ConversationsRequest,
    FreezePromptRequest,
    FrozenPrompt,
    LoadReply,
    LoadRequest,
    OpenTurnReply,
    OpenTurnRequest,
    OwnedSessionRequest,
    PutCommandRequest,
    SetTitleRequest,
    TranscriptRequest,
    UndoReply,
    UndoRequest,
)  # fmt: skip
from hermes_service.rpc import StoreClient
from tests.integration.store.harness import Session, World, awake, new_session

PROMPT = FrozenPrompt(system="You are Hermes.", tools=())


class Talk:
    """A session, its agent and the gateway that its owner speaks to."""

    def __init__(self, session: Session, agent: StoreClient, gateway: StoreClient) -> None:
        self.session, self.agent, self.gateway = session, agent, gateway

    @classmethod
    async def begin(cls, world: World, channel: str = "webhook") -> Talk:
        session = new_session(channel)
        agent = await world.agent(session.sid, await awake(world, session))
        await agent.call(FREEZE_PROMPT, FreezePromptRequest(conversation=session.conversation, prompt=PROMPT))
        return cls(session, agent, await world.service(Role.GATEWAY))

    async def open(self, number: int, sender: str = "") -> OpenTurnReply:
        inbound = self.session.inbound(f"u{number}", f"question {number}").model_copy(update={"sender": sender})
        first = Message.user(inbound.text)
        return await self.agent.call(
            OPEN_TURN, OpenTurnRequest(inbound=inbound, first=first, ack_subject="a", stream_sequence=number)
        )

    async def say(self, number: int, sender: str = "") -> OpenTurnReply:
        opened = await self.open(number, sender)
        answer = (Message.assistant(f"answer {number}"),)
        commit = CommitRequest(
            turn_id=opened.turn_id, step=1, messages=answer, outcome="done", reply="", context_tokens=100 * number
        )
        await self.agent.call(COMMIT, commit)
        return opened

    async def undo(
        self,
        update_id: str,
        exchanges: int = 1,
        *,
        again: bool = False,
        owner: str = "ada",
        waiting: int = 0,
        sender: str = "",
    ) -> UndoReply:
        request = UndoRequest(
            sid=self.session.sid, owner=owner, account="build", update_id=update_id,
            conversation=self.session.conversation, exchanges=exchanges, again=again, waiting=waiting,
            sender=sender,
        )  # fmt: skip
        return await self.gateway.call(UNDO, request)

    async def seen_by_the_model(self) -> LoadReply:
        return await self.agent.call(LOAD, LoadRequest(conversation=self.session.conversation))

    async def texts(self) -> list[str]:
        return [stored.message.text() for stored in (await self.seen_by_the_model()).messages]

    async def settings(self, **changes: str) -> tuple[str, str]:
        request = ConversationRequest(sid=self.session.sid, owner="ada", conversation=self.session.conversation, **changes)
        found = await self.gateway.call(CONVERSATION, request)
        return found.title, found.model


async def test_what_is_taken_back_stays_for_people_and_is_gone_for_the_model(world: World) -> None:
    talk = await Talk.begin(world)
    for number in (1, 2, 3):
        assert (await talk.say(number)).undone == 0
    assert (await talk.seen_by_the_model()).context_tokens == 300
    taken = await talk.undo("k1", 2)
    assert taken == UndoReply(taken=("question 3", "question 2"))
    loaded = await talk.seen_by_the_model()
    assert await talk.texts() == ["question 1", "answer 1"]
    assert (loaded.context_tokens, loaded.context_sequence, loaded.undone, loaded.prompt) == (0, 0, 1, PROMPT)
    asked = TranscriptRequest(sid=talk.session.sid, owner="ada")
    transcript = (await talk.gateway.call(TRANSCRIPT, asked)).messages
    assert [(one.message.text(), one.undone) for one in transcript] == [
        ("question 1", False), ("answer 1", False), ("question 2", True), ("answer 2", True),
        ("question 3", True), ("answer 3", True),
    ]  # fmt: skip
    assert (await talk.say(4)).undone == 1, "who holds an older transcript is told"
    assert await talk.texts() == ["question 1", "answer 1", "question 4", "answer 4"]
    assert await talk.undo("k1", 2) == taken, "saying it again takes nothing more"
    assert (await talk.undo("k2", 9)).taken == ("question 4", "question 1")
    assert await talk.texts() == []
    assert await talk.undo("k3") == UndoReply(refused="nothing")


async def test_a_message_to_be_sent_again_comes_back_whole(world: World) -> None:
    talk = await Talk.begin(world)
    await talk.say(1)
    first = await talk.undo("k1", again=True)
    assert first.last is not None and (first.last.text, first.last.update_id) == ("question 1", "u1")
    assert await talk.undo("k1", again=True) == first
    answer = talk.session.inbound("u2", "I have answered").model_copy(update={"approval": "23456789"})
    opened = await talk.agent.call(OPEN_TURN, OpenTurnRequest(inbound=answer, ack_subject="a", stream_sequence=2))
    messages = (Message.user("approved"), Message.assistant("ran"))
    await talk.agent.call(COMMIT, CommitRequest(turn_id=opened.turn_id, step=0, messages=messages, outcome="done", reply=""))
    assert await talk.undo("k2", again=True) == UndoReply(refused="not_a_message")
    assert await talk.texts() == ["approved", "ran"]
    assert (await talk.undo("k3")).taken == ("I have answered",)


async def test_nothing_is_taken_back_under_a_running_turn_or_a_compaction(world: World) -> None:
    talk = await Talk.begin(world)
    await talk.say(1)
    running = await talk.open(2)
    assert await talk.undo("k1") == UndoReply(refused="busy")
    done = CommitRequest(turn_id=running.turn_id, step=1, messages=(), outcome="done", reply="")
    await talk.agent.call(COMMIT, done)
    assert await talk.undo("k1") == UndoReply(refused="busy"), "what a person was told stays true"
    assert await talk.undo("k2", waiting=1) == UndoReply(refused="waiting"), "the last exchange is to come"
    assert (await talk.undo("k2")).taken == ("question 2",), "and it may be asked for again"
    assert (await talk.undo("k2", waiting=1)).taken == ("question 2",)
    compress = PutCommandRequest(
        sid=talk.session.sid, owner="ada", account="build", update_id="c1", kind=CommandKind.COMPRESS,
        arguments={"conversation": talk.session.conversation, "focus": ""},
    )  # fmt: skip
    command = await talk.gateway.call(PUT_COMMAND, compress)
    assert await talk.undo("k3") == UndoReply(refused="busy")
    anew = CompactRequest(
        turn_id=command.command_id, step=0, conversation=talk.session.conversation, expected=0, prompt=PROMPT,
        messages=(Message.user("SUMMARY"),), summary_index=0,
    )  # fmt: skip
    await talk.agent.call(COMPACT, anew)
    world.rows_change("update commands set result = 'done' where command_id = %s", command.command_id)
    assert await talk.undo("k4") == UndoReply(refused="compacted")
    await talk.say(3)
    assert (await talk.undo("k5", 5)).taken == ("question 3",)
    assert await talk.texts() == ["SUMMARY"]


async def test_a_turn_that_was_compacted_under_way_is_not_taken_back(world: World) -> None:
    talk = await Talk.begin(world)
    opened = await talk.open(1)
    anew = CompactRequest(
        turn_id=opened.turn_id, step=1, conversation=talk.session.conversation, expected=0, prompt=PROMPT,
        messages=(Message.user("SUMMARY"), Message.user("question 1")), summary_index=0,
    )  # fmt: skip
    await talk.agent.call(COMPACT, anew)
    done = CommitRequest(turn_id=opened.turn_id, step=2, messages=(Message.assistant("answer"),), outcome="done", reply="")
    await talk.agent.call(COMMIT, done)
    assert await talk.undo("k1") == UndoReply(refused="compacted")
    assert await talk.texts() == ["SUMMARY", "question 1", "answer"]


async def test_a_question_of_an_exchange_that_was_taken_back_waits_for_nobody(world: World) -> None:
    talk = await Talk.begin(world)
    opened = await talk.open(1)
    call = AppendRequest(turn_id=opened.turn_id, step=1, messages=(Message.assistant("May I?"),))
    await talk.agent.call(APPEND, call)
    question = AskApprovalRequest(
        turn_id=opened.turn_id, call_id="c", kind="call", tool="terminal", call_hash="0" * 64, question="?",
        timeout_seconds=600,
    )  # fmt: skip
    asked = await talk.agent.call(ASK_APPROVAL, question)
    done = CommitRequest(turn_id=opened.turn_id, step=2, messages=(), outcome="done", reply="")
    await talk.agent.call(COMMIT, done)
    await talk.undo("k1")
    found = await talk.agent.call(GET_APPROVAL, ApprovalIdRequest(approval_id=asked.approval_id))
    assert (found.state, found.expired) == ("pending", True)


async def test_strangers_take_nothing_back_and_read_nothing(world: World) -> None:
    talk = await Talk.begin(world)
    await talk.say(1)
    sid, cid = talk.session.sid, talk.session.conversation
    for call in (
        talk.undo("k1", owner="eve"),
        talk.gateway.call(CONVERSATION, ConversationRequest(sid=sid, owner="eve", conversation=cid, title="mine")),
        talk.gateway.call(LIST_CONVERSATIONS, ConversationsRequest(sid=sid, owner="eve", conversations=(cid,))),
    ):
        with pytest.raises(HermesError) as caught:
            await call
        assert caught.value.code is ErrorCode.NOT_FOUND
    assert await talk.texts() == ["question 1", "answer 1"]
    assert await talk.settings() == ("", "")


async def test_where_people_share_a_session_each_takes_back_his_own(world: World) -> None:
    talk = await Talk.begin(world)
    await talk.say(1, "anna")
    await talk.say(2, "ben")
    assert await talk.undo("k1", sender="anna") == UndoReply(refused="not_yours")
    assert await talk.undo("k2", 2, sender="ben") == UndoReply(refused="not_yours"), "the first of them is Anna's"
    assert await talk.undo("k3", again=True, sender="anna") == UndoReply(refused="not_yours")
    assert len(await talk.texts()) == 4
    assert (await talk.undo("k4", sender="ben")).taken == ("question 2",)
    assert (await talk.undo("k5", sender="anna")).taken == ("question 1",)


async def test_a_persons_title_and_model_stay(world: World) -> None:
    talk = await Talk.begin(world)
    named = SetTitleRequest(conversation=talk.session.conversation, title="What the agent calls it")
    await talk.agent.call(SET_TITLE, named)
    assert await talk.settings() == ("What the agent calls it", "")
    assert await talk.settings(title="Mine") == ("Mine", "")
    await talk.agent.call(SET_TITLE, named)
    assert await talk.settings(model="small") == ("Mine", "small")
    mine = await talk.gateway.call(GET_SESSION, OwnedSessionRequest(sid=talk.session.sid, owner="ada"))
    assert mine.title == "Mine"
    assert (await talk.say(1)).model == "small"
    assert (await talk.open(1)).model == "small", "a message that comes again"
    assert await talk.settings(model="") == ("Mine", "")
    assert (await talk.say(2)).model == ""
    listed = await talk.gateway.call(
        LIST_CONVERSATIONS,
        ConversationsRequest(sid=talk.session.sid, owner="ada", conversations=(talk.session.conversation, "c" + "a" * 25)),
    )
    assert [(one.title, one.begins, one.turns) for one in listed.conversations] == [("Mine", "question 1", 2)]
