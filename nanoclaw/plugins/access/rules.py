"""Rules by which each channel lets people in, as the configuration says."""

from __future__ import annotations

from typing import Literal, NamedTuple

from nanoclaw.core.channel import UNVERIFIED, ChannelTable, Ids
from nanoclaw.core.errors import ConfigError
from nanoclaw.core.messages import Address

TERMINAL = "terminal"
"""The channel of the person's own machine: whoever types there is the owner."""
MAIN = Address(TERMINAL, "main")

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
