"""Commands that take files away: put back, counted over the turn, and told honestly where that can't be."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from nanoclaw.core.events import Receipt
from nanoclaw.core.messages import AssistantMessage, ToolCall
from nanoclaw.providers.scripted import Say, ScriptedProvider, call
from tests.plugins.card.test_card import NAMES, fill, rm, texts, there
from tests.program import NOON, Program, results, running

ALL_GONE = {"command": "r=rm; $r -f *.txt"}


async def test_commands_of_one_answer_are_each_judged_by_what_they_did(tmp_path: Path) -> None:
    calls = [ToolCall(str(n), "exec", f'{{"command": "rm {name}"}}') for n, name in enumerate(NAMES)]
    both = AssistantMessage("", NOON, (*calls, ToolCall("9", "exec", '{"command": "echo x > new.txt; rm new.txt"}')))
    async with running(tmp_path, ScriptedProvider(both, "Well?", "Gone.")) as program:
        fill(program)
        question = await program.ask("Go")
        assert there(program) == NAMES[3:]
        assert "1. `rm four.txt` deletes 1 file (`four.txt`)\n" in question
        assert "2. `rm five.txt` deletes 1 file (`five.txt`)\n\n" in question
        assert "put back" not in texts(program)[5]
        await program.ask("yes")
        await program.answer()
        assert there(program) == []


async def test_what_is_moved_copied_or_packed_is_not_lost(tmp_path: Path) -> None:
    lines = "mkdir old; mv *.txt old", "gzip old/*", "mkdir new; cp old/* new; rm -r old"
    steps = [call("exec", {"command": line}) for line in lines]
    async with running(tmp_path, ScriptedProvider(*steps, "Done.")) as program:
        for n, name in enumerate(NAMES):
            fill(program, name, length=400 + n)
        assert (await program.ask("Go")).startswith("Done.")
        assert len(list((program.workspace / "new").iterdir())) == 5


@pytest.mark.parametrize(("answer", "left"), [("no", 5), ("yes", 1)])
async def test_what_was_moved_over_a_larger_file_goes_back_with_it(tmp_path: Path, answer: str, left: int) -> None:
    move = call("exec", {"command": "rm two.txt three.txt four.txt; mv -f small.txt big.txt"})
    async with running(tmp_path, ScriptedProvider(move, "Well?", "Fine.")) as program:
        fill(program, "two.txt", "three.txt", "four.txt")
        fill(program, "small.txt", length=300)
        fill(program, "big.txt", length=9000)
        assert "None of this is done yet" in await program.ask("Go")
        sizes = [(program.workspace / name).stat().st_size for name in ("big.txt", "small.txt")]
        assert sizes == [9000, 300]
        await program.ask(answer)
        if answer == "yes":
            await program.answer()
            assert (program.workspace / "big.txt").stat().st_size == 300
        assert len(list(program.workspace.glob("*.txt"))) == left


async def test_a_file_that_was_changed_in_the_turn_is_put_back_as_it_was_before_the_command(tmp_path: Path) -> None:
    steps = [call("append_file", {"path": "one.txt", "content": "more"}), call("exec", ALL_GONE)]
    async with running(tmp_path, ScriptedProvider(*steps, "Well?")) as program:
        fill(program)
        await program.ask("Go")
        assert (program.workspace / "one.txt").read_text().endswith("more")
        assert there(program) == NAMES


async def test_what_a_stopped_command_took_away_is_told_and_comes_back_by_undo(tmp_path: Path) -> None:
    command = {"command": "r=rm; $r *.txt; echo > gone; sleep 600"}
    async with running(tmp_path, ScriptedProvider(call("exec", command), "Well?")) as program:
        fill(program)
        await program.say("Go")
        while not (program.workspace / "gone").exists():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        await program.say("/stop")
        answers = [await program.answer(), await program.answer()]
        told = "The command was stopped. It deletes 5 files (`five.txt`, `four.txt`, `one.txt` and 2 more)."
        assert f"{told} /undo brings back what has a copy." in answers
        assert not there(program)
        assert "5 files" in await program.ask("/undo")
        assert there(program) == NAMES


async def test_what_has_no_copy_is_asked_about_before_or_told(tmp_path: Path) -> None:
    steps: list[Say | str] = [
        call("exec", {"command": "rm -rf repo"}),
        call("exec", {"command": "r=rm; $r -f *.bin"}),
        "Tell them.",
    ]
    async with running(tmp_path, ScriptedProvider(*steps)) as program:
        fill(program, *(f"repo/.git/objects/{n}" for n in range(5)), "repo/a.md")
        for n in range(4):
            with (program.workspace / f"{n}.bin").open("wb") as file:
                file.truncate(10_000_001)
        question = await program.ask("Go")
        assert question.startswith("Delete 6 files (`repo/") and "can't be brought back" in question
        assert (program.workspace / "repo/a.md").exists()
        await program.ask("no")
        answer = await program.answer()
        assert (program.workspace / "repo/a.md").exists()
        assert "no copy was kept: `0.bin`, `1.bin`, `2.bin`, `3.bin`.)" in answer
        assert (
            "Not put back, as there is no copy: `0.bin`, `1.bin`, `2.bin` and 1 more. Tell the person."
            in texts(program)[1]
        )


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("rm -rf .", "Delete 2 files (`a.md`, `z/b.md`) and the git history (`.git`)?"),
        ("rm -rf .git", "Delete the git history (`.git`)?"),
        ("rm -rf .git/objects", "Delete 5 files (`.git/objects/0`, `.git/objects/1`, `.git/objects/2` and 2 more)?"),
    ],
)
async def test_a_question_names_own_files_before_the_git_history(tmp_path: Path, command: str, told: str) -> None:
    steps: list[Say | str] = [call("exec", {"command": command}), "Tell them."]
    async with running(tmp_path, ScriptedProvider(*steps)) as program:
        shutil.rmtree(program.workspace)
        fill(program, ".git/HEAD", *(f".git/objects/{n}" for n in range(5)), "a.md", "z/b.md")
        assert told in await program.ask("Go")


async def test_a_repository_that_is_gone_is_told_and_one_that_was_moved_is_not(tmp_path: Path) -> None:
    steps: list[Say | str] = [
        call("exec", {"command": "mv repo moved"}),
        call("exec", {"command": "python3 -c 'import shutil; shutil.rmtree(\"moved\")'"}),
        "Tell them.",
    ]
    async with running(tmp_path, ScriptedProvider(*steps), without={"sandbox"}) as program:
        fill(program, "repo/.git/HEAD", "repo/a.md")
        await program.ask("Go")
        assert "put back" not in texts(program)[0]
        assert "Not put back, as there is no copy: `moved/.git`. Tell the person." in texts(program)[1]
        assert (program.workspace / "moved/a.md").exists()


@pytest.fixture
def disk() -> Iterator[Path]:
    """A folder of a file system that gives the number of a deleted file to the next one, as ext4 does."""
    with TemporaryDirectory(dir="/var/tmp") as folder:
        path = Path(folder)
        (path / "a").touch()
        number = (path / "a").stat().st_ino
        (path / "a").unlink()
        (path / "b").touch()
        if (path / "b").stat().st_ino != number:
            pytest.skip("no number is given twice here")
        yield path


async def test_what_is_deleted_is_not_taken_for_moved_to_a_file_that_has_its_number(disk: Path) -> None:
    made = "for name in a b c d; do seq 500 > $name; done"
    model = ScriptedProvider(call("exec", {"command": f"rm one.txt two.txt three.txt four.txt; {made}"}), "Hm.")
    async with running(disk / "home", model) as program:
        fill(program)
        await program.ask("Go")
        assert "put back as it was: this command deletes 4 files" in results(program.history)[0].text
        assert there(program) == NAMES


async def test_a_folder_that_is_open_for_writing_is_looked_after_too(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    for name in NAMES:
        (other / name).write_text(name)
    settings = f'[files]\nwrite = ["{other}"]\n'
    step = call("exec", {"command": f"r=rm; $r {other}/*.txt"})
    async with running(tmp_path / "home", ScriptedProvider(step, "Well?", "Gone."), settings=settings) as program:
        question = await program.ask("Go")
        assert f"deletes 5 files (`{other}/five.txt`" in question
        assert sorted(one.name for one in other.iterdir()) == sorted(NAMES)
        await program.ask("yes")
        await program.answer()
        assert not list(other.iterdir())


async def test_names_that_are_no_text_are_put_back_and_carried_out_too(tmp_path: Path) -> None:
    names = [f"{n}\udcff\n.bin" for n in range(5)]
    step = call("exec", {"command": "r=rm; $r *.bin"})
    async with running(tmp_path, ScriptedProvider(step, "Well?", "Gone.")) as program:
        fill(program, *names)
        assert "deletes 5 files (`0\\udcff ⏎ .bin`" in await program.ask("Go")
        assert all((program.workspace / name).exists() for name in names)
        await program.ask("yes")
        assert await program.answer() == "Gone."
        assert not any((program.workspace / name).exists() for name in names)


async def test_what_changed_after_it_was_shown_is_left_alone(tmp_path: Path) -> None:
    async with running(tmp_path, ScriptedProvider(call("exec", ALL_GONE), "Well?", "Gone.")) as program:
        fill(program)
        await program.ask("Go")
        (program.workspace / "two.txt").write_text("by hand")
        await program.ask("yes")
        await program.answer()
        assert there(program) == ["two.txt"]
        assert "Done with 4 of 5 files\n`two.txt`: skipped" in texts(program)[1]


async def test_nobody_but_the_card_carries_out(tmp_path: Path) -> None:
    steps: list[Say | str] = [call("exec", ALL_GONE), call("file_changes", {"steps": [1]}), "Well?"]
    model = ScriptedProvider(*steps)
    async with running(tmp_path, model) as program:
        fill(program)
        await program.ask("Go")
        assert texts(program)[1] == "not done: it is not what the person was shown."
        assert "file_changes" not in {spec.name for spec in model.requests[0].tools}


@pytest.mark.parametrize("count", [1, 3])
async def test_one_undo_brings_back_what_one_command_took(tmp_path: Path, count: int) -> None:
    steps: list[Say | str] = [rm(" ".join(NAMES[:count])), "Done."]
    async with running(tmp_path, ScriptedProvider(*steps)) as program:
        fill(program)
        assert (await program.ask("Go")).startswith("Done.")
        assert there(program) == NAMES[count:]
        assert "put back as before" in await program.ask("/undo")
        assert there(program) == NAMES


async def test_links_empty_folders_and_the_rights_and_times_of_folders_are_put_back_too(tmp_path: Path) -> None:
    step = call("exec", {"command": "r=rm; $r -r box; mv stays moved"})
    async with running(tmp_path, ScriptedProvider(step, "Well?", "Gone.")) as program:
        fill(program, *(f"box/in/{name}" for name in NAMES), "stays/a.txt")
        box = program.workspace / "box"
        (box / "empty/inner").mkdir(parents=True)
        (box / "link").symlink_to("in/one.txt")
        (box / "away").symlink_to("/nowhere")
        for path, mode in ((box / "in", 0o700), (box / "empty/inner", 0o2775), (box, 0o750)):
            path.chmod(mode)
            os.utime(path, ns=(10**18, 10**18 + mode))
        before = tree(box)
        asked = await program.ask("Go")
        assert "deletes 5 files" in asked and "\ndelete the folder box/empty/inner\n" in asked
        assert tree(box) == before
        assert not (program.workspace / "stays").exists(), "it was moved, so it is not lost"
        await program.ask("yes")
        assert await program.answer() == "Gone."
        assert "Done with 7 of 7 files" in texts(program)[-1]
        assert not os.path.lexists(box)


def tree(top: Path) -> list[tuple[str, int, int, str]]:
    """All that is in a folder: its mode, its time, and where a link leads."""
    found = [(path, path.lstat()) for path in (top, *top.rglob("*"))]
    return sorted(
        (str(path), at.st_mode, at.st_mtime_ns, str(path.readlink()) if path.is_symlink() else "") for path, at in found
    )


async def test_a_card_says_what_is_gone_already(tmp_path: Path) -> None:
    step = call("exec", {"command": "r=rm; $r -r *.txt big.bin"})
    async with running(tmp_path, ScriptedProvider(step, "Well?", "Kept.")) as program:
        fill(program)
        with (program.workspace / "big.bin").open("wb") as file:
            file.truncate(10_000_001)
        question = await program.ask("Go")
        assert "deletes 5 files (`five.txt`, `four.txt`, `one.txt` and 2 more)" in question
        assert "(already gone, as no copy was kept: `big.bin`)" in question


@pytest.mark.parametrize("above", ["", "tmp"])  # a folder that tools make again
async def test_lines_for_a_process_are_asked_about_where_there_is_no_copy(tmp_path: Path, above: str) -> None:
    steps: list[Say | str] = [
        call("exec", {"command": "cat | sh", "background": True}),
        call("process", {"action": "input", "id": 1, "text": "rm -rf .git"}),
        "Kept.",
    ]
    async with running(tmp_path / above, ScriptedProvider(*steps), wakes=True) as program:
        fill(program, ".git/HEAD", *(f".git/objects/{n}" for n in range(5)))
        await program.say("Go")
        assert (await program.answer_with("Delete")).startswith("Delete the git history (`.git`)?")
        await program.say("no")
        await program.answer_with("Kept.")
        assert (program.workspace / ".git/HEAD").exists()


async def test_many_files_of_one_command_are_told_in_one_line_and_one_undo_brings_them_back(tmp_path: Path) -> None:
    steps = [call("write_file", {"path": "kept.md", "content": "kept"}), call("exec", ALL_GONE)]
    async with running(tmp_path, ScriptedProvider(*steps, "Well?", "Gone.", "Yes.")) as program:
        fill(program, *NAMES, *(f"{number:02}.txt" for number in range(35)))
        assert "/undo brings the files back." in await program.ask("Go")
        await program.ask("yes")
        await program.answer()
        forty, by = "40 files (00.txt, 01.txt, 02.txt and 37 more)", "deleted by `r=rm; $r -f *.txt`"
        (line,) = [event.text for _, event in program.channel.events if isinstance(event, Receipt)]
        assert line == f"wrote kept.md; {forty} {by}; made the file changes that you allowed"
        assert f"{forty} {by}" in await program.ask("/receipts")
        assert await program.ask("/undo") == f"{forty} put back as before (2026-03-06 12:00, {by})."
        await program.ask("Are they back?")
        assert f"so it is as it was before: {forty} {by}" in str(program.history)
        assert there(program) == NAMES


async def test_folders_nested_by_the_thousand_can_be_deleted(tmp_path: Path) -> None:
    nest = "import os\nfor _ in range(1100):\n os.mkdir('d'); os.chdir('d')"
    lines = f'mkdir nest; cd nest; python3 -c "{nest}"', "rm -r nest"
    model = ScriptedProvider(*(call("exec", {"command": one}) for one in lines), "Done.")
    async with running(tmp_path, model) as program:
        await program.ask("Go")
        assert not (program.workspace / "nest").exists()
        assert not any(one.is_error for one in results(program.history))


async def test_a_command_that_only_looks_can_write_nothing_and_no_copies_are_made_before_it(tmp_path: Path) -> None:
    looks = call("exec", {"command": "cat one.txt"}), call("exec", {"command": "PATH=.:$PATH ls"})
    lines = "./ls", "sort -uo sorted.txt one.txt", "uniq one.txt once.txt", "echo hi >&1x"
    writes = [call("exec", {"command": line}) for line in lines]
    async with running(tmp_path, ScriptedProvider(*looks, "Hm.", *writes, "Done.")) as program:
        (program.workspace / "one.txt").write_text("one")
        (program.workspace / "ls").write_text("#!/bin/sh\ntouch new.txt")
        (program.workspace / "ls").chmod(0o700)
        if "(full)" not in program.public("sandbox").banner():
            pytest.skip("this machine has no full sandbox")
        await program.ask("Look")
        assert "Read-only file system" in results(program.history)[-1].text
        assert not (tmp_path / "snapshots").exists()
        await program.ask("Write")
        assert (tmp_path / "snapshots").exists()
        assert {"new.txt", "sorted.txt", "once.txt", "1x"} <= {one.name for one in program.workspace.iterdir()}


async def test_what_git_does_not_have_counts_though_git_did_something_too(tmp_path: Path) -> None:
    steps = [call("exec", {"command": f"git add {name} && rm *.txt"}) for name in ("five.txt four.txt", "five.txt")]
    async with running(tmp_path, ScriptedProvider(steps[0], "Fine.", steps[1], "Well?")) as program:
        fill(program, "plan.md")
        git(program, "init", "-q")
        git(program, "add", "plan.md")
        for answer in ("Fine.", "deletes 4 files (`four.txt`, `one.txt`, `three.txt` and 1 more)"):
            fill_differently(program, answer)
            assert answer in await program.ask("Go")
        assert there(program) == NAMES[:4]


def git(program: Program, *words: str) -> None:
    subprocess.run(["git", "-C", str(program.workspace), *words], check=True)


def fill_differently(program: Program, text: str) -> None:
    for name in NAMES:
        (program.workspace / name).write_text(f"{text} {name}")
