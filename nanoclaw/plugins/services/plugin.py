"""The plugin: brings the models that no other plugin does, by what nanoclaw knows of services and servers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from nanoclaw.core.plugin import Host, Plugin

if TYPE_CHECKING:
    from nanoclaw.core.provider import Provider


class Services(Plugin):
    name = "services"

    def __init__(self, host: Host, settings: None) -> None:
        self._host = host

    def providers(self) -> Mapping[str, Callable[[str], Provider]]:
        return {"": self._made}

    def _made(self, model: str) -> Provider:
        from nanoclaw.providers.names import provider_for

        host, models = self._host, self._host.models
        return provider_for(
            model,
            *models.place_of(model),
            host.environment,
            home=host.program_home,
            tool_mode=host.setting("model.tool_mode"),
            abilities=models.abilities(model),
        )
