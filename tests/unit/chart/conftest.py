"""Renders the chart with the real helm, once for each set of values."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]
CHART = ROOT / "charts/hermes"
CASES = {
    "default": {},
    "laptop": yaml.safe_load((CHART / "values-local.yaml").read_text()),
    "external": {
        "external": {"bus": {"url": "nats://bus.example:4333"}, "database": {"host": "db.example", "port": 5433}},
        "store": {
            "archive": {
                "s3": {
                    "bucket": "files",
                    "endpoint": "https://s3.example",
                    "secretName": "bucket",
                    "egress": [
                        {"to": [{"ipBlock": {"cidr": "192.0.2.9/32"}}], "ports": [{"port": 9000, "protocol": "TCP"}]},
                    ],
                }
            }
        },
        "networkPolicy": {"apiServer": {"cidrs": ["192.0.2.1/32"]}},
    },
    "everything": {
        "tenants": ["team-a", "team-b", "team-c"],
        "images": {"registry": "mirror.example/all/", "pullSecrets": ["pull"], "agent": {"digest": "sha256:" + "0" * 64}},
        "gateway": {
            "webhooksSecret": "routes",
            "slackSecret": "slack",
            "telegramSecret": "telegram",
            "apiKeysSecret": "keys",
            "service": {"annotations": {"a": "b"}},
        },
        "ingress": {"enabled": True, "exposeApi": True, "tlsSecret": "tls"},
        "httpRoute": {"enabled": True, "parentRefs": [{"name": "public"}]},
        "metrics": {"from": [{"namespaceSelector": {}}], "serviceMonitor": {"enabled": True, "labels": {"team": "x"}}},
        "scheduling": {"nodeSelector": {"a": "b"}, "tolerations": [{"operator": "Exists"}], "priorityClassName": "high"},
    },
    "bare": {"firstProfile": {"enabled": False}, "scriptedModel": {"enabled": False}, "networkPolicy": {"enabled": False}},
}


def find_helm() -> str | None:
    """Helm on the PATH, or the one that the local cluster brings."""
    if found := shutil.which("helm"):
        return found
    environ = {**os.environ, "PYTHONPATH": str(ROOT / "tools")}
    command = [sys.executable, "-m", "cluster", "env"]
    text = subprocess.run(command, env=environ, capture_output=True, text=True, check=False).stdout
    match = re.search(r'^export PATH="([^:"]+):', text, re.MULTILINE)
    return shutil.which("helm", path=match[1]) if match else None


@dataclass(frozen=True)
class Rendered:
    """What one set of values makes of the chart."""

    objects: list[dict[str, Any]]

    def of(self, kind: str) -> dict[str, dict[str, Any]]:
        return {found["metadata"]["name"]: found for found in self.objects if found["kind"] == kind}

    def pods(self) -> dict[str, dict[str, Any]]:
        """Pod templates by the name of what makes them."""
        workloads = self.of("Deployment") | self.of("StatefulSet")
        return {name: found["spec"]["template"] for name, found in workloads.items()} | self.of("Pod")


@pytest.fixture(scope="session")
def helm() -> Callable[..., subprocess.CompletedProcess[str]]:
    program = find_helm()
    if program is None:
        pytest.skip('no helm: run `make cluster`, then eval "$(PYTHONPATH=tools python3 -m cluster env)"')

    def run(*words: str, values: object = None) -> subprocess.CompletedProcess[str]:
        text = None if values is None else yaml.safe_dump(values)
        extra = [] if values is None else ["--values", "-"]
        return subprocess.run([program, *words, *extra], input=text, capture_output=True, text=True, check=False, timeout=60)

    return run


@pytest.fixture(scope="session")
def render(helm) -> Callable[[str], Rendered]:
    @cache
    def rendered(case: str) -> Rendered:
        words = ["template", "ours", str(CHART), "--namespace", "home", "--api-versions", "monitoring.coreos.com/v1"]
        done = helm(*words, values=CASES[case])
        assert done.returncode == 0, done.stderr
        return Rendered([found for found in yaml.safe_load_all(done.stdout) if found])

    return rendered


@pytest.fixture(params=list(CASES))
def chart(request, render) -> Rendered:
    return render(request.param)
