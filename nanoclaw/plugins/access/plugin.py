"""Access: lets people in, links accounts, and says for whom and in which conversation each message is answered."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Literal

from nanoclaw.core.channel import MAIN, TERMINAL, UNVERIFIED, ChannelSpec, ChannelTable, Ids
from nanoclaw.core.errors import ConfigError
from nanoclaw.core.messages import Address, Inbound, Outbound
from nanoclaw.core.plugin import EVERYBODY, Command, Finding, Host, NamedTuple, Plugin, Reply, Said, Tx
from nanoclaw.escapes import one_line

if TYPE_CHECKING:
    from nanoclaw.plugins.access.gatekeeper import Gatekeeper


Policy = Literal["silent", "pairing", "open"]
Groups = Literal["off", "mention", "all"]

Admission = Literal["in", "overheard", "pairing", "elsewhere", "refused"]
"""in: it is answered; overheard: said to others in a group that is allowed, kept as context; pairing: a stranger who
may be told a code; elsewhere: the owner means the assistant in a group that is not allowed; refused: nothing happens.
"""


PER_HOUR = 60
"""Messages answered per guest and hour."""


class ChannelRules(NamedTuple):
    """People besides the owner who may talk in a channel."""

    allow_from: Ids = ()  # ids of guests, never names; empty: nobody
    # strangers: "silent" ignores them, "pairing" gives them a code for you to approve, "open" lets them in
    policy: Policy = "silent"
    groups: Groups = "mention"  # in groups, answer when mentioned, always, or never
    allow_groups: Ids = ()  # ids of groups in which everybody is a guest; empty: none
    send_to: Ids = ()  # chats that the assistant may write to without asking you

    def check(self, table: ChannelTable) -> None:
        """Raises ConfigError for names in place of stable ids, or other values that cannot be meant."""
        where = f"channels.{table.name}"
        if table.spec.ids != "numbers":
            return
        for one in (*self.allow_from, *self.allow_groups):
            if not one.removeprefix("-").isdecimal():
                raise ConfigError(
                    f"{where}.allow_from and allow_groups take numbers such as 555, not {one!r}: a name can be taken "
                    "over by somebody else. nanoclaw's log shows the sender's id."
                )
        for one in self.send_to:
            if not one.partition("/")[0].removeprefix("-").isdecimal():
                raise ConfigError(f"{where}.send_to takes chats such as 555 or -100200, not {one!r}.")


def is_sure(sender: str) -> bool:
    """Tells whether the platform vouches for whoever wrote."""
    return bool(sender) and not sender.startswith(UNVERIFIED)


# --- who made a job --------------------------------------------------------------------------------------------------


def creator(address: Address, sender: str) -> str:
    """The sender, as a job keeps them: their account, or "owner" at the terminal. An account has a colon in it."""
    return "owner" if address.channel == TERMINAL else f"{address.channel}:{sender}"


def account(text: str) -> tuple[str, str]:
    """Channel and id of a `creator`; the owner's at the terminal has no id."""
    channel, colon, sender = text.partition(":")
    return (channel, sender) if colon else (TERMINAL, "")


class AccessSettings(NamedTuple):
    """The owner's chats as one conversation or several."""

    owner: Literal["separate", "shared"] = "separate"  # "shared": terminal and private chats are one


class Access(Plugin):
    name = "access"
    settings = AccessSettings
    keys: ClassVar[Mapping[str, str]] = {"owner": "session.owner"}
    channel_settings = ChannelRules
    migrations = (
        """CREATE TABLE IF NOT EXISTS people (      -- accounts that were linked or let in
            id INTEGER PRIMARY KEY,
            channel TEXT NOT NULL,
            sender TEXT NOT NULL,                  -- the platform's stable id
            role TEXT NOT NULL CHECK (role IN ('owner', 'guest')),
            name TEXT NOT NULL,                    -- how they called themselves then
            at TEXT NOT NULL,
            UNIQUE (channel, sender)
        ) STRICT;
        CREATE TABLE IF NOT EXISTS chats (         -- that an owner has alone with the assistant
            id INTEGER PRIMARY KEY,
            channel TEXT NOT NULL,
            chat TEXT NOT NULL,
            sender TEXT NOT NULL,
            UNIQUE (channel, chat)
        ) STRICT;
        CREATE TABLE IF NOT EXISTS asking (        -- strangers who wait to be let in
            id INTEGER PRIMARY KEY,
            channel TEXT NOT NULL,
            sender TEXT NOT NULL,
            name TEXT NOT NULL,
            chat TEXT NOT NULL,
            code TEXT NOT NULL,                    -- no secret: it says which of them is meant
            at TEXT NOT NULL,
            UNIQUE (channel, sender)
        ) STRICT""",
        "ALTER TABLE asking ADD COLUMN heard TEXT NOT NULL DEFAULT ''",
        """CREATE TABLE IF NOT EXISTS held (          -- messages that may not be from whom they say
            id INTEGER PRIMARY KEY,
            channel TEXT NOT NULL,
            external_id TEXT NOT NULL,
            sender TEXT NOT NULL,                  -- whom they say they are from
            body TEXT NOT NULL,
            at TEXT NOT NULL,
            UNIQUE (channel, external_id)
        ) STRICT""",
        """ALTER TABLE asking DROP COLUMN heard;
        DROP TABLE IF EXISTS access_tries;
        DROP TABLE IF EXISTS links;                -- a code holds an hour
        CREATE TABLE links (                       -- the code that makes an account the owner's
            id INTEGER PRIMARY KEY,
            channel TEXT NOT NULL UNIQUE,
            sha256 TEXT NOT NULL,
            until TEXT NOT NULL,
            state TEXT NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'used', 'void')),
            wrong INTEGER NOT NULL DEFAULT 0,      -- codes that came
            sender TEXT NOT NULL DEFAULT '',       -- whom it has linked
            name TEXT NOT NULL DEFAULT ''
        ) STRICT""",
    )
    marks = (
        *("people.role", "people.at", "chats.sender", "asking.chat", "asking.code", "asking.at"),
        *("links.sha256", "links.until", "links.state"),
    )

    def __init__(self, host: Host, settings: AccessSettings) -> None:
        self._host, self._shared = host, MAIN if settings.owner == "shared" else None
        self._rules = {name: _rules(*one) for name, one in host.channel_settings(ChannelRules).items()}

    @cached_property
    def public(self) -> Gatekeeper:
        """Made when somebody asks: in a terminal alone nobody does."""
        from nanoclaw.plugins.access.accounts import Accounts
        from nanoclaw.plugins.access.gatekeeper import Gatekeeper

        return Gatekeeper(self._host, Accounts(self._host), self._rules, self._shared)

    async def audit(self) -> Iterable[Finding]:
        from nanoclaw.plugins.access.accounts import Accounts
        from nanoclaw.plugins.access.gatekeeper import opened

        return opened(Accounts(self._host), self._rules)

    def commands(self) -> Iterable[Command]:
        pair = "who may write to me: /pair lists them, /pair ABCD-2345 lets in who was told that code, /pair remove ID"
        link = "/link CODE, with the code of `nanoclaw link`, makes this account the owner's"
        held = "messages whose sender is in doubt: /held 3 shows one, /held yes 3 accepts it, /held no 3 drops it"
        return [
            Command("pair", pair, self._pair, cli=True, private=True),
            Command("held", held, self._held, cli=True, private=True, part_of="pair"),
            Command("link", link, self._link, open_to=EVERYBODY, part_of="pair"),
        ]

    def on_message(self, inbound: Inbound, tx: Tx) -> Inbound | Literal["ignore"] | None:
        return None if inbound.role or inbound.address.channel == MAIN.channel else self.public.decide(inbound, tx)

    def owners_chats(self) -> Sequence[Address]:
        return self.public.accounts.owners_chats()

    def conversation_of(self, address: Address) -> Address | None:
        return None if address.channel == MAIN.channel else self.public.conversation_of(address)

    def _pair(self, said: Said, tx: Tx) -> str | Reply:
        from nanoclaw.installation import start_command
        from nanoclaw.plugins.access.accounts import code_in
        from nanoclaw.plugins.access.gatekeeper import LISTED, in_words

        action, _, account = said.argument.partition(" ")
        if action == "remove":
            return self.public.remove(account.strip(), tx)
        if not said.argument:
            people, nobody = self.public.people(), f"Nobody yet: {start_command()} link CHANNEL links you."
            lines, asking = [in_words(one) for one in people], len(self.public.accounts.requests())
            if asking > LISTED:
                lines.insert(-LISTED, f"The last {LISTED} of {asking} who ask:")
            return Reply("\n".join(lines) or nobody, {"people": people})
        code = code_in(said.argument)
        found = self.public.accounts.approve(tx, code) if code else None
        if found is None:
            raise ConfigError("nobody waits with that code; a code is valid for a day. /pair lists who waits.")
        if found.address.chat:  # '': they have only invited so far, which is accepted now
            tx.send(Outbound(found.address, "You may talk to me now."))
        name = one_line(found.name, 64) or "They"
        return f"{name} (id {one_line(found.sender, 100)}) may talk to me on {found.address.channel} now, as a guest."

    async def _held(self, said: Said) -> Reply:
        """A yes counts only where the platform vouches for who says it; elsewhere nobody is the owner."""
        held, words = self.public.held, " ".join(said.argument.lower().split())
        if not words:
            return Reply(held.listed())
        if words == "no all":
            return Reply(f"Messages discarded: {len(held.all())}.", change=lambda tx: held.drop(tx, None))
        if not (read := re.fullmatch(r"(?:(yes|no) )?([0-9]{1,9})", words)):
            return Reply("Say /held yes 3, /held no 3, /held 3 to see it, or /held alone for what waits.")
        verb, number = read[1], int(read[2])
        if (found := held.find(number)) is None:
            return Reply(f"No message {number} waits; /held lists those that do.")
        if not verb:
            return Reply(held.shown(found))
        told = await self.public.release(found) if verb == "yes" else f"Message {number} is discarded."
        return Reply(told, change=lambda tx: held.drop(tx, number))

    async def check(self, deep: bool) -> Iterable[Finding]:
        return self.public.findings() if self._rules else ()

    def _link(self, said: Said, tx: Tx) -> str:
        """Answer what is not a code, or no longer one: the right one never comes here."""
        if said.argument:
            return "That code is not valid, or has expired. `nanoclaw link` on the owner's machine shows a new one."
        return (
            "`nanoclaw link CHANNEL`, on the owner's machine, shows a code; /link CODE then makes this account the "
            "owner's."
        )


def _rules(spec: ChannelSpec, rules: ChannelRules) -> ChannelRules:
    if spec.ids == "addresses":  # they are the same in capitals
        return rules._replace(allow_from=tuple(map(str.lower, rules.allow_from)))
    return rules
