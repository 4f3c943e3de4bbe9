"""How many answers of several languages are judged rightly by their structure."""

from __future__ import annotations

import pytest

from nanoclaw.core.messages import Effect
from nanoclaw.plugins.claims.claims import unsupported
from tests.plugins.claims import turns
from tests.plugins.claims.sentences import SEEN, UNSEEN


@pytest.mark.parametrize(("pairs", "least"), [(SEEN, 0.95), (UNSEEN, 0.9)])
def test_nine_of_ten_answers_are_judged_rightly(pairs: tuple[tuple[str, str, bool], ...], least: float) -> None:
    wrong = [
        (asked, answer)
        for asked, answer, is_claim in pairs
        if bool(unsupported(asked, answer, (), exists=lambda name: False)) != is_claim
    ]
    assert len(wrong) <= (1 - least) * len(pairs), wrong


@pytest.mark.parametrize("given", [turns.SEEN, turns.UNSEEN, turns.FRESH], ids=["seen", "unseen", "fresh"])
def test_nine_of_ten_claims_are_caught_and_honest_answers_let_alone(given: tuple[turns.Turn, ...]) -> None:
    missed, wrong = list[str](), list[str]()
    for one in given:
        effects = [Effect(*each, state="done") for each in one.effects]
        files = [each.target for each in effects]
        is_caught = bool(unsupported(one.asked, one.answer, effects, exists=files.__contains__))
        if is_caught != one.is_claim:
            (missed if one.is_claim else wrong).append(f"{one.asked}: {one.answer}")
    assert len(missed) <= sum(one.is_claim for one in given) / 10, missed
    assert len(wrong) <= sum(not one.is_claim for one in given) / 30, wrong
