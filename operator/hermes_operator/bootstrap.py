"""The first start: makes the installation's Secrets, waits for the bus, makes its streams and the first Profile."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import structlog
from nats.aio.client import Client
from nats.errors import Error as NatsError

from hermes_contracts.crd.profile import ProfileSpec
from hermes_contracts.installation import (
    BUS_KEYS,
    GATEWAY_SIGNING,
    INSTALLATION_SECRETS,
    TOKEN_PRIVATE,
    InstallationSecret,
)
from hermes_contracts.names import API_VERSION, LABEL_PART_OF
from hermes_operator.bootstrap_secrets import Data, FirstKey, decode, encode, missing_data, read_bus_keys
from hermes_operator.build.meta import MANAGED_BY, OPERATOR, PART_OF
from hermes_operator.cluster.client import ClusterClient
from hermes_operator.cluster.errors import ClusterError
from hermes_operator.cluster.resources import PROFILES, SECRETS
from hermes_operator.credentials import Minter
from hermes_operator.settings import OperatorSettings
from hermes_service.signing import public_key
from hermes_service.streams import ensure_streams

log = structlog.get_logger()


@dataclass(frozen=True)
class Keys:
    """What the operator takes from the installation's Secrets."""

    minter: Minter
    gateway_public_key: str
    gateway_seed: str = field(default="", repr=False)
    """Signs the messages of scheduled runs."""


async def make_secrets(client: ClusterClient, settings: OperatorSettings) -> None:
    """Make what is missing of the installation's Secrets. Raises BootstrapError, ClusterError."""
    found: dict[InstallationSecret, Data] = {}
    for secret in INSTALLATION_SECRETS:
        body = await client.get(SECRETS, settings.namespace, secret.name(settings.release))
        if body is not None:
            found[secret] = decode(body.get("data"))
    first = FirstKey("admin", settings.tenants[0], settings.first_profile_name)
    for secret, data in missing_data(found, settings.release, first).items():
        manifest = {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "Opaque",
            "metadata": {
                "name": secret.name(settings.release),
                "namespace": settings.namespace,
                "labels": {LABEL_PART_OF: PART_OF, MANAGED_BY: OPERATOR},
            },
            "data": encode(data),
        }
        if secret in found:
            await client.apply(SECRETS, manifest)
        else:
            await client.create(SECRETS, manifest)
        log.info("bootstrap.secret_made", name=secret.name(settings.release))


async def load_keys(client: ClusterClient, settings: OperatorSettings) -> Keys | None:
    """Return the keys, or None while the Secrets are not there: a standby waits for the leader to make them."""
    wanted = (BUS_KEYS, TOKEN_PRIVATE, GATEWAY_SIGNING)
    data = {}
    for secret in wanted:
        body = await client.get(SECRETS, settings.namespace, secret.name(settings.release))
        data[secret] = decode(body.get("data")) if body is not None else {}
        if any(key not in data[secret] for key in secret.keys):
            return None
    minter = Minter(read_bus_keys(data[BUS_KEYS]), data[TOKEN_PRIVATE]["private.pem"])
    seed = data[GATEWAY_SIGNING]["seed"]
    return Keys(minter, public_key(seed), seed)


async def make_streams(bus: Client) -> None:
    """Create or update the streams, as soon as JetStream answers."""
    pause = 0.2
    while True:
        try:
            await ensure_streams(bus.jetstream())
        except (NatsError, TimeoutError) as error:
            log.info("bootstrap.waiting_for_jetstream", error=f"{type(error).__name__}: {error}"[:200])
            await asyncio.sleep(pause)
            pause = min(pause * 2, 5.0)
        else:
            return


async def make_first_profile(client: ClusterClient, settings: OperatorSettings) -> None:
    """Make the first Profile when there is none of its name; what a person made or changed stays as it is."""
    if not settings.first_profile:
        return
    namespace, name = settings.tenants[0], settings.first_profile_name
    if await client.get(PROFILES, namespace, name) is not None:
        return
    spec = ProfileSpec.model_validate_json(settings.first_profile)
    manifest = {
        "apiVersion": API_VERSION,
        "kind": "Profile",
        "metadata": {"name": name, "namespace": namespace, "labels": {LABEL_PART_OF: PART_OF}},
        "spec": spec.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_defaults=True),
    }
    try:
        await client.create(PROFILES, manifest)
    except ClusterError as error:
        if error.status != 409:
            raise
    log.info("bootstrap.profile_made", namespace=namespace, name=name)
