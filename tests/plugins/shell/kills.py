"""A program that is killed while a process in the background ends: the end is told once all the same."""

import asyncio
from functools import partial
from pathlib import Path

from nanoclaw.core.messages import ModelRequest, UserMessage
from nanoclaw.providers.scripted import Answer, call
from tests.kills import Story, Watch, alive, different, is_there, rest, sent
from tests.program import Program, results

BEGIN = call("exec", {"command": "mkfifo gate; read go < gate; echo built", "background": True})
STEPS = {"talk": [BEGIN], "wait": [BEGIN, call("process", {"action": "wait", "id": 1})]}
"""The end comes while nothing else runs; while a call waits for it."""


async def go_on(kind: str, root: Path, watch: Watch | None) -> None:
    """Begin a process and let it end, which is watched; or go on after it."""

    def model(request: ModelRequest) -> Answer:
        done = len(results(request.history))
        return STEPS[kind][done] if done < len(STEPS[kind]) else "It builds."

    is_first = not (root / "home").exists()
    async with alive(root, None, model, wakes=True) as program:
        if is_first:
            await program.say("Build it")
            if kind == "talk":
                await program.answer()
            shell = next(one for one in program.app.plugins if one.name == "shell")
            gate = program.workspace / "gate"
            running = shell._processes._running  # type: ignore[attr-defined]
            while not gate.exists() or (kind == "wait" and not any(one.claims for one in running.values())):  # noqa: ASYNC110
                await asyncio.sleep(0.005)
            if watch:
                watch(program.app.store.db)
            gate.write_text("go\n")
        elif watch:
            watch(program.app.store.db)
        await rest(program, lambda: is_told(program))


def is_told(program: Program) -> bool:
    return not is_there(program, "SELECT 1 FROM shell_processes WHERE state != 'told'")


async def broken(kind: str, root: Path, kills: int) -> list[str]:
    """What the person was told of the process, and what the model was."""
    async with alive(root, None, "Built.", wakes=True) as program:
        await program.ask("/processes")
        await rest(program, lambda: is_told(program))
        history = program.history
    person = [text for text in sent(root) if text.startswith("'Process 1 (")]
    said = [one.text for one in history if getattr(one, "origin", "") != "runtime"]
    model = [text for text in said if "Process 1 (" in text and not text.startswith("I was interrupted")]
    model += [one.text for one in results(history) if "[process 1: exit status 0" in one.text]
    by_itself = any(isinstance(one, UserMessage) and one.origin == "process" for one in history)
    return different(model=(len(model), 1), person=(len(person), 1 if kind == "talk" or by_itself else len(person[:1])))


STORIES = [Story(f"shell: {kind}", partial(go_on, kind), partial(broken, kind)) for kind in STEPS]
