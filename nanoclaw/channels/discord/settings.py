"""The settings of Discord, and how a bot is got and linked."""

from __future__ import annotations

from typing import NamedTuple

from nanoclaw.core.channel import Channel, ChannelHost, ChannelSpec, LinkHelp


class DiscordSettings(NamedTuple):
    """The assistant's Discord bot."""

    token: str = ""  # the bot's token


def make(settings: DiscordSettings, host: ChannelHost) -> Channel:
    from nanoclaw.channels.discord.channel import Discord

    return Discord(settings, host)


LINK = LinkHelp(
    missing="discord has no token yet. Run this in a terminal, which says how to get one, or put "
    "NANOCLAW_DISCORD_TOKEN=… into secrets.env (chmod 600).",
    where="{who} in Discord, as a private message",
    steps="""\
Discord gives a bot of your own a token:
  1. Open https://discord.com/developers/applications, choose New Application and give it a name
  2. Under Bot switch on Message Content Intent, so that it can read what is said in a server without its name
  3. Under OAuth2, in the URL Generator, tick bot and then View Channels, Send Messages, Send Messages in Threads,
     Attach Files, Read Message History and Add Reactions; open the address below and add the bot to a server of yours
  4. Under Bot choose Reset Token and copy it
  5. Paste it here; it goes into secrets.env, which only you can read""",
    asks="token",
    looks=r"[A-Za-z0-9_-]{18,40}\.[A-Za-z0-9_-]{4,10}\.[A-Za-z0-9_-]{20,60}",
    shape="three groups of letters and digits with dots between them, about 70 characters",
)

SPEC = ChannelSpec(
    make, DiscordSettings, needed=("token",), secrets=("token",), libraries=("websockets",), ids="numbers", link=LINK
)
