"""The settings of XMPP, and how an account is got and linked."""

from __future__ import annotations

import re
from typing import NamedTuple

from nanoclaw.core.channel import Channel, ChannelHost, ChannelSpec, LinkHelp
from nanoclaw.core.errors import ConfigError


class XmppSettings(NamedTuple):
    """XMPP account."""

    jid: str = ""  # its address
    password: str = ""  # its password
    server: str = ""  # host:port, if not found by jid


def make(settings: XmppSettings, host: ChannelHost) -> Channel:
    if not re.fullmatch(r"[^@/\s]+@[^@/\s]+", settings.jid):
        raise ConfigError(f"channels.xmpp.jid must be an address such as bot@example.org, not {settings.jid!r}.")
    if settings.server and not re.fullmatch(r"\S+:\d{1,5}", settings.server):
        raise ConfigError(f"channels.xmpp.server must be host:port such as localhost:5222, not {settings.server!r}.")
    from nanoclaw.channels.xmpp.channel import Xmpp

    return Xmpp(settings, host)


LINK = LinkHelp(
    missing="""\
xmpp is not configured yet. The assistant needs an XMPP account of its own, on any server:
  1. Register one at a public server (https://providers.xmpp.net lists them), or on yours: prosodyctl adduser NAME@HOST
  2. Write its address into config.toml, as jid = "assistant@example.org" below [channels.xmpp]
Put NANOCLAW_XMPP_PASSWORD=… into secrets.env (chmod 600); run this again.""",
    where="{jid}, in a chat that is not encrypted by OMEMO",
)

SPEC = ChannelSpec(
    make,
    XmppSettings,
    needed=("jid", "password"),
    secrets=("password",),
    libraries=("slixmpp",),
    ids="addresses",
    link=LINK,
)
