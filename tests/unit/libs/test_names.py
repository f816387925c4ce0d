"""Names: what people type becomes ids and object names that Kubernetes and the bus accept, and never the same one twice."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, strategies as st
from pydantic import ValidationError

from hermes_contracts import bus_permissions, names, projection, subjects
from hermes_contracts.names import RoutingKey

LABEL = re.compile(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
TEXT = st.text(max_size=256)
KEYS = st.builds(
    RoutingKey, channel=st.sampled_from(["api", "slack", "telegram"]), account=TEXT, chat=TEXT, thread=TEXT, user=TEXT
)


@given(KEYS)
def test_a_session_id_is_one_token_everywhere(key: RoutingKey) -> None:
    sid = names.session_id("uid", "default", key)
    assert re.match(names.SID_PATTERN, sid)
    assert len(subjects.inbound(sid).split(".")) == 4
    assert subjects.sid_of_inbound(subjects.inbound(sid)) == sid
    assert len(names.pod_name(sid, 10**9)) <= 63


@given(KEYS)
def test_an_object_name_is_a_dns_label_of_at_most_52_characters(key: RoutingKey) -> None:
    name = names.session_object_name("default", key)
    assert LABEL.match(name)
    assert len(name) <= names.MAX_NAME


@given(KEYS, KEYS)
def test_different_keys_are_different_sessions(one: RoutingKey, other: RoutingKey) -> None:
    same = one == other
    assert (names.session_id("uid", "p", one) == names.session_id("uid", "p", other)) is same
    assert (names.session_object_name("p", one) == names.session_object_name("p", other)) is same


def test_moving_text_between_segments_changes_the_session() -> None:
    one = RoutingKey(channel="api", account="a", chat="bc")
    other = RoutingKey(channel="api", account="ab", chat="c")
    assert names.session_id("uid", "p", one) != names.session_id("uid", "p", other)


def test_a_namespace_that_comes_back_under_its_old_name_has_other_sessions() -> None:
    key = RoutingKey(channel="api", chat="x")
    assert names.session_id("first", "p", key) != names.session_id("second", "p", key)


@pytest.mark.parametrize("channel", ["", "Slack", "a.b", "-a", "a" * 40])
def test_a_channel_name_that_is_no_token_is_refused(channel: str) -> None:
    with pytest.raises(ValidationError):
        RoutingKey(channel=channel)


def test_every_partition_belongs_to_exactly_one_stream() -> None:
    owned = [subject for n in range(subjects.IN_STREAM_COUNT) for subject in subjects.in_stream_subjects(n)]
    assert sorted(owned) == sorted(f"hermes.in.{p}.*" for p in range(subjects.PARTITIONS))


@given(KEYS)
def test_a_session_publishes_into_the_stream_that_owns_its_partition(key: RoutingKey) -> None:
    sid = names.session_id("uid", "p", key)
    index = subjects.IN_STREAMS.index(subjects.in_stream(sid))
    assert f"hermes.in.{subjects.partition(sid)}.*" in subjects.in_stream_subjects(index)


@given(st.text(max_size=80), st.text(max_size=80))
def test_no_reply_subject_but_the_callers_own_is_answered(tail: str, reply: str) -> None:
    sid = "s" + "a" * 25
    subject = subjects.agent_store(sid, 3, "load")
    own = subjects.agent_inbox(sid, 3) + "."
    assert bus_permissions.may_reply_to(subject, reply) is (reply.startswith(own) and not set("*>") & set(reply))
    assert not bus_permissions.may_reply_to(subject, subjects.agent_inbox(sid, 33) + tail)
    assert not bus_permissions.may_reply_to(subject, subjects.event(sid))


def test_a_projection_key_tells_namespace_and_profile_apart() -> None:
    assert projection.key("a-b", "c") != projection.key("a", "b-c")


def test_a_run_has_one_name_that_shows_job_and_minute() -> None:
    name = names.cron_session_name("morning-report", "uid-1", "2026-11-30T22:38:00Z")
    assert name.startswith("morning-report-2026-11-30t22-38-")
    assert name == names.cron_session_name("morning-report", "uid-1", "2026-11-30T22:38:00Z")
    others = [("uid-2", "2026-11-30T22:38:00Z"), ("uid-1", "2026-11-30T22:39:00Z"), ("uid-1", "now-41b00ac30bff1fff")]
    assert len({name, *(names.cron_session_name("morning-report", *other) for other in others)}) == 4
    longest = names.cron_session_name("j" * 40, "uid-1", "2026-11-30T22:38:00Z")
    assert len(longest) <= names.MAX_NAME
    assert "-2026-11-30t22-38-" in longest
