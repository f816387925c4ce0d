"""Command line of the local cluster: `PYTHONPATH=tools python3 -m cluster --help`."""

from __future__ import annotations

import argparse
import os
import re
import sys

from cluster import commands
from cluster.console import ClusterError, Console
from cluster.settings import Settings, read_settings

EXAMPLES = """examples:
  python3 -m cluster up                     a cluster of one node, ready to use
  python3 -m cluster up --workers 1         the same with a second node
  eval "$(python3 -m cluster env)"          docker, kind, kubectl and helm on the PATH, KUBECONFIG set
  python3 -m cluster images                 build what changed of our images, and load it
  python3 -m cluster images agent           only that one
  python3 -m cluster load localhost/mine:1  put any image of the engine on the nodes
  python3 -m cluster down                   leave nothing behind but the cache

environment:
  HERMES_CLUSTER_CACHE    where everything built is kept (default ~/.cache/hermes-cluster)
  HERMES_CLUSTER_SOURCE   auto (default), public: pull images, built: build them from package registries
"""


def cluster_name(text: str) -> str:
    """A name that kind, Docker and our own folders take. Raises argparse's error otherwise."""
    if not re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?", text) or text == "bin":
        raise argparse.ArgumentTypeError(f"{text!r}: use up to 40 small letters, digits and dashes (and not `bin`)")
    return text


def worker_count(text: str) -> int:
    """Nodes beside the control plane, 0 to 9."""
    if not re.fullmatch(r"[0-9]", text):
        raise argparse.ArgumentTypeError(f"{text!r}: give a number from 0 to 9")
    return int(text)


def parser() -> argparse.ArgumentParser:
    """The command line's grammar."""
    root = argparse.ArgumentParser(
        prog="python3 -m cluster",
        description="A local Kubernetes cluster (kind) on any Linux machine, with or without container registries.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--name", type=cluster_name, default="hermes", help="name of the cluster (default: %(default)s)")
    add = root.add_subparsers(dest="command", required=True, metavar="COMMAND").add_parser
    up = add("up", parents=[common], help="make or keep the cluster")
    up.add_argument(
        "--workers", type=worker_count, default=0, metavar="N", help="nodes beside the control plane (default: 0)"
    )
    add("down", parents=[common], help="delete the cluster, stop what was started")
    images = add("images", parents=[common], help="build our images and load them")
    images.add_argument("images", nargs="*", metavar="IMAGE", help="agent, gateway, operator, sandbox, nats, postgres")
    load = add("load", parents=[common], help="load images of the engine into the cluster")
    load.add_argument("images", nargs="+", metavar="IMAGE")
    add("status", parents=[common], help="what runs")
    add("kubeconfig", parents=[common], help="print the path of the kubeconfig")
    add("env", parents=[common], help="print export lines for a shell")
    return root


def run(arguments: argparse.Namespace, settings: Settings, console: Console) -> None:
    """Do one command; what it answers goes to standard output, progress to standard error."""
    name = arguments.name
    match arguments.command:
        case "status":
            print(commands.status(settings, name))
        case "kubeconfig":
            print(commands.kubeconfig(settings, name))
        case "env":
            print(commands.environment(settings, name))
        case _:
            with commands.exclusive(console, settings):
                _change(arguments, settings, console)


def _change(arguments: argparse.Namespace, settings: Settings, console: Console) -> None:
    match arguments.command:
        case "up":
            commands.up(console, settings, arguments.name, arguments.workers)
        case "down":
            commands.down(console, settings, arguments.name)
        case "images":
            commands.build_images(console, settings, arguments.name, arguments.images)
        case "load":
            commands.load(console, settings, arguments.name, arguments.images)


def main() -> int:
    """Entry point; 1 after something the person can act on, 130 after an interrupt."""
    arguments = parser().parse_args()
    try:
        run(arguments, read_settings(os.environ), Console())
    except (ClusterError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted; run the same command again to go on", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
