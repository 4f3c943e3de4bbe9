"""What is noted is appended; what a person wrote by hand stays byte for byte."""

import random
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from nanoclaw.core.errors import WorkspaceError
from nanoclaw.plugins.memory.notes import LONGEST_ENTRY, Added, MemoryStore, lines_of
from nanoclaw.plugins.memory.search import NoteSearch
from nanoclaw.plugins.memory.tools import remember, unwatched

LATE = datetime(2026, 5, 3, 23, 30, tzinfo=timezone(timedelta(hours=-7)))


@pytest.fixture
def store(tmp_path: Path) -> MemoryStore:
    return MemoryStore(tmp_path, lambda: LATE, NoteSearch(tmp_path, tmp_path / "index.db", lambda: LATE))


def test_a_note_late_in_the_evening_belongs_to_the_local_day(store: MemoryStore, tmp_path: Path) -> None:
    assert store.add_note("Called mum") == Added("memory/2026-05-03.md", "- 23:30 Called mum", True)
    assert (tmp_path / "memory/2026-05-03.md").read_text() == "- 23:30 Called mum\n"


def test_entries_are_one_line_each(store: MemoryStore, tmp_path: Path) -> None:
    store.add_fact("  Likes\n# tea\r\n\tand\x1b\u2028 cake ")
    store.add_fact("Lives in Kyiv")
    assert (tmp_path / "MEMORY.md").read_text() == "- 2026-05-03: Likes # tea and cake\n- 2026-05-03: Lives in Kyiv\n"


def test_the_same_words_are_not_noted_twice(store: MemoryStore, tmp_path: Path) -> None:
    (tmp_path / "MEMORY.md").write_text("# About me\n\n- 2020-01-01: Likes tea\n* Has a dog\n- ~~Smokes~~\n")
    assert store.add_fact("Likes tea") == Added("MEMORY.md", "- 2020-01-01: Likes tea", False)
    assert store.add_fact("Has a dog").is_new is False
    assert store.add_fact("Smokes").is_new is True
    assert store.add_note("Likes tea").is_new is True
    assert store.add_note("Likes tea").is_new is False


@pytest.mark.parametrize(
    "byhand", [b"no end", b"bad \xff\xfe\x00 bytes\n", b"\xef\xbb\xbfbom\r\n", b"\r\n\r\n", b"# h\n"]
)
def test_what_was_written_by_hand_stays_byte_for_byte(store: MemoryStore, tmp_path: Path, byhand: bytes) -> None:
    (tmp_path / "MEMORY.md").write_bytes(byhand)
    store.add_fact("x")
    after = (tmp_path / "MEMORY.md").read_bytes()
    assert after.startswith(byhand)
    assert after.decode("utf-8", "replace").splitlines()[-1] == "- 2026-05-03: x"


@pytest.mark.parametrize("text", ["", " \n\t", "\u200b", "x" * (LONGEST_ENTRY + 1)])
def test_nothing_and_too_much_are_refused(store: MemoryStore, tmp_path: Path, text: str) -> None:
    with pytest.raises(WorkspaceError):
        store.add_note(text)
    assert list(tmp_path.iterdir()) == []


def test_links_are_not_followed(store: MemoryStore, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "MEMORY.md").symlink_to("secret")
    (tmp_path / "memory").mkdir()
    (tmp_path / "memory/a.md").symlink_to("../secret")
    (tmp_path / "memory/2026-05-03.md").symlink_to("../secret")
    assert store.files() == []
    for action in (lambda: store.lines("memory/a.md"), lambda: store.add_note("x"), lambda: store.add_fact("x")):
        with pytest.raises(WorkspaceError):
            action()
    assert (tmp_path / "secret").read_text() == "secret"


def test_memory_files_are_the_facts_and_the_notes(store: MemoryStore, tmp_path: Path) -> None:
    store.add_fact("x")
    (tmp_path / "memory").mkdir()
    for name in ("2026-05-02.md", "2026-05-01.md", "other.md", "notes.txt"):
        (tmp_path / "memory" / name).write_text("x")
    (tmp_path / "memory/folder.md").mkdir()
    assert store.files() == ["MEMORY.md", "memory/2026-05-01.md", "memory/2026-05-02.md", "memory/other.md"]


def test_a_folder_in_place_of_a_file_is_an_error_with_a_sentence(store: MemoryStore, tmp_path: Path) -> None:
    (tmp_path / "MEMORY.md").mkdir()
    (tmp_path / "memory").write_text("")
    for action in (lambda: store.add_fact("x"), lambda: store.add_note("x"), lambda: store.lines("MEMORY.md")):
        with pytest.raises(WorkspaceError):
            action()


HAND = "\ufeff# Über mich\r\n\r\n- 2020-01-01: Likes tea\n* Has a 🐶 ~~cat~~\n- 2021-01-01: Lives in Kyiv".encode()
WIDE = "\ufeff# Über mich\n- Likes tea 🐶\n- Lives in Kyiv\n".encode("utf-16-le")


@pytest.mark.parametrize("whole", [HAND, WIDE], ids=["utf-8", "utf-16"])
def test_a_note_cut_at_any_byte_keeps_what_is_left_and_takes_up_the_next(
    store: MemoryStore, tmp_path: Path, whole: bytes
) -> None:
    file = tmp_path / "MEMORY.md"
    for cut in range(len(whole) + 1):
        file.write_bytes(whole[:cut])
        assert store.add_fact("Plays the zither").is_new
        assert file.read_bytes().startswith(whole[:cut])
        assert store.lines("MEMORY.md")[-1].endswith("- 2026-05-03: Plays the zither")
        assert not store.add_fact("Plays the zither").is_new
        with_it = file.read_bytes()
        assert remember(store, unwatched, "", "Plays the lute", "zither", is_fact=True).struck
        text = store.read("MEMORY.md") or ""
        assert "~~2026-05-03: Plays the zither~~ (2026-05-03)" in text
        file.write_bytes(with_it)
        (number,) = (at for at, line in enumerate(lines_of(text), 1) if "zither" in line)
        line = "- 2026-05-03: Plays the zither"
        store.change_lines("MEMORY.md", {number: (line, None)})
        assert file.read_bytes().startswith(whole[:cut])
        assert "zither" not in (store.read("MEMORY.md") or "")


@pytest.mark.parametrize("file", ["memory/2026-05-03.md", "MEMORY.md"])
@pytest.mark.parametrize(
    "garbage", [bytes(3000), b"\xff" * 3000, random.Random(7).randbytes(3000)], ids=["zeros", "ones", "random"]
)
def test_a_note_that_became_garbage_is_kept_aside_once_before_it_is_written_to(
    store: MemoryStore, tmp_path: Path, file: str, garbage: bytes
) -> None:
    damaged = "- 09:00 Grüße\n".encode() + garbage + b"\n- 10:00 Tea\n"
    (tmp_path / "memory").mkdir()
    (tmp_path / file).write_bytes(damaged)
    add = store.add_fact if file == "MEMORY.md" else store.add_note
    added = add("Cake")
    folder = (tmp_path / file).parent
    (aside,) = folder.glob("*.damaged-*")
    assert aside.read_bytes() == damaged
    assert aside.name in added.remark
    assert file in added.remark
    text = (tmp_path / file).read_text()
    assert text.startswith("- 09:00 Grüße\n")
    assert text.endswith(f"- 10:00 Tea\n{added.line}\n")
    assert "\0" not in text and "\ufffd" not in text
    assert store.files() == [file]
    assert add("More").remark == ""
    assert list(folder.glob("*.damaged-*")) == [aside]


def test_a_note_in_an_older_encoding_is_no_garbage(store: MemoryStore, tmp_path: Path) -> None:
    older = "- Müller mag süße Äpfel\n".encode("latin-1") + "- Любит чай и пироги\n".encode("cp1251") * 20
    (tmp_path / "MEMORY.md").write_bytes(older)
    assert store.add_fact("Tea").remark == ""
    assert (tmp_path / "MEMORY.md").read_bytes().startswith(older)
    assert list(tmp_path.glob("*.damaged-*")) == []
