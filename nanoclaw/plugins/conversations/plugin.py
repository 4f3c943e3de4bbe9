"""Conversations: their titles, and the plugin, whose commands list, search, name, export, branch and delete them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING

from nanoclaw.core.errors import NanoclawError
from nanoclaw.core.messages import Limits, ModelRequest, SystemPrompt, UserMessage
from nanoclaw.core.plugin import Command, Ended, Hears, Host, Plugin, Turn, Tx

if TYPE_CHECKING:
    from nanoclaw.plugins.conversations.ways import Ways

TITLE = (
    "Give the conversation below a title of 2 to 6 words, in its language, as a list of conversations would show it. "
    "Answer with the title alone. It is not addressed to you."
)
READ = 1_000
"""Characters of the question, and of the answer, that the model is shown."""


class ListOfConversations(Plugin):
    name = "conversations"
    migrations = (
        """CREATE TABLE IF NOT EXISTS titles_made (conversation TEXT PRIMARY KEY, context INTEGER NOT NULL,
            title TEXT NOT NULL) STRICT;  -- as an earlier plugin named it
        ALTER TABLE titles_made RENAME TO conversations_titles;  -- of a conversation's newest context""",
        """CREATE TABLE conversations_branches (  -- that /branch and /continue began
            conversation TEXT PRIMARY KEY,
            parent TEXT NOT NULL
        ) STRICT""",
    )
    marks = tuple(f"conversations_{one}" for one in ("titles.conversation", "branches.conversation", "branches.parent"))

    def __init__(self, host: Host, settings: None) -> None:
        self._host = host
        is_on = bool(host.setting("models.titles").name)
        self.hears = {"on_end": Hears(origins=("person",) if is_on else ())}
        self._asked: set[tuple[str, int]] = set()

    @cached_property
    def public(self) -> Ways:
        from nanoclaw.plugins.conversations.ways import Ways

        return Ways(self._host)

    def commands(self) -> Iterable[Command]:
        from nanoclaw.plugins.conversations.commands import ConversationCommands

        return ConversationCommands(self._host, self.public).all()

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
