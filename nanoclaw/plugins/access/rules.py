"""Rules by which each channel lets people in, as the configuration says."""

from __future__ import annotations

from typing import Literal, NamedTuple

from nanoclaw.core.channel import UNVERIFIED
from nanoclaw.core.messages import Address

TERMINAL = "terminal"
"""The channel of the person's own machine: whoever types there is the owner."""

Policy = Literal["silent", "pairing", "open"]
Groups = Literal["off", "mention", "all"]

Admission = Literal["in", "overheard", "pairing", "elsewhere", "refused"]
"""in: it is answered; overheard: said to others in a group that is allowed, kept as context; pairing: a stranger who
may be told a code; elsewhere: the owner means the assistant in a group that is not allowed; refused: nothing happens.
"""


class ChannelRules(NamedTuple):
    """Rules by which a channel lets people in. `allow_from` are stable ids of guests, `allow_groups` of groups; an
    empty list is nobody. `send_to` are chats that messages may be sent to unasked. `per_hour` is how many messages of
    each guest are answered, 0 for all."""

    allow_from: tuple[str, ...] = ()
    policy: Policy = "silent"
    groups: Groups = "mention"
    allow_groups: tuple[str, ...] = ()
    send_to: tuple[str, ...] = ()
    per_hour: int = 60


def is_sure(sender: str) -> bool:
    """Tells whether the platform vouches for who wrote."""
    return bool(sender) and not sender.startswith(UNVERIFIED)


# --- who made a job --------------------------------------------------------------------------------------------------


def creator(address: Address, sender: str) -> str:
    """The sender, as a job keeps them: their account, or "owner" at the terminal. An account has a colon in it."""
    return "owner" if address.channel == TERMINAL else f"{address.channel}:{sender}"


def account(text: str) -> tuple[str, str]:
    """Channel and id of a `creator`; the owner's at the terminal has no id."""
    channel, colon, sender = text.partition(":")
    return (channel, sender) if colon else (TERMINAL, "")
