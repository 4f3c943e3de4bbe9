"""`nanoclaw heartbeat`: one beat now, or only what it would find."""

from __future__ import annotations

from nanoclaw.commands.arguments import Options
from nanoclaw.commands.plugins import public
from nanoclaw.start.config import Config


def heartbeat(config: Config, options: Options) -> int:
    from nanoclaw.commands.inspecting import app_over_copy
    from nanoclaw.commands.talking import program, run, said
    from nanoclaw.providers.choose import choose_model

    async def beat() -> int:
        if options.dry_run:
            async with app_over_copy(config) as app:
                print(await public(app, "heartbeat").dry_run())
            return 0
        async with program(config, await choose_model(config), channels=None) as app:
            print(await public(app, "heartbeat").to_the_end(app.router.resume))
        return 0

    return run(beat()) if options.dry_run else said(config, "/heartbeat", beat)
