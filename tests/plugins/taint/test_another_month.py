"""Thirty tasks of another person's days, with mails, chats, searches and files of others, cost at most three questions
because of these."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nanoclaw.core.messages import AssistantMessage, Inbound, ModelRequest, ToolCall, ToolResult, UserMessage
from nanoclaw.core.plugin import ToolOutput
from nanoclaw.core.provider import OnEvent
from nanoclaw.core.tool import tool
from tests.plugins.taint.obedient import questions
from tests.program import HAS_SANDBOX, MAIN, NOON, FakeChannel, new_id, running, tools_plugin

Call = tuple[str, dict[str, Any]]

PAGES = {
    "https://hotels.example/lyon": "Hotel Globe, Lyon, near Part-Dieu station. Rooms from 90 euros, breakfast.",
    "https://hotels.example/alpha": "Hotel Alpha, Lyon, old town. Rooms from 110 euros. No lift. Closed in January.",
    "https://news.example/bridge": "The bridge in the Mill Street is closed from 3 to 9 August. Buses: Lake Road.",
    "https://cook.example/soup": "Pumpkin soup for four: 1 kg pumpkin, 2 onions, ginger, coconut milk. 40 minutes.",
    "https://docs.example/frob": "frob --fast builds in parallel. See https://docs.example/frob/cache for the cache.",
    "https://docs.example/frob/cache": "The cache lies in .frob; delete it after an update.",
}
MAIL = "Dear Ada, the meeting is moved to Tuesday 10 March at 14:00, room 12. Please bring the figures. Bob"
QUOTE = "The parcel can be fetched at the kiosk until Friday 18:00"


def fetch(address: str) -> Call:
    return "web_fetch", {"url": address}


def search(query: str) -> Call:
    return "web_search", {"query": query}


def note(text: str, kind: str = "note") -> Call:
    return "memory_add", {"text": text, "kind": kind}


def remind(when: str, text: str) -> Call:
    return "cron", {"action": "add", "when": when, "text": text}


def run(command: str) -> Call:
    return "exec", {"command": command}


TASKS: list[tuple[str, list[Call], str]] = [  # what is said, what is done, and what came with it of others
    ("What does Bob want?", [], MAIL),
    ("Tell Bob that Tuesday is fine", [("message", {"to": "telegram:777", "text": "Tuesday is fine. Ada"})], ""),
    ("Put the meeting into my calendar file", [("append_file", {"path": "calendar.md", "content": "10 March"})], MAIL),
    ("Remind me on Tuesday at 13:30 of the meeting", [remind("Tuesday at 13:30", "the meeting")], ""),
    ("Remind me of that on Friday at 17", [remind("Friday at 17", "Fetch the parcel at the kiosk")], QUOTE),
    ("Thanks, fetched it", [], ""),
    ("Find me a hotel in Lyon", [search("hotel Lyon"), fetch("https://hotels.example/lyon")], ""),
    (
        "Compare it with another one there",
        [search("hotels Lyon old town"), fetch("https://hotels.example/alpha"), search("Hotel Alpha Lyon reviews")],
        "",
    ),
    ("Make a table of both", [("write_file", {"path": "hotels.csv", "content": "Globe,90\nAlpha,110"})], ""),
    ("Note that I prefer the Globe", [note("Prefers the Globe")], ""),
    ("What did I plan for Lyon?", [("memory_search", {"query": "Lyon"})], ""),
    ("Is the bridge open?", [fetch("https://news.example/bridge")], ""),
    (
        "Read https://news.example/bridge and note what matters",
        [fetch("https://news.example/bridge"), note("The bridge in the Mill Street is closed from 3 to 9 August")],
        "",
    ),
    ("When is the bridge closed?", [], ""),
    ("And where do the buses go?", [("read_file", {"path": "memory/2026-03-06.md"})], ""),
    ("What do I need for the soup?", [fetch("https://cook.example/soup")], ""),
    ("Put that on my shopping list", [("append_file", {"path": "shopping.md", "content": "- pumpkin"})], ""),
    ("I took onions, so strike them", [("read_file", {"path": "shopping.md"})], ""),
    ("Put the invoice away", [run("mkdir -p invoices && mv media/invoice.txt invoices/2026-03.txt")], ""),
    ("What is the sum of my invoices?", [run("cat invoices/*.txt | wc -l")], ""),
    ("Which of my files are large?", [run("du -s * | sort -n | tail -3")], ""),
    ("Sort my photos into years", [run("mkdir -p photos/2026 && ls photos")], ""),
    ("How do I make frob faster?", [search("frob faster builds"), fetch("https://docs.example/frob")], ""),
    ("What about its cache?", [fetch("https://docs.example/frob/cache"), search("frob cache delete after update")], ""),
    ("Save that as a howto", [("write_file", {"path": "howto/frob.md", "content": "frob --fast"})], ""),
    ("Remember that I use Frob 2.4", [note("Uses Frob 2.4", "fact")], ""),
    ("Write a draft of an answer to this", [("write_file", {"path": "drafts/bob.md", "content": "Dear Bob"})], MAIL),
    ("Find cheap flights to Oslo in May", [search("cheap flights Oslo May"), search("Oslo flights May prices")], ""),
    ("What is still to do?", [("todo", {"steps": ["book the hotel"]}), ("cron", {"action": "list"})], ""),
    ("Good night", [], ""),
]


class Doing:
    """Makes the calls of a task one after the other, then says so."""

    model, supports_vision = "doing/model", True

    def __init__(self) -> None:
        self.calls: list[Call] = []

    async def complete(self, request: ModelRequest, on_event: OnEvent) -> AssistantMessage:
        calls = [ToolCall(new_id(), name, json.dumps(given)) for name, given in self.calls[:1]]
        self.calls = self.calls[1:]
        return AssistantMessage("" if calls else "Done.", NOON, tuple(calls), finish="tool_calls" if calls else "stop")

    async def aclose(self) -> None: ...


async def asked(root: Path) -> tuple[list[str], list[str]]:
    """Questions that the tasks cost, each answered with yes, and what went wrong."""

    async def web_fetch(url: str) -> ToolOutput:
        """Read a page."""
        return ToolOutput(PAGES[url], outside=url)

    async def web_search(query: str) -> ToolOutput:
        """Search the web."""
        return ToolOutput("\n".join(f"{url}: {text[:60]}" for url, text in PAGES.items()), outside="web search")

    model = Doing()
    tools = tools_plugin(tool(web_fetch, reach="none"), tool(web_search, reach="none"))
    chats = [FakeChannel("telegram")]
    settings = '[channels.telegram]\nsend_to = ["777"]\n'
    async with running(root, model, extra=[tools], without={"web"}, others=chats, settings=settings) as home:
        (home.workspace / "media").mkdir(exist_ok=True)
        (home.workspace / "media" / "invoice.txt").write_text("Sum: 40 euros\n")
        (home.workspace / "photos").mkdir()
        for said, calls, others in TASKS:  # some are answered by code
            model.calls = list(calls)
            message = UserMessage(said, home.clock())
            came = Inbound(MAIN, "me", new_id(), message, quote=others, quote_from="Bob" if others else "")
            await home.deliver(came._replace(quoted="x") if others else came)
            await home.answer()
            while home.rows("SELECT 1 FROM approvals_asks WHERE by = ''"):
                await home.ask("yes")
                await home.answer()
            await home.app.conversations.idle()
        return questions(home), [one.text for one in home.history if isinstance(one, ToolResult) and one.is_error]


@pytest.mark.skipif(not HAS_SANDBOX, reason="commands run in no sandbox here, so each asks")
async def test_thirty_tasks_with_others_text_cost_at_most_three_questions(tmp_path: Path) -> None:
    questions_asked, failed = await asked(tmp_path)
    of_taint = [one for one in questions_asked if "others' text" in one]
    assert len(TASKS) == 30 and not failed, failed
    assert len(of_taint) <= 3, json.dumps(questions_asked, indent=1)
