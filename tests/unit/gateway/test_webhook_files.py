"""A webhook's receiver is told where a file is, and nothing of it unless there is one."""

from __future__ import annotations

import json

from hermes_contracts.envelopes import Outbound, OutFile
from hermes_gateway.gateway.delivery.sender import render_body

FILE = OutFile(id="f" + "a" * 25, media_id="m" + "b" * 25, name="r.csv", media_type="text/csv", size=4, caption="Numbers")
SID = "s" + "c" * 25


def part(text: str, file: OutFile | None = None) -> Outbound:
    return Outbound(
        delivery_id=f"{SID}.t.2", sid=SID, turn_id="t", part=2, parts=2, channel="webhook", account="alerts", chat="h",
        thread="", text=text, file=file,
    )  # fmt: skip


def test_a_file_is_a_path_of_the_api() -> None:
    body = json.loads(render_body(part("Numbers", FILE)))
    assert body["text"] == "Numbers"
    assert body["file"] == {
        "id": FILE.id, "name": "r.csv", "media_type": "text/csv", "size": 4, "path": f"/api/sessions/{SID}/files/{FILE.id}",
    }  # fmt: skip
    assert "file" not in json.loads(render_body(part("Text")))
