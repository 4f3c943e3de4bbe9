"""`nanoclaw heartbeat`: one beat now, or only what it would find."""

from __future__ import annotations

import asyncio

from nanoclaw.channels import attach
from nanoclaw.commands.arguments import Options
from nanoclaw.core.errors import ConfigError
from nanoclaw.start.config import Config

OFF = "the plugin heartbeat is off: take it out of [plugins] off in config.toml"


def heartbeat(config: Config, options: Options) -> int:
    if options.dry_run:
        print(asyncio.run(_dry_run(config)))
        return 0
    from nanoclaw.commands.talking import program, there_or_here
    from nanoclaw.providers.choose import choose_model

    async def beat() -> int:
        model = await choose_model(config)
        async with program(config, model, channels=None) as app:
            beats = app.public("heartbeat")
            if beats is None:
                raise ConfigError(OFF)
            print(await beats.to_the_end(app.router.resume))
        return 0

    return there_or_here(config, "answer", lambda link: attach.ask(link, "/heartbeat", [], as_json=False), beat)


async def _dry_run(config: Config) -> str:
    from nanoclaw.commands.inspecting import app_over_copy

    async with app_over_copy(config) as app:
        beats = app.public("heartbeat")
        if beats is None:
            raise ConfigError(OFF)
        return str(await beats.dry_run())
