"""A promise of the assistant's becomes a job or is taken back in the same answer."""

from pathlib import Path

import pytest

from nanoclaw.plugins.claims.promises import promised
from nanoclaw.providers.scripted import ScriptedProvider, call
from tests.examples import examples
from tests.program import NOON, running

PROMISE = "I'll check back tomorrow morning."
JOB = call("cron", {"action": "add", "kind": "task", "text": "check the price", "when": "tomorrow at 9"})


ANSWERS = examples(__file__, "answers.jsonl")
"""Sentences of answers, written before the rule that finds promises in them.

Those with an even number were looked at while the rule was made, those with an odd one were put away until then: of
these it found 25 of 25 promises, and 3 of 25 others were taken for one, as a number alone was a time ("in two steps").
"more" and "more others" were written after that was mended: 15 of 16 and 14 of 16 were right at the first look.
"""


@pytest.mark.parametrize(
    ("name", "part", "expected"),
    [
        *(("promising", slice(half, None, 2), True) for half in (0, 1)),
        *(("others", slice(half, None, 2), False) for half in (0, 1)),
        ("more", slice(None), True),
        ("more others", slice(None), False),
    ],
)
def test_promises_are_told_from_other_sentences(name: str, part: slice, expected: bool) -> None:
    sentences = ANSWERS[name][part]
    right = [one for one in sentences if bool(promised("", one, NOON)) is expected]
    assert len(right) >= 0.9 * len(sentences), set(sentences) - set(right)


@pytest.mark.parametrize("asked", ["Write a mail to Anna", "Translate this: Ich melde mich morgen", "schreib Anna ab"])
def test_a_text_that_was_asked_for_promises_nothing(asked: str) -> None:
    assert promised(asked, PROMISE, NOON) == ""
    assert promised("", f"Dear Mr X,\n{PROMISE}\nYours", NOON) == ""


async def test_a_promise_is_sent_back_and_becomes_a_job(tmp_path: Path) -> None:
    model = ScriptedProvider(PROMISE, JOB, PROMISE)
    async with running(tmp_path, model) as here:
        assert await here.ask("The price is still too high.") == PROMISE
        assert here.rows("SELECT text FROM jobs") == [("check the price",)]
        assert "nothing wakes you then" in str(model.requests[1].history[-1])


async def test_telling_of_a_job_that_stands_costs_no_second_request(tmp_path: Path) -> None:
    model = ScriptedProvider("I'll remind you on Sunday at 9.", "Hm.")
    async with running(tmp_path, model) as here:
        await here.ask("/remind on Sunday at 9: water the plants")
        assert await here.ask("What is there on the weekend?") == "I'll remind you on Sunday at 9."
    assert len(model.requests) == 1


async def test_a_promise_is_taken_back_by_the_model_or_by_a_note(tmp_path: Path) -> None:
    model = ScriptedProvider(PROMISE, "Ask me again tomorrow.", PROMISE, PROMISE, "Yes.")
    async with running(tmp_path, model) as here:
        assert await here.ask("The price is still too high.") == "Ask me again tomorrow."
        assert await here.ask("And the other one too.") == (
            f"{PROMISE}\n\n(nanoclaw: nothing was set for “{PROMISE}”.)"
        )
        assert await here.ask("Fine?") == "Yes."
    assert len(model.requests) == 5
