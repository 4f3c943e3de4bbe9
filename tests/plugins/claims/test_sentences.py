"""How many answers of several languages are judged rightly by their structure."""

from __future__ import annotations

import pytest

from nanoclaw.plugins.claims.claims import unsupported
from tests.plugins.claims.sentences import SEEN, UNSEEN


@pytest.mark.parametrize(("pairs", "least"), [(SEEN, 0.95), (UNSEEN, 0.9)])
def test_nine_of_ten_answers_are_judged_rightly(pairs: tuple[tuple[str, str, bool], ...], least: float) -> None:
    wrong = [
        (asked, answer)
        for asked, answer, is_claim in pairs
        if bool(unsupported(asked, answer, (), exists=lambda name: False)) != is_claim
    ]
    assert len(wrong) <= (1 - least) * len(pairs), wrong
