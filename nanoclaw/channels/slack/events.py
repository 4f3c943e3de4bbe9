"""Reads Slack's events: JSON in, Inbound out. No I/O; nothing in an event is trusted."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from datetime import datetime
from functools import partial

from nanoclaw.channels.fields import Fields, attachment, identifier, name_of, string, table, tables, time_of
from nanoclaw.core.channel import Place
from nanoclaw.core.messages import Address, Attachment, Inbound, UserMessage

NAME = "slack"
_MESSAGES = ("", "file_share", "thread_broadcast", "me_message")
"""Kinds of messages that somebody wrote."""
_QUOTE_LENGTH = 4_000


def changed(event: Fields) -> Fields | None:
    """The message as its author changed it; None for any other event."""
    if event.get("subtype") != "message_changed":
        return None
    now, before = table(event.get("message")), table(event.get("previous_message"))
    if not now.get("edited") or now.get("text") == before.get("text"):
        return None  # a preview was added to it
    return {**now, "channel": event.get("channel"), "channel_type": event.get("channel_type")}


def message(event: Fields, bot: str, now: datetime) -> Inbound | None:
    """Read what somebody wrote. None for what isn't meant for the assistant: bots, and Slack's own notices. Raises
    Malformed."""
    if string(event.get("subtype")) not in _MESSAGES or event.get("bot_id") or event.get("user") == bot:
        return None
    sender, channel, stamp = identity(event, "user"), identity(event, "channel"), identity(event, "ts")
    is_group = not is_private(event)
    text, is_named = _said(string(event.get("text")), bot)
    is_named = is_named or event.get("type") == "app_mention"
    attachments = tuple(_attachments(event))
    if not text and not attachments:
        return None
    thread = string(event.get("thread_ts"))
    if is_group and is_named:
        thread = thread or stamp  # its answer, and what is said about that, belong to it
    is_answer = thread not in ("", stamp)
    return Inbound(
        Address(NAME, str(Place(channel, thread, sender if is_group else ""))),
        sender,
        f"{channel}:{stamp}",
        UserMessage(text, time_of(stamp, now)),
        attachments,
        quoted=f"{channel}:{thread}" if is_answer else "",
        is_group=is_group,
        is_mention=is_group and is_named,
    )


def press(payload: Fields, now: datetime) -> Inbound | None:
    """A button says its text, from who pressed it. None for what else can be done with an app. Raises Malformed."""
    pressed = next(iter(tables(payload.get("actions"))), {})
    text, below = string(pressed.get("value")), table(payload.get("message"))
    if payload.get("type") != "block_actions" or not text:
        return None
    channel, stamp = identity(table(payload.get("channel")), "id"), identity(below, "ts")
    sender, thread = identity(table(payload.get("user")), "id"), string(below.get("thread_ts"))
    is_group = not channel.startswith("D")
    return Inbound(
        Address(NAME, str(Place(channel, thread, sender if is_group else ""))),
        sender,
        f"press:{identity(pressed, 'action_ts')}:{sender}",
        UserMessage(text, now),
        quoted=f"{channel}:{stamp}",
        quote=string(below.get("text"))[:_QUOTE_LENGTH],
        is_group=is_group,
        is_mention=is_group,
    )


def is_private(event: Fields) -> bool:
    return event.get("channel_type") == "im" or string(event.get("channel")).startswith("D")


identity = partial(identifier, form=r"[A-Z0-9.]{1,40}")
"""An id or a stamp, which is a message's id within its channel."""


def words(text: str) -> str:
    """The text of a message without Slack's marks for links, people and channels."""
    return html.unescape(re.sub(r"<([^<>\n]{1,4000})>", lambda one: _link(one[1]), text))


def _said(text: str, bot: str) -> tuple[str, bool]:
    """The text without the bot's name at its beginning; and whether it names the bot."""
    own = rf"<@{bot}(?:\|[^<>]*)?>"
    is_named = re.search(own, text) is not None
    return words(re.sub(rf"^\s*{own}[,:]?\s*", "", text)), is_named


def _link(inner: str) -> str:
    target, _, label = inner.partition("|")
    if target.startswith(("@", "#", "!")):
        return (target[:1].replace("!", "@")) + (label.lstrip("@#") or target[1:].split("^")[0])
    return f"{label} ({target})" if label and label != target.removeprefix("mailto:") else label or target


def _attachments(event: Fields) -> Iterator[Attachment]:
    for file in tables(event.get("files")):
        if not (url := string(file.get("url_private_download")) or string(file.get("url_private"))):
            continue  # one that was deleted, or is of another workspace
        otherwise = f"file-{name_of(file.get('id'))}"
        given = attachment(otherwise, url, *map(file.get, ("name", "mimetype", "size")))
        yield given._replace(is_voice=file.get("subtype") == "slack_audio")
