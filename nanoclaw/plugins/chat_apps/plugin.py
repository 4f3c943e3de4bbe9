"""The plugin: makes the chat apps of a gateway, and gives each what it needs of others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from nanoclaw.core.channel import Channel, ChannelHost, ChannelTable
from nanoclaw.core.plugin import Host, Plugin, RouteAnswer


class ChatApps(Plugin):
    name = "chat_apps"

    def __init__(self, host: Host, settings: None) -> None:
        self._host, self.public = host, self._made
        self._serves: list[Channel] = []

    def channels(self) -> Iterable[Channel]:
        tables = self._host.setting("channels") if self._host.is_gateway() else {}
        self._serves = [self._made(name) for name, table in tables.items() if table.is_configured]
        return self._serves

    def routes(self) -> Mapping[str, RouteAnswer]:
        """Those of chat apps that deliver to a server, where they have some."""
        return {key: answer for one in self._serves for key, answer in getattr(one, "routes", dict)().items()}

    def _made(self, name: str) -> Channel:
        """A chat app that has a table. Raises ConfigError for what it lacks."""
        host, commands = self._host, self._host.commands("person")
        menu = {command: one.help for command, one in commands.items() if one.part_of not in commands}
        own = ChannelHost(host.program_home / name, host.now, menu=menu, redact=host.redact)
        if access := host.get("access"):
            own = own._replace(access=access.people_of(name))
        if media := host.get("media"):
            own = own._replace(most_bytes=media.most_bytes)
        table: ChannelTable = host.setting("channels")[name]
        return table.made(own)
