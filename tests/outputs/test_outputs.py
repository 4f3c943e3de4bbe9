"""Large outputs: nothing of them is lost, and little of them is told."""

import os
from pathlib import Path

import pytest

from nanoclaw import outputs
from nanoclaw.core.tool import tool
from nanoclaw.outputs import HEAD, LARGE, TAIL, Outputs
from nanoclaw.providers.scripted import ScriptedProvider, call
from tests.plugins.shell.test_outputs import path_in
from tests.program import bare, results


async def test_a_large_output_of_any_tool_is_head_tail_and_the_path_of_all_of_it(tmp_path: Path) -> None:
    text = "first " + "middle " * 10_000 + "last"

    async def look() -> str:
        """Gives much."""
        return text

    async with bare(tmp_path, ScriptedProvider(call("look"), call("look"), "ok"), tools=[tool(look)]) as program:
        await program.ask("look twice")
        first, second = (result.text for result in results(program.history))
        assert len(first) < HEAD + TAIL + 300
        assert first.startswith("first middle")
        assert "middle last\n[all of it is in" in first
        assert f"{len(text) - HEAD - TAIL:,} characters left out" in first
        assert (program.workspace / path_in(first)).read_text() == text
        assert second == first, "the same call, the same result"
        assert len(list((program.workspace / "outputs").iterdir())) == 1


def test_what_is_not_large_stays_as_it_is(tmp_path: Path) -> None:
    text = "x" * LARGE
    assert Outputs(tmp_path).shortened("look", text) == text
    assert not (tmp_path / "outputs").exists()


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
