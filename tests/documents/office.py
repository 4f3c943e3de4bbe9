"""Small documents, made by hand: what each form needs to be opened, and no more."""

import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

_RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
_SHEET = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_SLIDE = "http://schemas.openxmlformats.org/presentationml/2006/main"
_DRAWING = "http://schemas.openxmlformats.org/drawingml/2006/main"


def pack(path: Path, parts: Mapping[str, str | bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return path


def pdf(path: Path, *pages: str, trailer: str = "") -> Path:
    """One page for each text; "" is a page without a word."""
    objects = ["<< /Type /Catalog /Pages 2 0 R >>"]
    kids = " ".join(f"{4 + 2 * number} 0 R" for number in range(len(pages)))
    objects.append(f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>")
    objects.append("<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>")
    for number, text in enumerate(pages):
        lines = " T* ".join(f"({line}) Tj" for line in text.split("\n"))
        drawn = f"BT /F1 12 Tf 14 TL 50 700 Td {lines} ET"
        about = "/MediaBox [0 0 612 792] /Resources << /Font << /F1 3 0 R >> >>"
        objects.append(f"<< /Type /Page /Parent 2 0 R {about} /Contents {5 + 2 * number} 0 R >>")
        objects.append(f"<< /Length {len(drawn)} >>\nstream\n{drawn}\nendstream")
    content, places = b"%PDF-1.4\n", []
    for number, item in enumerate(objects, 1):
        places.append(len(content))
        content += f"{number} 0 obj\n{item}\nendobj\n".encode("latin-1")
    table = "".join(f"{place:010d} 00000 n \n" for place in places)
    end = f"trailer\n<< /Size {len(objects) + 1} /Root 1 0 R {trailer} >>\nstartxref\n{len(content)}\n%%EOF\n"
    content += f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}{end}".encode()
    path.write_bytes(content)
    return path


def packed_stream_pdf(path: Path, megabytes: int) -> Path:
    """A page whose drawing unpacks to so many megabytes."""
    packer = zlib.compressobj(1)
    begin, more = (packer.compress(b"BT (x) Tj ET \n" * 75_000) + packer.flush(zlib.Z_FULL_FLUSH) for _ in range(2))
    drawn = begin + more * (megabytes - 1)
    pdf(path, "x")
    whole = path.read_bytes()
    start, end = whole.index(b"<< /Length"), whole.index(b"endstream")
    stream = b"<< /Length %d /Filter /FlateDecode >>\nstream\n%s\n" % (len(drawn), drawn)
    path.write_bytes(whole[:start] + stream + whole[end:])
    return path


def docx(path: Path, body: str, prologue: str = "") -> Path:
    document = f'{prologue}<w:document xmlns:w="{_WORD}"><w:body>{body}</w:body></w:document>'
    main = {"word/document.xml": "wordprocessingml.document.main"}
    return pack(path, {**_package(main), "word/document.xml": document})


def paragraph(text: str) -> str:
    return f"<w:p><w:r><w:t>{escape(text)}</w:t></w:r></w:p>"


def xlsx(path: Path, rows: str, shared: Sequence[str] = (), formats: str = "", name: str = "Costs") -> Path:
    book = f'<sheets><sheet name="{name}" sheetId="1" r:id="rId7"/></sheets>'
    sheet = f'<dimension ref="A1"/><sheetData>{rows}</sheetData>'
    strings = "".join(f"<si><t>{escape(text)}</t></si>" for text in shared)
    kinds = {
        "xl/workbook.xml": "spreadsheetml.sheet.main",
        "xl/worksheets/sheet1.xml": "spreadsheetml.worksheet",
        "xl/sharedStrings.xml": "spreadsheetml.sharedStrings",
        "xl/styles.xml": "spreadsheetml.styles",
    }
    return pack(
        path,
        {
            **_package(kinds),
            "xl/workbook.xml": f'<workbook xmlns="{_SHEET}" xmlns:r="{_RELATIONS}">{book}</workbook>',
            "xl/_rels/workbook.xml.rels": _relations({"rId7": ("worksheet", "worksheets/sheet1.xml")}),
            "xl/worksheets/sheet1.xml": f'<worksheet xmlns="{_SHEET}">{sheet}</worksheet>',
            "xl/sharedStrings.xml": f'<sst xmlns="{_SHEET}">{strings}</sst>',
            "xl/styles.xml": f'<styleSheet xmlns="{_SHEET}">{formats}</styleSheet>',
        },
    )


def pptx(path: Path, *slides: str) -> Path:
    """The slides lie in the archive in another order than they are shown."""
    numbers = range(1, len(slides) + 1)
    shown = "".join(f'<p:sldId id="{255 + number}" r:id="r{number}"/>' for number in numbers)
    lists = f'xmlns:p="{_SLIDE}" xmlns:r="{_RELATIONS}"><p:sldIdLst>{shown}</p:sldIdLst>'
    kinds = {"ppt/presentation.xml": "presentationml.presentation.main"}
    kinds |= {f"ppt/slides/slide{number}.xml": "presentationml.slide" for number in numbers}
    parts: dict[str, str | bytes] = {
        **_package(kinds),
        "ppt/presentation.xml": f"<p:presentation {lists}</p:presentation>",
        "ppt/_rels/presentation.xml.rels": _relations(
            {f"r{number}": ("slide", f"slides/slide{len(slides) - number + 1}.xml") for number in numbers}
        ),
    }
    for number, text in enumerate(slides):
        drawn = f"<p:cSld><a:p><a:r><a:t>{escape(text)}</a:t></a:r></a:p></p:cSld>"
        body = f'<p:sld xmlns:p="{_SLIDE}" xmlns:a="{_DRAWING}">{drawn}</p:sld>'
        parts[f"ppt/slides/slide{len(slides) - number}.xml"] = body
    return pack(path, parts)


def _package(kinds: Mapping[str, str]) -> dict[str, str]:
    """What says what the parts are; the first is the main one."""
    office = "application/vnd.openxmlformats-officedocument"
    types = "".join(f'<Override PartName="/{name}" ContentType="{office}.{kind}+xml"/>' for name, kind in kinds.items())
    rels = '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
    return {
        "[Content_Types].xml": f'<Types xmlns="{_PACKAGE}/content-types">{rels}{types}</Types>',
        "_rels/.rels": _relations({"rId1": ("officeDocument", next(iter(kinds)))}),
    }


def _relations(targets: Mapping[str, tuple[str, str]]) -> str:
    lines = (
        f'<Relationship Id="{name}" Type="{_RELATIONS}/{kind}" Target="{target}"/>'
        for name, (kind, target) in targets.items()
    )
    return f'<Relationships xmlns="{_PACKAGE}/relationships">{"".join(lines)}</Relationships>'
