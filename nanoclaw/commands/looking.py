"""What commands show of the assistant without running it: the prompt, a heartbeat, skills, checks."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import Any

from nanoclaw.core import chats
from nanoclaw.core.channel import Hints
from nanoclaw.core.config import Config
from nanoclaw.core.context import recent_talk
from nanoclaw.core.manifest import Manifest, manifest
from nanoclaw.core.messages import Address, ModelRequest
from nanoclaw.core.parts import (
    all_tools,
    context_builder,
    for_guests,
    heartbeat_settings,
    make_forgetter,
    note_search,
    person_clock,
    skill_folders,
    skill_means,
    watched,
)
from nanoclaw.core.provider import chat_messages, chat_tools
from nanoclaw.core.sections import Mode, with_skills
from nanoclaw.core.store.db import Store
from nanoclaw.core.store.models import ModelFacts
from nanoclaw.core.store.sessions import last_turn, session_of
from nanoclaw.core.store.usage import lessons
from nanoclaw.core.token_estimate import Calibration
from nanoclaw.core.workspace import Workspace
from nanoclaw.plugins.heartbeat import heartbeat as heartbeats
from nanoclaw.plugins.heartbeat.beats import Beats
from nanoclaw.plugins.inspect import xray
from nanoclaw.plugins.rules.pins import Pins
from nanoclaw.plugins.skills.skills import Skill, survey


@dataclass(frozen=True, slots=True)
class View:
    """A request as it would be sent, from the inside."""

    manifest: Manifest
    rows: list[xray.Row]
    remarks: list[str]
    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]]


def look_inside(config: Config, store: Store | None, session: str, message: str, mode: Mode) -> View:
    """What the model would see if `message` came into a conversation now: one of the terminal, or of a chat app as
    `nanoclaw sessions list` names it. Changes nothing."""

    def hints(channel: str) -> Hints | None:
        found = chats.chat_channels(config, now, only=channel) if channel in chats.configured(config) else ()
        return next((one.hints for one in found), None)

    now = person_clock(config)
    notes = note_search(config, now)
    workspace = Workspace(config.workspace_path)
    tools = all_tools(config, workspace, now, make_forgetter(config, now, store, notes=notes), notes)
    builder = context_builder(config, tools, now, notes, Pins(store, now), hints)
    specs = tuple(tool.spec for tool in (for_guests(tools) if mode == "guest" else tools))
    address = Address(*session.split(":", 1)) if ":" in session else Address("terminal", session)
    goes_on = store if mode == "full" or (mode == "guest" and address.channel != "terminal") else None
    stored, history = session_of(goes_on, str(address)) if goes_on else (None, [])
    if mode in ("full", "guest"):
        opening, late = builder.reopen(stored, message, recent_talk(history), mode, address.channel)
    else:
        opening, late = builder.open(message, mode), ()
    opening, place = builder.introduce(opening, address.channel) if goes_on else (opening, "")
    made_of = manifest(mode, builder.sections(mode, opening), opening, late, specs)
    new = builder.user_messages(
        message,
        channel=address.channel,
        chat_id=address.chat,
        sender="owner" if address.channel == "terminal" and mode != "guest" else "",
        notes=late,
        said=[place] if place else (),
        mode=mode,
    )
    request = ModelRequest(builder.system(mode, opening), (*history, *new), specs)
    last = xray.past(last_turn(goes_on, str(address))) if goes_on else None
    model = last.model if last and last.model else config.model.name
    factor = Calibration(partial(lessons, store)).factor(model) if store else 1.0
    shown = xray.rows(made_of, history, new, model, factor)
    remarks = xray.remarks(made_of, last)
    if model.startswith("local/"):
        remarks.append(f"{model} cannot take in so much: it is sent the short form below, and few tools.")
        return View(made_of, shown, remarks, _short(request), [])
    sees = store is None or ModelFacts(store).sees_images(model) is not False
    return View(made_of, shown, remarks, chat_messages(request, vision=sees), chat_tools(specs))


def _short(request: ModelRequest) -> list[dict[str, Any]]:
    """What a model in the process is sent of a request, but for the oldest that does not fit."""
    from nanoclaw.providers import json_tools

    instructions = json_tools.static_messages(json_tools.few(request.tools))
    said = json_tools.history_messages(request.history, json_tools.facts(request.system))
    return json_tools.to_answer([*instructions, *said])


def rehearse_heartbeat(config: Config, store: Store | None) -> str:
    """What a heartbeat now would come to, in words. Looks at what is watched; changes nothing and asks no model."""
    zone, now = heartbeat_settings(config).zone, person_clock(config)
    states = Beats(store, None, now).states() if store else {}
    looking = watched(config, Workspace(config.workspace_path))
    verdicts = asyncio.run(heartbeats.look(looking, states, now().astimezone(zone) if zone else now()))
    lines = [heartbeats.table(verdicts), ""]
    if not any(verdict.is_due for verdict in verdicts):
        return "\n".join([*lines, "Nothing is due: no model is asked."])
    text = heartbeats.prompt(verdicts)
    view = look_inside(config, store, "main", text, "minimal")
    tokens = sum(row.tokens for row in view.rows)
    return "\n".join([*lines, f"The model would be asked (about {tokens:,} tokens, tools included):", "", text])


def skills_found(config: Config) -> tuple[list[tuple[Skill, str]], frozenset[str]]:
    """All skills, each with its source: workspace, home, shipped, or a folder of the config. And the names of those
    that each conversation has as a whole."""
    folders = skill_folders(config)
    names = ["workspace", "home", *map(str, folders[2:-1]), "shipped"]
    sources = dict(zip(reversed(folders), reversed(names), strict=True))
    tools = all_tools(config, Workspace(config.workspace_path), person_clock(config))
    found = survey(folders, skill_means(config, tools))
    active = with_skills(skill for skill in found if not skill.hidden and not skill.problem).active
    return [(skill, sources[skill.folder.parent]) for skill in found], frozenset(active)
