"""Copies of links on the bus: whoever is unlinked is reached as himself, whatever others do at the same moment."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from hermes_contracts.bus_permissions import Role
from hermes_contracts.envelopes import Route
from hermes_contracts.names import RoutingKey
from hermes_contracts.store_api import LINKS, REQUEST_LINK, UNLINK, Link, LinkedPerson, Links, LinksRequest, RequestLinkReply
from hermes_gateway.gateway.channels.base import ChatMessage
from hermes_gateway.gateway.people.linking import Linking
from hermes_gateway.gateway.people.pairing import account_key
from tests.integration.bus.conftest import ALICE, Bus

ROUTE = Route(
    sid=ALICE, namespace="team", profile="helper", owner="telegram::101",
    key=RoutingKey(channel="telegram", account="1", user="101"),
)  # fmt: skip


def writes(channel: str, account: str, user: str) -> ChatMessage:
    return ChatMessage(
        channel=channel, account=account, team="", user=user, chat=user, kind="direct", thread="", reply_thread="",
        update_id="1", order="1", text="/link",
    )  # fmt: skip


ANNA, BEN = writes("telegram", "1", "101"), writes("slack", "T1.A1", "UBEN")


class Store:
    """Keeps that Ben is reached as Anna, as the store does; something else may happen before an answer arrives."""

    def __init__(self) -> None:
        self.link: Link | None = Link(account=account_key(ANNA), person="101", owner="telegram::101")
        self.meanwhile: dict[str, Callable[[], Awaitable[Any]]] = {}

    async def call(self, method: Any, request: Any, **_: object) -> Any:
        reply = self._answer(method, request)
        happens = self.meanwhile.pop(method.name, None)
        if happens is not None:
            await happens()
        return reply

    def _answer(self, method: Any, request: LinksRequest) -> Any:
        if method is REQUEST_LINK:
            return RequestLinkReply(outcome="recent")
        is_ben = request.person == "UBEN"
        link = self.link
        others = (LinkedPerson(account=account_key(BEN), person="UBEN"),) if link and not is_ben else ()
        if method is UNLINK:
            self.link = None
            return Links(others=others)
        assert method is LINKS
        return Links(link=link if is_ben else None, others=others)


@pytest.fixture
async def linking(bus: Bus) -> tuple[Linking, Store]:
    store, gateway = Store(), await bus.service(Role.GATEWAY)
    return Linking(store, gateway.client.jetstream()), store  # type: ignore[arg-type]


async def reached(linking: Linking, who: ChatMessage) -> str:
    found = await linking.reached("team", who)
    return found.owner if found is not None else ""


async def test_a_copy_comes_back_when_its_person_asks_and_goes_with_the_link(linking: tuple[Linking, Store]) -> None:
    links, _ = linking
    assert await reached(links, BEN) == ""
    await links.link("", BEN, ROUTE)
    assert await reached(links, BEN) == "telegram::101"
    assert "Not linked with you any more" in await links.unlink(ANNA, ROUTE)
    assert await reached(links, BEN) == ""
    await links.link("", BEN, ROUTE)
    assert await reached(links, BEN) == ""


@pytest.mark.parametrize("when", ["links", "unlink"])
async def test_who_is_unlinked_cannot_put_his_copy_back(linking: tuple[Linking, Store], when: str) -> None:
    links, store = linking
    await links.link("", BEN, ROUTE)
    if when == "links":
        # Ben's gateway has read that he is linked, and is slow to write it down.
        store.meanwhile["links"] = lambda: links.unlink(ANNA, ROUTE)
        await links.link("", BEN, ROUTE)
    else:
        # Ben's command runs while Anna's is being carried out.
        store.meanwhile["unlink"] = lambda: links.link("", BEN, ROUTE)
        await links.unlink(ANNA, ROUTE)
    assert store.link is None
    assert await reached(links, BEN) == ""
