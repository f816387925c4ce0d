"""`clarify`: ask the user something, and end the turn until he answers."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from hermes_agent.tools.base import BARRIER, Arguments, Tool, ToolContext, ToolFailure


class ClarifyArguments(Arguments):
    """Arguments of `clarify`."""

    question: str = Field(min_length=1, max_length=2_000, description="What you need to know, in one or two sentences")
    choices: list[Annotated[str, StringConstraints(min_length=1, max_length=200)]] = Field(
        default=[],
        max_length=4,
        description="Up to four answers to choose from; the user may always answer in his own words",
    )


async def _run(arguments: ClarifyArguments, context: ToolContext) -> str:
    if context.ask is None:
        raise ToolFailure("Nobody can be asked here. Decide yourself.")
    return await context.ask(context.call_id, arguments.question, tuple(arguments.choices))


TOOLS = (
    Tool(
        name="clarify",
        toolset="clarify",
        description=(
            "Ask the user when the task is ambiguous and a wrong guess would cost much. Ends your turn; do not use it to "
            "have dangerous commands approved, that is asked by itself."
        ),
        arguments=ClarifyArguments,
        run=_run,
        access=lambda _: BARRIER,
    ),
)
