"""A service's rights change while it runs: it takes its new credential up without a restart."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

from hermes_contracts.bus_permissions import Permissions, Role, service_permissions
from hermes_service.bus import connect, follow_file

SUBJECT = "hermes.new.thing"


def _more(permissions: Permissions) -> Permissions:
    return replace(permissions, publish=(*permissions.publish, SUBJECT), subscribe=(*permissions.subscribe, SUBJECT))


async def test_a_service_gets_the_rights_of_the_file_that_was_changed_under_it(bus: Any, tmp_path: Path) -> None:
    old = service_permissions(Role.GATEWAY)
    path = tmp_path / "bus.creds"
    credentials = bus.keys.user("gateway", old)
    path.write_text(credentials.render())
    again = asyncio.Event()
    client = await connect(bus.url, credentials, name="gateway", inbox=old.inbox, on_reconnected=again.set)
    bus.exits.push_async_callback(client.close)
    other = await bus.user("other", _more(old))
    heard = await other.client.subscribe(SUBJECT)
    await other.client.flush()
    await client.publish(SUBJECT, b"too early")
    await client.flush()

    async with asyncio.TaskGroup() as group, asyncio.timeout(20):
        following = group.create_task(follow_file(client, credentials, path, seconds=0.02))
        path.write_text("half of a fi")
        path.write_text(bus.keys.user("gateway", _more(old)).render())
        await again.wait()
        await client.publish(SUBJECT, b"now")
        assert (await heard.next_msg(timeout=5)).data == b"now", "what was published without the right was not delivered"
        following.cancel()
