"""Which step answers a request."""

from __future__ import annotations

import hashlib

from scripted_model.asked import Asked
from scripted_model.memory import Memory
from scripted_model.script import BadScript, Script, Step, parse_lines
from scripted_model.talk import talk

OVER = Step(say="The script has no more steps.")
RECORD = Step(say="### State of things\nI keep no record of my own; the lists below come from the conversation itself.")
"""Answers a request for a summary: the scripts in what is to be summarised are material, not asked for."""


def choose(asked: Asked, memory: Memory) -> Step:
    """Return the step for a request and count it if it happens a limited number of times.

    The place in the script is the number of assistant messages since the person spoke last, so a restart changes nothing.
    """
    if not asked.tools and "<material>" in asked.text and "</material>" in asked.text:
        return RECORD
    try:
        script = parse_lines(asked.text)
    except BadScript as error:
        return Step(say=f"I cannot read the script in your message. {error}")
    if script is None:
        script = next((s for s in reversed(memory.scripts.values()) if s.match in asked.text), None)
    if script is None:
        return talk(asked)
    return _step_of(script, asked, memory)


def _step_of(script: Script, asked: Asked, memory: Memory) -> Step:
    name = script.id or hashlib.sha256((asked.conversation + script.model_dump_json()).encode()).hexdigest()
    left = [
        (f"{name}/{place}", step)
        for place, step in enumerate(script.steps)
        if step.times is None or memory.played(f"{name}/{place}") < step.times
    ]
    if asked.step < len(left):
        key, step = left[asked.step]
    elif script.then == "repeat" and left:
        key, step = left[-1]
    else:
        return OVER
    if step.times is not None:
        memory.count(key)
    return step
