"""A program that is killed while it plans: nothing is done before a yes, nothing is lost, or asked or done twice."""

import sqlite3
from contextlib import AbstractAsyncContextManager, closing
from functools import partial
from pathlib import Path

from nanoclaw.core.messages import ModelRequest
from nanoclaw.core.plugin import Tool
from nanoclaw.core.tool import tool
from nanoclaw.plugins.plan.plugin import APPROVED, IN_WORDS, REJECTED
from nanoclaw.providers.scripted import Answer, call
from tests.kills import Story, Watch, alive, asked, different, say, sent
from tests.program import Program, results, tools_plugin

WORDS = "yes, but blue"
STAYS = "stays on"
ENDS = {"yes": (APPROVED,), "no": (REJECTED.format(STAYS),), "words": (IN_WORDS.format(STAYS, WORDS), APPROVED)}
"""What each plan came to: approved, rejected, changed by the person's words and then approved."""

STEPS = ["Buy the paint", "Paint the door"]


def model(request: ModelRequest) -> Answer:
    """Acts too early, keeps a list, presents its plan and carries it out."""
    done = results(request.history)
    plans = [at for at, one in enumerate(done) if one.name == "exit_plan_mode"]
    last = done[plans[-1]].text if plans else ""
    if not done:
        return call("stamp")
    if not any(one.text.startswith("0 of 2 done") for one in done):
        return call("todo", {"steps": STEPS, "doing": 1})
    if last == REJECTED.format(STAYS):
        return "What else?"
    if last != APPROVED:
        return call("exit_plan_mode", {"plan": f"Paint it, plan {len(plans) + 1}"})
    if done[-1].name == "exit_plan_mode":
        return call("stamp")
    return "Which one next?" if done[-1].name == "todo" else call("todo", {"done": [1], "doing": 2})


def stamp(root: Path) -> Tool:
    async def stamp() -> str:
        """Leaves a mark, which says whether it was too early."""
        with closing(sqlite3.connect(root / "home" / "state.db")) as db:
            ((is_on,),) = db.execute("SELECT is_on FROM plan_modes").fetchall()
        with (root / "stamps").open("a") as file:
            file.write("early\n" if is_on else "right\n")
        return "stamped"

    return tool(stamp)


def begun(root: Path, watch: Watch | None) -> AbstractAsyncContextManager[Program]:
    return alive(root, watch, model, extra=[tools_plugin(stamp(root))])


async def go_on(kind: str, root: Path, watch: Watch | None) -> None:
    async with begun(root, watch) as program:
        await say(program, "1", "/plan Paint the door")
        for number, words in enumerate((f"/answer 1 {WORDS}", "ok") if kind == "words" else (kind,), 1):
            if await asked(program, number):
                await say(program, f"answer {number}", words)


async def broken(kind: str, root: Path, kills: int) -> list[str]:
    async with begun(root, None) as program:
        plans = tuple(one.text for one in results(program.history) if one.name == "exit_plan_mode")
        steps = len(program.rows("SELECT 1 FROM todo_steps"))
    # a turn that was cut off twice is not taken up again by itself
    wanted = ENDS[kind][: len(plans)] if kills > 1 else ENDS[kind]
    marks = (root / "stamps").read_text().split() if (root / "stamps").exists() else []
    ran, runs = marks.count("right"), int(kind != "no")
    return different(
        plans=(plans, wanted),
        shown_twice=([n for n in (1, 2) if sum(f"Paint it, plan {n}" in text for text in sent(root)) > 1], []),
        early=(marks.count("early"), 0),
        ran=(ran, min(ran, runs) if kills else runs),
        steps=(steps, min(steps, 2) if kills > 1 else 2),
    )


STORIES = [Story(f"plan: {kind}", partial(go_on, kind), partial(broken, kind)) for kind in ENDS]
