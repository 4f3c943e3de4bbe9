"""HTML as a person would read it: Markdown by trafilatura where that is there, else the plain words."""

from __future__ import annotations

import html
import logging
import re
from typing import NamedTuple
from urllib.parse import urljoin

from nanoclaw.installation import install_command
from nanoclaw.net.charset import without_scripts, words_of

LARGEST = 500_000
"""Characters of HTML, without its scripts, that are laid out as Markdown: half a second, of the worst page three.
Of a larger page the plain words are read."""

MOST_FRAMES = 10


class Readable(NamedTuple):
    """The text of a page; `remarks` say what else there is to know of it."""

    text: str
    title: str = ""
    date: str = ""
    remarks: tuple[str, ...] = ()


def readable(page: str, url: str) -> Readable:
    """Title, date and text of HTML, its links kept. Takes a while: for a thread."""
    words, frames = words_of(page), _frames(page, url)
    try:
        is_large = len(page) > 10 * LARGEST or len(without_scripts(page)) > LARGEST
        found = None if is_large else _laid_out(page, url)
        lacking = ""
    except ImportError:
        found = None
        lacking = f"plain words without links and headings; with them: {install_command('web')}"
    if found is None or len(found.text) < min(300, len(words) // 4):  # it took the text for what stands around it
        found = Readable(words, (found.title if found else "") or _title(page), found.date if found else "")
    if frames:
        lacking = "; ".join(filter(None, (lacking, f"frames within it, not read: {', '.join(frames)}")))
    if not found.text.strip() and re.search(r"<script\b", page, re.IGNORECASE):
        lacking = "; ".join(filter(None, (lacking, "no text in it: scripts make this page, which only a browser runs")))
    return found._replace(remarks=(lacking,) if lacking else ())


def _laid_out(page: str, url: str) -> Readable | None:
    """The page by trafilatura, None if it finds nothing. Raises ImportError."""
    from trafilatura import extract, extract_metadata, load_html

    logging.getLogger("trafilatura").setLevel(logging.CRITICAL)  # what is wrong with a page is no fault of ours
    try:
        tree = load_html(page)
        if tree is None:
            return None
        tree.make_links_absolute(url, handle_failures="ignore")
        about = extract_metadata(tree, default_url=url, date_config=_DATES, extensive=False)
        text = extract(
            tree,
            url=url,
            output_format="markdown",
            include_links=True,
            include_comments=False,
            favor_recall=True,
            fast=True,
        )
    except (ValueError, TypeError, AttributeError, LookupError, RecursionError):  # what broken HTML makes of it
        return None
    return Readable(text or "", about.title or "", about.date or "") if about else Readable(text or "")


_DATES = {"extensive_search": False, "original_date": False}


def _title(page: str) -> str:
    found = re.search(r"<title\b[^<>]*>([^<]{1,500})", page, re.IGNORECASE)
    return " ".join(html.unescape(found[1]).split()) if found else ""


def _frames(page: str, url: str) -> list[str]:
    """Addresses of pages that are shown within this one."""
    found = re.findall(r"<i?frame\b[^<>]{0,2000}?\bsrc\s*=\s*[\"']?([^\s\"'<>]+)", page, re.IGNORECASE)
    frames = dict[str, None]()
    for one in found:
        try:
            frames[urljoin(url, html.unescape(one))] = None
        except ValueError:
            continue
    return [one for one in frames if one.startswith("http")][:MOST_FRAMES]
