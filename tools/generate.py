"""Write every generated file, or with --check fail when one is stale.

Sources: the pydantic models of the kinds, the operator's permissions, the chart's values, the gateway's routes. Run after
changing any of them:

    python tools/generate.py            write
    python tools/generate.py --check    say what is stale, exit 1
    python tools/generate.py --install  also render manifests/install.yaml, which needs helm on PATH
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / folder) for folder in ("tools", "libs", "operator", "gateway_image")]

from generators import crds, install, openapi, roles, values_schema  # noqa: E402  (the path above makes them importable)


def wanted(root: Path, *, with_install: bool) -> dict[str, str]:
    """Return the text of every generated file, by path below the root."""
    result = {**crds.files(), **roles.files(), **values_schema.files(root), **openapi.files()}
    if with_install:
        result |= install.files(root)
    return result


def stale(root: Path, files: dict[str, str]) -> list[str]:
    """Return the paths whose file is missing or differs."""
    return [path for path, text in files.items() if not (root / path).is_file() or (root / path).read_text() != text]


def main() -> int:
    """Run from the command line; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when a file is stale")
    parser.add_argument("--install", action="store_true", help="include manifests/install.yaml; needs helm")
    arguments = parser.parse_args()
    files = wanted(ROOT, with_install=arguments.install)
    found = stale(ROOT, files)
    for path in found:
        print(f"{'stale' if arguments.check else 'wrote'}: {path}")
        if not arguments.check:
            (ROOT / path).parent.mkdir(parents=True, exist_ok=True)
            (ROOT / path).write_text(files[path])
    if arguments.check and found:
        print("run: python tools/generate.py" + (" --install" if arguments.install else ""))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
