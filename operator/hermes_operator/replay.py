"""`python -m hermes_operator replay`: shows dead letters, and sends some of them again as new messages."""

from __future__ import annotations

import argparse
import asyncio
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

from hermes_contracts.bus_permissions import Role, service_permissions
from hermes_contracts.envelopes import Route
from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.installation import BUS_KEYS, GATEWAY_SIGNING, TOKEN_PRIVATE, InstallationSecret
from hermes_contracts.names import SID_PATTERN
from hermes_operator.bootstrap_secrets import Data, decode, read_bus_keys
from hermes_operator.cluster.client import ClusterClient, Reach
from hermes_operator.cluster.resources import NAMESPACES, SECRETS, SESSIONS
from hermes_operator.cluster.views import SessionView
from hermes_operator.credentials import Minter
from hermes_operator.launch import route_of
from hermes_operator.mail import DeadLetter, Mail
from hermes_operator.settings import OperatorSettings
from hermes_service.bus import connect
from hermes_service.signing import Signer, Verifier, public_key

_PREVIEW = 60


def parse(arguments: list[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="hermes_operator replay", description=__doc__)
    parser.add_argument("session", help="session id, as `kubectl get hs -o wide` shows it, or namespace/name of the object")
    parser.add_argument("--letter", type=int, action="append", default=[], help="sequence of one letter; may be repeated")
    parser.add_argument("--all", action="store_true", help="every letter of the session")
    return parser.parse_args(arguments)


@asynccontextmanager
async def _opened(settings: OperatorSettings) -> AsyncIterator[tuple[ClusterClient, Mail, Signer]]:
    reach = Reach(settings.namespace, frozenset(settings.tenants))
    async with ClusterClient.open(settings.kubeconfig, reach) as client:
        seed = (await _secret(client, settings, GATEWAY_SIGNING))["seed"]
        keys = read_bus_keys(await _secret(client, settings, BUS_KEYS))
        minter = Minter(keys, (await _secret(client, settings, TOKEN_PRIVATE))["private.pem"])
        # An inbox of its own below the operator's, which may be at work beside us.
        inbox = f"{service_permissions(Role.OPERATOR).inbox}.replay"
        bus = await connect(settings.bus_url, minter.own_bus_user(), name="operator-replay", inbox=inbox)
        try:
            yield client, Mail(bus, Verifier(public_key(seed))), Signer(seed)
        finally:
            await bus.close()


async def _secret(client: ClusterClient, settings: OperatorSettings, which: InstallationSecret) -> Data:
    body = await client.get(SECRETS, settings.namespace, which.name(settings.release))
    if body is None:
        raise HermesError(
            ErrorCode.NOT_CONFIGURED, f"Secret {which.name(settings.release)} is not there: is this the release?"
        )
    return decode(body.get("data"))


async def find_route(client: ClusterClient, settings: OperatorSettings, session: str) -> Route:
    """Return where a session lives. Raises HermesError NOT_FOUND when it has no object: its next message makes one."""
    for namespace in settings.tenants:
        body = await client.get(NAMESPACES, "", namespace)
        if body is None:
            continue
        uid = str(body["metadata"]["uid"])
        for item in await client.list(SESSIONS, namespace):
            view = SessionView.read(item)
            if session in (view.sid(uid), f"{namespace}/{view.name}"):
                return route_of(view, view.sid(uid))
    raise HermesError(ErrorCode.NOT_FOUND, f"no HermesSession {session!r} in {', '.join(settings.tenants)}")


def describe(letter: DeadLetter) -> str:
    """Return one line about a letter."""
    at = datetime.fromtimestamp(letter.at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    text = re.sub(r"\s+", " ", letter.inbound.text)[:_PREVIEW]
    return f"{letter.sequence}\t{at}\t{letter.reason}\t{letter.inbound.channel}\t{text}"


async def replay(settings: OperatorSettings, arguments: argparse.Namespace) -> list[str]:
    """Do what the command line says; returns the lines to print. Raises HermesError."""
    async with _opened(settings) as (client, mail, signer):
        sid, route = arguments.session, None
        if not re.fullmatch(SID_PATTERN, sid) or arguments.all or arguments.letter:
            route = await find_route(client, settings, sid)
            sid = route.sid
        letters = await mail.dead_letters(sid)
        chosen = [letter for letter in letters if arguments.all or letter.sequence in arguments.letter]
        missing = set(arguments.letter) - {letter.sequence for letter in letters}
        if missing:
            raise HermesError(ErrorCode.NOT_FOUND, f"{sid} has no dead letter {sorted(missing)}")
        if route is None or not chosen:
            return [describe(letter) for letter in letters] or [f"{sid} has no dead letters"]
        return [f"sent again: {await mail.send_again(letter, route, signer)}" for letter in chosen]


def main(settings: OperatorSettings, arguments: list[str]) -> None:
    """Run from the command line; exits 1 with one sentence when it cannot."""
    try:
        lines = asyncio.run(replay(settings, parse(arguments)))
    except (HermesError, OSError) as error:
        sys.exit(f"hermes-operator replay: {error}")
    sys.stdout.write("\n".join(lines) + "\n")
