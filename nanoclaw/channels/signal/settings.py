"""The settings of Signal, and how signal-cli is set up and linked."""

from __future__ import annotations

import re
from typing import NamedTuple

from nanoclaw.core.channel import Channel, ChannelHost, ChannelSpec, LinkHelp
from nanoclaw.core.errors import ConfigError


class SignalSettings(NamedTuple):
    """Signal account."""

    account: str = ""  # its number
    api_base: str = "http://127.0.0.1:8080"  # signal-cli


def make(settings: SignalSettings, host: ChannelHost) -> Channel:
    if not re.fullmatch(r"\+\d{5,20}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", settings.account):
        raise ConfigError(f"channels.signal.account must be a number such as +4915112345, not {settings.account!r}.")
    from nanoclaw.channels.signal.channel import Signal

    return Signal(settings, host)


LINK = LinkHelp(
    missing="""\
signal is not configured yet. The assistant needs a telephone number of its own, and signal-cli:
  1. Install it (https://github.com/AsamK/signal-cli) and register the number: signal-cli -a +49… register, then verify
  2. Let it run beside nanoclaw: signal-cli daemon --http 127.0.0.1:8080
     Whoever reaches that port can read and write for the account: leave it on this machine.
Put NANOCLAW_SIGNAL_ACCOUNT=+49… into secrets.env (chmod 600); run this again.
This channel was tested with a copy of signal-cli's documented interface, not on Signal itself.""",
    where="{who} in Signal",
)

SPEC = ChannelSpec(make, SignalSettings, needed=("account",), secrets=("account",), link=LINK)
