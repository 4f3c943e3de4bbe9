from __future__ import annotations

from pathlib import Path

import pytest

from nanoclaw.channels.terminal.dropped_files import extract_files
from nanoclaw.core.messages import Attachment


@pytest.fixture
def photo(tmp_path: Path) -> Path:
    photo = tmp_path / "my 'best' photo.JPG"
    photo.touch()
    return photo


def attached(photo: Path) -> tuple[Attachment, ...]:
    return (Attachment(str(photo), photo.name, "image/jpeg"),)


def test_every_spelling_of_a_dropped_file_is_attached(photo: Path) -> None:
    escaped = str(photo).replace(" ", "\\ ").replace("'", "\\'")
    for spelling in (str(photo), f'"{photo}"', escaped, photo.as_uri(), f"  {photo} "):
        assert extract_files(spelling) == (f"[{photo.name}]", attached(photo)), spelling


def test_words_around_a_picture_stay(photo: Path) -> None:
    text, pictures = extract_files(f'what\'s on "{photo}", and again {photo.as_uri()}?\nTell me.')
    assert text == f"what's on [{photo.name}], and again [{photo.name}]?\nTell me."
    assert pictures == attached(photo)


def test_a_relative_path_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.png").touch()
    monkeypatch.chdir(tmp_path)
    assert extract_files("see a.png!") == ("see [a.png]!", (Attachment(str(tmp_path / "a.png"), "a.png", "image/png"),))


@pytest.mark.parametrize(
    "text",
    [
        "hello",
        "",
        "missing.png",
        "/etc/passwd",
        "it's",
        "a.png\0",
        "file://[bad/x.png",
        "~nobody-of-that-name/x.png",
        "x" * 5000 + ".png",
        "'" * 1000,
        "\\" * 1001,
    ],
)
def test_other_text_is_left_alone(text: str) -> None:
    assert extract_files(text) == (text, ())


def test_a_folder_is_no_picture(tmp_path: Path) -> None:
    (tmp_path / "a.png").mkdir()
    assert extract_files(str(tmp_path / "a.png")) == (str(tmp_path / "a.png"), ())


@pytest.mark.parametrize("name", ["report.pdf", "my letter.DOCX", "notes.txt", "table.xlsx"])
def test_a_document_is_attached_by_its_whole_path(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    text, files = extract_files(f"sum up '{tmp_path / name}', please")
    assert text == f"sum up [{name}], please"
    assert [file.path for file in files] == [str(tmp_path / name)]


@pytest.mark.parametrize("text", ["add milk to todo.md", "todo.md", "./todo.md", "~nobody/todo.md"])
def test_a_document_that_is_only_named_is_talk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    (tmp_path / "todo.md").touch()
    monkeypatch.chdir(tmp_path)
    assert extract_files(text) == (text, ())
