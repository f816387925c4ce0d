"""Options, variables and the configuration file: which gateway, which key, and what is wrong with them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import SecretStr

from hermes_cli.api.client import explain
from hermes_cli.connection.choose import Direct, Release, choose, kubernetes_place
from hermes_cli.connection.contexts import Configuration, KubernetesPlace, parse_configuration, read_configuration
from hermes_cli.connection.kubectl import explain as explain_kubectl
from hermes_cli.errors import CliError, ExitCode
from hermes_cli.options import Options, hoist

FILE = """
current: work
contexts:
  work: {url: https://hermes.example.org/, key: a-key, profile: helper}
  lab: {kubernetes: {namespace: lab, context: kind-hermes}}
"""
KNOWN = parse_configuration(FILE, "the file")


def test_an_address_and_a_key_are_enough() -> None:
    found = choose(Options(url="http://localhost:8642/", key="k"), Configuration())
    assert found == Direct("http://localhost:8642", SecretStr("k"), None, None)


def test_the_current_context_counts_unless_another_is_named() -> None:
    assert choose(Options(), KNOWN) == Direct("https://hermes.example.org", SecretStr("a-key"), None, "helper")
    lab = choose(Options(context="lab", profile="x"), KNOWN)
    assert lab == Release(KubernetesPlace(namespace="lab", context="kind-hermes"), None, "x")


def test_without_anything_it_is_the_release_of_the_kubeconfig() -> None:
    assert choose(Options(), Configuration()) == Release(KubernetesPlace(), None, None)
    assert choose(Options(namespace="team"), KNOWN) == Release(KubernetesPlace(namespace="team"), None, None)
    assert kubernetes_place(Options(release="two", context="lab"), KNOWN).release == "two"


def test_a_key_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("from-file\n")
    found = choose(Options(url="http://x", key_file=tmp_path / "key"), Configuration())
    assert isinstance(found, Direct)
    assert found.key.get_secret_value() == "from-file"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (Options(url="http://x"), "no key"),
        (Options(url="http://x", context="lab", key="k"), "two places"),
        (Options(url="ftp://x", key="k"), "begins with http"),
        (Options(context="moon"), "it has: lab, work"),
        (Options(url="http://x", key="two words"), "one line"),
        (Options(url="http://x", key_file=Path("/nowhere")), "cannot read the key file"),
    ],
)
def test_what_is_wrong_is_said(options: Options, words: str) -> None:
    with pytest.raises(CliError, match=words) as error:
        choose(options, KNOWN)
    assert error.value.code is ExitCode.USAGE


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("contexts: {a: {uri: https://x, key: sekret}}", "contexts.a.uri"),
        ("contexts: {a: {url: hermes, key: sekret}}", "contexts.a.url"),
        ("current: b", "no context 'b'"),
        ("contexts: [sekret", "not YAML"),
        ("- sekret", "the file"),
    ],
)
def test_a_wrong_file_names_the_field_and_no_value(text: str, words: str) -> None:
    with pytest.raises(CliError, match=words) as error:
        parse_configuration(text, "the file")
    assert "sekret" not in str(error.value)


def test_a_file_that_was_named_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(CliError, match="no configuration file"):
        read_configuration(tmp_path / "missing.yaml")


def test_keys_are_in_no_representation() -> None:
    assert "sekret" not in repr(Options(key="sekret")) + repr(choose(Options(url="http://x", key="sekret"), KNOWN))


@pytest.mark.parametrize(
    ("status", "text", "code"),
    [
        (401, "{}", ExitCode.REFUSED),
        (404, '{"error": {"message": "no session"}}', ExitCode.REFUSED),
        (503, '{"error": {"message": "the bus is away"}}', ExitCode.UNREACHABLE),
        (404, "<html>not us</html>", ExitCode.UNREACHABLE),
    ],
)
def test_answers_become_exit_codes(status: int, text: str, code: ExitCode) -> None:
    assert explain(status, text).code is code


@pytest.mark.parametrize(
    ("stderr", "code", "words"),
    [
        ('Error from server (Forbidden): pods is forbidden: User "x" cannot list', ExitCode.REFUSED, "administrator"),
        ('error: the server doesn\'t have a resource type "hermescronjobs"', ExitCode.REFUSED, "installed"),
        ("The connection to the server 127.0.0.1:1 was refused", ExitCode.UNREACHABLE, "kubeconfig"),
        ("error: You must be logged in to the server (Unauthorized)", ExitCode.REFUSED, "credentials"),
        ('Error from server (NotFound): services "x" not found', ExitCode.REFUSED, "NotFound"),
    ],
)
def test_what_kubectl_says_becomes_one_of_ours(stderr: str, code: ExitCode, words: str) -> None:
    error = explain_kubectl(stderr)
    assert error.code is code
    assert words in str(error)


def test_common_options_may_stand_anywhere() -> None:
    assert hoist(["send", "hi", "--url", "http://x", "--key=k"]) == ["--url", "http://x", "--key=k", "send", "hi"]
    assert hoist(["send", "--", "--url", "x"]) == ["send", "--", "--url", "x"]
    assert hoist(["chat", "--url"]) == ["--url", "chat"]


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; sys.argv = ['hermes', '--help']\n"
        "import hermes_cli.app\n"
        "try: hermes_cli.app.main()\n"
        "except SystemExit: pass\n"
        "heavy = {'rich', 'httpx', 'pydantic', 'yaml', 'prompt_toolkit', 'asyncio'} & set(sys.modules)\n"
        "sys.exit(', '.join(heavy) if heavy else 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": ":".join(sys.path)}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    for command in ("chat", "send", "sessions", "profile", "cron", "logs", "doctor"):
        assert command in done.stdout
