"""Large outputs: nothing of them is lost, and little of them is in memory or in the conversation."""

from __future__ import annotations

import asyncio
import os
import re
import tracemalloc
from pathlib import Path

import pytest

from nanoclaw.core import outputs
from nanoclaw.core.messages import Address, ToolCall, ToolResult
from nanoclaw.core.outputs import HEAD, LARGE, TAIL, Outputs
from nanoclaw.core.tool import Toolbox, ToolContext, tool
from nanoclaw.core.workspace import Workspace
from nanoclaw.plugins.shell.tools import shell_tools
from tests.core.house import NOON

CONTEXT = ToolContext(Address("terminal", "main"), "me", "person")


def path_in(text: str) -> str:
    found = re.search(r"all of it is in (outputs/\S+?):", text)
    assert found, text[-300:]
    return found[1]


def run(root: Path, command: str) -> ToolResult:
    box = Toolbox(shell_tools(Workspace(root), {"PATH": os.environ["PATH"]}), lambda: NOON, str)
    return asyncio.run(box.run(ToolCall("1", "exec", f'{{"command": "{command}"}}'), CONTEXT))


def test_a_large_output_of_any_tool_is_head_tail_and_the_path_of_all_of_it(tmp_path: Path) -> None:
    text = "first " + "middle " * 10_000 + "last"

    async def look() -> str:
        """Gives much."""
        return text

    box = Toolbox([tool(look, effect="none")], lambda: NOON, str, bounded=Outputs(tmp_path).shortened)
    result = asyncio.run(box.run(ToolCall("1", "look", "{}"), CONTEXT))
    assert len(result.text) < HEAD + TAIL + 300
    assert result.text.startswith("first middle")
    assert "middle last\n[all of it is in" in result.text
    assert f"{len(text) - HEAD - TAIL:,} characters left out" in result.text
    assert (tmp_path / path_in(result.text)).read_text() == text
    assert asyncio.run(box.run(ToolCall("2", "look", "{}"), CONTEXT)).text == result.text, (
        "the same call, the same result"
    )
    assert len(list((tmp_path / "outputs").iterdir())) == 1


def test_what_is_not_large_stays_as_it_is(tmp_path: Path) -> None:
    text = "x" * LARGE
    assert Outputs(tmp_path).shortened("look", text) == text
    assert not (tmp_path / "outputs").exists()


def test_a_command_that_writes_more_than_is_shown_has_all_of_it_in_a_file(tmp_path: Path) -> None:
    result = run(tmp_path, "seq 1 3000")
    assert (tmp_path / path_in(result.text)).read_text().split() == [str(number) for number in range(1, 3001)]
    assert "[exit status 0]" in result.text


def test_a_command_that_writes_more_than_memory_should_hold_has_all_of_it_in_a_file(tmp_path: Path) -> None:
    tracemalloc.start()
    result = run(tmp_path, "head -c 30000000 /dev/zero | tr '\\\\0' x; echo; echo the end")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    kept = tmp_path / path_in(result.text)
    assert kept.stat().st_size == 30_000_009
    assert kept.read_bytes().endswith(b"x\nthe end\n")
    assert "the end" in result.text
    assert len(result.text) < 11_000
    assert peak < 3_000_000
    assert [path.name for path in kept.parent.iterdir()] == [kept.name], "no draft is left"


def test_a_flood_of_output_is_stopped_and_what_came_is_in_a_file(tmp_path: Path) -> None:
    result = run(tmp_path, "yes | head -c 200000000")
    assert result.is_error
    assert "[stopped: more than" in result.text
    assert (tmp_path / path_in(result.text)).stat().st_size > 60_000_000


def test_a_command_that_is_stopped_leaves_no_draft(tmp_path: Path) -> None:
    async def story() -> None:
        box = Toolbox(shell_tools(Workspace(tmp_path), {"PATH": os.environ["PATH"]}), lambda: NOON, str)
        command = "head -c 1000000 /dev/zero; echo > begun; mkfifo gate; cat gate"
        running = asyncio.create_task(box.run(ToolCall("1", "exec", f'{{"command": "{command}"}}'), CONTEXT))
        while not (tmp_path / "begun").exists():  # noqa: ASYNC110 - another process makes it
            await asyncio.sleep(0.01)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(story())
    assert list((tmp_path / "outputs").iterdir()) == []


def test_where_no_file_can_be_made_the_output_is_told_without_one(tmp_path: Path) -> None:
    (tmp_path / "outputs").write_text("a file of the person's")
    for command in ("seq 1 3000", "seq 1 100000"):
        result = run(tmp_path, command)
        assert "the rest could not be kept" in result.text
        assert "\n3000\n" in result.text or "\n100000\n" in result.text
    assert (tmp_path / "outputs").read_text() == "a file of the person's"


def test_outputs_never_leave_the_workspace(tmp_path: Path) -> None:
    root, elsewhere = tmp_path / "workspace", tmp_path / "elsewhere"
    root.mkdir()
    elsewhere.mkdir()
    (root / "outputs").symlink_to(elsewhere)
    assert "the rest could not be kept" in Outputs(root).shortened("look", "x" * 40_000)
    assert list(elsewhere.iterdir()) == []


def test_the_oldest_outputs_go_and_files_of_the_person_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outputs, "KEPT_BYTES", 2_500)
    kept = Outputs(tmp_path)
    paths = []
    for number in range(4):
        paths.append(tmp_path / kept.keep("exec", str(number) * 1_000))
        os.utime(paths[-1], (number, number))
        (tmp_path / "outputs" / "mine.txt").write_text("y" * 5_000)
    assert [path.exists() for path in paths] == [False, False, True, True]
    assert (tmp_path / "outputs" / "mine.txt").exists()
