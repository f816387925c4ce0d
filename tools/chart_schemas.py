"""Writes JSON schemas of Kubernetes' kinds, for kubeconform, from an API server's own description of itself.

`kubectl get --raw /openapi/v2 | python tools/chart_schemas.py FOLDER`. With them a chart is checked against the version that
runs, without a download. Our own kinds are among them once the definitions are installed; `crds/` is added either way.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import yaml

CRDS = Path(__file__).resolve().parent.parent / "crds"
LOOSE = {
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": {"type": ["string", "integer"]},
    "io.k8s.apimachinery.pkg.api.resource.Quantity": {"type": ["string", "number"]},
}
"""Types that the description calls strings although numbers are accepted."""


def file_name(group: str, version: str, kind: str) -> str:
    """Return the name that kubeconform is told to look for; it calls the core group by its version."""
    return f"{kind}-{group or version}-{version}.json".lower()


def strict(schema: Any) -> Any:
    """Return a schema that refuses fields it does not name, so that a misspelt one is found."""
    if isinstance(schema, list):
        return [strict(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    result = {key: strict(value) for key, value in schema.items() if not key.startswith("x-kubernetes") and key != "format"}
    free = schema.get("x-kubernetes-preserve-unknown-fields") or "additionalProperties" in schema
    if isinstance(schema.get("properties"), dict) and not free:
        result["additionalProperties"] = False
    return result


def built_in(description: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return schemas by file name for the kinds of an OpenAPI v2 description."""
    definitions = {name: strict(found) for name, found in description["definitions"].items()} | LOOSE
    found = {}
    for name, definition in description["definitions"].items():
        for kind in definition.get("x-kubernetes-group-version-kind", []):
            target = file_name(kind["group"], kind["version"], kind["kind"])
            found[target] = {"$ref": f"#/definitions/{name}", "definitions": reachable(name, definitions)}
    return found


def reachable(name: str, definitions: dict[str, Any]) -> dict[str, Any]:
    """Return the definitions that one refers to, itself included."""
    found: dict[str, Any] = {}
    waiting = [name]
    while waiting:
        current = waiting.pop()
        if current not in found and current in definitions:
            found[current] = definitions[current]
            waiting += [part.split('"')[0] for part in json.dumps(found[current]).split('"#/definitions/')[1:]]
    return found


def ours() -> dict[str, dict[str, Any]]:
    """Return schemas by file name for the custom resources in `crds/`."""
    found = {}
    for path in sorted(CRDS.glob("*.yaml")):
        spec = yaml.safe_load(path.read_text())["spec"]
        for version in spec["versions"]:
            schema = strict(version["schema"]["openAPIV3Schema"])
            schema["properties"] |= {
                "apiVersion": {"type": "string"},
                "kind": {"type": "string"},
                "metadata": {"type": "object"},
            }
            found[file_name(spec["group"], version["name"], spec["names"]["kind"])] = schema
    return found


def main() -> int:
    """Write the files; returns the exit code."""
    if len(sys.argv) != 2:
        print(__doc__)
        return 2
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, schema in (built_in(json.load(sys.stdin)) | ours()).items():
        (folder / name).write_text(json.dumps(schema))
    return 0


if __name__ == "__main__":
    sys.exit(main())
