"""Debian and Python images to build ours on, where the public ones cannot be pulled."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from cluster import build, host
from cluster.cache import artefact, content_key
from cluster.console import Console, output, run_logged, succeeds
from cluster.node_image import FORGET_SETTINGS, SLIM, forget_older
from cluster.settings import DEBIAN, HERE, Settings
from cluster.toolbox import Toolbox

# usrmerge brings 50 MB of Perl, and usr-is-merged does in its place once the root is made.
INCLUDED = "ca-certificates,usr-is-merged"
WITHOUT_PERL = """--customize-hook=chroot "$1" apt-get purge -y usrmerge '?name(^libperl5)' '?name(^perl-modules)'"""
SEARCH_PATH = "ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def ensure_bases(console: Console, settings: Settings, tools: Toolbox) -> Mapping[str, str]:
    """Tags of the base images `debian` and `python` in the engine; empty where public images are used."""
    if tools.public:
        return {}
    debian = _debian(console, settings, tools)
    return {"debian": debian, "python": _python(console, settings, tools, debian)}


def _debian(console: Console, settings: Settings, tools: Toolbox) -> str:
    key = content_key([INCLUDED, WITHOUT_PERL, DEBIAN, str(SLIM)])
    tag = f"localhost/hermes-debian:{key}"
    if _exists(tools, tag):
        return tag

    def make(folder: Path) -> None:
        host.ensure_packages(console, settings, ("mmdebstrap", "debian-archive-keyring"))
        command = ["mmdebstrap", "--variant=minbase", f"--include={INCLUDED}", *SLIM, *host.apt_options()]
        command += [WITHOUT_PERL, FORGET_SETTINGS, DEBIAN, str(folder / "rootfs.tar")]
        log = settings.state / "mmdebstrap.log"
        run_logged(console, "making a small Debian root (about 25 s)", command, log, environ=settings.environ)

    root = artefact(settings.cache, "debian-root", key, make)
    docker = tools.program("docker")
    changes = ["--change", SEARCH_PATH, "--change", 'CMD ["sh"]']
    output([docker, "import", *changes, root / "rootfs.tar", tag], environ=tools.environ, seconds=300)
    forget_older(docker, tools.environ, tag)
    return tag


def _python(console: Console, settings: Settings, tools: Toolbox, debian: str) -> str:
    dockerfile = HERE / "images/Dockerfile.python"
    key = content_key([debian, dockerfile.read_bytes()])
    tag = f"localhost/hermes-python:{key}"
    if not _exists(tools, tag):
        request = build.Request(tag=tag, dockerfile=dockerfile, root=HERE, arguments={"BASE_IMAGE": debian})
        build.run(console, settings, tools, request)
        forget_older(tools.program("docker"), tools.environ, tag)
    return tag


def _exists(tools: Toolbox, tag: str) -> bool:
    return succeeds([tools.program("docker"), "image", "inspect", tag], environ=tools.environ)
