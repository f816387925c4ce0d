"""What the gateway has found about chat accounts, webhook routes and approvers. Pure."""

from __future__ import annotations

from pydantic import BaseModel, ValidationError

from hermes_cli.api.client import Probe
from hermes_cli.doctor.finding import Finding, ok, skip
from hermes_cli.errors import CliError


class _Page(BaseModel):
    data: list[Finding]


def check_bindings(found: Probe | CliError) -> list[Finding]:
    """Return the gateway's own findings."""
    if isinstance(found, CliError):
        return [skip("accounts", found.what, found.todo)]
    if found.status == 404:
        return [skip("accounts", "this gateway does not look at accounts and webhook routes", "upgrade it")]
    try:
        page = _Page.model_validate_json(found.text)
    except ValidationError:
        return [
            skip(
                "accounts", f"the gateway could not look at them (status {found.status})", "see kubectl logs of the gateway"
            )
        ]
    return page.data or [ok("accounts", "none are bound to the key's namespace and Profiles")]
