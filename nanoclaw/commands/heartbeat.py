"""`nanoclaw heartbeat`: one beat now, or only what it would find."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nanoclaw.commands.arguments import Options
from nanoclaw.core.errors import ConfigError
from nanoclaw.start.config import Config

if TYPE_CHECKING:
    from nanoclaw.core.app import App


def heartbeat(config: Config, options: Options) -> int:
    from nanoclaw.commands.inspecting import app_over_copy
    from nanoclaw.commands.talking import program, run, said
    from nanoclaw.providers.choose import choose_model

    async def beat() -> int:
        if options.dry_run:
            async with app_over_copy(config) as app:
                print(await _beats(app).dry_run())
            return 0
        async with program(config, await choose_model(config), channels=None) as app:
            print(await _beats(app).to_the_end(app.router.resume))
        return 0

    return run(beat()) if options.dry_run else said(config, "/heartbeat", beat)


def _beats(app: App) -> Any:
    """The plugin's own. Raises ConfigError where it is off."""
    if (beats := app.public("heartbeat")) is None:
        raise ConfigError("the plugin heartbeat is off: take it out of [plugins] off in config.toml")
    return beats
