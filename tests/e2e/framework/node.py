"""What only the node can do: kill a container's first process."""

from __future__ import annotations

from release.kubectl import get, run


async def kill_container(namespace: str, pod: str, container: str) -> None:
    """SIGKILL the first process of a container, from the node's side."""
    found = await get("pod", pod, namespace)
    assert found is not None
    statuses = found["status"].get("initContainerStatuses", []) + found["status"]["containerStatuses"]
    (identity,) = [s["containerID"].split("//")[1] for s in statuses if s["name"] == container]
    node = found["spec"]["nodeName"]
    inspect = f"crictl inspect --output go-template --template '{{{{.info.pid}}}}' {identity}"
    await run("docker", "exec", node, "sh", "-c", f"kill -9 $({inspect})")
