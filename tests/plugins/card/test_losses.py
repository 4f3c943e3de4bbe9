"""What commands take away: careless ones are seen whatever they are written in, everyday ones raise no card."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nanoclaw.plugins.card.losses import Lost
from tests.plugins.card.workspace import lost_by, made

LINES = json.loads((Path(__file__).parent / "lines.json").read_text())
"""Lines with labels that were written before the judge; it was made with others and first tried on these when done."""


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("template"))


def goes_far(lost: list[Lost]) -> bool:
    return any(one.left is not None for one in lost) or len(lost) > 3


def test_lines_lose_what_their_label_says(tmp_path: Path, template: Path) -> None:
    found = [goes_far(lost_by(one["command"], template, tmp_path / str(n))) for n, one in enumerate(LINES)]
    assert [one["command"] for one, asks in zip(LINES, found, strict=True) if asks != one["asks"]] == []
