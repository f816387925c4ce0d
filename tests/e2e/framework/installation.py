"""One installation of the chart for the whole run, and a namespace, a person and a Profile for each story."""

from __future__ import annotations

import base64
import hashlib
import json
import os
from dataclasses import dataclass
from typing import Any

from hermes_contracts.access import ApiKeyRecord, ApiKeys
from hermes_contracts.names import API_VERSION
from release import helm
from release.kubectl import Object, apply, condition, get, kubectl, until
from tests.fakes import telegram_server, webhook_pod
from tests.fakes.slack_server import APP, SIGNING_SECRET, TEAM, TOKEN

RELEASE = os.environ.get("E2E_RELEASE") or "e2e"
"""Another name, and a second run does not meet the first."""
NAMESPACE = f"hermes-{RELEASE}"

STORIES = (
    "first-reply", "two-people", "conversation", "sleep", "kills", "probes", "broken", "rules", "chart", "cron",
    "long", "poison", "chaos", "warm", "slack", "telegram", "drain", "pictures", "storm", "archive",
)  # fmt: skip
"""One namespace a story: a test file asks for its own."""

IDLE_SECONDS = 3600


def namespace_of(story: str) -> str:
    """Return the namespace of a story."""
    return f"{RELEASE}-{story}"


def api_key(story: str, person: str) -> str:
    """API key of a person in a story: the same on every run, so that an installation can be used again."""
    return f"e2e-{story}-{person}-key"


PEOPLE = ("ann", "ben")


def _records() -> ApiKeys:
    return ApiKeys(
        keys=tuple(
            ApiKeyRecord(
                id=f"{story}-{person}",
                sha256=hashlib.sha256(api_key(story, person).encode()).hexdigest(),
                owner=f"{person}@{story}",
                namespace=namespace_of(story),
                profiles=("default", "claim", "late", "archive", "codex"),
            )
            for story in STORIES
            for person in PEOPLE
        )
    )


def profile(story: str, name: str = "default", **spec: Any) -> Object:
    """Return a Profile that answers by script."""
    return {
        "apiVersion": API_VERSION,
        "kind": "Profile",
        "metadata": {"name": name, "namespace": namespace_of(story)},
        "spec": {
            "model": {"provider": "scripted", "name": "scripted-1"},
            "idleTimeoutSeconds": IDLE_SECONDS,
            "agent": {"resources": {"cpu": "20m"}},
            "sandbox": {"resources": {"cpu": "20m", "memory": "256Mi"}},
            **spec,
        },
    }


KEYS_SECRET = "e2e-people"
SLACK, SLACK_SECRET = "fake-slack", "e2e-slack"
TELEGRAM, TELEGRAM_SECRET = "fake-telegram", "e2e-telegram"
STORM, WEBHOOKS_SECRET = "fake-system", "e2e-webhooks"
PLATFORM_PORT = 8099
"""Of the pods that stand in for chat platforms."""
VALUES: dict[str, Any] = {
    "tenants": [namespace_of(story) for story in STORIES],
    "gateway": {
        "apiKeysSecret": KEYS_SECRET,
        "slackSecret": SLACK_SECRET,
        "telegramSecret": TELEGRAM_SECRET,
        "webhooksSecret": WEBHOOKS_SECRET,
        "replicas": 2,
    },
    "networkPolicy": {"gateway": {"extraEgress": [{"ports": [{"port": PLATFORM_PORT, "protocol": "TCP"}]}]}},
    "store": {"replicas": 2},
    "operator": {"replicas": 2},
}


async def install() -> None:
    """Install or upgrade the chart and make what the stories share. May be repeated."""
    await helm.make_namespace(NAMESPACE)
    for story in STORIES:
        await helm.make_namespace(namespace_of(story))
    await apply(_keys_secret(), _slack_secret(), _telegram_secret(), _webhooks_secret(), namespace=NAMESPACE)
    await helm.install(RELEASE, NAMESPACE, VALUES)
    for story in STORIES:
        # An installation that is used again: pods, and so the files of an earlier run, begin anew.
        await kubectl("delete", "hermessessions", "--all", "--ignore-not-found", "-n", namespace_of(story))
        await apply(profile(story))
    for story in STORIES:
        await profile_ready(story)


def _keys_secret() -> Object:
    return _secret(KEYS_SECRET, "keys.json", _records().model_dump_json())


def _slack_secret() -> Object:
    account = {
        "name": "acme", "namespace": namespace_of("slack"), "profile": "default", "team": TEAM, "app": APP,
        "signing_secret": SIGNING_SECRET, "bot_token": TOKEN, "allow_users": ["UANNA", "UBEN", "UCARL"],
        "api_url": f"http://{SLACK}.{NAMESPACE}.svc.cluster.local:{PLATFORM_PORT}/api/",
    }  # fmt: skip
    return _secret(SLACK_SECRET, "slack.json", json.dumps({"accounts": [account]}))


def _telegram_secret() -> Object:
    account = {
        "name": "bot", "namespace": namespace_of("telegram"), "profile": "default", "bot_token": telegram_server.TOKEN,
        "allow_users": ["101", "102"], "api_url": f"http://{TELEGRAM}.{NAMESPACE}.svc.cluster.local:{PLATFORM_PORT}/",
    }  # fmt: skip
    return _secret(TELEGRAM_SECRET, "telegram.json", json.dumps({"accounts": [account]}))


def _webhooks_secret() -> Object:
    route = {
        "name": "storm", "namespace": namespace_of("storm"), "profile": "default", "secret": webhook_pod.SECRET,
        "reply_url": f"http://{STORM}.{NAMESPACE}.svc.cluster.local:{PLATFORM_PORT}/answers",
    }  # fmt: skip
    return _secret(WEBHOOKS_SECRET, "webhooks.json", json.dumps({"routes": [route]}))


def _secret(name: str, key: str, text: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "data": {key: base64.b64encode(text.encode()).decode()},
    }


async def profile_ready(story: str, name: str = "default") -> None:
    """Wait until the operator says that a Profile is ready."""

    async def ready() -> bool:
        return condition(await get("profile", name, namespace_of(story)), "Ready").get("status") == "True"

    await until(f"Profile {name} in {namespace_of(story)} to be ready", ready)


@dataclass(frozen=True)
class Script:
    """Lines that tell the scripted model what to do, one step a model call."""

    steps: tuple[dict[str, Any], ...]

    def text(self, said: str = "please") -> str:
        """Return a message that carries the script."""
        return "\n".join([said, *(f"#script {json.dumps(step)}" for step in self.steps)])


def commands(*lines: str, say: str = "done") -> str:
    """Return a message that has the agent run commands, one after the other, and then say something."""
    steps = [{"calls": [{"name": "terminal", "arguments": {"command": line}}]} for line in lines]
    return Script((*steps, {"say": say})).text()
