"""Creates what the bus must have: streams and buckets, as DESIGN's message path needs them. Idempotent."""

from __future__ import annotations

from nats.js import JetStreamContext
from nats.js.api import DiscardPolicy, KeyValueConfig, RetentionPolicy, StorageType, StreamConfig
from nats.js.errors import NotFoundError

from hermes_contracts import subjects
from hermes_contracts.envelopes import MAX_BODY_BYTES

MAX_PENDING_PER_SESSION = 1000
"""Messages that may wait for one session; the next publish is refused and the platform told to try again."""
EVENTS_PER_SESSION = 10_000
_DEDUPE_SECONDS = 3600
_MESSAGE_OVERHEAD = 64 * 1024


def _work_queue(name: str, patterns: list[str]) -> StreamConfig:
    return StreamConfig(
        name=name,
        subjects=patterns,
        retention=RetentionPolicy.WORK_QUEUE,
        storage=StorageType.FILE,
        discard=DiscardPolicy.NEW,
        discard_new_per_subject=True,
        max_msgs_per_subject=MAX_PENDING_PER_SESSION,
        max_msg_size=MAX_BODY_BYTES + _MESSAGE_OVERHEAD,
        duplicate_window=_DEDUPE_SECONDS,
        allow_direct=True,
    )


def stream_configs() -> list[StreamConfig]:
    """Return every stream."""
    inbound = [_work_queue(name, subjects.in_stream_subjects(n)) for n, name in enumerate(subjects.IN_STREAMS)]
    return [
        *inbound,
        _work_queue(subjects.OUT_STREAM, ["hermes.out.*.*.*"]),
        StreamConfig(
            name=subjects.EVENTS_STREAM,
            subjects=["hermes.event.*"],
            storage=StorageType.FILE,
            discard=DiscardPolicy.OLD,
            max_msgs_per_subject=EVENTS_PER_SESSION,
            max_age=7 * 86_400,
            duplicate_window=_DEDUPE_SECONDS,
        ),
        StreamConfig(name=subjects.DEAD_STREAM, subjects=["hermes.dead.*"], storage=StorageType.FILE, max_age=90 * 86_400),
    ]


async def ensure_streams(js: JetStreamContext) -> None:
    """Create or update every stream and bucket."""
    for config in stream_configs():
        try:
            await js.stream_info(str(config.name))
        except NotFoundError:
            await js.add_stream(config)
        else:
            await js.update_stream(config)
    for bucket in (
        KeyValueConfig(bucket=subjects.PROFILES_BUCKET, history=1, storage=StorageType.FILE),
        KeyValueConfig(bucket=subjects.LEASES_BUCKET, history=1, storage=StorageType.FILE, ttl=15),
        KeyValueConfig(bucket=subjects.IDEMPOTENCY_BUCKET, history=1, storage=StorageType.FILE, ttl=86_400),
        KeyValueConfig(bucket=subjects.RESPONSES_BUCKET, history=1, storage=StorageType.FILE, ttl=30 * 86_400),
        KeyValueConfig(bucket=subjects.CONVERSATIONS_BUCKET, history=1, storage=StorageType.FILE),
        KeyValueConfig(bucket=subjects.PREVIEWS_BUCKET, history=1, storage=StorageType.FILE, ttl=86_400),
    ):
        try:
            await js.key_value(bucket.bucket)
        except NotFoundError:
            await js.create_key_value(bucket)
