"""`nanoclaw model`: everything known about models, without asking a server, and the one that answers from now on."""

from __future__ import annotations

import asyncio
import json
import os

from nanoclaw.commands.arguments import Options
from nanoclaw.commands.plugins import carry_out
from nanoclaw.core.plugin import Reply
from nanoclaw.start.config import Config, load


def model(config: Config, options: Options) -> int:
    if options.name:
        from nanoclaw.commands.choosing import choose

        done, lacking = choose(config, config.purposes.resolve(options.name), "")
        if not options.json:
            print(*done, *lacking, sep="\n")
        if any(line.startswith("Still to do") for line in lacking):
            return 0
        return carry_out(load(os.environ), "model", options.name, as_json=options.json)
    found = asyncio.run(_listing(config))
    print(json.dumps(found.data) if options.json else found.text)
    return 0


async def _listing(config: Config) -> Reply:
    from nanoclaw.commands.inspecting import app_over_copy

    async with app_over_copy(config) as app:
        return app.models.listing("")
