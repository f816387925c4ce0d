"""The tree itself: sizes, places and words that a reviewer should not have to look for."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PACKAGES = {
    "hermes_contracts": "libs",
    "hermes_service": "libs",
    "hermes_operator": "operator",
    "hermes_agent": "agent_image",
    "hermes_gateway": "gateway_image",
    "hermes_cli": "cli",
}


def _tracked() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    return [path for name in listed.stdout.splitlines() if (path := ROOT / name).is_file()]


def _python() -> list[Path]:
    return [path for path in _tracked() if path.suffix == ".py"]


def _relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_files_can_be_read_in_one_sitting() -> None:
    long = []
    for path in _python():
        limit = 600 if _relative(path).startswith("tests/") else 400
        lines = len(path.read_text().splitlines())
        if lines > limit:
            long.append(f"{_relative(path)}: {lines} > {limit}")
    assert not long


def test_operator_and_tests_have_no_package_file() -> None:
    """`operator/__init__.py` would shadow the standard library's module for whoever starts Python in the root."""
    found = [_relative(p) for p in _python() if p.name == "__init__.py"]
    assert not [f for f in found if f.startswith("tests/") or f == "operator/__init__.py"]


def test_names_say_what_is_inside() -> None:
    vague = {"utils", "util", "helpers", "common", "misc", "manager"}
    assert not [_relative(p) for p in _python() if p.stem in vague]


@pytest.mark.parametrize("word", ["mock.patch", "monkeypatch.setattr", "time.sleep("])
def test_tests_wait_on_conditions_and_patch_nothing_of_ours(word: str) -> None:
    """Programs that a test hands to an interpreter may do what they like."""
    lines = [
        f"{_relative(path)}: {line.strip()}"
        for path in _python()
        if _relative(path).startswith("tests/") and path != Path(__file__)
        for line in path.read_text().splitlines()
        if word in line and "python3 -c" not in line
    ]
    assert not lines


_PULLED_FROM = re.compile(
    r"\b(?:docker(?=\.io/)|quay|gcr|ghcr|registry\.k8s|mcr\.microsoft|index\.docker|pypi|registry\.npmjs)\.(?:io|com|org)\b"
)


def test_no_file_names_a_registry_host() -> None:
    """A mirror must work without an edit; images are named by values, packages by locks without addresses."""
    found = []
    for path in _tracked():
        text = path.read_text(errors="ignore") if path != Path(__file__) else ""
        found += [f"{_relative(path)}: {match}" for match in _PULLED_FROM.findall(text)]
    assert not found


def test_every_file_that_a_document_names_is_there() -> None:
    missing = []
    for document in [p for p in _tracked() if p.suffix == ".md" and "decisions" not in p.parts]:
        text = document.read_text()
        for target in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", text):
            if not (document.parent / target).exists():
                missing.append(f"{_relative(document)} -> {target}")
        for target in re.findall(r"`((?:tests|docs|bench|tools|libs)/[\w./-]+)`", text):
            if not (ROOT / target).exists():
                missing.append(f"{_relative(document)} -> {target}")
    assert not missing


@pytest.mark.parametrize("package", PACKAGES)
def test_importing_a_module_has_no_effect(package: str) -> None:
    """No thread, no file, no output: a process starts in its `main`, not in an import."""
    code = f"""
import importlib, pkgutil, sys, threading
package = importlib.import_module({package!r})
for module in pkgutil.walk_packages(package.__path__, {package!r} + "."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
assert threading.active_count() == 1, threading.enumerate()
"""
    roots = ":".join(str(ROOT / folder) for folder in sorted(set(PACKAGES.values()) | {"tools"}))
    done = subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": roots}, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
