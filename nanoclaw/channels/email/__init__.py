"""E-mail: a mailbox of the assistant's own, read by IMAP and answered by SMTP."""

from nanoclaw.channels.email.channel import Email

__all__ = ["Email"]
