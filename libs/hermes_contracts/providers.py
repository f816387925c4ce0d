"""Providers that a Profile may name without saying more: their wire format and address."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

ApiMode = Literal["chat_completions", "responses", "anthropic_messages", "bedrock_converse", "codex_app_server"]


@dataclass(frozen=True)
class BuiltInProvider:
    """`base_url` may hold `{region}`, which the provider's Secret names."""

    api_mode: ApiMode
    base_url: str


_CHAT = {
    "openrouter": "https://openrouter.ai/api/v1",
    "gemini": "https://generativelanguage.googleapis.com/v1beta/openai",
    "groq": "https://api.groq.com/openai/v1",
    "mistral": "https://api.mistral.ai/v1",
    "deepseek": "https://api.deepseek.com/v1",
    "xai": "https://api.x.ai/v1",
    "together": "https://api.together.xyz/v1",
    "fireworks": "https://api.fireworks.ai/inference/v1",
    "cerebras": "https://api.cerebras.ai/v1",
    "nous": "https://inference-api.nousresearch.com/v1",
}

SCRIPTED = "scripted"
CODEX = "codex"

BUILT_IN: dict[str, BuiltInProvider] = {
    "openai": BuiltInProvider("chat_completions", "https://api.openai.com/v1"),
    "anthropic": BuiltInProvider("anthropic_messages", "https://api.anthropic.com"),
    "bedrock": BuiltInProvider("bedrock_converse", "https://bedrock-runtime.{region}.amazonaws.com"),
    **{name: BuiltInProvider("chat_completions", url) for name, url in _CHAT.items()},
    SCRIPTED: BuiltInProvider("chat_completions", ""),
    CODEX: BuiltInProvider("codex_app_server", ""),
}
"""`scripted` is the installation's own model; `codex` runs in the sandbox: neither has an address or a key."""
