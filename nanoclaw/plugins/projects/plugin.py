"""The plugin: which conversation belongs to which project, and what its model is told of it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from nanoclaw.atomic_write import reason, replace_in
from nanoclaw.beneath.paths import PathError, open_folder, open_for_reading, open_parent_for_writing
from nanoclaw.core.errors import NanoclawError
from nanoclaw.core.events import GoTo
from nanoclaw.core.messages import Address, CheckedCall, Message, UserMessage
from nanoclaw.core.plugin import Command, Draft, Hears, Host, Plugin, Refuse, Reply, Said, Turn, Tx
from nanoclaw.outside_text import block, inside
from nanoclaw.runtime_metadata import one_line

USAGE = (
    "/project NAME begins a conversation in a project, /project new NAME WISHES makes one, /project note TEXT,"
    " /project search WORDS; /project none leaves it."
)
_ABOUT = (
    "This conversation belongs to the person's project {name}; its files are in {folder}. Keep what will matter in it"
    " later in {folder}/NOTES.md by append_file, a line for each, and not in memory."
)

FOLDER, WISHES, NOTES = "projects", "PROJECT.md", "NOTES.md"
MOST, MOST_WISHES, LONGEST = 1_000_000, 12_000, 2_000
"""Bytes of a file that are looked at, of what the person wants that are told, and of a line."""

FEW, MOST_TOLD, CHARACTERS = 20, 12, 1_500
"""Notes that are all told; of more the most that a message brings up, and their characters."""

_WORD = re.compile(r"\w{3,}")
NAME = re.compile(r"[^\W_][\w-]{0,39}")


class ProjectFolders:
    def __init__(self, host: Host) -> None:
        self._host = host

    def of(self, conversation: Address) -> str:
        """The project of a conversation, '' for none, or where its folder is gone."""
        found = self._host.read("SELECT project FROM projects_chosen WHERE conversation = ?", str(conversation))
        return next((name for (name,) in found if name in self.names()), "")

    def names(self) -> list[str]:
        folders = (self._host.workspace / FOLDER).glob("*/")
        return sorted(one.name for one in folders if NAME.fullmatch(one.name) and not one.is_symlink())

    def wishes(self, name: str) -> list[str]:
        text = "\n".join(self.lines(name, WISHES))[:MOST_WISHES]
        return [line for line in text.splitlines() if line.strip("# ").casefold() != name.casefold()]

    def tells(self, message: Message) -> bool:
        """True for the message that begins a conversation of a project."""
        return message.text.startswith(_ABOUT.partition("{")[0]) and getattr(message, "origin", "") == "runtime"

    def lines(self, name: str, file: str) -> list[str]:
        """Lines of one of its files as a model is told them; none where it can't be read."""
        try:
            text = self._data(name, file)[:MOST].decode("utf-8", "replace")
        except OSError:
            return []
        return [one_line(line.strip(), LONGEST) for line in text.splitlines() if line.strip()]

    def _data(self, name: str, file: str) -> bytes:
        try:
            with open_for_reading(self._host.reach, f"{FOLDER}/{name}/{file}") as opened:
                return opened.read()
        except FileNotFoundError:
            return b""

    def source(self, name: str, file: str) -> str:
        """The source of others' text in one of its files, '' for none."""
        taint = self._host.get("taint")
        source = taint.files.source(f"{FOLDER}/{name}/{file}") if taint else ""
        return source if source and taint.untrusted([source]) else ""

    def add(self, name: str, file: str, text: str) -> None:
        """Add lines at the end of one of its files."""
        path = f"{FOLDER}/{name}/{file}"
        try:
            before = self._data(name, file)
            data = before + b"\n" * (before[-1:] not in (b"", b"\n")) + text.encode("utf-8", "replace")
            with open_parent_for_writing(self._host.reach, path) as (folder, last):
                replace_in(folder, last, data)
        except OSError as error:
            raise NanoclawError(f"{path} could not be written: {reason(error)}.") from None


def recalled(notes: Sequence[str], message: str, is_told: Callable[[str], bool]) -> list[str]:
    """Notes that a message brings up, in their order: those with its rarer words, the newer first."""
    if len(notes) <= FEW and sum(map(len, notes)) <= CHARACTERS:
        return [note for note in notes if not is_told(note)]
    words = [set(_WORD.findall(note.casefold())) for note in notes]
    count, asked = Counter(word for one in words for word in one), set(_WORD.findall(message.casefold()))
    scores = [sum(1 / count[word] for word in one & asked) for one in words]
    found, room = list[int](), CHARACTERS
    for at in sorted(range(len(notes)), key=lambda at: (scores[at], at), reverse=True)[:MOST_TOLD]:
        if scores[at] and not is_told(notes[at]) and len(notes[at]) <= room:
            found.append(at)
            room -= len(notes[at])
    return [notes[at] for at in sorted(found)]


class Projects(Plugin):
    """A project is a folder of the workspace. Its notes are outside of what memory looks through."""

    name = "projects"
    migrations = (
        """CREATE TABLE projects_chosen (
            session INTEGER PRIMARY KEY REFERENCES sessions ON DELETE CASCADE,
            conversation TEXT NOT NULL,            -- channel:chat
            project TEXT NOT NULL
        ) STRICT""",
    )
    marks = ("projects_chosen.conversation",)
    hears: Mapping[str, Hears] = {
        "before_turn": Hears(rows="projects_chosen"),
        "before_tool": Hears(tools=("memory_add",)),
    }

    def __init__(self, host: Host, settings: None) -> None:
        self._host = host
        self._folders = self.public = ProjectFolders(host)

    # --- what its model is told --------------------------------------------------------------------------------------

    async def before_turn(self, draft: Draft, turn: Turn) -> Draft | None:
        """Tell notes that this message brings up, and what the person wants here, as far as the history lacks it."""
        name = self._folders.of(turn.conversation) if turn.profile.mode == "full" else ""
        if not name:
            return None
        remarks, others = list[str](), list[tuple[str, str]]()

        def is_told(line: str) -> bool:
            told = inside(block("", line))
            return any(told in message.text for message in turn.history)

        wishes = [line for line in self._folders.wishes(name) if not is_told(line)]
        notes = recalled(self._folders.lines(name, NOTES), draft.message.text, is_told)
        for file, lines in ((WISHES, wishes), (NOTES, notes)):
            if lines and (source := self._folders.source(name, file)):
                others.append((source, "\n".join(lines)))
            elif lines:
                remarks += [f"{FOLDER}/{name}/{file}:", *lines]
        return draft._replace(remarks=(*remarks, *draft.remarks), others=(*others, *draft.others))

    async def before_tool(self, call: CheckedCall, turn: Turn) -> Refuse | None:
        name = self._folders.of(turn.conversation)
        where = f"{FOLDER}/{name}/{NOTES}"
        told = f"this conversation belongs to the project {name}: add the line to {where} by append_file"
        return Refuse(told) if name else None

    def on_reset(self, conversation: Address, tx: Tx) -> None:
        """The next context of the conversation is told anew."""
        if name := self._folders.of(conversation):
            tx.after(lambda: self._host.spawn(self._host.write(lambda tx: self._tell(conversation, name, tx))))

    def _tell(self, conversation: Address, name: str, tx: Tx) -> None:
        """Begin a conversation with what the person wants in its project."""
        source = self._folders.source(name, WISHES)
        wishes = "\n".join(self._folders.wishes(name))
        text = _ABOUT.format(name=name, folder=f"{FOLDER}/{name}")
        if wishes:
            text += f"\n\nWhat the person wants in it ({WISHES}):\n{block(source, wishes) if source else wishes}"
        self._host.conversations.add(conversation, [[UserMessage(text, self._host.now(), "runtime", (), source)]], tx)

    # --- commands ----------------------------------------------------------------------------------------------------

    def commands(self) -> Iterable[Command]:
        told = "spaces with wishes, folders and notes of their own: /project "
        told += "NAME, new NAME, note TEXT, search WORDS, none"
        return [Command("project", told, self._project, private=True, part_of="history")]

    def _project(self, said: Said, tx: Tx) -> str | Reply:
        action, _, rest = said.argument.strip().partition(" ")
        match action:
            case "" | "list":
                return self._listed(said.conversation)
            case "new":
                return self._made(rest, said, tx)
            case "note":
                return self._noted(rest.strip(), said)
            case "search":
                return self._searched(rest)
            case "none":
                tx.execute("DELETE FROM projects_chosen WHERE conversation = ?", str(said.conversation))
                return "This conversation belongs to no project."
        return self._chosen(self._known(said.argument.strip()), said, tx)

    def _listed(self, here: Address) -> Reply:
        """The projects, each with its conversations, and what is wrong with this one."""
        own, rows = self._folders.of(here), list[dict[str, Any]]()
        for name in self._folders.names():
            sql = "SELECT conversation FROM projects_chosen WHERE project = ? ORDER BY session"
            rows.append({"name": name, "conversations": [key for (key,) in self._host.read(sql, name)]})
        lines = [
            f"- {row['name']}: {', '.join(row['conversations']) or 'no conversation'}{' ← here' * (row['name'] == own)}"
            for row in rows
        ]
        shut = [f"Tools may not open {path}: read or write in [files] can name it." for path in self._shut(own)]
        return Reply("\n".join([*(lines or ["There is no project yet."]), *shut, "", USAGE]), {"projects": rows})

    def _shut(self, name: str) -> Iterable[str]:
        """Folders named in PROJECT.md ("Folder: ~/bees") that tools may not open."""
        for line in self._folders.wishes(name) if name else ():
            if found := re.fullmatch(r"[-* ]*folder: *`?([^`]+)`?", line, re.IGNORECASE):
                try:
                    with open_folder(self._host.reach, found[1].strip()):
                        pass
                except PathError:
                    yield found[1].strip()

    def _chosen(self, name: str, said: Said, tx: Tx) -> Reply:
        """A conversation that has begun stays what it is: in a terminal another one begins."""
        here, told = said.conversation, f"This conversation belongs to the project {name} now."
        if any(getattr(one, "origin", "") == "person" for one in self._host.conversations.of(here).history):
            if said.address.channel != "terminal" or said.shell:
                raise NanoclawError(f"this conversation has begun: begin another one, then /project {name}.")
            taken = {one.key for one in self._host.conversations.all()}
            names = (name, *(f"{name}-{number}" for number in range(2, len(taken) + 3)))
            here = Address("terminal", next(one for one in names if f"terminal:{one}" not in taken))
            told = f"`{here.chat}` belongs to the project {name}. You are there now."
            tx.after(lambda: self._host.show(said.address, GoTo(here.chat)))
        session = self._host.conversations.of(here).id
        tx.execute("INSERT OR REPLACE INTO projects_chosen VALUES (?, ?, ?)", session, str(here), name)
        self._tell(here, name, tx)
        shut = [f"Tools may not open {path}: read or write in [files] can name it." for path in self._shut(name)]
        return Reply("\n".join([told, *shut]), {"project": name, "conversation": str(here)})

    def _made(self, argument: str, said: Said, tx: Tx) -> Reply:
        name, _, wishes = argument.strip().partition(" ")
        if not NAME.fullmatch(name) or name in ("new", "note", "search", "none", "list"):
            raise NanoclawError(f"the name of a project is one word of letters, digits and -, not {name!r}.")
        if name in self._folders.names():
            raise NanoclawError(f"there is a project {name} already: /project {name} begins a conversation in it.")
        self._folders.add(name, WISHES, f"# {name}\n\n{wishes.strip()}\n")
        chosen = self._chosen(name, said, tx)
        how = f"What you want in it stands in {FOLDER}/{name}/{WISHES}; “Folder: PATH” there names a folder of it."
        return chosen._replace(text=f"{chosen.text} {how}")

    def _noted(self, text: str, said: Said) -> str:
        if not (name := self._folders.of(said.conversation)) or not text:
            raise NanoclawError(f"/project note TEXT keeps a note in the project of its conversation. {USAGE}")
        self._folders.add(name, NOTES, f"- {self._host.now():%Y-%m-%d}: {one_line(text, LONGEST)}\n")
        return f"Noted in {FOLDER}/{name}/{NOTES}."

    def _searched(self, words: str) -> str:
        """Notes of all projects, which only this looks through."""
        found = [
            f"- {name}: {line.lstrip('- ')}"
            for name in self._folders.names()
            for line in self._folders.lines(name, NOTES)
            if all(word in line.casefold() for word in words.casefold().split())
        ]
        return "\n".join(found[-30:]) or f"No note of a project has “{words}”."

    def _known(self, name: str) -> str:
        if name in (names := self._folders.names()):
            return name
        from difflib import get_close_matches

        near = "".join(f" Did you mean {one}?" for one in get_close_matches(name, names, 1))
        raise NanoclawError(f"there is no project {name!r}.{near} {USAGE}")
