"""Every subject, stream, consumer and bucket name of the bus. Nothing else in the project builds one.

`sid` and `epoch` are single tokens (see `names.Sid`), so a subject built here has exactly the tokens it shows.
"""

from __future__ import annotations

import hashlib

PARTITIONS = 64
"""Inbound subjects are spread over this many partitions; fixed, because messages in flight carry it."""
IN_STREAM_COUNT = 4
"""Inbound streams; each owns an equal range of partitions, and the server allows 1,000 consumers a stream."""
OUT_PARTITIONS = 8
"""Outbound subjects are spread over this many partitions, each delivered by one gateway at a time."""

WAKE = "hermes.wake"
EVENTS_STREAM = "HERMES_EVENTS"
OUT_STREAM = "HERMES_OUT"
DEAD_STREAM = "HERMES_DEAD"
PIECES_STREAM = "HERMES_PIECES"
IN_STREAMS = tuple(f"HERMES_IN_{n}" for n in range(IN_STREAM_COUNT))

PROFILES_BUCKET = "hermes-profiles"
LEASES_BUCKET = "hermes-leases"
IDEMPOTENCY_BUCKET = "hermes-idempotency"
"""Idempotency-Keys of API callers, each with a digest of its message; entries live for a day."""
RESPONSES_BUCKET = "hermes-responses"
"""Which message a response of OpenAI's Responses API is, and its metadata; entries live for 30 days."""

CONVERSATIONS_BUCKET = "hermes-conversations"
"""Which message began the present conversation of a place in a chat, and who is reached as whom; entries stay."""
PREVIEWS_BUCKET = "hermes-previews"
"""Which message of a chat shows an answer that is still being written; entries live for a day."""


def _bucket(sid: str, count: int) -> int:
    return int.from_bytes(hashlib.sha256(sid.encode()).digest()[:4], "big") % count


def partition(sid: str) -> int:
    """Return the inbound partition of a session, 0 to 63."""
    return _bucket(sid, PARTITIONS)


def in_stream(sid: str) -> str:
    """Return the stream that holds a session's inbound messages."""
    return IN_STREAMS[partition(sid) * IN_STREAM_COUNT // PARTITIONS]


def in_stream_subjects(index: int) -> list[str]:
    """Return the subjects that inbound stream number `index` owns."""
    return [f"hermes.in.{p}.*" for p in range(PARTITIONS) if p * IN_STREAM_COUNT // PARTITIONS == index]


def inbound(sid: str) -> str:
    """Subject of a session's inbound messages."""
    return f"hermes.in.{partition(sid)}.{sid}"


def sid_of_inbound(subject: str) -> str:
    """Return the session id that an inbound subject names."""
    return subject.split(".")[3]


def consumer(sid: str, epoch: int) -> str:
    """Durable consumer of one session and epoch."""
    return f"{sid}-{epoch}"


def control(sid: str) -> str:
    """Hints to whoever runs the session: look into the store for commands."""
    return f"hermes.ctl.{sid}"


def control_epoch(sid: str, epoch: int) -> str:
    """Orders to one epoch's agent: drain, renewed credentials."""
    return f"hermes.ctl.{sid}.{epoch}"


def delta(sid: str, epoch: int) -> str:
    """Streaming pieces of a running turn; best effort."""
    return f"hermes.delta.{sid}.{epoch}"


def deltas_of(sid: str) -> str:
    """Wildcard over the deltas of all epochs of a session."""
    return f"hermes.delta.{sid}.*"


def event(sid: str) -> str:
    """Durable events of a session."""
    return f"hermes.event.{sid}"


def out_partition(sid: str) -> int:
    """Return the outbound partition of a session, 0 to 7."""
    return _bucket("out" + sid, OUT_PARTITIONS)


def outbound(channel: str, sid: str) -> str:
    """Subject of deliveries to a channel for a session."""
    return f"hermes.out.{out_partition(sid)}.{channel}.{sid}"


def preview(partition: int) -> str:
    """Hints to whoever delivers an outbound partition: somebody waits for an answer in a chat."""
    return f"hermes.preview.{partition}"


def dead(sid: str) -> str:
    """Messages that were given up."""
    return f"hermes.dead.{sid}"


def agent_store(sid: str, epoch: int, method: str) -> str:
    """Subject of a store method called by an agent; the server lets no other session publish here."""
    return f"hermes.store.{sid}.{epoch}.{method}"


def piece(sid: str, name: str) -> str:
    """Subject of a kept piece of a session's files; only the store writes and reads there."""
    return f"hermes.piece.{sid}.{name}"


def warm_hello(uid: str) -> str:
    """What a pod that waits for a session says of itself."""
    return f"hermes.warm.hello.{uid}"


def warm_claim(uid: str) -> str:
    """Where a waiting pod is given its identity."""
    return f"hermes.warm.claim.{uid}"


def jobs(role: str, method: str) -> str:
    """Subject of a request about HermesCronJobs by one of our services; the operator that leads answers."""
    return f"hermes.jobs.{role}.{method}"


def agent_jobs(sid: str, epoch: int | str, method: str) -> str:
    """Subject of the same by an agent; the server lets no other session publish here."""
    return f"hermes.jobs.{sid}.{epoch}.{method}"


def service_store(role: str, method: str) -> str:
    """Subject of a store method called by one of our services."""
    return f"hermes.svc.{role}.{method}"


def agent_inbox(sid: str, epoch: int) -> str:
    """Inbox prefix of one session's and epoch's agent."""
    return f"_INBOX.{sid}.{epoch}"


def service_inbox(role: str) -> str:
    """Inbox prefix of a service."""
    return f"_INBOX.svc-{role}"


def warm_inbox(uid: str) -> str:
    """Inbox prefix of a waiting pod, which has no right to receive anything there."""
    return f"_INBOX.warm.{uid}"
