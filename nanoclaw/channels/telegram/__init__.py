"""Telegram, by long polling of its Bot API; httpx is imported here, so the package is imported when it is used."""

from nanoclaw.channels.telegram.channel import Telegram

__all__ = ["Telegram"]
