"""Making room when a conversation outgrows the model's window: one way, whoever asks for it.

Long results of tools are shortened first. Where that is not enough, plugins keep what is worth it of the older part,
and a summary takes the older part's place; its newest part stays word for word. Everything stays in the store: only
what is sent changes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import cached_property

from nanoclaw.core.chain import Chain
from nanoclaw.core.context import ContextBuilder, recent_talk
from nanoclaw.core.errors import ContextTooLong, NanoclawError, ProviderError
from nanoclaw.core.events import Event, Notice
from nanoclaw.core.messages import AssistantMessage, Limits, Message, ModelRequest, SystemPrompt, ToolSpec, UserMessage
from nanoclaw.core.metadata import escape
from nanoclaw.core.model_call import ModelCalls
from nanoclaw.core.provider import CutsHistory
from nanoclaw.core.store.compactions import shortened
from nanoclaw.core.store.history import Placed
from nanoclaw.core.store.sessions import Session
from nanoclaw.core.summary import (
    FOCUS,
    QUOTED,
    SUMMARY,
    Part,
    counted,
    cut_before,
    cut_within,
    is_said,
    is_within_a_turn,
    last_before,
    last_before_step,
    reason,
    room_of,
    tail_tokens,
    why_nothing,
    with_what_was_lost,
)
from nanoclaw.core.summary_model import SummaryModel
from nanoclaw.core.token_estimate import estimate, estimate_message, estimate_request
from nanoclaw.core.turn import RunningTurn

SUMMARY_TOKENS = 4_000
"""The most that a summary may take."""

FLUSH_TOKENS = 4_000
"""Room for what plugins ask of the model before messages are lost."""

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

MADE_ROOM = "the older part of this conversation is now a summary; /history shows all of it"

LEAST_SUMMARY_TOKENS = 4
"""Of a summary of a long part: less says nothing, such as a small model's “fine”."""

CALLED = "it was a call of a tool, not a text"


class NoSummary(NanoclawError):
    """The model's summary cannot take the place of what it sums up."""


class Compaction:
    """Makes room in any conversation. `failed` are the conversations in which summing up fails, as their person was
    told, with the number of messages at the last try."""

    def __init__(
        self, builder: ContextBuilder, chain: Chain, model_calls: ModelCalls, clock: Callable[[], datetime]
    ) -> None:
        self.builder, self.chain, self.model_calls, self.clock = builder, chain, model_calls, clock
        self.failed: dict[str, int] = {}

    async def make_room(self, turn: RunningTurn, error: ContextTooLong | None) -> bool:
        """Make room if a request would be too long, or was with this `error`. True: it became shorter."""
        return await self._shrink(turn)(error)

    async def by_hand(self, turn: RunningTurn, focus: str) -> str:
        """Sum up all but the newest part, whatever the window; what is to be told. Raises NanoclawError."""
        return await self._shrink(turn).by_hand(focus)

    def _shrink(self, turn: RunningTurn) -> Shrink:
        if turn.shrink is None:
            turn.shrink = Shrink(self, turn)
        return turn.shrink


class Shrink:
    """Makes the conversation of one turn shorter."""

    def __init__(self, means: Compaction, turn: RunningTurn) -> None:
        assert turn.session and turn.model_call
        self._means, self._turn, self._model_call = means, turn, turn.model_call
        self._session: Session = turn.session
        self._scale = 1.0  # how much the model's count is above ours, as an overflow showed

    @cached_property
    def _summaries(self) -> SummaryModel:
        return SummaryModel(self._model_call, self._means.model_calls.models, self._show_notices)

    async def __call__(self, error: ContextTooLong | None = None) -> bool:
        """Make room if a request would be too long, or was with this `error`. True: it became shorter."""
        window = self._learn(error, self._session.history) if error else self._window
        if window is None:
            return False
        before = self._tokens()
        if not error and before <= room_of(window):
            return False
        await self._make_room(window, error is not None)
        return self._tokens() < before

    async def by_hand(self, focus: str) -> str:
        """Sum up all but the newest part, whatever the window; what is to be told. Raises NanoclawError."""
        if isinstance(self._model_call.provider, CutsHistory):
            return (
                f"{self._model} is sent only the newest part of a conversation, as much as it takes in, so a summary "
                "would make no room. Nothing was changed; /history shows all."
            )
        window = self._window
        placed = self._session.placed()
        sizes = self._sizes(placed)
        tail = tail_tokens(window)
        part = self._part(placed, sizes, tail, window, least=LEAST_TOKENS) if sum(sizes) > tail else None
        if part is None or is_within_a_turn(placed, part.cut):
            return f"There is nothing to sum up yet: {why_nothing(placed, sum(sizes), tail)}."
        try:
            await self._sum_up(placed, part, focus)
        except ContextTooLong as error:
            if not await self(error):
                return f"This conversation could not be summed up: {reason(error)}. It is as it was."
            return "The older part of this conversation is now a summary. /history shows all."
        except NoSummary as error:
            return f"This conversation could not be summed up: {reason(error)}. It is as it was."
        after = round(self._size(self._session.history[0]))
        return (
            f"{counted(part.cut)} (≈ {part.tokens:,} tokens) are now a summary of ≈ {after:,} tokens; the newest "
            f"{counted(len(self._session.history) - 1)} stay as they are. /history shows all."
        )

    # --- how long it is ----------------------------------------------------------------------------------------------

    @property
    def _model(self) -> str:
        return self._model_call.provider.model

    @property
    def _factor(self) -> float:
        return self._model_call.factor() * self._scale

    def _tokens(self, history: Sequence[Message] | None = None) -> int:
        """The tokens of a request now, or of one with another history."""
        session, system = self._session, SystemPrompt(self._turn.system)
        messages = session.history if history is None else history
        memo = session.memo if history is None else None
        request = ModelRequest(system, tuple(messages), self._specs, memo=memo)
        return round(estimate_request(request, self._model) * self._factor)

    def _size(self, message: Message) -> float:
        return estimate_message(message, self._model) * self._factor

    def _sizes(self, placed: Sequence[Placed]) -> list[float]:
        return [self._size(one.message) for one in placed]

    def _learn(self, error: ContextTooLong, history: Sequence[Message]) -> int:
        """The window that an overflow told, or that follows from what was too long."""
        tokens, known = self._tokens(history), self._window
        window = error.window or min(tokens, known or tokens)
        if window != known:
            self._means.model_calls.models.learned_window(self._model, window)
        if tokens < window:
            self._scale *= window / max(1, tokens)
        return window

    # --- making room -------------------------------------------------------------------------------------------------

    async def _make_room(self, window: int, is_urgent: bool) -> None:
        old = last_before(self._session.placed(), WHOLE_TURNS)
        if self._would_fit(old, room_of(window) * ENOUGH):
            self._session.shorten(old)
            return
        length = len(self._session.history)
        if is_urgent or length >= self._means.failed.get(self._session.key, -PAUSE) + PAUSE:
            try:
                window = await self._sum_up_to(window)
            except (ProviderError, NoSummary) as error:
                self._tell(error)
                self._means.failed[self._session.key] = length
        if self._tokens() > room_of(window) and not self._shorten(old, room_of(window)):
            self._shorten(last_before_step(self._session.placed()), room_of(window))

    async def _sum_up_to(self, window: int) -> int:
        """Sum up part after part until a request fits; the window, which may prove to be smaller. Raises ProviderError
        and NoSummary."""
        most, is_told = float("inf"), False
        for number in range(PASSES):
            placed, room = self._session.placed(), room_of(window)
            part = self._part(placed, self._sizes(placed), tail_tokens(window), window, room / 2, most)
            enough = room / 2 if self._summaries.is_another else room  # small parts, as it may take in less
            if part is None or (number and self._tokens() <= enough):
                break
            if is_within_a_turn(placed, part.cut) and self._shorten(last_before_step(placed), room):
                break
            if not number:
                self._turn.show(Notice(f"making room: {counted(part.cut)} of this conversation become a summary"))
            try:
                await self._sum_up(placed, part, "")
            except ContextTooLong as error:  # even the older part alone: half of it goes first
                window = self._learn(error, [one.message for one in placed[: part.cut]])
                most = part.tokens / 2
                continue
            self._means.failed.pop(self._session.key, None)
            if not is_told:
                is_told = True
                self._turn.show(Notice(MADE_ROOM, stays="here"))
        return window

    def _would_fit(self, upto: int, room: float) -> bool:
        """True where shortening the results up to there brings a request below `room`."""
        placed = self._session.placed()
        short = [shortened(one.message) if one.id <= upto else one.message for one in placed]
        changed = any(now is not one.message for now, one in zip(short, placed, strict=True))
        return changed and self._tokens(short) <= room

    def _shorten(self, upto: int, room: int) -> bool:
        """Shorten results as the last thing that is left; whether that is enough."""
        placed = self._session.placed()
        if any(shortened(one.message) is not one.message for one in placed if one.id <= upto):
            self._session.shorten(upto)
        return self._tokens() <= room

    def _tell(self, error: NanoclawError) -> None:
        """Once, until it works again."""
        from nanoclaw.core.log import logger

        logger.debug("summing up {} failed: {!r}", self._session.key, error)
        if self._session.key not in self._means.failed:
            text = f"the older part of this conversation could not be summed up: {reason(error)}"
            self._turn.show(
                Notice(f"{text}. Nothing is lost; long results of tools are shortened for now", stays="here")
            )

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
        """The part to sum up now, no more than `most` or what a request can hold; None when before the part that
        stays there are less than `least` tokens, or too few to be worth it."""
        cut = cut_before(placed, sizes, tail, newest)
        beside = self._tokens(()) + self._note_tokens() + INSTRUCTION_TOKENS
        held = min(window - beside if window else most, self._summaries.room(beside, sum(sizes[:cut])))
        most = min(most, held) if held > 0 else most
        if sum(sizes[:cut]) > most:
            cut = min(cut, cut_within(placed, sizes, most) or cut)
        older = round(sum(sizes[:cut]))
        if cut == 0 or placed[cut - 1].id == 0 or older < (least or max(tail / 4, LEAST_TOKENS)):
            return None
        return Part(cut, placed[cut - 1].id, older)

    # --- notes and summary -------------------------------------------------------------------------------------------

    async def _sum_up(self, placed: Sequence[Placed], part: Part, focus: str) -> None:
        """Have what is worth it kept, then put the checked summary in place. Raises ProviderError, NoSummary."""
        forgot = self._session.forgot
        older = tuple(one.message for one in placed[: part.cut])
        try:
            kept = await self._flush(older)
            self._check_nothing_was_forgotten(forgot)
            summary = await self._summary(older, part, focus)
            text = with_what_was_lost(summary, placed, part, self._asked_before(placed, part), kept)
        finally:
            self._model_call.said = ""  # no one's answer
        if self._size(UserMessage(text, self._means.clock(), "runtime")) >= part.tokens:
            raise NoSummary("the summary is as long as what it sums up")
        self._check_nothing_was_forgotten(forgot)
        self._swap(part, text)

    def _asked_before(self, placed: Sequence[Placed], part: Part) -> list[str]:
        """The person's own words in a turn that the cut goes through."""
        if not is_within_a_turn(placed, part.cut):
            return []
        said = self._session.of_turn(placed[part.cut].turn, part.upto)
        return [message.text[:QUOTED] for message in said if is_said(message)]

    def _check_nothing_was_forgotten(self, forgot: int) -> None:
        """Give up where something was forgotten meanwhile: it must not come back in a summary. Raises NoSummary."""
        if self._session.forgot != forgot:
            raise NoSummary("something was forgotten meanwhile")

    def _swap(self, part: Part, text: str) -> None:
        """A new context begins: files are read and notes recalled anew."""
        kept = self._session.history[part.cut :]
        query = next((said.text for said in reversed(kept) if is_said(said)), "")
        turn = self._turn
        snapshot = self._means.builder.begin(query or " ".join(recent_talk(kept)), turn.profile, turn.address.channel)
        self._session.compact(part.upto, text, snapshot.dump())
        turn.snapshot = snapshot

    async def _flush(self, older: tuple[Message, ...]) -> list[str]:
        """Let plugins keep what is worth it before it is no longer shown; what the summary is to end with. Raises
        ProviderError."""
        if not self._means.chain.has("before_compaction"):
            return []
        request = self._request(older, self._note_tokens(), self._specs)
        return [escape(text) for text in await self._means.chain.before_compaction(request, self._turn)]

    @property
    def _specs(self) -> tuple[ToolSpec, ...]:
        return self._turn.snapshot.tools if self._turn.snapshot else ()

    def _note_tokens(self) -> int:
        window = self._window
        return min(FLUSH_TOKENS, window // 8) if window else FLUSH_TOKENS

    @property
    def _window(self) -> int | None:
        return self._means.model_calls.models.window_of(self._model)

    async def _summary(self, older: tuple[Message, ...], part: Part, focus: str) -> str:
        """Raises NoSummary when what the model writes is none, twice. One that will not stop calling tools, as small
        ones do, is asked once more without any, though that costs the provider's cache."""
        tokens = max(200, min(SUMMARY_TOKENS, part.tokens // 2))
        instruction = SUMMARY.format(words=tokens // 2) + (FOCUS.format(focus=focus) if focus else "")
        specs, problem = self._specs, ""
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
        size = estimate(answer.text) * self._factor
        if size < min(LEAST_SUMMARY_TOKENS, part.tokens / 100):
            return "it says too little"
        if size >= part.tokens:
            return "it is longer than what it sums up"
        return ""

    async def _ask(
        self, older: tuple[Message, ...], instruction: str, tokens: int, tools: tuple[ToolSpec, ...]
    ) -> AssistantMessage:
        """The same system, tools and messages as the conversation has sent before, and one instruction."""
        asked = UserMessage(instruction, self._means.clock(), "runtime")
        return await self._summaries.complete(self._request((*older, asked), tokens, tools))

    def _request(self, messages: tuple[Message, ...], tokens: int, tools: tuple[ToolSpec, ...]) -> ModelRequest:
        assert self._turn.snapshot
        limits: Limits = self._turn.limits
        limits = limits._replace(output_tokens=min(tokens, limits.output_tokens))
        return ModelRequest(self._turn.snapshot.system, messages, tools, limits)

    def _show_notices(self, event: Event) -> None:
        if isinstance(event, Notice):
            self._turn.show(event)
