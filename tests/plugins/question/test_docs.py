"""The example of docs/questions.md works as it is shown."""

import re
from pathlib import Path

import pytest

from nanoclaw.plugins.question.plugin import MOST, OPTION_LENGTH, TEXT_LENGTH
from nanoclaw.providers.scripted import ScriptedProvider, call
from nanoclaw.start.build import BUILT_IN
from tests.program import REPOSITORY, running

PAGE = (REPOSITORY / "docs" / "questions.md").read_text()


@pytest.mark.skipif("approvals" not in BUILT_IN, reason="nobody asks without approvals")
async def test_the_example_works_as_it_is_shown(tmp_path: Path) -> None:
    said, shown, goes_on = re.findall(r"^```\n(.*?)\n```$", PAGE, re.DOTALL | re.MULTILINE)
    words = re.findall(r"^`(\w+)`, `(\w+)`, `(\w+)` and the button", PAGE, re.MULTILINE)[0]
    options = re.findall(r"^\d\. (.*)$", shown, re.MULTILINE)
    asks = {"text": "Which tone?", "options": options, "default": options[0], "deadline": "1h"}
    for word in (*words, "/answer 1 #2"):
        async with running(
            tmp_path / word.replace("/", ""), ScriptedProvider(call("question", asks), "Well.")
        ) as program:
            assert await program.ask(said) == shown
            assert await program.ask(word) == goes_on
            await program.answer()


def test_its_bounds_are_the_programs() -> None:
    assert f"at most {TEXT_LENGTH:,} characters, an option {OPTION_LENGTH}" in PAGE and MOST == 10
