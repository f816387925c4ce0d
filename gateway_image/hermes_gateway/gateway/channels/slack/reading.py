"""What Slack sends, as messages of people. Pure."""

from __future__ import annotations

import re
from typing import Any

from hermes_contracts.access import SlackAccount
from hermes_contracts.envelopes import MAX_COMMAND_BYTES, MAX_TEXT_CHARACTERS
from hermes_gateway.gateway.channels.base import MAX_ATTACHMENTS, Attachment, ChatMessage, Pressed
from hermes_gateway.gateway.channels.raw import Refused, object_at
from hermes_gateway.gateway.channels.slack.blocks import BLOCK

CHANNEL = "slack"

_ID = re.compile(r"[A-Z0-9]{2,32}")
_TIME = re.compile(r"[0-9]{1,12}\.[0-9]{1,9}")
_MENTION = re.compile(r"<@([A-Z0-9]{2,32})(?:\|[^>]*)?>")
_LINK = re.compile(r"<((?:https?|mailto):[^|>]+)(?:\|([^>]*))?>")
_CHAT = re.compile(r"<#([A-Z0-9]{2,32})(?:\|([^>]*))?>")
_SPOKEN = frozenset({None, "file_share", "thread_broadcast"})
"""Kinds of messages that a person wrote; the others tell of edits, joins and the like."""


def read_event(account: SlackAccount, body: dict[str, Any]) -> ChatMessage | Refused:
    """Read an `event_callback` of the Events API.

    Mentions come as `app_mention` and, where the app listens to the channel, as `message`, too: in channels only the first
    counts. Both name the same message by chat and time, which is what makes it the same update.
    """
    if body.get("team_id") != account.team or body.get("api_app_id") != account.app:
        return Refused("another workspace or app than the account's")
    event = body.get("event")
    if not isinstance(event, dict):
        return Refused("no event")
    direct = event.get("channel_type") == "im" or str(event.get("channel", "")).startswith("D")
    if event.get("type") != ("message" if direct else "app_mention"):
        return Refused("not a direct message or a mention")
    if event.get("subtype") not in _SPOKEN or event.get("hidden"):
        return Refused("nothing that a person wrote")
    own = _own_users(body)
    chat, user, time = str(event.get("channel", "")), str(event.get("user", "")), str(event.get("ts", ""))
    if not (_ID.fullmatch(chat) and _ID.fullmatch(user) and _TIME.fullmatch(time)) or user in own:
        return Refused("no chat, person or time, or our own message")
    thread = str(event.get("thread_ts", ""))
    thread = thread if _TIME.fullmatch(thread) else ""
    text = event.get("text")
    return ChatMessage(
        channel=CHANNEL,
        account=account.account,
        team=account.team,
        user=user,
        chat=chat,
        kind="direct" if direct else "group",
        thread=thread,
        # In a channel each mention outside of a thread opens one, so that answers do not fill the room.
        reply_thread=thread if direct else thread or time,
        update_id=f"{chat}:{time}",
        order=time,
        text=read_text(text if isinstance(text, str) else "", own)[:MAX_TEXT_CHARACTERS],
        bot=bool(event.get("bot_id")),
        foreign=_is_foreign(account, event),
        attachments=_attachments(event.get("files")),
    )


def read_command(account: SlackAccount, form: dict[str, str], received: str) -> ChatMessage | Refused:
    """Read a slash command: `/hermes stop` and `/stop` are the same. Its trigger id identifies it, and its time is ours
    (`received`, in seconds), because Slack names none."""
    if form.get("team_id") != account.team or form.get("api_app_id") != account.app:
        return Refused("another workspace or app than the account's")
    chat, user, trigger = form.get("channel_id", ""), form.get("user_id", ""), form.get("trigger_id", "")
    if not (_ID.fullmatch(chat) and _ID.fullmatch(user) and re.fullmatch(r"[\x21-\x7e]{1,150}", trigger)):
        return Refused("no chat, person or trigger")
    name, rest = form.get("command", "").strip().lstrip("/"), form.get("text", "").strip()
    words = rest if name == "hermes" else f"{name} {rest}"
    direct = chat.startswith("D")
    return ChatMessage(
        channel=CHANNEL,
        account=account.account,
        team=account.team,
        user=user,
        chat=chat,
        kind="direct" if direct else "group",
        thread="",
        reply_thread="",
        update_id=f"command:{trigger}",
        order=received,
        text="/" + (words.strip() or "help"),
        said_once=True,
        foreign=bool(form.get("user_team")) and form.get("user_team") != account.team,
    )


def read_press(account: SlackAccount, payload: dict[str, Any]) -> ChatMessage | Refused:
    """Read the press of one of our buttons (`block_actions`): it says the button's command in the name of who pressed it."""
    team, user, message = object_at(payload, "team"), object_at(payload, "user"), object_at(payload, "message")
    if team.get("id") != account.team or payload.get("api_app_id") != account.app:
        return Refused("another workspace or app than the account's")
    actions = payload.get("actions")
    action = actions[0] if isinstance(actions, list) and actions and isinstance(actions[0], dict) else {}
    if payload.get("type") != "block_actions" or action.get("block_id") != BLOCK:
        return Refused("not a button of ours")
    chat, who = str(object_at(payload, "channel").get("id", "")), str(user.get("id", ""))
    time, pressed, thread = str(message.get("ts", "")), str(action.get("action_ts", "")), str(message.get("thread_ts", ""))
    command = str(action.get("value", ""))
    known = _ID.fullmatch(chat) and _ID.fullmatch(who) and _TIME.fullmatch(time) and _TIME.fullmatch(pressed)
    if not known or not command.startswith("/") or len(command) > MAX_COMMAND_BYTES:
        return Refused("no chat, person, message or command")
    return ChatMessage(
        channel=CHANNEL,
        account=account.account,
        team=account.team,
        user=who,
        chat=chat,
        kind="direct" if chat.startswith("D") else "group",
        thread=thread if _TIME.fullmatch(thread) else "",
        reply_thread=thread if _TIME.fullmatch(thread) else "",
        update_id=f"press:{chat}:{time}:{pressed}",
        order=pressed,
        text=command,
        foreign=bool(user.get("team_id")) and user.get("team_id") != account.team,
        pressed=Pressed(time, str(message.get("text", ""))[:MAX_TEXT_CHARACTERS]),
    )


def read_text(text: str, own: frozenset[str]) -> str:
    """Return what a person typed: the bot's own mention is left out, links and names are as people read them."""
    text = _MENTION.sub(lambda found: "" if found.group(1) in own else f"@{found.group(1)}", text)
    text = _LINK.sub(lambda found: _link(found.group(1), found.group(2)), text)
    text = _CHAT.sub(lambda found: f"#{found.group(2) or found.group(1)}", text)
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&").strip()


def _link(url: str, label: str | None) -> str:
    url = url.removeprefix("mailto:")
    return url if not label or label == url else f"{label} ({url})"


def _attachments(files: Any) -> tuple[Attachment, ...]:
    """Read an event's `files`: those that Slack holds itself, and lets us fetch."""
    found = [one for one in files if isinstance(one, dict)] if isinstance(files, list) else []
    return tuple(
        Attachment(
            name=str(one.get("name") or one.get("id") or "a file")[:200],
            size=one["size"] if isinstance(one.get("size"), int) else 0,
            handle=str(one.get("url_private_download") or one.get("url_private") or "")[:2000],
        )
        for one in found[:MAX_ATTACHMENTS]
    )


def _own_users(body: dict[str, Any]) -> frozenset[str]:
    grants = body.get("authorizations")
    found = [grant.get("user_id") for grant in grants if isinstance(grant, dict)] if isinstance(grants, list) else []
    return frozenset(user for user in found if isinstance(user, str))


def _is_foreign(account: SlackAccount, event: dict[str, Any]) -> bool:
    teams = [event.get(name) for name in ("user_team", "source_team", "team")]
    return any(isinstance(team, str) and team and team != account.team for team in teams)
