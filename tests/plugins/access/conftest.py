"""Codes are kept with a quick digest here: the slow one would be a third of these tests."""

from __future__ import annotations

import pytest

from nanoclaw.plugins.access import accounts


@pytest.fixture(autouse=True)
def quick_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accounts, "ROUNDS", 1_000)
