"""Providers that a Profile may name without saying more: their wire format and address."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

WireFormat = Literal["chat_completions", "responses", "anthropic_messages", "bedrock_converse"]
ApiMode = Literal[WireFormat, "codex_app_server"]
"""`codex_app_server` is no format of a provider's: the main model's turns are handed to a program in the sandbox."""


@dataclass(frozen=True)
class BuiltInProvider:
    """`base_url` may hold `{region}`, which the provider's Secret names."""

    api_mode: WireFormat
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
CODEX_MODE: Final = "codex_app_server"

BUILT_IN: dict[str, BuiltInProvider] = {
    "openai": BuiltInProvider("chat_completions", "https://api.openai.com/v1"),
    "anthropic": BuiltInProvider("anthropic_messages", "https://api.anthropic.com"),
    "bedrock": BuiltInProvider("bedrock_converse", "https://bedrock-runtime.{region}.amazonaws.com"),
    **{name: BuiltInProvider("chat_completions", url) for name, url in _CHAT.items()},
    SCRIPTED: BuiltInProvider("chat_completions", ""),
}
"""`scripted` is the installation's own model: it has neither address nor key."""
