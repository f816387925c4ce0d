"""The chat platforms of this gateway, each with the pace that everything written to it keeps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hermes_gateway.gateway.channels.base import ChatChannel
from hermes_gateway.gateway.delivery.pace import Pace


@dataclass(frozen=True)
class Chat:
    """One platform."""

    channel: ChatChannel
    pace: Pace

    @classmethod
    def of(cls, channel: ChatChannel) -> Chat:
        """Give a channel its pace."""
        return cls(channel, Pace(channel.seconds_between))


Chats = Mapping[str, Chat]
"""By the channel's name."""
