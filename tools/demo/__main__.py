"""`make demo`: install the chart on the cluster that KUBECONFIG names, hold one conversation, say what to try next.

With OPENAI_API_KEY or ANTHROPIC_API_KEY set, the agent talks to that provider's model; else to the bundled scripted model.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from dataclasses import dataclass
from typing import Any

import httpx

from demo.chat import Conversation
from hermes_contracts.installation import PORT_API
from hermes_contracts.names import API_VERSION, PROVIDER_SECRET_TYPE
from release import helm
from release.forward import forwarded
from release.kubectl import CommandFailed, apply, condition, get, get_all, kubectl, until

NAMESPACE = "hermes"
RELEASE = "hermes"
PROFILE = "default"
"""The first Profile, made by the operator; a provider's key in the environment changes its model."""


@dataclass(frozen=True)
class Provider:
    """A provider of models that the demo can use when its key is in the environment."""

    name: str
    variable: str
    model: str
    host: str


PROVIDERS = (
    Provider("openai", "OPENAI_API_KEY", "gpt-5-mini", "api.openai.com"),
    Provider("anthropic", "ANTHROPIC_API_KEY", "claude-sonnet-4-5", "api.anthropic.com"),
)

NEXT = """
What to try next:
  kubectl get hs -n {namespace}                         who is there, awake or asleep
  kubectl describe hs -n {namespace}                    what happened to a session, and why
  kubectl get pods -n {namespace} -l hermes.run/sid      its pod: agent and sandbox side by side
  kubectl port-forward -n {namespace} svc/{release}-gateway 8642 &
  KEY=$(kubectl get secret -n {namespace} {release}-first-api-key -o jsonpath='{{.data.api-key}}' | base64 -d)
  curl -N http://127.0.0.1:8642/v1/chat/completions -H "Authorization: Bearer $KEY" \\
    -d '{{"model": "{profile}", "stream": true, "messages": [{{"role": "user", "content": "!uname -a"}}]}}'
  make cluster-down                                     remove the cluster and everything it started
(kubectl and its configuration: eval "$(PYTHONPATH=tools python3 -m cluster env)")"""


def _chosen_provider() -> tuple[Provider, str] | None:
    for provider in PROVIDERS:
        key = os.environ.get(provider.variable)
        if key:
            return provider, key
    return None


def _profile(provider: Provider) -> dict[str, Any]:
    return {
        "apiVersion": API_VERSION,
        "kind": "Profile",
        "metadata": {"name": PROFILE, "namespace": NAMESPACE},
        "spec": {
            "model": {
                "provider": provider.name,
                "name": os.environ.get("HERMES_DEMO_MODEL", provider.model),
                "secretRef": {"name": f"{provider.name}-key"},
            }
        },
    }


async def _use(provider: Provider, key: str) -> None:
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": f"{provider.name}-key", "namespace": NAMESPACE},
        "type": PROVIDER_SECRET_TYPE,
        "stringData": {"api-key": key, "hosts": provider.host},
    }
    await apply(secret, _profile(provider))


def _step(text: str) -> None:
    print(f"==> {text}", flush=True)


async def _prepare() -> None:
    """Install, and wait until there is somebody to talk to."""
    started = time.monotonic()
    chosen = _chosen_provider()
    _step(f"installing the chart as release {RELEASE!r} in namespace {NAMESPACE!r} (waits for every pod to be ready)")
    await helm.make_namespace(NAMESPACE)
    await helm.install(RELEASE, NAMESPACE, {})
    _step(f"everything is ready after {time.monotonic() - started:.0f} s")
    if chosen:
        await _use(*chosen)

    async def ready() -> bool:
        return condition(await get("profile", PROFILE, NAMESPACE), "Ready").get("status") == "True"

    await until(f"Profile {PROFILE} to be ready (kubectl describe profile {PROFILE} -n {NAMESPACE})", ready)
    model = f"{chosen[0].name}'s model" if chosen else "the bundled scripted model, no key needed"
    _step(f"Profile {PROFILE!r} is ready: {model}")


async def _show_sessions() -> None:
    _step("kubectl get hs,pods")
    print(await kubectl("get", "hs", "-n", NAMESPACE), flush=True)
    pods = await get_all("pods", NAMESPACE, "hermes.run/sid")
    for pod in pods:
        names = [c["name"] for c in pod["spec"].get("initContainers", []) + pod["spec"]["containers"]]
        print(f"pod {pod['metadata']['name']}: containers {', '.join(names)}", flush=True)


async def _main(said: list[str]) -> None:
    await _prepare()
    key = await helm.first_api_key(RELEASE, NAMESPACE)
    async with forwarded(f"{RELEASE}-gateway", PORT_API, NAMESPACE) as forward:
        conversation = Conversation(forward.url, key, profile=PROFILE, session=f"demo-{int(time.time())}")
        try:
            for text in said:
                conversation.ask(text)
                await conversation.say(text)
        finally:
            await conversation.close()
    await _show_sessions()
    print(NEXT.format(namespace=NAMESPACE, release=RELEASE, profile=PROFILE))


def main() -> None:
    """Run the demo."""
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument("--say", action="append", default=[], help="say this instead of the two sample messages")
    said = parser.parse_args().say or [
        "Hello! Who are you?",
        "!echo hello from $(hostname) as $(id -un); ls -la; df -h /workspace | tail -1",
    ]
    try:
        asyncio.run(_main(said))
    except (CommandFailed, TimeoutError, LookupError) as error:
        sys.exit(f"demo: {error}")
    except httpx.HTTPStatusError as error:
        sys.exit(f"demo: the gateway answered {error.response.status_code}: {error.response.text}")


if __name__ == "__main__":
    main()
