"""Turns a pydantic model into the structural schema that a CustomResourceDefinition wants, with every size bounded."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

Schema = dict[str, Any]

MAX_TEXT = 1024
"""Longest string of a status field whose model names no bound, in characters."""
MAX_ITEMS = 64
"""Longest list of a status field whose model names no bound."""
_TIMES = ("lastTransitionTime", "lastActivity", "nextRun", "lastScheduled", "countedFrom", "time")
FORMATS = dict.fromkeys(_TIMES, "date-time")
"""Fields that are text in the models and times in Kubernetes."""
_FIXED_LENGTH_PATTERNS = {"^[a-z][a-z0-9-]{0,31}$": 32}
_KEPT = (
    "type", "description", "default", "enum", "pattern", "minimum", "maximum", "minLength", "maxLength", "minItems",
    "maxItems", "format",
)  # fmt: skip


class SchemaError(Exception):
    """A model cannot be shown to Kubernetes; the message names the field and what to change."""


def structural(model: type[BaseModel], *, where: str, strict: bool) -> Schema:
    """Return the structural schema of a model.

    `strict` demands that the model bounds every string and list itself, which specs must and statuses need not.
    Raises SchemaError for unions, for unbounded fields of a strict model, and for open objects.
    """
    raw = model.model_json_schema(by_alias=True)
    return _convert(raw, raw.get("$defs", {}), where, strict)


def _convert(node: Schema, definitions: dict[str, Schema], where: str, strict: bool) -> Schema:
    node = _resolve(node, definitions, where)
    if "const" in node:
        node = {**node, "enum": [node["const"]]}
    if "type" not in node:
        raise SchemaError(f"{where}: has no single type; give the field one")
    result: Schema = {key: _without_nulls(node[key]) for key in _KEPT if key in node and node[key] is not None}
    kind = node["type"]
    if kind == "object":
        _object(result, node, definitions, where, strict)
    elif kind == "array":
        _array(result, node, definitions, where, strict)
    elif kind == "string":
        _string(result, where, strict)
    elif kind == "integer":
        result["format"] = "int64"
    return result


def _resolve(node: Schema, definitions: dict[str, Schema], where: str) -> Schema:
    """Inline a reference and drop `null` from a union.

    An optional field is simply not required: the API server prunes an explicit null of a field that is not nullable,
    so a null and an absent field mean the same, in rules too.
    """
    if "anyOf" in node:
        options = [option for option in node["anyOf"] if option.get("type") != "null"]
        if len(options) != 1:
            raise SchemaError(f"{where}: a union of {len(options)} types; Kubernetes needs one")
        rest = {key: value for key, value in node.items() if key != "anyOf"}
        return {**_resolve(options[0], definitions, where), **rest}
    if "$ref" in node:
        target = definitions[node["$ref"].rsplit("/", 1)[1]]
        rest = {key: value for key, value in node.items() if key != "$ref"}
        return {**_resolve(target, definitions, where), **rest}
    return node


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(child) for key, child in value.items() if child is not None}
    return list(value) if isinstance(value, tuple) else value


def _object(result: Schema, node: Schema, definitions: dict[str, Schema], where: str, strict: bool) -> None:
    properties = node.get("properties")
    if properties is None:
        values = node.get("additionalProperties")
        if not isinstance(values, dict) or "maxProperties" not in node:
            raise SchemaError(f"{where}: a map needs a value type and max_length")
        result["maxProperties"] = node["maxProperties"]
        result["additionalProperties"] = _convert(values, definitions, f"{where}.*", strict)
        return
    result["properties"] = {
        name: _convert(child, definitions, f"{where}.{name}", strict) for name, child in properties.items()
    }
    for name, schema in result["properties"].items():
        if name in FORMATS:
            schema["format"] = FORMATS[name]
    if node.get("required"):
        result["required"] = list(node["required"])


def _array(result: Schema, node: Schema, definitions: dict[str, Schema], where: str, strict: bool) -> None:
    if "maxItems" not in result:
        if strict:
            raise SchemaError(f"{where}: an unbounded list; give the field max_length")
        result["maxItems"] = MAX_ITEMS
    result["items"] = _convert(node["items"], definitions, f"{where}[]", strict)
    if where.endswith(".conditions"):
        result |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}
    elif "enum" in result["items"]:
        result["x-kubernetes-list-type"] = "set"
    else:
        result["x-kubernetes-list-type"] = "atomic"


def _string(result: Schema, where: str, strict: bool) -> None:
    if "enum" in result or "maxLength" in result:
        return
    fixed = _FIXED_LENGTH_PATTERNS.get(result.get("pattern", ""))
    if fixed is None and strict:
        raise SchemaError(f"{where}: an unbounded string; give the field max_length")
    result["maxLength"] = fixed or MAX_TEXT
