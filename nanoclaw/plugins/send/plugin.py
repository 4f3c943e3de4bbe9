"""The plugin: the command `send`, which puts a message of a shell or a script into the outbox, and webhooks."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections import deque
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar, Literal, NamedTuple

from nanoclaw.atomic_write import replace_in
from nanoclaw.beneath.paths import PathError, open_again, open_parent_for_writing
from nanoclaw.core.channel import MAIN, TERMINAL
from nanoclaw.core.errors import ConfigError, NanoclawError
from nanoclaw.core.messages import Address, Inbound, Outbound, UserMessage
from nanoclaw.core.plugin import Command, Draft, Finding, Hears, Host, Plugin, Reply, RouteAnswer, Said, Turn, Tx
from nanoclaw.escapes import BLANKS

LISTS = ("allow_from", "allow_groups", "send_to")
LONGEST = 100_000  # characters of a text
WAIT_SECONDS, LOOK_SECONDS = 600.0, 0.2  # the longest that `--wait` waits for the platform, and how often it looks
ORIGIN = "hook"
ASKED = "The owner has read in short what their webhook brought. Say what it means for them, or answer NO_REPLY."
USAGE = "nanoclaw send [--to CHAT] [--file F] [--id ID] [--wait] [--] TEXT, or - for what is piped in"


class Hook(NamedTuple):
    """One webhook."""

    secret: str = ""  # its secret; for "standard" whsec_ and base64
    kind: Literal["standard", "github", "gitea", "bearer"] = "standard"  # how it is proved
    to: str = ""  # chat; empty: where you spoke last
    do: Literal["tell", "ask"] = "tell"  # tell you, or ask the model too


class SendSettings(NamedTuple):
    hooks: Mapping[str, Hook] = MappingProxyType({})  # by name

    def check(self) -> None:
        if self.hooks:
            from nanoclaw.plugins.send.hooks import check

            check(self.hooks)

    def secrets(self, environment: Mapping[str, str]) -> Iterable[str]:
        """Values that must never show."""
        return [one.secret for one in self.hooks.values()]


class Send(Plugin):
    name = "send"
    needs = ("access",)
    settings = SendSettings
    keys: ClassVar[Mapping[str, str]] = {"hooks": "hooks.*"}
    migrations = (
        """CREATE TABLE send_ids (              -- given with --id, and by webhooks: what has one is sent once
            id TEXT PRIMARY KEY,
            outbox INTEGER REFERENCES outbox ON DELETE SET NULL,
            at TEXT NOT NULL
        ) STRICT""",
    )
    marks = ("send_ids.id", "send_ids.at")
    hears: Mapping[str, Hears] = {"before_turn": Hears(origins=(ORIGIN,))}

    def __init__(self, host: Host, settings: SendSettings) -> None:
        self._host, self._hooks = host, settings.hooks
        self._taken = {name: deque[float](maxlen=30) for name in self._hooks}
        self._delivers = False

    def commands(self) -> Iterable[Command]:
        told = f"put a message into the outbox: {USAGE}"
        return [Command("send", told, self._send, cli=True, private=True, part_of="pair")]

    def routes(self) -> Mapping[str, RouteAnswer]:
        return {"POST /hooks/{name}": self._receive} if self._hooks else {}

    async def check(self, deep: bool) -> Iterable[Finding]:
        told = "without a table [page] nothing can come to [hooks]: add one, even empty"
        return [Finding(False, told, "hooks")] if self._hooks and self._host.setting("page") is None else []

    async def run(self) -> None:
        """Only a process that serves delivers."""
        self._delivers = True
        await asyncio.Event().wait()

    # --- nanoclaw send -----------------------------------------------------------------------------------------------

    async def _send(self, said: Said) -> Reply:
        text, options = read(said)
        target, given = self._target(options["to"][-1]), options["id"][-1]
        ids, files = [f"id:{given}"] if given else [], tuple[str, ...]()
        if options["file"] and not self._host.read("SELECT 1 FROM send_ids WHERE id = ?", f"id:{given}"):
            files = await asyncio.to_thread(lambda: tuple(map(self._copied, options["file"])))
        outbound = Outbound(target, text, files, outside="nanoclaw send")
        row, is_new = await self._host.write(lambda tx: self._once(tx, outbound, ids))
        goes = "it goes out as soon as it can" if self._delivers else "it goes out when nanoclaw runs"
        told = f"On disk for {target}: {goes}." if is_new else f"A message with the id {given} is on disk already."
        if options["wait"]:
            told = await self._delivered(row, target)
        return Reply(told, {"to": str(target), "row": row, "new": is_new, "state": self._host.records.sent(row)[0]})

    def _once(self, tx: Tx, outbound: Outbound, ids: Iterable[str], *, is_news: bool = True) -> tuple[int, bool]:
        """The row of a message in the outbox (0 if it is gone by now), and False if one of its ids was known."""
        for known in ids:
            for (row,) in tx.execute("SELECT outbox FROM send_ids WHERE id = ?", known):
                return row or 0, False
        row, at = tx.send(outbound, f"By {outbound.outside}.", is_news=is_news), self._host.now().isoformat()
        for one in dict.fromkeys(ids):
            tx.execute("INSERT INTO send_ids (id, outbox, at) VALUES (?, ?, ?)", one, row, at)
        return row, True

    def _target(self, to: str) -> Address:
        """The chat that is meant; without words about it the one in which the owner spoke last. Raises ConfigError."""
        if not to:
            chats = self._host.records.owners_chats(20)
            return next((one for one in chats if one.channel == TERMINAL or self._host.channel(one.channel)), MAIN)
        channel, _, chat = to.partition(":")
        if not chat or not to.isprintable() or (channel != TERMINAL and self._host.channel(channel) is None):
            raise ConfigError(
                f"{to[:100]!r} is no chat of a channel here: give one like telegram:555 or terminal:main."
            )
        target, access = Address(channel, chat), self._host.get("access")
        if target == MAIN or self._host.records.context(target):
            return target
        if channel == TERMINAL:
            raise ConfigError(f"there is no conversation {to!r}: nanoclaw sessions lists those there are.")
        if access and not (access.is_owners(target) or access.is_listed(target, *LISTS)):
            raise ConfigError(f"nobody in {to} has written yet: put {chat!r} into send_to if it is right.")
        return target

    def _copied(self, file: str) -> str:
        """A copy in the workspace, which stays whatever becomes of the file. Raises ConfigError."""
        media, name = self._host.get("media"), f"sent/{os.urandom(6).hex()}/{Path(file).name}"
        most = media.most_bytes if media else 0
        try:
            with open_again(Path(file).expanduser().resolve()) as source:
                if not 0 < len(data := source.read(most + 1)) <= most:
                    raise ConfigError(f"{file!r} cannot be sent: it is empty, or has more than {most / 1e6:,.0f} MB.")
            with open_parent_for_writing(self._host.reach, name) as (folder, leaf):
                replace_in(folder, leaf, data, 0o600)
        except PathError as error:
            raise ConfigError(f"it cannot be sent: {error}") from None
        return str(self._host.workspace / name)

    async def _delivered(self, row: int, target: Address) -> str:
        """Wait for the platform. Raises NanoclawError if it does not take the message, or not yet."""
        until = time.monotonic() + WAIT_SECONDS
        while row:
            state, _, _, error, *_ = self._host.records.sent(row)
            why = f": {error}" if error else ""
            if state == "failed":
                raise NanoclawError(f"{target} did not accept it{why}. It will not be tried again.")
            if state != "pending":
                break
            if not self._delivers or self._host.is_frozen():
                what = "say /resume, as /panic holds everything" if self._host.is_frozen() else "start nanoclaw gateway"
                raise NanoclawError(f"it is saved, but nothing can deliver it to {target} now: {what}.")
            if time.monotonic() > until:
                raise NanoclawError(f"it is saved and will be tried again, but {target} has not accepted it yet{why}.")
            await asyncio.sleep(LOOK_SECONDS)
        return f"Delivered to {target}."

    # --- webhooks ----------------------------------------------------------------------------------------------------

    async def _receive(self, name: str, headers: Mapping[str, str], body: bytes) -> tuple[int, Mapping[str, str]]:
        """Take a delivery to a webhook: the answer, once it is on disk."""
        from nanoclaw.plugins.send.hooks import PER_MINUTE, RefusedDelivery, checked

        now = self._host.now()
        try:
            if not (hook := self._hooks.get(name)):
                raise RefusedDelivery(404, "there is no such webhook.")
            known, text, told = checked(hook, headers, body, now.timestamp())
            if len(taken := self._taken[name]) == PER_MINUTE and now.timestamp() - taken[0] < 60:
                raise RefusedDelivery(429, f"more than {PER_MINUTE} deliveries within a minute.")
            taken.append(now.timestamp())
            target = self._target(hook.to)
        except (RefusedDelivery, ConfigError) as refusal:
            self._host.log.warning("a delivery to the webhook {} was refused: {}", name[:40], refusal.args[-1])
            return refusal.args[0] if len(refusal.args) > 1 else 500, {"told": str(refusal.args[-1])}
        source, ids = f"hook:{name}", [f"hook/{name}/{one}" for one in known]

        def change(tx: Tx) -> bool:
            outbound = Outbound(target, f"{name}: {told}", outside=source, came=now)
            _, is_new = self._once(tx, outbound, ids, is_news=hook.do == "tell")
            if is_new and hook.do == "ask":
                access, message = self._host.get("access"), UserMessage(text, now, ORIGIN, outside=source)
                talk = access.conversation_of(target) if access else None
                inbound = Inbound(target, "owner", ids[0], message, role="owner", conversation=talk)
                tx.deliver(inbound, self._host.profile("person"))
            return is_new

        return 202, {"told": "taken." if await self._host.write(change) else "taken before."}

    async def before_turn(self, draft: Draft, turn: Turn) -> Draft | None:
        """Say in the program's own words why the model is asked."""
        return draft._replace(remarks=(*draft.remarks, ASKED))


def read(said: Said) -> tuple[str, dict[str, list[str]]]:
    """The text and the options, which stand before it, in a shell also behind it. A shell gives JSON: folder, what is
    piped in, words. Raises ConfigError."""
    folder, piped, *words = json.loads(said.argument) if said.shell else ["", "", *said.argument.split(" ")]
    found: dict[str, list[str]] = {"to": [""], "file": [], "id": [""], "wait": []}
    text = list[str]()
    while words and (said.shell or words[0].startswith("--")) and (word := words.pop(0)) != "--":
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            value = words.pop(0) if words and not equals and name != "wait" else value
            if name not in found or bool(value.strip()) == (name == "wait"):
                raise ConfigError(f"--{name} is not understood, or lacks its value: {USAGE}")
            found[name].append(value)
        else:
            text.append(word)
    text += words
    if found["file"] and not said.shell:
        raise ConfigError("--file is for a shell: in a chat, attach the file.")
    found["file"] = [str(Path(folder, Path(one).expanduser())) for one in found["file"]]
    whole = (piped if text == ["-"] else " ".join(text)).strip()
    if not whole.strip(BLANKS) and not found["file"]:
        raise ConfigError(f"there is nothing to send: {USAGE}")
    if len(whole) > LONGEST:
        raise ConfigError(f"{len(whole):,} characters are too many, {LONGEST:,} is the limit: send a file by --file.")
    return whole, found
