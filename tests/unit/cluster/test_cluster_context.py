"""What a Dockerfile takes from the repository decides what is sent to the engine and when an image is rebuilt."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster.console import ClusterError
from cluster.context import files, key_parts, sources, stage
from cluster.images import Recipe, inputs_key

DOCKERFILE = """\
ARG BASE_IMAGE=python:3
FROM ${BASE_IMAGE} AS build
# COPY secrets /secrets
COPY locks/agent.txt /tmp/requirements.txt
RUN --mount=type=secret,id=ca,target=/etc/ssl/certs/ca-certificates.crt,required=false \\
    --mount=type=bind,source=tools/check.sh,target=/check.sh \\
    --mount=type=bind,from=other,source=/bin,target=/bin2 \\
    python3 -m venv /opt/venv
FROM ${BASE_IMAGE}
COPY --from=build /opt/venv /opt/venv
COPY --chmod=755 libs/one \\
     libs/two /opt/libs/
ADD ["agent image", "/opt/agent"]
"""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    for name in ("locks/agent.txt", "tools/check.sh", "libs/one/a.py", "libs/two/b.py", "agent image/c.py", "secrets/key"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    (tmp_path / "libs/one/__pycache__").mkdir()
    (tmp_path / "libs/one/__pycache__/a.cpython-311.pyc").write_bytes(b"bytecode")
    (tmp_path / "Dockerfile").write_text(DOCKERFILE)
    return tmp_path


def test_only_what_copy_add_and_bind_mounts_name_is_taken() -> None:
    assert sources(DOCKERFILE) == ["locks/agent.txt", "tools/check.sh", "libs/one", "libs/two", "agent image"]


def test_the_context_holds_those_files_and_nothing_else(repository: Path, tmp_path: Path) -> None:
    context = tmp_path / "context"
    stage(repository, files(repository, sources(DOCKERFILE)), context)
    found = sorted(str(path.relative_to(context)) for path in context.rglob("*") if path.is_file())
    assert found == ["agent image/c.py", "libs/one/a.py", "libs/two/b.py", "locks/agent.txt", "tools/check.sh"]


def test_an_image_is_rebuilt_for_what_it_copies_and_for_nothing_else(repository: Path) -> None:
    recipe = Recipe(repository / "Dockerfile")
    before = inputs_key(recipe, ["BASE_IMAGE=a"], repository)
    (repository / "secrets/key").write_text("other")
    (repository / "libs/one/__pycache__/a.cpython-311.pyc").write_bytes(b"newer")
    assert inputs_key(recipe, ["BASE_IMAGE=a"], repository) == before
    (repository / "libs/two/b.py").write_text("changed")
    after = inputs_key(recipe, ["BASE_IMAGE=a"], repository)
    (repository / "tools/check.sh").chmod(0o755)
    keys = {
        before,
        after,
        inputs_key(recipe, ["BASE_IMAGE=a"], repository),
        inputs_key(recipe, ["BASE_IMAGE=b"], repository),
    }
    assert len(keys) == 4


@pytest.mark.parametrize("name", [".", "/", "../other", "absent.txt"])
def test_a_source_that_is_absent_or_too_wide_is_refused_by_name(repository: Path, name: str) -> None:
    with pytest.raises(ClusterError, match="COPY"):
        files(repository, [name])


def test_patterns_are_understood(repository: Path) -> None:
    names = files(repository, ["libs/*/*.py"])
    assert [str(name) for name in names] == ["libs/one/a.py", "libs/two/b.py"]
    assert b"libs/one/a.py" in key_parts(repository, names)
