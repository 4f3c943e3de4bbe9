"""Completion: commands, the words behind them, and files of the workspace."""

from __future__ import annotations

from pathlib import Path

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from nanoclaw.channels.terminal.completions import Completions
from tests.examples import examples

TYPED = examples(__file__, "completions.jsonl")

COMMANDS = {"/model": "the models", "/sessions": "conversations", "/memory": "notes"}
WORDS = {"/model": [["openai/gpt-5", ""], ["ollama/qwen", ""]], "/sessions open": [["camp", "Where is the tent?"]]}


@pytest.mark.parametrize(("typed", "found"), TYPED["what is typed is completed"])
def test_what_is_typed_is_completed(tmp_path: Path, typed: str, found: list[str]) -> None:
    for name in ("boat.md", "notes/about.md", ".git/boring", "node_modules/bower.js"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    made = Completions(COMMANDS, lambda: WORDS, tmp_path)
    assert [one.text for one in made.get_completions(Document(typed), CompleteEvent())] == found
