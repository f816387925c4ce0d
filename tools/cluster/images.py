"""Our own images: which there are, and building those whose inputs changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cluster import build as builder, context
from cluster.base_images import ensure_bases
from cluster.cache import content_key
from cluster.console import ClusterError, Console, output, succeeds
from cluster.settings import HERE, REPOSITORY, Settings
from cluster.toolbox import Toolbox


@dataclass(frozen=True)
class Recipe:
    """How one image is made: its Dockerfile, the stage to stop at, and which base stands in for the public one.

    One that is not `usual` is made only when it is named.
    """

    dockerfile: Path
    target: str | None = None
    base: str = "python"
    usual: bool = True


RECIPES = {
    "agent": Recipe(REPOSITORY / "Dockerfile.agent"),
    "gateway": Recipe(REPOSITORY / "Dockerfile.gateway"),
    "operator": Recipe(REPOSITORY / "Dockerfile.operator"),
    "sandbox": Recipe(REPOSITORY / "Dockerfile.sandbox", target="slim"),
    "sandbox-full": Recipe(REPOSITORY / "Dockerfile.sandbox", target="full", usual=False),
    "nats": Recipe(HERE / "images/Dockerfile.nats"),
    "postgres": Recipe(HERE / "images/Dockerfile.postgres", base="debian"),
}


def tag(name: str) -> str:
    """The tag of one of our images in the engine and on the nodes."""
    return f"localhost/hermes-{name}:dev"


def inputs_key(recipe: Recipe, arguments: Sequence[str], root: Path = REPOSITORY) -> str:
    """Hash of everything that goes into an image: Dockerfile, stage, arguments and the files it copies."""
    text = recipe.dockerfile.read_text()
    parts = context.key_parts(root, context.files(root, context.sources(text)))
    return content_key([text, recipe.target or "", *arguments, *parts])


def build(console: Console, settings: Settings, tools: Toolbox, only: Sequence[str]) -> list[str]:
    """Build the images named in `only` (the usual ones when empty) whose inputs changed; returns their tags.

    Raises ClusterError for a name that is not ours or has no Dockerfile.
    """
    unknown = [name for name in only if name not in RECIPES]
    if unknown:
        raise ClusterError(f"no image {', '.join(unknown)}; there are {', '.join(RECIPES)}")
    chosen = {name: recipe for name, recipe in RECIPES.items() if (name in only if only else recipe.usual)}
    absent = [recipe.dockerfile.name for recipe in chosen.values() if not recipe.dockerfile.is_file()]
    if absent:
        raise ClusterError(f"not there: {', '.join(absent)}; name the images to build, for example: images nats postgres")
    bases = ensure_bases(console, settings, tools)
    for name, recipe in chosen.items():
        arguments = {"BASE_IMAGE": bases[recipe.base]} if recipe.base in bases else {}
        key = inputs_key(recipe, [f"{key}={value}" for key, value in sorted(arguments.items())])
        request = builder.Request(
            tag=tag(name),
            dockerfile=recipe.dockerfile,
            root=REPOSITORY,
            target=recipe.target,
            arguments=arguments,
            inputs=key,
        )
        _build_if_changed(console, settings, tools, request)
    return [tag(name) for name in chosen]


def _build_if_changed(console: Console, settings: Settings, tools: Toolbox, request: builder.Request) -> None:
    docker = str(tools.program("docker"))
    inspect = [docker, "image", "inspect", request.tag]
    built = ["", ""]
    if succeeds(inspect, environ=tools.environ):
        wanted = '{{.Id}} {{index .Config.Labels "' + builder.INPUTS_LABEL + '"}}'
        built = output([*inspect, "--format", wanted], environ=tools.environ).split()
    if built[1:] == [request.inputs]:
        console.say(f"{request.tag} is up to date")
        return
    builder.run(console, settings, tools, request)
    now = output([*inspect, "--format", "{{.Id}}"], environ=tools.environ).strip()
    if built[0] and built[0] != now:
        succeeds([docker, "image", "rm", built[0]], environ=tools.environ)
