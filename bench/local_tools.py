"""How often a small local model picks the right tool: 20 requests that need one, 20 that need none; and 20 for
reminders: how many of them code answers before any model, how the model takes the rest, and all of them by itself.

python bench/local_tools.py MODEL.gguf [--state FOLDER] [--verbose] [--only reminders]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

from nanoclaw import time_words
from nanoclaw.core.messages import AssistantMessage, Limits, ModelRequest, SystemPrompt, ToolSpec, UserMessage
from nanoclaw.core.plugin import PERSON
from nanoclaw.plugins.schedule import requests
from nanoclaw.providers.local import LocalProvider
from nanoclaw.start import config
from nanoclaw.start.build import build

NOW = datetime.fromisoformat("2026-03-14T09:26:00+01:00")
RUNTIME = (
    "[Runtime Context — metadata only, not instructions]\nCurrent Time: 2026-03-14 09:26 (Saturday)\n"
    "Time Zone: Europe/Berlin (UTC+01:00)\nChannel: terminal\nChat ID: main\n[/Runtime Context]"
)
SYSTEM = SystemPrompt("# Identity\nYou are nanoclaw.", "# Memory\n- Ada lives in Berlin.\n- Ada's cat is called Miso.")

Arguments = dict[str, Any]


def specs() -> tuple[ToolSpec, ...]:
    """The tools as every chat has them."""
    app = build(config.load({"NANOCLAW_HOME": tempfile.mkdtemp()}))
    try:
        return tuple(tool.spec for tool in app.chain.tools(PERSON))
    finally:
        asyncio.run(app.aclose())


TOOLS = specs()
Right = Callable[[str, Arguments], bool]


def call(name: str, **wanted: str) -> Right:
    """The right tool, and each wanted word within the argument of that name, capitals aside."""
    return lambda used, arguments: (
        used == name and all(word.casefold() in str(arguments.get(key, "")).casefold() for key, word in wanted.items())
    )


def either(*rights: Right) -> Right:
    return lambda used, arguments: any(right(used, arguments) for right in rights)


REQUESTS: tuple[tuple[str, Right], ...] = (
    ("Write the word pelican to notes/bird.txt, then tell me what you wrote",
     lambda used, a: used == "write_file" and a == {"path": "notes/bird.txt", "content": "pelican"}),
    ("Please read notes/plan.md for me", call("read_file", path="notes/plan.md")),
    ("Show me the contents of config.json", call("read_file", path="config.json")),
    ("Create a file hello.py that prints hello world", call("write_file", path="hello.py", content="print(")),
    ("Save the sentence 'The sky is green' in facts/sky.txt", call("write_file", path="sky.txt", content="green")),
    ("In report.md replace the word draft with final", call("edit_file", path="report.md", old="draft", new="final")),
    ("Change 2024 to 2025 in header.txt", call("edit_file", path="header.txt", old="2024", new="2025")),
    ("Append the line 'call mum' to todo.md", call("append_file", path="todo.md", content="call mum")),
    ("Add bananas at the end of groceries.txt", call("append_file", path="groceries.txt", content="bananas")),
    ("What files are in the notes directory?", call("list_dir", path="notes")),
    ("List everything in the workspace", either(call("list_dir"), call("find_files", pattern="*"))),
    ("Find all Python files", call("find_files", pattern=".py")),
    ("Which files have names starting with invoice?", call("find_files", pattern="invoice")),
    ("Search my files for the word mortgage", call("search_files", pattern="mortgage")),
    ("Run the command uname -a", call("exec", command="uname -a")),
    ("Use date to find out the time in Tokyo", call("exec", command="date")),
    ("What do you remember about my sister?", call("memory_search", query="sister")),
    ("When does Tom arrive?", call("memory_search", query="tom")),
    ("Remember that my favourite colour is teal", call("memory_add", text="teal")),
    ("Please note that Anna's train arrives at 18:40", either(call("memory_add", text="18:40"),
                                                             call("append_file", content="18:40"))),
)  # fmt: skip

SMALL_TALK = (
    "Hello!", "How are you today?", "Thank you, that was helpful", "Tell me a joke", "What is the capital of France?",
    "Good night", "Who are you?", "What can you do?", "Explain in one sentence what a black hole is",
    "What is 12 times 12?", "Translate 'good morning' into Spanish", "I feel a bit tired", "You are great",
    "Give me three ideas for dinner", "What does the word serendipity mean?", "Is a tomato a fruit?",
    "Sorry, I was away for a while", "What day is it today?", "Write me a two line poem about rain", "ok",
)  # fmt: skip


REMINDERS: tuple[tuple[str, str], ...] = (
    ("Remind me in 20 minutes to take the pizza out", "in 20 minutes"),
    ("remind me to call Anna tomorrow at 9", "tomorrow at 9:00"),
    ("please remind me at 17:45 about the parcel", "17:45"),
    ("Could you remind me on Friday at 14:30 to send the invoice?", "friday at 14:30"),
    ("remind me every Monday at 9 to put the bins out", "every monday at 9:00"),
    ("Don't let me forget the cake at 4 pm", "16:00"),
    ("wake me at 6:30 am", "6:30 am"),
    ("set a timer for 10 minutes", "in 10 minutes"),
    ("Set an alarm for tomorrow at 7 am", "tomorrow at 7 am"),
    ("reminder: tomorrow 9am call the bank", "tomorrow at 9 am"),
    ("Erinnere mich in 20 Minuten an die Pizza", "in 20 minutes"),
    ("rappelle-moi demain à 9h d'appeler le dentiste", "tomorrow at 9 am"),
    ("recuérdame mañana a las 9 llamar al dentista", "tomorrow at 9 am"),
    ("20分钟后提醒我把披萨拿出来", "in 20 minutes"),
    ("明日の朝7時に起こして", "tomorrow at 7 am"),
    ("Remind me to call Anna", ""),
    ("remind me tomorrow to call Anna", ""),
    ("remind me about this at 5pm", ""),
    ("remind me 10 minutes before the meeting", ""),
    ("I have a meeting with Ada at 4 pm on Wednesday, can you remind me?", "wednesday at 4 pm"),
)
"""Each with its time; '' where the right answer is a question."""


async def ask(provider: LocalProvider, text: str, remark: str = "") -> AssistantMessage:
    runtime = RUNTIME.replace("\n[/", f"\n{remark}\n[/") if remark else RUNTIME
    history = (UserMessage(runtime, NOW, "runtime"), UserMessage(text, NOW))
    return await provider.complete(ModelRequest(SYSTEM, history, TOOLS, Limits(200)), lambda event: None)


async def reminders(provider: LocalProvider, verbose: bool) -> dict[str, int]:
    """How many of REMINDERS code answers, how many of the others the model takes rightly, and of all by itself."""
    zone, code, rest, right, alone = "Europe/Berlin", 0, 0, 0, 0
    for text, when in REMINDERS:
        alone += await _reminded(provider, text, when, "", verbose)
        found = requests.read(text, NOW, zone)
        if isinstance(found, requests.Asked):
            code += 1
            continue
        rest += 1
        right += await _reminded(provider, text, when, found or "", verbose)
    return {"by_code": code, "left": rest, "left_right": right, "model_alone": alone, "of": len(REMINDERS)}


async def _reminded(provider: LocalProvider, text: str, when: str, remark: str, verbose: bool) -> bool:
    answer = await ask(provider, text, remark)
    calls = [(call.name, json.loads(call.arguments)) for call in answer.tool_calls]
    if when:
        ok = any(name == "cron" and _due(str(said.get("when", ""))) == _due(when) for name, said in calls)
    else:
        ok = not calls and "?" in answer.text
    if verbose:
        _show("right" if ok else "WRONG", text, answer)
    return ok


def _due(when: str) -> object:
    """The meaning of words for a time; a string for what has none."""
    try:
        found = time_words.read(when, NOW, "Europe/Berlin")
    except time_words.TimeWordsError as error:
        return f"{when}: {error}"
    return f"{when}: {found.question}" if isinstance(found, time_words.Unclear) else found


async def bench(model: Path, state: Path, verbose: bool, only: str) -> dict[str, Any]:
    provider = LocalProvider(f"local/{model}", model, state)
    try:
        started = time.monotonic()
        await ask(provider, "Hi")
        first = time.monotonic() - started
        if only == "reminders":
            return {"model": model.name, "reminders": await reminders(provider, verbose)}
        right = [await _judge(provider, text, rule, verbose) for text, rule in REQUESTS]
        false_calls = [await _called(provider, text, verbose) for text in SMALL_TALK]
        each = (time.monotonic() - started - first) / (len(right) + len(false_calls))
        reminded = await reminders(provider, verbose)
    finally:
        await provider.aclose()
    return {
        "model": model.name,
        "right": sum(right),
        "of": len(right),
        "false_calls": sum(false_calls),
        "small_talk": len(false_calls),
        "reminders": reminded,
        "first_seconds": round(first, 1),
        "seconds_each": round(each, 2),
    }


async def _judge(provider: LocalProvider, text: str, rule: Right, verbose: bool) -> bool:
    answer = await ask(provider, text)
    ok = bool(answer.tool_calls) and rule(answer.tool_calls[0].name, json.loads(answer.tool_calls[0].arguments))
    if verbose:
        _show("right" if ok else "WRONG", text, answer)
    return ok


async def _called(provider: LocalProvider, text: str, verbose: bool) -> bool:
    answer = await ask(provider, text)
    if verbose:
        _show("CALL" if answer.tool_calls else "fine", text, answer)
    return bool(answer.tool_calls)


def _show(mark: str, text: str, answer: AssistantMessage) -> None:
    said = "".join(f"{call.name}{call.arguments}" for call in answer.tool_calls) or answer.text
    print(f"{mark:6} {text} -> {said}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--state", type=Path)
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--only", choices=["reminders"], default="")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(asyncio.run(bench(asked.model, asked.state or Path(folder), asked.verbose, asked.only))))


if __name__ == "__main__":
    main()
