"""The local cluster with one installation; every story has its own namespace. CI fails when the cluster is missing."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Iterator

import pytest

from release.kubectl import kubectl
from tests.e2e.framework.installation import install, namespace_of


@pytest.fixture(scope="session", autouse=True)
def installation() -> None:
    if not os.environ.get("KUBECONFIG") or shutil.which("kubectl") is None:
        reason = "no cluster: run `make e2e`, which starts one"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    asyncio.run(install())


@pytest.fixture(scope="module", autouse=True)
def room_for_others(request: pytest.FixtureRequest, installation: None) -> Iterator[None]:
    """End the sessions of a story that has been told: one node has room for the pods of a few."""
    yield
    story = getattr(request.module, "STORY", "")
    if story:
        asyncio.run(kubectl("delete", "hermessessions", "--all", "--ignore-not-found", "-n", namespace_of(story)))
