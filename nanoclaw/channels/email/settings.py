"""The settings of e-mail, and how a mailbox is linked."""

from __future__ import annotations

from typing import Literal, NamedTuple

from nanoclaw.core.channel import Channel, ChannelHost, ChannelSpec, LinkHelp

Security = Literal["tls", "starttls", "none"]


class EmailSettings(NamedTuple):
    """A mailbox of the assistant's own."""

    address: str = ""  # address of the assistant
    user: str = ""  # login name; empty: the address
    password: str = ""  # the mailbox's password
    imap_host: str = ""  # server to read mail from, with its port if it is another than usual: "mail.lan:1993"
    smtp_host: str = ""  # server to send mail with
    security: Security = "tls"  # encryption of both connections
    trusts: str = ""  # name under which your server signs Authentication-Results
    aliases: tuple[str, ...] = ()  # other addresses whose mail arrives in this mailbox


def make(settings: EmailSettings, host: ChannelHost) -> Channel:
    from nanoclaw.channels.email.channel import Email

    return Email(settings, host)


LINK = LinkHelp(
    missing="""\
email is not configured yet. Make a mailbox for the assistant alone, then put into config.toml
  [channels.email]
  address = "assistant@example.org"
  imap_host = "imap.example.org"
  smtp_host = "smtp.example.org"
  trusts = "mx.example.org"      # how its own server signs Authentication-Results
and NANOCLAW_EMAIL_PASSWORD=… into secrets.env (chmod 600), and run this again.""",
    where="{address}, by mail",
)

SPEC = ChannelSpec(
    make,
    EmailSettings,
    needed=("address", "imap_host", "smtp_host", "password"),
    secrets=("password",),
    libraries=("imap_tools", "aiosmtplib", "inscriptis"),
    ids="addresses",
    link=LINK,
    is_tried=True,
)
