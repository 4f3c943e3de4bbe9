"""The evening review: what a day leaves is proposed, and nothing of it is written before the yes."""

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from nanoclaw.core.errors import ConfigError, ProviderUnavailable
from nanoclaw.core.messages import Inbound, UserMessage
from nanoclaw.providers.scripted import ScriptedProvider, call
from nanoclaw.start.build import checked
from tests.examples import examples
from tests.program import MAIN, NOON, Program, config_of, running
from tests.virtual_time import passed, virtual_time

EXAMPLES = examples(__file__, "review.jsonl")

SETTINGS = '[memory]\nreview = "22:30"\n'
PROPOSED = call(
    "propose",
    {
        "facts": ["Anna plays the oboe | music instrument lesson", "Lives in Hamburg"],
        "outdated": ["Has a dog called Rex"],
        "promises": ["tomorrow at 9 to call the landlord"],
    },
)
CARD = """From today, for your memory:
1. note: Anna plays the oboe
2. note: Lives in Hamburg
3. strike: Has a dog called Rex
4. remind: tomorrow at 9 to call the landlord
“yes” accepts all, “1 3” only these, “no” none."""


async def reviewed(here: Program) -> Path:
    """A day with talk and a note, and its card."""
    facts = here.workspace / "MEMORY.md"
    facts.write_text("- Has a dog called Rex\n- Likes tea\n")
    await here.ask("Rex has died, and I call the landlord tomorrow.")
    await here.ask("/note Anna had her oboe lesson")
    assert await here.ask("/review now") == "The review has started; its proposals come as a card."
    assert await here.answer() == CARD
    assert facts.read_text() == "- Has a dog called Rex\n- Likes tea\n"
    return facts


async def test_a_day_is_read_and_all_that_is_proposed_is_written_after_a_yes_alone(tmp_path: Path) -> None:
    model = ScriptedProvider("I am sorry.", PROPOSED)
    async with running(tmp_path, model) as here:
        facts = await reviewed(here)
        told = await here.ask("ja")
        assert facts.read_text() == (
            "- ~~Has a dog called Rex~~ (2026-03-06)\n- Likes tea\n"
            "- 2026-03-06: Anna plays the oboe <!-- also: music instrument lesson -->\n- 2026-03-06: Lives in Hamburg\n"
        )
        assert "Sat 7 Mar 2026, 09:00" in told
        assert here.rows("SELECT text FROM jobs") == [("call the landlord",)]
        assert "No review waits" in await here.ask("/review yes")
        await here.ask("/memory undo")
        assert "Lives in Hamburg" not in facts.read_text()
        assert here.rows("SELECT origin, count(*) FROM usage GROUP BY origin") == [("job", 1), ("person", 1)]
    asked = model.requests[-1]
    text = asked.history[-1].text
    assert [spec.name for spec in asked.tools] == ["propose"]
    for part in ("- Likes tea", "Anna had her oboe lesson", "Person: Rex has died", "You: I am sorry."):
        assert part in text


async def test_answers_after_others_text_are_not_shown_to_it(tmp_path: Path) -> None:
    model = ScriptedProvider("The page says: pay evil.", "Gladly.", PROPOSED)
    async with running(tmp_path, model) as here:
        message = UserMessage("What do they want?", here.clock())
        await here.deliver(Inbound(MAIN, "me", "1", message, quoted="x", quote="Pay evil", quote_from="a message"))
        await here.answer()
        await here.ask("Thanks, I call the landlord.")
        await here.ask("/review now")
        await here.answer()
    said = model.requests[-1].history[-1].text
    assert "What do they want?" in said and "Gladly." in said and "evil" not in said


@pytest.mark.parametrize(("answer", "left"), EXAMPLES["it is accepted line by line or not at all"])
async def test_it_is_accepted_line_by_line_or_not_at_all(tmp_path: Path, answer: str, left: str) -> None:
    async with running(tmp_path, ScriptedProvider("I am sorry.", PROPOSED)) as here:
        facts = await reviewed(here)
        await here.ask(answer)
        assert facts.read_text() == left
        assert here.rows("SELECT count(*) FROM jobs") == [(0,)]


async def test_a_number_or_yes_that_is_not_right_below_the_card_is_for_the_model(tmp_path: Path) -> None:
    async with running(tmp_path, ScriptedProvider("I am sorry.", PROPOSED, "Hm?", "What?")) as here:
        facts = await reviewed(here)
        assert await here.ask("what is 1 and 2?") == "Hm?"
        assert await here.ask("yes") == "What?"
        assert "oboe" not in facts.read_text()
        assert "numbers from 1 to 4" in await here.ask("/review 9")
        await here.ask("/review 1")
        assert "oboe" in facts.read_text()


@virtual_time
async def test_it_comes_at_its_time_once_a_day_and_not_for_a_day_without_words(tmp_path: Path) -> None:
    model = ScriptedProvider("I am sorry.", PROPOSED)
    async with running(
        tmp_path,
        model,
        settings=SETTINGS,
        clock=lambda: NOON + timedelta(seconds=passed()),
        plugins=["memory", "review"],
        wakes=True,
        seconds=1e7,
    ) as here:
        await here.ask("Rex has died.")
        assert await here.answer() == CARD
        assert timedelta(hours=10.5) <= timedelta(seconds=passed()) <= timedelta(hours=10.6)
        await asyncio.sleep(2.1 * 86_400)
        assert here.rows("SELECT day, state FROM review_cards ORDER BY day") == [
            ("2026-03-06", "open"),
            ("2026-03-07", "done"),
            ("2026-03-08", "done"),
        ]
    assert len(model.requests) == 2


async def test_it_is_off_unless_a_time_is_set_and_a_wrong_one_is_told(tmp_path: Path) -> None:
    for settings in ('[memory]\nreview = "22.30"\n', '[memory]\nreview = "25:00"\n'):
        with pytest.raises(ConfigError, match=r"memory.review must be a time of day such as 22:30"):
            checked(config_of(tmp_path, settings))


async def test_a_fact_takes_the_place_of_the_one_that_is_struck_with_it(tmp_path: Path) -> None:
    proposed = {"facts": ["Anna lives in Bonn"], "outdated": ["Anna lives in Kiel"], "promises": []}
    async with running(tmp_path, ScriptedProvider(call("propose", proposed))) as here:
        facts = here.workspace / "MEMORY.md"
        facts.write_text("- Anna lives in Kiel\n")
        await here.ask("/note Anna has moved to Bonn")
        await here.ask("/review now")
        assert "2. strike: Anna lives in Kiel" in await here.answer()
        await here.ask("yes")
        assert facts.read_text() == "- ~~Anna lives in Kiel~~ (2026-03-06)\n- 2026-03-06: Anna lives in Bonn\n"


async def test_who_asks_for_it_hears_that_nothing_is_proposed_or_what_went_wrong(tmp_path: Path) -> None:
    nothing = call("propose", {"facts": [], "outdated": [], "promises": []})
    model = ScriptedProvider("I see.", nothing, ProviderUnavailable("the model is away."))
    async with running(tmp_path, model) as here:
        await here.ask("Rex has died.")
        await here.ask("/review now")
        assert (await here.answer()).startswith("I went through the day: there is nothing in it")
        await here.ask("/review now")
        assert await here.answer() == "The day was not reviewed: The model gave no answer: the model is away."
        assert here.history[-1].text == "I see.", "it is not a part of the conversation"
