"""Lets a harness measure recall: (workspace, query, history, now, budget) to (file, first line, last line, text)."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from nanoclaw.core.app import App
from nanoclaw.plugins.memory.index import Index
from nanoclaw.plugins.memory.packing import Match, _Texts, window
from nanoclaw.plugins.memory.plugin import TALK, Memory
from nanoclaw.plugins.memory.recall import _rank
from nanoclaw.providers.scripted import ScriptedProvider
from nanoclaw.start.build import build
from nanoclaw.start.config import load

Found = list[tuple[str, int, int, str]]

vectors = ""
"""The model that makes vectors for `shown`, '' for none."""

_loop = asyncio.new_event_loop()
_indexes: dict[str, Index] = {}
_programs: dict[str, tuple[App, Memory]] = {}
_folder = tempfile.TemporaryDirectory()
_now = datetime.now(UTC)


def ranked(workspace: str, query: str, history: Sequence[Mapping[str, str]], now: str, budget: int) -> Found:
    """The ranking itself, also where the match is weak."""
    if workspace not in _indexes:
        file = Path(_folder.name) / f"{len(_indexes)}.db"
        index = _indexes[workspace] = Index(Path(workspace), file)
        index.refresh()
        while index.unread:
            index.go_on()
    talk = [message["content"] for message in history]
    index, at = _indexes[workspace], datetime.fromisoformat(now)
    matches, values = _rank(index, query, talk, at, False, None, max(12, budget // 60))
    texts, groups, seen, left = _Texts(index), dict[str, list[tuple[Match, str]]](), set[str](), budget
    for each in matches:  # entries of one file share a hit, and pay for its name and a line end
        file = each.chunk.file
        room = left - (1 if file in groups else len(file) + 11)
        is_cut = each.entry.characters > room and (room < 40 or seen)
        if left < 40 or each.entry.terms in seen or is_cut or not (text := texts.of(each)):
            continue
        text = window(text, values, room) if len(text) > room else text
        seen.add(each.entry.terms)
        left = room - len(text)
        groups.setdefault(file, []).append((each, text))
    found = [(file, sorted(group, key=lambda one: one[0].rows)) for file, group in groups.items()]
    return [(file, one[0][0].rows[0], one[-1][0].rows[1], "\n".join(text for _, text in one)) for file, one in found]


def shown(workspace: str, query: str, history: Sequence[Mapping[str, str]], now: str) -> Found:
    """The notes that the memory plugin of a program over them tells the model as shipped."""
    global _now
    _now = datetime.fromisoformat(now).replace(tzinfo=UTC)
    if workspace not in _programs:
        home = Path(_folder.name) / f"home{len(_programs)}"
        shutil.copytree(workspace, home / "workspace")
        (home / "config.toml").write_text(f'[memory]\nembeddings = "{vectors}"\n')
        config = load({"NANOCLAW_HOME": str(home), "TZ": "UTC"})
        provider = None if vectors else ScriptedProvider()
        app = build(config, provider=provider, plugins=["memory"], clock=lambda: _now)
        (memory,) = (one for one in app.plugins if isinstance(one, Memory))
        if memory._opinion:
            _loop.run_until_complete(memory._opinion.make())
        _programs[workspace] = app, memory
    talk = [message["content"] for message in history][-TALK:]
    memory = _programs[workspace][1]
    vector = _loop.run_until_complete(memory._opinion.vector_of(query)) if memory._opinion else None
    hits = memory._recalled(query, talk, None, vector)
    return [(hit.file, hit.start, hit.end, hit.text) for hit in hits]
