"""How many answers of several languages are judged rightly.

`strangers.jsonl` has turns that others than the rules' author wrote: set, claim or honest, what was asked, calls (tool,
whether it worked, outcome), answer. "first" was written against an earlier design, "second" beside this one; "third"
was tried once it was there: at first sight 64 of its 80 claims were caught, and 75 of its 80 honest answers let alone.
What it taught is mended since. "fourth" was written after that, tried once, and nothing was changed for it.
"plain" is work with words that was taken for work with things.

`sentences.jsonl` has answers of turns in which no tool did anything: set, what was asked, answer, whether it says or
promises that something was done. The rules were found with those of "seen"; of the 70 of "unseen", written before the
rules were tried on them, 62 were judged rightly at first sight.

`turns.jsonl` has whole turns: the same, and the effects (tool, kind, target and text of each). "seen" and "unseen" were
written before the rules were, and parted by lot: of "unseen" 54 of 56 claims were caught at the first try, with no
false alarm in 66 honest answers. "fresh" was written after the rules: 25 of 28, and 4 false alarms in 32, which were
mended then.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import pytest

from nanoclaw.core.messages import Effect, EffectState
from nanoclaw.plugins.claims.claims import unsupported
from tests.examples import examples

SENTENCES, TURNS, STRANGERS = (examples(__file__, f"{name}.jsonl") for name in ("sentences", "turns", "strangers"))

KINDS = {
    "write_file": "file",
    "edit_file": "file",
    "memory_add": "note",
    "schedule": "job",
    "exec": "command",
    "message": "message",
}


class Turn(NamedTuple):
    """`effects` are tool, kind, target and text of each."""

    asked: str
    answer: str
    is_claim: bool
    effects: Iterable[tuple[Any, ...]] = ()


def judged_wrongly(given: Iterable[Turn]) -> tuple[list[str], list[str]]:
    """The claims that were missed, and the honest answers that were not let alone."""
    missed, wrong = list[str](), list[str]()
    for one in given:
        effects = [_effect(*each) for each in one.effects]
        files = [each.target for each in effects]
        if bool(unsupported(one.asked, one.answer, effects, exists=files.__contains__)) != one.is_claim:
            (missed if one.is_claim else wrong).append(f"{one.asked}: {one.answer}")
    return missed, wrong


def _effect(tool: str, kind: str, target: str, text: str, state: EffectState = "done") -> Effect:
    return Effect(tool, kind, target, text, state)


def by_strangers(name: str) -> list[Turn]:
    return [
        Turn(asked, answer, judged == "claim", tuple(_effects(calls)))
        for judged, asked, calls, answer in STRANGERS[name]
    ]


def _effects(calls: list[tuple[str, bool, str]]) -> Iterable[tuple[Any, ...]]:
    for tool, worked, outcome in calls:
        kind = KINDS.get(tool, "")
        if kind and (worked or kind == "command"):
            target = outcome.partition(":")[0] if kind == "file" else ""
            yield (
                tool,
                kind,
                target,
                f"did “{outcome}”" if kind == "note" else f"did {outcome}",
                "done" if worked else "failed",
            )


@pytest.mark.parametrize("name", TURNS)
def test_claims_are_caught_and_honest_answers_let_alone(name: str) -> None:
    given = [Turn(*turn) for turn in TURNS[name]]
    missed, wrong = judged_wrongly(
        one._replace(effects=tuple((*each, "done") for each in one.effects)) for one in given
    )
    assert len(missed) <= sum(one.is_claim for one in given) * 0.03, missed
    assert wrong == []


@pytest.mark.parametrize("name", SENTENCES)
def test_so_they_are_where_no_tool_did_anything(name: str) -> None:
    assert judged_wrongly(Turn(*pair) for pair in SENTENCES[name]) == ([], [])


@pytest.mark.parametrize("name", ["first", "second", "third", "plain"])
def test_so_they_are_in_the_words_of_strangers(name: str) -> None:
    assert judged_wrongly(by_strangers(name)) == ([], [])


def test_nine_of_ten_are_where_no_rule_was_made_for_them() -> None:
    missed, wrong = judged_wrongly(by_strangers("fourth"))
    assert len(missed) <= 6 and len(wrong) <= 6, [*missed, *wrong]
