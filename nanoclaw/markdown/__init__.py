"""Markdown as a model writes it, rendered for Telegram, HTML, plain text and a terminal; a library, see README.md."""
