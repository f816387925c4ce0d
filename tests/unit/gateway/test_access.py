"""Keys and routes from files, and what is not in them is refused."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from hermes_gateway.gateway.access import (
    Keyring,
    RecordFile,
    parse_slack,
    parse_telegram,
    parse_webhooks,
    require_scope,
)
from hermes_gateway.gateway.web.errors import ApiError


def keys(*names: str, **more: object) -> bytes:
    records = [
        {
            "id": name,
            "sha256": hashlib.sha256(f"key-{name}".encode()).hexdigest(),
            "owner": name,
            "namespace": "team",
            "profiles": ["helper"],
            **more,
        }
        for name in names
    ]
    return json.dumps({"keys": records}).encode()


def status(keyring: Keyring, authorization: str | None) -> int:
    try:
        keyring.authenticate(authorization)
    except ApiError as error:
        return error.status
    return 200


def test_a_key_opens_its_own_record() -> None:
    keyring = Keyring.parse(keys("ann", "ben"))
    assert keyring.authenticate("Bearer key-ben").owner == "ben"
    assert keyring.authenticate("bearer key-ann").owner == "ann"


@pytest.mark.parametrize("header", [None, "", "key-ann", "Basic key-ann", "Bearer", "Bearer ", "Bearer key-", "Bearer ключ"])
def test_everything_else_is_refused(header: str | None) -> None:
    assert status(Keyring.parse(keys("ann")), header) == 401
    assert status(Keyring(), header) == 401


def test_scopes() -> None:
    record = Keyring.parse(keys("ann", scopes=["chat"])).authenticate("Bearer key-ann")
    require_scope(record, "chat")
    with pytest.raises(ApiError) as caught:
        require_scope(record, "sessions")
    assert caught.value.status == 403


def test_an_owner_cannot_hold_line_breaks() -> None:
    with pytest.raises(ValueError, match="owner must be printable"):
        Keyring.parse(keys("ann", owner="a\nb"))


def test_a_file_is_followed_through_its_life(tmp_path: Path) -> None:
    file = RecordFile(tmp_path / "keys.json", Keyring.parse, Keyring())
    file.refresh()
    assert (len(file.current), file.problem) == (0, None), "a missing file is nobody"
    (tmp_path / "keys.json").write_bytes(keys("ann"))
    file.refresh()
    assert status(file.current, "Bearer key-ann") == 200
    (tmp_path / "keys.json").write_bytes(b'{"keys": [{"sha256": "secret-material"}]}')
    file.refresh()
    assert status(file.current, "Bearer key-ann") == 200, "a broken file changes nothing"
    assert file.problem is not None
    assert "secret-material" not in file.problem
    (tmp_path / "keys.json").write_bytes(keys("ben"))
    file.refresh()
    assert (status(file.current, "Bearer key-ann"), status(file.current, "Bearer key-ben")) == (401, 200)
    assert file.problem is None
    (tmp_path / "keys.json").unlink()
    file.refresh()
    assert status(file.current, "Bearer key-ben") == 401


def test_a_webhook_name_is_there_once() -> None:
    route = {"name": "a", "namespace": "team", "profile": "helper", "secret": "x" * 16}
    assert set(parse_webhooks(json.dumps({"routes": [route]}).encode())) == {"a"}
    with pytest.raises(ValueError, match="twice"):
        parse_webhooks(json.dumps({"routes": [route, route]}).encode())


SLACK = {
    "name": "acme", "namespace": "team", "profile": "helper", "team": "T1", "app": "A1",
    "signing_secret": "a-signing-secret", "bot_token": "a-bot-token",
}  # fmt: skip
TELEGRAM = {"name": "home", "namespace": "team", "profile": "helper", "bot_token": "77:aaaaaaaaaaaaaaaaaaaaaaaa"}


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"admins": ["U1"], "user_commands": ["new", "stauts"]}, "user_commands: there is no command 'stauts'; there"),
        ({"group_admins": ["U1"], "group_user_commands": ["pair"]}, "user_commands: only admins may say the command 'pair'"),
        ({"allow_users": ["anna"]}, "allow_users: 'anna' is no id; one looks like U0123ABCD"),
        ({"admins": ["C0ROOM"]}, "admins: 'C0ROOM' is no id"),
        ({"allow_chats": ["general"]}, "allow_chats: 'general' is no id; one looks like C0123ABCD"),
    ],
)  # fmt: skip
def test_a_name_that_would_allow_nobody_is_refused_when_it_is_read(
    tmp_path: Path, changes: dict[str, object], problem: str
) -> None:
    path = tmp_path / "slack.json"
    file = RecordFile(path, parse_slack, {})
    path.write_text(json.dumps({"accounts": [SLACK | {"admins": ["U1"], "user_commands": ["compact"]}]}))
    file.refresh()
    assert (set(file.current), file.problem) == ({"acme"}, None)
    path.write_text(json.dumps({"accounts": [SLACK | changes]}))
    file.refresh()
    assert file.problem is not None
    assert problem in file.problem
    assert "a-bot-token" not in file.problem
    assert set(file.current) == {"acme"}, "what was good before stays"


def test_telegrams_ids_are_numbers() -> None:
    for changes in ({"allow_users": ["anna"]}, {"allow_users": ["-5"]}, {"allow_chats": ["5"]}, {"admins": ["@anna"]}):
        with pytest.raises(ValueError, match=r"is no id|should match"):
            parse_telegram(json.dumps({"accounts": [TELEGRAM | changes]}).encode())
    good = {"allow_users": ["101"], "allow_chats": ["-1001234567890"]}
    assert set(parse_telegram(json.dumps({"accounts": [TELEGRAM | good]}).encode())) == {"home"}
