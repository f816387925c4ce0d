"""Profiles and Secrets from a YAML file, for development and tests; read again when it changes."""

from __future__ import annotations

from pathlib import Path

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from hermes_contracts.crd.profile import ProfileSpec
from hermes_contracts.names import DnsLabel, ObjectName
from hermes_gateway.models.provider_secret import ProviderSecret, missing_secret, read_secret


class _FileModel(BaseModel):
    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)


class _Secret(_FileModel):
    type: str
    data: dict[str, str]


class _Profile(_FileModel):
    namespace: DnsLabel
    name: ObjectName
    spec: ProfileSpec
    secrets: dict[str, _Secret] = Field(default_factory=dict)


class FileProfiles:
    """A ProfileSource over a file: a list of {namespace, name, spec, secrets: {name: {type, data}}}."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._changed: tuple[int, int] = (-1, -1)
        self._profiles: dict[tuple[str, str], ProfileSpec] = {}
        self._secrets: dict[tuple[str, str], _Secret] = {}
        self._problem: str | None = None
        self._read()

    def problem(self) -> str | None:
        """Return what is wrong with the file."""
        self._read()
        return self._problem

    async def profile(self, namespace: str, name: str) -> ProfileSpec | None:
        """Return a Profile of the file."""
        self._read()
        return self._profiles.get((namespace, name))

    async def secret(self, namespace: str, name: str) -> ProviderSecret:
        """Return a Secret of the file."""
        self._read()
        found = self._secrets.get((namespace, name))
        if found is None:
            raise missing_secret(namespace, name)
        return read_secret(name, found.type, found.data)

    def _read(self) -> None:
        """Take over a changed file; one that cannot be read leaves the earlier content in place and is reported."""
        try:
            stat = self._path.stat()
            if (changed := (stat.st_mtime_ns, stat.st_size)) == self._changed:
                return
            profiles = [_Profile.model_validate(entry) for entry in yaml.safe_load(self._path.read_text()) or []]
        except (OSError, yaml.YAMLError) as error:
            self._problem = f"profiles file cannot be read: {type(error).__name__}"
            return
        except (ValidationError, TypeError) as error:
            self._problem = f"profiles file: {str(error)[:500]}"
            return
        self._changed, self._problem = changed, None
        self._profiles = {(p.namespace, p.name): p.spec for p in profiles}
        self._secrets = {(p.namespace, name): s for p in profiles for name, s in p.secrets.items()}
