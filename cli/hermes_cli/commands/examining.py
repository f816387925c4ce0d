"""`hermes doctor`."""

from __future__ import annotations

from rich.text import Text

from hermes_cli.doctor.examination import examine
from hermes_cli.doctor.finding import Finding
from hermes_cli.errors import ExitCode
from hermes_cli.options import Options
from hermes_cli.show.console import output, print_json
from hermes_cli.show.text import printable

_SHOWN = {"ok": ("ok  ", "green"), "warn": ("warn", "yellow"), "fail": ("FAIL", "bold red"), "skip": ("skip", "dim")}


async def doctor(options: Options, *, send: bool, as_json: bool) -> ExitCode:
    """Examine, print findings as they are made, and end with 1 when something does not work."""
    findings: list[Finding] = []
    console = output()
    async for finding in examine(options, send=send):
        findings.append(finding)
        if not as_json:
            console.print(render(finding), soft_wrap=True)
    if as_json:
        print_json(findings)
    failed = sum(finding.state == "fail" for finding in findings)
    warned = sum(finding.state == "warn" for finding in findings)
    if not as_json:
        console.print(f"\n{len(findings)} checks, {failed} failed, {warned} to look at", style="bold" if failed else "")
    return ExitCode.FAILED if failed else ExitCode.OK


def render(finding: Finding) -> Text:
    """Return a finding as a line, and one more with what to do. Pure."""
    word, style = _SHOWN[finding.state]
    line = Text.assemble((word, style), " ", (finding.check, "bold"))
    if finding.message:
        line.append(f": {printable(finding.message)}")
    if finding.todo:
        line.append(f"\n     → {printable(finding.todo)}", style="cyan")
    return line
