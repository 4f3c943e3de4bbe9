"""The settings of Telegram, and how a bot is got and linked."""

from __future__ import annotations

from typing import NamedTuple

from nanoclaw.core.channel import Channel, ChannelHost, ChannelSpec, LinkHelp


class TelegramSettings(NamedTuple):
    """The assistant's Telegram bot."""

    token: str = ""  # the bot's token
    api_base: str = "https://api.telegram.org"  # address of Telegram's server


def make(settings: TelegramSettings, host: ChannelHost) -> Channel:
    from nanoclaw.channels.telegram.channel import Telegram

    return Telegram(settings, host)


LINK = LinkHelp(
    missing="telegram has no token yet. Run this in a terminal, which says how to get one, or put "
    "NANOCLAW_TELEGRAM_TOKEN=… into secrets.env (chmod 600).",
    where="{who} in Telegram",
    steps="""\
Telegram gives a bot of your own a token:
  1. In Telegram open a chat with @BotFather (https://t.me/BotFather) and send /newbot
  2. Give it a name, such as Anna's assistant, and a user name that ends in "bot"
  3. BotFather answers with a token, such as 123456789:AAE…: copy it
  4. Paste it here; it goes into secrets.env, which only you can read""",
    asks="token",
    looks=r"\d{5,20}:[A-Za-z0-9_-]{20,100}",
    shape="a number, a colon and about 35 letters and digits",
)

SPEC = ChannelSpec(make, TelegramSettings, needed=("token",), secrets=("token",), ids="numbers", link=LINK)
