"""A fetched page made readable, by what it is: HTML, a document, a picture, data, or nothing that can be read."""

from __future__ import annotations

import shlex
import threading
from tempfile import TemporaryFile
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from nanoclaw.core.errors import ToolError
from nanoclaw.core.messages import Image
from nanoclaw.net.charset import decoded
from nanoclaw.net.page import FetchedPage
from nanoclaw.plugins.web.readable import readable

MOST_BYTES = 10_000_000

DOCUMENT_CHARACTERS = 1_000_000
"""Of a document: nearly all there are."""


class UnreadablePage(ToolError):
    """There is nothing to be shown of a page; the text says why."""


class PageContents(NamedTuple):
    """Everything that a page says; `about` is a line on its title and date."""

    text: str
    about: str = ""
    images: tuple[Image, ...] = ()


def contents(page: FetchedPage, stopped: threading.Event) -> PageContents:
    """Read a page, which takes a while: for a thread, that ends soon when it is `stopped`. Raises UnreadablePage."""
    kind, body, name = page.kind.partition(";")[0].strip().lower(), page.body, name_of(page)
    head = body[:1_024].lstrip(b"\xef\xbb\xbf \t\r\n")
    if not body:
        raise UnreadablePage(f"{page.url} is empty: the server answered {page.status} without any text.")
    if b"%PDF-" in head or body.startswith((b"PK\x03\x04", b"\xd0\xcf\x11\xe0", b"{\\rtf")):
        return _document(page, name, stopped)
    if _is_picture(kind, body):
        return _picture(page, name)
    if "html" in kind or head[:14].lower().startswith((b"<!doctype html", b"<html")):
        found = readable(_text(page, kind, name), page.url)
        title = "" if found.text.startswith(f"# {found.title}\n") else found.title  # it says that itself
        about = " · ".join(filter(None, (title, found.date)))
        if not found.text.strip() and not found.remarks:
            raise UnreadablePage(f"{page.url} has no text in it.")
        return _noted(PageContents(found.text.strip(), about), page, *found.remarks)
    if kind.startswith("text/") or kind.endswith(("json", "xml", "yaml", "javascript")) or b"\0" not in body[:4_096]:
        return _noted(PageContents(_text(page, kind, name).strip(), "" if kind == "text/plain" else kind), page)
    raise UnreadablePage(_is_other(page, kind, name))


def name_of(page: FetchedPage) -> str:
    """The name of a file that a page would be kept as."""
    name = unquote(urlsplit(page.url).path).rpartition("/")[2]
    return "".join(sign if sign.isalnum() or sign in "-_." else "_" for sign in name).strip("._")[:80] or "page"


def _text(page: FetchedPage, kind: str, name: str) -> str:
    """The text of a page that is not only said to be text. Raises UnreadablePage."""
    text = decoded(page.body, page.kind)
    begin = text[:4_096]
    if sum(sign < " " and not sign.isspace() for sign in begin) * 20 > len(begin):
        raise UnreadablePage(_is_other(page, kind, name))
    return text


def _noted(found: PageContents, page: FetchedPage, *remarks: str) -> PageContents:
    cut = f"only the first {MOST_BYTES // 1_000_000} MB were read" if page.is_cut else ""
    notes = "".join(f"[{one}]\n" for one in (*remarks, cut) if one)
    return found._replace(text=f"{notes}\n{found.text}".strip() if notes else found.text)


def _document(page: FetchedPage, name: str, stopped: threading.Event) -> PageContents:
    from nanoclaw.documents.documents import DocumentError, document_text

    if page.is_cut:
        raise UnreadablePage(
            f"{page.url} has more than {MOST_BYTES // 1_000_000} MB, too much to be read. {_save(page, name)}"
        )
    with TemporaryFile() as file:
        file.write(page.body)
        file.seek(0)
        try:
            found = document_text(file, name, DOCUMENT_CHARACTERS, stopped.is_set)
        except DocumentError as error:
            raise UnreadablePage(f"{page.url}: {error}\n{_save(page, name)}") from None
    remark = f"\n[{found.remark}]" if found.remark else ""
    return PageContents(found.text + remark, ", ".join(filter(None, (name, found.about))))


def _is_picture(kind: str, body: bytes) -> bool:
    if kind.startswith("image/"):
        return "svg" not in kind
    return body.startswith((b"\x89PNG", b"\xff\xd8\xff", b"GIF8")) or (body[:4] == b"RIFF" and body[8:12] == b"WEBP")


def _picture(page: FetchedPage, name: str) -> PageContents:
    from nanoclaw.pictures.pictures import PictureError, open_picture

    if page.is_cut:
        raise UnreadablePage(f"{page.url} has more than {MOST_BYTES // 1_000_000} MB, too much to be shown.")
    try:
        image = Image(*open_picture(page.body, name))
    except PictureError as error:
        raise UnreadablePage(f"{page.url}: {error}") from None
    return PageContents(f"[the picture {name}]", "", (image,))


def _is_other(page: FetchedPage, kind: str, name: str) -> str:
    size = f"more than {MOST_BYTES // 1_000_000} MB" if page.is_cut else f"{len(page.body):,} bytes"
    return f"{page.url} is not readable here: {kind[:80] or 'of no type'}, {size}. {_save(page, name)}"


def _save(page: FetchedPage, name: str) -> str:
    return f"If the person wants it, exec saves it: curl -fLo {shlex.quote(name)} {shlex.quote(page.url)}"
