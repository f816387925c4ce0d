"""Search in the workspace: ripgrep there when the image has it, Python otherwise."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, ValidationError

from hermes_agent.sandbox.errors import Invalid, SandboxTimeout
from hermes_agent.sandbox.execution import ExecStream, Fd, Output
from hermes_agent.sandbox.messages import Answer, Hit, Request

MAX_LINE = 64 * 1024


class SearchQuery(Request):
    """What to look for: a regular expression in the `content`, or a glob over the names of `files`."""

    pattern: str = Field(min_length=1, max_length=4096)
    target: Literal["content", "files"] = "content"
    path: str = "."
    glob: str | None = None
    """Only files of this name pattern; for target `content`."""
    context: int = Field(default=0, ge=0, le=20)
    offset: int = Field(default=0, ge=0)
    limit: int = Field(default=50, ge=1, le=2000)
    timeout_seconds: float = 30.0

    def wire(self) -> dict[str, object]:
        """The request frame's object."""
        body = self.model_dump(include={"pattern", "target", "path", "glob", "context"}, exclude_none=True)
        return {"op": "search", "timeout_ms": max(1, int(self.timeout_seconds * 1000)), **body}


class SearchResult(Answer):
    """Hits from `offset` on, in order of path and line; `more` says that the search was cut at `limit`."""

    hits: tuple[Hit, ...]
    more: bool


async def gather(stream: ExecStream, query: SearchQuery) -> SearchResult:
    """Take in hits until there are enough, then stop the search. Lines of context do not count.

    Raises:
        Invalid: the pattern is no regular expression.
        SandboxTimeout: the search took longer than the query allows.
    """
    hits: list[Hit] = []
    errors = rest = b""
    seen = 0
    async for item in stream:
        if not isinstance(item, Output):
            break
        if item.fd is Fd.STDERR:
            errors = (errors + item.data)[:2000]
            continue
        *lines, rest = (rest + item.data).split(b"\n")
        if len(rest) > MAX_LINE:
            raise Invalid("the search printed a line that is too long")
        for line in lines:
            hit = _hit(line)
            seen += hit.match
            if seen > query.offset + query.limit:
                return SearchResult(hits=tuple(hits), more=True)
            if seen > query.offset or (not hit.match and seen == query.offset):
                hits.append(hit)
            if len(hits) > 41 * query.limit:
                return SearchResult(hits=tuple(hits), more=True)
    if stream.exit and stream.exit.killed:
        raise SandboxTimeout(f"the search was stopped ({stream.exit.killed}); search a smaller path")
    if stream.exit and stream.exit.code:
        raise Invalid(f"pattern: {errors.decode('utf-8', 'replace').strip() or 'the search failed'}")
    return SearchResult(hits=tuple(hits), more=False)


def _hit(line: bytes) -> Hit:
    try:
        return Hit.model_validate_json(line)
    except ValidationError as error:
        raise Invalid("the search printed something that is not a hit") from error
