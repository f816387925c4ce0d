"""What is asked of a machine, and what of it reaches a build."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from cluster import host
from cluster.build import Request, command_line
from cluster.engine import CAPPED_RUNTIME, find_client, has_buildkit
from cluster.settings import read_settings

WITHOUT = "Name:\tsh\nCapBnd:\t000001fffeffffff\n"
WITH = "Name:\tsh\nCapBnd:\t000001ffffffffff\n"


def test_the_absent_capability_is_seen() -> None:
    assert not host.has_capability(host.CAP_SYS_RESOURCE, WITHOUT)
    assert host.has_capability(host.CAP_SYS_RESOURCE, WITH)


def test_the_capped_runtime_asks_for_everything_but_that_capability(tmp_path: Path) -> None:
    runtime = tmp_path / "runtime"
    runtime.write_text(CAPPED_RUNTIME.replace("@RUNC@", "echo"))
    config = tmp_path / "config.json"
    config.write_text('{"bounding":["CAP_SYS_ADMIN","CAP_SYS_RESOURCE"],"effective":["CAP_SYS_RESOURCE","CAP_CHOWN"]}')
    said = subprocess.run(
        ["sh", str(runtime), "create", "--bundle", str(tmp_path), "id 1"], check=True, capture_output=True, text=True
    )
    assert said.stdout.split() == ["create", "--bundle", str(tmp_path), "id", "1"]
    assert json.loads(config.read_text()) == {"bounding": ["CAP_SYS_ADMIN"], "effective": ["CAP_CHOWN"]}


def test_packages_that_are_removed_but_configured_count_as_missing() -> None:
    installed = "gcc installed\nlibseccomp-dev:amd64 installed\nmmdebstrap config-files\n"
    assert host.missing_packages(["gcc", "libseccomp-dev", "mmdebstrap", "go"], installed) == ["mmdebstrap", "go"]


def test_pip_gets_the_machines_indexes_and_the_images_own_path_of_the_authorities() -> None:
    files = [
        "[global]\ncert = /home/me/ca.pem\nindex-url = https://old.example/simple\n",
        "[install]\nindex-url = https://a%20b\n",
    ]
    text = host.pip_settings({"PIP_EXTRA_INDEX_URL": "https://c/\nhttps://d/", "PIP_CERT": "/here.pem"}, [*files, "not ini"])
    assert f"cert = {host.CERTIFICATES_IN_IMAGE}" in text
    assert "index-url = https://a%20b" in text
    assert "extra-index-url = https://c/\n    https://d/" in text
    assert "/home/me" not in text
    assert "here.pem" not in text


def test_apt_gets_what_concerns_fetching_only() -> None:
    dump = 'Acquire::Check-Date "false";\nDir::Cache "/x";\nAcquire::http::Proxy "http://p:1";\nDPkg::Post-Invoke:: "rm";\n'
    assert host.apt_settings(dump) == 'Acquire::Check-Date "false";\nAcquire::http::Proxy "http://p:1";\n'


def test_no_secret_and_no_proxy_is_in_the_command_line() -> None:
    request = Request(tag="localhost/a:dev", dockerfile=Path("Dockerfile"), root=Path(), target="slim", inputs="abc")
    words = command_line(request, Path("docker"), Path("ctx"), {"ca": Path("ca.pem")}, ["https_proxy"])
    assert words[-1] == "ctx"
    assert words[words.index("--target") + 1] == "slim"
    assert words[words.index("--build-arg") : words.index("--build-arg") + 2] == ["--build-arg", "https_proxy"]
    assert "id=ca,src=ca.pem" in words


@pytest.mark.parametrize(
    ("version", "buildx", "usable"),
    [
        ("Docker version 20.10.24+dfsg1, build 297e128", False, True),
        ("Docker version 28.2.2, build e6534b4", False, False),
        ("Docker version 28.2.2, build e6534b4", True, True),
        ("podman version 4.3.1", False, False),
    ],
)
def test_clients_that_cannot_build_with_buildkit_are_passed_over(version: str, buildx: bool, usable: bool) -> None:
    assert has_buildkit(version, buildx) is usable


def test_the_first_usable_client_on_the_path_is_taken(tmp_path: Path) -> None:
    for folder, version in (("new", "28.2.2"), ("old", "20.10.24")):
        client = tmp_path / folder / "docker"
        client.parent.mkdir()
        client.write_text(f'#!/bin/sh\n[ "$1" = --version ] && echo "Docker version {version}, build 1"\n')
        client.chmod(0o755)
    assert find_client({"PATH": f"{tmp_path / 'none'}:{tmp_path / 'new'}:{tmp_path / 'old'}"}) == tmp_path / "old/docker"
    assert find_client({"PATH": str(tmp_path / "new")}) is None


def test_settings_name_the_variable_that_is_wrong(tmp_path: Path) -> None:
    assert read_settings({"XDG_CACHE_HOME": str(tmp_path)}).cache == tmp_path / "hermes-cluster"
    with pytest.raises(ValueError, match="HERMES_CLUSTER_SOURCE"):
        read_settings({"HOME": "/h", "HERMES_CLUSTER_SOURCE": "both"})
    with pytest.raises(ValueError, match="HERMES_CLUSTER_CACHE"):
        read_settings({"HOME": "/h", "HERMES_CLUSTER_CACHE": "here"})
