"""What is changed about a call that was refused, once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hermes_contracts.conversation import ImagePart, Message, ReasoningPart, Role, TextPart, ToolSpec
from hermes_contracts.model_api import ModelRequest
from hermes_gateway.models.providers.errors import HINTS, ProviderError, Reason
from hermes_gateway.models.providers.remedies import IMAGE_LEFT_OUT, repaired
from hermes_gateway.models.target import ApiKey, KnownModel, Target

KNOWN = KnownModel(context_window=200_000, max_output_tokens=32_000, vision=True, reasoning=True, prompt_cache=True)
TARGET = Target("p", "anthropic_messages", "m", "https://api.example.com", ApiKey("k"), KNOWN, effort="High")
SCHEMA = {
    "type": "object", "required": ["format"],
    "properties": {
        "format": {"type": "string", "pattern": "^x$", "description": "format of it"},
        "list": {"type": "array", "items": {"type": "string", "format": "uri"}},
        "kind": {"anyOf": [{"type": "string", "pattern": "a"}, {"enum": ["pattern", "format"]}]},
    },
}  # fmt: skip
REQUEST = ModelRequest(
    turn_id="t", step=0, system="s", tools=(ToolSpec(name="f", description="d", parameters=SCHEMA),),
    messages=(
        Message(
            role=Role.USER,
            parts=(TextPart(text="see"), ImagePart(media_id="m" + "a" * 25, media_type="image/png", size=3)),
        ),
        Message(role=Role.ASSISTANT, parts=(ReasoningPart(text="hm", signature="s"), TextPart(text="I see"))),
    ),
)  # fmt: skip


def _repaired(reason: Reason, request: ModelRequest = REQUEST, target: Target = TARGET, limit: int = 0) -> ModelRequest:
    change = repaired(request, target, ProviderError(reason, max_output_tokens=limit))
    assert change is not None
    assert repaired(*change, ProviderError(reason, max_output_tokens=limit)) is None, "nothing is left to change"
    return change[0]


def test_thoughts_are_left_out_and_the_model_does_not_think_without_them() -> None:
    for reason in (Reason.THINKING_SIGNATURE, Reason.INVALID_ENCRYPTED_CONTENT):
        messages = _repaired(reason).messages
        assert messages[0] is REQUEST.messages[0] and messages[1].parts == (TextPart(text="I see"),)
    change = repaired(REQUEST, TARGET, ProviderError(Reason.THINKING_SIGNATURE))
    assert change is not None and change[1].effort == "Default"
    responses = replace(TARGET, api_mode="responses")
    change = repaired(REQUEST, responses, ProviderError(Reason.INVALID_ENCRYPTED_CONTENT))
    assert change is not None and change[1].effort == "High"


def test_pictures_become_a_sentence() -> None:
    for reason in (Reason.IMAGE_TOO_LARGE, Reason.IMAGES_UNSUPPORTED):
        assert _repaired(reason).messages[0].parts == (TextPart(text="see"), TextPart(text=IMAGE_LEFT_OUT))


def test_patterns_go_and_properties_of_that_name_stay() -> None:
    schema = _repaired(Reason.SCHEMA_PATTERN).tools[0].parameters
    assert schema == {
        "type": "object", "required": ["format"],
        "properties": {
            "format": {"type": "string", "description": "format of it"},
            "list": {"type": "array", "items": {"type": "string"}},
            "kind": {"anyOf": [{"type": "string"}, {"enum": ["pattern", "format"]}]},
        },
    }  # fmt: skip


def test_the_effort_goes() -> None:
    change = repaired(REQUEST, TARGET, ProviderError(Reason.REASONING_MANDATORY))
    assert change == (REQUEST, replace(TARGET, effort="Default"))
    assert repaired(REQUEST, replace(TARGET, effort="Default"), ProviderError(Reason.REASONING_MANDATORY)) is None


@pytest.mark.parametrize(
    ("asked", "profile", "allowed", "limit"),
    [(None, None, 16_384, 16_320), (50_000, None, 16_384, 16_320), (None, 40_000, 200, 256), (None, None, 0, 4096)],
)
def test_a_shorter_answer_is_asked_for(asked: int | None, profile: int | None, allowed: int, limit: int) -> None:
    request = REQUEST.model_copy(update={"max_output_tokens": asked})
    target = replace(TARGET, max_output_tokens=profile)
    change = repaired(request, target, ProviderError(Reason.OUTPUT_ALLOWANCE, max_output_tokens=allowed))
    assert change is not None and change[0].max_output_tokens == limit
    short = REQUEST.model_copy(update={"max_output_tokens": 100})
    assert repaired(short, target, ProviderError(Reason.OUTPUT_ALLOWANCE, max_output_tokens=50_000)) is None


def test_most_reasons_have_no_remedy() -> None:
    for reason in Reason:
        if HINTS[reason].remedy is None:
            assert repaired(REQUEST, TARGET, ProviderError(reason)) is None
