"""One question, one answer: `nanoclaw -m`, in plain text or as one JSON object, for people and pipes."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable
from datetime import datetime
from typing import Any, NamedTuple, TextIO

from nanoclaw.channels.attach import TIMEOUT_SECONDS, Pipe
from nanoclaw.channels.text import WHOLE, PlainFlow, Repeated, SparseProgress, notice_line, progress, tool_label
from nanoclaw.core.channel import Deliver, Hints
from nanoclaw.core.events import (
    Event,
    Notice,
    Reason,
    ReasoningDelta,
    Receipt,
    StatusLines,
    TextDelta,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    TurnBegan,
    TurnEnded,
    TurnPaused,
)
from nanoclaw.core.messages import Address, Attachment, Inbound, Outbound, Usage, UserMessage, is_stop
from nanoclaw.escapes import json_line, printable

_SILENT_SECONDS = 0.8  # until a person is told what is waited for
_ANSWER_SECONDS = 2.0  # from the end of the turn until its answer must have come through the outbox


class OneQuestion(NamedTuple):
    """A question of `nanoclaw -m`, its session, and the form of its answer."""

    text: str
    session: str = "main"
    attachments: tuple[Attachment, ...] = ()
    as_json: bool = False
    timeout: float = TIMEOUT_SECONDS


class Plain:
    """A channel with one message. The answer goes to stdout, everything else to stderr."""

    def __init__(
        self,
        question: OneQuestion,
        clock: Callable[[], datetime],
        *,
        model: str = "",
        stdout: TextIO | None = None,
        stderr: TextIO | None = None,
    ) -> None:
        self.name = "terminal"
        self.hints = Hints(stays=False, bursts=False, notices=True)
        self.alive: datetime | None = None
        self.reason: Reason = "answered"
        self._lacks_something = False
        self._refused: dict[str, None] = {}  # labels of calls
        self._address = Address(self.name, question.session)
        self._question, self._clock = question, clock
        self._model = model
        self.accepts_any = True
        """Work that earlier runs left in the conversation continues here."""
        self._out = Pipe(stdout or sys.stdout)
        self._err = Pipe(stderr or sys.stderr)
        self._flow = PlainFlow(self._out.write, self._note, streams=self._out.isatty and not question.as_json)
        self._sparse = SparseProgress(self._write_error_line)
        self._repeated = Repeated()
        self._bar = ""
        self.id = os.urandom(8).hex()
        self._over = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._turning = self._is_own_turn = False
        self._was_for_code = False
        """It has its answer by code, and a turn runs that this began again, as after an answer to a question."""
        self._ended: TurnEnded | None = None
        self._texts: list[str] = []
        self._tools: list[dict[str, Any]] = []

    async def run(self, deliver: Deliver) -> None:
        """Hand the message in and return when its answer is out; `reason` then says how the turn ended."""
        try:
            await deliver(self.question)
            await self._over.wait()
        finally:
            self._stop_timer()
            self._clear_bar()
            if not self._question.as_json:
                self._flow.end_line()
        if self._question.as_json:
            self._print_object()

    @property
    def is_answered(self) -> bool:
        """True when there is an answer, and nothing that belongs to it was left out."""
        return self.reason == "answered" and not self._lacks_something

    @property
    def question(self) -> Inbound:
        asked, message = self._question, UserMessage(self._question.text, self._clock())
        return Inbound(
            self._address, "owner", self.id, message, asked.attachments, role="owner", wait_limit=asked.timeout
        )

    @property
    def withdrawal(self) -> Inbound:
        """Takes the question back, unless it is begun."""
        nothing = UserMessage("", self._clock())
        return self.question._replace(message=nothing, attachments=(), is_edit=True)

    @property
    def write_error(self) -> str:
        """The reason that stdout took no more, '' for none; a reader who left (`| head`) is not an error."""
        return self._out.error

    def serves(self, outbound: Outbound) -> bool:
        """Unprompted messages wait for an interactive terminal: the reader here may be a script."""
        own = outbound.reply_to == self.id or (self.accepts_any and outbound.reply_to != "")
        return outbound.address == self._address and own

    async def send(self, outbound: Outbound) -> str:
        self._clear_bar()
        self._stop_timer()
        if outbound.reply_to in ("", self.id) or self._was_for_code:
            self._say(outbound)
        else:  # accepted by an earlier run, and answered in this one
            self._write_error_line(printable(outbound.text))
            self._tools.clear()
        is_own = outbound.reply_to == self.id
        if (is_own and not self._turning) or (self._was_for_code and not is_own):
            self._over.set()
        self._was_for_code |= is_own and self._turning and not self._is_own_turn
        return os.urandom(8).hex()

    def show(self, address: Address, event: Event) -> None:
        if address != self._address or self._repeated(event):
            return
        self._lacks_something |= isinstance(event, Notice) and event.is_failure
        if not self._ended and not isinstance(event, StatusLines | ReasoningDelta):
            self._stop_timer()  # it is silent no more
        match event:
            case Notice(_, float()):
                self._show_progress(event)
                return
            case TurnEnded():
                self._turning, self._ended, self.reason = False, event, event.reason
                if self._refused:
                    self._write_error_line(
                        f"Not done, as nobody here can say yes: {'; '.join(self._refused)}. Ask in `nanoclaw`."
                    )
                if event.reason == "cancelled" and is_stop(self._question.text):  # that is what it was to do
                    self.reason = "answered"
                if event.reason == "answered" and not event.answer:  # there is nothing to say, or a tool has said it
                    self._over.set()
                self._timer = asyncio.get_running_loop().call_later(_ANSWER_SECONDS, self._give_up, event)
            case ToolFinished(call, refused=by):
                self._turning = True
                self._tools.append(_tool(event))
                self._refused |= {tool_label(call, 200): None} if by == "nobody" else {}
            case Notice(text) if not self._err.isatty:
                self._write_error_line(notice_line(text, WHOLE))  # that a file was left out is news to a script, too
            case Receipt() if not self._out.isatty:
                return
            case TurnBegan(reply_to):
                self._turning, self._is_own_turn = True, reply_to == self.id
                if not self._ended:  # else it may be that of an earlier turn, whose answer is still to come
                    loop = asyncio.get_running_loop()
                    self._timer = loop.call_later(_SILENT_SECONDS, self._note, "· the model is at work")
            case TurnPaused() if self._was_for_code:
                self._over.set()
            case StatusLines():  # the lines of its calls tell the same
                return
            case TextDelta() | ReasoningDelta() | ToolStarted() | ToolProgress() | TurnPaused():
                self._turning = True
        self._clear_bar()
        if not self._question.as_json or isinstance(event, ToolFinished | Notice):
            self._flow.show(event)

    def _say(self, outbound: Outbound) -> None:
        self._texts.append(printable(outbound.text).strip())
        if self.reason == "failed" and not self._question.as_json:  # no answer, so nothing for stdout
            self._flow.end_line()
            self._write_error_line(self._texts[-1])
        elif not self._question.as_json:
            self._flow.say("\n".join([outbound.text, *outbound.files]))

    def _give_up(self, ended: TurnEnded) -> None:
        """The outbox brings nothing, since nothing can be stored: what the turn said must do."""
        self._say(Outbound(self._address, ended.answer))
        self._over.set()

    def _stop_timer(self) -> None:
        if self._timer:
            self._timer.cancel()

    def _note(self, line: str) -> None:
        if self._err.isatty:
            self._write_error_line(line)

    def _write_error_line(self, line: str) -> None:
        self._err.write(line + "\n")

    def _show_progress(self, notice: Notice) -> None:
        if not self._err.isatty:
            self._sparse.show(notice)
            return
        self._flow.end_line()
        bar = progress(notice)
        self._err.write_over(bar.ljust(len(self._bar)))
        self._bar = bar
        if (notice.fraction or 0.0) >= 1.0:
            self._clear_bar()

    def _clear_bar(self) -> None:
        if self._bar:
            self._err.write("\n")
            self._bar = ""

    def _print_object(self) -> None:
        usage = self._ended.usage if self._ended else Usage()
        failed, answer = self.reason == "failed", "\n\n".join(self._texts)
        fields: dict[str, Any] = {
            "answer": "" if failed else answer,
            "reason": self.reason,
            "session": self._question.session,
            "model": self._model,
            "tools": self._tools,
            "usage": {
                "input_tokens": usage.input_tokens,
                "output_tokens": usage.output_tokens,
                "cached_tokens": usage.cached_tokens,
            },
        }
        if failed:
            fields["error"] = printable(answer)
        self._out.write(json_line(json.dumps(fields, ensure_ascii=False)) + "\n")


def _tool(event: ToolFinished) -> dict[str, Any]:
    return {
        "name": printable(event.call.name),
        "arguments": _arguments(event.call.arguments),
        "result": printable(event.text),
        "is_error": event.is_error,
        "seconds": round(event.seconds, 3),
    }


def _arguments(text: str) -> Any:
    """The object the model meant, or its words when they are no JSON object."""
    try:
        value = json.loads(text)
        json.dumps(value, allow_nan=False)
    except (ValueError, RecursionError):
        return printable(text)
    return value if isinstance(value, dict) else printable(text)
