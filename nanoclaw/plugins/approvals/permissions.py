"""The table [tools]: which tools are denied, ask each time, or are not asked about, for all and by profile."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Literal

from nanoclaw.core.errors import ConfigError
from nanoclaw.core.plugin import Finding, NamedTuple, Tool

Rule = Literal["deny", "ask", "allow"]
RULES: tuple[Rule, ...] = ("deny", "ask", "allow")  # the first of several that name a tool holds
PROFILES = ("person", "guest", "job", "heartbeat", "helper")


class ToolRules(NamedTuple):
    """`tools` is the table [tools] as written in the file."""

    tools: Any = ()

    def check(self) -> None:
        self.parsed()

    def parsed(self) -> dict[str, dict[Rule, tuple[str, ...]]]:
        """By profile, '' for all of them, the names under each rule. Raises ConfigError."""
        own, found = self.tools, dict[str, dict[Rule, tuple[str, ...]]]()
        if isinstance(own, Mapping):
            found = {name: _lists(f"tools.{name}", own[name]) for name in PROFILES if own.get(name) is not None}
            own = {key: value for key, value in own.items() if key not in PROFILES}
        return {} if own == () else {"": _lists("tools", own), **found}


class Permissions:
    """Rules of the table for each tool. Names are compared in small letters, `*` stands for any part of one."""

    def __init__(self, rules: ToolRules) -> None:
        self._rules = rules.parsed()

    @property
    def asks(self) -> bool:
        """True if any tool is said to ask."""
        return any(lists.get("ask") for lists in self._rules.values())

    def rule(self, tool: str, profile: str) -> Rule | None:
        """The rule for a tool: a denial for all holds always; else what its profile says, then what is said for all."""
        named = (rule for whose in (profile, "") for rule in RULES if self._named(whose, rule, tool))
        return "deny" if self._named("", "deny", tool) else next(named, None)

    def without_denied(self, tools: Sequence[Tool]) -> list[Tool]:
        """The tools, each closed to those to whom it is denied."""
        if not any("deny" in lists for lists in self._rules.values()):
            return list(tools)
        open_to = [frozenset(who for who in one.open_to if self.rule(one.name, who) != "deny") for one in tools]
        return [one._replace(open_to=who) for one, who in zip(tools, open_to, strict=True)]

    def opened(self) -> Iterator[Finding]:
        """A line for each list of the table; to allow all tools, or any to guests, is a risk."""
        for profile, rules in self._rules.items():
            for rule, names in rules.items():
                if names:
                    is_wide = rule == "allow" and (profile == "guest" or "*" in names)
                    whose = f"tools.{profile}" if profile else "tools"
                    text = f"[{whose}] {rule}: {', '.join(names)}"
                    yield Finding(not is_wide, text, "tools", risk="warning" if is_wide else "note")

    def unknown(self, tools: Collection[str]) -> Iterator[tuple[str, str]]:
        """Names in the table that no tool has, each with its key."""
        known = {name.casefold() for name in tools}
        for profile, lists in self._rules.items():
            for rule, names in lists.items():
                for name in names:
                    if not any(_fits(name, one) for one in known):
                        yield f"tools.{profile}.{rule}".replace("..", "."), name

    def _named(self, profile: str, rule: Rule, tool: str) -> bool:
        return any(_fits(name, tool.casefold()) for name in self._rules.get(profile, {}).get(rule, ()))


def near(name: str, known: Collection[str]) -> str:
    """Say which names come near to one, else all."""
    import difflib

    found = difflib.get_close_matches(name.casefold(), known, 3, 0.6)
    return f"did you mean {' or '.join(map(repr, found))}?" if found else f"there are {', '.join(sorted(known))}."


def _lists(where: str, table: Any) -> dict[Rule, tuple[str, ...]]:
    if not isinstance(table, Mapping):
        raise ConfigError(f"'{where}' is a table: write [{where}], and below it deny, ask or allow.")
    found: dict[Rule, tuple[str, ...]] = {}
    for key, value in table.items():
        if key not in RULES:
            known = (*RULES, *PROFILES) if where == "tools" else RULES
            raise ConfigError(f"unknown key '{where}.{key}'; {near(key, known)}")
        if not isinstance(value, list) or not all(isinstance(one, str) and one.strip() for one in value):
            raise ConfigError(f'{where}.{key} must be a list of tools in quotes, such as ["exec", "github_*"].')
        found[key] = tuple(one.strip().casefold() for one in value)
    return found


def _fits(pattern: str, name: str) -> bool:
    from fnmatch import fnmatchcase

    return fnmatchcase(name, pattern.replace("[", "[[]")) if set("*?[") & set(pattern) else pattern == name
