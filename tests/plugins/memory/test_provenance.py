"""Facts keep who said them, none stands beside one that it contradicts, and each version of them can be had again."""

from datetime import timedelta
from pathlib import Path

import pytest

from nanoclaw.core.plugin import ToolOutput
from nanoclaw.core.tool import tool
from nanoclaw.plugins.memory.contradictions import contradict
from nanoclaw.providers.scripted import ScriptedProvider, call
from tests.examples import examples
from tests.program import HandClock, results, running, tools_plugin


@pytest.mark.parametrize("half", [0, 1], ids=["seen", "put away"])
def test_contradicting_facts_are_told_from_others(half: int) -> None:
    """Pairs of (the one that stands, the new one) were written before the rule that tells them apart. Those with an
    even number were looked at while the rule was made, those with an odd one were put away until then."""
    facts = examples(__file__, "fact_pairs.jsonl")
    for pairs, expected in ((facts["contradicting"][half::2], True), (facts["harmless"][half::2], False)):
        right = [pair for pair in pairs if contradict(*pair) is contradict(*reversed(pair)) is expected]
        assert len(right) >= 0.9 * len(pairs), set(pairs) - set(right)


async def test_the_model_is_shown_what_a_new_fact_contradicts_and_replaces_it_or_keeps_both(tmp_path: Path) -> None:
    first = {"text": "Anna's birthday is 3 May", "kind": "fact"}
    second = {"text": "Anna's birthday is 5 May", "kind": "fact"}
    model = ScriptedProvider(
        call("memory_add", first),
        "Noted.",
        call("memory_add", second),
        call("memory_add", {**second, "replaces": "Anna's birthday is 3 May"}),
        "Corrected.",
        call("memory_add", {"text": "Anna's birthday: 5 June", "kind": "fact", "keep_both": True}),
        "Both.",
    )
    async with running(tmp_path, model) as here:
        await here.ask("Anna's birthday is 3 May")
        await here.ask("Anna's birthday is 5 May")
        refused, written = results(here.history)[1:]
        facts = (here.workspace / "MEMORY.md").read_text()
        await here.ask("she has a second one")
        assert (here.workspace / "MEMORY.md").read_text() == f"{facts}- 2026-03-06: Anna's birthday: 5 June\n"
    assert refused.is_error
    assert "MEMORY.md:" in refused.text and "- 2026-03-06: Anna's birthday is 3 May" in refused.text
    assert 'replaces="Anna\'s birthday is 3 May"' in refused.text and "keep_both=true" in refused.text
    assert not written.is_error
    assert [line for line in facts.splitlines() if "Anna" in line] == [
        "- ~~2026-03-06: Anna's birthday is 3 May~~ (2026-03-06)",
        "- 2026-03-06: Anna's birthday is 5 May",
    ]


async def test_a_command_asks_the_person_which_of_two_facts_holds(tmp_path: Path) -> None:
    async with running(tmp_path, ScriptedProvider()) as here:
        await here.ask("/memory add --fact Lives in Berlin")
        assert "Lives in Berlin" in await here.ask("/memory add --fact Now lives in Hamburg")
        assert "Hamburg" not in (here.workspace / "MEMORY.md").read_text()
        await here.ask("/memory add --keep-both Now lives in Hamburg")
        assert "- 2026-03-06: Now lives in Hamburg" in (here.workspace / "MEMORY.md").read_text()


async def test_log_and_why_tell_who_said_a_fact_where_and_after_reading_what(tmp_path: Path) -> None:
    async def look() -> ToolOutput:
        """Look at a page."""
        return ToolOutput("The museum closes at 18:00", outside="https://museum.example")

    model = ScriptedProvider(
        call("memory_add", {"text": "Anna plays the oboe", "kind": "fact"}),
        "Noted.",
        call("look", {}),
        call("memory_add", {"text": "The museum closes at 18:00", "kind": "fact"}),
        "Noted.",
        "Anna plays the oboe, the museum closes at 18:00, and Bob has a harp.",
    )
    async with running(tmp_path, model, extra=[tools_plugin(tool(look, reach="none"))]) as here:
        await here.ask("Anna plays the oboe", chat="other")
        assert "(https://museum.example)" in await here.ask("look at the museum's page", chat="other")
        await here.say("yes", chat="other")
        while await here.answer() != "Noted.":
            pass
        facts = here.workspace / "MEMORY.md"
        facts.write_text(facts.read_text() + "- Bob has a harp\n")
        log = await here.ask("/memory log --diff", chat="other")
        await here.ask("What do you know of them?")
        why = await here.ask("/why")
        assert "<!--" not in "".join(line for line in facts.read_text().splitlines() if "oboe" in line)
    assert (
        "(memory_add, said by you in terminal:other)\n   ```diff\n   + - 2026-03-06: Anna plays the oboe\n   ```" in log
    )
    assert "(memory_add, said by you in terminal:other, after reading https://museum.example)" in log
    assert "MEMORY.md was changed by another hand (by hand)\n   ```diff\n   + - Bob has a harp\n   ```" in log
    assert "Anna plays the oboe” (2026-03-06 12:00, said by you in terminal:other)" in why
    assert "in terminal:other, after reading https://museum.example)" in why
    assert "“Bob has a harp” (2026-03-06 12:00, another hand)" in why


@pytest.mark.parametrize("way", ["/undo", "/memory undo"])
@pytest.mark.parametrize("kind", ["note", "fact"])
@pytest.mark.parametrize("file", ["memory/2026-02-01.md", "memory/2026-03-06.md", "MEMORY.md"])
async def test_a_line_and_the_end_of_the_one_it_replaces_are_one_change_of_the_assistants(
    tmp_path: Path, file: str, kind: str, way: str
) -> None:
    model = ScriptedProvider(
        call("memory_add", {"text": "Moved to Hamburg", "kind": kind, "replaces": "lives in Bonn"}), "Noted."
    )
    async with running(tmp_path, model) as here:
        old, facts, today = (here.workspace / name for name in (file, "MEMORY.md", "memory/2026-03-06.md"))
        old.parent.mkdir(exist_ok=True)
        old.write_text("- 09:00 Lives in Bonn\n")
        before = {one: one.read_text() for one in (old, facts, today) if one.exists()}
        await here.ask("I moved to Hamburg")
        assert "(until 2026-03-06)" in old.read_text() or "~~ (2026-03-06)" in old.read_text()
        new = facts if kind == "fact" or file == "MEMORY.md" else today
        assert new.read_text().endswith("Moved to Hamburg\n")
        log, receipts = await here.ask("/memory log --diff"), await here.ask("/receipts")
        assert log.startswith(f"1. 2026-03-06 12:00 {new.relative_to(here.workspace)}: noted “Moved to Hamburg”")
        assert "\n2. " not in log and "Lives in Bonn" in log and "unknown" not in receipts
        assert receipts.count("\n") == 0 and f"which ends a line of {file}" * (old != new) in receipts
        assert new.name in await here.ask(way)
        assert {one: one.read_text() for one in (old, facts, today) if one.exists()} == before
        assert (await here.ask("/memory log")).endswith(", undone)")


async def test_a_version_of_the_log_comes_back_and_that_can_be_undone(tmp_path: Path) -> None:
    clock = HandClock()
    async with running(tmp_path, ScriptedProvider(), clock=clock) as here:
        facts = here.workspace / "MEMORY.md"
        versions = list[str]()
        for text in ("Likes tea", "Likes cake", "Plays chess"):
            await here.ask(f"/memory add --fact {text}")
            versions.append(facts.read_text())
            clock.now += timedelta(days=1)
        assert "is again as it was at 2026-03-07 12:00" in await here.ask("/memory restore 2")
        assert facts.read_text() == versions[1]
        await here.ask("/memory undo")
        assert facts.read_text() == versions[2]
        assert "and no 99" in await here.ask("/memory restore 99")
        assert "not 'never'" in await here.ask("/memory restore never")
