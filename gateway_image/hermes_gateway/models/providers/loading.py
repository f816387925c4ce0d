"""Makes the providers. Importing the SDKs takes seconds: `load` first, in a thread."""

from __future__ import annotations

import importlib
import logging

import httpx2

from hermes_contracts.providers import ApiMode
from hermes_gateway.models.providers.base import Provider


def load() -> None:
    """Import the SDKs; call it at start, never while a person waits."""
    for name in ("openai", "anthropic", "bedrock"):
        importlib.import_module(f"hermes_gateway.models.providers.{name}")
    for name in ("openai", "anthropic", "botocore", "httpx2", "httpcore2"):
        # Below WARNING they write whole requests, whatever their own environment variables say.
        logging.getLogger(name).setLevel(logging.WARNING)


def make_providers(http: httpx2.AsyncClient) -> dict[ApiMode, Provider]:
    """Return a provider for each wire format, all of them over one connection pool."""
    from hermes_gateway.models.providers.anthropic import AnthropicProvider
    from hermes_gateway.models.providers.bedrock import BedrockProvider
    from hermes_gateway.models.providers.openai import chat_completions, responses

    return {
        "chat_completions": chat_completions(http),
        "responses": responses(http),
        "anthropic_messages": AnthropicProvider(http),
        "bedrock_converse": BedrockProvider(http),
    }
