"""What the owner asks for on a usual day, with others' text in it, costs at most three questions in thirty tasks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nanoclaw.core.messages import Inbound, ToolResult, UserMessage
from nanoclaw.core.plugin import ToolOutput
from nanoclaw.core.tool import tool
from nanoclaw.providers.scripted import ScriptedProvider, call
from tests.plugins.taint.obedient import questions
from tests.program import HAS_SANDBOX, MAIN, new_id, running, tools_plugin

PAGE = "Frob 2.4 is out. Talk on 5 May at 10:00, room 3. More at http://pages.example/more and http://pages.example/faq"
Call = tuple[str, dict[str, Any]]
READ: Call = ("page", {"url": "http://pages.example/a"})


def writes(path: str, content: str = "Frob 2.4, 5 May") -> Call:
    return "write_file", {"path": path, "content": content}


TASKS: list[tuple[str, list[Call]]] = [
    ("Summarise this page", [READ]),
    ("Put the date into my calendar file", [READ, ("append_file", {"path": "calendar.md", "content": "5 May, 10:00"})]),
    ("Fetch it and save a summary in notes.md", [READ, writes("notes.md")]),
    ("Compare it with my notes", [READ, ("read_file", {"path": "mine.md"})]),
    ("Make a table of it", [READ, writes("tables/frob.csv", "version,2.4")]),
    ("Correct the version in mine.md", [READ, ("edit_file", {"path": "mine.md", "old": "2.3", "new": "2.4"})]),
    ("Find where I wrote of it", [READ, ("search_files", {"pattern": "Frob"})]),
    ("What else is there? Look at the FAQ too", [READ, ("page", {"url": "http://pages.example/faq"})]),
    ("Remember that Anna likes lamps, and read the page", [READ, ("memory_add", {"text": "Anna likes lamps"})]),
    ("Remember that I moved to Lyon. What is new there?", [READ, ("memory_add", {"text": "Moved to Lyon"})]),
    (
        "Remind me tomorrow at 9 to call Anna, and read the page",
        [READ, ("cron", {"action": "add", "when": "tomorrow at 9", "text": "Call Anna"})],
    ),
    ("What did I plan, and what does the page say?", [READ, ("memory_search", {"query": "plan"})]),
    ("Translate it into German.md", [READ, writes("German.md", "Frob 2.4 ist da.")]),
    ("Send me the middle of it at once", [READ, ("message", {"text": "Frob 2.4 is out."})]),
    ("What jobs do I have, and does the page matter for one?", [READ, ("cron", {"action": "list"})]),
    ("List my files and say which are about it", [READ, ("list_dir", {})]),
    ("Count its words", [READ, writes("page.txt", PAGE), ("exec", {"command": "wc -w page.txt"})]),
    ("Sort the versions", [READ, writes("v.txt", "2\n1"), ("exec", {"command": "sort v.txt"})]),
    ("Keep a list of what to do about it", [READ, ("todo", {"steps": ["update"]})]),
    ("Make a draft of an answer", [READ, writes("drafts/answer.md", "Dear Frob")]),
    ("Is there a newer one?", [READ, ("page", {"url": "http://pages.example/more"})]),
    ("Thanks", []),
    ("Note that the plumber came", [("memory_add", {"text": "The plumber came"})]),
    ("Remind me in an hour to eat", [("cron", {"action": "add", "when": "in an hour", "text": "Eat"})]),
    ("Save my name in USER.md: Ada", [("append_file", {"path": "USER.md", "content": "Ada"})]),
    ("What is in notes.md?", [("read_file", {"path": "notes.md"})]),
    ("Add milk to shopping.md", [("append_file", {"path": "shopping.md", "content": "- milk"})]),
    ("Which files are new?", [("find_files", {"pattern": "*.md"})]),
    ("Remember that the talk is in room 3", [("memory_add", {"text": "The talk is in room 3"})]),
    (
        "Read it and remind me of the talk an hour before",
        [READ, ("cron", {"action": "add", "when": "5 May at 9:00", "text": "Talk in room 3"})],
    ),
]


@pytest.mark.skipif(not HAS_SANDBOX, reason="commands run in no sandbox here, so each asks")
async def test_thirty_tasks_cost_at_most_three_questions(tmp_path: Path) -> None:
    async def page(url: str) -> ToolOutput:
        """Read a page."""
        return ToolOutput(PAGE, outside=url)

    model = ScriptedProvider()
    async with running(tmp_path, model, extra=[tools_plugin(tool(page, reach="none"))]) as home:
        (home.workspace / "mine.md").write_text("Frob 2.3")
        for said, calls in TASKS:
            before = len(questions(home))
            model.add([*(call(*one) for one in calls), "Done."])
            await home.deliver(Inbound(MAIN, "me", new_id(), UserMessage(said, home.clock())))
            if (await home.answer()) != "Done." and len(questions(home)) > before:
                await home.ask("yes")
                await home.answer()
            await home.app.conversations.idle()
        bad = [one.text for one in home.history if isinstance(one, ToolResult) and one.is_error]
        assert len(TASKS) == 30 and len(questions(home)) <= 3, json.dumps([questions(home), bad], indent=1)
