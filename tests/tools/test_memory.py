"""The memory tools, as the model uses them."""

from __future__ import annotations

from .conftest import Hands


def test_a_fact_and_a_note_are_kept_and_found(hands: Hands) -> None:
    assert hands("memory_add", text="Allergic to nuts", kind="fact") == (
        "Noted in MEMORY.md: - 2026-05-03: Allergic to nuts"
    )
    assert hands("memory_add", text="The plumber\ncame") == "Noted in memory/2026-05-03.md: - 23:30 The plumber came"
    assert hands("memory_add", text="The plumber came").startswith("Already noted in memory/2026-05-03.md")
    assert hands("memory_search", query="allergic to nuts?").startswith("MEMORY.md:1 2026-05-03 (score ")
    assert "The plumber came" in hands("memory_search", query="plumbers")
    assert hands("memory_get", file="memory/2026-05-03.md") == "1\t- 23:30 The plumber came"


def test_nothing_found_says_so_and_never_raises(hands: Hands) -> None:
    for query in ("zebra", "", "the", '"a* OR (', "\0", "🎈", "x" * 100_000, "((((", "hi"):
        assert "nothing in memory matches" in hands("memory_search", query=query)


def test_a_snippet_is_bounded(hands: Hands) -> None:
    (hands.root / "MEMORY.md").write_text("- needle " + "x" * 5_000)
    text = hands("memory_search", query="needle", limit=1000)
    assert len(text) < 760
    assert text.endswith("…")


def test_only_memory_files_can_be_read(hands: Hands) -> None:
    (hands.root / "secret.md").write_text("x")
    for file in ("../x.md", "/etc/passwd", "notes/a.md", "memory/../secret.md", "memory/.x", "", "memory/\0"):
        assert "give MEMORY.md or memory/YYYY-MM-DD.md" in hands.error("memory_get", file=file)
    assert "there is no memory/2026-01-01.md" in hands.error("memory_get", file="2026-01-01")


def test_an_empty_note_is_refused(hands: Hands) -> None:
    assert "the text is empty" in hands.error("memory_add", text=" \n ")
    assert not list(hands.root.iterdir())


def test_control_bytes_of_a_note_do_not_come_back(hands: Hands) -> None:
    (hands.root / "MEMORY.md").write_bytes(b"- needle \x1b[31m \xff\n")
    assert "needle ␛[31m \ufffd" in hands("memory_get", file="MEMORY.md")
    assert "needle ␛[31m \ufffd" in hands("memory_search", query="needle")
