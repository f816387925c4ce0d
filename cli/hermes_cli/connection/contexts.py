"""The configuration file: named contexts, each an address with a key, or a release on a cluster.

current: work
contexts:
  work: {url: https://hermes.example.org, keyFile: ~/.config/hermes/work.key, profile: default}
  lab: {kubernetes: {namespace: hermes, release: hermes, context: kind-hermes}}
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, SecretStr, StringConstraints, ValidationError
from pydantic.alias_generators import to_camel

from hermes_cli.errors import usage

DEFAULT_FILE = Path("~/.config/hermes/config.yaml")
_MAX_BYTES = 256 * 1024

Name = Annotated[str, StringConstraints(min_length=1, max_length=253, pattern=r"^[A-Za-z0-9][A-Za-z0-9._@:/-]*$")]


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=to_camel, populate_by_name=True)


class KubernetesPlace(_Entry):
    """A release on a cluster that kubectl reaches."""

    namespace: Name = "hermes"
    release: Name = "hermes"
    context: Name | None = None
    """Context of the kubeconfig; its current one without it."""


class Context(_Entry):
    """One gateway. With `kubernetes` and no `url`, a port-forward is opened."""

    url: Annotated[str, StringConstraints(pattern=r"^https?://[^\s]+$", max_length=2000)] | None = None
    key: SecretStr | None = None
    key_file: Path | None = None
    ca_file: Path | None = None
    """Authority that signed the gateway's certificate, as PEM."""
    profile: Name | None = None
    """Profile that new sessions are of."""
    kubernetes: KubernetesPlace | None = None


class Configuration(_Entry):
    """The whole file."""

    current: str | None = None
    contexts: dict[str, Context] = Field(default_factory=dict)

    def context(self, name: str) -> Context:
        """Return a context. Raises CliError."""
        if name not in self.contexts:
            known = ", ".join(sorted(self.contexts)) or "none"
            raise usage(f"no context {name!r} in the configuration file", f"it has: {known}")
        return self.contexts[name]


def read_configuration(path: Path | None) -> Configuration:
    """Read the file; without a path the default one, which need not be there. Raises CliError that names the field."""
    chosen = (path or DEFAULT_FILE).expanduser()
    try:
        with chosen.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except FileNotFoundError:
        if path is None:
            return Configuration()
        raise usage(f"no configuration file {chosen}", "check --config or HERMES_CONFIG") from None
    except OSError as error:
        raise usage(f"cannot read {chosen}", error.strerror or "check its permissions") from error
    if len(data) > _MAX_BYTES:
        raise usage(f"{chosen} is larger than {_MAX_BYTES} bytes", "is it the right file?")
    return parse_configuration(data.decode(errors="replace"), str(chosen))


def parse_configuration(text: str, where: str) -> Configuration:
    """Read the file's text. Values are never quoted in an error: one of them may be a key."""
    import yaml

    try:
        found = Configuration.model_validate(yaml.safe_load(text) or {})
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else "?"
        raise usage(f"{where} is not YAML", f"line {line}: {error.problem}") from None
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        field = ".".join(str(part) for part in first["loc"]) or "the file"
        raise usage(f"{where}: {field}", first["msg"]) from None
    if found.current is not None:
        found.context(found.current)
    return found


def read_key_file(path: Path) -> SecretStr:
    """Read a key from a file. Raises CliError."""
    try:
        text = path.expanduser().read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not text"
        raise usage(f"cannot read the key file {path}", reason) from error
    return check_key(text, f"the key file {path}")


def check_key(text: str, where: str) -> SecretStr:
    """Return a key without the blanks around it. Raises CliError when it cannot be one."""
    key = text.strip()
    if not key or len(key) > 4096 or not key.isascii() or not key.isprintable() or " " in key:
        raise usage(f"{where} does not hold a key", "it should be one line, the key alone")
    return SecretStr(key)
