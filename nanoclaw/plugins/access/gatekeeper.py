"""Decides about each message of a chat channel: who is let in, in which role, and which conversation it is part of."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import Literal

from nanoclaw.core.channel import MAIN, TERMINAL, UNVERIFIED, ChannelAccess, Place, Proves
from nanoclaw.core.errors import ConfigError
from nanoclaw.core.messages import Address, Inbound, Outbound, Role, is_stop
from nanoclaw.core.plugin import Finding, Host, Tx
from nanoclaw.escapes import one_line
from nanoclaw.plugins.access.accounts import Accounts, code_in, shown
from nanoclaw.plugins.access.groups import LISTENERS, GroupTalk, remember
from nanoclaw.plugins.access.held import HeldMessage, HeldMessages, released
from nanoclaw.plugins.access.plugin import PER_HOUR, Admission, ChannelRules, account, creator, is_sure

QUIET, HOUR = timedelta(minutes=1), timedelta(hours=1)
"""Between two lines in the log about strangers of a channel; between two that the owner is told about one thing, and in
which a guest has so many messages."""

LISTED = 20
"""Strangers whom /pair lists."""

Decision = Inbound | Literal["ignore"]


class _People(ChannelAccess):
    def __init__(self, keeper: Gatekeeper, channel: str) -> None:
        self._keeper, self._channel = keeper, channel

    def is_known(self, sender: str) -> bool:
        return (
            self._keeper.rules(self._channel).policy == "open" or self._keeper.role(self._channel, sender) is not None
        )

    def awaits_code(self) -> bool:
        link = self._keeper.accounts.link(self._channel)
        return link is not None and link.state == "open"

    async def invited_by(self, sender: str) -> None:
        await self._keeper.invited_by(self._channel, sender)

    def owners_chats(self) -> list[str]:
        return [one.chat for one in self._keeper.accounts.owners_chats() if one.channel == self._channel]


class Gatekeeper:
    """Everything that others ask about accounts, too: it is what the plugin makes public."""

    creator = staticmethod(creator)

    def __init__(
        self, host: Host, accounts: Accounts, rules: Mapping[str, ChannelRules], shared: Address | None = None
    ) -> None:
        """`rules` by channel; one without rules lets nobody in but who is linked. `shared` is the conversation of all
        chats that the owner has alone with the assistant, if they share one."""
        self._host, self.accounts, self._rules, self._shared = host, accounts, rules, shared
        self._talk, self.held = GroupTalk(), HeldMessages(host)
        self._told: OrderedDict[tuple[str, str, str], datetime] = OrderedDict()  # by kind, channel and place: when last
        self._hours: OrderedDict[tuple[str, str], tuple[datetime, int]] = OrderedDict()  # of guests: since, so many

    # --- what others ask ---------------------------------------------------------------------------------------------

    def rules(self, channel: str) -> ChannelRules:
        return self._rules.get(channel, ChannelRules())

    def channels(self) -> list[str]:
        """The chat apps that the configuration has rules for."""
        return list(self._rules)

    def role(self, channel: str, sender: str) -> Role | None:
        """None for a stranger. Only the stable id counts, never a name."""
        if channel == TERMINAL:
            return "owner"
        if not is_sure(sender):
            return None
        linked = self.accounts.role(channel, sender)
        return linked or ("guest" if sender in self.rules(channel).allow_from else None)

    def role_for(self, maker: str, target: Address) -> Role:
        """The role of a job: that of whoever made it, and in a group a guest's."""
        is_for_group = target.channel != TERMINAL and Place.of(target.chat).person
        return "guest" if is_for_group else self.role(*account(maker)) or "guest"

    def may_run(self, maker: str, target: Address) -> bool:
        """Tells whether whoever made a job may talk to the assistant still, where it is heard."""
        (channel, sender), place = account(maker), Place.of(target.chat)
        rules = self.rules(channel)
        if channel != TERMINAL and place.person:
            return rules.groups != "off" and place.chat in rules.allow_groups
        return self.role(channel, sender) is not None or rules.policy == "open"

    def is_owners(self, address: Address) -> bool:
        """Tells whether the owner alone reads what is said there."""
        return address.channel == TERMINAL or self.accounts.is_owners(address)

    def people_of(self, channel: str) -> ChannelAccess:
        return _People(self, channel)

    async def invited_by(self, channel: str, sender: str) -> None:
        """A stranger's invitation is accepted once they are let in; where that can be asked for, it asks for it."""
        if self.rules(channel).policy == "pairing" and is_sure(sender):
            await self._host.write(partial(self._ask_by_invitation, Address(channel, ""), sender))

    def _ask_by_invitation(self, nowhere: Address, sender: str, tx: Tx) -> None:
        if self.accounts.request(tx, nowhere, sender, ""):
            self._tell_owner(tx)

    def is_listed(self, address: Address, *lists: Literal["allow_from", "allow_groups", "send_to"]) -> bool:
        """Tells whether a chat is in one of the lists of its channel's configuration."""
        return any(address.chat in getattr(self.rules(address.channel), name) for name in lists)

    def findings(self) -> list[Finding]:
        """Messages that wait for the owner's word, and what is known of platforms whose word has to be tried."""
        waiting = len(self.held.all())
        text = f"messages that say they are from you wait for you to confirm them; /held shows them: {waiting}"
        found = [Finding(True, text)] if waiting else []
        for name in self._rules:
            channel = self._host.channel(name)
            if isinstance(channel, Proves) and (proof := channel.proof)[1]:
                found.append(Finding(*proof, name))
        return found

    def important(self) -> list[str]:
        """Lines for the greeting."""
        return [f"({one.name or 'mail'}: {one.text})" for one in self.findings() if not one.is_well or not one.name]

    # --- who is let in -----------------------------------------------------------------------------------------------

    def people(self) -> list[dict[str, str]]:
        """The linked, the listed, and those who ask, each of whom a `code` lets in."""
        rows = [
            (one.channel, one.sender, str(one.role), f"{one.name or 'no name'}, since {one.since:%Y-%m-%d}", "")
            for one in self.accounts.all()
        ]
        for channel, rules in self._rules.items():
            rows += [(channel, one, "guest", "allow_from in config.toml", "") for one in sorted(rules.allow_from)]
        for one in self.accounts.requests()[-LISTED:]:
            rows.append((one.address.channel, one.sender, "asks", one.name or "no name", shown(one.code)))
        return [dict(zip(("channel", "sender", "role", "about", "code"), row, strict=True)) for row in rows]

    def remove(self, account: str, tx: Tx) -> str:
        """End what an account may do, with its jobs. Raises ConfigError."""
        channel, colon, sender = account.partition(":")
        if not colon or not sender:
            raise ConfigError(f"write the account as /pair lists it, such as telegram:555, not {account!r}.")
        was_linked, schedule = self.accounts.remove(tx, channel, sender), self._host.get("schedule")
        jobs = schedule.remove_all_of(tx, self.creator(Address(channel, ""), sender)) if schedule else 0
        if sender in self.rules(channel).allow_from:
            file = self._host.program_home / "config.toml"
            raise ConfigError(f"{account} is in allow_from of [channels.{channel}] in {file}: take it out there.")
        if not was_linked:
            raise ConfigError(f"{account} is not linked; /pair lists who is.")
        return f"{account} is not linked any more.{f' Jobs that were removed with it: {jobs}.' if jobs else ''}"

    # --- a message ---------------------------------------------------------------------------------------------------

    def decide(self, inbound: Inbound, tx: Tx) -> Decision:
        """Let a message in, with its role and conversation, or ignore it."""
        if inbound.is_group:
            place = Place.of(inbound.address.chat)._replace(person="")
            self.accounts.part(tx, inbound.address._replace(chat=str(place)))
        if self._links(inbound, tx) or self._holds(inbound, tx):
            return "ignore"
        admission = self.admission(inbound)
        if inbound.is_edit and admission in ("in", "overheard"):
            before = self._talk.change(inbound, self._host.now())
            if before and not before.is_told and admission == "in":  # it has come to be for the assistant
                self._talk.drop(inbound)
                return self._let_in(inbound._replace(is_edit=False), tx)
            return "ignore" if before and not before.is_told else self._placed(inbound)
        match admission:
            case "in":
                return self._let_in(inbound, tx)
            case "overheard":
                self._talk.overhear(inbound, self._host.now(), is_told=False)
            case "pairing":
                self._tell_code(inbound, tx)
            case "elsewhere":
                self._hint(inbound, tx)
            case "refused":
                self._turn_away(inbound)
        return "ignore"

    async def release(self, found: HeldMessage) -> str:
        """Hand in a message that the owner says is from whom it says, as if it came now; what is said of that. It waits
        on until it was taken away: a second time it is a repeat, which is dropped."""
        inbound = released(found)
        if self.role(inbound.address.channel, inbound.sender) is None:
            return f"{found.sender} may not talk to me any more: message {found.id} is discarded."
        await self._host.deliver(inbound)
        return f"Message {found.id} is accepted as sent by {found.sender}."

    def admission(self, inbound: Inbound) -> Admission:
        """Judge a message by rules and accounts alone."""
        channel = inbound.address.channel
        role, rules = self.role(channel, inbound.sender), self.rules(channel)
        if not inbound.is_group:
            if role or rules.policy == "open":
                return "in"
            return "pairing" if rules.policy == "pairing" and is_sure(inbound.sender) else "refused"
        if rules.groups == "off":
            return "refused"
        if Place.of(inbound.address.chat).chat not in rules.allow_groups:
            return "elsewhere" if role == "owner" and inbound.is_mention else "refused"
        return "in" if inbound.is_mention or rules.groups == "all" else "overheard"

    def conversation_of(self, address: Address) -> Address | None:
        """The one conversation of the owner's chats; None for an address that has its own."""
        is_shared = self._shared and address.channel != TERMINAL and self.accounts.is_owners(address)
        return self._shared if is_shared else None

    def _let_in(self, inbound: Inbound, tx: Tx) -> Decision:
        if self._is_too_much(inbound, tx):
            return "ignore"
        if inbound.is_group:
            if background := self._talk.background(inbound):
                inbound = inbound._replace(overheard=background)
                tx.after(lambda: self._talk.mark_read(inbound.address))
            self._talk.overhear(inbound, self._host.now(), is_told=True)
        elif self.role(inbound.address.channel, inbound.sender) == "owner":
            self.accounts.meet(tx, inbound.address, inbound.sender)
        return self._placed(inbound)

    def _placed(self, inbound: Inbound) -> Inbound:
        """With its role and conversation: what somebody else says under the owner's address, as in a forged e-mail, is
        not part of the owner's."""
        address = inbound.address
        role = self.role(address.channel, inbound.sender) or "guest"
        if role != "owner" and self.is_owners(address):
            return inbound._replace(role=role, conversation=Address(address.channel, f"{address.chat}?guest"))
        return inbound._replace(role=role, conversation=self.conversation_of(address))

    def _holds(self, inbound: Inbound, tx: Tx) -> bool:
        """Keep a message that says it is from somebody who is let in, and may be anybody's."""
        channel, sender = inbound.address.channel, inbound.sender
        if not sender.startswith(UNVERIFIED) or self.role(channel, sender.removeprefix(UNVERIFIED)) is None:
            return False
        elsewhere = (one for one in self.accounts.owners_chats() if one.channel != channel)
        if not self.held.hold(tx, inbound, next(elsewhere, MAIN)):
            self._turn_away(inbound)
        return True

    # --- strangers ---------------------------------------------------------------------------------------------------

    def _turn_away(self, inbound: Inbound) -> None:
        """Nothing happens, and the log has a line now and then."""
        where = f" in group {Place.of(inbound.address.chat).chat}" if inbound.is_group else ""
        self._log("no answer to a message of", inbound, where)

    def _log(self, what: str, inbound: Inbound, where: str = "") -> None:
        """A line in the log, of each kind one a minute for a channel."""
        if self._is_time(what, inbound.address.channel, "", QUIET):
            self._host.log.info("{}: {} id {}{}", inbound.address.channel, what, one_line(inbound.sender, 64), where)

    def _is_time(self, what: str, channel: str, place: str, span: timedelta) -> bool:
        """True if the last time that this was told is so long ago; it is told now."""
        now, key = self._host.now(), (what, channel, place)
        is_time = key not in self._told or now - self._told[key] >= span
        if is_time:
            remember(self._told, key, now, LISTENERS)
        return is_time

    def _is_too_much(self, inbound: Inbound, tx: Tx) -> bool:
        """Tells whether a guest has had this hour's answers, and says so to them once."""
        channel, sender, now = inbound.address.channel, inbound.sender, self._host.now()
        if channel not in self._rules or self.role(channel, sender) == "owner" or is_stop(inbound.message.text):
            return False
        since, count = self._hours.get((channel, sender), (now, 0))
        if now - since >= HOUR:
            since, count = now, 0
        remember(self._hours, (channel, sender), (since, count + 1), LISTENERS)
        if count == PER_HOUR:
            again = (since + HOUR).astimezone(now.tzinfo)
            _say(tx, inbound, f"I answer {PER_HOUR} messages an hour. Write again at {again:%H:%M}.")
        elif count > PER_HOUR:
            self._turn_away(inbound)
        return count >= PER_HOUR

    def _tell_code(self, inbound: Inbound, tx: Tx) -> None:
        code = self.accounts.request(tx, inbound.address, inbound.sender, inbound.name)
        self._tell_owner(tx)
        if not code:
            self._turn_away(inbound)
            return
        text = (
            f"I don't know you yet, so I did not read that. Give my owner this code: {shown(code)}. Once they have let "
            "you in, write again."
        )
        _say(tx, inbound, text)

    def _tell_owner(self, tx: Tx) -> None:
        """Tell the owner who asks to be let in, at most once an hour."""
        waiting = self.accounts.requests()
        if waiting and self._is_time("asks", "", "", HOUR):
            last = waiting[-1]
            who = f"{one_line(last.name, 64) or 'Somebody'} ({last.address.channel}, id {one_line(last.sender, 100)})"
            asks = f"{who} asks to be let in." if len(waiting) == 1 else f"{len(waiting)} ask to be let in, last {who}."
            how = f"“/pair {shown(last.code)}” lets them in as a guest; until then they are not read. /pair lists all."
            tx.send(Outbound(next(iter(self.accounts.owners_chats()), MAIN), f"{asks} {how}"), is_news=False)

    def _hint(self, inbound: Inbound, tx: Tx) -> None:
        """The owner alone hears why nothing happens."""
        channel, group = inbound.address.channel, Place.of(inbound.address.chat).chat
        if self._is_time("group", channel, group, HOUR):
            text = f'I don\'t speak in this group: add "{group}" to allow_groups of [channels.{channel}].'
            _say(tx, inbound, text)

    # --- codes -------------------------------------------------------------------------------------------------------

    def _links(self, inbound: Inbound, tx: Tx) -> bool:
        """Take the code of `nanoclaw link`, which goes no further. One that is wrong is treated as any other words of
        its sender, so that nobody learns from it."""
        code = _code(inbound.message.text)
        if not code:
            return False
        address, sender = inbound.address, inbound.sender.removeprefix(UNVERIFIED)  # only the owner knows the code
        may_link = bool(sender) and not inbound.is_group
        outcome = self.accounts.try_code(tx, code, address, sender, inbound.name, may_link=may_link)
        if outcome == "wrong":
            self._log("a wrong link code of", inbound)
        if outcome in ("wrong", "locked"):
            return False
        self._host.log.info("{}: the link code of id {} is {}", address.channel, one_line(inbound.sender, 64), outcome)
        if outcome == "linked":
            if sender == inbound.sender:
                self.accounts.meet(tx, address, sender)
            who = f" as {inbound.name}" if inbound.name else ""
            _say(
                tx,
                inbound,
                f"You are linked{who}: from now on this account is the owner's. /help lists what you can say.",
            )
        elif self.role(address.channel, inbound.sender) and not self.accounts.has_linked(address.channel, sender):
            _say(tx, inbound, OVER)
        return True


OVER = (
    "That code is over: it was used, an hour has passed, or others could read it. `nanoclaw link` shows a new one, for "
    "a chat where we are alone."
)


def in_words(person: Mapping[str, str]) -> str:
    """A line of /pair."""
    how = f": /pair {person['code']} lets them in" if person["code"] else ""
    name = one_line(f"{person['channel']}:{person['sender']}", 100)
    return f"- {name}, {person['role']}: {one_line(person['about'] + how, 200)}"


def _say(tx: Tx, inbound: Inbound, text: str) -> None:
    """Answer a message of which nothing is kept."""
    tx.send(Outbound(inbound.address, text, reply_to=inbound.external_id), is_news=False)


def _code(text: str) -> str:
    """The code that a message begins with, alone on its line or after /link or /start; in a mail, after its subject."""
    lines = [line.strip() for line in text[:1_000].splitlines() if line.strip()]
    first = lines[:2] if lines and lines[0].startswith(_SUBJECT) else lines[:1]
    bare = (_COMMAND.sub("", line.removeprefix(_SUBJECT)) for line in first)
    return next((code for line in bare if (code := code_in(line))), "")


_SUBJECT = "Subject: "
_COMMAND = re.compile(r"^/(?:link|start)(?:@\S+)?\s+", re.IGNORECASE)


def opened(accounts: Accounts, rules: Mapping[str, ChannelRules]) -> Iterator[Finding]:
    """A line for each way in, by channel."""
    linked, waiting = accounts.all(), accounts.requests()
    for channel in sorted({*rules, *(one.channel for one in linked)}):
        for role in ("owner", "guest"):
            those = [one for one in linked if (one.channel, one.role) == (channel, role)]
            people = [f"{one_line(one.name, 64) or 'no name'} (id {one.sender})" for one in those]
            if people:
                yield Finding(True, f"{role}s: {', '.join(people)}", channel, risk="note")
        if (rule := rules.get(channel)) is None:
            text = "accounts are linked, and the channel is not configured: they count again once it is"
            yield Finding(True, text, channel, risk="note")
            continue
        if rule.allow_from:
            yield Finding(True, f"guests by allow_from: {', '.join(rule.allow_from)}", channel, risk="note")
        if rule.policy == "open":
            yield Finding(False, 'anybody who writes is answered as a guest: policy = "open"', channel, risk="warning")
        if rule.allow_groups and rule.groups != "off":
            heard = "all that is said" if rule.groups == "all" else "who mentions it"
            text = f"groups, {heard}: {', '.join(rule.allow_groups)}"
            yield Finding(True, text, channel, risk="warning" if rule.groups == "all" else "note")
        if (code := accounts.link(channel)) and code.state == "open":
            text = f"a link code is open until {code.until:%H:%M}: whoever sends it becomes the owner"
            yield Finding(True, text, channel, risk="warning")
        if count := sum(one.address.channel == channel for one in waiting):
            yield Finding(True, f"{count} waiting for your approval: /pair lists them", channel, risk="note")
