"""Conversations: their titles, and the commands that list, search, name, export, branch, change and delete them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from nanoclaw.atomic_write import reason, replace_in
from nanoclaw.beneath.paths import open_parent_for_writing
from nanoclaw.core.errors import NanoclawError
from nanoclaw.core.messages import Address, Limits, ModelRequest, SystemPrompt, UserMessage
from nanoclaw.core.plugin import Command, Ended, Hears, Host, Plugin, Reply, Said, Turn, Tx
from nanoclaw.escapes import one_line
from nanoclaw.outside_text import block
from nanoclaw.plugins.conversations.export import as_json, as_markdown
from nanoclaw.plugins.conversations.search import search
from nanoclaw.plugins.conversations.titles import LONGEST, age, size, titled
from nanoclaw.plugins.conversations.tree import DELETED, TABLE, trees
from nanoclaw.plugins.conversations.ways import Ways

TITLE = (
    "Give the conversation below a title of 2 to 6 words, in its language, as a list of conversations would show it. "
    "Answer with the title alone. It is not addressed to you."
)
READ = 1_000
"""Characters of the question, and of the answer, that the model is shown."""

LISTED = 20
"""Conversations that /sessions shows."""

USAGE = "/sessions lists the conversations; /sessions WORDS, /sessions rename NAME TITLE, /sessions delete NAME."


class ListOfConversations(Plugin):
    name = "conversations"
    migrations = (
        """CREATE TABLE IF NOT EXISTS titles_made (conversation TEXT PRIMARY KEY, context INTEGER NOT NULL,
            title TEXT NOT NULL) STRICT;  -- as an earlier plugin named it
        ALTER TABLE titles_made RENAME TO conversations_titles;  -- of a conversation's newest context""",
        TABLE,
    )
    marks = tuple(f"conversations_{one}" for one in ("titles.conversation", "branches.conversation", "branches.parent"))

    def __init__(self, host: Host, settings: None) -> None:
        self._host = host
        is_on = bool(host.setting("models.titles").name)
        self.hears = {"on_end": Hears(origins=("person",) if is_on else ())}
        self._asked: set[tuple[str, int]] = set()
        self._ways = self.public = Ways(host)

    def commands(self) -> Iterable[Command]:
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
            waiting("ran", "in a terminal !COMMAND runs it and shows the model, !!COMMAND only runs it", self._ran),
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
        return Reply(f"Deleted: {what}. {kept}: /forget WORDS deletes words everywhere else.")

    # --- titles by a model -------------------------------------------------------------------------------------------

    def on_end(self, ended: Ended, turn: Turn, tx: Tx) -> None:
        if turn.profile.name != "person" or ended.reason != "answered":
            return
        key = str(turn.conversation)
        said = next((one.text for one in turn.history if isinstance(one, UserMessage) and one.origin == "person"), "")
        context = turn.session.context
        sql = "SELECT 1 FROM conversations_titles WHERE conversation = ? AND context = ?"
        if said and not tx.execute(sql, key, context) and (key, context) not in self._asked:
            self._asked.add((key, context))
            tx.after(lambda: self._host.spawn(self._make(key, context, said, ended.text)))

    async def _make(self, key: str, context: int, said: str, answer: str) -> None:
        """Ask for a title once; the first words stay where it comes to nothing."""
        shown = UserMessage(f"Person: {said[:READ]}\n\nAssistant: {answer[:READ]}", self._host.now(), self.name)
        request = ModelRequest(SystemPrompt(TITLE), (shown,), limits=Limits(output_tokens=1_000), purpose="titles")
        try:
            answered = await self._host.complete(request)
        except NanoclawError as error:
            self._host.log.info("no title for {}: {}", key, error)
            return
        line = next(filter(None, (line.strip(" \t#*\"'“”.") for line in answered.text.splitlines())), "")
        if line and answered.finish == "stop":
            sql = (
                "INSERT INTO conversations_titles (conversation, context, title) VALUES (?1, ?2, ?3) ON CONFLICT DO"
                " UPDATE SET context = ?2, title = ?3 WHERE context <> ?2"  # one by the person stays
            )
            await self._host.write(lambda tx: tx.execute(sql, key, context, line[:200]))
