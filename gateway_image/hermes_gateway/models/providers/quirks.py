"""Where OpenAI-compatible servers differ, by host: as data, so that a new one is a line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit


@dataclass(frozen=True)
class Quirks:
    """How one host wants its Chat Completions."""

    limit_name: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    effort: Literal["reasoning_effort", "reasoning", "thinking"] = "reasoning_effort"
    """As a word (OpenAI), an object with the word (OpenRouter), or on and off (DeepSeek)."""
    echo: bool = False
    """Whether it wants the model's thoughts back as `reasoning_content`."""
    cache_key: bool = False
    """Whether it takes `prompt_cache_key`."""
    marks: bool = False
    """Whether it passes Anthropic's cache markers on to a Claude, which caches nothing without them."""
    signed_calls: bool = False
    """Whether its calls carry a signature that must come back with them (Gemini)."""
    id_length: int = 40
    """Characters in a call's id; 9 are letters and digits only (Mistral)."""


_DEFAULT = Quirks()
_BY_HOST: tuple[tuple[str, Quirks], ...] = (
    ("api.openai.com", Quirks(limit_name="max_completion_tokens", cache_key=True)),
    ("openai.azure.com", Quirks(limit_name="max_completion_tokens", cache_key=True)),
    ("openrouter.ai", Quirks(effort="reasoning", marks=True)),
    ("api.deepseek.com", Quirks(effort="thinking", echo=True)),
    ("api.moonshot.ai", Quirks(effort="thinking", echo=True)),
    ("generativelanguage.googleapis.com", Quirks(signed_calls=True)),
    ("api.mistral.ai", Quirks(id_length=9)),
)


def quirks_of(base_url: str) -> Quirks:
    """Return what is special about the host of an address."""
    host = (urlsplit(base_url).hostname or "").lower()
    return next((quirks for name, quirks in _BY_HOST if host == name or host.endswith("." + name)), _DEFAULT)
