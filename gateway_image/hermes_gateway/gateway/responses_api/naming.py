"""Which conversation a call names: by a field, by the session header, or by the response before it."""

from __future__ import annotations

from hermes_contracts.access import ApiKeyRecord
from hermes_gateway.gateway.openai_api.calls import Calls
from hermes_gateway.gateway.openai_api.reading import SESSION_HEADER, invalid
from hermes_gateway.gateway.responses_api import reading
from hermes_gateway.gateway.responses_api.protocol import ResponsesRequest
from hermes_gateway.gateway.responses_api.records import ResponseRecords


async def named_client_id(
    calls: Calls,
    responses: ResponseRecords,
    caller: ApiKeyRecord,
    request: ResponsesRequest,
    header: str | None,
    *,
    field: str = "conversation",
) -> str | None:
    """Return the client id of the conversation that a call names, None when it names none. `field` is what the caller knows
    `conversation` by. Raises ApiError 400 or 404."""
    named = reading.named_conversation(request, header)
    if request.previous_response_id is not None:
        previous = await responses.find(caller, request.previous_response_id, "previous_response_id")
        if previous.model != request.model:
            why = f"belongs to the model {previous.model!r}: a conversation stays with its model"
            raise invalid("previous_response_id", why)
        return previous.client_id
    if named is None:
        return None
    return await calls.session_named(caller, request.model, named, SESSION_HEADER if header is not None else field)
