"""Names of what one installation shares: the Secrets the operator makes at its first start, and ports.

The chart mounts these Secrets and never makes them: a template has no memory, so it could not keep a key through an upgrade.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class InstallationSecret:
    """A Secret in the release's namespace, named `<release>-<suffix>`, and its keys."""

    suffix: str
    keys: tuple[str, ...]

    def name(self, release: str) -> str:
        """Return the Secret's name."""
        return f"{release}-{self.suffix}"


BUS_KEYS = InstallationSecret("bus-keys", ("operator-seed", "account-seed", "system-seed"))
"""Read by the operator only."""
BUS_SERVER = InstallationSecret("bus-server", ("auth.conf",))
"""Mounted by NATS."""
BUS_GATEWAY = InstallationSecret("bus-gateway", ("bus.creds",))
BUS_STORE = InstallationSecret("bus-store", ("bus.creds",))
BUS_MODELS = InstallationSecret("bus-models", ("bus.creds",))
POSTGRES = InstallationSecret("postgres", ("owner-password", "service-password"))
TOKEN_PRIVATE = InstallationSecret("token-private", ("private.pem",))
"""Signs session tokens for the models service; read by the operator only."""
TOKEN_PUBLIC = InstallationSecret("token-public", ("public.pem",))
GATEWAY_SIGNING = InstallationSecret("gateway-signing", ("seed",))
API_KEYS = InstallationSecret("api-keys", ("keys.json",))
"""Records with hashes; mounted by the gateway."""
FIRST_API_KEY = InstallationSecret("first-api-key", ("api-key",))
"""The key that the first person uses; read by people only."""

INSTALLATION_SECRETS = (
    BUS_KEYS, BUS_SERVER, BUS_GATEWAY, BUS_STORE, BUS_MODELS, POSTGRES, TOKEN_PRIVATE, TOKEN_PUBLIC, GATEWAY_SIGNING,
    API_KEYS, FIRST_API_KEY,
)  # fmt: skip

DATABASE = "hermes"
DATABASE_OWNER = "hermes_owner"
"""Runs migrations."""
DATABASE_SERVICE = "hermes_service"
"""Everything else; no BYPASSRLS."""

PORT_API = 8642
PORT_WEBHOOKS = 8644
PORT_MODELS = 8645
PORT_SCRIPTED_MODEL = 8646
PORT_OPERATIONS = 9090
PORT_BUS = 4222
PORT_DATABASE = 5432
