"""Other words for the same thing: written down with a note, found, and never shown."""

from pathlib import Path

import pytest

from nanoclaw.providers.scripted import ScriptedProvider, call
from nanoclaw.tokenizer import tokens
from tests.plugins.conftest import Hands
from tests.program import running


def test_a_note_is_found_by_other_words_that_are_never_shown(hands: Hands) -> None:
    said = hands("memory_add", text="The plumber came", also="sink, tap; leak <!-- --> repair")
    assert said == "Noted in memory/2026-05-03.md: - 23:30 The plumber came"
    line = "- 23:30 The plumber came <!-- also: sink tap leak repair -->\n"
    assert (hands.root / "memory" / "2026-05-03.md").read_text() == line
    for query in ("plumber", "When was the tap mended?"):
        found = hands("memory_search", query=query)
        assert found.endswith(": 23:30 The plumber came"), found
    assert hands("memory_add", text="The plumber came", also="pipes").startswith("Already noted in")
    assert (hands.root / "memory" / "2026-05-03.md").read_text() == line


def test_no_part_of_a_text_is_hidden_as_other_words(hands: Hands) -> None:
    text = "A comment is <!-- also: so --> in HTML <!-- and --> also this"
    hands("memory_add", text=text)
    assert "A comment is <!-- also so --> in HTML <!-- and --> also this" in hands("memory_search", query="HTML")


def test_comments_changed_by_hand_are_harmless(hands: Hands) -> None:
    (hands.root / "MEMORY.md").write_text(
        "- Likes tea <!-- also: -->\n- Likes pelicans <!-- also: birds\n- Likes cake <!-- also: torte --> a lot\n"
        "- <!-- also: sauce -->\n"
    )
    assert hands("memory_search", query="tea").endswith(": Likes tea")
    assert hands("memory_search", query="birds").endswith(": Likes pelicans <!-- also: birds")
    assert hands("memory_search", query="torte").endswith(": Likes cake a lot")
    assert "nothing in memory matches" in hands("memory_search", query="sauce")


def test_a_fact_with_other_words_is_corrected_by_its_own(hands: Hands) -> None:
    hands("memory_add", text="Anna lives in Lviv", kind="fact", also="home address")
    said = hands("memory_add", text="Anna lives in Kyiv", kind="fact", replaces="Anna lives in Lviv", also="home")
    assert "Corrected: - ~~2026-05-03: Anna lives in Lviv" in said
    assert "Lviv" not in hands("memory_search", query="home address of Anna")


async def test_the_prompt_and_the_commands_show_no_other_words(tmp_path: Path) -> None:
    model = ScriptedProvider("In the cellar.", "Yes.")
    async with running(tmp_path, model, plugins=["memory"]) as here:
        (here.workspace / "memory").mkdir(exist_ok=True)
        note = "- The pelican is in the cellar <!-- also: basement bird -->\n"
        (here.workspace / "memory" / "2026-03-01.md").write_text(note)
        (here.workspace / "MEMORY.md").write_text("- Has a dog <!-- also: hound -->\n")
        assert await here.ask("/search hound") == "- MEMORY.md:1: Has a dog"
        await here.ask("Which bird is in the basement?")
        with (here.workspace / "MEMORY.md").open("a") as file:
            file.write("- Has a cat <!-- also: feline -->\n")
        await here.ask("And what else?")
    first, second = model.requests
    assert "The pelican is in the cellar" in first.system.text
    assert "- Has a dog\n" in f"{first.system.text}\n"
    sent = [request.system.text + "".join(m.text for m in request.history) for request in (first, second)]
    assert "MEMORY.md:2: Has a cat" in sent[1]
    for word in ("also:", "hound", "feline"):
        assert word not in "".join(sent)


async def test_what_is_forgotten_takes_its_other_words_along(tmp_path: Path) -> None:
    noted = call("memory_add", {"text": "The plumber Hansen came", "also": "sink tap leak"})
    async with running(tmp_path, ScriptedProvider(noted, "Noted.")) as here:
        await here.ask("The plumber Hansen came")
        listing = here.public("forget").find("tap leak")
        assert listing.count
        here.public("forget").forget("tap leak", [1])
        assert not here.rows("SELECT 1 FROM messages WHERE body LIKE '%sink tap leak%'")
        assert "sink" not in "".join(file.read_text() for file in (here.workspace / "memory").glob("*.md"))


@pytest.mark.parametrize(
    "same",
    ["colour color", "organisations organizations", "neighbours neighbor", "children kids child", "vacation holidays"],
)
def test_british_and_american_words_are_one(same: str) -> None:
    assert len(set(tokens(same))) == 1


@pytest.mark.parametrize("different", ["story storey", "flat apartment", "gas petrol"])
def test_words_that_may_mean_something_else_stay_apart(different: str) -> None:
    assert len(set(tokens(different))) == 2
