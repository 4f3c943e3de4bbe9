"""Tools that have no room in the prompt: `tool_search` finds them, `call_tool` runs them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

from nanoclaw.core.errors import ConfigError, ToolError
from nanoclaw.core.messages import CALL_TOOL, ToolSpec, UserMessage
from nanoclaw.core.plugin import Host, Mode, NamedTuple, Plugin, Profile, Tool
from nanoclaw.core.provider import tools_text
from nanoclaw.core.tool import ToolContext, tool
from nanoclaw.tokens import estimate

SEARCH = "tool_search"

LEAST_TOKENS = 500
"""The smallest budget that has room for these two tools and the most used ones."""

OFTEN = (
    *("read_file", "write_file", "edit_file", "append_file", "exec", "cron", "report", "memory_search", "memory_add"),
    *("web_search", "web_fetch", "list_dir", "search_files", "message", "find_files", "todo", "question"),
)
"""Tools of ours that are in the prompt before any other, the first before the last."""

SELDOM = ("memory_forget", "exit_plan_mode")
"""Tools of ours that are left out before another person's single ones."""

FEW = 10  # tools that a server may have to be in the prompt as a whole

SHOWN, NAMED = 5, 10
"""Tools found that are shown with all that a call needs, and others that are only named."""

MOST_SAID = 400
"""Characters of a message that are looked at beside the query."""

MOST_CHARACTERS = 1_200
"""Of a description of others that is shown."""


class SearchSettings(NamedTuple):
    """Room for tools in the prompt."""

    tokens: int = 1_590  # tokens of tool descriptions in the prompt, as many again for small servers; 0: no limit

    def check(self) -> None:
        if self.tokens and self.tokens < LEAST_TOKENS:
            raise ConfigError(f"tool_search.tokens must be 0 (every tool is sent) or at least {LEAST_TOKENS}.")


class LeftOut(NamedTuple):
    """Tools that a prompt leaves to be searched for, and the tokens that their schemas would take."""

    tools: int
    tokens: int


class DeferredTools:
    """Tells what a prompt leaves out: what the plugin makes public."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def of(self, sent: Sequence[ToolSpec], profile: Profile) -> LeftOut:
        """The tools of now that are open to a profile and not among those sent."""
        names = {spec.name for spec in sent}
        there = [one.spec for one in self._host.tools(profile).values()] if SEARCH in names else []
        left_out = [spec for spec in there if spec.name not in names]
        return LeftOut(len(left_out), sum(map(_tokens, left_out)))


class ToolSearch(Plugin):
    name = "tool_search"
    needs = ("skills", "mcp")
    settings = SearchSettings

    def __init__(self, host: Host, settings: SearchSettings) -> None:
        self._host, self._most, self.public = host, settings.tokens, DeferredTools(host)

    def tools(self) -> Iterable[Tool]:
        return (tool(self._tool_search, reach="none"), _CALL) if self._most else ()

    def prompt_tools(self, specs: Sequence[ToolSpec], profile: Profile) -> Iterable[ToolSpec] | None:
        """All where they fit; else the most used of ours, then others' and the rest, then those of servers."""
        own = [spec for spec in specs if spec.name in (SEARCH, CALL_TOOL)]
        others = [spec for spec in specs if spec not in own]
        if len(own) < 2:  # nothing could be found again
            return None
        left_out, skills = _left_out(others, self._most, own), self._skills(profile)
        if not left_out and not skills and not self._may_come():
            return others
        gone = [spec.name for spec in left_out]
        search = own[0]._replace(description=f"{own[0].description}{_what(left_out, len(skills))}")
        return [search if spec.name == SEARCH else spec for spec in specs if spec.name not in gone]

    def _skills(self, profile: Profile) -> Sequence[Any]:
        """All skills, where the prompt has not all of them."""
        skills = self._host.get("skills")
        return skills.searchable(profile) if skills else ()

    def _may_come(self) -> bool:
        """True if servers may bring tools while a context lasts."""
        return bool((servers := self._host.get("mcp")) and servers.names)

    async def _tool_search(
        self, context: ToolContext, query: Annotated[str, "a few words, or the name of a tool"]
    ) -> str:
        """Find more tools, by what they do; what it finds is run by call_tool."""
        from nanoclaw.plugins.tool_search.ranking import Candidate, ranked

        mode: Mode = "full" if context.origin == "person" else "minimal"
        profile = Profile(context.profile, mode, only=context.only)
        if servers := self._host.get("mcp"):
            await servers.started()
        there = self._host.tools(profile, anew=True)
        specs = [one.spec for name, one in there.items() if name not in (SEARCH, CALL_TOOL)]
        skills = self._skills(profile)
        candidates = [Candidate(spec.name, spec.description, spec.parameters) for spec in specs]
        candidates += [Candidate(skill.name, skill.description, {}) for skill in skills]
        found = ranked(query, candidates, self._said(context))
        if not found:
            raise ToolError(
                f"no tool fits {query[:100]!r}: describe in other words what it should do. There are {_groups(specs)}."
            )
        lines = [_in_full(specs[at]) if at < len(specs) else _skill(skills[at - len(specs)]) for at in found[:SHOWN]]
        if rest := ", ".join(candidates[at].name for at in found[SHOWN : SHOWN + NAMED]):
            lines.append(f"Less fitting: {rest}")
        return "\n".join(lines)

    def _said(self, context: ToolContext) -> str:
        """The message that the turn answers: what the person wants decides among tools that fit alike."""
        history = self._host.conversations.of(context.conversation).history
        own = (one.text for one in reversed(history) if isinstance(one, UserMessage) and one.origin != "runtime")
        return next(own, "")[:MOST_SAID]


async def _not_called(name: str, arguments: dict[str, Any] | None = None) -> str:
    raise ToolError("give the name of another tool, and its arguments as one JSON object.")


_GIVEN = {"name": {"type": "string"}, "arguments": {"type": "object", "description": "its own ones"}}
_SCHEMA = {"type": "object", "properties": _GIVEN, "required": ["name"]}
_SPEC = ToolSpec(CALL_TOOL, "Run a tool that tool_search has found.", _SCHEMA)
_CALL = Tool(_SPEC, _not_called, "none", False)
"""The core takes a call of it for one of the tool that it names."""


# --- what is in the prompt -------------------------------------------------------------------------------------------


def _left_out(specs: Sequence[ToolSpec], most: int, own: Sequence[ToolSpec]) -> list[ToolSpec]:
    """Those without room in so many tokens, beside the two of ours and what these say; small servers have as much."""
    specs = _without_few(specs, most)
    sizes = {spec.name: _tokens(spec) for spec in specs}
    if sum(sizes.values()) <= most:
        return []
    budget = room = most - sum(map(_tokens, own))
    while True:
        left_out, free = _beyond(specs, sizes, room)
        named = estimate(_what(left_out, 1))
        if room - free + named <= budget or room <= 0:
            return left_out
        room = min(budget - named, room - 1)


def _without_few(specs: Sequence[ToolSpec], room: int) -> list[ToolSpec]:
    """All but the tools of the servers that have few of them and take no more room in all."""
    rest = list(specs)
    for server, many in Counter(filter(None, map(_server, specs))).items():
        found = [spec for spec in specs if _server(spec) == server]
        if many <= FEW and (tokens := sum(map(_tokens, found))) <= room:
            rest, room = [spec for spec in rest if spec not in found], room - tokens
    return rest


def _beyond(specs: Sequence[ToolSpec], sizes: Mapping[str, int], room: int) -> tuple[list[ToolSpec], int]:
    """In their order, those that are left when the more important ones have taken the room, and what is free of it; of
    servers all are left."""
    kept = set[str]()
    for spec in sorted(specs, key=_place):
        if not _server(spec) and sizes[spec.name] <= room:
            kept.add(spec.name)
            room -= sizes[spec.name]
    return [spec for spec in specs if spec.name not in kept], room


def _place(spec: ToolSpec) -> tuple[int, int]:
    if spec.name in OFTEN:
        return 0, OFTEN.index(spec.name)
    return (2, SELDOM.index(spec.name)) if spec.name in SELDOM else (1, 0)


def _tokens(spec: ToolSpec) -> int:
    return estimate(tools_text((spec,)))


def _server(spec: ToolSpec) -> str:
    """The server of a tool that is called SERVER__tool."""
    server, sign, _ = spec.name.partition("__")
    return server if sign else ""


def _what(left_out: Sequence[ToolSpec], skills: int) -> str:
    """A few words about what can be found."""
    what = [_groups(left_out)] if left_out else []
    return f" There are: {', '.join([*what, *([f'{skills} skills'] if skills else [])])}." if what or skills else ""


def _groups(specs: Sequence[ToolSpec], most: int = 180) -> str:
    """Servers with how many tools each has, then single tools, as far as there is room."""
    servers = Counter(filter(None, map(_server, specs)))
    names = [*(f"{name} ({many})" for name, many in servers.items()), *(one.name for one in specs if not _server(one))]
    text = ", ".join(names)
    if len(text) <= most:
        return text
    kept = text[: most - 1].rpartition(", ")[0]
    return f"{kept} and more" if kept else f"{text[: most - 1]}…"


# --- what was found --------------------------------------------------------------------------------------------------


def _in_full(spec: ToolSpec) -> str:
    """All that a call needs, in one line of JSON."""
    is_long, text = len(spec.description) > MOST_CHARACTERS, spec.description
    description = f"{text[: MOST_CHARACTERS - 1]}…" if is_long else text
    shown = {"name": spec.name, "description": description, "parameters": spec.parameters}
    return json.dumps(shown, ensure_ascii=False, separators=(",", ":"))


def _skill(skill: Any) -> str:
    """A skill that was found, and what is to be done with it."""
    lacks = {"lacks": ", ".join(skill.missing)} if skill.missing else {}
    shown = {"skill": skill.name, "description": skill.description, **lacks, "read_file": str(skill.path)}
    return json.dumps(shown, ensure_ascii=False, separators=(",", ":"))
