"""Finds out what the checks need: asks the gateway and the cluster, one thing after the other."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from hermes_cli.api.client import Api, Probe
from hermes_cli.api.sessions import list_profiles, make_session, pick_profile
from hermes_cli.connection.choose import choose, kubernetes_place
from hermes_cli.connection.contexts import Configuration, KubernetesPlace, read_configuration
from hermes_cli.connection.kubectl import Kubectl, Object, find_kubectl
from hermes_cli.connection.opening import Connected, connected
from hermes_cli.doctor import api_checks, binding_checks, cluster_checks, release_checks
from hermes_cli.doctor.finding import Finding, fail, ok, skip
from hermes_cli.errors import CliError, ExitCode
from hermes_cli.options import Options
from hermes_cli.show.text import one_line
from hermes_cli.talk.conversation import ask
from hermes_contracts.names import GROUP, LABEL_COMPONENT

_LOG_SINCE, _LOG_LINES = "15m", 2000

T = TypeVar("T")


async def examine(options: Options, *, send: bool) -> AsyncIterator[Finding]:
    """Yield findings as they are made. Never raises CliError: that is one."""
    try:
        configuration = read_configuration(options.config)
        target = choose(options, configuration)
    except CliError as error:
        yield fail("configuration", error.what, error.todo)
        return
    yield api_checks.check_target(target)
    path = _key_file(options, configuration)
    about_key = api_checks.check_key_file(path, path.expanduser().stat().st_mode if path else None)
    if about_key is not None:
        yield about_key
    async for finding in _cluster(options, configuration):
        yield finding
    try:
        async with connected(options) as connection:
            async for finding in _gateway(connection, send=send):
                yield finding
    except CliError as error:
        yield fail("reachable", error.what, error.todo)


def _key_file(options: Options, configuration: Configuration) -> Path | None:
    if options.key or options.key_file:
        return options.key_file
    name = options.context or configuration.current
    return configuration.context(name).key_file if name and not options.url else None


async def _attempt(work: Awaitable[T]) -> T | CliError:
    try:
        return await work
    except CliError as error:
        return error


async def _gateway(connection: Connected, *, send: bool) -> AsyncIterator[Finding]:
    api = connection.api
    health = await _attempt(api.probe("/health"))
    reach = api_checks.check_reach(health)
    yield reach
    if isinstance(health, CliError) or reach.state == "fail":
        return
    clock = api_checks.check_clock(health)
    if clock is not None:
        yield clock
    yield api_checks.check_version(await _attempt(api.probe("/openapi.json")))
    models, sessions = await _attempt(api.probe("/v1/models")), await _attempt(api.probe("/api/sessions?limit=1"))
    about_key = api_checks.check_key(models, sessions)
    for finding in about_key:
        yield finding
    if any(finding.state == "fail" for finding in about_key):
        return
    for finding in api_checks.check_parts(await _attempt(api.probe("/health/detailed"))):
        yield finding
    async for finding in _profiles(api, models):
        yield finding
    for finding in binding_checks.check_bindings(await _attempt(api.probe("/health/bindings"))):
        yield finding
    if send:
        yield await _test_message(connection)


async def _profiles(api: Api, models: Probe | CliError) -> AsyncIterator[Finding]:
    if isinstance(models, CliError) or models.status != 200:
        yield skip("Profiles", "the key may not list them")
        return
    known = await _attempt(list_profiles(api))
    if isinstance(known, CliError):
        yield fail("Profiles", known.what, known.todo)
        return
    if not known:
        yield fail("Profiles", "the key may use none that exists", "make the Profile, or name it in the key's record")
    for model in known:
        yield api_checks.check_profile(model.id, await _attempt(api.probe(f"/v1/models/{model.id}")))


async def _test_message(connection: Connected) -> Finding:
    try:
        profile = await pick_profile(connection.api, connection.profile)
        session = await make_session(connection.api, profile, client_id="hermes-doctor", title="hermes doctor")
        turn = await ask(connection.api, session, "This is a test. Answer with one word.", (), lambda _: None)
    except CliError as error:
        return fail("test message", error.what, error.todo)
    if turn.state != "done":
        return fail("test message", f"{turn.reason}: {one_line(turn.reply, 200)}", f"hermes logs {session.id}")
    return ok("test message", f"answered: {one_line(turn.reply, 60)}")


async def _cluster(options: Options, configuration: Configuration) -> AsyncIterator[Finding]:
    if find_kubectl() is None:
        yield skip("cluster", "no kubectl here: pods, kinds and conditions are not looked at")
        return
    kubectl = Kubectl(kubernetes_place(options, configuration))
    kinds = await _attempt(kubectl.run("api-resources", f"--api-group={GROUP}", "-o", "name"))
    if isinstance(kinds, CliError):
        # Whoever reaches the gateway by its address may have no cluster, or another one.
        aside = options.url is not None or kinds.code is not ExitCode.UNREACHABLE
        yield skip("cluster", kinds.what) if aside else fail("cluster", kinds.what, kinds.todo)
        return
    yield cluster_checks.check_kinds(kinds.split())
    for name, kind, selector, check in _looks(kubectl.place):
        found = await _attempt(kubectl.get_all(kind, selector))
        if isinstance(found, CliError):
            yield skip(name, found.what, found.todo)
            continue
        for finding in check(found):
            yield finding
    async for finding in _release(kubectl):
        yield finding


async def _release(kubectl: Kubectl) -> AsyncIterator[Finding]:
    """Look at what takes more than one question."""
    mine = f"app.kubernetes.io/instance={kubectl.place.release}"
    gateway = f"{mine},{LABEL_COMPONENT}=gateway"
    # A cluster may know no HTTPRoutes, and somebody may not be allowed to see Events: what is there is looked at.
    pods, events = await _known(kubectl, "pods", mine), await _known(kubectl, "events")
    routes = [*await _known(kubectl, "ingresses", mine), *await _known(kubectl, "httproutes", mine)]
    deployments = await _known(kubectl, "deployments", gateway)
    for finding in (*release_checks.check_mounts(pods, events), *release_checks.check_way_in(deployments, routes)):
        yield finding
    log = await _attempt(kubectl.run("logs", "-l", gateway, f"--since={_LOG_SINCE}", f"--tail={_LOG_LINES}"))
    if isinstance(log, CliError):
        yield skip("gateway's log", log.what, log.todo)
        return
    for finding in release_checks.check_log(log):
        yield finding


async def _known(kubectl: Kubectl, kind: str, selector: str = "") -> list[Object]:
    found = await _attempt(kubectl.get_all(kind, selector))
    return [] if isinstance(found, CliError) else found


Check = Callable[[list[Object]], list[Finding]]


def _looks(place: KubernetesPlace) -> list[tuple[str, str, str, Check]]:
    """Return what is looked at: name of the check, kind, label selector, and the check."""
    return [
        (
            "pods",
            "pods",
            f"app.kubernetes.io/instance={place.release}",
            lambda found: cluster_checks.check_pods(found, place.namespace, place.release),
        ),
        ("Profiles (cluster)", f"profiles.{GROUP}", "", cluster_checks.check_profiles),
        ("sessions", f"hermessessions.{GROUP}", "", cluster_checks.check_sessions),
        ("volumes", "persistentvolumeclaims", f"app.kubernetes.io/instance={place.release}", release_checks.check_claims),
        ("cron", f"hermescronjobs.{GROUP}", "", release_checks.check_cron_jobs),
        ("network policies", "networkpolicies", "", lambda found: [cluster_checks.check_policies(found, place.release)]),
    ]
