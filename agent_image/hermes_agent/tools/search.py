"""`search_files`: find text in files, or files by name."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from hermes_agent.tools.base import Access, Arguments, Tool, ToolContext
from hermes_agent.tools.files import path_key
from hermes_agent.tools.sandbox_port import SearchRequest
from hermes_agent.tools.text import cut_lines, window

MAX_RESULTS = 500
MAX_CONTEXT = 20
_MAX_BYTES = 50_000


class SearchArguments(Arguments):
    """Arguments of `search_files`."""

    pattern: str = Field(
        min_length=1, max_length=4096, description="Regular expression for content; glob such as *.py for files"
    )
    target: Literal["content", "files"] = Field(default="content", description="Search in files, or for files by name")
    path: str = Field(default=".", max_length=4096, description="Directory or file to search; default is the workspace")
    file_glob: str | None = Field(default=None, max_length=256, description="Only files with such names, for example *.ts")
    limit: int = Field(default=50, ge=1, description=f"Results to return, at most {MAX_RESULTS}")
    offset: int = Field(default=0, ge=0, le=100_000, description="Results to skip")
    output_mode: Literal["content", "files_only", "count"] = Field(
        default="content", description="Matching lines, only the files that match, or matches per file"
    )
    context: int = Field(default=0, ge=0, description=f"Lines to show around each match, at most {MAX_CONTEXT}")
    order: Literal["path", "modified"] = Field(default="path", description="By path, or newest file first")


async def _run(arguments: SearchArguments, context: ToolContext) -> str:
    result = await context.sandbox.search(
        SearchRequest(
            pattern=arguments.pattern,
            target=arguments.target,
            path=arguments.path,
            file_glob=arguments.file_glob or "",
            limit=min(arguments.limit, MAX_RESULTS),
            offset=arguments.offset,
            context=min(arguments.context, MAX_CONTEXT),
            order=arguments.order,
            output_mode=arguments.output_mode,
        )
    )
    if not result.lines:
        return "No results."
    body = window(cut_lines("\n".join(result.lines)), max_bytes=_MAX_BYTES)
    return f"{body}\n[more: offset {arguments.offset + min(arguments.limit, MAX_RESULTS)}]" if result.more else body


TOOLS = (
    Tool(
        name="search_files",
        toolset="file",
        description="Search the contents of files with a regular expression, or find files by name.",
        arguments=SearchArguments,
        run=_run,
        access=lambda a: Access(reads=frozenset({path_key(a.path)})),
    ),
)
