"""Inspecting the program without running it: on a copy of the store, beside the process that owns it."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

from nanoclaw.commands.plugins import public
from nanoclaw.core.errors import StoreError
from nanoclaw.core.messages import Address, ModelRequest
from nanoclaw.core.plugin import Mode, Profile
from nanoclaw.core.provider import chat_messages, chat_tools
from nanoclaw.installation import start_command
from nanoclaw.start.build import ModelFacts
from nanoclaw.start.config import Config, WorkspaceFolder
from nanoclaw.start.home import stored

if TYPE_CHECKING:
    from nanoclaw.core.app import App
    from nanoclaw.core.channel import Channel
    from nanoclaw.core.prompt_snapshot import Manifest
    from nanoclaw.plugins.inspect.request import PromptRow


@asynccontextmanager
async def app_over_copy(config: Config, channels: Iterable[Channel] | None = ()) -> AsyncIterator[App]:
    """The program on a copy of the store: this changes nothing, and disturbs no running process. Before there is a home
    or a workspace it uses a new one, which is removed afterwards."""
    from nanoclaw.sqlite_salvage.copies import copy_database
    from nanoclaw.start.build import build

    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # the disk may be full
    with TemporaryDirectory(prefix="nanoclaw-", dir=memory) as folder:
        state = Path(folder) / "state.db"
        with stored(config) as store:
            try:
                if store:
                    copy_database(store.db, state)
            except sqlite3.Error as error:
                raise StoreError(f"the store cannot be read: {error}. {start_command()} doctor looks at it.") from error
        seen = config if config.home.exists() else config._replace(home=Path(folder) / "home")
        if not seen.workspace_path.exists():
            seen = seen._replace(workspace=WorkspaceFolder(str(Path(folder) / "workspace")))
        app = build(seen, channels=channels, model=config.model.name, state=state)
        try:
            yield app
        finally:
            await app.aclose()


class View(NamedTuple):
    """A request as it would be sent, from the inside."""

    manifest: Manifest
    rows: list[PromptRow]
    remarks: list[str]
    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]]


async def preview_request(config: Config, session: str, message: str, mode: Mode) -> View:
    """The request that a model would get if `message` came now into a conversation of the terminal, or of a chat app as
    `nanoclaw sessions list` names it. Raises ConfigError."""
    address = Address(*session.split(":", 1)) if ":" in session else Address("terminal", session)
    channels: tuple[Channel, ...] | None = () if address.channel == "terminal" else None  # they say what they can show
    if mode == "guest" and address.channel == "terminal":  # which is the owner's: a guest begins anew
        address = Address("guest", "")
    async with app_over_copy(config, channels) as app:
        inspection = public(app, "inspect")
        profile = app.chain.profiles.get({"full": "person", "minimal": "job"}.get(mode, mode), Profile(mode, mode))
        found = await inspection.preview(app.sessions.conversation(address), message, profile, address)
        rows, remarks = inspection.rows(found), inspection.remarks(address, found)
        request = ModelRequest(found.snapshot.system, (*found.history, *found.new), found.snapshot.tools)
        last = app.sessions.of(address).last_turn()
        model = app.sessions.of(address).model or config.model.name or (last.model if last else "")
        if model.startswith("local/"):
            tools = "a few of the tools" if request.tools else "no tools"
            held = f"{model} cannot hold what the table counts"
            remarks.append(f"{held}: it is sent the short form below, with {tools} in it.")
            return View(found.manifest, rows, remarks, _short(request), [])
        able = ModelFacts(app.store).abilities(model)
        if config.model.tool_mode == "json" or not able.calls_tools:
            from nanoclaw.providers.json_tools import json_messages

            remarks.append(f"{model} is asked for JSON: the tools are in its instructions, each with an example.")
            return View(found.manifest, rows, remarks, json_messages(request), [])
        messages = chat_messages(request, vision=able.sees_images)
        return View(found.manifest, rows, remarks, messages, chat_tools(request.tools))


def _short(request: ModelRequest) -> list[dict[str, Any]]:
    """The messages of a request that a model in this process gets: all but the oldest that do not fit."""
    from nanoclaw.providers import json_tools

    instructions = json_tools.static_messages(json_tools.few(request.tools))
    said = json_tools.history_messages(request.history, json_tools.facts(request.system))
    return json_tools.to_answer([*instructions, *said])
