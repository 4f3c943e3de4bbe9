"""The tools that read, write and search files in the workspace."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import cached_property, partial, wraps
from pathlib import Path
from typing import Annotated, Any

from nanoclaw.atomic_write import NotSaved, append_in, replace_in
from nanoclaw.beneath.paths import (
    PathError,
    PathRefused,
    Reach,
    name_beneath,
    open_folder,
    open_for_reading,
    open_parent_for_writing,
    place_to_search,
    resolve,
)
from nanoclaw.core.errors import Refused, ToolError
from nanoclaw.core.messages import CheckedCall, Effect, ToolExample
from nanoclaw.core.plugin import Ask, Host, Plugin, Scope, Tool, ToolOutput, Turn, Verdict
from nanoclaw.core.tool import ToolContext, tool
from nanoclaw.escapes import visible

LONGEST_EDIT_BYTES, PAGE_LINES = 10_000_000, 500


class Files(Plugin):
    name = "files"

    def __init__(self, host: Host, settings: None) -> None:
        self._host, self._root = host, host.workspace
        self._reach = host.reach

    def tools(self) -> Iterable[Tool]:
        reading = [
            tool(self._read_file, reach="none", examples=_READ),
            tool(self._list_dir, reach="none", examples=_LIST),
            tool(self._find_files, reach="none", examples=_FIND),
            tool(self._search_files, reach="none", examples=_SEARCH),
        ]
        writing = [
            tool(self._write_file, reach="workspace", examples=_WRITE),
            tool(self._edit_file, reach="workspace", examples=_EDIT),
            tool(self._append_file, reach="workspace", examples=_APPEND),
        ]
        writing = [one._replace(audit=partial(self._effect, one.name), check=self._check) for one in writing]
        return [one._replace(run=_in_our_words(one.run)) for one in (reading[0], *writing, *reading[1:])]

    # --- reading -----------------------------------------------------------------------------------------------------

    async def _read_file(
        self,
        context: ToolContext,
        path: Annotated[str, "relative to the workspace"],
        offset: Annotated[int, "first line"] = 1,
        limit: Annotated[int, "number of lines"] = PAGE_LINES,
    ) -> str | ToolOutput:
        """Read a text file with line numbers, or look at an image."""
        from nanoclaw.plugins.files.reading import HEAD_BYTES, TextPage, coding_of, is_image, picture

        shown, skills = "", self._host.get("skills")
        if skills and path.startswith("skill:"):
            shown = f"[{visible(path := str(await asyncio.to_thread(skills.located, path[6:])))}]\n"
        with open_for_reading(self._readable(path, context), path) as file:
            head = file.read(HEAD_BYTES)
            if is_image(head):
                image = await asyncio.to_thread(picture, file, path)
                return ToolOutput(f"[image {visible(path)}]", (image,))
            page = TextPage(file, path, coding_of(head, path), max(1, offset), min(max(1, limit), PAGE_LINES))
            return shown + (page.text(head) if len(head) < HEAD_BYTES else await asyncio.to_thread(page.text, head))

    async def _list_dir(self, path: str = ".") -> str:
        """List a folder."""
        from nanoclaw.plugins.files.looking import listing

        with open_folder(self._shown, path) as folder:
            return listing(folder)

    async def _find_files(self, pattern: Annotated[str, "glob, like *.md or notes/**/*.txt"], path: str = ".") -> str:
        """Find files by name, newest first."""
        from nanoclaw.plugins.files.looking import check_short, found

        check_short(pattern)

        def find() -> str:  # opens the folder itself: a cancelled turn must not close it under the thread
            with open_folder(self._shown, path) as folder:
                return found(folder, pattern, path, self._shown.closed)

        return await asyncio.to_thread(find)

    async def _search_files(
        self,
        context: ToolContext,
        pattern: Annotated[str, "regular expression; (?i) ignores case"],
        path: Annotated[str, "folder or file"] = ".",
        glob: Annotated[str, "only files like *.md"] = "",
    ) -> str:
        """Search text in files. Returns file:line: text."""
        from nanoclaw.plugins.files.looking import check_short, search

        check_short(pattern)
        check_short(glob)
        try:
            re.compile(pattern)
        except (re.error, OverflowError, RecursionError) as error:
            raise ToolError(
                f"{pattern!r} is not a regular expression: {visible(str(error))}. Put \\ before special characters."
            ) from None
        place = place_to_search(self._readable(path, context), path)
        return await search({**place, "pattern": pattern, "glob": glob}, path)

    @cached_property
    def _shown(self) -> Reach:
        """The folders that may be read: those of skills, too."""
        skills = getattr(self._host.get("skills"), "folders", ())
        return self._reach._replace(read=(*self._reach.read, *skills))

    def _readable(self, path: str, context: ToolContext) -> Reach:
        """The same with the files outside of all of them that came with messages of this conversation."""
        reach = self._shown
        if any(Path(self._root, path).is_relative_to(top) for top in (*reach.writable, *reach.read)):
            return reach
        came = map(Path, self._host.records.attached(context.turn))
        files = (file for file in came if not any(_leads_through(top, file) for top in reach.writable))
        return reach._replace(read=(*reach.read, *files))

    async def _check(self, call: CheckedCall, turn: Turn) -> Verdict:
        """Ask before a file outside the workspace is written, or one that other programs run: what commands of the
        sandbox can't change either."""
        from nanoclaw.exact_text import as_code
        from nanoclaw.sandbox.protect import Search

        path = str(call.arguments["path"])
        try:
            target = resolve(self._reach, path, for_writing=True)
        except PathError:  # the tool says why
            return None
        place = next(one for one in _innermost_first(self._reach.writable) if target.is_relative_to(one))
        is_here = place == self._root.resolve()
        shown = as_code(str(target.relative_to(place) if is_here else target))
        if who := Search([place]).who_runs(target):
            return Ask(f"{_ASKED[call.name]} {shown}? It would be run by {who} later, with your rights.")
        if is_here:
            return None
        scope = Scope(f"write:{place}", f"writing files in {place}", is_place=True)
        return Ask(f"{_ASKED[call.name]} {shown}?", scope=scope)

    # --- writing -----------------------------------------------------------------------------------------------------

    async def _write_file(self, context: ToolContext, path: str, content: str) -> ToolOutput:
        """Write a whole file in place of what was there; folders are made."""
        from nanoclaw.plugins.files.editing import before_writing, diff
        from nanoclaw.plugins.files.looking import in_words

        with self._kept("write_file", path, context), open_parent_for_writing(self._reach, path) as (folder, name):
            existed, before = _exists(folder, name), before_writing(folder, name)
            replace_in(folder, name, content)
        after = content.encode()
        said = f"{'Overwrote' if existed else 'Created'} {visible(path)} ({in_words(len(after))})."
        return ToolOutput(said, diff=await diff(before, after, is_new=not existed))

    async def _edit_file(
        self, context: ToolContext, path: str, old: Annotated[str, "exact text, found once in the file"], new: str
    ) -> ToolOutput:
        """Replace one piece of text in a file."""
        from nanoclaw.plugins.files.editing import diff, edited
        from nanoclaw.plugins.files.looking import in_words

        with self._kept("edit_file", path, context):
            with open_for_reading(self._reach, path) as file:
                content = file.read(LONGEST_EDIT_BYTES + 1)
            if len(content) > LONGEST_EDIT_BYTES:
                most = in_words(LONGEST_EDIT_BYTES)
                raise ToolError(f"{path!r} is larger than {most}: edit it with exec (sed, python).")
            after, line = edited(content, old, new, path)
            with open_parent_for_writing(self._reach, path) as (folder, name):
                replace_in(folder, name, after)
        return ToolOutput(f"Edited {visible(path)} at line {line}.", diff=await diff(content, after))

    async def _append_file(self, context: ToolContext, path: str, content: str) -> str:
        """Add text on a new line at the end of a file, new or not."""
        from nanoclaw.plugins.files.looking import in_words

        with self._kept("append_file", path, context), open_parent_for_writing(self._reach, path) as (folder, name):
            created = append_in(folder, name, content)
        return f"{'Created' if created else 'Added to'} {visible(path)} ({in_words(len(content.encode()))})."

    def _effect(self, tool: str, arguments: dict[str, Any]) -> Effect:
        name = self._name(arguments["path"])
        return Effect(tool, "file", name, f"{_VERBS[tool]} {visible(name or arguments['path'])}")

    def _name(self, path: str) -> str:
        """The path within the workspace, the whole one in another folder that may be written; '' elsewhere."""
        is_of_home = path.startswith("~")  # which is not a name in the workspace
        with suppress(PathError):
            if is_of_home or self._reach.write:
                real = str(resolve(self._reach, path, for_writing=True))
                return name_beneath(self._root, real) or real
        return "" if is_of_home else name_beneath(self._root, path)

    def _kept(self, tool: str, path: str, context: ToolContext) -> AbstractContextManager[None]:
        """A change whose file is kept as it was before, so that it can be undone."""
        undo = self._host.get("undo")
        return undo.watch(self._effect(tool, {"path": path}), report=context.report) if undo else nullcontext()


_ASKED = {"write_file": "Write", "edit_file": "Edit", "append_file": "Add to"}


def _innermost_first(folders: Iterable[Path]) -> list[Path]:
    return sorted((one.resolve() for one in folders), key=lambda one: len(one.parts), reverse=True)


_VERBS = {"write_file": "wrote", "edit_file": "edited", "append_file": "added to"}
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


def _in_our_words(run: Callable[..., Awaitable[str | ToolOutput]]) -> Callable[..., Awaitable[str | ToolOutput]]:
    """The same tool; what the libraries raise becomes what the model reads."""

    @wraps(run)
    async def told(*arguments: Any, **named: Any) -> str | ToolOutput:
        try:
            return await run(*arguments, **named)
        except (PathError, NotSaved) as error:
            kind = Refused if isinstance(error, PathRefused) else ToolError
            look = " list_dir and find_files show what is there." if isinstance(error, PathError) and error.look else ""
            raise kind(f"{error}{look}") from None

    return told


def _leads_through(root: Path, file: Path) -> bool:
    """True for a path through the workspace: a command can put a link in the place of such a file."""
    workspace = root.resolve()
    return any(folder.resolve().is_relative_to(workspace) for folder in file.parents)


def _exists(folder: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True
