"""Work beside the talk, over three kills: helpers that compare folders, a plan before anything is changed, a question
whose safe answer is taken after an hour, and a build that tells when it is done. The model is scripted in its choices
alone: what it says follows from what it was told."""

import asyncio
import os
import re
import signal
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path

from nanoclaw.core.messages import AssistantMessage, ModelRequest, ToolResult, UserMessage
from nanoclaw.core.provider import OnEvent
from nanoclaw.providers.scripted import Say, ScriptedProvider, call
from tests.kills import killed
from tests.plugins.delegate.talk import delegate, task_of
from tests.program import NOON, HandClock, LoggingChannel, Program, assert_legal, running

ASKED = (
    "Compare the folders spring, summer and autumn with a helper each, show me a plan before you change anything, ask "
    "me if you are unsure and take the safe choice after an hour, and tell me when the build that you start is done."
)
FOLDERS = {"spring": ("rain.txt",), "summer": ("heat.txt", "rain.txt"), "autumn": ("fog.txt",)}
TASKS = {folder: f"Say which files are in the folder {folder}." for folder in FOLDERS}
PLAN = "1. Write the list of all files to files.txt.\n2. Build it in the background."
BUILD = "cat files.txt > built.txt; read go < gate; echo built"


class Planner:
    """Chooses the next step by what it was told so far. Helpers for the folders that `stuck` names never answer."""

    model, supports_vision = "scripted/model", True

    def __init__(self, stuck: str = "") -> None:
        self._stuck = stuck

    async def complete(self, request: ModelRequest, on_event: OnEvent) -> AssistantMessage:
        step = await self._of_helper(task, request) if (task := task_of(request)) else self._of_parent(request)
        return await ScriptedProvider(step).complete(request, on_event)

    async def aclose(self) -> None:
        pass

    async def _of_helper(self, task: str, request: ModelRequest) -> Say:
        folder = next(name for name in FOLDERS if name in task)
        if folder == self._stuck:
            await asyncio.Event().wait()
        listed = next((one.text for one in request.history if isinstance(one, ToolResult)), None)
        if listed is None:
            return call("list_dir", {"path": folder})
        return Say(f"In {folder}: {', '.join(re.findall(r'[a-z]+[.]txt', listed))}")

    def _of_parent(self, request: ModelRequest) -> Say:
        heard = "\n".join(one.text for one in request.history if not isinstance(one, AssistantMessage))
        called = {one.name for message in request.history for one in getattr(message, "tool_calls", ())}
        found = dict(re.findall(r"In (\w+): ([\w., ]+)", heard))
        if "delegate" not in called:
            return delegate(*TASKS.values())
        if len(found) < len(FOLDERS):
            return Say("NO_REPLY")
        if "exit_plan_mode" not in called:
            return call("exit_plan_mode", {"plan": PLAN})
        if "question" not in called:
            asked = {"text": "rain.txt is there twice. Shall I delete one?", "options": ["keep both", "delete one"]}
            return call("question", {**asked, "default": "keep both", "deadline": "1h"})
        if "write_file" not in called:
            names = sorted(f"{folder}/{name}" for folder in found for name in found[folder].split(", "))
            assert "the default is taken: keep both" in heard
            return call("write_file", {"path": "files.txt", "content": "\n".join(names) + "\n"})
        if "exec" not in called:
            return call("exec", {"command": BUILD, "background": True})
        last = next(one for one in reversed(request.history) if not isinstance(one, AssistantMessage))
        is_done = isinstance(last, UserMessage) and last.origin == "process"
        return Say("The build is done: built.txt is there." if is_done else "The list is in files.txt; the build runs.")


Until = Callable[[Program], Awaitable[object]]


async def live(root: Path, said: str, until: Until, stuck: str = "") -> None:
    """One start of the program: say something, go on until that has come, and die."""
    channel = LoggingChannel(root / "sent")
    async with running(root / "home", Planner(stuck), channel=channel, wakes=True) as program:
        if said:
            await program.say(said)
        await until(program)
        os.kill(os.getpid(), signal.SIGKILL)


async def an_hour_later(root: Path) -> None:
    """The last start: the question's time is over, and the build comes to its end."""
    gate, clock = root / "home" / "workspace" / "gate", HandClock(NOON + timedelta(minutes=61))
    channel = LoggingChannel(root / "sent")
    os.mkfifo(gate)
    async with running(root / "home", Planner(), clock=clock, channel=channel, wakes=True) as program:
        await program.answer_with("the build runs")
        opened = os.open(gate, os.O_RDWR)  # for reading too, so that it waits for nobody
        os.write(opened, b"go\n")
        await program.answer_with("The build is done")
        os.close(opened)
        await program.app.conversations.idle()
        assert_legal(program.history)


def sent(root: Path) -> list[str]:
    """The texts that reached the person, each once, in order."""
    lines = (root / "sent").read_text().splitlines() if (root / "sent").exists() else []
    return list({line.partition(" ")[0]: line.partition(" ")[2] for line in lines}.values())


def told(root: Path, text: str) -> int:
    return sum(text in one for one in sent(root))


async def two_have_reported(program: Program) -> None:
    while len(program.rows("SELECT 1 FROM delegate_helpers WHERE report LIKE 'In %'")) < 2:  # noqa: ASYNC110
        await asyncio.sleep(0.01)


def is_asked(text: str) -> Until:
    async def comes(program: Program) -> None:
        await program.answer_with(text)
        await program.app.delivery.flush("terminal")

    return comes


def test_a_plan_with_helpers_a_question_and_a_build_comes_to_its_end_over_three_kills(tmp_path: Path) -> None:
    for folder, names in FOLDERS.items():
        (tmp_path / "home" / "workspace" / folder).mkdir(parents=True)
        for name in names:
            (tmp_path / "home" / "workspace" / folder / name).write_text(name)
    workspace = tmp_path / "home" / "workspace"

    assert killed(live(tmp_path, f"/plan {ASKED}", two_have_reported, stuck="autumn"))
    assert killed(live(tmp_path, "", is_asked("Shall I carry it out")))
    assert not (workspace / "files.txt").exists()
    assert killed(live(tmp_path, "approve", is_asked("Shall I delete one")))
    assert not (workspace / "files.txt").exists()

    asyncio.run(an_hour_later(tmp_path))
    assert (
        workspace / "built.txt"
    ).read_text() == "autumn/fog.txt\nspring/rain.txt\nsummer/heat.txt\nsummer/rain.txt\n"
    for text in (
        *(f"Helper {number} (" for number in (1, 2, 3)),
        "Shall I carry it out?",
        "1. keep both",
        "was not answered in time, so I take “keep both”",
        "the build runs",
        "Process 1 (",
        "The build is done",
    ):
        assert told(tmp_path, text) == 1, (text, sent(tmp_path))
