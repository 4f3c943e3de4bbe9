"""What is forgotten is gone from summaries of long conversations too."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from nanoclaw.plugins.forget.scrub import scrub
from nanoclaw.plugins.forget.words import Words, words_of
from nanoclaw.start.host import PluginHost
from tests.plugins.compaction.test_compaction import Model, home_of, texts, wordy
from tests.program import MAIN, Program


def forget(program: Program, words: Words) -> None:
    scrub(PluginHost(program.app, "forget"), words)
    program.app.sessions.forget(partial(_without, words), MAIN)


def _without(words: Words, text: str, is_here: bool) -> str:
    return words.without_any(text, closely=is_here)


async def test_what_is_forgotten_is_gone_from_summaries_too(tmp_path: Path) -> None:
    model = Model(summary="Facts: the code of the safe is pelican-42", window=100_000)
    async with home_of(tmp_path, model, window=None) as program:
        for number in range(6):
            await program.ask(wordy(f"message number {number}", 6_000))
        await program.ask("/compact")
        assert "pelican-42" in program.history[0].text
        forget(program, words_of((), ["pelican-42"]))
        assert "pelican-42" not in "".join(texts(program.history))
    assert b"pelican-42" not in (tmp_path / "state.db").read_bytes()


async def test_a_summary_of_talk_about_what_is_forgotten_is_looked_at_closely(tmp_path: Path) -> None:
    model = Model(summary="Facts: asked about the pelican, it opens with the seven; the garden is fine", window=100_000)
    async with home_of(tmp_path, model, window=None) as program:
        await program.ask("The safe of aunt Lotte opens with pelican seven four")
        for number in range(6):
            await program.ask(wordy(f"message number {number}", 6_000))
        await program.ask("/compact")
        forget(program, words_of(["The safe of aunt Lotte opens with pelican seven four"]))
        assert "pelican" not in program.history[0].text
        assert "the garden is fine" in program.history[0].text
