"""The settings of WhatsApp, and how a number is got and linked."""

from __future__ import annotations

from typing import NamedTuple

from nanoclaw.core.channel import Channel, ChannelHost, ChannelSpec, LinkHelp


class WhatsappSettings(NamedTuple):
    """WhatsApp number."""

    token: str = ""  # access token
    app_secret: str = ""  # app secret
    number_id: str = ""  # phone number ID


def make(settings: WhatsappSettings, host: ChannelHost) -> Channel:
    from nanoclaw.channels.whatsapp.channel import Whatsapp

    return Whatsapp(settings, host)


LINK = LinkHelp(
    missing="""\
whatsapp is not configured yet. Meta gives a business number of your own an ID, and an app a token and a secret:
  1. Open https://developers.facebook.com/apps, create an app and add WhatsApp to it
  2. Under WhatsApp, API Setup, note the Phone number ID; make a permanent token for a System User of your business
  3. Under App settings, Basic, note the App secret
  4. Put NANOCLAW_WHATSAPP_TOKEN, NANOCLAW_WHATSAPP_APP_SECRET and NANOCLAW_WHATSAPP_NUMBER_ID into secrets.env
     (chmod 600), and a table [page] into config.toml
  5. Let https://YOUR-NAME/channels/whatsapp lead to the page's server (page.port; YOUR-NAME belongs into page.hosts),
     start nanoclaw gateway, and under WhatsApp, Configuration, set that as the Callback URL, with the Phone number ID
     as the Verify token; subscribe to the field messages
Run this again while the gateway runs. This channel was tested by the documentation alone, not on WhatsApp itself.""",
    where="{who} in WhatsApp",
)

_KEYS = ("token", "app_secret", "number_id")
SPEC = ChannelSpec(make, WhatsappSettings, needed=_KEYS, secrets=_KEYS, ids="numbers", link=LINK, needs_page=True)
