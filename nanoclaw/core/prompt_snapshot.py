"""The prompt snapshot: what a context began with, kept with its session so that every request begins alike."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any, NamedTuple

from nanoclaw.core.messages import NoteRef, SystemPrompt, ToolExample, ToolSpec
from nanoclaw.core.plugin import Section
from nanoclaw.core.sections import joined


class PromptSnapshot(NamedTuple):
    """`sections` as they are sent, in order, and `tools` byte for byte. `versions` tell by section which state of the
    world is known; `channels` are those that the model was told of. `profile` is the name of the one it is for."""

    profile: str
    sections: tuple[Section, ...]
    tools: tuple[ToolSpec, ...]
    versions: dict[str, str]
    channels: tuple[str, ...] = ()

    @property
    def system(self) -> SystemPrompt:
        return joined(self.sections)

    @property
    def diagnostics(self) -> tuple[str, ...]:
        return tuple(code for section in self.sections for code in section.diagnostics)

    @property
    def cut_files(self) -> tuple[str, ...]:
        """Files of which only a part is shown."""
        codes = (code.partition(" ") for code in self.diagnostics)
        return tuple(name for code, _, name in codes if code in ("file_truncated", "total_budget_truncated"))

    def dump(self) -> str:
        sections = [section._asdict() for section in self.sections]
        tools = [{**spec._asdict(), "examples": [one._asdict() for one in spec.examples]} for spec in self.tools]
        return json.dumps({**self._asdict(), "sections": sections, "tools": tools})


@lru_cache(maxsize=64)  # each message of a conversation looks at the same one
def load(text: str | None) -> PromptSnapshot | None:
    """None for a text that `dump` did not write: the context then begins anew."""
    try:
        body: dict[str, Any] = json.loads(text or "")
        return PromptSnapshot(
            body["profile"],
            tuple(_section(section) for section in body["sections"]),
            tuple(_spec(spec) for spec in body["tools"]),
            body["versions"],
            tuple(body["channels"]),
        )
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def _section(body: dict[str, Any]) -> Section:
    notes = tuple(NoteRef(*note) for note in body.pop("notes"))
    return Section(**{**body, "diagnostics": tuple(body["diagnostics"])}, notes=notes)


def _spec(body: dict[str, Any]) -> ToolSpec:
    examples = tuple(ToolExample(**example) for example in body["examples"])
    return ToolSpec(body["name"], body["description"], body["parameters"], examples)
