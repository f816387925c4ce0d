"""Installs, upgrades and removes the chart, with the images of the local cluster."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

from hermes_contracts.installation import FIRST_API_KEY
from release.kubectl import CommandFailed, apply, get, get_all, kubectl, run

CHART = Path(__file__).resolve().parents[2] / "charts" / "hermes"
LOCAL_VALUES = CHART / "values-local.yaml"
"""Values that name the images which `make images` loads into the local cluster."""


async def make_namespace(name: str) -> None:
    """Make a namespace that enforces the restricted Pod Security Standard."""
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    await apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})


async def install(release: str, namespace: str, values: dict[str, Any], *, wait_seconds: int = 300) -> None:
    """Install or upgrade, and wait until every Deployment and StatefulSet is ready."""
    await run(
        "helm", "upgrade", "--install", "--take-ownership", release, str(CHART), "-n", namespace,
        "-f", str(LOCAL_VALUES), "-f", "-",
        stdin=json.dumps(values),
        timeout_seconds=120,
    )  # fmt: skip
    await _replace_stale_pods(release, namespace)
    await ready(release, namespace, wait_seconds=wait_seconds)


async def _replace_stale_pods(release: str, namespace: str) -> None:
    """Restart what runs an older build of a local image: its tag, and so the pod's template, stays the same."""
    stale = set()
    for pod in await get_all("pods", namespace, f"app.kubernetes.io/instance={release}"):
        for status in pod["status"].get("containerStatuses", []):
            if status.get("imageID") and await _local_image_id(status["image"]) not in (None, status["imageID"]):
                stale.add(pod["metadata"]["labels"]["app.kubernetes.io/component"])
    for component in sorted(stale):
        selector = f"app.kubernetes.io/instance={release},app.kubernetes.io/component={component}"
        await kubectl("rollout", "restart", "deployment", "-n", namespace, "-l", selector)


async def _local_image_id(image: str) -> str | None:
    try:
        return (await run("docker", "image", "inspect", "--format", "{{.Id}}", image)).strip()
    except (CommandFailed, FileNotFoundError):
        return None


async def ready(release: str, namespace: str, *, wait_seconds: int = 300) -> None:
    """Wait until everything of a release is rolled out."""
    selector = f"app.kubernetes.io/instance={release}"
    for kind in ("statefulset", "deployment"):
        await kubectl(
            "rollout", "status", kind, "-n", namespace, "-l", selector, f"--timeout={wait_seconds}s",
            timeout_seconds=wait_seconds + 10,
        )  # fmt: skip


async def uninstall(release: str, namespace: str) -> None:
    """Remove a release; Secrets and volumes stay."""
    await run("helm", "uninstall", release, "-n", namespace, "--wait", timeout_seconds=180)


async def first_api_key(release: str, namespace: str) -> str:
    """Read the API key that the operator made for the first person."""
    secret = await get("secret", FIRST_API_KEY.name(release), namespace)
    if secret is None:
        raise LookupError(f"Secret {FIRST_API_KEY.name(release)} is not there yet")
    return base64.b64decode(secret["data"]["api-key"]).decode()
