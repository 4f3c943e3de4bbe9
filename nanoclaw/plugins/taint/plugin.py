"""The plugin: what follows on others' text and reaches beyond the workspace needs the owner's yes."""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Iterable, Sequence
from datetime import timedelta
from functools import cached_property, partial
from typing import TYPE_CHECKING, NamedTuple

from nanoclaw.core.messages import CheckedCall, ToolResult
from nanoclaw.core.plugin import Ask, Command, Ended, Finding, Host, Plugin, Refuse, Reply, Said, Turn, Tx, Verdict

if TYPE_CHECKING:
    from nanoclaw.plugins.taint.acts import Act
    from nanoclaw.plugins.taint.places import Places
    from nanoclaw.plugins.taint.sources import Trusted
    from nanoclaw.snapshots.listing import FileListing

SHOWN_SOURCES = 3
REFUSED_FOR = timedelta(hours=1)
"""Time for which a no to an act holds."""
_WRITES = ("write_file", "edit_file", "append_file")
_LISTS = ("search_files", "list_dir", "find_files")
_NET = (
    r"://|\b(?:curl|wget|aria2c|ssh|scp|rsync|sftp|ftp|nc|telnet|dig|host|git|gh|hg|svn|docker|pip|pip3|pipx|uv|uvx|"
    r"poetry|npm|npx|pnpm|yarn|bun|cargo|gem|bundle|composer|brew|apt|apt-get)\b"
)
"""Signs that a command which has the network reads from it: a courtesy, as all that is told from the text of one."""
_BY_NETWORK = "a command with network access"


class TaintSettings(NamedTuple):
    """Trusted sources of text."""

    # sources to trust like yourself: ["docs.python.org", "mcp:calendar", "telegram:555", "email:anna@example.org"]
    trusted: tuple[str, ...] = ()

    def check(self) -> None:
        for one in self.trusted:
            from nanoclaw.plugins.taint.sources import check

            check(one)


class Learned(NamedTuple):
    """Sources of others' text that a call may come from, none where it is the owner's own wish. `was_seen`: they were
    asked about it, and read all that it is about."""

    sources: tuple[str, ...] = ()
    was_seen: bool = False


class Ran(NamedTuple):
    """A command as it is judged: sources of the places that it names, all files as they were before, where what it
    changes is marked, and the source of those that come by it."""

    named: Sequence[str] = ()
    before: FileListing | None = None
    brings: str = ""


class Provenance:
    """Tells what calls were learned from: what the plugin makes public."""

    def __init__(self, host: Host, settings: TaintSettings) -> None:
        self._host, self._settings = host, settings
        self._learned: dict[int, dict[str, Learned]] = {}

    def untrusted(self, sources: Collection[str]) -> list[str]:
        """Those that the owner does not trust."""
        return self.trusted.without(sources) if sources else []

    def own_words(self, turn: Turn) -> str:
        """Words of the person, or of the job that they made, in a turn's conversation."""
        from nanoclaw.plugins.taint.sources import own_texts

        return own_texts(turn.history)

    def warning(self, ask: Ask, call: CheckedCall, turn: Turn) -> str:
        """A sentence for a question of another plugin about a call: it names the others' text that its turn has read.
        '' for none, or where the question has it."""
        if not (sources := self.untrusted(turn.outside)) or self.learned(call, turn).sources:
            return ""
        told = _read_before(sources)
        return "" if told in ask.question else told

    def learned(self, call: CheckedCall, turn: Turn) -> Learned:
        """That of a call that was judged, and is run."""
        return self._learned.get(turn.id, {}).get(call.id, Learned())

    def keep(self, call: CheckedCall, turn: Turn, learned: Learned) -> None:
        self._learned.setdefault(turn.id, {})[call.id] = learned

    def drop(self, turn: Turn) -> None:
        self._learned.pop(turn.id, None)

    def came_back(self, path: str, sha256: str, tx: Tx) -> None:
        """Mark a file that has again what a turn had written after it read others' text."""
        if sources := self.untrusted(self._host.records.read_for(sha256)):
            self.files.mark_at_once(path, ", ".join(dict.fromkeys(sources)), tx)

    @cached_property
    def files(self) -> Places:
        from nanoclaw.plugins.taint.places import Places

        return Places(self._host)

    @cached_property
    def trusted(self) -> Trusted:
        from nanoclaw.plugins.taint.sources import Trusted

        return Trusted(self._settings.trusted)


class Taint(Plugin):
    name = "taint"
    settings = TaintSettings
    migrations = ("CREATE TABLE taint_files (path TEXT PRIMARY KEY, source TEXT NOT NULL) STRICT",)

    def __init__(self, host: Host, settings: TaintSettings) -> None:
        self._host, self._settings = host, settings
        self._ran: dict[int, dict[str, Ran]] = {}  # by turn and call
        self._with_input = set[int]()  # processes in the background
        self._was: dict[int, dict[str, str | None]] = {}  # marks of files before calls that may be refused, by turn
        self.public: Provenance = Provenance(host, settings)

    def reload(self) -> None:
        if "files" in vars(self.public):
            self.public.files.reload()

    # --- a call ------------------------------------------------------------------------------------------------------

    async def before_tool(self, call: CheckedCall, turn: Turn) -> Verdict:
        ran = Ran()
        if call.name == "exec":
            ran = self._ran.setdefault(turn.id, {})[call.id] = await self._about(call, turn)
        read = self._read(call, turn)
        if not (read or ran.brings or any(getattr(message, "outside", "") for message in turn.history)):
            return None
        from nanoclaw.plugins.taint.acts import act_of

        act = await act_of(call, turn, self._host)
        sources = self._behind(act, call, turn, read) if act else []
        if act and sources and turn.profile.name != "person":
            return Refuse(_REFUSED.format(words=act.words, sources=_named(sources)))
        if read and call.name in _WRITES and not sources:
            from nanoclaw.beneath.paths import name_beneath

            path = name_beneath(self._host.workspace, str(call.arguments["path"]))
            self._was.setdefault(turn.id, {}).setdefault(path, self.public.files.all().get(path))
            self.public.files.mark(turn, [path], read)
        if not act:
            return None
        if self._was_refused(act, call, turn):
            return Refuse(_SAID_NO) if sources else _ask(act, _SAID_NO_BEFORE, call)
        if not sources:
            return None
        from nanoclaw.exact_text import call_text, is_shown_whole

        self.public.keep(call, turn, Learned(tuple(sources), is_shown_whole(call_text(call.arguments))))
        return _ask(act, _read_before(sources), call)

    def _read(self, call: CheckedCall, turn: Turn) -> list[str]:
        """Sources of others' text that may be behind a call: what its turn has read, and what a command names."""
        return self.public.untrusted([*turn.outside, *self._ran.get(turn.id, {}).get(call.id, Ran()).named])

    async def _about(self, call: CheckedCall, turn: Turn) -> Ran:
        """Look at a command before it runs."""
        import asyncio

        await self.public.files.refresh()
        memory = self._host.get("memory")  # notes that were learned from others' text
        notes = {one.file: one.sources for one in memory.origins.entries()} if memory else {}
        named = self.public.files.named_in(str(call.arguments["command"]), notes)
        brings = await self._brings(call)
        if not brings and not self.public.untrusted([*turn.outside, *named]):
            return Ran(named)
        return Ran(named, await asyncio.to_thread(self.public.files.listing), brings)

    def _behind(self, act: Act, call: CheckedCall, turn: Turn, read: Sequence[str]) -> list[str]:
        """Sources of the text that may have brought an act about; none where it is the owner's own wish."""
        from nanoclaw.plugins.taint import searches, sources

        history, trusted = turn.history, self.public.trusted.with_server(sources.server_of(call))
        read = trusted.without(read)
        if act.address:
            own = f"{sources.own_texts(history)}\n{turn.system}"
            others = sources.others_texts(history, trusted, by_models=False)
            why = searches.address_carries(act.address, own, [text for _, text in others], is_tainted=bool(read))
            return list(read or dict.fromkeys(source for source, _ in others)) if why else []
        if act.search:
            return list(read) if read and self._carries(act.search, turn) else []
        own, others = sources.own_texts(history), sources.others_texts(history, trusted)
        if act.is_open:  # what stands in files or notes alone is asked about
            private = [("", text) for text in (searches.own_parts(turn.system), *sources.own_results(history))]
            return list(read) * bool(sources.echoed(act.said, private, "\n".join([own, *(text for _, text in others)])))
        if act.said and sources.is_said(act.said, sources.last_said(history)):
            return []
        echoes = (sources.echoed(text, others, own) for text in act.contents or (act.exact or act.words,))
        return list(read) or list(dict.fromkeys(source for found in echoes for source in found))

    def _was_refused(self, act: Act, call: CheckedCall, turn: Turn) -> bool:
        """True where the owner said no to exactly this a short time ago, and has not said it themselves since."""
        from nanoclaw.plugins.taint import sources

        if not (asks := self._host.get("approvals")) or not asks.was_refused(call, turn, turn.now() - REFUSED_FOR):
            return False
        said = sources.last_said(turn.history)
        return not any(sources.is_said(text, said) for text in act.contents or (act.said or act.exact or act.words,))

    def _carries(self, query: str, turn: Turn) -> str:
        """Why a search may tell something of the conversation."""
        from nanoclaw.plugins.taint import searches, sources

        others = sources.others_texts(turn.history, self.public.trusted, by_models=False)
        asked = sources.searched(turn.history)
        known = [sources.last_said(turn.history), *(text for _, text in others), *asked]
        private = [sources.own_texts(turn.history), searches.own_parts(turn.system), *sources.own_results(turn.history)]
        return searches.carries(query, known, private, turn.now())

    async def _brings(self, call: CheckedCall) -> str:
        """The source of files that may come by a command which has the network."""
        has_network = call.arguments.get("beyond") or await self._has_network()
        return _BY_NETWORK if has_network and re.search(_NET, str(call.arguments["command"])) else ""

    async def _has_network(self) -> bool:
        sandbox = self._host.get("sandbox")
        return not (sandbox and await sandbox.confines())

    async def after_tool(self, call: CheckedCall, result: ToolResult, turn: Turn) -> ToolResult | None:
        if call.name in _WRITES and not result.is_error:
            if call.name == "write_file" and not self._read(call, turn):
                from nanoclaw.beneath.paths import name_beneath

                self.public.files.unmark(turn, name_beneath(self._host.workspace, str(call.arguments["path"])))
            return None
        ran = self._ran.get(turn.id, {}).get(call.id, Ran())
        if ran.before:
            await self._mark_changed(turn, self._read(call, turn), ran.before, ran.brings)
        if not result.outside and (sources := await self._shown(call, result, ran)):
            return result._replace(outside=", ".join(sources))
        return result

    async def _mark_changed(self, turn: Turn, read: Sequence[str], before: FileListing, brings: str) -> None:
        """Mark what a command changed, or, where it has read nothing of others, what came by it."""
        import asyncio

        from nanoclaw.plugins.taint.acts import is_guarded

        is_again = card.is_again if (card := self._host.get("card")) else lambda path, was: False
        found = await asyncio.to_thread(self.public.files.changed_since, before, is_again, only_new=not read)
        own = [one for one in found if not is_guarded(self._host.workspace, one)]
        self.public.files.mark(turn, own, read or [brings])

    async def _shown(self, call: CheckedCall, result: ToolResult, ran: Ran) -> list[str]:
        """Sources of the text that a result shows."""
        if call.name == "exec":
            command = str(call.arguments["command"])
            if self._has_printed_nothing(call, result):
                return []
            await self.public.files.refresh()
            named = [*ran.named, *self._remembered(result.text)]
            if not call.arguments.get("background"):  # its result is the program's own words
                named += self.public.files.named_in(command, {}) + self.public.files.shown_in(result.text)
            if not named and re.search(_NET, command) and await self._has_network():
                return [_BY_NETWORK]
            return list(dict.fromkeys(named))
        if call.name == "process":
            return [] if result.is_error else await self._shown_by_process(call, result.text)
        if call.name in ("read_file", *_LISTS):
            await self.public.files.refresh()
        if call.name == "read_file" and not result.is_error:
            path = str(call.arguments["path"])
            found = self.public.files.source(path) or self._came(path)
            memory = self._host.get("memory")
            return [found] if found else list(memory.others(path, 1, sys.maxsize)) if memory else []
        if call.name in _LISTS:
            if result.is_error:
                return []
            base = str(call.arguments.get("path", "."))
            inside = self.public.files.source(base) or self.public.files.source_of_folder(base) or self._came(base)
            return [inside] if inside else self.public.files.shown_in(result.text) + self._remembered(result.text)
        return []

    async def _shown_by_process(self, call: CheckedCall, text: str) -> list[str]:
        """Sources of what a process in the background shows: those that its command names, notes, or anybody's with
        input."""
        action, process = call.arguments.get("action"), int(call.arguments.get("id") or 0)
        if action == "input":
            self._with_input.add(process)
        if action not in ("output", "wait"):
            return []
        await self.public.files.refresh()
        if await self._has_network() or (process in self._with_input and self.public.files.has_any()):
            return [f"process {process}"]
        named = self.public.files.named_in(self._host.get("shell").command_of(process), {})
        return list(dict.fromkeys([*named, *self._remembered(text)]))

    def _has_printed_nothing(self, call: CheckedCall, result: ToolResult) -> bool:
        """True for a command of whose work the model reads the program's own words alone."""
        shell, given = self._host.get("shell"), call.arguments
        about = shell.about_sandbox(command=given["command"], is_beyond=bool(given.get("beyond"))) if shell else ""
        return result.text.strip() in ("[exit status 0]", f"[exit status 0; {about}]")

    def _remembered(self, text: str) -> list[str]:
        """Sources of notes and facts in a text that were learned from others' text."""
        memory = self._host.get("memory")
        return list(memory.origins.shown_in(text)) if memory and memory.origins.has_others else []

    def _came(self, path: str) -> str:
        """The source of a file that came with a message and lies where its sender keeps it."""
        from nanoclaw.plugins.taint.places import named

        return named(path.rpartition("/")[2]) if path.startswith("/") and path in self._host.records.attached() else ""

    def on_end(self, ended: Ended, turn: Turn, tx: Tx) -> None:
        self.public.drop(turn)
        self._ran.pop(turn.id, None)
        for path, was in self._was.pop(turn.id, {}).items():
            if path not in {one.target for one in turn.effects}:  # it was refused
                self.public.files.mark_at_once(path, was, tx)

    # --- what the owner sees -----------------------------------------------------------------------------------------

    def commands(self) -> Iterable[Command]:
        told = "files of the workspace with others' text; /taint clean notes.md says that one has none"
        return [Command("taint", told, self._list, private=True, part_of="answer")]

    async def _list(self, said: Said) -> Reply:
        await self.public.files.refresh()
        verb, _, rest = said.argument.partition(" ")
        if verb == "clean" and (path := rest.strip().removeprefix("./")):
            if not self.public.files.has_mark(path):
                return Reply(f"{path} is not marked. {_INBOXES}")
            return Reply(f"{path} counts as yours.", change=partial(self.public.files.clean, path))
        if said.argument:
            return Reply("/taint shows the files; /taint clean notes.md takes the mark off one.")
        lines = [f"- {path}: {source[:200]}" for path, source in sorted(self.public.files.of_others().items())]
        own = [path for path, source in sorted(self.public.files.all().items()) if not source]
        lines += [f"Yours, as you said: {', '.join(own)}"] if own else []
        return Reply("\n".join([*(lines or ["No file is marked."]), _INBOXES]))

    async def check(self, deep: bool) -> Iterable[Finding]:
        count, trusted = len(self.public.files.of_others()), ", ".join(self._settings.trusted) or "no source"
        return [Finding(True, f"{count} file{'s' * (count != 1)} with others' text; trusted: {trusted}", "taint")]

    async def audit(self) -> Iterable[Finding]:
        text = "what these say is treated as your own words: "
        trusted = self._settings.trusted
        return [Finding(True, text + ", ".join(trusted), "taint", risk="warning")] if trusted else []


_INBOXES = "All that lies in media/, downloads/ and outputs/ counts as others' text, but for what commands printed."
_SAID_NO = (
    "not done: the person said no to exactly this within the last hour. Accept that, and don't do it another way; they "
    "can say it themselves."
)
_SAID_NO_BEFORE = "You said no to exactly this within the last hour."
_REFUSED = (
    "not done: {sources} was read here, which is others' text, and nobody is there to say yes to this: {words}. Say in "
    "your answer what was left undone."
)


def _named(sources: Sequence[str]) -> str:
    more = f" and {len(sources) - SHOWN_SOURCES} more" if len(sources) > SHOWN_SOURCES else ""
    return ", ".join(source[:200] for source in sources[:SHOWN_SOURCES]) + more


def _read_before(sources: Sequence[str]) -> str:
    from nanoclaw.escapes import one_line

    return f"I have read others' text ({one_line(_named(sources), 500)}), which may be behind this."


def _ask(act: Act, why: str, call: CheckedCall) -> Ask:
    from nanoclaw.escapes import one_line

    is_found = call.name in ("memory_forget", "browse_do")  # what it is about is not in its arguments
    return Ask(f"May I {one_line(act.words, 200)}? {why}", exact=act.exact if is_found else "", scope=act.scope)
