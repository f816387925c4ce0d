"""The answer when no script says anything: short, friendly, and honest about what this model is."""

from __future__ import annotations

import re

from scripted_model.asked import Asked
from scripted_model.script import Call, Step

TERMINAL = "terminal"
_QUOTED = re.compile(r"\brun\s+`([^`\n]{1,2000})`", re.IGNORECASE)
_BANG = re.compile(r"^\s*!\s*(\S[^\n]{0,2000})$", re.MULTILINE)
_PLAIN = re.compile(r"^\s*(?:please\s+)?run\s+(?:the\s+command\s+)?(\S[^\n]{0,2000}?)\s*$", re.IGNORECASE | re.MULTILINE)

ABOUT = (
    "I am the scripted model that comes with Hermes: I answer by simple rules and do not think. "
    "Say `run ls -la` and I will run a command in this session's sandbox. "
    "To talk to a real model, set `spec.model` of the Profile: `provider` openai or anthropic, `name`, and `secretRef` "
    "with your key."
)


def command_in(text: str) -> str | None:
    """Return the command that a person asks for in plain words: "!ls", "run ls", "run `ls`"."""
    for pattern in (_QUOTED, _BANG, _PLAIN):
        if found := pattern.search(text):
            return found.group(1).strip()
    return None


def talk(asked: Asked) -> Step:
    """Choose what to say or call."""
    command = command_in(asked.text)
    if command is None:
        return Step(say=f"You said: “{_shorten(asked.text, 300)}”\n\n{ABOUT}")
    if TERMINAL not in asked.tools:
        return Step(say=f"I would run `{command}`, but no tool named `{TERMINAL}` is offered to me here.")
    if asked.step == 0:
        return Step(
            say=f"Running `{command}`.",
            calls=(Call(name=TERMINAL, arguments={_parameter(asked): command}),),
        )
    if asked.denied:
        return Step(say=f"As you say: I do not run `{command}`.")
    output = "\n".join(asked.results).strip()
    if not output:
        return Step(say=f"I ran `{command}`. It printed nothing.")
    return Step(say=f"I ran `{command}`. It says:\n\n```\n{_shorten(output, 4000)}\n```")


def _parameter(asked: Asked) -> str:
    properties = asked.tools[TERMINAL].get("properties")
    names = list(properties) if isinstance(properties, dict) else []
    return "command" if "command" in names or not names else str(names[0])


def _shorten(text: str, limit: int) -> str:
    text = text.strip()
    return text if len(text) <= limit else text[:limit] + "…"
