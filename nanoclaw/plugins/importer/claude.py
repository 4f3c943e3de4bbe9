"""Claude Code: the folder ~/.claude, or one of a project with a CLAUDE.md in it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from nanoclaw.plugins.importer.found import ForeignFolder, ForeignHome, table_of


def read(path: Path, now: datetime) -> ForeignHome:
    """Raises ConfigError."""
    home = ForeignFolder(path, now)
    home.need("Claude", "CLAUDE.md", ".claude", "commands", "skills", "settings.json")
    agents = "\n\n".join(home.texts("CLAUDE.md", ".claude/CLAUDE.md", "CLAUDE.local.md").values())
    facts = home.texts(*(str(one.relative_to(path)) for one in sorted(path.glob("projects/*/memory/*.md"))))
    skills = {**dict(_commands(home)), **home.skills("skills", ".claude/skills")}
    above = ForeignFolder(path.parent, now) if path.name == ".claude" else home
    servers = {**table_of(above.json(".claude.json"), "mcpServers"), **table_of(home.json(".mcp.json"), "mcpServers")}
    lost = ["@imports in CLAUDE.md are not followed"] if re.search(r"^@\S", agents, re.MULTILINE) else []
    files, lost = {"AGENTS.md": agents} if agents else {}, [*home.lost, *lost, "conversations, agents and settings"]
    return ForeignHome("claude", path, files, facts, skills=skills, servers=servers, lost=tuple(lost))


def _commands(home: ForeignFolder) -> Iterator[tuple[str, dict[str, str]]]:
    """Each command as a skill; ours know its $ARGUMENTS."""
    for folder in ("commands", ".claude/commands"):
        for path in sorted((home.path / folder).rglob("*.md")):
            name = "-".join(path.relative_to(home.path / folder).with_suffix("").parts)
            text = home.text(str(path.relative_to(home.path)))
            ((front, body), *_) = re.findall(r"\A(?:---\n(.*?)\n---\n*)?(.*)", text, re.DOTALL)
            told = [*re.findall(r"^description:\s*[\"']?(.+?)[\"']?$", front, re.MULTILINE), *body.splitlines(), name]
            about = json.dumps(told[0][:500], ensure_ascii=False)
            yield name, {"SKILL.md": f"---\nname: {name}\ndescription: {about}\n---\n\n{body}\n"}
