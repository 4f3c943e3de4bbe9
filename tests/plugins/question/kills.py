"""A program that is killed while it asks a question: no answer is lost, and nothing comes twice."""

from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from functools import partial
from pathlib import Path

from nanoclaw.core.messages import ModelRequest, ToolResult
from nanoclaw.core.store.inbox import NOT_DONE
from nanoclaw.providers.scripted import Answer, Say
from nanoclaw.start.build import BUILT_IN
from tests.kills import Story, Watch, alive, asked, different, say, sent, stamp, stamps
from tests.program import NOON, HandClock, Program, results, tools_plugin

ENDS = {"alone": "The person chose: blue", "with a call": "The person chose: blue"}
ENDS["deadline"] = "Nobody answered in time, so the default is taken: red"
"""The result of each: one that is answered, one beside a call that has effects, one that nobody answers."""

ASKS = ("question", {"text": "Which colour?", "options": ["red", "blue"], "default": "red", "deadline": "1h"})


def begun(kind: str, root: Path, watch: Watch | None) -> AbstractAsyncContextManager[Program]:
    """The program at work, two hours after the last one where nobody answers."""

    def model(request: ModelRequest) -> Answer:
        if any(isinstance(one, ToolResult) and one.text != NOT_DONE for one in request.history):
            return "Done."
        return Say(calls=(ASKS, ("stamp", {})) if kind == "with a call" else (ASKS,))

    (root / "starts").open("a").write("x")
    clock = HandClock(NOON + timedelta(hours=2 * (root / "starts").stat().st_size * (kind == "deadline")))
    return alive(root, watch, model, clock=clock, extra=[tools_plugin(stamp(root))])


async def go_on(kind: str, root: Path, watch: Watch | None) -> None:
    async with begun(kind, root, watch) as program:
        await say(program, "1", "Paint the door")
        was_asked = await asked(program)
        if kind != "deadline" and was_asked:
            await say(program, "2", "2")
        elif program.public("approvals").open():
            program.clock.now += timedelta(hours=2)  # type: ignore[attr-defined]
            program.public("approvals").expire()


async def broken(kind: str, root: Path, kills: int) -> list[str]:
    async with begun(kind, root, None) as program:
        was_asked = bool(program.rows("SELECT 1 FROM approvals_asks")) or kills < 2
        answers = [result.text for result in results(program.history) if result.name == "question"]
    calls = int(kind == "with a call")
    return different(
        asked=(sum(text.startswith("'Which colour?") for text in sent(root)), int(was_asked)),
        answers=(answers if was_asked else [ENDS[kind]], [ENDS[kind]]),
        ran=(stamps(root), min(stamps(root), calls) if kills else calls),
    )


STORIES = [Story(f"question: {kind}", partial(go_on, kind), partial(broken, kind)) for kind in ENDS]
if "approvals" not in BUILT_IN:  # without it nobody asks
    STORIES = []
