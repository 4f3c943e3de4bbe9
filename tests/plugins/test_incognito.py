"""Incognito: without memory and tools, and at its end nothing of it is on disk."""

from datetime import timedelta
from pathlib import Path

from nanoclaw.core.messages import Attachment
from nanoclaw.providers.scripted import ScriptedProvider, call
from tests.program import running

SECRETS = (b"zebulon", b"quetzal", b"umbrella", b"oboe lessons")


def left(home: Path) -> list[str]:
    """Files that have a word of the talk."""
    paths = (path for path in home.rglob("*") if path.is_file())
    return [path.name for path in paths if any(word in path.read_bytes().lower() for word in SECRETS)]


async def test_nothing_is_read_from_memory_or_written_and_nothing_is_left_of_it(tmp_path: Path) -> None:
    model = ScriptedProvider(
        "Usual.",
        call("memory_add", {"text": "umbrella", "kind": "fact"}),
        "Which quetzal?",
        "You said Zebulon.",
        "Not from here.",
        "Back.",
    )
    async with running(tmp_path, model) as here:
        (here.workspace / "MEMORY.md").write_text("- Has a dog called Rex\n")
        (here.workspace / "memory" / "2026-03-01.md").write_text("- Rex was at the vet\n")
        (tmp_path / "history").write_text("\n# 2026\n+hello\n\n# 2026\n+remember zebulon of Rex\n\n# 2026\n+bye\n")
        await here.ask("hello")
        assert "/incognito off" in await here.ask("/incognito")
        await here.ask("remember zebulon of Rex")
        assert await here.ask("What did I say?") == "You said Zebulon."
        assert "not in incognito" in await here.ask("/note oboe lessons")
        assert "not in incognito" in await here.ask("look", files=(Attachment("", "a.txt", ref="1"),))
        assert await here.ask("remind me of my umbrella tomorrow at 9") == "Not from here."
        assert here.rows("SELECT count(*) FROM jobs") == [(0,)]
        assert "Only what it cost is kept" in await here.ask("/incognito off")
        assert left(tmp_path) == []
        assert (tmp_path / "history").read_text() == "\n# 2026\n+hello\n\n# 2026\n+bye\n"
        assert await here.ask("and now?") == "Back."
        assert here.rows("SELECT count(*) FROM usage") == [(6,)]
    before, *private, after = model.requests
    assert "Rex" in before.system.text and "Rex" in after.system.text
    assert all("Rex was" not in str(request) and "dog called Rex" not in str(request) for request in private)
    assert all(request.tools == () for request in private)
    assert not any(b"zebulon" in str(message).lower().encode() for message in after.history)


async def test_it_goes_on_after_a_restart_until_it_is_ended(tmp_path: Path) -> None:
    model = ScriptedProvider("Zebulon, hm.", "Yes, Zebulon.")
    async with running(tmp_path, model) as here:
        await here.ask("/incognito")
        await here.ask("I am called Zebulon")
    async with running(tmp_path, model) as here:
        await here.ask("You know?")
        assert "zebulon" not in str(here.history).lower()
        await here.ask("/incognito off")
        assert left(tmp_path) == []


async def test_lines_typed_that_were_refused_are_gone_from_what_the_terminal_keeps(tmp_path: Path) -> None:
    async with running(tmp_path, ScriptedProvider("Usual.")) as here:
        await here.ask("/incognito")
        await here.ask("/note oboe lessons")
        now = here.clock().astimezone().replace(tzinfo=None)
        (tmp_path / "history").write_text(
            f"\n# {now - timedelta(hours=1)}\n+hello\n\n# {now}\n+/note oboe lessons\n\n# {now}\n+/remind 9: umbrella\n"
        )
        await here.ask("/incognito off")
        assert left(tmp_path) == []
        assert "+hello" in (tmp_path / "history").read_text()


async def test_context_shows_the_request_of_incognito(tmp_path: Path) -> None:
    async with running(tmp_path, ScriptedProvider("Hm.")) as here:
        await here.ask("/incognito")
        await here.ask("zebulon")
        shown = await here.ask("/context")
    assert "Identity" in shown and "tools" not in shown.partition("sum")[0] and "Skills" not in shown
