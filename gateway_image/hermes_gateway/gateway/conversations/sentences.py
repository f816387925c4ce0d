"""What a person is told of what he did with a conversation. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from hermes_contracts.projection import ProfileProjection
from hermes_contracts.store_api import ListedConversation, UndoReply
from hermes_gateway.gateway.conversations.desk import model_in_use

_REFUSED = {
    "busy": "I am working on a message here. Say `/stop` first, or wait for my answer.",
    "waiting": "A message of yours waits for me. Say this again when I have answered it, or say `/stop` once I have begun.",
    "nothing": "Nothing was said in this conversation that could be taken back.",
    "compacted": "What was said before this has been summed up, and cannot be taken back any more.",
    "not_yours": "Others wrote some of that, and only they or an admin can take it back.",
    "not_a_message": "Our last exchange did not begin with a message of yours, so it cannot be done again; "
    "`/undo` takes it back.",
}


def undone(reply: UndoReply) -> str:
    """Say what was taken back, or why nothing was."""
    if reply.refused:
        return _REFUSED[reply.refused]
    quoted = [f"“{text}”" if text else "a message without words" for text in reply.taken]
    stays = "what I did in my workspace stays done."
    if len(quoted) == 1:
        return f"Taken back, with my answer: {quoted[0]}. I do not see it any more; {stays}"
    lines = [f"Taken back, with my answers, {len(quoted)} messages:", "", *(f"- {text}" for text in quoted)]
    return "\n".join((*lines, "", f"I do not see them any more; {stays}"))


def show_models(profile: ProfileProjection, chosen: str) -> str:
    """Say which model answers in a conversation, and which others may be chosen."""
    used = model_in_use(profile, chosen)
    gone = f" `{chosen}`, which was chosen here, is not offered any more." if chosen and chosen != used else ""
    if not profile.choices:
        return f"My model is `{used}`, and there is no other to choose.{gone}"
    others = ", ".join(f"`{name}`" for name in (profile.model, *profile.choices) if name != used)
    return f"My model in this conversation is `{used}`.{gone} Say `/model` with a name to choose another: {others}."


def no_such_model(profile: ProfileProjection, word: str) -> str:
    """Say that a model is not offered."""
    offered = ", ".join(f"`{name}`" for name in (profile.model, *profile.choices))
    return f"There is no model `{_short(word)}` to choose here. There is: {offered}."


def chose_model(profile: ProfileProjection, chosen: str) -> str:
    """Say which model answers from now on."""
    return f"From your next message on my model in this conversation is `{model_in_use(profile, chosen)}`."


def show_title(title: str) -> str:
    """Say how a conversation is called."""
    if not title:
        return "This conversation has no title yet. `/title` with a text gives it one."
    return f"This conversation is called “{title}”."


def list_conversations(listed: Sequence[ListedConversation], current: str, now: float) -> str:
    """List the conversations of a place, with the numbers by which one goes back to them."""
    lines = [
        f"{number}. {_called(one)}: {one.turns} message{'' if one.turns == 1 else 's'}, {_ago(now - one.last_activity)}"
        f"{' (this one)' if one.conversation == current else ''}"
        for number, one in enumerate(listed, 1)
    ]
    return "\n".join(("Conversations here. `/resume` with a number goes back to one:", "", *lines))


def resumed(one: ListedConversation) -> str:
    """Say that a conversation goes on."""
    return f"We go on with “{_called(one)}”. `/resume` leads back, too."


def _called(one: ListedConversation) -> str:
    return one.title or one.begins or "without words"


def _ago(seconds: float) -> str:
    minutes = max(0, int(seconds / 60))
    if minutes < 1:
        return "less than a minute ago"
    for size, word in ((1440, "day"), (60, "hour"), (1, "minute")):
        if minutes >= size:
            count = minutes // size
            return f"{count} {word}{'' if count == 1 else 's'} ago"
    return ""


def _short(word: str) -> str:
    return " ".join(word.replace("`", "").split())[:80]
