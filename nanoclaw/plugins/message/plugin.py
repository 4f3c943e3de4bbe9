"""The tool `message`: text and files that are sent at once, in the middle of a turn, here or to another known chat."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

from nanoclaw.core.channel import MAIN, TERMINAL
from nanoclaw.core.errors import Refused, ToolError
from nanoclaw.core.messages import Address, CheckedCall, Effect, Outbound, ToolExample
from nanoclaw.core.plugin import Ask, Ended, Hears, Host, NamedTuple, Plugin, Scope, Tool, Turn, Tx, Verdict
from nanoclaw.core.tool import ToolContext, tool
from nanoclaw.escapes import BLANKS, one_line
from nanoclaw.silence_token import spoken

MOST = 10
"""Messages of one turn."""
MOST_FILES = 10
WAIT_SECONDS = 15.0
"""The time in which a call waits for the platform to say that it has the message."""
_LOOK_SECONDS = (0.02, 0.05, 0.1, 0.25, 0.5)

_HERE = ("", "here", "this chat", "me")


class SendStatus(NamedTuple):
    """State of a row of the outbox: pending, delivered or failed, after so many attempts."""

    state: str
    attempts: int = 0
    platform_id: str = ""
    error: str = ""


class SentMessages:
    """Tells others what a turn has sent, so that nobody sends it again."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def unsent(self, tx: Tx, turn: Turn, outbound: Outbound) -> Outbound | None:
        """The rest of an answer, without words and files that a call of its turn has sent to its chat."""
        for (row,) in tx.execute("SELECT outbox FROM message_sent WHERE turn = ?", turn.id):
            *_, text, files, place = self._host.records.sent(row)
            if place == str(outbound.address):
                left = tuple(file for file in outbound.files if file not in files)
                outbound = outbound._replace(files=left, text="" if _same_words(text, outbound.text) else outbound.text)
        return outbound if outbound.text.strip() or outbound.files else None


class Messages(Plugin):
    name = "message"
    hears: Mapping[str, Hears] = {"on_end": Hears(tools=("message",))}
    needs = ("access", "media", "schedule")
    migrations = (
        """CREATE TABLE message_sent (                -- by tools, in turns that have not ended
            outbox INTEGER PRIMARY KEY REFERENCES outbox ON DELETE CASCADE,
            turn INTEGER NOT NULL
        ) STRICT""",
        """CREATE TABLE message_asked (               -- files of calls that were asked about, as they were then
            turn INTEGER NOT NULL,
            call TEXT NOT NULL,
            sha256 TEXT NOT NULL,
            PRIMARY KEY (turn, call)
        ) STRICT""",
    )
    marks = ("message_sent.outbox", "message_sent.turn", "message_asked.call", "message_asked.sha256")

    def __init__(self, host: Host, settings: None) -> None:
        self._host, self.public = host, SentMessages(host)

    def tools(self) -> Iterable[Tool]:
        async def message(
            context: ToolContext,
            text: str = "",
            files: Annotated[list[str] | None, "paths in the workspace"] = None,
            to: Annotated[str, "another chat, such as telegram:555"] = "",
        ) -> str:
            """Send text or files at once, to this chat or to another known one. Your final answer is sent by itself: do
            not repeat it here."""
            return await self._send(context, text, files or (), to)

        example = ToolExample("Send me the chart", {"text": "Here it is.", "files": ["charts/may.png"]})
        made = tool(message, reach="outside", examples=[example], open_to=("person", "job", "guest"))
        return [made._replace(audit=_effect, check=self._check, atomic=True)]

    def on_end(self, ended: Ended, turn: Turn, tx: Tx) -> Ended | None:
        """Leave out of an answer what was sent to its chat already."""
        outbound = ended.outbound and self.public.unsent(tx, turn, ended.outbound)
        tx.execute("DELETE FROM message_sent WHERE turn = ?", turn.id)
        tx.execute("DELETE FROM message_asked WHERE turn = ?", turn.id)
        return None if outbound == ended.outbound else ended._replace(outbound=outbound)

    # --- before it is sent -------------------------------------------------------------------------------------------

    async def _check(self, call: CheckedCall, turn: Turn) -> Verdict:
        """Judge a call: the owner is asked before anything goes to another chat that is not listed for it."""
        text, files = str(call.arguments.get("text", "")), call.arguments.get("files") or ()
        target = self._target(turn.address, str(call.arguments.get("to", "")), turn.role, files)
        if not spoken(text).strip(BLANKS) and not files:
            raise ToolError("there is nothing to send: give a text, files or both.")
        if len(files) > MOST_FILES:
            raise ToolError(f"{len(files)} files are too many for one message: at most {MOST_FILES}. Nothing was sent.")
        if self._host.read("SELECT count(*) FROM message_sent WHERE turn = ?", turn.id)[0][0] >= MOST:
            raise Refused(f"{MOST} messages were sent in this turn already; say the rest in your answer.")
        paths = self._paths(files)
        if target == self._home(turn.address) or self._is_open(target):
            return None
        if paths:
            await self._hold_to(paths, call, turn)
        who = self._named(target)
        scope = Scope(f"message:{target}", f"messages to {who}", is_place=True)
        return Ask(f"Send this to {who}?", scope=scope)

    async def _hold_to(self, paths: Sequence[str], call: CheckedCall, turn: Turn) -> None:
        """A yes is to the files as they were when it was asked for. Raises Refused if one was changed since."""
        sha256 = await asyncio.to_thread(_sha256, paths)
        sql = "SELECT sha256 FROM message_asked WHERE (turn, call) = (?, ?)"
        if (before := self._host.read(sql, turn.id, call.id)) and before[0][0] != sha256:
            raise Refused(_CHANGED)
        sql = "INSERT INTO message_asked (turn, call, sha256) VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
        await self._host.write(lambda tx: tx.execute(sql, turn.id, call.id, sha256))

    def _named(self, target: Address) -> str:
        """A chat as the owner knows it. How people call themselves is shown, not trusted."""
        access = self._host.get("access")
        name = one_line(access.accounts.name_of(target), 40) if access else ""
        return f"{name} ({target})" if name else str(target)

    def _target(self, address: Address, to: str, role: str, files: Sequence[str]) -> Address:
        """The chat that is meant. Before anything is looked up guests are refused: they learn of nobody else."""
        here, to = self._home(address), to.strip()
        is_here = to.lower() in _HERE or to == str(here)
        if role != "owner" and (not is_here or files):
            raise Refused("in a guest's conversation only text can be sent, and only to this chat. Nothing was sent.")
        if is_here:
            return here
        channel, colon, chat = to.partition(":")
        if not colon or not chat:
            raise ToolError(f"{to[:100]!r} is not an address: give one like telegram:555, or none for this chat.")
        if self._host.channel(channel) is None:
            raise ToolError(f"there is no channel {channel!r} here.")
        target = Address(channel, chat)
        if not self._is_known(target):
            lists = f", and it is not in the lists of config.toml ([channels.{channel}] allow_from, send_to)"
            raise ToolError(
                f"{target} is not known: nobody there has written yet{lists if channel != TERMINAL else ''}. "
                "Nothing was sent."
            )
        return target

    def _home(self, address: Address) -> Address:
        """The chat of a conversation's person: for a task, the one that it reports to."""
        schedule = self._host.get("schedule")
        return schedule.target_of(address) if schedule else address

    def _conversation(self, address: Address) -> Address:
        access = self._host.get("access")
        return (access.conversation_of(address) if access else None) or address

    def _is_known(self, target: Address) -> bool:
        """Tells whether something may be sent there at all, be it with the owner's yes."""
        access = self._host.get("access")
        if target == MAIN or self._host.records.context(target):
            return True
        is_listed = access and access.is_listed(target, "allow_from", "allow_groups", "send_to")
        return bool(is_listed or (access and target.channel != TERMINAL and access.is_owners(target)))

    def _is_open(self, target: Address) -> bool:
        """Tells whether nobody need be asked."""
        access = self._host.get("access")
        if access is None:
            return target.channel == TERMINAL
        return bool(access.is_owners(target) or access.is_listed(target, "send_to"))

    def _paths(self, files: Sequence[str]) -> tuple[str, ...]:
        media = self._host.get("media")
        if files and media is None:
            raise ToolError("no files can be sent here. Nothing was sent.")
        return tuple(dict.fromkeys(map(media.sendable, files))) if files else ()

    # --- and then ----------------------------------------------------------------------------------------------------

    async def _send(self, context: ToolContext, text: str, files: Sequence[str], to: str) -> str:
        target, here = self._target(context.address, to, context.role, files), self._home(context.address)
        is_own = self._conversation(target) == context.conversation
        channel = self._host.channel(target.channel)
        is_late = channel is not None and not channel.hints.stays  # only answers are shown there
        reply_to = self._host.records.answered(context.turn) if is_late else ""
        outbound = Outbound(target, text, self._paths(files), reply_to, outside=", ".join(context.outside))

        def change(tx: Tx) -> int:
            row = tx.send(outbound, "Sent by you, from another conversation.", is_news=not is_own)
            tx.execute("INSERT INTO message_sent (outbox, turn) VALUES (?, ?)", row, context.turn)
            return row

        row = await context.write(change)
        said = _outcome(await self._status(row, outbound), "to this chat" if target == here else f"to {target}")
        context.report(_effect({"text": text, "files": files, "to": to}))
        return said

    async def _status(self, row: int, outbound: Outbound) -> SendStatus:
        """Wait a little for the platform. What failed once is retried later, so it is not waited for."""
        until, looks = time.monotonic() + WAIT_SECONDS, iter(_LOOK_SECONDS)
        while True:
            status = SendStatus(*self._host.records.sent(row)[:4])
            if status.state != "pending" or status.attempts or time.monotonic() >= until:
                return status
            channel = self._host.channel(outbound.address.channel)
            if channel is None or not channel.serves(outbound):
                return status._replace(error="nobody is there at the moment")
            await asyncio.sleep(next(looks, _LOOK_SECONDS[-1]))


def _effect(named: dict[str, Any]) -> Effect:
    to, files = str(named.get("to", "")).strip(), named.get("files") or []
    count = f" with {len(files)} file{'s' if len(files) > 1 else ''}" if files else ""
    place = "here" if to.lower() in _HERE else f"to {to}"
    return Effect("message", "message", to or "here", f"sent a message {place}{count}")


def _outcome(status: SendStatus, where: str) -> str:
    if status.state == "delivered":
        identity = f" (id {status.platform_id})" if status.platform_id else ""
        return f"Delivered {where}{identity}."
    why = f" ({status.error})" if status.error else ""
    if status.state == "failed":
        raise ToolError(f"the message {where} was not delivered{why}, and it is not tried again.")
    return f"Not delivered {where} yet{why}: it is kept and tried again by itself. Do not send it again."


def _same_words(one: str, other: str) -> bool:
    """Compare two texts without their markup, case, spaces and punctuation."""
    words = [re.findall(r"\w+", text.casefold()) for text in (one, other)]
    return words[0] == words[1] if any(words) else one.strip() == other.strip()


def _sha256(paths: Sequence[str]) -> str:
    """Of all files together. Raises ToolError."""
    import hashlib

    from nanoclaw.beneath.paths import open_again

    whole = hashlib.sha256()
    for path in paths:
        try:
            with open_again(path) as file:
                whole.update(hashlib.file_digest(file, "sha256").digest())  # type: ignore[arg-type]
        except OSError as error:
            raise ToolError(f"{path.rpartition('/')[2]} cannot be read: {error.strerror}. Nothing was sent.") from None
    return whole.hexdigest()


_CHANGED = (
    "a file was changed after the person was asked whether it may be sent, so it is not what they said yes to. Nothing "
    "was sent. Call message again to ask about it as it is now."
)
