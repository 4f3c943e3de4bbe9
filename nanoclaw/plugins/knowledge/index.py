"""The index of the folders: derived from them, follows every change, may be deleted any time."""

from __future__ import annotations

import os
import re
import sqlite3
import stat
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from nanoclaw import tokenizer
from nanoclaw.beneath.paths import open_again
from nanoclaw.plugins.knowledge.pdf_pages import PdfReader

LONGEST, LINE = 1_500, 2_000
"""Characters of a passage, but for a single line that has more; and of a line that are kept."""

_HEADING = re.compile(r" {0,3}(#{1,6})[ \t]+(.*?)[ \t#]*$")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")


def of_text(text: str, *, is_markdown: bool) -> Iterator[tuple[str, str]]:
    """Place and text of each passage: "#Heading" below a heading of Markdown, with ":LINE" where it goes on, else
    ":LINE" with the number of its first line."""
    heading, lines, first, fence = "", list[str](), 1, ""
    is_begun = False  # something of this heading was given before

    def passage() -> Iterator[tuple[str, str]]:
        nonlocal is_begun
        if said := "\n".join(lines).strip():
            where = f"#{heading}" if heading else ""
            yield where + (f":{first}" if is_begun or not heading else ""), said
            is_begun = True

    for number, line in enumerate(text.splitlines(), 1):
        found = _HEADING.match(line) if is_markdown and not fence else None
        if is_markdown and (marks := _FENCE.match(line)):
            if not fence:
                fence = marks[1]
            elif marks[1].startswith(fence) and not line.strip(" `~"):
                fence = ""
        size = sum(map(len, lines)) + len(lines)
        if found or (not line.strip() and size > LONGEST // 2) or size + len(line) > LONGEST:
            yield from passage()
            lines, first = [], number
        if found:
            heading, is_begun = " ".join(found[2].split())[:100], False
        lines.append(line[:LINE])
    yield from passage()


def of_pages(pages: list[str]) -> Iterator[tuple[str, str]]:
    """The same of a PDF: " p. 3", each page in passages."""
    for number, page in enumerate(pages, 1):
        for _, text in of_text(page, is_markdown=False):
            yield f" p. {number}", text


TEXTS = {".md": True, ".markdown": True, ".txt": False, ".rst": False, ".org": False}
"""Suffixes of texts, and whether they are Markdown."""

TEXT_BYTES, PDF_BYTES = 2_000_000, 50_000_000
"""A larger file is left out, and named."""

MOST_FILES, MOST_PASSAGES = 20_000, 4_096
"""Files that are read, and passages of each that are kept."""

BATCH = 100  # files of one transaction

_TABLES = f"""
    CREATE TABLE IF NOT EXISTS files (id INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE, changed INTEGER NOT NULL,
        size INTEGER NOT NULL, problem TEXT NOT NULL) STRICT;
    -- the row of a passage is {MOST_PASSAGES} times that of its file, plus its place there
    CREATE VIRTUAL TABLE IF NOT EXISTS passages USING fts5 (
        terms, place UNINDEXED, text UNINDEXED, tokenize = "unicode61 remove_diacritics 0");
"""


class Excerpt(NamedTuple):
    """`address` is the file and the place in it: "guide.md#Setup", "notes.txt:12", "report.pdf p. 3"."""

    address: str
    text: str


class Library:
    """The folders' files by their words. Its methods may be called in any thread."""

    def __init__(self, path: Path, folders: Sequence[Path], closed: Sequence[Path] = ()) -> None:
        """`path` is the file that holds it; nothing in the `closed` folders is read."""
        self._path, self.folders = path, folders
        self._closed = [os.path.realpath(one) for one in closed]
        self._lock = threading.Lock()

    def refresh(self, tell: Callable[[str], None] = lambda text: None) -> None:
        """Read what changed since the last time, and forget what is gone. `tell` hears how far it is."""
        with self._lock, closing(self._opened()) as db:
            known = {path: tuple(rest) for path, *rest in db.execute("SELECT path, id, changed, size FROM files")}
            if not all(path.startswith(tuple(os.path.join(one, "") for one in self.folders)) for path in known):
                db.executescript(f"DROP TABLE passages; DROP TABLE files; VACUUM; {_TABLES}")  # a folder was taken out
                known = {}
            found = dict(islice(self._listed(), MOST_FILES))
            with db:
                for path in known.keys() - found.keys():
                    _forget(db, known[path][0])
            new = [path for path, one in found.items() if path not in known or known[path][1:] != one]
            reader = PdfReader()
            try:
                for start in range(0, len(new), BATCH):
                    tell(f"reading {start} of {len(new)} files")
                    with db:
                        for path in new[start : start + BATCH]:
                            if path in known:
                                _forget(db, known[path][0])
                            self._add(db, path, *found[path], reader)
            finally:
                reader.close()

    def found(self, query: str, most: int, tell: Callable[[str], None] = lambda text: None) -> list[Excerpt]:
        """The passages that fit best, the best first, of the files as they are now."""
        self.refresh(tell)
        terms = dict.fromkeys(term for term in tokenizer.tokens(query) if any(map(str.isalnum, term)))
        if not terms:
            return []
        wanted = " OR ".join(f'"{term}"' for term in terms if '"' not in term)
        sql = (
            "SELECT path, place, text FROM passages JOIN files ON files.id = passages.rowid / ? WHERE passages MATCH ?"
            " ORDER BY bm25(passages) LIMIT ?"
        )
        with self._lock, closing(self._opened()) as db:
            rows = db.execute(sql, (MOST_PASSAGES, wanted, most)).fetchall()
        return [Excerpt(self._shown(path) + place, text) for path, place, text in rows]

    def files(self) -> list[tuple[str, int, str]]:
        """Name, number of passages and, where it could not be read, the end of a sentence that says why."""
        sql = (
            "SELECT path, (SELECT count(*) FROM passages WHERE rowid BETWEEN id * ?1 AND id * ?1 + ?1 - 1), problem"
            " FROM files ORDER BY path"
        )
        with self._lock, closing(self._opened()) as db:
            return [(self._shown(path), *rest) for path, *rest in db.execute(sql, (MOST_PASSAGES,))]

    def _shown(self, path: str) -> str:
        """The name of a file below its folder, with the folder's own name in front."""
        folder = next(one for one in self.folders if Path(path).is_relative_to(one))
        return os.path.join(folder.name, os.path.relpath(path, folder))

    # --- the files ---------------------------------------------------------------------------------------------------

    def _opened(self) -> sqlite3.Connection:
        db = sqlite3.connect(self._path, check_same_thread=False)
        try:
            db.executescript(_TABLES)
        except sqlite3.DatabaseError:  # it is made again from the folders
            db.close()
            self._path.unlink()
            db = sqlite3.connect(self._path, check_same_thread=False)
            db.executescript(_TABLES)
        return db

    def _listed(self) -> Iterator[tuple[str, tuple[int, int]]]:
        """Each file with the time of its last change in nanoseconds and its size in bytes."""
        for path in (path for folder in self.folders for path in _files(os.fspath(folder), self._closed)):
            with suppress(OSError):
                found = os.lstat(path)
                if _suffix(path) in (*TEXTS, ".pdf") and stat.S_ISREG(found.st_mode):
                    yield path, (found.st_mtime_ns, found.st_size)

    def _add(self, db: sqlite3.Connection, path: str, changed: int, size: int, reader: PdfReader) -> None:
        found, problem, suffix = list[tuple[str, str]](), "", _suffix(path)
        most = PDF_BYTES if suffix == ".pdf" else TEXT_BYTES
        try:
            with open_again(path) as file:
                content = file.read(most + 1)
            if len(content) > most:
                problem = f"has {size / 1e6:,.1f} MB, and {most / 1e6:g} MB are read"
            elif suffix == ".pdf":
                found = [*of_pages(reader.pages(content))]
            else:
                found = [*of_text(_text(content), is_markdown=TEXTS[suffix])]
        except (OSError, ValueError) as error:  # those of PathError and PdfReader, too
            problem = getattr(error, "strerror", None) or str(error)
        sql = "INSERT INTO files (path, changed, size, problem) VALUES (?, ?, ?, ?)"
        id_ = db.execute(sql, (path, changed, size, problem)).lastrowid or 0
        rows = (
            (id_ * MOST_PASSAGES + number, " ".join(tokenizer.tokens(f"{Path(path).stem} {place} {text}")), place, text)
            for number, (place, text) in enumerate(found[:MOST_PASSAGES])
        )
        db.executemany("INSERT INTO passages (rowid, terms, place, text) VALUES (?, ?, ?, ?)", rows)


def _forget(db: sqlite3.Connection, id_: int) -> None:
    first = id_ * MOST_PASSAGES
    db.execute("DELETE FROM passages WHERE rowid BETWEEN ? AND ?", (first, first + MOST_PASSAGES - 1))
    db.execute("DELETE FROM files WHERE id = ?", (id_,))


def _suffix(path: str) -> str:
    return os.path.splitext(path)[1].casefold()


def _text(content: bytes) -> str:
    """The text of a file. Raises ValueError for one that is no text."""
    if b"\0" in content[:8_000] and not content.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise ValueError("is no text")
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        return content.decode("utf-16", "replace")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return content.decode("cp1252", "replace")


def _files(top: str, closed: Sequence[str]) -> Iterator[str]:
    """All files below a folder, but hidden ones, those that a .gitignore leaves out, and links."""
    ignored = dict[str, Callable[[str], bool]]()
    for folder, folders, files in os.walk(top):
        if ".gitignore" in files:
            ignored[folder + os.sep] = _ignores(os.path.join(folder, ".gitignore"))
        above = [(base, is_out) for base, is_out in ignored.items() if (folder + os.sep).startswith(base)]

        def wanted(names: Sequence[str], end: str, folder: str = folder, above: Any = above) -> list[str]:
            paths = [os.path.join(folder, name) for name in sorted(names) if not name.startswith(".")]
            return [one for one in paths if not any(is_out(one[len(base) :] + end) for base, is_out in above)]

        inside = [one for one in wanted(folders, os.sep) if os.path.realpath(one) not in closed]
        folders[:] = map(os.path.basename, inside)
        yield from wanted(files, "")


def _ignores(path: str) -> Callable[[str], bool]:
    """True for names below its folder that a .gitignore leaves out."""
    from pathspec import GitIgnoreSpec

    try:
        with open_again(path) as file:
            return GitIgnoreSpec.from_lines(_text(file.read(TEXT_BYTES)).splitlines()).match_file
    except (OSError, ValueError):  # it is no text, or has a pattern that there is not
        return lambda name: False
