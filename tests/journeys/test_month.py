"""A month of use by script: notes taken by tool calls, and at its end a person's questions answered from the prompt."""

import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

from nanoclaw.core.messages import ModelRequest
from nanoclaw.providers.scripted import Answer, ScriptedProvider, Step, call
from tests.examples import examples
from tests.program import NOON, HandClock, Program, results, running


class Said(NamedTuple):
    """A message of a day, and what the model notes of it: nothing of small talk."""

    day: int
    text: str
    note: str = ""
    also: str = ""
    fact: bool = False
    replaces: str = ""


DATA = examples(__file__, "month.jsonl")
SAID = [Said(*one) for one in DATA["said"]]
MONTH = [[one for one in SAID if one.day == day] for day in range(SAID[-1].day + 1)]
"""What they say from Friday, 6 March, to Saturday, 4 April; on the Sunday they ask."""

FORGOTTEN = "4711"
GONE = (FORGOTTEN, "Dr Weiss", "555 1033")
"""Words of the line that was forgotten, and of the facts that were corrected."""

DAYS_TO_A_RESTART, DAYS_TO_A_CONVERSATION, FORGETTING_DAY = 6, 4, 20


async def test_the_questions_of_a_month_are_answered_from_the_prompt(tmp_path: Path) -> None:
    """One of 30 meets silence: “Which evening is the clay thing?” shares one word with the notes, and nothing tells
    that it is about the person's own affairs. Without the other words that the model writes down with each note, 11
    would. One of 25 messages with nothing to note brings up notes: “clocks changed, so tired”, of brakes to be
    changed."""
    model, clock = ScriptedProvider(), HandClock(NOON)
    chatter = await play(tmp_path, model, clock)
    clock.now = (NOON + timedelta(days=len(MONTH))).replace(hour=10)
    async with running(tmp_path, model, clock=clock) as here:
        apart = await missed(here, model, is_one_conversation=False)
        together = await missed(here, model, is_one_conversation=True)
        facts = (here.workspace / "MEMORY.md").read_text()
    model.assert_used_up()
    assert len(apart) <= 1, apart
    assert len(together) <= 1, together
    assert len(chatter) <= 1, chatter
    assert facts.count("~~ (2026-") == 2, "corrected facts stay in the file, struck"


async def play(home: Path, model: ScriptedProvider, clock: HandClock) -> list[str]:
    """Play the month; small talk that brought up notes."""
    chatter: list[str] = []
    for first in range(0, len(MONTH), DAYS_TO_A_RESTART):
        async with running(home, model, clock=clock) as here:
            for number, day in enumerate(MONTH[first : first + DAYS_TO_A_RESTART], first):
                clock.now = (NOON + timedelta(days=number)).replace(hour=9)
                if number % DAYS_TO_A_CONVERSATION == DAYS_TO_A_CONVERSATION - 1:
                    assert "A new conversation" in await here.ask("/new")
                for said in day:
                    known = recalled(model.requests[-1]) if model.requests else []
                    model.add(steps_of(said))
                    assert await here.ask(said.text) == "Fine."
                    if not said.note and not set(recalled(model.requests[-1])) <= set(known):
                        chatter.append(said.text)
                    clock.now += timedelta(hours=2)
                if number == FORGETTING_DAY:
                    model.add([call("memory_forget", {"query": FORGOTTEN}), forget_all, "Gone."])
                    assert await here.ask(f"please forget the code {FORGOTTEN}") == "Gone."
    return chatter


def steps_of(said: Said) -> Iterator[Step]:
    """Answers of the model: it notes what there is to note, and is told what a fact contradicts before it replaces
    that."""
    if said.note:
        arguments = {"text": said.note, "also": said.also, "kind": "fact" if said.fact else "note"}
        yield call("memory_add", arguments)
        if said.replaces:
            yield lambda request: replace(request, arguments, said.replaces)
    yield "Fine."


def replace(request: ModelRequest, arguments: dict[str, str], words: str) -> Answer:
    refused = results(request.history)[-1]
    assert refused.is_error
    assert words in refused.text, "the model reads what stands"
    return call("memory_add", {**arguments, "replaces": words})


def forget_all(request: ModelRequest) -> Answer:
    """Forgets every line that was listed."""
    listed = re.findall(r"^(\d+)\. ", results(request.history)[-1].text, re.MULTILINE)
    return call("memory_forget", {"query": FORGOTTEN, "numbers": [int(number) for number in listed]})


async def missed(here: Program, model: ScriptedProvider, *, is_one_conversation: bool) -> list[str]:
    """Ask all questions; those whose answer the prompt did not show. It never shows what is struck or forgotten."""
    answers = {**dict(DATA["asked"]), **dict.fromkeys(DATA["about what is gone"], "")}
    found: list[str] = []
    await here.ask("/new")
    for question, answer in answers.items():
        if not is_one_conversation:
            await here.ask("/new")
        model.add(["I see."])
        await here.ask(question)
        request = model.requests[-1]
        shown = "\n".join([request.system.text, *recalled(request)])
        assert not [words for words in GONE if words in shown], question
        if answer not in shown:
            found.append(question)
    return found


def recalled(request: ModelRequest) -> list[str]:
    """Lines of notes that a request shows, those of its system message first."""
    _, _, begun = request.system.text.partition("Notes that may matter here")
    said = [line for message in request.history for line in message.text.split("\n")]
    remarks = [line for line in said if line.startswith("Note from memory: ")]
    return [*(line for line in begun.split("\n") if line.startswith("- memory/")), *remarks]
