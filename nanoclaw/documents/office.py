"""The text of Word, Excel and PowerPoint files, read with python-docx, openpyxl and python-pptx.

Runs in the child process, like `reader`. The archive is checked first: the libraries load much of it at once.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterable
from datetime import datetime, time
from typing import Any, BinaryIO

from nanoclaw.documents.reader import Say, Text, Unreadable, counted
from nanoclaw.installation import install_command

UNPACKED_BYTES = 200 * 10**6
MOST_ENTRIES = 10_000
WIDEST_GAP = 10


def read_office(file: BinaryIO, text: Text, say: Say) -> None:
    """Say what kind of document it is and write its text. Raises Unreadable."""
    names = _checked(file)
    readers = {"word": _read_word, "xl": _read_workbook, "ppt": _read_slides}
    folder = next((name for name in readers if any(entry.startswith(f"{name}/") for entry in names)), "")
    if {"mimetype", "content.xml"} <= names:
        raise Unreadable("is in an OpenDocument format, which cannot be read here. Save it as .docx, .xlsx or .pptx.")
    if not folder or "[Content_Types].xml" not in names:
        raise Unreadable("is an archive, not a document. Unpack it and attach what is in it.")
    try:
        readers[folder](file, text, say)
    except ImportError as error:
        raise Unreadable(
            f"is an Office document, and reading one needs {error.name}: {install_command('documents')}"
        ) from None


def _checked(file: BinaryIO) -> frozenset[str]:
    """The names in the archive; refuses what no document needs and what is too large to load."""
    archive = zipfile.ZipFile(file)
    entries = archive.infolist()
    if len(entries) > MOST_ENTRIES:
        raise Unreadable(f"has more than {MOST_ENTRIES:,} files in it and is not read.")
    if sum(entry.file_size for entry in entries) > UNPACKED_BYTES:  # zipfile reads no more than an entry says
        raise Unreadable(f"unpacks to more than {UNPACKED_BYTES // 10**6} MB and is not read.")
    if any(entry.flag_bits & 1 for entry in entries):
        raise Unreadable("is protected by a password. Save a copy without one.")
    for entry in (entry for entry in entries if entry.filename.endswith((".xml", ".rels"))):
        with archive.open(entry) as part:
            if b"<!DOCTYPE" in part.read(4096).replace(b"\0", b""):  # also in UTF-16
                raise Unreadable("declares XML entities, which can hide anything, and is not read.")
    return frozenset(archive.namelist())


def _read_word(file: BinaryIO, text: Text, say: Say) -> None:
    from docx.opc.oxml import parse_xml
    from docx.opc.package import OpcPackage
    from docx.opc.part import XmlPart

    say({"kind": "Word document"})
    main = OpcPackage.open(file).main_document_part  # docx.Document refuses documents with macros
    notes = [other.target_part for other in main.rels.values() if other.reltype.endswith("/footnotes")]
    for part in (main, *notes):
        _write(part.element if isinstance(part, XmlPart) else parse_xml(part.blob), text)


def _read_slides(file: BinaryIO, text: Text, say: Say) -> None:
    from pptx.package import Package

    slides = Package.open(file).presentation_part.presentation.slides  # pptx.Presentation refuses shows
    say({"kind": "presentation", "parts": counted(len(slides), "slide")})
    for number, slide in enumerate(slides, 1):
        text.part(f"slide {number}")
        _write(slide.element, text)


def _write(root: Any, text: Text) -> None:
    for part in root:
        for block in part:
            text.write(_words(block))


def _words(element: Any) -> str:
    """Words of an element, also in boxes, forms and tracked insertions, which `text` of the libraries leaves out."""
    tag = element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""  # a comment
    if tag == "t":
        return element.text or ""
    if tag in _SIGNS:
        return _SIGNS[tag]
    if tag == "tr":
        return _row(map(_words, element.iterchildren("{*}tc", "{*}sdt")))
    return "".join(map(_words, element)) + ("\n" if tag == "p" else "")


# not said: what paragraphs look like, the same for older programs, where a text once stood
_SIGNS = {"tab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-", "pPr": "", "Fallback": "", "moveFrom": ""}


def _read_workbook(file: BinaryIO, text: Text, say: Say) -> None:
    import openpyxl

    sheets = openpyxl.load_workbook(file, read_only=True, data_only=True, keep_links=False).worksheets
    say({"kind": "workbook", "parts": counted(len(sheets), "sheet")})
    for sheet in sheets:
        text.part(f"sheet {sheet.title}")
        sheet.reset_dimensions()  # files state them wrongly
        for values in sheet.iter_rows(values_only=True):
            cells, gap = list[str](), 0
            for value in values:
                gap = gap + 1 if value is None else 0
                if gap <= WIDEST_GAP:
                    cells.append("" if value is None else _shown(value))
            text.write(_row(cells))


def _shown(value: object) -> str:
    """As a workbook shows it: 0.3, where the file has 0.30000000000000004."""
    match value:
        case bool():
            return "TRUE" if value else "FALSE"
        case float():
            return f"{value:.15g}"
        case datetime() | time():
            return str(value.replace(microsecond=0)).removesuffix(":00").removesuffix(" 00:00")
    return " ".join(str(value).split())


def _row(cells: Iterable[str]) -> str:
    line = " | ".join(cell.strip() for cell in cells).rstrip(" |")
    return line + "\n" if line else ""
