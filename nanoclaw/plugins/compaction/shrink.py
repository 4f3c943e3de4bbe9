"""Makes the conversation of one turn shorter, when it outgrows the model's window or the person wants it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property

from nanoclaw.core.errors import ContextTooLong, NanoclawError, ProviderError
from nanoclaw.core.events import Notice
from nanoclaw.core.messages import AssistantMessage, Message, ModelRequest, Placed, ToolSpec, UserMessage
from nanoclaw.core.plugin import Host, Turn
from nanoclaw.core.provider import estimate_message, estimate_request
from nanoclaw.core.store.history import SHORT, shortened_upto
from nanoclaw.escapes import BLANKS
from nanoclaw.plugins.compaction.plugin import room_of
from nanoclaw.plugins.compaction.summary import (
    FOCUS,
    LINES,
    QUOTED,
    SUMMARY,
    Part,
    counted,
    cut_before,
    cut_within,
    cuts_after,
    is_said,
    is_within_a_turn,
    last_before,
    last_before_step,
    lines_of,
    reason,
    tail_tokens,
    why_nothing,
    with_what_was_lost,
)
from nanoclaw.runtime_metadata import escape
from nanoclaw.tokens import estimate

SUMMARY_TOKENS = 4_000
"""Most tokens of a summary."""

FLUSH_TOKENS = 4_000
"""Tokens reserved for what plugins ask the model before messages are lost."""

WHOLE_TURNS = 3
"""The newest turns, whose tool results are shortened only when nothing else is left."""

ENOUGH = 0.7
"""Shortening must reduce a request to this share of its room, or the next turn would exceed it again."""

LOW = 0.5
"""Lines reduce a request to this share of its room, so that some turns pass until the next try."""

LEVELS = (16_000, 4_000, SHORT, 300)
"""Characters kept of each result, and ten times as many of other texts, when no older part can be dropped."""

PASSES = 12
"""Tries to summarize one part of a conversation after the other."""

INSTRUCTION_TOKENS = 500

INFINITE = float("inf")

LEAST_TOKENS = 200
"""Tokens; a shorter part is not worth a summary."""

MADE_ROOM = "the older part of this conversation is now a summary; /history shows all of it"

LEAST_SUMMARY_TOKENS = 4
"""Tokens of the shortest useful summary of a long part; a small model may just say “fine”."""

CALLED = "it was a call of a tool, not a text"

LEAST_SHARE = 1 / 6
"""The share of the text that a window must hold: this limits the requests for one summary."""


class NoSummary(NanoclawError):
    """The model's summary cannot take the place of what it summarizes."""


class Shrink:
    """Makes the conversation of one turn shorter."""

    def __init__(self, host: Host, turn: Turn) -> None:
        self._host, self._turn, self._session = host, turn, turn.session
        self._asked = host.model_of(turn)
        self._kept: list[str] = []  # what plugins want a summary to end with

    @cached_property
    def _summaries(self) -> SummaryModel:
        return SummaryModel(self._host, self._turn)

    async def make_room(self, window: int, room: int, before: int) -> bool:
        """Returns True if the next request is shorter than the tokens `before`; `room` is what it may have."""
        placed = self._session.placed()
        if not self._shorten(placed, last_before(placed, WHOLE_TURNS), room * ENOUGH):
            problem = f"is longer than {self._asked.name} can read"
            try:
                await self._sum_up_to(window)
            except (ProviderError, NoSummary) as failed:
                problem = f"could not be summarized: {reason(failed)}"
            room = min(room, room_of(self._asked.window or window))
            if self._tokens() > room:
                self._give_way(room, problem)
        return self._tokens() < before

    async def by_hand(self, focus: str, most: float = INFINITE) -> str:
        """Summarise now, with a `focus`; returns the sentence for the person. Raises NanoclawError."""
        if self._asked.cuts_history:
            return (
                f"{self._asked.name} is sent only the newest part of a conversation, as much as it takes in, so a "
                "summary would free no space. Nothing was changed; /history shows all."
            )
        placed = self._session.unsummed()
        try:
            part = self._part(placed, most=most, least=LEAST_TOKENS)
            if part is None or is_within_a_turn(placed, part.cut):
                why = why_nothing(placed, sum(self._sizes(placed)), tail_tokens(self._asked.window))
                return f"Nothing to summarize yet: {why}."
            await self._sum_up(placed, part, focus)
        except ContextTooLong:
            assert part
            return await Shrink(self._host, self._turn).by_hand(focus, part.tokens / 2)
        except NoSummary as error:
            return f"This conversation could not be summarized: {reason(error)}. It is as it was."
        after = round(self._size(self._turn.history[0]))
        return (
            f"{counted(part.cut)} (≈ {part.tokens:,} tokens) are now a summary of ≈ {after:,} tokens; the newest "
            f"{counted(len(self._turn.history) - 1)} stay as they are. /history shows all."
        )

    # --- how long it is ----------------------------------------------------------------------------------------------

    def _tokens(self, placed: Iterable[Placed] | None = None) -> int:
        """The tokens of a request now, or of one with other messages."""
        request = self._turn.request
        if placed is not None:
            request = request._replace(history=tuple(one.message for one in placed), memo=None)
        return round(estimate_request(request, self._asked.name) * self._asked.factor)

    def _size(self, message: Message) -> float:
        return estimate_message(message, self._asked.name) * self._asked.factor

    def _sizes(self, placed: Iterable[Placed]) -> list[float]:
        return [self._size(one.message) for one in placed]

    # --- making room -------------------------------------------------------------------------------------------------

    def _shorten(self, placed: Sequence[Placed], upto: int, room: float) -> bool:
        """Shorten results up to this message if that is enough."""
        short = shortened_upto(placed, upto, SHORT)
        is_enough = short != placed and self._tokens(short) <= room
        if is_enough:
            self._session.shorten(upto)
        return is_enough

    async def _sum_up_to(self, window: int) -> None:
        """Summarize part after part until a request fits without lines. Raises ProviderError and NoSummary."""
        most, is_told = INFINITE, False
        for number in range(PASSES):
            placed, room = self._session.unsummed(), room_of(window)
            part = self._part(placed, newest=room / 2, most=most)
            enough = room / 2 if self._summaries.is_another else room  # small parts, as it may take in less
            if part is None or (number and self._tokens(placed) <= enough):
                break
            if is_within_a_turn(placed, part.cut) and self._shorten(placed, last_before_step(placed), room):
                break
            if not number:
                self._turn.show(Notice(f"making room: {counted(part.cut)} of this conversation are being summed up"))
            try:
                await self._sum_up(placed, part, "")
            except ContextTooLong:  # even the older part alone: half of it goes first
                self._asked = self._host.model_of(self._turn)
                window, most = self._asked.window or window, part.tokens / 2
                continue
            if not is_told:
                is_told = True
                self._turn.show(Notice(MADE_ROOM, stays="here"))

    # --- what gives way without a summary ----------------------------------------------------------------------------

    def _give_way(self, room: int, problem: str) -> None:
        """Shorten old results, and show lines in place of the oldest turns, or of the first steps of the newest one;
        where even that is not enough, shorten each text that is left. Say so the first time."""
        whole, was_told = self._session.unsummed(), self._session.has_lines()
        begin = len(whole) - sum(1 for one in self._session.placed() if one.id)  # of what no lines stand for
        turns, steps = cuts_after(whole, begin)
        few, cuts = [begin, *turns][: max(1, len(turns) + 2 - WHOLE_TURNS)], [begin, *turns, *steps]
        old, step, newest = last_before(whole, WHOLE_TURNS), last_before_step(whole), whole[-1].id
        ways = [(room * share, upto, 0, where) for share in (LOW, 1) for upto, where in ((old, few), (step, cuts))]
        for most, upto, chars, where in (*ways, *((room, step, level, cuts) for level in LEVELS)):
            short = shortened_upto(whole, upto, SHORT)
            now = shortened_upto(short, newest, chars)
            if found := self._lines_within(now, where, most):
                break
        cut, lines = found or (cuts[-1], self._lines(now, cuts[-1], room) if cuts[-1] > begin else "")
        for last, left, is_changed in ((upto, SHORT, short != whole), (newest, chars, now != short)):
            if is_changed:
                self._session.shorten(last, left)
        if lines:
            self._session.shorten(whole[cut - 1].id, lines=lines)
        if any(is_said(one.message) and one != was for one, was in zip(now[cut:], short[cut:], strict=True)):
            text = f"what you sent is more than {self._asked.name} can read at once, so a part of it is left out"
            self._turn.show(Notice(text, stays="here"))
        if lines and not was_told:
            text = f"the older part of this conversation {problem}. Nothing is lost: it is sent shortened for now"
            self._turn.show(Notice(f"{text}, and /history shows all of it", stays="here"))

    def _lines_within(self, placed: Sequence[Placed], cuts: Sequence[int], most: float) -> tuple[int, str] | None:
        """The first cut that brings a request below a number of tokens, and the lines that replace what is before it;
        the first of all cuts changes nothing."""
        begin, left, now = cuts[0], most - self._tokens(()), self._turn.history
        sizes = self._sizes(placed[begin:])
        taken = sum(map(self._size, now[: len(now) - len(sizes)]))
        for cut in cuts:
            lines = ""
            if cut > begin and sum(sizes[cut - begin :]) + taken <= left:
                lines = self._lines(placed, cut, left)
                taken = self._size(self._by_code(lines)) + sum(self._sizes(one for one in placed[:1] if not one.id))
            if sum(sizes[cut - begin :]) + taken <= left:
                return cut, lines
        return None

    def _lines(self, placed: Sequence[Placed], cut: int, tokens: float) -> str:
        """Lines with half as many characters as there are tokens, which is an eighth of these tokens."""
        room, older = max(200, round(tokens / 2)), [one for one in placed[:cut] if one.id]
        asked = [text[:room] for text in self._asked_before(placed, cut)]
        part = Part(len(older), older[-1].id, room // 4)
        return with_what_was_lost(lines_of(older, room), older, part, asked, self._kept, LINES)

    # --- notes and summary -------------------------------------------------------------------------------------------

    def _part(
        self, placed: Sequence[Placed], *, newest: float = INFINITE, most: float = INFINITE, least: float = 0
    ) -> Part | None:
        """The part to summarize now, no more than `most` or what a request can hold; None when before the part that
        stays there are less than `least` tokens, or too few to be worth it. Raises NoSummary."""
        sizes, window, tail = self._sizes(placed), self._asked.window, tail_tokens(self._asked.window)
        cut = cut_before(placed, sizes, tail, newest) if sum(sizes) > tail else 0
        beside = self._tokens(()) + self._note_tokens() + INSTRUCTION_TOKENS
        held = self._summaries.room(beside, sum(sizes[:cut]))
        most = min(most, held, room_of(window) - beside if window else most)
        if cut and 0 < most < sum(sizes[:cut]) and not (cut := min(cut, cut_within(placed, sizes, most))):
            raise NoSummary(f"a message of it is longer than {self._asked.name} can read at once")
        older = round(sum(sizes[:cut]))
        if most <= 0 or cut == 0 or placed[cut - 1].id == 0 or older < (least or max(tail / 4, LEAST_TOKENS)):
            return None
        return Part(cut, placed[cut - 1].id, older)

    async def _sum_up(self, placed: Sequence[Placed], part: Part, focus: str) -> None:
        """Let plugins keep what matters, then put the checked summary in place: a new context begins, for which files
        are read and notes recalled again. Raises ProviderError, NoSummary."""
        forgot, turn = self._session.forgot, self._turn
        older, newer = (tuple(one.message for one in some) for some in (placed[: part.cut], placed[part.cut :]))
        request = self._request(older, self._note_tokens(), self._turn.request.tools)
        found, failed = await self._host.before_compaction(request, turn)
        self._kept = [escape(text) for text in found]
        if failed:
            raise failed
        summary = await self._summary(older, part, focus)
        asked = self._asked_before(placed, part.cut)
        text = with_what_was_lost(summary, placed, part, asked, self._kept)
        if self._size(self._by_code(text)) >= part.tokens:
            raise NoSummary("the summary is as long as what it sums up")
        if self._session.forgot != forgot:  # it must not come back in a summary
            raise NoSummary("something was forgotten meanwhile")
        query = next((said.text for said in reversed(newer) if is_said(said)), " ".join(asked))
        turn.begin_again(part.upto, text, query)

    def _asked_before(self, placed: Sequence[Placed], cut: int) -> list[str]:
        """The person's own words in a turn that the cut goes through."""
        if not is_within_a_turn(placed, cut):
            return []
        said = self._session.of_turn(placed[cut].turn, placed[cut - 1].id)
        return [message.text[:QUOTED] for message in said if is_said(message)]

    def _note_tokens(self) -> int:
        return min(FLUSH_TOKENS, self._asked.window // 8) if self._asked.window else FLUSH_TOKENS

    async def _summary(self, older: tuple[Message, ...], part: Part, focus: str) -> str:
        """Raises NoSummary if the model's text is no summary, twice. A model that keeps calling tools, as small ones
        do, is asked once more without tools, though that costs the provider's cache. The request has the system
        message, tools and messages of the conversation so far, and one instruction."""
        tokens = max(200, min(SUMMARY_TOKENS, part.tokens // 2))
        instruction, problem = SUMMARY.format(words=tokens // 2) + (FOCUS.format(focus=focus) if focus else ""), ""
        for tools in (self._turn.request.tools, self._turn.request.tools, ()):
            if tools == () and problem != CALLED:
                break
            again = f"\n(Your last try could not be used: {problem}.)" if problem else ""
            asked = self._by_code(instruction + again)
            answer = await self._summaries.complete(self._request((*older, asked), tokens, tools))
            if not (problem := self._problem(answer, part)):
                return escape(answer.text.strip(BLANKS))
        raise NoSummary(problem)

    def _problem(self, answer: AssistantMessage, part: Part) -> str:
        if answer.finish == "refusal":
            return "it was refused"
        if not answer.text.strip(BLANKS):
            return CALLED if answer.tool_calls else "it was empty"
        if answer.finish == "length":
            return "it was cut off; write a shorter one"
        size = estimate(answer.text) * self._asked.factor
        if size < min(LEAST_SUMMARY_TOKENS, part.tokens / 100):
            return "it is too short"
        return "it is longer than what it sums up" if size >= part.tokens else ""

    def _by_code(self, text: str) -> UserMessage:
        return UserMessage(text, self._host.now(), "runtime")

    def _request(self, messages: tuple[Message, ...], tokens: int, tools: tuple[ToolSpec, ...]) -> ModelRequest:
        request = self._turn.request
        limits = request.limits._replace(output_tokens=min(tokens, request.limits.output_tokens))
        return ModelRequest(request.system, messages, tools, limits)


class SummaryModel:
    """Writes summaries: the model of [models] if its window is large enough, else the conversation's own."""

    def __init__(self, host: Host, turn: Turn) -> None:
        self._host, self._turn, self._own = host, turn, host.model_of(turn)
        self._purpose, self._asked = "summaries", host.model_of(turn, "summaries")

    @property
    def is_another(self) -> bool:
        """True if another model than the conversation's own writes summaries."""
        return self._asked.name != self._own.name

    def room(self, taken: float, wanted: float) -> float:
        """Tokens of a conversation that fit beside those `taken`; infinite if unknown. A model that holds too few of
        the `wanted` tokens is not asked again."""
        window = self._asked.window if self.is_another else None
        if window is None:
            return INFINITE
        if window - taken >= wanted * LEAST_SHARE:
            return window - taken
        self._give_up(f"a window of {window:,} tokens")
        return INFINITE

    async def complete(self, request: ModelRequest) -> AssistantMessage:
        """Raises ProviderError."""
        try:
            return await self._host.complete(request._replace(purpose=self._purpose), self._turn, self._turn.show)
        except ContextTooLong:
            if not self.is_another:
                raise
            self._give_up("a smaller window")
            return await self._host.complete(request, self._turn, self._turn.show)

    def _give_up(self, why: str) -> None:
        self._turn.show(Notice(f"{self._asked.name} has {why}, so {self._own.name} writes the summary"))
        self._purpose, self._asked = "", self._own
