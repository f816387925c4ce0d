"""The local cluster with one installation; every story has its own namespace. CI fails when the cluster is missing."""

from __future__ import annotations

import asyncio
import os
import shutil

import pytest

from tests.e2e.framework.installation import install


@pytest.fixture(scope="session", autouse=True)
def installation() -> None:
    if not os.environ.get("KUBECONFIG") or shutil.which("kubectl") is None:
        reason = "no cluster: run `make e2e`, which starts one"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    asyncio.run(install())
