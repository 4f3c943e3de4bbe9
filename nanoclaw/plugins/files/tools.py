"""The tools that read, write and search files in the workspace."""

from __future__ import annotations

import asyncio
import codecs
import heapq
import json
import os
import re
import stat
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, BinaryIO, NamedTuple

from nanoclaw.atomic_write import NotSaved, append_in, reason, replace_in
from nanoclaw.beneath import walk
from nanoclaw.beneath.paths import (
    PathError,
    PathRefused,
    open_folder,
    open_for_reading,
    open_parent_for_writing,
    place_to_search,
)
from nanoclaw.core.errors import Refused, ToolError
from nanoclaw.core.messages import Image, ToolExample
from nanoclaw.core.tool import Tool, ToolContext, ToolOutput, tool
from nanoclaw.core.workspace import Workspace
from nanoclaw.escapes import visible

PAGE_LINES = 500
PAGE_CHARACTERS = 24_000
LINE_CHARACTERS = 2_000
LONGEST_LINE = 100_000_000
"""What follows a longer line is out of reach."""
LONGEST_EDIT_BYTES = 10_000_000
LARGEST_IMAGE_BYTES = 50_000_000
SEARCH_SECONDS = 10.0
MOST_ENTRIES = 200
MOST_FOUND = 100
HIT_CHARACTERS = 300

OpenImage = Callable[[bytes, str], Image]
"""Makes a picture of a file's bytes and name fit for a model; raises ImageError with a sentence."""


def file_tools(
    workspace: Workspace,
    open_image: OpenImage,
    read_roots: Sequence[Path] = (),
    attached: Callable[[int], Sequence[Path]] = lambda turn: (),
) -> list[Tool]:
    """The seven file tools; `read_roots` are folders outside the workspace that may be read (shipped skills), and
    `attached(turn)` the files that came with messages of the conversation of a turn, wherever they are."""
    root = workspace.root

    def readable(context: ToolContext, path: str) -> Sequence[Path]:
        if any(Path(root, path).is_relative_to(top) for top in (root, *read_roots)):
            return read_roots
        return (*read_roots, *(file for file in attached(context.turn) if not _leads_through(root, file)))

    async def read_file(
        context: ToolContext,
        path: Annotated[str, "relative to the workspace"],
        offset: Annotated[int, "first line"] = 1,
        limit: Annotated[int, "number of lines"] = PAGE_LINES,
    ) -> str | ToolOutput:
        """Read a text file with line numbers, or look at an image."""
        with open_for_reading(root, path, readable(context, path)) as file:
            head = file.read(_HEAD_BYTES)
            if _is_image(head):
                image = await asyncio.to_thread(_picture, head, file, path, open_image)
                return ToolOutput(f"[image {visible(path)}]", (image,))
            coding = _coding_of(head, path)
            page = _Page(file, path, coding, max(1, offset), min(max(1, limit), PAGE_LINES))
            if len(head) < _HEAD_BYTES:
                return page.text(head)
            return await asyncio.to_thread(page.text, head)

    async def write_file(path: str, content: str) -> str:
        """Write a whole file; folders are made. What was in it is replaced."""
        with open_parent_for_writing(root, path) as (folder, name):
            existed = _exists(folder, name)
            replace_in(folder, name, content)
        return f"{'Overwrote' if existed else 'Created'} {visible(path)} ({_size(len(content.encode()))})."

    async def edit_file(path: str, old: Annotated[str, "exact text, found once in the file"], new: str) -> str:
        """Replace one piece of text in a file; everything else stays as it is."""
        with open_for_reading(root, path) as file:
            content = file.read(LONGEST_EDIT_BYTES + 1)
        if len(content) > LONGEST_EDIT_BYTES:
            raise ToolError(f"{path!r} is larger than {_size(LONGEST_EDIT_BYTES)}: edit it with exec (sed, python).")
        edited, line = _edit(content, old, new, path)
        with open_parent_for_writing(root, path) as (folder, name):
            replace_in(folder, name, edited)
        return f"Edited {visible(path)} at line {line}."

    async def append_file(path: str, content: str) -> str:
        """Add text on a new line at the end of a file; the file is made when missing."""
        with open_parent_for_writing(root, path) as (folder, name):
            created = append_in(folder, name, content)
        return f"{'Created' if created else 'Added to'} {visible(path)} ({_size(len(content.encode()))})."

    async def list_dir(path: str = ".") -> str:
        """List a folder: folders first, then files with sizes."""
        with open_folder(root, path, read_roots) as folder:
            return _listing(folder)

    async def find_files(pattern: Annotated[str, "glob, like *.md or notes/**/*.txt"], path: str = ".") -> str:
        """Find files by name, newest first."""
        _check_short(pattern)

        def find() -> str:  # opens the folder itself: a cancelled turn must not close it under the thread
            with open_folder(root, path, read_roots) as folder:
                return _find(folder, pattern, path)

        return await asyncio.to_thread(find)

    async def search_files(
        context: ToolContext,
        pattern: Annotated[str, "regular expression; (?i) ignores case"],
        path: Annotated[str, "folder or file"] = ".",
        glob: Annotated[str, "only files like *.md"] = "",
    ) -> str:
        """Search text in files. Returns file:line: text."""
        _check_short(pattern)
        _check_short(glob)
        try:
            re.compile(pattern)
        except (re.error, OverflowError, RecursionError) as error:
            raise ToolError(
                f"{pattern!r} is not a regular expression: {visible(str(error))}. Put \\ before special signs."
            ) from None
        base, parts, only = place_to_search(root, path, readable(context, path))
        request: dict[str, object] = {"root": base, "parts": parts, "only": only, "pattern": pattern, "glob": glob}
        return await _search(request, path)

    made = [
        tool(read_file, effect="none", examples=_READ),
        tool(write_file, effect="workspace", examples=_WRITE),
        tool(edit_file, effect="workspace", examples=_EDIT),
        tool(append_file, effect="workspace", examples=_APPEND),
        tool(list_dir, effect="none", examples=_LIST),
        tool(find_files, effect="none", examples=_FIND),
        tool(search_files, effect="none", examples=_SEARCH),
    ]
    return [replace(one, run=_in_our_words(one.run)) for one in made]


def _in_our_words(run: Callable[..., Awaitable[str | ToolOutput]]) -> Callable[..., Awaitable[str | ToolOutput]]:
    """The same tool; what the libraries raise becomes what the model reads."""

    @wraps(run)
    async def told(*arguments: Any, **named: Any) -> str | ToolOutput:
        try:
            return await run(*arguments, **named)
        except (PathError, NotSaved) as error:
            kind = Refused if isinstance(error, PathRefused) else ToolError
            look = isinstance(error, PathError) and error.look
            raise kind(f"{error}{' list_dir and find_files show what is there.' if look else ''}") from None

    return told


_READ = (
    ToolExample("Show me the shopping list", {"path": "lists/shopping.md"}),
    ToolExample("What does plan.txt say?", {"path": "plan.txt"}),
)
_WRITE = (ToolExample("Save 'call the bank' as todo.md", {"path": "todo.md", "content": "call the bank\n"}),)
_EDIT = (ToolExample("In todo.md change Monday to Friday", {"path": "todo.md", "old": "Monday", "new": "Friday"}),)
_APPEND = (
    ToolExample("Put olive oil on the shopping list", {"path": "lists/shopping.md", "content": "- olive oil\n"}),
)
_LIST = (ToolExample("What is in the letters folder?", {"path": "letters"}),)
_FIND = (ToolExample("Which PDF files do I have?", {"pattern": "*.pdf"}),)
_SEARCH = (ToolExample("Which file mentions the dentist?", {"pattern": "(?i)dentist"}),)

_HEAD_BYTES = 65_536


# -- reading


class _Coding(NamedTuple):
    """How the bytes of a text file become characters; `said` is what the model is told when it isn't UTF-8."""

    name: str
    bom: bytes = b""
    said: str = ""


_UTF8 = _Coding("utf-8")


def _coding_of(head: bytes, path: str) -> _Coding:
    for bom, name, said in _BOMS:
        if head.startswith(bom):
            return _Coding(name, bom, said)
    if b"\0" in head[:8192]:
        raise ToolError(
            f"{path!r} is binary (it has NUL bytes), not text. Use exec to look at it (file, strings, xxd)."
        )
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head, final=len(head) < _HEAD_BYTES)
    except UnicodeDecodeError:
        shown = head.decode("utf-8", "replace")
        if shown.count("\ufffd") * 2 > len(shown) - sum(map(len, re.findall(r"[\x00-\x7f]+", shown))):
            return _single_byte(head, path)
        return _Coding("utf-8", said="damaged UTF-8: unreadable bytes are shown as \ufffd")
    return _UTF8


_BOMS = (
    (b"\xef\xbb\xbf", "utf-8", ""),
    (b"\xff\xfe", "utf-16-le", "encoding UTF-16"),
    (b"\xfe\xff", "utf-16-be", "encoding UTF-16"),
)


def _single_byte(head: bytes, path: str) -> _Coding:
    controls = sum(byte < 32 and byte not in b"\t\n\r\f\x1b" for byte in head)
    if controls * 20 > len(head):
        raise ToolError(f"{path!r} is binary, not text. Use exec to look at it (file, strings, xxd).")
    try:
        head.decode("cp1252")
    except UnicodeDecodeError:
        return _Coding("latin-1", said="encoding Latin-1")
    return _Coding("cp1252", said="encoding Windows-1252")


class _Page(NamedTuple):
    """Some numbered lines of a file of any size, read in pieces."""

    file: BinaryIO
    path: str
    coding: _Coding
    offset: int
    limit: int

    def text(self, head: bytes) -> str:
        shown: list[str] = []
        room = PAGE_CHARACTERS
        number = 0
        more = False
        for number, line, length in self._lines(head):
            if number < self.offset:
                continue
            if len(shown) == self.limit or room <= 0:
                more = True
                break
            line = visible(line)
            if length > len(line):
                line += f" [... line of {length:,} characters; exec with cut -c shows the rest]"
            shown.append(f"{number}\t{line}")
            room -= len(shown[-1])
        if not shown:
            return self._nothing(number)
        notes = [self.coding.said] if self.coding.said else []
        if more:
            notes.append(f"more lines follow: offset={number} goes on")
        return "\n".join(shown) + (f"\n[{'; '.join(notes)}]" if notes else "")

    def _nothing(self, lines: int) -> str:
        if self.offset > 1 and lines:
            raise ToolError(f"{self.path!r} has {lines} lines: offset {self.offset} is beyond its end.")
        return "[the file is empty]"

    def _lines(self, head: bytes) -> Iterator[tuple[int, str, int]]:
        """Line number, the line's first characters and its full length; memory stays flat on endless lines."""
        number, start, length = 1, "", 0
        for block in self._blocks(head):
            *ended, rest = block.split("\n")
            for piece in ended:
                length += len(piece)
                start = (start + piece[:LINE_CHARACTERS])[:LINE_CHARACTERS]
                if length == len(start) and start.endswith("\r"):
                    start, length = start[:-1], length - 1
                yield number, start, length
                number, start, length = number + 1, "", 0
            start = (start + rest[:LINE_CHARACTERS])[:LINE_CHARACTERS]
            length += len(rest)
            if length > LONGEST_LINE:
                break
        if length:
            yield number, start, length

    def _blocks(self, head: bytes) -> Iterator[str]:
        decoder = codecs.getincrementaldecoder(self.coding.name)("replace")
        deadline = time.monotonic() + SEARCH_SECONDS
        block = head[len(self.coding.bom) :]
        while block:
            yield decoder.decode(block)
            block = self.file.read(_HEAD_BYTES)
            if time.monotonic() > deadline:
                raise ToolError(f"{self.path!r} is too large to count lines up to there: use exec with tail or sed -n.")
        yield decoder.decode(b"", True)


def _leads_through(root: Path, file: Path) -> bool:
    """Whether a path passes the workspace, where a command can put a link in the place of what came."""
    workspace = root.resolve()
    return any(folder.resolve().is_relative_to(workspace) for folder in file.parents)


def _is_image(head: bytes) -> bool:
    return (
        head.startswith((b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF87a", b"GIF89a", b"II*\0", b"MM\0*"))
        or (head[:2] == b"BM" and b"\0" in head[:64])
        or (head[:4] == b"RIFF" and head[8:12] == b"WEBP")
        or head[4:12] in (b"ftypheic", b"ftypheix", b"ftypavif", b"ftypmif1")
    )


def _picture(head: bytes, file: BinaryIO, path: str, open_image: OpenImage) -> Image:
    data = head + file.read(LARGEST_IMAGE_BYTES)
    if len(data) > LARGEST_IMAGE_BYTES:
        raise ToolError(f"the image {path!r} is larger than {_size(LARGEST_IMAGE_BYTES)}: make it smaller first.")
    return open_image(data, path.rsplit("/", 1)[-1])


# -- editing


def _edit(content: bytes, old: str, new: str, path: str) -> tuple[bytes, int]:
    """The file's bytes after the edit, and the line it begins at."""
    if not old:
        raise ToolError("'old' is empty: give the text to replace, or use append_file or write_file.")
    if old == new:
        raise ToolError("'old' and 'new' are the same: nothing to change.")
    coding = _coding_for_editing(content, path)
    unit = 2 if coding.name.startswith("utf-16") else 1
    for variant in (old, old.replace("\n", "\r\n")):
        wanted = _encode(variant, coding, path)
        places = list(_places(content, wanted, len(coding.bom), unit))
        if places:
            break
    if not places:
        raise ToolError(_nearest(content.decode(coding.name, "replace"), old, path))
    lines = [content[:place].decode(coding.name, "replace").count("\n") + 1 for place in places[:21]]
    if len(places) > 1:
        listed = ", ".join(map(str, lines[:20])) + (", …" if len(lines) > 20 else "")
        raise ToolError(
            f"'old' is found {len(places)} times in {path!r}, at lines {listed}. Nothing was changed; "
            "give more of the text around the one you mean."
        )
    end = places[0] + len(wanted)
    if "\r" not in new and _has_windows_line_ends(content, places[0], coding):
        new = new.replace("\n", "\r\n")
    return content[: places[0]] + _encode(new, coding, path) + content[end:], lines[0]


def _coding_for_editing(content: bytes, path: str) -> _Coding:
    if b"\0" in content[:8192] and not content.startswith((b"\xff\xfe", b"\xfe\xff")):
        return _UTF8  # NUL bytes are no reason not to change the text beside them
    return _coding_of(content[:_HEAD_BYTES], path)


def _encode(text: str, coding: _Coding, path: str) -> bytes:
    try:
        return text.encode(coding.name)
    except UnicodeEncodeError as error:
        sign = text[error.start]
        advice = "Rewrite the file with write_file, which uses UTF-8."
        raise ToolError(f"{path!r} has the {coding.said}, which has no {sign!r}. {advice}") from None


def _places(content: bytes, wanted: bytes, start: int, unit: int) -> Iterator[int]:
    place = content.find(wanted, start)
    while place >= 0:
        if (place - start) % unit == 0:
            yield place
        place = content.find(wanted, place + 1)


def _has_windows_line_ends(content: bytes, place: int, coding: _Coding) -> bool:
    """Whether the line at a place ends in CRLF; the last line is like the one before it."""
    newline, before = "\n".encode(coding.name), "\r".encode(coding.name)
    end = content.find(newline, place)
    if end < 0:
        end = content.rfind(newline, 0, place)
    return end >= 0 and content[:end].endswith(before)


def _nearest(text: str, old: str, path: str) -> str:
    import difflib

    lines = [line[:300] for line in text.splitlines()[:20_000]]
    first = next((line for line in old.splitlines() if line.strip()), old)[:300]
    advice = "Copy the text exactly as read_file shows it, without the line numbers."
    bare = [line.strip() for line in lines]
    if re.sub(r"^\s*\d+\t", "", first).strip() in bare:
        place = bare.index(re.sub(r"^\s*\d+\t", "", first).strip())
        return f"'old' is not in {path!r}. Line {place + 1} is close: {visible(lines[place])!r}. {advice}"
    near = difflib.get_close_matches(first.strip(), bare[:5_000], 1, 0.6)
    if not near:
        return f"'old' is not in {path!r}, nor anything like it. {advice}"
    place = bare.index(near[0])
    return f"'old' is not in {path!r}. Nearest is line {place + 1}: {visible(lines[place])!r}. {advice}"


# -- looking around


def _listing(folder: int) -> str:
    folders: list[str] = []
    files: list[str] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.name)
            else:
                files.append(entry.name)
    if not folders and not files:
        return "[the folder is empty]"
    shown = [f"{visible(name)}/" for name in sorted(folders)[:MOST_ENTRIES]]
    shown += [_described(folder, name) for name in sorted(files)[: MOST_ENTRIES - len(shown)]]
    left = len(folders) + len(files) - len(shown)
    return "\n".join(shown) + (f"\n[{left:,} more entries: find_files narrows it down]" if left else "")


def _described(folder: int, name: str) -> str:
    shown = visible(name).replace("\n", "\u240a")
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if stat.S_ISLNK(found.st_mode):
            return f"{shown} -> {visible(os.readlink(name, dir_fd=folder))}"
    except OSError:
        return shown
    return f"{shown} ({_size(found.st_size)})" if stat.S_ISREG(found.st_mode) else f"{shown} (not a plain file)"


def _find(folder: int, pattern: str, path: str) -> str:
    deadline = time.monotonic() + SEARCH_SECONDS
    newest: list[tuple[float, str, int]] = []
    count = 0
    stopped = False
    for parts, inner in walk.walk(folder):
        if time.monotonic() > deadline:
            stopped = True
            break
        if not walk.matches(parts, pattern):
            continue
        try:
            found = os.stat(parts[-1], dir_fd=inner, follow_symlinks=False)
        except OSError:
            continue
        count += 1
        entry = (found.st_mtime, "/".join(parts), found.st_size)
        if len(newest) < MOST_FOUND:
            heapq.heappush(newest, entry)
        else:
            heapq.heappushpop(newest, entry)
    lines = [f"{visible(_joined(path, name))} ({_size(size)})" for _, name, size in sorted(newest, reverse=True)]
    if stopped:
        lines.append(f"[stopped after {SEARCH_SECONDS:g} s: give a smaller folder]")
    elif not count:
        lines.append(f"[no file matches {visible(pattern)!r}]")
    if count > len(newest):
        lines.append(f"[{count - len(newest):,} more, older ones]")
    return "\n".join(lines)


async def _search(request: dict[str, object], path: str) -> str:
    from nanoclaw.spawn import run_process

    bounds = {"limit": MOST_FOUND + 1, "width": HIT_CHARACTERS}
    worker = (sys.executable, "-I", "-S", walk.__file__, json.dumps(request | bounds))
    try:
        ended = await run_process(worker, folder=Path("/"), environment={}, timeout_seconds=SEARCH_SECONDS)
    except OSError as error:
        raise ToolError(f"the search could not be started: {reason(error)}. Try exec with grep.") from None
    lines = [hit for line in (ended.head + ended.tail).split(b"\n") if (hit := _hit(line, path, bool(request["only"])))]
    if ended.why == "exited" and ended.status:
        said = ended.tail or ended.head
        raise ToolError(f"the search failed: {visible(said.decode('utf-8', 'replace').strip()[-200:])}")
    if ended.why != "exited":
        lines.append(f"[stopped after {SEARCH_SECONDS:g} s: there may be more. Use a simpler pattern or a glob.]")
    elif len(lines) > MOST_FOUND:
        lines[MOST_FOUND:] = [f"[more than {MOST_FOUND} hits: narrow it down]"]
    return "\n".join(lines) or f"[no line matches {request['pattern']!r}]"


def _hit(line: bytes, path: str, is_file: bool) -> str:
    try:
        file, number, text = json.loads(line)
    except ValueError:  # nothing, or cut by the kill
        return ""
    return f"{visible(path if is_file else _joined(path, file))}:{number}: {visible(text)}"


def _joined(path: str, name: str) -> str:
    """The name as the other tools take it."""
    return os.path.normpath(os.path.join(path, name)).replace("\n", "\u240a")  # noqa: PTH118


def _check_short(pattern: str) -> None:
    if len(pattern) > 1_000 or "\0" in pattern:
        raise ToolError("the pattern is longer than 1,000 characters or has a NUL in it: give a shorter one.")


def _exists(folder: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _size(size: int) -> str:
    if size < 1_000:
        return f"{size} bytes"
    unit, scale = next((unit, scale) for unit, scale in _UNITS if size >= scale)
    return f"{size / scale:.1f} {unit}"


_UNITS = (("GB", 1_000_000_000), ("MB", 1_000_000), ("kB", 1_000))
