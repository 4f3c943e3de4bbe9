"""The text of office files (Word, Excel, PowerPoint, OpenDocument): XML in a ZIP archive, read without a library.

Runs in the child process of `documents`; reads bounded amounts and refuses what XML allows and documents never need.
"""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, BinaryIO, NamedTuple

from nanoclaw.workspace.document_text import Enough, Say, Text, Unreadable, counted

UNPACKED_BYTES = 200 * 10**6
MOST_ENTRIES = 10_000
LARGEST_INDEX_BYTES = 2_000_000
"""Of the archive's index, which is looked at before it is loaded."""

DEEPEST, LONGEST_TAG_BYTES = 500, 4_000_000


def read_office(file: BinaryIO, text: Text, say: Say) -> None:
    """Say what kind of document it is and write its text. Raises Unreadable."""
    archive = _Archive(file)
    names = archive.names
    if "word/document.xml" in names:
        say({"kind": "Word document"})
        for part in ("word/document.xml", "word/footnotes.xml"):
            if part in names:
                _read_flow(archive, part, _OOXML, text)
    elif "xl/workbook.xml" in names:
        _read_workbook(archive, text, say)
    elif "ppt/presentation.xml" in names:
        _read_slides(archive, text, say)
    elif "content.xml" in names and "mimetype" in names:
        kind = archive.start_of("mimetype").decode("ascii", "replace").rpartition(".")[2].strip()
        say({"kind": {"text": "text document", "spreadsheet": "spreadsheet"}.get(kind, "presentation")})
        heads = {"spreadsheet": ("table", "sheet"), "presentation": ("page", "slide")}
        _read_flow(archive, "content.xml", _ODF, text, heads.get(kind))
    else:
        raise Unreadable("is an archive, not a document. Unpack it and attach what is in it.")


class _Archive:
    """The parts of an office file, read in bounded amounts."""

    def __init__(self, file: BinaryIO) -> None:
        _check_index(file)
        try:
            self._zip = zipfile.ZipFile(file)
        except zipfile.BadZipFile:
            raise Unreadable("is damaged: its end is missing or torn. Save or send it again.") from None
        entries = self._zip.infolist()
        if len(entries) > MOST_ENTRIES:
            raise Unreadable(_TOO_MANY)
        self.names = frozenset(entry.filename for entry in entries)
        self._left = UNPACKED_BYTES

    def start_of(self, name: str) -> bytes:
        with self._open(name) as part:
            return part.read(200)

    def parse(self, name: str, start: _Start, end: _End = lambda tag: None, data: _Data = lambda text: None) -> None:
        """Call back for every element of an XML part, by its name without the namespace."""
        from xml.parsers import expat

        parser = expat.ParserCreate(namespace_separator=" ")
        parser.buffer_text = True
        depth = silent = 0

        def started(tag: str, attributes: dict[str, str]) -> None:
            nonlocal depth, silent
            depth, silent = depth + 1, 0
            if depth > DEEPEST:
                raise Unreadable(f"is nested more than {DEEPEST} levels deep and is not read.")
            start(_local(tag), {_attribute(name): value for name, value in attributes.items()})

        def ended(tag: str) -> None:
            nonlocal depth, silent
            depth, silent = depth - 1, 0
            end(_local(tag))

        def spoke(words: str) -> None:
            nonlocal silent
            silent = 0
            data(words)

        def refused(*declared: object) -> None:
            raise Unreadable("declares XML entities, which can hide anything, and is not read.")

        parser.StartElementHandler, parser.EndElementHandler, parser.CharacterDataHandler = started, ended, spoke
        parser.StartDoctypeDeclHandler = parser.EntityDeclHandler = refused
        with self._open(name) as part:
            while block := part.read(65_536):
                self._left -= len(block)
                if self._left < 0:
                    raise Unreadable(f"unpacks to more than {UNPACKED_BYTES // 10**6} MB and is not read.")
                silent += len(block)
                if silent > LONGEST_TAG_BYTES:  # expat would begin it anew with each block
                    raise Unreadable("has a tag of several megabytes in it and is not read.")
                parser.Parse(block, False)
        parser.Parse(b"", True)

    def related(self, name: str) -> dict[str, str]:
        """The parts that a part refers to, by the ids it uses for them."""
        folder, _, base = name.rpartition("/")
        found: dict[str, str] = {}

        def start(tag: str, attributes: dict[str, str]) -> None:
            target = attributes.get("Target", "")
            if tag == "Relationship":
                found[attributes.get("Id", "")] = target[1:] if target.startswith("/") else f"{folder}/{target}"

        relations = f"{folder}/_rels/{base}.rels"
        if relations in self.names:
            self.parse(relations, start)
        return found

    def _open(self, name: str) -> IO[bytes]:
        if self._zip.getinfo(name).flag_bits & 1:
            raise Unreadable("is protected by a password. Save a copy without one.")
        return self._zip.open(name)


_Start = Callable[[str, dict[str, str]], None]
_End = Callable[[str], None]
_Data = Callable[[str], None]

_TOO_MANY = f"has more than {MOST_ENTRIES:,} files in it and is not read."


def _check_index(file: BinaryIO) -> None:
    """Refuse an archive by the size that it gives its index: one of a million entries takes a gigabyte to load."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - 65_557))
    tail = file.read()
    at = tail.rfind(b"PK\x05\x06")
    if at >= 0 and int.from_bytes(tail[at + 12 : at + 16], "little") > LARGEST_INDEX_BYTES:
        raise Unreadable(_TOO_MANY)
    file.seek(0)


def _local(name: str) -> str:
    return name.rpartition(" ")[2]


def _attribute(name: str) -> str:
    """Without the namespace too, but for the ids of related parts, which stand beside other ids."""
    space, _, local = name.rpartition(" ")
    return f"r:{local}" if space.endswith("/relationships") else local


@dataclass(frozen=True, slots=True)
class _Form:
    """How a family of XML documents writes text: elements by their names without the namespace."""

    text: frozenset[str]
    lines: frozenset[str]
    row: str
    cell: str
    signs: Mapping[str, str]
    skipped: frozenset[str]


_OOXML = _Form(
    frozenset({"t"}),
    frozenset({"p"}),
    "tr",
    "tc",
    {"tab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-"},
    frozenset({"tabs", "tabLst", "Fallback", "moveFrom"}),  # tab stops, the same twice, where it once stood
)
_ODF = _Form(
    frozenset({"p", "h"}),
    frozenset({"p", "h"}),
    "table-row",
    "table-cell",
    {"tab": "\t", "line-break": "\n", "s": " "},
    frozenset({"tracked-changes", "annotation", "notes"}),
)


def _read_flow(archive: _Archive, name: str, form: _Form, text: Text, head: tuple[str, str] | None = None) -> None:
    """Running text with tables; `head` is the element that begins a part, and the word for such a part."""
    inside = skipping = parts = held = 0
    rows: list[list[str]] = []  # the cells of open rows, the innermost last

    def write(words: str) -> None:
        if not rows:
            text.write(words)
        elif rows[-1]:
            rows[-1][-1] += words
            hold(len(words))

    def hold(count: int) -> None:
        nonlocal held
        held += count
        if held > text.left:
            text.write("".join(map(_row, rows)))
            text.flush()
            raise Enough

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal inside, skipping, parts
        if skipping or tag in form.skipped:
            skipping += 1
        elif tag in form.text:
            inside += 1
        elif tag in form.signs:
            write(form.signs[tag])
        elif tag == form.row:
            rows.append([])
        elif tag == form.cell and rows:
            rows[-1].append("")
            hold(1)
        elif head and tag == head[0]:
            parts += 1
            text.part(f"{head[1]} {attributes.get('name') or parts}")

    def end(tag: str) -> None:
        nonlocal inside, skipping, held
        if skipping:
            skipping -= 1
            return
        if tag in form.text:
            inside -= 1
        if tag in form.lines:
            write("\n")
        elif tag == form.row and rows:
            row = _row(rows.pop())
            held = held if rows else 0
            write(row)

    def data(words: str) -> None:
        if inside and not skipping:
            write(words)

    archive.parse(name, start, end, data)


def _row(cells: Sequence[str]) -> str:
    line = " | ".join(cell.strip() for cell in cells).rstrip(" |")
    return line + "\n" if line else ""


def _read_slides(archive: _Archive, text: Text, say: Say) -> None:
    related, slides = archive.related("ppt/presentation.xml"), list[str]()

    def start(tag: str, attributes: dict[str, str]) -> None:
        if tag == "sldId":
            slides.append(related.get(attributes.get("r:id", ""), ""))

    archive.parse("ppt/presentation.xml", start)
    say({"kind": "presentation", "parts": counted(len(slides), "slide")})
    for number, slide in enumerate(slides, 1):
        text.part(f"slide {number}")
        if slide in archive.names:
            _read_flow(archive, slide, _OOXML, text)


# -- workbooks


class _Cell(NamedTuple):
    column: int
    kind: str
    value: str
    style: str


class _Sheet(NamedTuple):
    name: str
    rows: list[list[_Cell]]


def _read_workbook(archive: _Archive, text: Text, say: Say) -> None:
    """Collects the cells that fit into the budget, then only those shared strings that they use."""
    related, parts = archive.related("xl/workbook.xml"), list[tuple[str, str]]()
    first_day = 0

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal first_day
        if tag == "sheet":
            parts.append((attributes.get("name", ""), related.get(attributes.get("r:id", ""), "")))
        elif tag == "workbookPr" and attributes.get("date1904") in ("1", "true"):
            first_day = 1462

    archive.parse("xl/workbook.xml", start)
    say({"kind": "workbook", "parts": counted(len(parts), "sheet")})
    sheets, cut = _cells(archive, parts, text.left)
    used = {cell.value for sheet in sheets for row in sheet.rows for cell in row if cell.kind == "s"}
    shared, dates = _shared_strings(archive, used, text.left), _date_styles(archive)

    def shown(cell: _Cell) -> str:
        match cell.kind:
            case "s":
                return " ".join(shared.get(cell.value, "").split())
            case "b":
                return "TRUE" if cell.value == "1" else "FALSE"
            case "" | "n":
                return _date(cell.value, first_day) if cell.style in dates else _number(cell.value)
        return " ".join(cell.value.split())

    for sheet in sheets:
        text.part(f"sheet {sheet.name}")
        for row in sheet.rows:
            text.write(_row(_in_columns(row, shown)))
    if cut:
        text.flush()
        raise Enough


def _cells(archive: _Archive, parts: Iterable[tuple[str, str]], room: int) -> tuple[list[_Sheet], bool]:
    """The filled cells of each sheet until `room` characters are used, and whether that was the case."""
    sheets: list[_Sheet] = []
    attributes_of_cell: dict[str, str] = {}
    value: list[str] = []
    inside = False

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal attributes_of_cell, inside
        if tag == "c":
            attributes_of_cell = attributes
            value.clear()
        elif tag == "row":
            rows = sheets[-1].rows
            if not rows or rows[-1]:
                rows.append([])
        inside = tag in ("v", "t")

    def end(tag: str) -> None:
        nonlocal inside
        inside = False
        rows = sheets[-1].rows
        if tag == "c" and value and rows:
            given = attributes_of_cell
            column = _column(given.get("r", "")) or (rows[-1][-1].column + 1 if rows[-1] else 1)
            rows[-1].append(_Cell(column, given.get("t", ""), "".join(value), given.get("s", "")))
            use(1)

    def data(words: str) -> None:
        if inside:
            value.append(words)
            use(len(words))

    def use(count: int) -> None:
        nonlocal room
        room -= count
        if room < 0:
            raise Enough

    try:
        for name, part in parts:
            sheets.append(_Sheet(name, []))
            if part in archive.names:
                archive.parse(part, start, end, data)
    except Enough:
        return sheets, True
    return sheets, False


def _column(reference: str) -> int:
    """28 for "AB7"."""
    number = 0
    for letter in reference[:3]:
        if "A" <= letter <= "Z":
            number = number * 26 + ord(letter) - 64
    return number


def _in_columns(row: Iterable[_Cell], shown: Callable[[_Cell], str]) -> list[str]:
    """The cells at their places; a wide gap is made narrow."""
    cells: list[str] = []
    last = 0
    for cell in row:
        cells += [""] * min(max(0, cell.column - last - 1), _WIDEST_GAP)
        cells.append(shown(cell))
        last = cell.column
    return cells


_WIDEST_GAP = 10


def _shared_strings(archive: _Archive, used: set[str], longest: int) -> dict[str, str]:
    found: dict[str, str] = {}
    number = inside = phonetic = 0
    pieces: list[str] = []
    if "xl/sharedStrings.xml" not in archive.names or not used:
        return found

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal inside, phonetic
        inside += tag == "t"
        phonetic += tag == "rPh"

    def end(tag: str) -> None:
        nonlocal inside, phonetic, number
        inside -= tag == "t"
        phonetic -= tag == "rPh"
        if tag == "si":
            if str(number) in used:
                found[str(number)] = "".join(pieces)[:longest]
                if len(found) == len(used):
                    raise Enough
            pieces.clear()
            number += 1

    def data(words: str) -> None:
        if inside and not phonetic:
            pieces.append(words)

    with suppress(Enough):
        archive.parse("xl/sharedStrings.xml", start, end, data)
    return found


def _date_styles(archive: _Archive) -> frozenset[str]:
    """The styles of cells whose numbers are dates or times."""
    if "xl/styles.xml" not in archive.names:
        return frozenset()
    codes: dict[str, str] = {}
    formats: list[str] = []
    inside = False

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal inside
        if tag == "numFmt":
            codes[attributes.get("numFmtId", "")] = attributes.get("formatCode", "")[:200]
        elif tag == "cellXfs":
            inside = True
        elif tag == "xf" and inside:
            formats.append(attributes.get("numFmtId", ""))

    def end(tag: str) -> None:
        nonlocal inside
        inside = inside and tag != "cellXfs"

    archive.parse("xl/styles.xml", start, end)
    return frozenset(
        str(style)
        for style, number in enumerate(formats)
        if number in _DATES or re.search("[dmyhs]", re.sub(_NO_DATE, "", codes.get(number, "")), re.IGNORECASE)
    )


_DATES = frozenset(map(str, (*range(14, 23), *range(27, 37), *range(45, 48), *range(50, 59))))
_NO_DATE = r'"[^"]*"|\[[^\]]*\]|\\.|[_*].'  # words, colours and fillers of a number format


def _date(value: str, first_day: int) -> str:
    from datetime import UTC, datetime, timedelta

    try:
        days = float(value)
        moment = datetime(1899, 12, 30, tzinfo=UTC) + timedelta(days=first_day, seconds=round(days * 86_400))
    except (ValueError, OverflowError):
        return value
    if 0 <= days < 1:
        return f"{moment:%H:%M:%S}".removesuffix(":00")
    return f"{moment:%Y-%m-%d}" if not days % 1 else f"{moment:%Y-%m-%d %H:%M:%S}".removesuffix(":00")


def _number(value: str) -> str:
    """As a workbook shows it: 0.3, where the file has 0.30000000000000004."""
    try:
        return f"{float(value):.15g}" if len(value) > 15 else value
    except ValueError:
        return value
