"""How many pods wait, and which: decisions on values, no cluster."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hermes_contracts.crd.profile import ProfileSpec
from hermes_contracts.warm_pool import Hello
from hermes_operator.build.meta import ANNOTATION_TEMPLATE
from hermes_operator.build.pod import AGENT, build_pod, pod_template
from hermes_operator.cluster.cache import Cache
from hermes_operator.cluster.views import ContainerView
from hermes_operator.pool.board import Board
from hermes_operator.pool.decide import MAX_AGE_SECONDS, START_SECONDS, decide_pool, failure_delay, merge
from hermes_operator.pool.manifests import build_warm_pod, claim_patch, class_of, eligible
from hermes_operator.pool.warm import Group, ObservedPool, WarmPod
from hermes_operator.reconcile.pods import Health, diagnose
from tests.unit.operator.builders import NOW, SPEC, pod
from tests.unit.operator.test_manifests import INSTALLATION, epoch

KEY = "U" + "A" * 55
EPOCH = epoch()


def warm(number: int = 1, *, age: float = 10, **fields: Any) -> WarmPod:
    blank = WarmPod("team", f"warm-{number}", f"uid-{number}", "5", "small", NOW - age, deleting=False)
    return replace(blank, **fields)


def pool(*pods: WarmPod, size: int = 2, heard: bool = True, **fields: Any) -> ObservedPool:
    blank = ObservedPool(
        groups={"small": Group(size)} if size else {},
        pods=pods,
        heard=frozenset(p.uid for p in pods) if heard else frozenset(),
        reserved=frozenset(),
        listening_since=NOW - 1000,
    )
    return replace(blank, **fields)


def test_a_full_pool_is_left_alone() -> None:
    plan = decide_pool(pool(warm(1), warm(2)), NOW)
    assert (plan.discard, plan.make) == ((), ())
    assert plan.due == NOW - 10 + MAX_AGE_SECONDS


def test_missing_pods_are_made_two_at_a_time() -> None:
    assert decide_pool(pool(size=20), NOW).make == ("small", "small")
    assert decide_pool(pool(warm(1), size=20, heard=False), NOW).make == ("small",)
    assert decide_pool(pool(warm(1), warm(2), size=20, heard=False), NOW).make == ()


def test_a_pod_that_is_ending_or_being_claimed_is_nobodys_to_count_or_delete() -> None:
    assert decide_pool(pool(warm(1, deleting=True), warm(2), size=2), NOW).make == ("small",)
    plan = decide_pool(pool(warm(1), warm(2), warm(3), size=2, reserved=frozenset({"uid-3"})), NOW)
    assert plan.discard == ()


@pytest.mark.parametrize(
    ("observed", "reason", "failed"),
    [
        (pool(warm(1, broken="AgentRestarted")), "AgentRestarted", True),
        (pool(warm(1, group="large")), "Outdated", False),
        (pool(warm(1), size=0), "Outdated", False),
        (pool(warm(1, age=MAX_AGE_SECONDS + 1)), "Old", False),
        (pool(warm(1, age=START_SECONDS + 1), heard=False), "Silent", True),
    ],
)
def test_what_is_of_no_use_goes(observed: ObservedPool, reason: str, failed: bool) -> None:
    [found] = decide_pool(observed, NOW).discard
    assert (found.reason, found.failed) == (reason, failed)


def test_an_operator_that_has_just_begun_to_listen_takes_no_silence_for_a_fault() -> None:
    observed = pool(warm(1, age=3600), warm(2, age=3600), heard=False, listening_since=NOW - 1)
    assert decide_pool(observed, NOW).discard == ()


def test_what_is_too_much_goes_those_that_start_first() -> None:
    pods = (warm(1, age=50), warm(2, age=40), warm(3, age=30))
    observed = replace(pool(*pods, size=1), heard=frozenset({"uid-2", "uid-3"}))
    assert [found.pod.name for found in decide_pool(observed, NOW).discard] == ["warm-3", "warm-1"]


def test_after_a_failure_or_a_claim_a_class_rests() -> None:
    observed = replace(pool(), groups={"small": Group(1, not_before=NOW + 7), "large": Group(1)})
    plan = decide_pool(observed, NOW)
    assert plan.make == ("large",)
    assert plan.due == NOW + 5
    assert decide_pool(replace(observed, groups={"small": Group(1, NOW + 7)}), NOW).due == NOW + 7
    assert [failure_delay(n) for n in (0, 1, 2, 3, 50)] == [0.0, 5.0, 10.0, 20.0, 300.0]


def test_profiles_whose_pods_look_the_same_share_a_class() -> None:
    assert merge([("a", 2), ("b", 1), ("a", 3)], {"a": 9.0}) == {"a": Group(5, 9.0), "b": Group(1)}
    other = SPEC.model_copy(update={"persona": "somebody else"})
    assert class_of(INSTALLATION, "team", SPEC) == class_of(INSTALLATION, "team", other)


@pytest.mark.parametrize(
    "change",
    [
        {"sandbox": {"egress": "Internet"}},
        {"sandbox": {"image": "other:1"}},
        {"sandbox": {"runtimeClassName": "gvisor"}},
        {"sandbox": {"resources": {"memory": "1Gi"}}},
        {"sandbox": {"workspace": {"size": "2Gi"}}},
        {"sandbox": {"workspace": {"storageClassName": "fast"}}},
        {"agent": {"resources": {"memory": "1Gi"}}},
    ],
)
def test_whatever_a_pod_is_made_from_is_in_its_class(change: dict[str, Any]) -> None:
    body = SPEC.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    other = ProfileSpec.model_validate({**body, **change})
    assert class_of(INSTALLATION, "team", SPEC) != class_of(INSTALLATION, "team", other)
    assert class_of(INSTALLATION, "team", SPEC) != class_of(INSTALLATION, "other", SPEC)
    moved = replace(INSTALLATION, bus=replace(INSTALLATION.bus, addresses=("10.9.9.9",)))
    assert class_of(INSTALLATION, "team", SPEC) != class_of(moved, "team", SPEC)


def test_a_volume_of_ones_own_or_no_wish_makes_a_profile_ineligible() -> None:
    assert not eligible(SPEC)
    wish = {"model": {"provider": "scripted", "name": "s"}, "warmPool": {"size": 1}}
    assert eligible(ProfileSpec.model_validate(wish))
    own = {**wish, "sandbox": {"workspace": {"kind": "PersistentVolumeClaim"}}}
    assert not eligible(ProfileSpec.model_validate(own))


def test_a_waiting_pod_differs_from_a_sessions_own_in_name_secret_and_owner_only() -> None:
    mine = build_pod(INSTALLATION, EPOCH)
    waits = build_warm_pod(INSTALLATION, EPOCH.namespace, "warm-x", EPOCH.profile, [("demo", "uid-p")])
    for body in (mine, waits):
        for volume in body["spec"]["volumes"]:
            if "secret" in volume:
                volume["secret"]["secretName"] = ""
    if EPOCH.profile.sandbox.workspace.kind == "Ephemeral":
        assert mine["spec"] == waits["spec"]
    assert "hermes.run/sid" not in waits["metadata"]["labels"]
    assert waits["metadata"]["annotations"][ANNOTATION_TEMPLATE] == pod_template(INSTALLATION, EPOCH)


def test_a_claim_names_the_version_it_saw_and_takes_the_pod_out_of_the_pool() -> None:
    meta = claim_patch(warm(1), EPOCH, KEY)["metadata"]
    assert (meta["uid"], meta["resourceVersion"]) == ("uid-1", "5")
    assert meta["labels"]["hermes.run/pool"] is None
    assert meta["labels"]["hermes.run/sid"] == EPOCH.sid
    assert [owner["kind"] for owner in meta["ownerReferences"]] == ["HermesSession"]


def test_a_claimed_pod_whose_agent_started_again_is_broken_and_another_is_not() -> None:
    again = {AGENT: ContainerView(started=True, restarts=1)}
    assert diagnose(pod(containers=again, bus_key=KEY)).health is Health.BROKEN
    assert diagnose(pod(containers=again)).health is not Health.BROKEN


def test_an_event_from_before_the_claim_does_not_bring_a_pod_back_into_the_pool() -> None:
    cache = Cache()
    assert cache.put_warm(warm(1))
    cache.claim(pod(name="warm-1", uid="uid-1", bus_key=KEY))
    assert not cache.put_warm(warm(1, resource_version="9"))
    assert cache.warm.all() == []
    claimed = cache.claimed_pod("uid-1")
    assert claimed is not None and claimed.name == "warm-1"
    cache.drop_pod("team", "warm-1", "uid-1")
    assert cache.claimed_pod("uid-1") is None


def test_the_board_remembers_who_accepted_and_forgets_who_is_gone() -> None:
    now = [NOW]
    board = Board(lambda: now[0])
    hello = Hello(seal_key="A" * 43 + "=", bus_key=KEY)
    assert board.take("uid-1", hello)
    assert not board.take("uid-1", hello), "the same again is no news"
    board.take("uid-1", hello.model_copy(update={"accepted": True}))
    assert board.accepted("uid-1")
    now[0] += 120
    board.prune({"uid-1"})
    assert board.accepted("uid-1")
    board.prune(set())
    assert not board.accepted("uid-1") and board.heard() == frozenset()
