"""Other ways for a conversation to go: branch, retry, edit, rewind and continue, in messages that a person wrote."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby
from typing import Any

from nanoclaw.core.errors import NanoclawError, ProviderError, WorkspaceError
from nanoclaw.core.events import GoTo
from nanoclaw.core.messages import Address, AssistantMessage, Effect, Message, UserMessage
from nanoclaw.core.plugin import Host, NamedTuple, Reply, Said, Tx
from nanoclaw.escapes import BLANKS, one_line
from nanoclaw.plugins.conversations.titles import age, titled
from nanoclaw.runtime_metadata import said_to_program

LISTED, NAMED = 10, ("terminal", "page")
"""Messages that /rewind shows; channels whose conversations are names that a person may choose."""

_LAST = 2**62  # behind every row
_EFFECTS = 500  # of a conversation, that are looked at
_TITLE = "INSERT OR REPLACE INTO conversations_titles (conversation, context, title) VALUES (?, 1, ?)"
_BRANCHED = "INSERT OR REPLACE INTO conversations_branches (conversation, parent) VALUES (?, ?)"
_TITLED = 60
_SUMMARY = (
    "Sum up this conversation for a new one that goes on from it and sees nothing else of it: what the person wants,"
    " what was found and decided and why, what was done, what is open, with all names, figures, dates, files and"
    " addresses that matter. At most 600 words, in the language of the conversation. Call no tool."
)
_CARRIED = "This conversation goes on from an earlier one, {name}. Its summary:\n\n{text}"


class NumberedMessage(NamedTuple):
    """A message of the person's by its number. `context` is below 0 where it was taken back."""

    number: int
    turn: int
    row: int
    context: int
    at: str
    text: str


class Ways:
    def __init__(self, host: Host) -> None:
        self._host = host

    # --- a new conversation ------------------------------------------------------------------------------------------

    def branch(self, said: Said, tx: Tx) -> Reply:
        """All up to a message and its answer, in a conversation of its own."""
        conversation = said.conversation
        asked = self._asked(conversation)
        one = self._numbered(asked, said.argument)
        new = self._new(said, self._upto(conversation, asked, one), tx)
        if model := self._host.conversations.of(conversation).model:
            self._host.conversations.of(new).use_model(model)
        title = self.title(conversation) or one_line(asked[0].text, _TITLED)
        tx.execute(_TITLE, str(new), one_line(f"{title} (from {one.number})", _TITLED))
        what = f"has all up to message {one.number}, “{one_line(one.text)}”, and its answer"
        return self._opened(said, new, what, {"message": one.number}, tx)

    async def go_on(self, said: Said) -> Reply:
        """A summary of the conversation begins a new one."""
        async with self._host.beside(said) as turn:
            history = turn.history
            if not any(isinstance(one, UserMessage) and one.origin == "person" for one in history):
                raise NanoclawError("nothing was said here yet, so there is nothing to sum up.")
            ask = UserMessage(_SUMMARY, self._host.now(), "runtime")
            request = turn.request._replace(history=(*history, ask), memo=None, purpose="summaries")
            try:
                answer = await self._host.complete(request, turn)
            except ProviderError as error:
                raise NanoclawError(f"it could not be summed up: {error} /compact makes it shorter.") from error
        if not (words := answer.text.strip(BLANKS)):
            raise NanoclawError("the model wrote no summary: try again, or /branch takes all of it along.")
        sources = ", ".join(
            sorted({one.outside for one in history if not isinstance(one, AssistantMessage) and one.outside})
        )
        text = _CARRIED.format(name=said.conversation, text=words)
        summary, title = UserMessage(text, self._host.now(), "runtime", (), sources), self.title(said.conversation)

        def change(tx: Tx) -> Reply:
            new = self._new(said, [[summary]], tx)
            tx.execute(_TITLE, str(new), one_line(f"{title or said.conversation} (continued)", _TITLED))
            return self._opened(said, new, "begins with a summary of this one", {"summary": words}, tx)

        return await self._host.write(change)

    def open(self, conversation: Address, said: Said, tx: Tx) -> Reply:
        """Go there. Of one of a chat app or the page all so far, as what is said in a terminal can't go out there."""
        if said.address.channel != "terminal":
            raise NanoclawError(f"only a terminal can go to a conversation. {_how(conversation)}")
        if conversation.channel != "terminal":
            return self.branch(said._replace(conversation=conversation, argument=""), tx)
        title = self.title(conversation)
        return self._opened(said, conversation, f"is “{title}”" if title else "has no title", {}, tx)

    def _new(self, said: Said, turns: Sequence[Sequence[Message]], tx: Tx) -> Address:
        """A conversation with a name that is not taken."""
        channel, chat = said.conversation
        own = said.address.channel if said.address.channel in NAMED else "terminal"
        base = re.sub(r"-\d+$", "", chat if channel == own else f"{channel}-{chat}")
        taken = {one.key for one in self._host.conversations.all()}
        number = next(number for number in range(2, len(taken) + 3) if f"{own}:{base}-{number}" not in taken)
        new = Address(own, f"{base}-{number}")
        self._host.conversations.add(new, turns, tx)
        tx.execute(_BRANCHED, str(new), str(said.conversation))
        return new

    def _opened(self, said: Said, new: Address, what: str, data: dict[str, Any], tx: Tx) -> Reply:
        data = {"conversation": str(new), "opened": str(new), **data}
        if said.address.channel != "terminal" or said.shell:
            return Reply(f"`{new.chat}` {what}. {_how(new)}", data)
        tx.after(lambda: self._host.show(said.address, GoTo(new.chat)))
        return Reply(f"`{new.chat}` {what}. You are there now; `/sessions open {said.address.chat}` goes back.", data)

    def _upto(
        self, conversation: Address, asked: Sequence[NumberedMessage], one: NumberedMessage
    ) -> list[list[Message]]:
        """The turns of a message's context up to its own. Where a summary stands for them, as they were said."""
        session = self._host.conversations.of(conversation)
        end = next((other.turn for other in asked[one.number :]), _LAST)
        placed = [each for each in session.unsummed() if each.turn < end]
        if any(each.turn == one.turn for each in placed):
            return [[each.message for each in turn] for _, turn in groupby(placed, key=lambda each: each.turn)]
        contexts = {one.context, abs(one.context)}
        return [session.of_turn(each.turn, _LAST) for each in asked[: one.number] if each.context in contexts]

    # --- another answer ----------------------------------------------------------------------------------------------

    def retry(self, said: Said, tx: Tx) -> Reply | UserMessage:
        """The last message again; the old answer leaves what the model sees."""
        last, words = self._last(said.conversation), said.argument.split()
        is_sure, model = words[-1:] == ["yes"], " ".join(words[:-1] if words[-1:] == ["yes"] else words)
        name = self._host.models.choose(model)[0] if model else ""
        if not is_sure and (done := self._done_since(said.conversation, last.turn)):
            again = f"`/retry {model} yes`".replace("  ", " ")
            return _named_first(done, f"{again} asks again all the same.")
        if name:
            self._host.conversations.of(said.conversation).use_model(name)
        message = self._message(said.conversation, last)
        self._host.conversations.take_back(said.conversation, last.turn, tx)
        return message

    def edit(self, said: Said, tx: Tx) -> Reply | UserMessage:
        """Other words in place of the last message. In a terminal it comes back into the line first."""
        last, text = self._last(said.conversation), said.argument.strip()
        old = self._message(said.conversation, last)
        if not text:
            data = {"message": last.number, "text": old.text}
            if said.address.channel != "terminal" or said.shell:
                return Reply(f"`/edit NEW TEXT` takes the place of “{one_line(old.text, 200)}”.", data)
            tx.after(lambda: self._host.show(said.address, GoTo("", f"/edit {old.text}")))
            return Reply("Change it and press Enter; an empty line leaves it as it was.", data)
        is_sure, text = text.startswith("yes "), text.removeprefix("yes ").strip()
        if not is_sure and (done := self._done_since(said.conversation, last.turn)):
            if said.address.channel == "terminal":
                tx.after(lambda: self._host.show(said.address, GoTo("", f"/edit yes {text}")))
            return _named_first(done, "`/edit yes NEW TEXT` asks all the same.")
        self._host.conversations.take_back(said.conversation, last.turn, tx)
        return old._replace(text=text, outside="")

    def rewind(self, said: Said, tx: Tx) -> Reply:
        """Back to before a message: it and all after it leave what the model sees, and files are as they were."""
        here, words = self._here(said.conversation), said.argument.split()
        if not words:
            now = self._host.now()
            lines = [f"- {one.number}, {age(one.at, now)}: {one_line(one.text)}" for one in here[-LISTED:]]
            told = "`/rewind N` goes back to before message N; files that were changed since go back too."
            rows = [{"message": one.number, "at": one.at, "text": one.text} for one in here]
            return Reply("\n".join([*lines, "", told]), {"messages": rows})
        one = next((one for one in here if str(one.number) == words[0].removeprefix("#")), None)
        if one is None:
            raise NanoclawError(f"there is no message {words[0]!r} to go back to: /rewind lists them.")
        effects, done = self._effects(said.conversation, one.turn), self._done_since(said.conversation, one.turn)
        if done and words[1:] != ["yes"]:
            files = sorted({effect.target for effect in effects if _is_file(effect)}) if self._host.get("undo") else []
            how = f"`/rewind {one.number} yes` goes back" + f", and puts back {', '.join(files)}" * bool(files)
            return _named_first(done, f"{how}. The rest stays done.")
        became = self._put_back(effects, tx)
        self._host.conversations.take_back(said.conversation, one.turn, tx)
        if said.address.channel == "terminal" and not said.shell:
            tx.after(lambda: self._host.show(said.address, GoTo("", one.text)))
        count = sum(other.number >= one.number for other in here)
        gone = (
            f"{count} of your messages, with the answers, {'are' if count > 1 else 'is'} no longer sent to the model."
        )
        lines = [f"Back to before message {one.number}, “{one_line(one.text)}”: {gone}", *became]
        return Reply("\n".join(lines), {"message": one.number, "text": one.text, "files": became})

    def _put_back(self, effects: Sequence[Effect], tx: Tx) -> list[str]:
        """Put files back, the newest change first; a sentence for each file."""
        undo, told = self._host.get("undo"), dict[str, str]()
        for effect in effects if undo else ():
            if not _is_file(effect):
                continue
            try:
                undo.revert(effect, tx)
            except WorkspaceError as error:
                told.setdefault(effect.target, str(error))
                continue
            became = "is as it was before" if effect.before else "was removed again"
            told[effect.target] = f"{effect.target} {became}."
        return list(told.values())

    # --- what was asked, and done ------------------------------------------------------------------------------------

    def _asked(self, conversation: Address) -> list[NumberedMessage]:
        rows = self._host.records.asked(conversation)
        return [NumberedMessage(number, *row) for number, row in enumerate(rows, 1)]

    def _here(self, conversation: Address) -> list[NumberedMessage]:
        """Those of the newest context, for what takes them back: not while a question is open, which would go, too."""
        asks = self._host.get("approvals")
        for one in asks.open() if asks else ():
            if one.conversation == conversation:
                raise NanoclawError(f"Question {one.number} is open here: answer it first, or drop it with /stop.")
        context = self._host.conversations.of(conversation).context
        if here := [one for one in self._asked(conversation) if one.context == context]:
            return here
        raise NanoclawError("nothing was said in this conversation yet.")

    def _last(self, conversation: Address) -> NumberedMessage:
        for message in (one.message for one in reversed(self._host.conversations.of(conversation).unsummed())):
            if said := said_to_program(message.text):
                raise NanoclawError(f"“{said}” was answered by the program: /undo undoes it; then say it anew.")
            if isinstance(message, UserMessage) and message.origin == "person":
                break
        return self._here(conversation)[-1]

    def _numbered(self, asked: Sequence[NumberedMessage], argument: str) -> NumberedMessage:
        """The message of a number; without one the last that is still there."""
        if not asked:
            raise NanoclawError("nothing was said in this conversation yet.")
        wanted = argument.strip().removeprefix("#")
        if not wanted:
            return next((one for one in reversed(asked) if one.context > 0), asked[-1])
        if not wanted.isdecimal() or not 0 < int(wanted[:9]) <= len(asked):
            raise NanoclawError(f"there is no message {wanted!r}, only 1 to {len(asked)}: /rewind lists them.")
        return asked[int(wanted) - 1]

    def _message(self, conversation: Address, one: NumberedMessage) -> UserMessage:
        """All that the person said in a turn, as one message."""
        turn = self._host.conversations.of(conversation).of_turn(one.turn, _LAST)
        said = [each for each in turn if isinstance(each, UserMessage) and each.origin == "person"]
        images = tuple(image for each in said for image in each.images)
        outside = ", ".join(dict.fromkeys(each.outside for each in said if each.outside))
        return UserMessage("\n\n".join(each.text for each in said), self._host.now(), "person", images, outside)

    def _effects(self, conversation: Address, turn: int) -> list[Effect]:
        """Effects since a turn began that were not undone, the newest first."""
        found = self._host.records.effects(conversation, _EFFECTS)
        return [one for one in found if (one.turn or 0) >= turn and one.state in ("done", "begun")]

    def done_since_last(self, conversation: Address) -> list[str]:
        """Effects since the last message, in words."""
        return self._done_since(conversation, self._last(conversation).turn)

    def _done_since(self, conversation: Address, turn: int) -> list[str]:
        return list(dict.fromkeys(one.text for one in reversed(self._effects(conversation, turn))))

    def title(self, conversation: Address) -> str:
        all_ = self._host.conversations.all()
        rows = titled(self._host.read, [one for one in all_ if one.key == str(conversation)])
        return next((row["title"] for row in rows), "")


def _is_file(effect: Effect) -> bool:
    return effect.before is not None and effect.before != effect.after


def _named_first(done: Sequence[str], how: str) -> Reply:
    more = f"; and {len(done) - 10} more" * (len(done) > 10)
    return Reply(f"This was done since then: {'; '.join(done[:10])}{more}. {how} /undo takes back.", {"done": done})


def _how(one: Address) -> str:
    return f"{f'`nanoclaw -r {one.chat}`' if one.channel == 'terminal' else 'The page'} goes on with it."
