"""The chart refuses mistakes with a message, and its README says what its values are."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
CHART = ROOT / "charts/hermes"


def test_helm_lint_is_clean(helm) -> None:
    done = helm("lint", str(CHART), "--strict")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "[WARNING]" not in done.stdout


def test_readme_is_fresh() -> None:
    command = [sys.executable, str(ROOT / "tools/chart_readme.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ({"replicaz": 1}, "replicaz"),
        ({"gateway": {"replicas": "two"}}, "replicas"),
        ({"images": {"pullPolicy": "Sometimes"}}, "pullPolicy"),
        ({"tenants": ["Team A"]}, "tenants"),
        ({"metrics": {"serviceMonitor": {"enabled": True}}}, "metrics.from"),
        ({"httpRoute": {"enabled": True}}, "httpRoute.parentRefs"),
    ],
)
def test_a_mistake_in_values_is_named(helm, values, word) -> None:
    done = helm("template", "ours", str(CHART), values=values)
    assert done.returncode != 0
    assert word in done.stderr


def test_a_release_name_too_long_for_its_children_is_refused(helm) -> None:
    done = helm("template", "r" * 41, str(CHART))
    assert "shorter" in done.stderr


def test_the_schema_covers_every_value() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    assert schema["additionalProperties"] is False


def test_the_chart_stays_small_enough_to_store() -> None:
    # Helm keeps a release in one Secret of at most 1 MiB.
    assert sum(path.stat().st_size for path in CHART.rglob("*") if path.is_file()) < 200_000
