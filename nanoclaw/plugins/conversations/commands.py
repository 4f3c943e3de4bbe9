"""The commands that list, search, name, export, branch, change and delete conversations."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import tzinfo
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from nanoclaw.atomic_write import reason, replace_in
from nanoclaw.beneath.paths import open_parent_for_writing
from nanoclaw.core.errors import NanoclawError
from nanoclaw.core.messages import Address, AssistantMessage, Message, ToolResult, UserMessage
from nanoclaw.core.plugin import Command, Host, Reply, Said, Tx
from nanoclaw.escapes import one_line
from nanoclaw.outside_text import block, own_words, without_documents
from nanoclaw.plugins.conversations.titles import LONGEST, age, size, titled
from nanoclaw.plugins.conversations.ways import Ways
from nanoclaw.runtime_metadata import said_to_program

if TYPE_CHECKING:
    from nanoclaw.core.records import Records

LISTED = 20
"""Conversations that /sessions shows."""

USAGE = "/sessions lists the conversations; /sessions WORDS, /sessions rename NAME TITLE, /sessions delete NAME."
FOUND = 20
"""Places that a search shows."""

_LOOKED_AT = 2_000  # newest messages with the longest word
_BEFORE, _EXCERPT = 40, 160  # characters before the first word, and in all
_CALL, _RESULT = 300, 600  # characters of a call, and of its result
DELETED = """UPDATE conversations_branches SET parent =
    COALESCE((SELECT parent FROM conversations_branches WHERE conversation = ?1), '') WHERE parent = ?1"""
"""Hang what began from a conversation that is deleted below the one that it began from."""


class ConversationCommands:
    def __init__(self, host: Host, ways: Ways) -> None:
        self._host, self._ways = host, ways

    def all(self) -> Iterable[Command]:
        told = "your conversations; /sessions WORDS searches them; /sessions rename NAME TITLE, /sessions delete NAME"
        back, again = "back to before message N, files too; /rewind lists them", "the last message again: /retry MODEL"
        command = partial(Command, private=True, part_of="history")
        waiting = partial(command, waits=True)
        return (
            command("sessions", told, self._sessions, cli=True),
            command("rename", "give this conversation a title", self._rename),
            waiting("branch", "a new conversation with all up to message N", self._ways.branch),
            command("tree", "this conversation and its branches; /tree WORDS finds some, /tree all", self._tree),
            waiting("retry", again, self._ways.retry),
            waiting("edit", "other words in place of your last message", self._ways.edit),
            waiting("rewind", back, self._ways.rewind),
            waiting("continue", "a new conversation that begins with a summary of this one", self._ways.go_on),
            waiting("ran", "!COMMAND in a terminal runs it and tells the model; !! only runs it", self._ran, typed="!"),
            command("export", "write it to a file: /export [markdown|json] [NAME]", self._export),
        )

    def _rename(self, said: Said, tx: Tx) -> str:
        return self._name(said.conversation, said.argument, tx)

    async def _sessions(self, said: Said) -> Reply:
        action, _, rest = said.argument.strip().partition(" ")
        if action in ("", "list"):
            return self._listed(LISTED if not action and not said.shell else None, is_all=bool(action))
        if action not in ("rename", "delete", "open"):
            return self._searched(rest if action == "search" else said.argument)
        found, rest = self._found(rest.strip())
        if action == "open":
            return await self._host.write(lambda tx: self._ways.open(found, said, tx))
        if action == "delete":
            return await self._delete(found, said, is_sure=rest == "yes")
        return Reply(await self._host.write(lambda tx: self._name(found, rest, tx)))

    def _listed(self, most: int | None, is_all: bool) -> Reply:
        """Without `is_all` only those in which a person wrote, or that have a title: no runs of heartbeats and jobs."""
        rows = titled(self._host.read, self._host.conversations.all())
        rows = [row for row in rows if is_all or row["messages"] or row["title"]]
        more = [f"{len(rows[most:])} more: `/sessions list`"] if most and rows[most:] else []
        return Reply("\n".join([*map(self._line, rows[:most]), *more]) or "None yet.", {"sessions": rows})

    def _line(self, row: Mapping[str, Any]) -> str:
        about = ", ".join(filter(None, (age(row["last"], self._host.now()), size(row))))
        return f"- `{row['name']}`: {row['title'] or 'no title'} ({about})"

    def _searched(self, argument: str) -> Reply:
        """Titles and messages with all these words; message 12 is the twelfth that the person wrote there."""
        named, found = self._with(argument.casefold().split())
        lines = [
            f"- `{one['conversation']}` {one['message']}, {age(one['at'], self._host.now())}, {one['who']}:"
            f" {one['excerpt']}"
            for one in found
        ]
        said = "\n".join([*map(self._line, named[:LISTED]), *lines]) or f"Nothing was said about “{argument}”. {USAGE}"
        return Reply(said, {"sessions": named, "found": found})

    def _with(self, words: Sequence[str]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Conversations with all these words in their title, and messages that have them."""
        rows = titled(self._host.read, self._host.conversations.all())
        named = [row for row in rows if all(word in row["title"].casefold() for word in words)]
        return named, search(self._host.records, words)

    async def _tree(self, said: Said) -> Reply:
        """Branches of this conversation's tree, of all trees, or with words those in whose title or messages they are;
        the others are folded away."""
        rows = titled(self._host.read, self._host.conversations.all())
        parents = dict(self._host.read("SELECT conversation, parent FROM conversations_branches"))
        words, here = said.argument.casefold().split(), str(said.conversation)
        if words in ([], ["all"]):
            found = trees(rows, parents, lambda row: row["name"] in parents or row["name"] == here)
            found = [one for one in found if words or here in {row["name"] for _, row in one}]
        else:
            named, said_there = self._with(words)
            has = {row["name"] for row in named} | {one["conversation"] for one in said_there}
            found = trees(rows, parents, lambda row: row["name"] in has)
        lines = [
            f"{'  ' * depth}{self._line(row)}{' ← here' * (row['name'] == here)}" for one in found for depth, row in one
        ]
        data = [{**row, "depth": depth} for one in found for depth, row in one]
        return Reply("\n".join(lines) or f"No branch has “{said.argument}”.", {"tree": data})

    def _ran(self, said: Said, tx: Tx) -> str:
        """Make what the person ran by hand part of the conversation. No owner wrote its output."""
        if not (text := said.argument.strip()):
            raise NanoclawError("!COMMAND in a terminal runs it and shows the model what came of it.")
        source = "a command that the person ran"
        shown = UserMessage(block(source, self._host.redact(text)), self._host.now(), "runtime", (), source)
        self._host.conversations.add(said.conversation, [[shown]], tx)
        return "The model sees it with your next message."

    async def _export(self, said: Said) -> Reply:
        kind, _, name = said.argument.strip().partition(" ")
        if kind not in ("markdown", "json"):
            kind, name = "markdown", said.argument
        place = self._found(name.strip())[0] if name.strip() else said.conversation
        messages = [one.message for one in self._host.conversations.of(place).said(2**62, -1)]
        if not messages:
            raise NanoclawError("nothing was said there yet.")
        (row,) = titled(self._host.read, [one for one in self._host.conversations.all() if one.key == str(place)])
        hide, now = self._host.redact, self._host.now()
        if kind == "json":
            text = as_json(str(place), row["title"], messages, hide)
        else:
            text = as_markdown(row["title"], messages, hide, now.tzinfo)
        chat = re.sub(r"[^\w.-]+", "-", str(place).removeprefix("terminal:")).strip("-.") or "conversation"
        file = f"exports/{chat}-{now:%Y-%m-%d-%H%M%S}.{'json' if kind == 'json' else 'md'}"
        try:
            with open_parent_for_writing(self._host.reach, file) as (folder, last):
                replace_in(folder, last, text)
        except OSError as error:
            raise NanoclawError(f"{file} could not be written: {reason(error)}.") from None
        return Reply(f"Written to {file} ({size(row)}).", {"file": file, "conversation": str(place), "format": kind})

    def _found(self, text: str) -> tuple[Address, str]:
        """The conversation whose name a text begins with, and the rest. Raises NanoclawError."""
        keys = [one.key for one in self._host.conversations.all()]
        names = {key.removeprefix("terminal:"): key for key in keys} | {key: key for key in keys}
        for name in sorted(names, key=len, reverse=True):
            if f"{text} ".startswith(f"{name} "):
                return Address(*names[name].partition(":")[::2]), text[len(name) :].strip()
        raise NanoclawError(f"there is no conversation {text!r}: /sessions lists those there are." if text else USAGE)

    def _name(self, conversation: Address, title: str, tx: Tx) -> str:
        if not (title := one_line(title.strip(), LONGEST)):
            raise NanoclawError(f"/rename TITLE gives this conversation a title. {USAGE}")
        context = self._host.conversations.of(conversation).context
        sql = "INSERT OR REPLACE INTO conversations_titles (conversation, context, title) VALUES (?, ?, ?)"
        tx.execute(sql, str(conversation), context, title)
        return f"{conversation} is now called “{title}”."

    async def _delete(self, conversation: Address, said: Said, *, is_sure: bool) -> Reply:
        conversations, key = self._host.conversations, str(conversation)
        what = f"{key} “{self._ways.title(conversation)}”"
        if not is_sure:
            start = f"{said.shell} " if said.shell else "/"
            return Reply(f"`{start}sessions delete {key} yes` deletes {what} for good.")
        await conversations.stop(conversation)
        await conversations.free(conversation)

        def delete(tx: Tx) -> None:
            tx.execute(DELETED, key)
            for table in ("titles", "branches"):
                tx.execute(f"DELETE FROM conversations_{table} WHERE conversation = ?", key)
            conversations.erase(conversation, tx)

        await self._host.write(delete)
        self._host.drop_bytes()
        kept = "What it cost and did stays on record, notes and files stay, and backups still have it"
        return Reply(f"Deleted: {what}. {kept}: `nanoclaw memory forget WORDS` deletes words everywhere.")


Row = Mapping[str, Any]


def trees(
    rows: Sequence[Row], parents: Mapping[str, str], is_wanted: Callable[[Row], bool]
) -> list[list[tuple[int, Row]]]:
    """Each conversation with its depth, followed by its branches, the newest first. One that is not wanted is there
    only above one that is."""
    below, names = defaultdict[str, list[Row]](list), {row["name"] for row in rows}
    for row in rows:
        parent = parents.get(row["name"], "")
        below[parent if parent in names else ""].append(row)

    def shown(row: Row, depth: int) -> list[tuple[int, Row]]:
        inner = [one for child in below[row["name"]] for one in shown(child, depth + 1)]
        return [(depth, row), *inner] if inner or is_wanted(row) else []

    return [found for row in below[""] if (found := shown(row, 0))]


# --- search: word by word, whatever their case -----------------------------------------------------------------------


def search(records: Records, words: Sequence[str]) -> list[dict[str, Any]]:
    """The newest messages that have all these words: conversation, number of the message there (that of the question,
    for an answer), its row, time, who said it, and the words around the first one."""
    folded = [word.casefold() for word in words]

    @cache
    def asked(key: str) -> list[int]:
        return [turn for turn, *_ in records.asked(Address(*key.partition(":")[::2]))]

    found = list[dict[str, Any]]()
    for key, turn, row, kind, at, text in records.find(_pattern(max(words, key=len)), _LOOKED_AT):
        text = without_documents(own_words(text))
        if len(found) < FOUND and all(word in text.casefold() for word in folded):
            number = sum(one <= turn for one in asked(key))
            who = "you" if kind == "user" else "nanoclaw"
            place = {"conversation": key, "message": number, "row": row, "at": at, "who": who}
            found.append({**place, "excerpt": _excerpt(text, folded[0])})
    return found


def _pattern(word: str) -> str:
    """For LIKE, which knows the case of ASCII letters only: the others may be any."""
    escaped = word.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{''.join(sign if sign.isascii() else '%' for sign in escaped)}%"


def _excerpt(text: str, word: str) -> str:
    start = max(0, text.casefold().find(word) - _BEFORE)
    return one_line("…" * bool(start) + text[start : start + 2 * _EXCERPT], _EXCERPT)


# --- a conversation as a file that is passed on -----------------------------------------------------------------------


def as_markdown(title: str, messages: Sequence[Message], hide: Callable[[str], str], zone: tzinfo | None) -> str:
    """Words as they were said, a line for each call and its result; and not what else the program told the model."""
    parts = [f"# {one_line(hide(title), 200) or 'A conversation'}"]
    for message in messages:
        at = f"{message.at.astimezone(zone):%Y-%m-%d %H:%M}"
        match message:
            case UserMessage(origin=origin, text=text):
                own = said_to_program(text) if origin == "runtime" else without_documents(own_words(text))
                parts += [f"## You, {at}\n\n{hide(own)}"] if own or origin != "runtime" else []
            case AssistantMessage():
                calls = [f"- `{one_line(hide(f'{call.name} {call.arguments}'), _CALL)}`" for call in message.tool_calls]
                said = [hide(message.text.strip()), "\n".join(calls)]
                parts.append("\n\n".join([f"## nanoclaw, {at}", *filter(None, said)]))
            case ToolResult():
                parts.append(f"> {message.name}: {one_line(hide(message.text), _RESULT)}")
    return "\n\n".join(parts) + "\n"


def as_json(key: str, title: str, messages: Sequence[Message], hide: Callable[[str], str]) -> str:
    whole = {"conversation": key, "title": hide(title), "messages": [_object(one, hide) for one in messages]}
    return json.dumps(whole, ensure_ascii=False, indent=1) + "\n"


def _object(message: Message, hide: Callable[[str], str]) -> Mapping[str, Any]:
    about: dict[str, Any] = {"at": message.at.isoformat(), "text": hide(message.text)}
    match message:
        case UserMessage():
            return {"kind": "user", "origin": message.origin, **about}
        case AssistantMessage():
            calls = [{"name": call.name, "arguments": hide(str(call.arguments))} for call in message.tool_calls]
            return {"kind": "assistant", **about, "model": message.model, "calls": calls}
        case ToolResult():
            return {"kind": "result", "name": message.name, "is_error": message.is_error, **about}
