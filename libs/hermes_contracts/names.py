"""Every string of ours that names something in Kubernetes. Nothing else in the project builds one."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

GROUP = "hermes.run"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"

LABEL_SID = f"{GROUP}/sid"
LABEL_EPOCH = f"{GROUP}/epoch"
LABEL_PROFILE = f"{GROUP}/profile"
LABEL_COMPONENT = "app.kubernetes.io/component"
LABEL_PART_OF = "app.kubernetes.io/part-of"
LABEL_EGRESS = f"{GROUP}/egress"
LABEL_CRON = f"{GROUP}/cron"
"""On the sessions of runs: UID of their HermesCronJob."""

LABEL_POOL = f"{GROUP}/pool"
"""On pods that wait for a session, and gone from those that have one: the class they were made for."""

ANNOTATION_BUS_KEY = f"{GROUP}/bus-key"
"""On pods that waited: public key of the session credential, whose private half only the agent holds."""
ANNOTATION_RUN_NOW = f"{GROUP}/run-now"
"""On a HermesCronJob: each new value starts one run."""

ANNOTATION_JOB_TITLE = f"{GROUP}/job-title"
"""On a HermesCronJob that was asked for over the bus: what its owner calls it."""
LABEL_JOB_OWNER = f"{GROUP}/job-owner"
"""On the same: whose it is, as `job_owner_label` writes it. Without it nobody sees the job but in Kubernetes."""

FIELD_MANAGER = "hermes-operator"
FINALIZER_PURGE = f"{GROUP}/purge"
"""On sessions with `deletionPolicy: Purge` only: holds the object until the session's data is gone."""
PROVIDER_SECRET_TYPE = f"{GROUP}/provider"

MAX_NAME = 52
"""Longest name of an object of ours, in characters: leaves room for suffixes of children within a DNS label's 63."""
MAX_CRON_NAME = 40
"""The same for a HermesCronJob."""

SID_PATTERN = r"^s[a-z2-7]{25}$"
Sid = Annotated[str, StringConstraints(pattern=SID_PATTERN)]
"""A session id: `s` and 25 characters of base32, 125 bits of SHA-256; safe in subjects, labels and file names."""

DnsLabel = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", max_length=63)]
ObjectName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", max_length=MAX_NAME)]

KeyText = Annotated[str, StringConstraints(max_length=256)]


class RoutingKey(BaseModel):
    """Where a conversation lives, in the platform's own ids; equal keys are the same session."""

    model_config = ConfigDict(frozen=True, populate_by_name=True)

    channel: Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9-]{0,31}$")] = Field(
        description="Kind of channel, for example api, webhook, slack, telegram"
    )
    account: KeyText = Field(default="", description="Account on the channel: workspace, bot, webhook route")
    chat: KeyText = Field(default="", description="Chat, room or client-chosen session id")
    thread: KeyText = Field(default="", description="Thread inside the chat")
    user: KeyText = Field(default="", description="Person, where a session is a person's own")

    def canonical(self) -> str:
        """Return the key as one unambiguous string."""
        return json.dumps([self.channel, self.account, self.chat, self.thread, self.user], ensure_ascii=False)


def _hash(*parts: str) -> str:
    digest = hashlib.sha256("\0".join(parts).encode()).digest()
    return base64.b32encode(digest).decode().lower().rstrip("=")


def session_id(namespace_uid: str, profile: str, key: RoutingKey) -> str:
    """Derive the session id that everything durable is keyed by."""
    return "s" + _hash("key", namespace_uid, profile, key.canonical())[:25]


def session_id_of_object(uid: str) -> str:
    """Derive the session id of a HermesSession that a person made without a key."""
    return "s" + _hash("object", uid)[:25]


def conversation_id(*parts: str) -> str:
    """Derive the id of a conversation inside a session from what tells it apart (a thread, a client's id)."""
    return "c" + _hash("conversation", *parts)[:25]


def turn_id(sid: str, channel: str, account: str, update_id: str) -> str:
    """Derive the id of a turn from what the platform calls its message: the same message is the same turn."""
    digest = hashlib.sha256("\0".join(("turn", sid, channel, account, update_id)).encode()).digest()
    return "t" + base64.b32encode(digest).decode().lower()[:25]


def media_id(data: bytes) -> str:
    """Derive the id of a medium from its bytes: the same picture has the same id."""
    return "m" + base64.b32encode(hashlib.sha256(data).digest()).decode().lower()[:25]


def file_id(turn: str, name: str) -> str:
    """Derive the id of a file that goes with a turn's answer: one name is one file."""
    return "f" + _hash("file", turn, name)[:25]


def object_name(*parts: str, limit: int = MAX_NAME) -> str:
    """Make one DNS label of free text: readable start, hash at the end, at most `limit` characters."""
    readable = re.sub(r"[^a-z0-9]+", "-", "-".join(parts).lower()).strip("-")
    digest = _hash("name", *parts)[:10]
    head = readable[: limit - len(digest) - 1].strip("-")
    return f"{head}-{digest}" if head and head[0].isalnum() else f"hs-{digest}"


def session_object_name(profile: str, key: RoutingKey) -> str:
    """Name of the HermesSession for a routing key."""
    return object_name(profile, key.channel, key.user or key.chat, key.canonical())


def pod_name(session: str, epoch: int) -> str:
    """Name of a session's agent pod; one a session and epoch, so the API server refuses a second."""
    return f"{session}-{epoch}"


def credentials_name(session: str, epoch: int) -> str:
    """Name of the Secret with the credentials of one session and epoch."""
    return f"{session}-{epoch}"


def workspace_name(session: str) -> str:
    """Name of the PersistentVolumeClaim that keeps a session's workspace."""
    return f"{session}-workspace"


HOME_CHANNEL = "home"
"""Channel of targets that mean a person's home: account is the person, chat a platform or nothing."""
CRON_CHANNEL = "cron"
"""Channel of scheduled runs: account is the UID of the HermesCronJob, chat and update id name the run."""


def cron_session_name(job: str, job_uid: str, run: str) -> str:
    """Name of the HermesSession of a run: one a job and run, so the API server refuses a second.

    Shows the job and the minute; the hash at the end tells apart what the rest does not.
    """
    stamp = re.sub(r"[^a-z0-9]+", "-", run.lower())[:17].strip("-")
    digest = _hash("run", job_uid, run)[:10]
    return f"{job[: MAX_NAME - len(stamp) - len(digest) - 2].strip('-')}-{stamp}-{digest}"


def cron_owner(namespace: str, job: str) -> str:
    """Owner of the sessions of a job's runs."""
    return f"{CRON_CHANNEL}:{namespace}/{job}"


def job_owner_label(owner: str) -> str:
    """Write the owner of a job as the value of a label, which cannot hold every name."""
    return _hash("job-owner", owner)[:32]


def cron_job_name(owner: str, profile: str, title: str) -> str:
    """Name of the HermesCronJob that an owner asks for: the same title is the same job."""
    readable = re.sub(r"[^a-z0-9]+", "-", title.lower())[: MAX_CRON_NAME - 11].strip("-")
    return f"{readable or 'job'}-{_hash('job', owner, profile, title)[:10]}"
