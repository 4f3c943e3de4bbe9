"""The settings of Slack, and how an app is made and linked."""

from __future__ import annotations

from typing import NamedTuple

from nanoclaw.core.channel import Channel, ChannelHost, ChannelSpec, LinkHelp


class SlackSettings(NamedTuple):
    """The assistant's Slack app."""

    token: str = ""  # the bot's token, xoxb-…
    app_token: str = ""  # the app's token, xapp-…


def make(settings: SlackSettings, host: ChannelHost) -> Channel:
    from nanoclaw.channels.slack.channel import Slack

    return Slack(settings, host)


LINK = LinkHelp(
    missing="""\
slack is not configured yet. Slack gives an app of your own two tokens:
  1. Open https://api.slack.com/apps, choose Create New App, From scratch
  2. Under Socket Mode switch it on; it makes a token that begins with xapp-
  3. Under OAuth & Permissions add the bot scopes app_mentions:read, channels:history, chat:write, files:read,
     files:write, groups:history, im:history, reactions:write and users:read
  4. Under Event Subscriptions switch them on and add the bot events app_mention and message.im
  5. Under Interactivity switch it on, and under App Home let people send messages from its tab
  6. Under Install App install it; it gives a token that begins with xoxb-
Put NANOCLAW_SLACK_TOKEN=xoxb-… and NANOCLAW_SLACK_APP_TOKEN=xapp-… into secrets.env (chmod 600); run this again.""",
    where="{who} in Slack, as a direct message",
)

SPEC = ChannelSpec(
    make,
    SlackSettings,
    needed=("token", "app_token"),
    secrets=("token", "app_token"),
    libraries=("websockets",),
    link=LINK,
)
