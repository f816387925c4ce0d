"""The running service, fresh for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.integration.models.harness import Models, running


@pytest.fixture
async def models(tmp_path: Path) -> AsyncIterator[Models]:
    async with running(tmp_path) as service:
        yield service
