"""Media: what comes with messages is fetched, kept and read; files that an answer names go out with it."""

from __future__ import annotations

import asyncio
import os
import re
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator
from functools import partial
from weakref import WeakKeyDictionary

from nanoclaw.beneath.paths import Reach
from nanoclaw.core.errors import NanoclawError, Refused, ToolError
from nanoclaw.core.events import Notice
from nanoclaw.core.messages import Address, Inbound
from nanoclaw.core.plugin import Answer, Draft, Filter, Finding, Host, Plugin, Profile, Section, Turn
from nanoclaw.named_tuple import NamedTuple

OPEN_TO = ("person", "background", "job", "heartbeat", "helper")
CAPABILITY = "Files: a line of its own in your answer, MEDIA:./path/in/workspace.png, sends that file with it."
ANSWERS = "This answers a message of yours that repeats others' text, set in a block."
SEND_BACK = "To send a file back, save it in the workspace and write on a line of its own: MEDIA:./its/path"

READ = "[files] read in config.toml"
GUESTS_MEGABYTES, DOCUMENT_CHARACTERS = 1_000, 12_000
"""The most of guests' files that is kept in all, and of an attached document that reaches the model."""


MOST_BYTES = 20_000_000
"""Of the largest file that is received or sent."""


class MediaFiles:
    """Files that may be received and sent, for other plugins and for channels."""

    def __init__(self, reach: Reach, most_bytes: int) -> None:
        self._reach, self.most_bytes = reach._replace(read=(), write=()), most_bytes
        self.heard = WeakKeyDictionary[Turn, str]()
        """By turn what was said in its voice notes."""

    def sendable(self, path: str) -> str:
        """The real path of a plain file of the workspace that may be sent, asked for by its path there. Raises
        ToolError."""
        from nanoclaw.beneath.paths import PathError, PathRefused, open_for_reading, resolve

        if os.path.isabs(path) or path.startswith("~") or "://" in path or ".." in path.split("/"):  # noqa: PTH117
            raise Refused(f"{path[:200]!r} cannot be sent: give the path of a file in the workspace, like ./photo.png.")
        try:
            real = resolve(self._reach, path, for_writing=False)
            with open_for_reading(self._reach, path) as file:
                size = os.fstat(file.fileno()).st_size
        except PathRefused as error:
            raise Refused(str(error)) from None
        except PathError as error:
            raise ToolError(str(error)) from None
        if not size:
            raise ToolError(f"{path[:200]!r} is empty (0 bytes), so it cannot be sent.")
        if size > self.most_bytes:
            most = f"more than the {self.most_bytes / 1e6:,.0f} MB that can be sent"
            raise ToolError(f"{path[:200]!r} has {size / 1e6:,.1f} MB, {most}.")
        return str(real)


class Media(Plugin):
    name = "media"
    stamp = "the profile alone"
    seconds = 600.0
    """Files may take long to come."""

    def __init__(self, host: Host, settings: None) -> None:
        self._host = host
        self.public = MediaFiles(host.reach, MOST_BYTES)
        self._told_blind: set[tuple[Address, str]] = set()

    def sections(self, query: str, profile: Profile) -> Iterable[Section]:
        return [Section("capabilities", "Files", CAPABILITY)] if profile.name in OPEN_TO else []

    async def check(self, deep: bool) -> Iterable[Finding]:
        from nanoclaw.plugins.media.folder import MediaFolder

        folder = MediaFolder(self._host.workspace)
        count, size = folder.used()
        files = f"{count} file{'s' * (count != 1)} that came with messages"
        found = [Finding(True, f"{files}, {size / 1e6:,.1f} MB (media/ in the workspace)")]
        if folder.used(by_guests=True)[1] >= GUESTS_MEGABYTES * 1_000_000:
            full = "and no more files of theirs are kept: delete some of media/guests-…"
            found.append(Finding(False, f"guests have sent {GUESTS_MEGABYTES:,} MB, {full}"))
        return found

    # --- a message ---------------------------------------------------------------------------------------------------

    async def before_turn(self, draft: Draft, turn: Turn) -> Draft | None:
        inbound = draft.inbound
        if inbound is None:
            return None
        draft = self._with_quote(draft, inbound, turn) if inbound.quoted and not draft.quote else draft
        if "@" in draft.message.text and turn.profile.name == "person" and not draft.message.outside:
            lacking = [*self._unreadable(draft.message.text)]
            await self._tell(inbound, [f"{why}{advice}" for why, advice in lacking])
            draft = draft._replace(remarks=(*draft.remarks, *(f"The person was told: {why}." for why, _ in lacking)))
        return await self._with_files(draft, inbound, turn) if draft.attachments else draft

    def _unreadable(self, text: str) -> Iterator[tuple[str, str]]:
        """Why files that a text names as @letter.pdf cannot be read, and what to do about those that are not there."""
        from nanoclaw.beneath.paths import PathError, PathMissing, PathRefused, open_for_reading
        from nanoclaw.documents.documents import TYPES

        for name in re.findall(r"(?<!\S)@([^\s@]*\.\w+)", text):
            if "://" not in name and os.path.splitext(name)[1].lower() in TYPES:  # noqa: PTH122  (a string)
                try:
                    open_for_reading(self._host.reach, name).close()
                except PathError as error:
                    is_outside = self._host.workspace not in (self._host.workspace / name).parents
                    if isinstance(error, PathMissing) or (is_outside and isinstance(error, PathRefused)):
                        yield f"there is no {name} in the workspace", f": copy it there, or add its folder to {READ}"
                    else:
                        yield str(error).rstrip("."), ""

    def _with_quote(self, draft: Draft, inbound: Inbound, turn: Turn) -> Draft:
        """With our own message that this one answers. That of an earlier talk may repeat others' text."""
        said, sources = self._host.sent_text(inbound.address, inbound.quoted, turn.conversation)
        if sources:
            return draft._replace(others=(*draft.others, (sources, said)), remarks=(*draft.remarks, ANSWERS))
        return draft._replace(quote=said)

    async def _with_files(self, draft: Draft, inbound: Inbound, turn: Turn) -> Draft:
        from nanoclaw.plugins.media import contents
        from nanoclaw.plugins.media.attachments import Attachments
        from nanoclaw.plugins.media.folder import MediaFolder

        is_guests = turn.profile.name not in OPEN_TO
        folder, most = MediaFolder(self._host.workspace), self.public.most_bytes
        guests_bytes = GUESTS_MEGABYTES * 1_000_000
        attachments = Attachments(folder, most, self._host.channel, self._transcriber(), guests_bytes)
        resolved = await attachments.resolve(inbound, draft.attachments, is_guests=is_guests)
        await self._tell(inbound, [one.problem for one in resolved if one.problem])
        files, stopped = tuple(one.file for one in resolved if one.file), threading.Event()
        reading = contents.AttachmentReader(folder.opened, DOCUMENT_CHARACTERS, stopped.is_set)
        try:
            found = await asyncio.to_thread(contents.read, files, reading, is_guests=is_guests)
        finally:
            stopped.set()  # when this is cancelled, the thread is not, and ends by itself
        for notice in (*(Notice(one, is_failure=True) for one in found.problems), *map(Notice, found.cuts)):
            self._host.show(inbound.address, notice)
        if found.images and (blind := self._blind(turn)):
            await self._tell_blind(inbound, turn, blind)
        if spoken := "\n\n".join(one.words for one in resolved if one.words):
            self.public.heard[turn] = spoken
        text = "\n\n".join(part for part in (spoken, draft.message.text) if part)
        hint = [] if is_guests or not files else [SEND_BACK]
        remarks = (*hint, *draft.remarks, *(one.remark for one in resolved if one.remark), *found.remarks)
        by_others = [one for one in files if not one.is_voice]
        names = " and ".join(one.name.translate(_NO_MARKS) for one in by_others)
        source = f"the file{'s' * (len(by_others) > 1)} {names} ({inbound.address.channel}:{inbound.sender})"
        source = draft.message.outside or source
        says = any(found.texts) or (by_others and not draft.message.outside)  # a picture, or a name, may say things too
        texts = ((source, "\n\n".join(filter(None, found.texts))),) if says else ()
        message = draft.message._replace(text=text, images=(*draft.message.images, *found.images))
        return draft._replace(message=message, attachments=files, remarks=remarks, others=(*draft.others, *texts))

    def _blind(self, turn: Turn) -> str:
        """The name of the turn's model where it is known to see no images and no other has them, else ''."""
        if self._host.setting("models.pictures").name:
            return ""
        try:
            model = self._host.model_of(turn)
        except NanoclawError:  # which is told when it is asked
            return ""
        return "" if model.sees_images else model.name

    async def _tell_blind(self, inbound: Inbound, turn: Turn, model: str) -> None:
        """In a chat app the owner reads it once; guests and groups are not told."""
        said = f"{model} cannot see images: it gets only their names"
        self._host.show(inbound.address, Notice(said))
        is_silent = turn.role != "owner" or self._shows_notices(inbound.address)
        if not is_silent and (inbound.address, model) not in self._told_blind:
            self._told_blind.add((inbound.address, model))
            await self._host.tell(inbound, f"{said}.")

    def _transcriber(self) -> Callable[[str, bytes], Awaitable[str]] | None:
        is_set = self._host.setting("models.transcription").name
        return partial(self._host.models.transcribe, "") if is_set else None

    async def _tell(self, inbound: Inbound, problems: list[str]) -> None:
        """Tell the person about files that could not be had: in writing where no notices are shown."""
        if not problems:
            return
        if self._shows_notices(inbound.address):
            for problem in problems:
                self._host.show(inbound.address, Notice(problem, is_failure=True))
            return
        await self._host.tell(inbound, "\n".join(f"{problem.rstrip('.')}." for problem in problems))

    def _shows_notices(self, address: Address) -> bool:
        channel = self._host.channel(address.channel)
        return channel is not None and channel.hints.notices

    # --- an answer ---------------------------------------------------------------------------------------------------

    def stream(self, turn: Turn) -> Filter:
        return FileLineFilter()

    async def before_answer(self, answer: Answer, turn: Turn) -> Answer | None:
        if "MEDIA:" not in answer.text:
            return None
        found = attached(answer.text, self.public.sendable if turn.profile.name in OPEN_TO else _not_sent)
        text, problems = found.text, [f"not attached: {problem}" for problem in found.problems]
        if self._shows_notices(turn.address):
            for problem in problems:
                self._host.show(turn.address, Notice(problem, is_failure=True))
        elif problems:
            text = "\n".join([text, "", *(f"({problem})" for problem in problems)]).strip()
        return Answer(text, (*answer.files, *found.files))


_NO_MARKS = str.maketrans("", "", "()[]{},")
"""Signs of a file's name that would pass for the program's in that of a source."""


def _not_sent(path: str) -> str:
    """A guest is sent none of the owner's files."""
    raise ToolError(f"{path[:200]!r} cannot be sent from here.")


MOST_FILES = 10
"""Of one answer; lines that name more stay as text."""

# patterns as texts: compiled when first used
_LINE = r" {0,3}[`\"'*_]{0,3}MEDIA:[ \t]*(?P<path>\S.*)"
_FENCE = r"[ \t>]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)*(?P<fence>`{3,}|~{3,})(?P<info>.*)"
_QUOTES = "`\"'"


class AnswerFiles(NamedTuple):
    """An answer without the lines whose files are attached. `problems` are sentences about files that are not."""

    text: str
    files: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


def attached(answer: str, check: Callable[[str], str]) -> AnswerFiles:
    """The files that an answer names. `check` gives the real path of a file that may be sent, and raises ToolError for
    another, whose line stays as it is."""
    if "MEDIA:" not in answer:
        return AnswerFiles(answer)
    lines, files, problems = list[str](), list[str](), list[str]()
    for line, is_code in _lines(answer):
        found = None if is_code else re.fullmatch(_LINE, line)
        if found is None:
            lines.append(line)
            continue
        try:
            if len(files) == MOST_FILES:
                raise ToolError(f"more than {MOST_FILES} files cannot be attached to one answer.")
            path = check(_bare(found["path"]))
            if path not in files:
                files.append(path)
        except ToolError as error:
            problems.append(str(error))
            lines.append(line)
    if not files:
        return AnswerFiles(answer, (), tuple(problems))
    return AnswerFiles(re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip(), tuple(files), tuple(problems))


def _lines(text: str) -> Iterable[tuple[str, bool]]:
    """Each line, and True if it belongs to a fence of code; one that is not closed continues to the end."""
    fence = ""
    for line in text.split("\n"):
        after = _fence_after(line, fence)
        yield line, bool(fence or after)
        fence = after


def _bare(path: str) -> str:
    """The path without what it is wrapped in: `MEDIA:./a.png`, MEDIA:"a b.png"."""
    path = path.rstrip()
    if len(path) > 1 and path[0] in _QUOTES and path[-1] == path[0]:
        return path[1:-1].strip()
    return path.rstrip(_QUOTES + "*_") if path[-1] in _QUOTES + "*_" else path


class FileLineFilter:
    """Keeps lines that name files out of an answer's stream. A line that may still come to name one waits."""

    def __init__(self) -> None:
        self._line, self._passed, self._fence = "", 0, ""  # the newest line, and how much of it was shown

    def feed(self, text: str) -> str:
        *whole, rest = text.split("\n")
        shown = ""
        for line in whole:
            self._line += line
            shown += self._news(is_whole=True, end="\n")
            self._fence = _fence_after(self._line, self._fence)
            self._line, self._passed = "", 0
        self._line += rest
        return shown + self._news(is_whole=False)

    def end(self) -> str:
        return self._news(is_whole=True)

    def _news(self, *, is_whole: bool, end: str = "") -> str:
        """The new part of the line, unless the line names a file or may still come to."""
        if not self._fence and not self._passed:
            hidden = re.fullmatch(_LINE, self._line) if is_whole else _may_name_a_file(self._line)
            if hidden:
                return ""
        news = self._line[self._passed :] + end
        self._passed = len(self._line)
        return news


def _may_name_a_file(begun: str) -> bool:
    head = begun[:13]
    bare = head.lstrip(" `\"'*_")
    return len(head) - len(bare) <= 6 and "MEDIA:".startswith(bare[:6])


def _fence_after(line: str, fence: str) -> str:
    """The fence of code that is open after a line, '' for none; it was `fence` before."""
    found = re.fullmatch(_FENCE, line.rstrip("\r"))
    if found is None:
        return fence
    if fence:
        return "" if found["fence"].startswith(fence) and not found["info"].strip() else fence
    return "" if "`" in found["info"] and found["fence"][0] == "`" else found["fence"]
