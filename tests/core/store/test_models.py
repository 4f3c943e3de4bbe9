"""What was learned of a model is known after a restart."""

from __future__ import annotations

from pathlib import Path

from nanoclaw.core.store.db import Store
from nanoclaw.core.store.models import ModelFacts


def test_nothing_is_known_of_a_model_that_was_never_asked(tmp_path: Path) -> None:
    store = Store(tmp_path / "state.db")
    facts = ModelFacts(store)
    assert (facts.sees_images("a/b"), facts.window("a/b")) == (None, None)
    store.close()


def test_a_window_that_was_learned_can_be_forgotten_and_nothing_else_is(tmp_path: Path) -> None:
    store = Store(tmp_path / "state.db")
    facts = ModelFacts(store)
    assert not facts.forget_window("a/b")
    facts.refused_images("a/b")
    facts.learned_window("a/b", 4096)
    facts.learned_window("a/c", 4096)
    assert facts.forget_window("a/b")
    assert not facts.forget_window("a/b")
    assert (facts.window("a/b"), facts.sees_images("a/b"), facts.window("a/c")) == (None, False, 4096)
    store.close()


def test_what_was_learned_of_one_model_survives_a_restart_and_says_nothing_of_another(tmp_path: Path) -> None:
    store = Store(tmp_path / "state.db")
    facts = ModelFacts(store)
    facts.refused_images("a/b")
    facts.refused_images("a/b")
    facts.learned_window("a/b", 8192)
    facts.learned_window("a/b", 4096)
    facts.learned_window("a/b", 0)
    facts.learned_window("a/c", 100_000)
    store.close()
    store = Store(tmp_path / "state.db")
    facts = ModelFacts(store)
    assert (facts.sees_images("a/b"), facts.window("a/b")) == (False, 4096)
    assert (facts.sees_images("a/c"), facts.window("a/c")) == (None, 100_000)
    store.close()
