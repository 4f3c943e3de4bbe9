"""The diff of a change: for the person who looks on, and never for the model."""

from pathlib import Path

from nanoclaw.core.events import ToolFinished
from nanoclaw.core.messages import ToolResult
from nanoclaw.core.provider import chat_messages
from nanoclaw.providers.scripted import Say, ScriptedProvider, call
from tests.program import MAIN, Program, results, running

LINES = [f"line {number}" for number in range(1, 31)]


def shown(program: Program) -> list[str]:
    return [event.diff for _, event in program.channel.events if isinstance(event, ToolFinished)]


def write(path: str, content: str) -> Say:
    return call("write_file", {"path": path, "content": content})


async def test_an_edit_shows_its_lines_with_two_around_them(tmp_path: Path) -> None:
    edit = call("edit_file", {"path": "a.md", "old": "line 7\n", "new": "seven\nmore\n"})
    async with running(tmp_path, ScriptedProvider(edit, "Done.")) as program:
        (program.workspace / "a.md").write_text("\n".join(LINES))
        await program.ask("edit it")
        (diff,) = shown(program)
    assert diff.split("\n") == [
        *("@@ line 5 @@", " line 5", " line 6", "-line 7", "+seven", "+more", " line 8", " line 9")
    ]


async def test_a_new_file_is_all_plus_and_two_changes_of_one_are_two_pieces(tmp_path: Path) -> None:
    after = ["first", *LINES[1:-1], "last"]
    model = ScriptedProvider(write("a.md", "\n".join(LINES) + "\n"), write("a.md", "\n".join(after)), "Done.")
    async with running(tmp_path, model) as program:
        await program.ask("write it twice")
        new, changed = shown(program)
    assert new.split("\n") == ["@@ new file @@", *(f"+{line}" for line in LINES)]
    assert changed.split("\n") == [
        *("-line 1", "+first", " line 2", " line 3"),
        *("@@ line 28 @@", " line 28", " line 29", "-line 30", "+last"),
    ]


async def test_binary_and_huge_files_and_links_have_none_and_one_without_a_change_neither(tmp_path: Path) -> None:
    model = ScriptedProvider(*(write(name, "new\n") for name in ("a.bin", "huge.txt", "same.txt")), "Done.")
    async with running(tmp_path, model, without=["card"]) as program:
        (program.workspace / "a.bin").write_bytes(b"\x7fELF\0\1\2")
        (program.workspace / "huge.txt").write_text("x\n" * 1_500_000)
        (program.workspace / "same.txt").write_text("new\n")
        await program.ask("write them")
        assert shown(program) == ["", "", ""]
        assert "Overwrote huge.txt" in results(program.history)[1].text


async def test_a_large_rewrite_is_counted_not_compared(tmp_path: Path) -> None:
    old, new = "".join(f"old {n}\n" for n in range(50_000)), "".join(f"new {n}\n" for n in range(50_000))
    async with running(tmp_path, ScriptedProvider(write("a.txt", new), "Done.")) as program:
        (program.workspace / "a.txt").write_text(old)
        await program.ask("write it")
        (diff,) = shown(program)
    lines = diff.split("\n")
    assert len(lines) == 401 and lines[0] == "-old 0" and lines[-1] == "[... 99,600 lines left out ...]"


async def test_no_model_reads_a_diff_and_it_is_kept_with_its_result_without_secrets(tmp_path: Path) -> None:
    settings = '[model]\nname = "openai/x"\napi_key = "sk-verysecret"\n'
    with ScriptedProvider(write("a.md", "a line\nkey sk-verysecret \x1b[2J\n"), "Done.") as model:
        async with running(tmp_path, model, settings=settings) as program:
            await program.ask("write it")
            (diff,) = shown(program)
    assert diff == "@@ new file @@\n+a line\n+key [secret] ␛[2J"
    sent = [message for message in chat_messages(model.requests[1]) if message["role"] == "tool"]
    assert len(sent) == 1 and "a line" not in str(sent)
    async with running(tmp_path, ScriptedProvider(), settings=settings) as program:
        found = program.app.sessions.of(MAIN).result(1)
        assert found and isinstance(found[1], ToolResult) and found[1].diff == diff
        assert found[0] and found[0].name == "write_file"


async def test_what_is_forgotten_leaves_the_diff_too(tmp_path: Path) -> None:
    fact, query = "- The alarm code is 4711-x\n", {"query": "alarm code"}
    forgetting = (call("memory_forget", query), call("memory_forget", {**query, "numbers": [1]}))
    model = ScriptedProvider(write("MEMORY.md", fact), *forgetting, "Done.")
    async with running(tmp_path, model) as program:
        await program.ask("write it and forget it")
        assert shown(program)[0].endswith(f"+{fact.strip()}")
        found = program.app.sessions.of(MAIN).result(1)
        assert found and found[1].name == "write_file" and "4711" not in f"{found[1].diff}{found[0]}"
