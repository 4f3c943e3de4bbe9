"""The plugin: the tool `question`, by which the model asks its person to choose, and waits for the answer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC
from typing import Annotated

from nanoclaw.core.errors import ToolError
from nanoclaw.core.messages import CheckedCall, OwnersAnswer, ToolExample
from nanoclaw.core.plugin import Ask, Host, Plugin, Tool, Turn, Verdict
from nanoclaw.core.tool import ToolContext, tool
from nanoclaw.escapes import plain

OPEN_TO = ("person", "job", "heartbeat")
"""A helper decides by its task, and says in its report what is left to decide."""

FEWEST, MOST = 2, 10
TEXT_LENGTH, OPTION_LENGTH = 1_000, 80
"""Characters of a question, and of an option."""

HOURS = 4.0
"""The time that a question without a deadline stays open."""
LEAST_SECONDS, MOST_HOURS = 60.0, 168.0
"""Bounds of a deadline: a minute and a week."""

OWN_WORDS = "The person answered in words of their own:"


class Choices(Plugin):
    name = "question"

    def __init__(self, host: Host, settings: None) -> None:
        self._host = host

    def tools(self) -> Iterable[Tool]:
        example = ToolExample("Ask me which hotel", {"text": "Which hotel?", "options": ["Astoria", "Bristol"]})
        made = tool(self._question, reach="none", examples=[example], open_to=OPEN_TO)
        return [made._replace(check=self._check)]

    async def _question(
        self,
        context: ToolContext,
        text: str,
        options: Annotated[list[str], "2 to 10, a few words each"],
        default: Annotated[str, "the option to take when nobody answers"] = "",
        deadline: Annotated[str, "such as 1h, or tomorrow at 9"] = "",
    ) -> str:
        """Ask your person to decide, and wait for the answer."""
        return answer_text(context.answer or OwnersAnswer(), options)

    async def _check(self, call: CheckedCall, turn: Turn) -> Verdict:
        """Every call asks; one that cannot be asked as it stands is told why."""
        given = call.arguments
        text = self._clean(str(given["text"])).strip()
        if not 0 < len(text) <= TEXT_LENGTH:
            raise ToolError(f"the text of a question has 1 to {TEXT_LENGTH:,} characters, not {len(text):,}.")
        options = self._options(given["options"])
        default = _one_of(options, self._clean(str(given.get("default", ""))))
        return Ask(text, options, default, self._seconds(str(given.get("deadline", ""))), is_free=True, asks_back=True)

    def _options(self, given: Sequence[str]) -> tuple[str, ...]:
        options = tuple(" ".join(self._clean(one).split()) for one in given)
        if not FEWEST <= len(options) <= MOST:
            raise ToolError(f"a question has {FEWEST} to {MOST} options, not {len(options)}.")
        if wrong := next((one for one in options if not 0 < len(one) <= OPTION_LENGTH), None):
            raise ToolError(f"an option has 1 to {OPTION_LENGTH} characters, not {len(wrong)}: {wrong[:40]!r}…")
        if "" in options:
            raise ToolError("one of the options is empty.")
        if len({one.casefold() for one in options}) < len(options):
            raise ToolError("two of the options are the same.")
        return options

    def _clean(self, text: str) -> str:
        """A text as it may be stored and shown."""
        return self._host.redact(plain(text))

    def _seconds(self, deadline: str) -> float:
        """Seconds until the deadline that words name."""
        if not deadline.strip():
            return HOURS * 3600
        from nanoclaw import time_words

        now, most = self._host.now(), MOST_HOURS
        try:
            reading = time_words.read(deadline, now, now.tzinfo or UTC)
            if isinstance(reading, time_words.Unclear):  # "1h" is one o'clock, too
                reading = time_words.read_known(f"in {deadline}", now, now.tzinfo or UTC) or reading
        except time_words.TimeWordsError as error:
            raise ToolError(f"deadline: {error} Nobody was asked.") from None
        if isinstance(reading, time_words.Unclear):
            raise ToolError(f"deadline: {reading.question} Nobody was asked.")
        if not isinstance(reading, time_words.At):
            raise ToolError(f"deadline: {deadline!r} is more than one time. Nobody was asked.")
        seconds = time_words.apart(reading.when, now).total_seconds()
        if not LEAST_SECONDS <= seconds <= most * 3600:
            raise ToolError(
                f"the deadline must be a minute to {most:g} hours away, not {deadline!r}. Nobody was asked."
            )
        return seconds


def answer_text(answer: OwnersAnswer, options: Sequence[str]) -> str:
    """The answer, in a sentence for the model."""
    if answer.by == "owner":
        is_option = answer.text in {" ".join(plain(one).split()) for one in options}
        return f"The person chose: {answer.text}" if is_option else f"{OWN_WORDS} {answer.text}"
    why = "Nobody answered in time" if answer.by == "time" else "Nobody is there to be asked"
    if answer.text:
        return f"{why}, so the default is taken: {answer.text}"
    return f"{why}. There is no default: do only what is safe, and say in your answer what is left to decide."


def _one_of(options: Sequence[str], default: str) -> str:
    said = " ".join(default.split())
    found = next((one for one in options if one.casefold() == said.casefold()), "")
    if said and not found:
        raise ToolError(f"the default {said[:OPTION_LENGTH]!r} is not one of the options: {', '.join(options)}.")
    return found
