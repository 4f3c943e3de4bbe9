"""The `message` tool: text and files that are sent at once, in the midst of a turn, here or to another known chat."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

from nanoclaw.core.errors import Refused, ToolError
from nanoclaw.core.messages import Address, Effect, Message, Outbound, ToolExample
from nanoclaw.core.silence_token import spoken
from nanoclaw.core.store.inbox import NOT_SENT
from nanoclaw.core.tool import Tool, ToolContext, tool
from nanoclaw.plugins.access.access import TERMINAL
from nanoclaw.plugins.approvals.approvals import exactly
from nanoclaw.plugins.message.sent import SendStatus, Sent

KIND = "message"
"""Of the effects."""

MOST = 10
"""Messages of one turn."""
MOST_FILES = 10
WAIT_SECONDS = 15.0
"""So long a call waits for the platform to say that it has the message."""
_LOOK_SECONDS = (0.02, 0.05, 0.1, 0.25, 0.5)

_HERE = ("", "here", "this chat", "me")


@dataclass(frozen=True, slots=True)
class Post:
    """How a message leaves: `home` is where the person of a conversation is, for a task the chat that it reports to;
    `is_open(address)` whether nobody need be asked before something is sent there; `is_known` whether it may be asked
    at all; `ask(question, address)` the owner's yes; `introduce(what, text)` is what the other conversation gets into
    its history; `stays` is False where only answers are shown; `wake` tells delivery of a new row."""

    sent: Sent
    check_file: Callable[[str], str]
    home: Callable[[Address], Address]
    is_served: Callable[[Outbound], bool]
    channels: Callable[[], Sequence[str]]
    is_known: Callable[[Address], bool]
    is_open: Callable[[Address], bool]
    ask: Callable[[str, Address], Awaitable[bool]]
    introduce: Callable[[str, str], Sequence[Message]]
    stays: Callable[[Address], bool]
    wake: Callable[[str], None]
    wait_seconds: float = WAIT_SECONDS

    async def send(self, context: ToolContext, text: str, files: Sequence[str], to: str) -> str:
        """Send it; what the platform says. Raises ToolError."""
        here = self.home(context.address)
        is_here = to.strip().lower() in _HERE or to.strip() == str(here)
        self._check(context, text, files, is_here)
        target = here if is_here else self._address(to)
        paths = tuple(dict.fromkeys(map(self.check_file, files)))
        if target != here and not self.is_open(target):
            question = f"May I send this to {target}?\n\n{_shown(text, files)}"
            try:
                may = await self.ask(question, context.address)
            except asyncio.CancelledError:  # what is said of that stands in the history
                raise ToolError(NOT_SENT) from None
            if not may:
                raise Refused(
                    f"the owner did not say yes to a message to {target}, or was not there to be asked, so nothing was "
                    "sent. Tell the person."
                )
        told = self.introduce("Sent by you, from another conversation.", text)
        reply_to = "" if self.stays(target) else self.sent.answers(context.turn)
        outbound = Outbound(target, text, paths, reply_to)
        row = self.sent.send(outbound, context.turn, context.call, told)
        self.wake(target.channel)
        return _outcome(await self._progress(row, outbound), "to this chat" if target == here else f"to {target}")

    def _address(self, to: str) -> Address:
        channel, colon, chat = to.strip().partition(":")
        if not colon or not chat:
            raise ToolError(f"{to[:100]!r} is no address: give one like telegram:555, or leave it out for this chat.")
        if channel not in self.channels():
            raise ToolError(f"there is no channel {channel!r} here; there are: {', '.join(self.channels())}.")
        target = Address(channel, chat)
        if not self.is_known(target):
            lists = f", and it is not in the lists of config.toml ([channels.{channel}] allow_from, send_to)"
            raise ToolError(
                f"{target} is not known: nobody there has written yet{lists if channel != TERMINAL else ''}. "
                "Nothing was sent."
            )
        return target

    def _check(self, context: ToolContext, text: str, files: Sequence[str], is_here: bool) -> None:
        """Before anything is looked up: a guest learns nothing of who else is known."""
        if context.origin == "heartbeat":
            raise Refused("a heartbeat sends nothing by itself: use report.")
        if context.role == "guest" and (not is_here or files):
            raise Refused("in a guest's conversation only text can be sent, and only to this chat. Nothing was sent.")
        if not spoken(text).strip() and not files:
            raise ToolError("there is nothing to send: give a text, files or both.")
        if len(files) > MOST_FILES:
            raise ToolError(f"{len(files)} files are too many for one message: at most {MOST_FILES}. Nothing was sent.")
        if self.sent.count(context.turn) >= MOST:
            raise Refused(f"{MOST} messages were sent in this turn already; say the rest in your answer.")

    async def _progress(self, row: int, outbound: Outbound) -> SendStatus:
        """As far as it comes while somebody waits. What failed once is tried again later, so it is not waited for."""
        until, looks = time.monotonic() + self.wait_seconds, iter(_LOOK_SECONDS)
        while True:
            progress = self.sent.progress(row)
            if progress.state != "pending" or progress.attempts or time.monotonic() >= until:
                return progress
            if not self.is_served(outbound):
                return progress._replace(error="nobody is there at the moment")
            await asyncio.sleep(next(looks, _LOOK_SECONDS[-1]))


def message_tool(post: Post | None) -> Tool:
    """Without a `post` it is only to be looked at."""

    async def message(
        context: ToolContext,
        text: str = "",
        files: Annotated[list[str] | None, "paths in the workspace"] = None,
        to: Annotated[str, "another chat, such as telegram:555"] = "",
    ) -> str:
        """Send text or files at once, in the midst of your work: to this chat, or to another known one. Your final
        answer is sent by itself, so do not repeat it here."""
        assert post
        said = await post.send(context, text, files or (), to)
        context.report(_effect({"text": text, "files": files or [], "to": to}))
        return said

    example = ToolExample("Send me the chart", {"text": "Here it is.", "files": ["charts/may.png"]})
    return replace(tool(message, effect="outside", examples=[example]), audit=_effect, for_guests=True)


def _effect(named: dict[str, Any]) -> Effect:
    to, files = str(named.get("to", "")).strip(), named.get("files") or []
    count = f" with {len(files)} file{'s' if len(files) > 1 else ''}" if files else ""
    place = "here" if to.lower() in _HERE else f"to {to}"
    return Effect("message", KIND, to or "here", f"sent a message {place}{count}")


def _outcome(progress: SendStatus, where: str) -> str:
    if progress.state == "delivered":
        identity = f" (id {progress.platform_id})" if progress.platform_id else ""
        return f"Delivered {where}{identity}."
    why = f" ({progress.error})" if progress.error else ""
    if progress.state == "failed":
        raise ToolError(f"the message {where} was not delivered{why}, and it is not tried again.")
    return f"Not delivered {where} yet{why}: it is kept and tried again by itself. Do not send it again."


def _shown(text: str, files: Sequence[str]) -> str:
    """As the owner is to judge it."""
    named = "Files:\n" + exactly("\n".join(files)) if files else ""
    return "\n\n".join(part for part in (exactly(text) if text else "", named) if part)
