"""What a tool is: a name, arguments, what it touches, and an async function from arguments to text for the model."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict

from hermes_agent.store_port import Store
from hermes_agent.tools.sandbox_port import SandboxPort
from hermes_contracts.conversation import ToolSpec
from hermes_contracts.envelopes import Inbound, OutFile


class Arguments(BaseModel):
    """Base of argument models. Extra arguments are ignored: models invent them, and refusing costs a round."""

    model_config = ConfigDict(frozen=True, extra="ignore")


A = TypeVar("A", bound=Arguments)


class ToolFailure(Exception):
    """The call failed; the text says what was wrong and what to do, and goes to the model."""


@dataclass(frozen=True)
class Access:
    """What a call touches, so that independent calls may run together. `barrier` calls run alone."""

    reads: frozenset[str] = frozenset()
    writes: frozenset[str] = frozenset()
    barrier: bool = False


BARRIER = Access(barrier=True)


class FileOffers(Protocol):
    """Takes files that go with the answer."""

    async def offer(self, name: str, data: bytes, caption: str) -> OutFile:
        """Take one. Raises ToolFailure."""
        ...


@dataclass(frozen=True)
class ToolContext:
    """What a running call may use."""

    call_id: str
    sandbox: SandboxPort
    ask: Callable[[str, str, tuple[str, ...]], Awaitable[str]] | None = None
    """Puts a question to the person: call id, question, choices; None where nobody can be asked."""
    jobs: Store | None = None
    """The operator's jobs, as this session's agent calls them; None where there are none."""
    inbound: Inbound | None = None
    """The message that the turn answers."""
    offers: FileOffers | None = None
    """Takes files for the person; None where none can be sent."""


@dataclass(frozen=True)
class Tool(Generic[A]):
    """One tool."""

    name: str
    toolset: str
    description: str
    arguments: type[A]
    run: Callable[[A, ToolContext], Awaitable[str]]
    access: Callable[[A], Access]
    deadline_seconds: Callable[[A], float] = field(default=lambda _: 120.0)
    """Longest run, in seconds; the call is cancelled after it."""
    tidies: Callable[[A], bool] = field(default=lambda _: False)
    """Whether the call only cleans up: what the model said beside it is still its answer when nothing follows."""
    lenient: bool = False
    """Failing or waiting is part of this tool's normal work: repetition is told to the model and never ends a turn."""
    command: Callable[[A], str] = field(default=lambda _: "")
    """The call as a shell command that does as much, for the approval rules; empty: it needs no approval."""
    max_characters: int = 100_000
    """Longest result; the middle of a longer one is spilled to a file."""

    def spec(self) -> ToolSpec:
        """Return the tool as the model sees it."""
        return ToolSpec(name=self.name, description=self.description, parameters=schema_of(self.arguments))


AnyTool = Tool[Any]


def schema_of(model: type[BaseModel]) -> dict[str, object]:
    """Return a model's JSON Schema without titles and null alternatives: shorter, and every provider takes it."""
    schema = model.model_json_schema()
    properties = {name: _plain(value) for name, value in schema.get("properties", {}).items()}
    return {"type": "object", "properties": properties, "required": list(schema.get("required", []))}


def _plain(field_schema: dict[str, Any]) -> dict[str, object]:
    result = {key: value for key, value in field_schema.items() if key not in {"title", "anyOf"}}
    options = [option for option in field_schema.get("anyOf", []) if option.get("type") != "null"]
    if len(options) == 1:
        result = {**{k: v for k, v in options[0].items() if k != "title"}, **result}
    if result.get("default", ...) is None:
        del result["default"]
    return result
