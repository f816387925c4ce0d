"""What the models service calls: the ledger of calls, what has been spent, pictures, and logins that change."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from hermes_contracts.conversation import MediaId, StoredType, Usage
from hermes_contracts.names import DnsLabel, ObjectName, Sid
from hermes_contracts.store_api.base import StoreModel


class RecordUsageRequest(StoreModel):
    """Usage of one model call, unique on (sid, turn, step, attempt id)."""

    sid: Sid
    epoch: int
    turn_id: str
    step: int
    call_id: str
    provider: str
    model: str
    usage: Usage
    outcome: str
    milliseconds: float
    purpose: str = "turn"


class SpentRequest(StoreModel):
    """Ask what has been spent, so that a call can be refused before it is made."""

    sid: Sid
    namespace: DnsLabel
    profile: ObjectName


class SpentReply(StoreModel):
    """Billionths of a US dollar, and tokens (input and output); days and months are UTC's."""

    session_nano_usd: int
    profile_day_nano_usd: int
    profile_month_nano_usd: int
    profile_day_tokens: int


MEDIA_PAGE_BYTES = 300_000
"""Most bytes of a medium in one request or answer, before base64."""
MAX_MEDIA_BYTES = 8 * 1024 * 1024


class PutMediaRequest(StoreModel):
    """A page of a medium's bytes, in order from offset 0; the medium is there when `total` bytes are."""

    sid: Sid
    media_id: MediaId
    media_type: StoredType
    total: int = Field(ge=1, le=MAX_MEDIA_BYTES)
    offset: int = Field(ge=0)
    data: Annotated[str, StringConstraints(max_length=MEDIA_PAGE_BYTES * 4 // 3 + 4)]
    """Base64."""


class GetMediaRequest(StoreModel):
    """A page of a medium's bytes."""

    sid: Sid
    media_id: MediaId
    offset: int = Field(default=0, ge=0)


class MediaPage(StoreModel):
    """At most `MEDIA_PAGE_BYTES` from the offset. NOT_FOUND when the medium is not there or not whole."""

    media_type: StoredType
    total: int
    data: str
    """Base64."""


MAX_DESCRIPTION_CHARACTERS = 4_000
MAX_DESCRIBED = 24
"""Most pictures whose descriptions are asked for at once: all of them fit one answer."""


class DescribeMediaRequest(StoreModel):
    """Keep what a picture shows, in words; the first description of a picture stays. NOT_FOUND without the picture."""

    media_id: MediaId
    description: Annotated[str, StringConstraints(min_length=1, max_length=MAX_DESCRIPTION_CHARACTERS)]


class DescriptionsRequest(StoreModel):
    """Ask what is known of a session's pictures."""

    sid: Sid
    media_ids: Annotated[tuple[MediaId, ...], Field(max_length=MAX_DESCRIBED)]


class Descriptions(StoreModel):
    """Descriptions by picture; those that have none are left out."""

    descriptions: dict[MediaId, str]


class LoginRequest(StoreModel):
    """Read the state of a login whose provider hands out a new refresh token each time."""

    login: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
    """SHA-256 of namespace, Secret and the refresh token that the Secret holds."""


class LoginReply(StoreModel):
    """`sealed` is empty at revision 0; only who holds the Secret can open it."""

    revision: int
    sealed: str


class PutLoginRequest(StoreModel):
    """Compare-and-set. CONFLICT when another replica was first: read again and use what it got."""

    login: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
    expected: int = Field(ge=0)
    sealed: Annotated[str, StringConstraints(max_length=32_768)]
