"""Looks for text that wants to take over the agent. Pure, and advisory: it finds what `patterns` knows, and no more."""

from __future__ import annotations

import unicodedata

from hermes_contracts.injection.patterns import INVISIBLE, PATTERNS, SELECTORS, TAGS, Scope

WINDOW_CHARACTERS = 65_536
"""Text searched at once; longer text is searched in overlapping pieces, so that nothing enters a prompt unsearched."""
OVERLAP_CHARACTERS = 2_048
_FLAG = "\U0001f3f4"
_JOINER, _NON_JOINER = "\u200d", "\u200c"
_SYMBOLS = ("So", "Sk", "Mn", "Cf")


def scan(text: str, scope: Scope) -> str | None:
    """Return the name of the first pattern that `text` matches, or None."""
    if _hides(text):
        return "invisible_characters"
    folded = unicodedata.normalize("NFKC", text).replace("\u2019", "'")
    step = WINDOW_CHARACTERS - OVERLAP_CHARACTERS
    for start in range(0, max(1, len(folded) - OVERLAP_CHARACTERS), step):
        if (found := _search(folded[start : start + WINDOW_CHARACTERS], scope)) is not None:
            return found
    return None


def scan_name(name: str) -> str | None:
    """Return the name of the pattern that a file's name matches, or None; words in names are joined in many ways."""
    return scan(name, Scope.CONTEXT) or scan(name.replace("_", " ").replace("-", " ").replace(".", " "), Scope.CONTEXT)


def _search(text: str, scope: Scope) -> str | None:
    lower = text.lower()
    for pattern in PATTERNS:
        if pattern.scope <= scope and any(word in lower for word in pattern.needs) and pattern.regex.search(text):
            return pattern.name
    return None


def _hides(text: str) -> bool:
    if text.isascii():
        return False
    for place, character in enumerate(text):
        if character in INVISIBLE and not _honest(text, place):
            return True
    if SELECTORS.search(text):
        return True
    return any(not _in_flag(text, match.start()) for match in TAGS.finditer(text))


def _honest(text: str, place: int) -> bool:
    """Joiners make one picture of two emoji, and join letters in scripts that need them."""
    before = text[place - 1] if place else ""
    after = text[place + 1] if place + 1 < len(text) else ""
    if not before or not after:
        return False
    if text[place] == _JOINER and unicodedata.category(before) in _SYMBOLS and unicodedata.category(after) == "So":
        return before not in INVISIBLE
    joins = text[place] in {_JOINER, _NON_JOINER}
    return joins and all(unicodedata.category(c) in {"Lo", "Mn", "Mc"} and ord(c) > 0x5FF for c in (before, after))


def _in_flag(text: str, place: int) -> bool:
    while place and TAGS.match(text[place]):
        place -= 1
    return text[place] == _FLAG
