"""[tools] in config.toml: what is denied is not seen, what asks asks each time, what is allowed is not asked about."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from nanoclaw.core.errors import ConfigError
from nanoclaw.core.messages import CheckedCall, Inbound, UserMessage
from nanoclaw.core.plugin import Ask, Plugin, Scope, Tool, Turn, Verdict
from nanoclaw.core.tool import tool
from nanoclaw.providers.scripted import ScriptedProvider, call
from tests.examples import examples
from tests.journeys.command import Home
from tests.program import MAIN, Program, results, running

SETTINGS = examples(__file__, "permissions.jsonl")

LIST = call("list_dir", {"path": "."})
SENT: list[str] = []


class Posting(Plugin):
    """A tool whose policy asks; `lift` asks for the end of a boundary, and `others` what a page wants."""

    name = "posting"

    def tools(self) -> Iterable[Tool]:
        async def post(text: str) -> str:
            """Posts a text."""
            SENT.append(text)
            return "posted"

        yield tool(post)

    async def before_tool(self, call: CheckedCall, turn: Turn) -> Verdict:
        text = call.arguments.get("text")
        if call.name != "post":
            return None
        lifts = text == "lift"
        return Ask("Post it?", scope=None if text == "others" else Scope("post", "posts", lifts_boundary=lifts))


def names(program: Program, profile: str = "person") -> set[str]:
    return {one.name for one in program.app.chain.tools(program.app.chain.profiles[profile])}


def run(root: Path, tools: str, *steps: Any, **more: Any) -> Any:
    SENT.clear()
    return running(root, ScriptedProvider(*steps), settings=tools, extra=[Posting], **more)


async def test_a_denied_tool_is_never_seen_and_not_run_by_its_name(tmp_path: Path) -> None:
    wanted = call("call_tool", {"name": "exec", "arguments": {"command": "id"}})
    model, tools = ScriptedProvider(wanted, "I can't."), '[tools]\ndeny = ["Exec", "memory_*"]\n'
    async with running(tmp_path, model, settings=tools) as program:
        assert names(program) & {"exec", "memory_add", "memory_search", "read_file"} == {"read_file"}
        assert await program.ask("run id") == "I can't."
        assert results(program.history)[-1].text == "exec cannot be used here."
        assert not {one.name for one in model.requests[0].tools} & {"exec", "memory_add"}


async def test_a_profile_has_lists_of_its_own(tmp_path: Path) -> None:
    tools = '[tools]\ndeny = ["todo"]\n[tools.job]\ndeny = ["exec"]\nallow = ["todo"]\n'
    async with run(tmp_path, tools) as program:
        assert "exec" in names(program) and "exec" not in names(program, "job")
        assert "todo" not in names(program) | names(program, "job"), "a denial for all holds"


async def test_what_asks_asks_each_time_also_when_elevated(tmp_path: Path) -> None:
    async with run(tmp_path, '[tools]\nask = ["list_dir"]\n', LIST, LIST, "Done.") as program:
        await program.ask("/elevated on")
        question = await program.ask("look")
        assert question.startswith("Run `list_dir`?\n\n```\npath: .\n```\n\n(“/yes 1” or “/no 1” answers it")
        await program.say("/yes 1")
        assert {(await program.answer())[:15] for _ in range(2)} == {"OK, going ahead", "Run `list_dir`?"}
        await program.say("/no 2")
        assert {await program.answer() for _ in range(2)} == {"OK, I won't do it.", "Done."}


@pytest.mark.parametrize(("text", "is_asked"), [("hello", False), ("lift", True), ("others", True)])
async def test_what_is_allowed_is_asked_for_a_boundary_and_for_the_words_of_others_alone(
    tmp_path: Path, text: str, is_asked: bool
) -> None:
    async with run(tmp_path, '[tools]\nallow = ["post"]\n', call("post", {"text": text}), "Done.") as program:
        assert (await program.ask("post")).startswith("Post it?") is is_asked
        assert ([] if is_asked else [text]) == SENT
        await program.ask("/stop")


async def test_a_task_may_do_what_is_allowed_to_tasks(tmp_path: Path) -> None:
    step = call("post", {"text": "hello"})
    async with run(tmp_path, '[tools.job]\nallow = ["post"]\n', step, "Posted.", step, "Asked.") as program:
        inbound = Inbound(MAIN, "", "1", UserMessage("post", program.clock(), "job"), role="owner")
        program.app.transactions.write_now(lambda tx: tx.deliver(inbound, program.app.chain.profiles["job"]))
        assert await program.answer() == "Posted."
        assert (await program.ask("post")).startswith("Post it?")
        assert SENT == ["hello"]


@pytest.mark.parametrize(("tools", "said"), SETTINGS["what cannot be meant"])
async def test_what_cannot_be_meant_stops_the_start_with_a_sentence(tmp_path: Path, tools: str, said: str) -> None:
    with pytest.raises(ConfigError) as error:
        async with run(tmp_path, f"[tools]\n{tools}\n"):
            pass
    assert said in str(error.value) and "config.toml" in str(error.value)


def test_a_table_that_is_none_is_told(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("tools = 5\n")
    assert "'tools' is a table: write [tools]" in Home(tmp_path).run("-m", "hi", check=2).err


@pytest.mark.parametrize("name", ["github__create_issue", "github__*"])
async def test_a_tool_of_a_server_that_is_not_there_yet_may_be_named(tmp_path: Path, name: str) -> None:
    async with run(tmp_path, f'[tools]\ndeny = ["{name}"]\n[mcp.github]\ncommand = "false"\n'):
        pass


async def test_a_tool_of_a_plugin_that_is_off_may_be_named(tmp_path: Path) -> None:
    async with run(tmp_path, '[tools]\ndeny = ["todo"]\n[plugins]\noff = ["todo"]\n'):
        pass


async def test_a_plugin_that_fails_to_restrict_leaves_no_tool_open(tmp_path: Path) -> None:
    class Broken(Plugin):
        name = "broken"

        def restrict_tools(self, tools: Any) -> Any:
            raise ZeroDivisionError

    async with running(tmp_path, ScriptedProvider(), extra=[Broken]) as program:
        assert names(program) == set()
        assert "restrict_tools: ZeroDivisionError" in program.app.chain.faults["broken"]


async def test_a_plugin_cannot_open_what_is_closed(tmp_path: Path) -> None:
    class Generous(Plugin):
        name = "generous"

        def restrict_tools(self, tools: Any) -> Any:
            return [one._replace(open_to=one.open_to | {"guest"}) for one in tools]

    async with running(tmp_path, ScriptedProvider(), extra=[Generous]) as program:
        assert "exec" not in names(program, "guest") and "exec" in names(program)
