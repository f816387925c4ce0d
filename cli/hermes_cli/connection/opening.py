"""Opens a connection to the gateway that was asked for, and closes what it opened."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from hermes_cli.api.client import Api, Fixed
from hermes_cli.connection.choose import Direct, choose
from hermes_cli.connection.contexts import read_configuration
from hermes_cli.connection.forward import Forward
from hermes_cli.connection.kubectl import Kubectl
from hermes_cli.options import Options


@dataclass(frozen=True)
class Connected:
    """An API to call, and the Profile that was named."""

    api: Api
    profile: str | None


@asynccontextmanager
async def connected(options: Options) -> AsyncIterator[Connected]:
    """Connect while the context lasts. Raises CliError."""
    target = choose(options, read_configuration(options.config))
    if isinstance(target, Direct):
        api = Api(Fixed(target.url), target.key, ca_file=target.ca_file)
        try:
            yield Connected(api, target.profile)
        finally:
            await api.close()
        return
    kubectl = Kubectl(target.place)
    key = target.key or await kubectl.first_key()
    forward = Forward(kubectl)
    api = Api(forward, key)
    try:
        await forward.url()
        yield Connected(api, target.profile)
    finally:
        await api.close()
        await forward.close()
