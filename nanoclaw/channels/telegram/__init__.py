"""Telegram, by long polling of its Bot API."""
