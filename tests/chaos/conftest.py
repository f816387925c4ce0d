"""The storm hits the installation of the end-to-end tests, in a namespace of its own."""

from __future__ import annotations

from tests.e2e.conftest import installation

__all__ = ["installation"]
