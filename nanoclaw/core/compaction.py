"""Making room when a conversation outgrows the model's window: one way, whoever asks for it.

Long results of tools are shortened first. Where that is not enough, what is worth keeping of the older part goes to
today's note, and a summary takes the older part's place; its newest part stays word for word. Everything stays in the
store: only what is sent changes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import chain
from typing import NamedTuple

from nanoclaw.core.context import ContextBuilder, joined, recent_talk
from nanoclaw.core.errors import ContextTooLong, NanoclawError, ProviderError
from nanoclaw.core.events import Event, Notice
from nanoclaw.core.identifiers import CARRIED, OPEN, STANDING, carried_lines, missing, rules, unmentioned
from nanoclaw.core.messages import (
    AssistantMessage,
    Limits,
    Message,
    ModelRequest,
    SystemPrompt,
    ToolSpec,
    UserMessage,
)
from nanoclaw.core.metadata import escape
from nanoclaw.core.model_call import Asking
from nanoclaw.core.sections import Mode
from nanoclaw.core.store.compactions import shortened
from nanoclaw.core.store.sessions import Placed, Session
from nanoclaw.core.token_estimate import MESSAGE, estimate, estimate_message, estimate_request
from nanoclaw.core.tool import Toolbox, ToolContext
from nanoclaw.documents.documents import without_documents
from nanoclaw.plugins.undo.receipts import CallEffects

RESERVE_TOKENS, TAIL_TOKENS = 16_000, 20_000
"""Left free of the window for answers, and kept word for word; each at most a quarter of the window."""

FLUSH_TOKENS, SUMMARY_TOKENS = 4_000, 4_000
"""The most that the notes and the summary may take."""

WHOLE_TURNS = 3
"""The newest turns, whose tool results are shortened only when nothing else is left."""

ENOUGH = 0.8
"""Shortening must bring a request down to this share of its room, or the next turn would outgrow it again."""

PASSES = 12
"""Tries to sum up one part of a conversation after the other."""

PAUSE = 12
"""Messages until summing up is tried again after it failed."""

INSTRUCTION_TOKENS = 500

LEAST_TOKENS = 200
"""A shorter part is not worth a summary."""

QUOTED = 8_000
"""Characters of the person's own words in a turn that is summed up before its end."""

FLUSH = (
    "This conversation has grown long: a summary will take the place of everything above. Before that, keep what will "
    "matter on another day and is not in memory yet: decisions, dates, names, preferences, promises, results. Call "
    "memory_add once for each, in one sentence that can be understood alone, with its names and numbers; kind fact "
    "only for what stays true. No other tool runs now, and the person does not see your answer. When nothing is worth "
    "keeping, answer: nothing."
)

SUMMARY = (
    "This conversation has grown long. Write the summary that takes the place of everything above; you go on from it, "
    "and the person does not see it. Write text in the language of the conversation, call no tool, and use at most "
    "{words} words, under these headings:\n"
    f"{STANDING}: what the person told you to do or not to do from now on, as they said it.\n"
    f"{OPEN}: what was asked for or promised and is not done, each with the state it is in.\n"
    "Done: what is finished, with its results.\n"
    "Facts: people, places and decisions; every id, number, date, path, file name and address as it was written.\n"
    "If everything above begins with a summary, take over what still holds: each of its instructions and open tasks "
    "appears again, or is said to be done or withdrawn."
)

FOCUS = "\nAbove all keep what concerns: {focus}"

CALLED = "it was a call of a tool, not a text"
BEGIN = "[Summary of the conversation so far, written by you. The messages that it stands for are no longer shown.]"
END = "[End of the summary]"


class NoSummary(NanoclawError):
    """The model's summary cannot take the place of what it sums up."""


@dataclass(slots=True)
class Compaction:
    """What making room needs in any conversation.

    `window_of(model)` is the number of tokens that a model takes in, None when nobody knows; `learned_window` keeps
    what an overflow told. `failed` are the conversations in which summing up fails, as their person was told, with the
    number of messages at the last try.
    """

    builder: ContextBuilder
    toolbox: Toolbox
    clock: Callable[[], datetime]
    limits: Limits = Limits()
    window_of: Callable[[str], int | None] = lambda model: None
    learned_window: Callable[[str, int], None] = lambda model, tokens: None
    failed: dict[str, int] = field(default_factory=dict)


class Part(NamedTuple):
    """The older part of a conversation: its messages up to the id `upto`, which are the first `cut` of the history."""

    cut: int
    upto: int
    tokens: int


@dataclass(slots=True)
class Shrink:
    """Makes one conversation shorter. Calling it is what a turn does before each request, and after an overflow.

    `system` gives the system message as it is sent now; `renew` takes the new one.
    """

    means: Compaction
    session: Session
    asking: Asking
    context: ToolContext
    show: Callable[[Event], None]
    system: Callable[[], SystemPrompt]
    renew: Callable[[SystemPrompt], None]
    mode: Mode = "full"
    _scale: float = field(default=1.0, init=False)  # how much the model's count is above ours, as an overflow showed
    _counted: tuple[int, float] = field(default=(0, 0), init=False)  # messages, and the tokens of a request with them
    _fixed: int = field(default=0, init=False)  # tokens of what stands before the messages

    async def __call__(self, error: ContextTooLong | None = None) -> bool:
        """Make room if a request would be too long, or was with this `error`. Whether it became shorter."""
        window = self._learn(error, self.session.history) if error else self.means.window_of(self._model)
        if window is None:
            return False
        if not error and (self._surely_fits(_room(window)) or self._count() <= _room(window)):
            return False
        before = self._tokens()
        try:
            await self._make_room(window, error is not None)
        finally:
            self._counted = (0, 0)
        return self._tokens() < before

    async def by_hand(self, focus: str) -> str:
        """Sum up all but the newest part, whatever the window; what is to be told. Raises NanoclawError."""
        window = self.means.window_of(self._model)
        placed = self.session.placed()
        sizes = self._sizes(placed)
        tail = _tail(window)
        part = self._part(placed, sizes, tail, window, least=LEAST_TOKENS) if sum(sizes) > tail else None
        if part is None or _is_within_a_turn(placed, part.cut):
            return f"There is nothing to sum up yet: {_why_nothing(placed, sum(sizes), tail)}."
        try:
            notes = await self._sum_up(placed, part, focus)
        except ContextTooLong as error:
            if not await self(error):
                return f"This conversation could not be summed up: {_reason(error)}. It is as it was."
            return "The older part of this conversation is now a summary. /history shows all."
        except NoSummary as error:
            return f"This conversation could not be summed up: {_reason(error)}. It is as it was."
        after = round(self._size(self.session.history[0]))
        noted = f" Noted for later: {notes}." if notes else ""
        return (
            f"{_counted(part.cut)} (≈ {part.tokens:,} tokens) are now a summary of ≈ {after:,} tokens; the newest "
            f"{_counted(len(self.session.history) - 1)} stay as they are.{noted} /history shows all."
        )

    # --- how long it is ----------------------------------------------------------------------------------------------

    @property
    def _model(self) -> str:
        return self.asking.provider.model

    @property
    def _factor(self) -> float:
        return self.asking.calibration.factor(self._model) * self._scale

    def _surely_fits(self, room: int) -> bool:
        """A quick look, by characters: hardly any text has two tokens to each."""
        self._fixed = self._fixed or self._tokens(())
        characters = 0
        for message in self.session.history:
            characters += len(message.text)
            if isinstance(message, AssistantMessage):
                characters += sum(len(call.arguments) for call in message.tool_calls)
            elif message.images:
                return False
        return self._fixed + 2 * characters * self._factor + MESSAGE * len(self.session.history) < room

    def _count(self) -> float:
        """The tokens of a request now; of a history that grew only what is new is counted."""
        history = self.session.history
        messages, tokens = self._counted
        if 0 < messages <= len(history):
            tokens += sum(map(self._size, history[messages:]))
        else:
            tokens = self._tokens()
        self._counted = (len(history), tokens)
        return tokens

    def _tokens(self, history: Sequence[Message] | None = None) -> int:
        messages = self.session.history if history is None else history
        system, tools = self.system().text, self.means.toolbox.specs
        return round(estimate_request(system, tools, messages, self._model) * self._factor)

    def _size(self, message: Message) -> float:
        return estimate_message(message, self._model) * self._factor

    def _sizes(self, placed: Sequence[Placed]) -> list[float]:
        return [self._size(one.message) for one in placed]

    def _learn(self, error: ContextTooLong, history: Sequence[Message]) -> int:
        """The window that an overflow told, or that follows from what was too long."""
        tokens, known = self._tokens(history), self.means.window_of(self._model)
        window = error.window or min(tokens, known or tokens)
        if window != known:
            self.means.learned_window(self._model, window)
        if tokens < window:
            self._scale *= window / max(1, tokens)
        return window

    # --- making room -------------------------------------------------------------------------------------------------

    async def _make_room(self, window: int, is_urgent: bool) -> None:
        old = _last_before(self.session.placed(), WHOLE_TURNS)
        if self._would_fit(old, _room(window) * ENOUGH):
            self.session.shorten(old)
            return
        length = len(self.session.history)
        if is_urgent or length >= self.means.failed.get(self.session.key, -PAUSE) + PAUSE:
            try:
                window = await self._sum_up_to(window)
            except (ProviderError, NoSummary) as error:
                self._tell(error)
                self.means.failed[self.session.key] = length
        if self._tokens() > _room(window) and not self._shorten(old, _room(window)):
            self._shorten(_last_before_step(self.session.placed()), _room(window))

    async def _sum_up_to(self, window: int) -> int:
        """Sum up part after part until a request fits; the window, which may prove to be smaller. Raises ProviderError
        and NoSummary."""
        most = float("inf")
        for number in range(PASSES):
            placed, room = self.session.placed(), _room(window)
            part = self._part(placed, self._sizes(placed), _tail(window), window, room / 2, most)
            if part is None or (number and self._tokens() <= room):
                break
            if _is_within_a_turn(placed, part.cut) and self._shorten(_last_before_step(placed), room):
                break
            if not number:
                self.show(Notice(f"making room: {_counted(part.cut)} of this conversation become a summary"))
            try:
                await self._sum_up(placed, part, "")
            except ContextTooLong as error:  # even the older part alone: half of it goes first
                window = self._learn(error, [one.message for one in placed[: part.cut]])
                most = part.tokens / 2
                continue
            self.means.failed.pop(self.session.key, None)
            if not number:
                self.show(Notice("the older part of this conversation is now a summary; /history shows all of it"))
        return window

    def _would_fit(self, upto: int, room: float) -> bool:
        """Whether shortening the results up to there brings a request below `room`."""
        placed = self.session.placed()
        short = [shortened(one.message) if one.id <= upto else one.message for one in placed]
        changed = any(now is not one.message for now, one in zip(short, placed, strict=True))
        return changed and self._tokens(short) <= room

    def _shorten(self, upto: int, room: int) -> bool:
        """Shorten results as the last thing that is left; whether that is enough."""
        placed = self.session.placed()
        if any(shortened(one.message) is not one.message for one in placed if one.id <= upto):
            self.session.shorten(upto)
        return self._tokens() <= room

    def _tell(self, error: NanoclawError) -> None:
        """Once, until it works again."""
        from nanoclaw.core.log import logger

        logger.debug("summing up {} failed: {!r}", self.session.key, error)
        if self.session.key not in self.means.failed:
            text = f"the older part of this conversation could not be summed up: {_reason(error)}"
            self.show(Notice(f"{text}. Nothing is lost; long results of tools are shortened for now"))

    # --- which part --------------------------------------------------------------------------------------------------

    def _part(
        self,
        placed: Sequence[Placed],
        sizes: Sequence[float],
        tail: float,
        window: int | None,
        newest: float = float("inf"),
        most: float = float("inf"),
        least: float = 0,
    ) -> Part | None:
        """What is to be summed up now, no more than `most` or what a request can hold; None when before the part that
        stays there are less than `least` tokens, or too few to be worth it."""
        cut = _cut_before(placed, sizes, tail, newest)
        held = window - self._tokens(()) - self._note_tokens() - INSTRUCTION_TOKENS if window else most
        most = min(most, held) if held > 0 else most
        if sum(sizes[:cut]) > most:
            cut = min(cut, _cut_within(placed, sizes, most) or cut)
        older = round(sum(sizes[:cut]))
        if cut == 0 or placed[cut - 1].id == 0 or older < (least or max(tail / 4, LEAST_TOKENS)):
            return None
        return Part(cut, placed[cut - 1].id, older)

    # --- notes and summary -------------------------------------------------------------------------------------------

    async def _sum_up(self, placed: Sequence[Placed], part: Part, focus: str) -> int:
        """Notes first, then the summary, checked and put in place; how many notes. Raises ProviderError, NoSummary."""
        forgot = self.session.forgot
        older = tuple(one.message for one in placed[: part.cut])
        try:
            notes = await self._flush(older)
            self._check_nothing_was_forgotten(forgot)
            summary = await self._summary(older, part, focus)
            text = _with_what_was_lost(summary, placed, part, self._asked_before(placed, part))
        finally:
            self.asking.said = ""  # no one's answer
        if self._size(UserMessage(text, self.means.clock(), "runtime")) >= part.tokens:
            raise NoSummary("the summary is as long as what it sums up")
        self._check_nothing_was_forgotten(forgot)
        self._swap(part, text)
        return notes

    def _asked_before(self, placed: Sequence[Placed], part: Part) -> list[str]:
        """The person's own words in a turn that the cut goes through."""
        if not _is_within_a_turn(placed, part.cut):
            return []
        said = self.session.of_turn(placed[part.cut].turn, part.upto)
        return [message.text[:QUOTED] for message in said if _is_said(message)]

    def _check_nothing_was_forgotten(self, forgot: int) -> None:
        """What is to be forgotten must neither be sent again nor come back in a summary."""
        if self.session.forgot != forgot:
            raise NoSummary("something was forgotten meanwhile")

    def _swap(self, part: Part, text: str) -> None:
        """A new context begins: files are read and notes recalled anew."""
        kept = self.session.history[part.cut :]
        query = next((said.text for said in reversed(kept) if _is_said(said)), "")
        opening = self.means.builder.open(query or " ".join(recent_talk(kept)), self.mode, self.context.address.channel)
        self.session.compact(part.upto, text, opening.dump())
        self.renew(joined(self.means.builder.sections(self.mode, opening)))

    async def _flush(self, older: tuple[Message, ...]) -> int:
        """Let the model note what is worth keeping; how many notes it made. Raises ProviderError."""
        if not any(spec.name == "memory_add" for spec in self.means.toolbox.specs):
            return 0
        answer = await self._ask(older, FLUSH, self._note_tokens(), self.means.toolbox.specs)
        whole = answer.tool_calls[:-1] if answer.finish == "length" else answer.tool_calls
        calls = [call for call in whole if call.name.strip().casefold() == "memory_add"]
        effects, noted = CallEffects(self.means.toolbox, calls), 0
        rows = self.session.acting(effects.begun)
        try:
            for number, call in enumerate(calls):
                result = await self.means.toolbox.run(call, effects.context(number, self.context))
                effects.end(number, result)
                noted += not result.is_error
        finally:
            self.session.acted(rows, effects.ended)
        return noted

    def _note_tokens(self) -> int:
        window = self.means.window_of(self._model)
        return min(FLUSH_TOKENS, window // 8) if window else FLUSH_TOKENS

    async def _summary(self, older: tuple[Message, ...], part: Part, focus: str) -> str:
        """Raises NoSummary when what the model writes is none, twice. One that will not stop calling tools, as small
        ones do, is asked once more without any, though that costs the provider's cache."""
        tokens = max(200, min(SUMMARY_TOKENS, part.tokens // 2))
        instruction = SUMMARY.format(words=tokens // 2) + (FOCUS.format(focus=focus) if focus else "")
        specs, problem = self.means.toolbox.specs, ""
        for tools in (specs, specs, ()):
            if tools == () and problem != CALLED:
                break
            again = f"\n(Your last try could not be used: {problem}.)" if problem else ""
            answer = await self._ask(older, instruction + again, tokens, tools)
            problem = self._problem(answer, part)
            if not problem:
                return escape(answer.text.strip())
        raise NoSummary(problem)

    def _problem(self, answer: AssistantMessage, part: Part) -> str:
        if answer.finish == "refusal":
            return "it was refused"
        if not answer.text.strip():
            return CALLED if answer.tool_calls else "it was empty"
        if answer.finish == "length":
            return "it was cut off; write a shorter one"
        if estimate(answer.text) * self._factor >= part.tokens:
            return "it is longer than what it sums up"
        return ""

    async def _ask(
        self, older: tuple[Message, ...], instruction: str, tokens: int, tools: tuple[ToolSpec, ...]
    ) -> AssistantMessage:
        """The same system, tools and messages as the conversation has sent before, and one instruction."""
        limits = self.means.limits
        request = ModelRequest(
            self.system(),
            (*older, UserMessage(instruction, self.means.clock(), "runtime")),
            tools,
            replace(limits, output_tokens=min(tokens, limits.output_tokens)),
        )
        return await self.asking.complete(request, self._show_notices)

    def _show_notices(self, event: Event) -> None:
        if isinstance(event, Notice):
            self.show(event)


def _with_what_was_lost(summary: str, placed: Sequence[Placed], part: Part, asked: Sequence[str]) -> str:
    """The summary as it will stand in the history, with what code finds missing in it."""
    older = placed[: part.cut]
    earlier = older[0].message.text.removesuffix(END) if older[0].id == 0 else ""
    room = max(200, min(4_000, part.tokens))
    parts = [BEGIN, summary]
    said = [without_documents(one.message.text) for one in older if one.id and _is_said(one.message)]
    if lines := unmentioned([*carried_lines(earlier), *chain.from_iterable(map(rules, said))], summary, room):
        parts.append("\n".join([f"{CARRIED}:", *(f"- {line}" for line in lines)]))
    if asked:
        parts.append("\n".join(["What the person asked for in the turn that goes on below, word for word:", *asked]))
    if names := missing(_texts_by_weight(older, earlier), "\n".join(parts), room):
        parts.append(f"Also named: {'; '.join(names)}")
    return "\n\n".join([*parts, END])


def _texts_by_weight(older: Sequence[Placed], earlier: str) -> Iterator[str]:
    """What identifiers are looked for in: the person's words and the earlier summary first, and newer ones first."""
    newest_first = [one.message for one in reversed(older) if one.id]
    yield from (without_documents(message.text) for message in newest_first if _is_said(message))
    yield from re.split(r"\n|; ", earlier)
    for message in newest_first:
        if isinstance(message, AssistantMessage):
            yield message.text
            yield from (call.arguments for call in message.tool_calls if len(call.arguments) < 300)


def _tail(window: int | None) -> int:
    """Tokens that stay word for word."""
    return min(TAIL_TOKENS, window // 4) if window else TAIL_TOKENS


def _why_nothing(placed: Sequence[Placed], tokens: float, tail: int) -> str:
    """Why there is nothing to sum up by hand."""
    if not placed:
        return "nothing was said"
    if tokens <= tail:
        begin = "the last summary" if placed[0].id == 0 else "the beginning"
        return f"everything since {begin} is within the newest {tail:,} tokens, which stay word by word"
    if len({one.turn for one in placed if one.id}) > 1:
        return f"what is older than the newest {tail:,} tokens, which stay word by word, is too short"
    return "the newest turn always stays as it is"


def _room(window: int) -> int:
    """Tokens that a request may have, so that there is room for the answer."""
    return window - min(RESERVE_TOKENS, window // 4)


def _cut_before(placed: Sequence[Placed], sizes: Sequence[float], tail: float, newest: float) -> int:
    """Where the part begins that stays: at a turn if one fits in `tail`, else at the newest turn if it is no longer
    than `newest`, else at a step of it, never between a call and its result."""
    left = [sum(sizes[at:]) for at in range(len(sizes))]
    turns = [at for at in range(1, len(placed)) if placed[at].turn != placed[at - 1].turn]
    if fitting := [at for at in turns if left[at] <= tail]:
        return fitting[0]
    if turns and left[turns[-1]] <= newest:
        return turns[-1]
    steps = [at for at in range(1, len(placed)) if isinstance(placed[at].message, AssistantMessage)]
    return next((at for at in steps if left[at] <= tail), steps[-1] if steps else 0)


def _is_within_a_turn(placed: Sequence[Placed], cut: int) -> bool:
    return 0 < cut < len(placed) and placed[cut].turn == placed[cut - 1].turn


def _cut_within(placed: Sequence[Placed], sizes: Sequence[float], room: float) -> int:
    """Where a first part ends that fits in `room`: before a turn if there is one, else before a step; 0 for nowhere."""
    best = {"turn": 0, "step": 0}
    taken = 0.0
    for at in range(1, len(placed)):
        taken += sizes[at - 1]
        if taken > room:
            break
        if placed[at].turn != placed[at - 1].turn and placed[at - 1].id:
            best["turn"] = at
        elif isinstance(placed[at].message, AssistantMessage) and placed[at - 1].id:
            best["step"] = at
    return best["turn"] or best["step"]


def _last_before(placed: Sequence[Placed], turns: int) -> int:
    """The id of the last message before the newest turns; 0 when there is none."""
    newest = list(dict.fromkeys(one.turn for one in reversed(placed)))[:turns]
    return max((one.id for one in placed if one.turn not in newest), default=0)


def _last_before_step(placed: Sequence[Placed]) -> int:
    """The id of the last message before the newest answer with its results."""
    at = max((at for at, one in enumerate(placed) if isinstance(one.message, AssistantMessage)), default=0)
    return placed[at - 1].id if at else 0


def _is_said(message: Message) -> bool:
    return isinstance(message, UserMessage) and message.origin != "runtime"


def _reason(error: NanoclawError) -> str:
    return str(error).rstrip(".")


def _counted(messages: int) -> str:
    return f"{messages} message" + ("" if messages == 1 else "s")
