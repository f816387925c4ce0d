"""What each role may publish and receive on the bus: the one table, minted into user JWTs and walked by a test."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from hermes_contracts import subjects


class Role(StrEnum):
    """A service with a bus credential of its own."""

    OPERATOR = "operator"
    GATEWAY = "gateway"
    STORE = "store"
    MODELS = "models"


@dataclass(frozen=True)
class Permissions:
    """Subjects that one user may publish to and receive from; everything else is denied by the server."""

    publish: tuple[str, ...]
    subscribe: tuple[str, ...]
    inbox: str


def agent_permissions(sid: str, epoch: int) -> Permissions:
    """Return what the agent of one session and epoch may do.

    `*` and never `>` after the id, except for acknowledgements and inboxes, whose tail the server chooses.
    """
    consumer = subjects.consumer(sid, epoch)
    stream = subjects.in_stream(sid)
    inbox = subjects.agent_inbox(sid, epoch)
    return Permissions(
        publish=(
            subjects.agent_store(sid, epoch, "*"),
            subjects.agent_jobs(sid, epoch, "*"),
            subjects.delta(sid, epoch),
            f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{consumer}",
            f"$JS.ACK.{stream}.{consumer}.>",
        ),
        subscribe=(f"{inbox}.>", subjects.control(sid), subjects.control_epoch(sid, epoch)),
        inbox=inbox,
    )


def warm_permissions(uid: str) -> Permissions:
    """Return what a pod that waits for a session may do: say that it is there, and be told who it is."""
    return Permissions(
        publish=(subjects.warm_hello(uid),),
        subscribe=(subjects.warm_claim(uid),),
        inbox=subjects.warm_inbox(uid),
    )


_SERVICES: dict[Role, tuple[tuple[str, ...], tuple[str, ...]]] = {
    Role.OPERATOR: (
        # Streams, consumers and buckets are the operator's to make; messages in them are not its to read or write,
        # apart from the routing header of a pending message and the projections.
        (
            "$JS.API.>",
            "$KV.hermes-profiles.>",
            "hermes.ctl.>",
            "hermes.warm.claim.*",
            "hermes.svc.operator.*",
            "hermes.in.*.*",
            f"{subjects.service_inbox(Role.GATEWAY)}.>",
            # Inboxes of agents: they have a token more than those of services.
            "_INBOX.*.*.*.*",
        ),
        (
            subjects.jobs(Role.GATEWAY, "*"),
            subjects.agent_jobs("*", "*", "*"),
            subjects.WAKE,
            "hermes.store.*.*.report",
            "hermes.warm.hello.*",
            "$KV.hermes-profiles.>",
        ),
    ),
    Role.GATEWAY: (
        (
            "hermes.in.*.*",
            subjects.WAKE,
            "hermes.ctl.*",
            "hermes.svc.gateway.*",
            subjects.jobs(Role.GATEWAY, "*"),
            f"$JS.API.CONSUMER.*.{subjects.OUT_STREAM}.>",
            f"$JS.API.CONSUMER.*.{subjects.EVENTS_STREAM}.>",
            # The client library makes the consumers of replays without a name, and so without a tail.
            f"$JS.API.CONSUMER.CREATE.{subjects.EVENTS_STREAM}",
            f"$JS.API.CONSUMER.MSG.NEXT.{subjects.OUT_STREAM}.>",
            f"$JS.API.STREAM.INFO.{subjects.EVENTS_STREAM}",
            f"$JS.API.STREAM.INFO.{subjects.OUT_STREAM}",
            # How many messages wait for a session: counts and subjects, never what they say.
            *(f"$JS.API.STREAM.INFO.{stream}" for stream in subjects.IN_STREAMS),
            f"$JS.ACK.{subjects.OUT_STREAM}.>",
            f"$JS.ACK.{subjects.EVENTS_STREAM}.>",
            *(
                f"$JS.API.{call}.KV_{bucket}{tail}"
                for bucket in (
                    subjects.PROFILES_BUCKET,
                    subjects.LEASES_BUCKET,
                    subjects.IDEMPOTENCY_BUCKET,
                    subjects.RESPONSES_BUCKET,
                    subjects.CONVERSATIONS_BUCKET,
                    subjects.PREVIEWS_BUCKET,
                )
                for call, tail in (
                    ("STREAM.INFO", ""),
                    ("STREAM.MSG.GET", ""),
                    ("DIRECT.GET", ".>"),
                    ("DIRECT.GET", ""),
                    # Each subject makes the credential longer, and a server takes no more than 4 KiB of it.
                    ("CONSUMER.*", ""),
                    ("CONSUMER.*", ".>"),
                )
            ),
            f"$KV.{subjects.LEASES_BUCKET}.>",
            f"$KV.{subjects.IDEMPOTENCY_BUCKET}.*",
            f"$KV.{subjects.RESPONSES_BUCKET}.*",
            f"$KV.{subjects.CONVERSATIONS_BUCKET}.*",
            f"$KV.{subjects.PREVIEWS_BUCKET}.*",
            "hermes.preview.*",
            "$JS.FC.>",
        ),
        ("hermes.delta.*.*", "hermes.event.*", "hermes.preview.*"),
    ),
    Role.STORE: (
        (
            "hermes.event.*",
            "hermes.out.*.*.*",
            "hermes.dead.*",
            "hermes.ctl.*",
            "_INBOX.>",
            # The store's own stream: it makes it, unless pieces of workspaces are kept in a bucket of S3.
            "hermes.piece.*.*",
            *(f"$JS.API.STREAM.{call}.{subjects.PIECES_STREAM}" for call in ("INFO", "CREATE", "UPDATE", "PURGE")),
            f"$JS.API.DIRECT.GET.{subjects.PIECES_STREAM}.hermes.piece.*.*",
        ),
        ("hermes.store.*.*.*", "hermes.svc.*.*"),
    ),
    Role.MODELS: (("hermes.svc.models.*",), ()),
}


def service_permissions(role: Role) -> Permissions:
    """Return what a service may do."""
    publish, subscribe = _SERVICES[role]
    inbox = subjects.service_inbox(role)
    return Permissions(publish=publish, subscribe=(*subscribe, f"{inbox}.>"), inbox=inbox)


def may_reply_to(subject: str, reply: str) -> bool:
    """Tell whether a responder may answer a request on `subject` at `reply`.

    Without this a caller could name another session's subject as its reply and have the service write there.
    """
    tokens = subject.split(".")
    if len(tokens) == 5 and tokens[:2] in (["hermes", "store"], ["hermes", "jobs"]):
        prefix = subjects.agent_inbox(tokens[2], int(tokens[3])) if tokens[3].isdigit() else ""
    elif len(tokens) == 4 and tokens[:2] in (["hermes", "svc"], ["hermes", "jobs"]):
        prefix = subjects.service_inbox(tokens[2])
    else:
        return False
    return bool(prefix) and reply.startswith(prefix + ".") and "*" not in reply and ">" not in reply
