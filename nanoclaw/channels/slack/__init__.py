"""Slack, in socket mode: an app's bot in private chats and in channels."""
