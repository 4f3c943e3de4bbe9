"""Folders of documents: found by words with their place, as others' text, and forgotten when they go."""

from pathlib import Path
from typing import Any

import pytest

from nanoclaw.cli import run
from nanoclaw.plugins.knowledge import pdf_pages
from nanoclaw.plugins.knowledge.index import Library, of_text
from nanoclaw.providers.scripted import ScriptedProvider, call
from tests.program import results, running

MANUAL = Path(__file__).with_name("heating.md").read_text()


def a_pdf(*pages: str) -> bytes:
    """A PDF with a line of text on each page, by the rules of ISO 32000-1, 7.5."""
    count = len(pages)
    kids = " ".join(f"{3 + 2 * number} 0 R" for number in range(count))
    objects = ["<< /Type /Catalog /Pages 2 0 R >>", f"<< /Type /Pages /Kids [{kids}] /Count {count} >>"]
    font = "<< /Font << /F1 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >> >>"
    for number, text in enumerate(pages):
        stream = f"BT /F1 12 Tf 72 720 Td ({text}) Tj ET"
        objects += [
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Resources {font} /Contents {4 + 2 * number} 0 R >>",
            f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream",
        ]
    body = "%PDF-1.4\n" + "".join(f"{number} 0 obj\n{one}\nendobj\n" for number, one in enumerate(objects, 1))
    return f"{body}trailer\n<< /Root 1 0 R /Size {len(objects) + 1} >>\n%%EOF\n".encode()


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    folder = tmp_path / "Manuals"
    folder.mkdir()
    (folder / "heating.md").write_text(MANUAL)
    (folder / "lease.pdf").write_bytes(a_pdf("The rent is due on the third.", "Notice is three months."))
    (folder / "notes.txt").write_text("The plumber is called Novak.\n")
    (folder / "中文.md").write_text("# 冰箱\n\n冰箱每三个月要除霜一次。\n")
    return folder


def settings(*folders: Path) -> str:
    return f"[knowledge]\nfolders = {[str(one) for one in folders]}\n"


def found(index: Library, query: str) -> list[str]:
    return [one.address for one in index.found(query, 5)]


async def test_the_model_finds_a_passage_with_its_place_which_is_others_text(tmp_path: Path, docs: Path) -> None:
    model = ScriptedProvider(call("knowledge_search", {"query": "radiator valve"}), "A quarter [heating.md].")
    async with running(tmp_path / "home", model, settings=settings(docs)) as program:
        await program.ask("How do I bleed the radiator?")
        (result,) = results(program.history)
        assert "[Manuals/heating.md#Bleeding a radiator]\n## Bleeding a radiator" in result.text
        assert "Manuals/heating.md#Bleeding a radiator" in result.outside
        assert str(docs) in str(model.requests[0].system)
    (index,) = (tmp_path / "home").rglob("index.db")
    async with running(tmp_path / "home", ScriptedProvider(), settings="\n"):
        assert not index.exists()


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("what does E42 mean", "Manuals/heating.md#Error codes"),
        ("when is the rent due", "Manuals/lease.pdf p. 1"),
        ("notice period months", "Manuals/lease.pdf p. 2"),
        ("plumber", "Manuals/notes.txt:1"),
        ("冰箱多久除霜", "Manuals/中文.md#冰箱"),
    ],
)
def test_each_kind_of_file_is_found_by_heading_page_or_line(tmp_path: Path, docs: Path, query: str, first: str) -> None:
    assert found(Library(tmp_path / "index.db", [docs]), query)[0] == first


def test_what_changes_is_read_again_and_what_is_gone_is_forgotten(tmp_path: Path, docs: Path) -> None:
    index = Library(tmp_path / "index.db", [docs])
    assert found(index, "Novak") == ["Manuals/notes.txt:1"]
    (docs / "notes.txt").write_text("The plumber is called Dvorak now.\n")
    assert found(index, "Novak") == []
    assert found(index, "Dvorak") == ["Manuals/notes.txt:1"]
    (docs / "notes.txt").unlink()
    assert found(index, "Dvorak") == []
    (tmp_path / "Other").mkdir()
    assert found(Library(tmp_path / "index.db", [tmp_path / "Other"]), "rent") == []
    assert b"third" not in (tmp_path / "index.db").read_bytes()


def test_hidden_ignored_linked_and_closed_files_are_left_out(tmp_path: Path, docs: Path) -> None:
    for name in (".secret.md", "build/out.md", "closed/own.md", "sub/draft.md", "sub/kept.md"):
        (docs / name).parent.mkdir(exist_ok=True)
        (docs / name).write_text("zebra\n")
    (docs / ".gitignore").write_text("build/\n")
    (docs / "sub" / ".gitignore").write_text("draft.*\n")
    (docs / "link.md").symlink_to(docs / ".secret.md")
    assert found(Library(tmp_path / "index.db", [docs], [docs / "closed"]), "zebra") == ["Manuals/sub/kept.md:1"]


def test_a_file_that_cannot_be_read_is_named_and_stops_no_other(
    tmp_path: Path, docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (docs / "a.pdf").write_bytes(b"%PDF-1.4 broken")
    (docs / "b.pdf").write_bytes(a_pdf(""))
    (docs / "c.txt").write_bytes(b"\0\1\2" * 100)
    (docs / "d.txt").write_text("x" * 2_100_000)
    index = Library(tmp_path / "index.db", [docs])
    assert found(index, "rent") == ["Manuals/lease.pdf p. 1"]
    assert {name: why for name, _, why in index.files() if why} == {
        "Manuals/a.pdf": "is damaged, or no PDF",
        "Manuals/b.pdf": "has no text in it: it may be a scan",
        "Manuals/c.txt": "is no text",
        "Manuals/d.txt": "has 2.1 MB, and 2 MB are read",
    }
    monkeypatch.setattr(pdf_pages, "SECONDS", 0.0)  # a reader that hangs
    reader, pdf = pdf_pages.PdfReader(), (docs / "lease.pdf").read_bytes()
    with pytest.raises(ValueError, match="takes too long to be read"):
        reader.pages(pdf)
    monkeypatch.setattr(pdf_pages, "SECONDS", 60.0)
    assert len(reader.pages(pdf)) == 2
    reader.close()


def test_a_damaged_index_is_made_again(tmp_path: Path, docs: Path) -> None:
    (tmp_path / "index.db").write_bytes(b"no database" * 1_000)
    assert found(Library(tmp_path / "index.db", [docs]), "plumber") == ["Manuals/notes.txt:1"]


def test_a_long_part_goes_on_with_its_line_and_fences_hold_no_headings() -> None:
    text = "# One\n\n" + "\n\n".join(f"paragraph {number} {'word ' * 60}" for number in range(6))
    places = [place for place, _ in of_text(text, is_markdown=True)]
    assert places[0] == "#One"
    assert len(places) > 1
    for place in places[1:]:
        heading, _, line = place.partition(":")
        assert heading == "#One"
        assert text.splitlines()[int(line)].startswith("paragraph")
    assert [place for place, _ in of_text(MANUAL, is_markdown=True)] == [
        "#Heating",
        "#Bleeding a radiator",
        "#Error codes",
    ]


def test_the_command_lists_and_searches_and_says_what_to_write_without_folders(
    tmp_path: Path, docs: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    monkeypatch.setenv("NANOCLAW_HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "config.toml").write_text(settings())
    assert run(["knowledge"]) == 1
    assert 'write folders = ["~/Notes"] below [knowledge]' in capsys.readouterr().err
    (tmp_path / "home" / "config.toml").write_text(settings(docs, tmp_path / "gone"))
    assert [run(["knowledge", *words]) for words in ([], ["plumber"], ["zebra"])] == [0, 0, 0]
    listed, lacks, hit, none = capsys.readouterr().out.splitlines()
    assert (listed, "gone, which is not a folder." in lacks and none in lacks) == (
        f"4 files in {docs}, {tmp_path}/gone",
        True,
    )
    assert hit == "- [Manuals/notes.txt:1] The plumber is called Novak."
    (tmp_path / "home" / "config.toml").write_text('[knowledge]\nfolders = ["Notes"]\n')
    assert run(["knowledge"]) != 0
    assert "must be whole paths" in capsys.readouterr().err
