"""Files that go with an answer, and the places that people call their home."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from hermes_contracts.conversation import MediaId
from hermes_contracts.envelopes import MAX_CAPTION_CHARACTERS, OutFile, OwnerId, Target
from hermes_contracts.names import DnsLabel, ObjectName, Sid
from hermes_contracts.store_api.base import StoreModel

MAX_TURN_FILES = 10
"""Most files that go with one answer."""


class OfferFileRequest(StoreModel):
    """Have a file, whose bytes are stored, go with this turn's answer. The same name and bytes again change nothing."""

    turn_id: str
    media_id: MediaId
    name: Annotated[str, StringConstraints(min_length=1, max_length=120)]
    media_type: Annotated[str, StringConstraints(max_length=120)]
    caption: Annotated[str, StringConstraints(max_length=MAX_CAPTION_CHARACTERS)] = ""


class OfferFileReply(StoreModel):
    """What goes with the answer."""

    file: OutFile


class FileRequest(StoreModel):
    """A file by the session's owner and its id: a foreign one is not found."""

    sid: Sid
    owner: OwnerId
    file_id: Annotated[str, StringConstraints(max_length=40)]


class FilesRequest(StoreModel):
    """A session's files, by its owner."""

    sid: Sid
    owner: OwnerId


class StoredFile(StoreModel):
    """A file, the turn whose answer it goes with, and when it was offered, in seconds since the epoch."""

    file: OutFile
    turn_id: str
    created_at: float


class StoredFiles(StoreModel):
    """Newest first, at most 200."""

    files: tuple[StoredFile, ...]


class SetHomeRequest(StoreModel):
    """Make a chat the home of a person with an agent, one a platform; None: he has none there any more."""

    owner: OwnerId
    namespace: DnsLabel
    profile: ObjectName
    channel: Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9-]{0,31}$")]
    place: Target | None = Field(default=None)


class HomesRequest(StoreModel):
    """A person's homes with an agent."""

    owner: OwnerId
    namespace: DnsLabel
    profile: ObjectName


class HomeRequest(StoreModel):
    """The home of a person with the agent of a session: on one platform, or the one set last."""

    sid: Sid
    owner: OwnerId
    channel: Literal[""] | Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9-]{0,31}$")] = ""


class Homes(StoreModel):
    """The one set last first."""

    places: tuple[Target, ...]
