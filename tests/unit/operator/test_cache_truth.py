"""What keeps the cache true and small: lists, the net under the watches, and the look at Secrets."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from hermes_contracts.crd.profile import ProfileSpec
from hermes_contracts.names import API_VERSION, PROVIDER_SECRET_TYPE
from hermes_operator.cluster.cache import Cache
from hermes_operator.cluster.errors import ClusterError
from hermes_operator.cluster.resources import CRON_JOBS, PROFILES, SECRETS, SESSIONS, Resource
from hermes_operator.cluster.views import SessionView
from hermes_operator.engine.queue import WorkQueue
from hermes_operator.lists import Lists
from hermes_operator.namespaces import Namespaces
from hermes_operator.observer import Observer
from hermes_operator.pending import PendingBoard
from hermes_operator.reconcile.model import Unknown
from hermes_operator.reconcile.provider_secrets import SecretFacts
from hermes_operator.resync import Resync
from hermes_operator.secret_watch import SecretWatch
from hermes_operator.state import Shared, profile_key
from hermes_operator.watched import watched_kinds
from tests.unit.operator.builders import profile


def body(name: str, version: int, *, uid: str = "", suspend: bool = False) -> dict[str, Any]:
    meta = {"namespace": "team", "name": name, "uid": uid or f"uid-{name}", "resourceVersion": str(version), "generation": 1}
    spec = {"profileRef": {"name": "demo"}, "suspend": suspend, "owner": "ann"}
    return {"apiVersion": API_VERSION, "kind": "HermesSession", "metadata": meta, "spec": spec}


class Server:
    """Holds sessions and lists them in two pages; of other kinds there are none."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.version = 1
        self.lists = 0

    def put(self, name: str, **fields: Any) -> dict[str, Any]:
        self.version += 1
        self.objects[name] = body(name, self.version, **fields)
        return self.objects[name]

    async def pages(self, resource: Resource, namespace: str, *, labels: str = "") -> AsyncIterator[dict[str, Any]]:
        self.lists += resource is SESSIONS
        items = list(self.objects.values()) if resource is SESSIONS else []
        yield {"metadata": {"resourceVersion": str(self.version)}, "items": items[:1]}
        yield {"metadata": {"resourceVersion": str(self.version)}, "items": items[1:]}

    async def get(self, resource: Resource, namespace: str, name: str) -> dict[str, Any] | None:
        return self.objects.get(name)


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def shared() -> Shared:
    return Shared(WorkQueue(lambda: 0.0), Cache(), PendingBoard(lambda: 0.0))


@pytest.fixture
def lists(server: Server, shared: Shared) -> Lists:
    observer = Observer(shared, Namespaces(server, lambda: 0.0))  # type: ignore[arg-type]
    return Lists(server, watched_kinds(shared, observer), ("team",))  # type: ignore[arg-type]


def suspended(shared: Shared, name: str) -> bool:
    record = shared.cache.sessions.get("team", name)
    return record is not None and record.view().spec.suspend


async def test_a_list_shows_what_came_what_changed_and_what_went(server: Server, shared: Shared, lists: Lists) -> None:
    server.put("stays")
    server.put("goes")
    await lists.fill()
    assert {s.name for s in shared.cache.sessions.all()} == {"stays", "goes"}
    server.put("stays", suspend=True)
    server.put("comes")
    del server.objects["goes"]
    await lists.fill()
    assert {s.name for s in shared.cache.sessions.all()} == {"stays", "comes"}
    assert suspended(shared, "stays")


async def test_an_object_that_nobody_can_read_keeps_no_other_from_being_taken(
    server: Server, shared: Shared, lists: Lists
) -> None:
    server.put("broken")["spec"] = "nonsense"
    server.put("good")
    await lists.fill()
    assert [s.name for s in shared.cache.sessions.all()] == ["good"]


async def test_what_a_watch_missed_is_found_and_twice_in_a_row_is_a_problem(
    server: Server, shared: Shared, lists: Lists
) -> None:
    await lists.fill()
    resync = Resync(lists, grace_seconds=0)
    await resync.check()
    assert resync.problem() is None
    for n in range(2):
        server.put(f"missed-{n}")
        await resync.check()
    assert len(shared.cache.sessions.all()) == 2
    assert resync.problem() is not None


def test_a_record_is_small_and_gives_back_everything() -> None:
    made = body("a", 3, suspend=True)
    made["status"] = {"state": "Suspended", "epoch": 4, "conditions": [
        {"type": "Ready", "status": "False", "reason": "Suspended", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    ]}  # fmt: skip
    view = SessionView.read(made)
    record = view.record()
    assert record.view() == view
    assert (record.profile, record.state) == ("demo", "Suspended")
    assert len(record.spec) + len(record.status) < 400


class SecretServer:
    """Holds one Secret and counts how it is asked for."""

    def __init__(self) -> None:
        self.secret: dict[str, Any] | None = None
        self.calls: list[str] = []
        self.broken = False

    async def get(self, resource: Resource, namespace: str, name: str) -> dict[str, Any] | None:
        assert (resource, namespace, name) == (SECRETS, "team", "key")
        self.calls.append("whole")
        if self.broken:
            raise ClusterError(0, "Unreachable", "no answer")
        return self.secret

    async def get_metadata(self, resource: Resource, namespace: str, name: str) -> dict[str, Any] | None:
        self.calls.append("metadata")
        if self.broken:
            raise ClusterError(0, "Unreachable", "no answer")
        return self.secret and {"metadata": self.secret["metadata"]}


async def test_a_secret_is_read_once_and_again_only_when_it_changed(shared: Shared) -> None:
    server = SecretServer()
    secrets = SecretWatch(server, shared)  # type: ignore[arg-type]
    spec = ProfileSpec.model_validate({"model": {"provider": "openai", "name": "m", "secretRef": {"name": "key"}}})
    shared.cache.profiles.put(profile(spec=spec))
    place = ("team", "key")
    assert await secrets.state(*place) is None
    await secrets.look(place)
    assert server.calls == ["whole", "metadata"]
    assert len(shared.queue) == 0

    data = {"api-key": "a2V5", "hosts": "YXBpLm9wZW5haS5jb20="}
    server.secret = {"type": PROVIDER_SECRET_TYPE, "metadata": {"uid": "u", "resourceVersion": "1"}, "data": data}
    await secrets.look(place)
    assert await shared.queue.get() == profile_key("team", "demo"), "the Profile that names it is looked at"
    found = await secrets.state(*place)
    assert isinstance(found, SecretFacts)
    assert found.hosts == ("api.openai.com",)
    for _ in range(3):
        await secrets.look(place)
        await secrets.state(*place)
    assert server.calls.count("whole") == 2, "the key itself travels only after a change"

    server.broken = True
    await secrets.look(place)
    assert await secrets.state(*place) == found, "what cannot be asked stays as it was"
    assert isinstance(await SecretWatch(server, shared).state(*place), Unknown)  # type: ignore[arg-type]


def test_the_kinds_are_listed_in_the_order_that_passes_need(lists: Lists) -> None:
    assert [kind.resource.plural for kind in lists.kinds] == [PROFILES.plural, SESSIONS.plural, CRON_JOBS.plural, "pods"]
