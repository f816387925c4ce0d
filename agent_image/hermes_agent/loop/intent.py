"""Recognises an answer that only announces work. Pure; strict, because a good answer must never be taken for one."""

from __future__ import annotations

import re

_LONGEST = 600
_VERBS = (
    "check|look|run|read|inspect|create|write|search|open|fix|investigate|explore|examine|list|test|update|implement|"
    "analy[sz]e|start|begin|review|find|execute|install|build|edit|fetch|try|verify|scan|prepare|set up"
)
_OPENERS = r"(?:(?:okay|ok|sure|alright|great|first|now|next)[,.!]?\s+)?(?:now\s+)?"
_SUBJECTS = r"(?:I'll|I\u2019ll|I will|I'm going to|I\u2019m going to|I am going to|let me)\s+"
_ADVERBS = r"(?:now\s+|first\s+|go ahead and\s+|quickly\s+|start by\s+|begin by\s+)?"
_ANNOUNCES = re.compile(
    rf"(?:^|[.!:]\s+){_OPENERS}{_SUBJECTS}{_ADVERBS}(?:{_VERBS}|(?:check|look|read|runn|list|search)ing)\b[^?]*[.:\u2026]\s*$",
    re.IGNORECASE,
)
_CONDITION = re.compile(
    r"\b(?:if you|once you|when you|after you|let me know|would you|do you want|shall I|should I)\b", re.IGNORECASE
)


def announces(text: str) -> bool:
    """Tell whether a text says what will be done now, asks nothing and gives nothing."""
    text = text.strip()
    if not text or len(text) > _LONGEST or "?" in text or "```" in text or _CONDITION.search(text):
        return False
    last = [line for line in text.split("\n") if line.strip()][-1]
    return bool(_ANNOUNCES.search(last))
