"""Questions to people outlive the agent that asked: one answer each, by who may give it, in time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hermes_contracts import subjects
from hermes_contracts.bus_permissions import Role
from hermes_contracts.envelopes import Choice, Event, Outbound
from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.store_api import (
    ANSWER_APPROVAL,
    ASK_APPROVAL,
    COMMIT,
    GET_APPROVAL,
    LIST_APPROVALS,
    LIST_GRANTS,
    OPEN_TURN,
    REVOKE_GRANT,
    AnswerApprovalReply,
    AnswerApprovalRequest,
    ApprovalIdRequest,
    AskApprovalReply,
    AskApprovalRequest,
    CommitRequest,
    GrantsRequest,
    ListApprovalsRequest,
    OpenTurnRequest,
    RevokeGrantRequest,
)  # fmt: skip
from hermes_service.rpc import StoreClient
from tests.integration.store.harness import Session, World, awake, eventually, new_session

HASH = "a" * 64


class Scene:
    """An agent in the middle of a turn, and a gateway."""

    def __init__(self, world: World, session: Session) -> None:
        self.world, self.session = world, session
        self.agent: StoreClient
        self.gateway: StoreClient
        self.turn_id = ""
        self.epoch = 0

    @classmethod
    async def begin(cls, world: World, *, sender: str = "", owner: str = "ada") -> Scene:
        scene = cls(world, new_session(owner=owner))
        scene.gateway = await world.service(Role.GATEWAY)
        await scene.next_epoch()
        inbound = scene.session.inbound("u1").model_copy(update={"sender": sender})
        await scene.open(inbound)
        return scene

    async def open(self, inbound: Any) -> None:
        request = OpenTurnRequest(inbound=inbound, ack_subject="$JS.ACK.1", stream_sequence=1)
        self.turn_id = (await self.agent.call(OPEN_TURN, request)).turn_id

    async def next_epoch(self) -> None:
        self.epoch = await awake(self.world, self.session, self.epoch)
        self.agent = await self.world.agent(self.session.sid, self.epoch)

    async def ask(self, call_id: str = "c1", **changes: Any) -> AskApprovalReply:
        facts: dict[str, Any] = {
            "turn_id": self.turn_id, "call_id": call_id, "kind": "call", "tool": "terminal",
            "arguments": '{"command": "rm -rf build"}', "call_hash": HASH, "question": "May I?", "timeout_seconds": 600,
        }  # fmt: skip
        return await self.agent.call(ASK_APPROVAL, AskApprovalRequest.model_validate({**facts, **changes}))

    async def answer(self, approval_id: str = "", decision: str = "approve", **changes: Any) -> AnswerApprovalReply:
        facts = {
            "sid": self.session.sid, "owner": self.session.route.owner, "approval_id": approval_id,
            "by": self.session.route.owner, "decision": decision,
        }  # fmt: skip
        return await self.gateway.call(ANSWER_APPROVAL, AnswerApprovalRequest.model_validate({**facts, **changes}))

    async def pending(self) -> list[str]:
        request = ListApprovalsRequest(sid=self.session.sid, owner=self.session.route.owner)
        return [one.approval_id for one in (await self.gateway.call(LIST_APPROVALS, request)).approvals]


async def test_the_answer_comes_when_the_agent_is_long_gone(world: World) -> None:
    scene = await Scene.begin(world)
    events: list[Event] = []
    parts: list[Outbound] = []

    async def on_event(message: Any) -> None:
        events.append(Event.model_validate_json(message.data))

    async def on_part(message: Any) -> None:
        parts.append(Outbound.model_validate_json(message.data))

    witness = await world.witness()
    await witness.subscribe(subjects.event(scene.session.sid), cb=on_event)
    await witness.subscribe(subjects.outbound("webhook", scene.session.sid), cb=on_part)
    asked = await scene.ask()
    assert asked == await scene.ask(), "asking again finds the same question"
    choices = (Choice(label="Once", command=f"/approve {asked.approval_id} once"),)
    commit = CommitRequest(turn_id=scene.turn_id, step=0, messages=(), outcome="done", reply="May I?", choices=choices)
    await scene.agent.call(COMMIT, commit)
    await eventually(lambda: bool(parts), "the question is sent")
    assert parts[0].choices == choices and await scene.pending() == [asked.approval_id]
    await scene.next_epoch()
    reply = await scene.answer()
    assert reply.outcome == "recorded" and reply.inbound is not None and reply.inbound.update_id == "u1"
    read = await scene.agent.call(GET_APPROVAL, ApprovalIdRequest(approval_id=asked.approval_id))
    assert (read.state, read.scope, read.arguments) == ("approved", "once", '{"command": "rm -rf build"}')
    assert await scene.pending() == []
    await eventually(lambda: any(event.type == "approval.answered" for event in events), "the answer is told")
    assert [event.type for event in events if event.type.startswith("approval")] == [
        "approval.requested",
        "approval.answered",
    ]


async def test_of_two_who_press_at_once_one_decides(world: World) -> None:
    scene = await Scene.begin(world)
    asked = await scene.ask()
    replies = await asyncio.gather(
        scene.answer(asked.approval_id), scene.answer(asked.approval_id, "deny", by="boss", approver=True)
    )
    assert sorted(reply.outcome for reply in replies) == ["answered_before", "recorded"]


async def test_the_same_press_twice_is_one_answer(world: World) -> None:
    scene = await Scene.begin(world)
    asked = await scene.ask()
    first, second = await scene.answer(asked.approval_id), await scene.answer(asked.approval_id)
    assert first.outcome == second.outcome == "recorded" and second.inbound is not None
    assert (await scene.answer(asked.approval_id, "deny")).outcome == "answered_before"


async def test_only_who_asked_or_an_approver_answers(world: World) -> None:
    scene = await Scene.begin(world, sender="U1", owner="slack:T:chat:C")
    asked = await scene.ask()
    stranger = await scene.answer(asked.approval_id, by="slack:T:U2", user="U2")
    assert (stranger.outcome, stranger.approval, stranger.inbound) == ("not_yours", None, None)
    assert (await scene.answer(asked.approval_id, by="slack:T:U1", user="U1")).outcome == "recorded"
    with pytest.raises(HermesError) as caught:
        await scene.answer(asked.approval_id, owner="eve", by="eve")
    assert caught.value.code is ErrorCode.NOT_FOUND


async def test_silence_is_no(world: World) -> None:
    scene = await Scene.begin(world)
    asked = await scene.ask()
    world.rows_change("update approvals set deadline = now() - interval '1 second' where sid = %s", scene.session.sid)
    reply = await scene.answer(asked.approval_id)
    assert (reply.outcome, reply.inbound) == ("expired", None) and await scene.pending() == []
    assert (await scene.answer()).outcome == "not_found"
    read = await scene.agent.call(GET_APPROVAL, ApprovalIdRequest(approval_id=asked.approval_id))
    assert (read.state, read.expired) == ("pending", True)


async def test_an_answer_without_an_id_needs_one_open_question_and_the_right_kind(world: World) -> None:
    scene = await Scene.begin(world)
    assert (await scene.answer()).outcome == "not_found"
    first = await scene.ask("c1", kind="question", options=("red", "blue"))
    assert (await scene.answer()).outcome == "wrong_kind"
    await scene.ask("c2")
    assert (await scene.answer()).outcome == "several"
    reply = await scene.answer(first.approval_id, "answer", text="2")
    assert reply.approval is not None and (reply.approval.state, reply.approval.answer) == ("answered", "2")


async def test_a_session_grant_holds_there_and_an_owners_grant_everywhere_until_it_is_taken_back(world: World) -> None:
    scene, other = await Scene.begin(world, owner="gina"), await Scene.begin(world, owner="gina")
    foreign = await Scene.begin(world, owner="hal")
    await scene.answer((await scene.ask()).approval_id, scope="session")
    assert (await scene.ask("c2")).allowed and not (await other.ask()).allowed
    assert not (await scene.ask("c3", call_hash="b" * 64)).allowed
    await other.answer(scope="always")
    again = await Scene.begin(world, owner="gina")
    assert (await again.ask()).allowed and not (await foreign.ask()).allowed
    mine = GrantsRequest(owner="gina", namespace="team")
    grants = (await scene.gateway.call(LIST_GRANTS, mine)).grants
    assert [(grant.profile, grant.call_hash) for grant in grants] == [("default", HASH)]
    revoke = RevokeGrantRequest(owner="gina", namespace="team", profile="default", call_hash=HASH)
    await scene.gateway.call(REVOKE_GRANT, revoke)
    assert (await scene.gateway.call(LIST_GRANTS, mine)).grants == ()
    assert not (await again.ask("c9")).allowed


async def test_an_agent_whose_time_is_over_asks_nothing(world: World) -> None:
    scene = await Scene.begin(world)
    late = scene.agent
    await scene.next_epoch()
    scene.agent = late
    with pytest.raises(HermesError) as caught:
        await scene.ask()
    assert caught.value.code is ErrorCode.FENCED and await scene.pending() == []
