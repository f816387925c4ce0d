"""Decides from options, variables and the configuration file which gateway is meant. Reads key files, nothing else."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from pydantic import SecretStr

from hermes_cli.connection.contexts import Configuration, Context, KubernetesPlace, check_key, read_key_file
from hermes_cli.errors import usage
from hermes_cli.options import Options

_GIVE_A_KEY = "set HERMES_API_KEY_FILE or HERMES_API_KEY, or keyFile in the configuration file"


@dataclass(frozen=True)
class Direct:
    """A gateway by its address."""

    url: str
    key: SecretStr = field(repr=False)
    ca_file: Path | None
    profile: str | None


@dataclass(frozen=True)
class Release:
    """A gateway by its release on a cluster. Without a key, the first one that the operator made is read."""

    place: KubernetesPlace
    key: SecretStr | None = field(repr=False)
    profile: str | None


def choose(options: Options, configuration: Configuration) -> Direct | Release:
    """Return where to go. Raises CliError when what was said contradicts itself or lacks a key."""
    if options.url and options.context:
        raise usage("--url (or HERMES_URL) and --context name two places", "give one of them")
    key = _given_key(options)
    if options.url:
        if not options.url.startswith(("http://", "https://")):
            raise usage("--url", "it begins with http:// or https://")
        return Direct(options.url.rstrip("/"), _required(key), None, options.profile)
    if options.namespace or options.release or options.kube_context:
        return Release(_narrowed(options, KubernetesPlace()), key, options.profile)
    name = options.context or configuration.current
    if name is None:
        return Release(KubernetesPlace(), key, options.profile)
    return _of_context(configuration.context(name), name, key, options)


def _of_context(context: Context, name: str, given: SecretStr | None, options: Options) -> Direct | Release:
    own = check_key(context.key.get_secret_value(), f"key of context {name!r}") if context.key else None
    key = given or own or (read_key_file(context.key_file) if context.key_file else None)
    profile = options.profile or context.profile
    if context.url:
        return Direct(context.url.rstrip("/"), _required(key), context.ca_file, profile)
    if context.kubernetes is None:
        raise usage(f"context {name!r} has neither url nor kubernetes", "give it one of them")
    return Release(context.kubernetes, key, profile)


def kubernetes_place(options: Options, configuration: Configuration) -> KubernetesPlace:
    """Return the release that commands on the cluster are about, whatever way the gateway is reached."""
    name = options.context or configuration.current
    context = configuration.context(name) if name else None
    return _narrowed(options, (context.kubernetes if context else None) or KubernetesPlace())


def _narrowed(options: Options, place: KubernetesPlace) -> KubernetesPlace:
    asked = {"namespace": options.namespace, "release": options.release, "context": options.kube_context}
    return place.model_copy(update={name: value for name, value in asked.items() if value})


def _given_key(options: Options) -> SecretStr | None:
    if options.key:
        return check_key(options.key, "HERMES_API_KEY (or --key)")
    return read_key_file(options.key_file) if options.key_file else None


def _required(key: SecretStr | None) -> SecretStr:
    if key is None:
        raise usage("no key", _GIVE_A_KEY)
    return key
