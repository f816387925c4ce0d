"""What docs/providers.md shows can be applied, and what it says of failures and numbers is so."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from hermes_contracts.crd.profile import ProfileSpec
from hermes_contracts.model_api import Purpose
from hermes_contracts.providers import BUILT_IN
from hermes_gateway.models.catalog import LAST_RESORT_WINDOW, MINIMUM_WINDOW, know
from hermes_gateway.models.provider_secret import read_secret
from hermes_gateway.models.providers.errors import HINTS
from hermes_gateway.models.resolution import address, fits, places
from hermes_gateway.models.retry import RetryPolicy
from hermes_gateway.models.routing import candidate

ROOT = Path(__file__).resolve().parents[3]
TEXT = (ROOT / "docs" / "providers.md").read_text()
OBJECTS: list[dict[str, Any]] = [
    found for block in re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL) for found in yaml.safe_load_all(block)
]
PROFILES = [found for found in OBJECTS if found["kind"] == "Profile"]
SECRETS = {
    found["metadata"]["name"]: read_secret(found["metadata"]["name"], found["type"], found["stringData"])
    for found in OBJECTS
    if found["kind"] == "Secret"
}


def _known_fields(spec: Any, read: Any, where: str = "spec") -> None:
    """Fail on a field that the kind does not have."""
    if isinstance(spec, dict):
        for name, value in spec.items():
            assert isinstance(read, dict) and name in read, f"{where}.{name} is no field"
            _known_fields(value, read[name], f"{where}.{name}")
    elif isinstance(spec, list):
        for number, value in enumerate(spec):
            _known_fields(value, read[number], f"{where}[{number}]")


@pytest.mark.parametrize("profile", PROFILES, ids=[found["metadata"]["name"] for found in PROFILES])
def test_profiles_can_be_applied_and_resolve(profile: dict[str, Any]) -> None:
    spec = ProfileSpec.model_validate(profile["spec"])
    _known_fields(profile["spec"], spec.model_dump(by_alias=True, mode="json"))
    for purpose in Purpose:
        for place in places(spec, purpose):
            if (
                purpose is Purpose.VISION
                and not know(place.choice.provider, place.choice.name, place.choice.facts).model.vision
            ):
                continue
            found = candidate("team", place, spec, purpose, "http://scripted/v1")
            secret = SECRETS.get(found.route.secret or "")
            if secret is not None:
                assert fits(found.route, secret) is None
                assert address(found.route, secret, ()).startswith("https://")


def test_every_kind_of_secret_is_shown() -> None:
    assert any(len(secret.api_keys) > 1 for secret in SECRETS.values())
    assert any(secret.aws for secret in SECRETS.values()) and any(secret.login for secret in SECRETS.values())


def test_every_failure_is_in_the_table_with_its_code() -> None:
    rows = {}
    for line in TEXT.partition("## What happens on each failure")[2].partition("\n## ")[0].splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| `"):
            for reason in re.findall(r"`([a-z_]+)`", cells[0]):
                rows[reason] = (cells[1].strip("`"), cells[2])
    assert set(rows) == {reason.value for reason in HINTS}
    for reason, hints in HINTS.items():
        code, happens = rows[reason.value]
        assert code == hints.code.value, reason
        assert ("next model" in happens) is hints.should_fallback, reason
        assert ("next key" in happens) is hints.should_rotate_credential, reason
        assert ("once more" in happens) is (hints.remedy is not None), reason
        assert ("pause" in happens) is hints.retryable, reason
        assert ("compacts" in happens or "by bytes" in happens) is hints.should_compress, reason


def test_numbers_and_names_are_the_codes() -> None:
    policy = RetryPolicy()
    assert (policy.attempts, policy.base_seconds, policy.cap_seconds, policy.patience_seconds) == (3, 5, 120, 10)
    assert policy.overload_seconds == (15, 30, 60, 120)
    assert f"{LAST_RESORT_WINDOW:,} tokens" in TEXT and f"{MINIMUM_WINDOW:,} tokens" in TEXT
    for name in BUILT_IN:
        assert f"`{name}`" in TEXT


def test_a_misspelt_field_would_be_found() -> None:
    spec = {"model": {"provider": "openai", "name": "m", "secretRef": {"name": "x"}, "baseURL": "https://x"}}
    read = ProfileSpec.model_validate(spec).model_dump(by_alias=True, mode="json")
    with pytest.raises(AssertionError, match=r"spec\.model\.baseURL"):
        _known_fields(spec, read)
