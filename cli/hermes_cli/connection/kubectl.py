"""kubectl as an asynchronous function: the cluster through the person's own credentials and configuration."""

from __future__ import annotations

import asyncio
import base64
import json
import shutil
from dataclasses import dataclass
from typing import Any

from pydantic import SecretStr

from hermes_cli.connection.contexts import KubernetesPlace
from hermes_cli.errors import CliError, refused, unreachable, usage
from hermes_contracts.installation import FIRST_API_KEY

Object = dict[str, Any]
"""An object as the API server sends it."""


def find_kubectl() -> str | None:
    """Return kubectl's path, or None."""
    return shutil.which("kubectl")


@dataclass(frozen=True)
class Kubectl:
    """kubectl, aimed at the release's namespace."""

    place: KubernetesPlace

    def command(self, *arguments: str) -> list[str]:
        """Return the whole command line. Raises CliError when there is no kubectl."""
        program = find_kubectl()
        if program is None:
            raise usage(
                "no kubectl on this machine", "install it, or reach the gateway with HERMES_URL and HERMES_API_KEY_FILE"
            )
        where = ["--context", self.place.context] if self.place.context else []
        return [program, *where, "-n", self.place.namespace, *arguments]

    async def run(self, *arguments: str, timeout_seconds: float = 20) -> str:
        """Run kubectl and return its output. Raises CliError."""
        process = await asyncio.create_subprocess_exec(
            *self.command(*arguments),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(timeout_seconds):
                out, err = await process.communicate()
        except TimeoutError:
            what = f"the cluster did not answer within {timeout_seconds:g} s"
            raise unreachable(what, "check kubectl get nodes") from None
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode:
            raise explain(err.decode(errors="replace"))
        return out.decode(errors="replace")

    async def get(self, kind: str, name: str) -> Object | None:
        """Return an object; None when there is none of that name. Raises CliError."""
        found = await self.run("get", kind, name, "--ignore-not-found", "-o", "json")
        return dict(json.loads(found)) if found.strip() else None

    async def get_all(self, kind: str, selector: str = "") -> list[Object]:
        """Return every object of a kind in the namespace. Raises CliError."""
        chosen = ["-l", selector] if selector else []
        return list(json.loads(await self.run("get", kind, *chosen, "-o", "json"))["items"])

    async def first_key(self) -> SecretStr:
        """Read the key that the operator made for the first person. Raises CliError."""
        name = FIRST_API_KEY.name(self.place.release)
        secret = await self.get("secret", name)
        if secret is None:
            raise refused(
                f"no Secret {name} in namespace {self.place.namespace}",
                "check --namespace and --release, or give a key of your own with HERMES_API_KEY_FILE",
            )
        return SecretStr(base64.b64decode(secret["data"][FIRST_API_KEY.keys[0]]).decode())


def explain(stderr: str) -> CliError:
    """Turn what kubectl wrote into an error of ours."""
    lines = [line.strip() for line in stderr.strip().splitlines() if line.strip()]
    last = (lines[-1] if lines else "kubectl failed").removeprefix("error: ").removeprefix("Error from server ")[:300]
    if "doesn't have a resource type" in stderr:
        return refused(last, "is Hermes installed there, in a version that has this kind?")
    if "Forbidden" in stderr or "forbidden" in stderr:
        return refused(last, "ask the cluster's administrator for the right")
    if "Unauthorized" in stderr or "provide credentials" in stderr:
        return refused("the cluster does not know you", "renew the credentials of your kubeconfig")
    away = ("refused", "timeout", "no such host", "Unable to connect", "i/o timeout", "EOF", "dial tcp")
    if any(word in stderr for word in away):
        return unreachable(f"kubectl cannot reach the cluster ({last})", "check your kubeconfig and its current context")
    return refused(last)
