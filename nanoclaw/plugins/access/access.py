"""Who may talk to the assistant: one verdict for every message of a chat channel. Decides; keeps and sends nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from nanoclaw.core.channel import UNVERIFIED
from nanoclaw.core.messages import Address, Inbound, Role

TERMINAL = "terminal"
"""The channel of the person's own machine: whoever types there is the owner."""

Policy = Literal["silent", "pairing", "open"]
Groups = Literal["off", "mention", "all"]

Admission = Literal["in", "overheard", "pairing", "elsewhere", "refused"]
"""in: it is answered; overheard: said to others in a group that is allowed, kept as context; pairing: a stranger who
may be told a code; elsewhere: the owner means the assistant in a group that is not allowed; refused: nothing happens.
"""


@dataclass(frozen=True, slots=True)
class ChannelRules:
    """How a channel lets people in. `allow_from` are stable ids of guests, `allow_groups` of groups; an empty list is
    nobody. `per_hour` is how many messages of each guest are answered, 0 for all."""

    allow_from: frozenset[str] = frozenset()
    policy: Policy = "silent"
    groups: Groups = "mention"
    allow_groups: frozenset[str] = frozenset()
    per_hour: int = 0


class AccessRules:
    def __init__(self, rules: Mapping[str, ChannelRules], linked: Callable[[str, str], Role | None]) -> None:
        """`rules` by channel; one without rules lets nobody in but who is linked. `linked(channel, sender)` is the role
        of an account that was linked, None for others."""
        self._rules, self._linked = rules, linked

    def rules(self, channel: str) -> ChannelRules:
        return self._rules.get(channel, ChannelRules())

    def role(self, channel: str, sender: str) -> Role | None:
        """None for a stranger. Only the stable id counts, never a name."""
        if channel == TERMINAL:
            return "owner"
        if not is_sure(sender):
            return None
        return self._linked(channel, sender) or ("guest" if sender in self.rules(channel).allow_from else None)

    def verdict(self, inbound: Inbound, group: str) -> Admission:
        """What is to become of a message of a chat channel; `group` is the stable id of the group it was said in."""
        channel = inbound.address.channel
        role, rules = self.role(channel, inbound.sender), self.rules(channel)
        if inbound.is_group:
            return self._in_group(inbound, rules, role, group)
        if role or rules.policy == "open":
            return "in"
        return "pairing" if rules.policy == "pairing" and is_sure(inbound.sender) else "refused"

    def hears(self, channel: str, sender: str, group: str = "") -> bool:
        """Whether the assistant talks to somebody, in a group or alone."""
        rules = self.rules(channel)
        if group:
            return rules.groups != "off" and group in rules.allow_groups
        return self.role(channel, sender) is not None or rules.policy == "open"

    def _in_group(self, inbound: Inbound, rules: ChannelRules, role: Role | None, group: str) -> Admission:
        if rules.groups == "off":
            return "refused"
        if group not in rules.allow_groups:
            return "elsewhere" if role == "owner" and inbound.is_mention else "refused"
        return "in" if inbound.is_mention or rules.groups == "all" else "overheard"


def is_sure(sender: str) -> bool:
    """Whether it is certain who wrote."""
    return bool(sender) and not sender.startswith(UNVERIFIED)


# --- who made a job --------------------------------------------------------------------------------------------------


def creator(address: Address, sender: str) -> str:
    """Who speaks, as a job keeps it: their account, or "owner" at the terminal. An account has a colon in it."""
    return "owner" if address.channel == TERMINAL else f"{address.channel}:{sender}"


def account(text: str) -> tuple[str, str]:
    """Channel and id of a `creator`; the owner's at the terminal has no id."""
    channel, colon, sender = text.partition(":")
    return (channel, sender) if colon else (TERMINAL, "")
