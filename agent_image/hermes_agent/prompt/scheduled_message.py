"""The message of a scheduled run, as the transcript keeps it. Pure: the same run and output give the same bytes."""

from __future__ import annotations

from hermes_agent.model.hygiene import clean_text
from hermes_contracts.conversation import Message
from hermes_contracts.envelopes import CronRun, Inbound

SILENT = "[SILENT]"
"""An answer that is exactly this is sent to nobody."""

_HEAD = (
    "[scheduled run of the job {job}, {run}: nobody reads along and nobody can answer. Do not ask; finish, then report in "
    "your last message, which is all that is sent. If there is nothing worth sending, answer with exactly {silent}]"
)


def scheduled_message(inbound: Inbound, run: CronRun, script_output: str | None = None, skills: str = "") -> Message:
    """Return the message: what kind of run this is, skills, the prompt, earlier answers, and what the script printed."""
    blocks = [_HEAD.format(job=run.job, run=run.run, silent=SILENT), skills, clean_text(inbound.text).strip()]
    for earlier in run.context:
        text = clean_text(earlier.text).strip().replace("</answer>", "<\\/answer>")
        blocks.append(f'<answer job="{earlier.job}">\n{text}\n</answer>')
    if script_output is not None:
        text = script_output.replace("</script_output>", "<\\/script_output>")
        blocks.append(f"<script_output>\n{text}\n</script_output>")
    return Message.user("\n\n".join(block for block in blocks if block))
