"""What follows a failure, and who is passed over after it."""

from __future__ import annotations

import pytest

from hermes_contracts.errors import ErrorCode, HermesError
from hermes_gateway.models.health import KeyPool, ModelHealth
from hermes_gateway.models.providers.errors import HINTS, ProviderError, Reason
from hermes_gateway.models.retry import Decision, RetryPolicy, Step, decide

POLICY = RetryPolicy()
WAIT, ROTATE, FALL_BACK, END = Step.WAIT, Step.ROTATE, Step.FALL_BACK, Step.END


def _error(reason: Reason, after: float | None = None) -> ProviderError:
    return ProviderError(reason, retry_after_seconds=after)


@pytest.mark.parametrize(
    ("error", "attempts", "keys", "models", "expected"),
    [
        (_error(Reason.SERVER_ERROR), 1, False, False, Decision(WAIT, 5)),
        (_error(Reason.SERVER_ERROR), 2, False, False, Decision(WAIT, 10)),
        (_error(Reason.SERVER_ERROR), 3, False, False, Decision(END)),
        (_error(Reason.SERVER_ERROR), 1, False, True, Decision(WAIT, 5)),
        (_error(Reason.SERVER_ERROR), 3, False, True, Decision(FALL_BACK)),
        (_error(Reason.CUT), 1, True, False, Decision(WAIT, 5)),
        (_error(Reason.TIMEOUT), 1, False, False, Decision(WAIT, 5)),
        (_error(Reason.TIMEOUT), 1, False, True, Decision(FALL_BACK)),
        (_error(Reason.OVERLOADED), 1, True, False, Decision(WAIT, 15)),
        (_error(Reason.OVERLOADED), 4, False, False, Decision(WAIT, 120)),
        (_error(Reason.OVERLOADED), 5, False, False, Decision(END)),
        (_error(Reason.OVERLOADED), 1, False, True, Decision(FALL_BACK)),
        (_error(Reason.OVERLOADED, 3), 1, False, True, Decision(WAIT, 3)),
        (_error(Reason.RATE_LIMIT), 1, True, True, Decision(ROTATE)),
        (_error(Reason.RATE_LIMIT, 7), 1, False, False, Decision(WAIT, 7)),
        (_error(Reason.RATE_LIMIT, 30), 1, False, True, Decision(FALL_BACK)),
        (_error(Reason.RATE_LIMIT, 3600), 1, False, False, Decision(END)),
        (_error(Reason.AUTH), 1, True, True, Decision(ROTATE)),
        (_error(Reason.AUTH), 1, False, True, Decision(FALL_BACK)),
        (_error(Reason.AUTH), 1, False, False, Decision(END)),
        (_error(Reason.BILLING), 1, False, False, Decision(END)),
        (_error(Reason.BILLING), 1, False, True, Decision(FALL_BACK)),
        (_error(Reason.CONTEXT_OVERFLOW), 1, True, True, Decision(END)),
        (_error(Reason.PAYLOAD_TOO_LARGE), 1, True, True, Decision(END)),
        (_error(Reason.CONTENT_POLICY_BLOCKED), 1, False, True, Decision(FALL_BACK)),
        (_error(Reason.ADDRESS_REFUSED), 1, False, True, Decision(END)),
        (HermesError(ErrorCode.NOT_CONFIGURED, "no Secret"), 1, False, True, Decision(FALL_BACK)),
        (HermesError(ErrorCode.NOT_CONFIGURED, "no Secret"), 1, False, False, Decision(END)),
        (HermesError(ErrorCode.UNAVAILABLE, "away", retryable=True), 1, False, False, Decision(WAIT, 5)),
    ],
)
def test_what_follows_a_failure(error: HermesError, attempts: int, keys: bool, models: bool, expected: Decision) -> None:
    assert decide(error, POLICY, attempts=attempts, other_keys=keys, other_models=models, random=0) == expected


def test_waits_are_spread_and_bounded() -> None:
    for random in (0.0, 0.5, 1.0):
        for reason in Reason:
            for attempts in range(1, 6):
                for after in (None, 1.0, 119.0):
                    error = _error(reason, after)
                    found = decide(error, POLICY, attempts=attempts, other_keys=False, other_models=False, random=random)
                    assert 0 <= found.wait_seconds <= POLICY.cap_seconds
                    if found.step is WAIT and error.retry_after_seconds is not None:
                        assert found.wait_seconds >= error.retry_after_seconds, "what the provider named is honoured"
    early = decide(_error(Reason.CUT), POLICY, attempts=1, other_keys=False, other_models=False, random=0)
    late = decide(_error(Reason.CUT), POLICY, attempts=1, other_keys=False, other_models=False, random=1)
    assert (early.wait_seconds, late.wait_seconds) == (5, 7.5)


def test_every_reason_ends_sooner_or_later() -> None:
    for reason in HINTS:
        steps = [
            decide(_error(reason), POLICY, attempts=n, other_keys=False, other_models=False, random=0.5).step
            for n in range(1, 7)
        ]
        assert steps[-1] is END, reason


def test_a_model_cools_longer_each_time_and_is_forgiven() -> None:
    now = [0.0]
    health = ModelHealth(lambda: now[0])
    model = ("team", "key", "https://x", "m")
    for seconds in (60, 120, 240, 300, 300):
        assert health.failed(model, _error(Reason.SERVER_ERROR))
        now[0] += seconds - 1
        assert health.cooling(model) and not health.cooling((*model[:3], "other"))
        now[0] += 2
        assert not health.cooling(model)
    health.succeeded(model)
    health.failed(model, _error(Reason.RATE_LIMIT, 500))
    now[0] += 499
    assert health.cooling(model), "no shorter than the provider said"


@pytest.mark.parametrize("reason", [Reason.CONTENT_POLICY_BLOCKED, Reason.CONTEXT_OVERFLOW, Reason.FORMAT_ERROR])
def test_a_conversation_a_provider_dislikes_cools_nothing(reason: Reason) -> None:
    health = ModelHealth(lambda: 0.0)
    assert not health.failed(("m",), _error(reason)) and not health.cooling(("m",))


def test_keys_take_turns_by_use() -> None:
    pool = KeyPool(lambda: 0.0)
    used = []
    for _ in range(6):
        key = pool.pick("team/s", ("a", "b", "c"), ())
        pool.taken("team/s", key)
        pool.released("team/s", key)
        used.append(key)
    assert sorted(used) == ["a", "a", "b", "b", "c", "c"]
    busy = pool.pick("team/s", ("a", "b"), ())
    pool.taken("team/s", busy)
    assert pool.pick("team/s", ("a", "b"), ()) != busy


@pytest.mark.parametrize(
    ("reason", "after", "sole", "seconds"),
    [
        (Reason.AUTH, None, False, 300),
        (Reason.AUTH, None, True, 300),
        (Reason.AUTH_PERMANENT, None, True, 86_400),
        (Reason.BILLING, None, True, 3600),
        (Reason.RATE_LIMIT, None, False, 3600),
        (Reason.RATE_LIMIT, None, True, 60),
        (Reason.RATE_LIMIT, 20, False, 20),
        (Reason.OVERLOADED, None, False, 0),
        (Reason.SERVER_ERROR, None, False, 0),
    ],
)
def test_how_long_a_key_rests(reason: Reason, after: float | None, sole: bool, seconds: float) -> None:
    now = [0.0]
    pool = KeyPool(lambda: now[0])
    assert pool.failed("team/s", "a", _error(reason, after), sole=sole) is (seconds > 0)
    assert pool.soonest("team/s", ("a",)) == seconds
    if seconds:
        assert pool.pick("team/s", ("a", "b"), ()) == "b" and pool.pick("other/s", ("a", "b"), ()) == "a"
        assert pool.pick("team/s", ("a",), ()) == "a", "a key that rests is better than none"
        assert pool.soonest("team/s", ("a", "b")) == 0 and not pool.spare("team/s", ("a",), ())
    now[0] = seconds
    assert pool.spare("team/s", ("a",), ()) and not pool.spare("team/s", ("a",), {"a"})


def test_a_key_that_works_again_rests_no_longer() -> None:
    pool = KeyPool(lambda: 0.0)
    for key in ("a", "b"):
        pool.failed("team/s", key, _error(Reason.RATE_LIMIT), sole=False)
    assert not pool.spare("team/s", ("a", "b"), ())
    pool.succeeded("team/s", "b")
    assert pool.pick("team/s", ("a", "b"), ()) == "b" and pool.spare("team/s", ("a", "b"), {"a"})
