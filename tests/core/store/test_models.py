"""What was learned of a model is known after a restart."""

from pathlib import Path

from nanoclaw.start.build import ModelFacts
from nanoclaw.start.opening import open_store


def test_a_window_that_was_learned_can_be_forgotten_and_nothing_else_is(tmp_path: Path) -> None:
    store = open_store(tmp_path / "state.db")
    facts = ModelFacts(store)
    assert not facts.forget_window("a/b")
    facts.lacks("a/b", "sees_images")
    facts.lacks("a/b", "calls_tools")
    assert facts.abilities("a/b")[:3] == (False, False, True)
    facts.learned_window("a/b", 4096)
    facts.learned_window("a/c", 4096)
    assert facts.forget_window("a/b")
    assert facts.abilities("a/b")[:3] == (False, True, True)
    assert not facts.forget_window("a/b")
    assert (facts.window("a/b"), facts.abilities("a/b").sees_images, facts.window("a/c")) == (None, False, 4096)
    store.close()


def test_what_was_learned_of_one_model_survives_a_restart_and_says_nothing_of_another(tmp_path: Path) -> None:
    store = open_store(tmp_path / "state.db")
    facts = ModelFacts(store)
    facts.lacks("a/b", "sees_images")
    facts.lacks("a/b", "sees_images")
    facts.learned_window("a/b", 8192)
    facts.learned_window("a/b", 4096)
    facts.learned_window("a/b", 0)
    facts.learned_window("a/c", 100_000)
    store.close()
    store = open_store(tmp_path / "state.db")
    facts = ModelFacts(store)
    assert (facts.abilities("a/b")[:3], facts.window("a/b")) == ((False, True, True), 4096)
    assert (facts.abilities("a/c").sees_images, facts.window("a/c")) == (True, 100_000)
    store.close()
