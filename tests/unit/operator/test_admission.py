"""Who gets a pod when there is not room for all: tables of who holds what, who wishes, and who comes out first."""

from __future__ import annotations

import itertools
from dataclasses import replace

from hypothesis import given, strategies as st

from hermes_contracts.crd.session import SessionStatus
from hermes_contracts.store_api import AgentState
from hermes_operator.admissions import Admissions
from hermes_operator.cluster.cache import Cache
from hermes_operator.engine.queue import WorkQueue
from hermes_operator.reconcile.admission import (
    YIELD_SECONDS,
    Claimant,
    Place,
    Room,
    Why,
    admit,
    asked_to_yield,
)
from hermes_operator.reconcile.model import AgentWord, Drain, Memory, Observed, ProfileVerdict, Start
from hermes_operator.reconcile.session import decide
from hermes_operator.state import Key, session_key
from tests.unit.operator.builders import NOW, SPEC, observed, pod, session, summary

MIB = 1024 * 1024


def wish(uid: str, owner: str = "ann", since: float = 0.0, *, profile: str = "demo", memory: int = 1) -> Claimant:
    return Claimant(uid, uid, owner, profile, memory, since)


def test_the_oldest_wish_of_equals_comes_first() -> None:
    found = admit((), [wish("late", "bob", 2), wish("early", "ann", 1)], Room(sessions=1), {})
    assert found.admitted == {"early"}
    assert found.waiting == {"late": Place(1, Why.NAMESPACE_FULL, 1)}


def test_one_person_with_twenty_sessions_does_not_keep_another_waiting() -> None:
    twenty = [wish(f"ann-{n}", "ann", n) for n in range(20)]
    found = admit((), [*twenty, wish("bob-1", "bob", 100), wish("bob-2", "bob", 101)], Room(sessions=4), {})
    assert found.admitted == {"ann-0", "bob-1", "ann-1", "bob-2"}
    assert [uid for uid, place in found.waiting.items() if place.position == 1] == ["ann-2"]


def test_who_holds_much_waits_behind_who_holds_nothing() -> None:
    holders = [wish(f"held-{n}", "ann") for n in range(3)]
    found = admit(holders, [wish("ann", "ann", 1), wish("bob", "bob", 50)], Room(sessions=4), {})
    assert found.admitted == {"bob"}
    assert found.waiting["ann"].position == 1


def test_a_full_profile_stands_in_nobody_elses_way() -> None:
    holders = [wish("held", profile="small")]
    wishes = [wish("a", since=1, profile="small"), wish("b", "bob", 2, profile="large")]
    found = admit(holders, wishes, Room(sessions=2), {"small": 1})
    assert found.admitted == {"b"}
    assert found.waiting == {"a": Place(1, Why.PROFILE_FULL, 1)}


def test_a_small_session_does_not_pass_a_large_one_for_ever() -> None:
    wishes = [wish("large", "ann", 1, memory=800), wish("small", "bob", 2, memory=100)]
    found = admit([wish("held", "eve", memory=300)], wishes, Room(memory=1000), {})
    assert found.admitted == set()
    assert found.waiting == {"large": Place(1, Why.NAMESPACE_MEMORY, 1000), "small": Place(2, Why.NAMESPACE_MEMORY, 1000)}


def test_what_never_fits_is_told_so_and_is_in_nobodys_way() -> None:
    found = admit((), [wish("huge", since=1, memory=2000), wish("small", since=2)], Room(memory=1000), {})
    assert found.admitted == {"small"}
    assert found.waiting == {"huge": Place(0, Why.TOO_LARGE, 1000)}


claimants = st.builds(
    Claimant,
    uid=st.uuids().map(str),
    name=st.just("n"),
    owner=st.sampled_from("abc"),
    profile=st.sampled_from(["p", "q"]),
    memory=st.integers(1, 50),
    since=st.integers(0, 5).map(float),
)


@given(st.lists(claimants, max_size=8), st.lists(claimants, max_size=12), st.integers(1, 10), st.integers(50, 400))
def test_nothing_is_ever_exceeded_and_everybody_has_one_place(
    holders: list[Claimant], wishes: list[Claimant], sessions: int, memory: int
) -> None:
    found = admit(holders, wishes, Room(sessions, memory), {"p": 3})
    started = [w for w in wishes if w.uid in found.admitted]
    live = [*holders, *started]
    assert not started or (len(live) <= sessions and sum(w.memory for w in live) <= memory)
    assert not [w for w in started if w.profile == "p"] or sum(w.profile == "p" for w in live) <= 3
    assert found.admitted | found.waiting.keys() == {w.uid for w in wishes}
    assert sorted(place.position for place in found.waiting.values()) == list(range(1, len(found.waiting) + 1))


def test_as_many_go_to_sleep_early_as_others_wait_and_the_longest_idle_first() -> None:
    idle = {"old": ("demo", 1.0), "older": ("demo", 0.5), "new": ("demo", 9.0), "other": ("free", 0.0)}
    assert asked_to_yield(idle, {}, [("demo", Why.PROFILE_FULL)]) == {"older"}
    assert asked_to_yield(idle, {}, [("demo", Why.PROFILE_FULL)] * 2) == {"older", "old"}
    assert asked_to_yield(idle, {}, [("x", Why.NAMESPACE_FULL)]) == {"other"}
    assert asked_to_yield(idle, {"demo": 1}, [("demo", Why.PROFILE_FULL)]) == frozenset()
    assert asked_to_yield(idle, {"demo": 1}, [("x", Why.NAMESPACE_MEMORY)]) == frozenset()
    assert asked_to_yield(idle, {}, [("x", Why.TOO_LARGE)]) == frozenset()


def test_a_session_without_a_place_says_where_it_stands_and_starts_nothing() -> None:
    waiting = observed(pending=2, place=Place(3, Why.PROFILE_FULL, 5))
    plan = decide(waiting, NOW)
    assert plan.actions == ()
    assert plan.status is not None
    assert (plan.status.state, plan.status.queue_position) == ("Queued", 3)
    ready = next(c for c in plan.status.conditions if c.type == "Ready")
    assert (ready.status, ready.reason) == ("False", "ProfileFull")
    assert "allows 5 live sessions" in ready.message
    again = decide(replace(waiting, session=session(status=plan.status)), NOW)
    assert again.status == plan.status


def test_what_is_too_large_has_failed_and_says_what_to_do() -> None:
    plan = decide(observed(pending=1, place=Place(0, Why.TOO_LARGE, 64 * MIB)), NOW)
    assert plan.status is not None
    assert plan.status.state == "Failed"
    ready = next(c for c in plan.status.conditions if c.type == "Ready")
    assert "64 MiB" in ready.message and "sandbox.resources" in ready.message


def test_an_idle_session_that_others_wait_for_sleeps_early_and_a_busy_one_does_not() -> None:
    status = SessionStatus(epoch=1, state="Ready", pod="chat-1")
    idle = observed(
        summary=summary(idle=20),
        session=session(status=status),
        pods=(pod(age=500),),
        memory=Memory(word=AgentWord(1, AgentState.READY, NOW - 20)),
    )
    assert not any(isinstance(a, Drain) for a in decide(idle, NOW).actions)
    assert any(isinstance(a, Drain) for a in decide(replace(idle, yields=True), NOW).actions)
    fresh = replace(idle, memory=Memory(word=AgentWord(1, AgentState.READY, NOW - 1)), yields=True)
    assert decide(fresh, NOW).due == NOW - 1 + YIELD_SECONDS
    busy = replace(idle, memory=Memory(word=AgentWord(1, AgentState.BUSY, NOW - 20)), yields=True)
    assert not any(isinstance(a, Drain) for a in decide(busy, NOW).actions)


class Hall:
    """Sessions by name in one namespace, as passes show them to the admissions."""

    def __init__(self, limit: int | None) -> None:
        self.now = NOW
        self.cache, self.queue = Cache(), WorkQueue[Key](lambda: self.now)
        self.limit = limit
        self.admissions = Admissions(self.cache, self.queue, {}, lambda: self.now)
        self.versions = itertools.count(2)

    def observed(self, name: str, owner: str, status: SessionStatus | None = None) -> Observed:
        view = replace(session(status=status), name=name, uid=name, resource_version=str(next(self.versions)))
        view = replace(view, spec=view.spec.model_copy(update={"owner": owner}))
        self.cache.sessions.put(view.record())
        self.cache.bind(name, "team", name)
        spec = SPEC.model_copy(update={"max_live_sessions": self.limit})
        return observed(session=view, sid=name, profile=ProfileVerdict(spec, True, "Ready", ""), pending=1)

    def ask(self, name: str, owner: str = "ann", status: SessionStatus | None = None) -> Place | None:
        self.now += 1
        return self.admissions.ask(self.observed(name, owner, status))


async def test_a_place_is_held_until_it_is_given_back_and_the_next_is_looked_at() -> None:
    hall = Hall(1)
    assert hall.ask("one") is None
    assert hall.ask("one") is None, "a replacement of its pod needs no second place"
    assert hall.ask("two", "ann") == Place(1, Why.PROFILE_FULL, 1)
    assert hall.ask("three", "bob") == Place(1, Why.PROFILE_FULL, 1), "who holds nothing goes before who holds one"
    hall.admissions.withdraw("team", "one")
    assert await hall.queue.get() == session_key("team", "two"), "with the place given back, the elder wish is next"
    assert hall.ask("two") is None


def test_pods_that_another_operator_started_hold_places_and_waiting_is_not_begun_anew() -> None:
    hall = Hall(1)
    hall.observed("held", "ann")
    hall.cache.put_pod(replace(pod(), sid="held", name="held-1", uid="held-1"))
    assert hall.ask("young", "bob") == Place(1, Why.PROFILE_FULL, 1)
    waited = decide(replace(hall.observed("old", "eve"), place=Place(1, Why.PROFILE_FULL, 1)), NOW - 900).status
    assert hall.ask("old", "eve", waited) == Place(1, Why.PROFILE_FULL, 1)
    assert hall.ask("young", "bob") == Place(2, Why.PROFILE_FULL, 1)


def test_a_deleted_session_waits_no_longer() -> None:
    hall = Hall(1)
    assert hall.ask("one") is None
    assert hall.ask("two") is not None
    hall.cache.sessions.drop("team", "one", "one")
    assert hall.ask("two") is None


def test_without_a_limit_nobody_is_asked_to_wait() -> None:
    hall = Hall(None)
    assert [hall.ask(str(n)) for n in range(50)] == [None] * 50
    assert isinstance(decide(hall.observed("x", "ann"), NOW).actions[0], Start)
