"""Scripts: what the model does at each step of a turn. Read from `#script` lines of a message or given by API."""

from __future__ import annotations

import json
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

ErrorName = Literal[
    "auth", "billing", "rate_limit", "overloaded", "server_error", "context_overflow", "model_not_found", "content_refused",
    "invalid", "payload_too_large", "image_refused", "output_allowance", "reasoning_refused",
]  # fmt: skip

MARK = "#script "
MAX_STEPS = 1000
MAX_SECONDS = 600.0


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Call(_Model):
    """A tool call. `raw` goes out as the arguments' text as it is, valid JSON or not, instead of `arguments`."""

    name: Annotated[str, StringConstraints(min_length=1, max_length=128)]
    arguments: dict[str, object] = Field(default_factory=dict)
    raw: str | None = None
    id: str | None = None

    def text(self) -> str:
        """Return the arguments as they are sent."""
        return json.dumps(self.arguments, ensure_ascii=False) if self.raw is None else self.raw

    def value(self) -> object:
        """Return the arguments as an object, for formats that send one."""
        try:
            return json.loads(self.text())
        except ValueError:
            return {"raw": self.text()}


class Tokens(_Model):
    """Usage numbers. `input` counts cached tokens too, `output` counts reasoning too."""

    input: int = Field(default=0, ge=0)
    output: int = Field(default=0, ge=0)
    cached: int = Field(default=0, ge=0)
    cache_write: int = Field(default=0, ge=0)
    """Anthropic and Bedrock only."""
    reasoning: int = Field(default=0, ge=0)


class Step(_Model):
    """One answer of the model. A step with none of the fields is an empty answer."""

    say: str = ""
    repeat: int = Field(default=1, ge=1, le=1_000_000)
    """Sends `say` this many times, a piece each."""
    chunk: int = Field(default=24, ge=1, le=65_536)
    """Characters in a piece."""
    reason: str = ""
    signature: str | None = None
    calls: tuple[Call, ...] = Field(default=(), max_length=64)
    usage: Tokens | None = None
    finish: Literal["stop", "length", "refused"] | None = None

    first_ms: float = Field(default=0, ge=0, le=MAX_SECONDS * 1000)
    """Silence before the first piece, in milliseconds, after the headers."""
    pause_ms: float = Field(default=0, ge=0, le=MAX_SECONDS * 1000)
    """Silence before each further piece, in milliseconds."""
    hang_seconds: float = Field(default=0, ge=0, le=MAX_SECONDS)
    hang_at: Literal["headers", "start", "middle"] = "middle"
    """Where to be silent for `hang_seconds`: before the headers, after them, or after the first piece."""

    error: ErrorName | None = None
    error_in_stream: bool = False
    """Sends the error as an event after the pieces instead of as a status."""
    status: int | None = Field(default=None, ge=200, le=599)
    headers: dict[str, str] = Field(default_factory=dict, max_length=16)
    message: str | None = None
    cut_after_bytes: int | None = Field(default=None, ge=0)
    """Drops the connection after this many bytes of the body."""
    malformed: Literal["sse", "json", "html"] | None = None
    """Answers bytes that are not the protocol: a broken event, a broken body, a proxy's HTML page."""

    times: int | None = Field(default=None, ge=1)
    """Leaves the list of steps after it was played this often: a fault that happens once."""


class Script(_Model):
    """Steps of a turn, one an assistant message. `then` says what follows the last."""

    id: Annotated[str, StringConstraints(max_length=128)] = ""
    steps: tuple[Step, ...] = Field(min_length=1, max_length=MAX_STEPS)
    then: Literal["end", "repeat"] = "end"


class MatchedScript(Script):
    """A script given by API: plays in turns whose last user message contains `match`."""

    match: Annotated[str, StringConstraints(min_length=1, max_length=1000)]


class BadScript(ValueError):
    """A script that cannot be read; the text says where and why."""


def explain(error: ValidationError) -> str:
    """Say in one line which fields are wrong."""
    return "; ".join(f"{'.'.join(map(str, e['loc'])) or 'script'}: {e['msg']}" for e in error.errors()[:5])


def parse_lines(text: str) -> Script | None:
    """Return the script in a message: every line `#script {…}` holds a script or one step; they are joined in order.

    None when there is no such line. Raises BadScript.
    """
    lines = [line.strip()[len(MARK) :] for line in text.splitlines() if line.strip().startswith(MARK)]
    if not lines:
        return None
    steps: list[Step] = []
    name, then = "", "end"
    for number, line in enumerate(lines, start=1):
        try:
            data = json.loads(line)
            if isinstance(data, dict) and "steps" in data:
                script = Script.model_validate(data)
                name, then = script.id or name, script.then
                steps += script.steps
            else:
                steps.append(Step.model_validate(data))
        except json.JSONDecodeError as error:
            raise BadScript(f"#script line {number} is not JSON: {error}") from error
        except ValidationError as error:
            raise BadScript(f"#script line {number}: {explain(error)}") from error
    if len(steps) > MAX_STEPS:
        raise BadScript(f"a script has at most {MAX_STEPS} steps")
    return Script(id=name, steps=tuple(steps), then="repeat" if then == "repeat" else "end")
