"""What a run's message says of where its answer goes."""

from __future__ import annotations

from hermes_contracts.envelopes import Target
from hermes_operator.build.cron import build_run_message, run_route
from hermes_operator.reconcile.cron_model import Slot
from tests.unit.operator.cron_builders import NOW, job


def test_a_home_keeps_its_own_words_and_a_webhook_gets_the_jobs_name() -> None:
    view = job(
        deliver=(
            {"channel": "home", "account": "slack:T1:U1"},
            {"channel": "home", "account": "slack:T1:U1", "chat": "telegram"},
            {"channel": "webhook", "account": "ops"},
        )
    )
    message = build_run_message(view, Slot("2027-01-01T00:00:00Z", NOW), run_route(view, "r", "uid"), (), NOW)
    assert message.run is not None
    assert message.run.deliver == (
        Target(channel="home", account="slack:T1:U1"),
        Target(channel="home", account="slack:T1:U1", chat="telegram"),
        Target(channel="webhook", account="ops", chat="nightly"),
    )
