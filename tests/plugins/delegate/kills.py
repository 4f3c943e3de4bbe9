"""A program that is killed in a turn with helpers: each report is told once all the same."""

from ast import literal_eval
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path

from nanoclaw.core.messages import ModelRequest, ToolResult, UserMessage
from nanoclaw.core.store.inbox import NOT_DONE
from nanoclaw.providers.scripted import Answer, call
from tests.kills import Story, Watch, alive, different, is_there, rest, sent
from tests.plugins.delegate.talk import delegate, task_of
from tests.program import Program

TASKS: dict[str, tuple[tuple[str, ...], bool]] = {
    "foreground": (("read a", "read b"), False),
    "background": (("read c",), True),
}
"""The tasks of each, and True for those in the background."""


def begun(kind: str, root: Path) -> AbstractAsyncContextManager[Program]:
    tasks, background = TASKS[kind]

    def model(request: ModelRequest) -> Answer:
        """Answers for the parent and for its helpers."""
        done = [one for one in request.history if isinstance(one, ToolResult)]
        if task := task_of(request):
            return f"It is {task[-1].upper()}." if done else call("list_dir", {"path": "."})
        known = {one.call_id.partition("call-")[2] for one in done if one.text != NOT_DONE}
        left = [task for task in tasks if task not in known]
        said = request.history[-1]
        is_report = isinstance(said, UserMessage) and said.origin == "delegate"
        return delegate(*left, background=background) if left and not is_report else "Done."

    return alive(root, None, model, wakes=True)


async def go_on(kind: str, root: Path, watch: Watch | None) -> None:
    async with begun(kind, root) as program:
        if not is_there(program, "SELECT 1 FROM inbox"):
            await program.say("Have them read")
        if watch:
            watch(program.app.store.db)
        await rest(program, lambda: is_told(program))


def is_told(program: Program) -> bool:
    return not is_there(program, "SELECT 1 FROM delegate_helpers WHERE state != 'told'")


async def broken(kind: str, root: Path, kills: int) -> list[str]:
    """Which helpers were never told, and which more than once."""
    async with begun(kind, root) as program:
        await rest(program, lambda: is_told(program))
        numbers = [number for (number,) in program.rows("SELECT id FROM delegate_helpers")]
        messages = [one for one in program.history if getattr(one, "origin", "") != "runtime"]
    found = list[str]()
    for number in numbers:
        model, by_message, person = (
            sum(text.startswith(f"Helper {number} (") for text in texts)
            for texts in (
                [one.text for one in messages],
                [one.text for one in messages if isinstance(one, UserMessage)],
                map(literal_eval, sent(root)),
            )
        )
        found += different(model=(model, 1), person=(person, max(by_message, min(person, 1))))
    return found + different(helpers=(min(len(numbers), len(TASKS[kind][0])), len(numbers)))


STORIES = [Story(f"delegate: {kind}", partial(go_on, kind), partial(broken, kind)) for kind in TASKS]
