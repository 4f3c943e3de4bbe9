"""Summaries: which part of a conversation they replace, and what they must contain. Pure functions."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, chain

from nanoclaw.core.messages import AssistantMessage, Message, Placed, UserMessage
from nanoclaw.identifiers import CARRIED, OPEN, STANDING, carried_lines, missing, rules, unmentioned
from nanoclaw.named_tuple import NamedTuple
from nanoclaw.outside_text import own_words, without_documents

TAIL_TOKENS = 20_000
"""Tokens kept word for word, or a quarter of a small window."""

QUOTED = 8_000
"""Characters of the person's own words in a turn that is summarized before its end."""

SUMMARY = (
    "This conversation has grown long. Write the summary that replaces everything above; you continue from it, "
    "and the person does not see it. Write text in the language of the conversation, call no tool, and use at most "
    "{words} words, under these headings:\n"
    f"{STANDING}: what the person told you to do or not to do from now on, as they said it.\n"
    f"{OPEN}: what was asked for or promised and is not done, each with the state it is in.\n"
    "Done: what is finished, with its results.\n"
    "Facts: people, places and decisions; every id, number, date, path, file name and address as it was written.\n"
    "If everything above begins with a summary, carry over what still holds: each of its instructions and open tasks "
    "appears again, or is said to be done or withdrawn."
)

FOCUS = "\nAbove all keep what concerns: {focus}"

BEGIN = "[Summary of the conversation so far, written by you. The messages that it stands for are no longer shown.]"
END = "[End of the summary]"

LINES = (
    "[The older turns of the conversation, one line each, written by the program, as there is no summary of them yet. "
    "Their messages are no longer shown.]"
)

WORDS = 80
"""Characters of a person's words in the line of a turn."""


class Part(NamedTuple):
    """The older part of a conversation: its messages up to the id `upto`, which are the first `cut` of the history."""

    cut: int
    upto: int
    tokens: int


def lines_of(placed: Iterable[Placed], room: int) -> str:
    """A line for each turn: when it was, the first words of the person, the tools that ran. The newest lines stay where
    all have more than `room` characters."""
    turns: dict[int, list[Message]] = {}
    for one in placed:
        turns.setdefault(one.turn, []).append(one.message)
    lines = [_line(messages) for messages in reversed(turns.values())]
    ends = accumulate(len(line) + 1 for line in lines)
    fitting = [line for line, end in zip(lines, ends, strict=True) if end <= room]
    left = len(lines) - len(fitting)
    return "\n".join([*([f"({left} turns before these have no line.)"] if left else ()), *reversed(fitting)])


def _line(messages: Sequence[Message]) -> str:
    said = next((message.text for message in messages if is_said(message)), messages[-1].text)
    words = " ".join(without_documents(own_words(said)).split())
    ran = Counter(call.name for one in messages if isinstance(one, AssistantMessage) for call in one.tool_calls)
    tools = ", ".join(name if times == 1 else f"{name} × {times}" for name, times in ran.items())
    return f"- {messages[0].at:%Y-%m-%d %H:%M} {words[:WORDS]}" + (f" [tools that ran: {tools}]" if tools else "")


def with_what_was_lost(
    summary: str, placed: Sequence[Placed], part: Part, asked: Sequence[str], kept: Sequence[str], begin: str = BEGIN
) -> str:
    """The summary for the history, completed by code with what is missing in it; it ends with what is `kept`."""
    older = placed[: part.cut]
    earlier = older[0].message.text.removesuffix(END) if older[0].id == 0 else ""
    room = max(200, min(4_000, part.tokens))
    parts = [begin, summary]
    said = [without_documents(own_words(one.message.text)) for one in older if one.id and is_said(one.message)]
    if lines := unmentioned([*carried_lines(earlier), *chain.from_iterable(map(rules, said))], summary, room):
        parts.append("\n".join([f"{CARRIED}:", *(f"- {line}" for line in lines)]))
    if asked:
        parts.append("\n".join(["What the person asked for in the turn that continues below, word for word:", *asked]))
    if names := missing(_texts_by_weight(older, earlier), "\n".join(parts), room):
        parts.append(f"Also named: {'; '.join(names)}")
    return "\n\n".join([*parts, *kept, END])


def _texts_by_weight(older: Sequence[Placed], earlier: str) -> Iterator[str]:
    """Texts to search for identifiers: the person's words and the earlier summary first, and newer ones first."""
    newest_first = [one.message for one in reversed(older) if one.id]
    yield from (without_documents(own_words(message.text)) for message in newest_first if is_said(message))
    yield from re.split(r"\n|; ", earlier)
    for message in newest_first:
        if isinstance(message, AssistantMessage):
            yield message.text
            yield from (call.arguments for call in message.tool_calls if len(call.arguments) < 300)


def tail_tokens(window: int | None) -> int:
    """Tokens that are kept word for word."""
    return min(TAIL_TOKENS, window // 4) if window else TAIL_TOKENS


def why_nothing(placed: Sequence[Placed], tokens: float, tail: int) -> str:
    """Why there is nothing to summarize by hand."""
    if not placed:
        return "nothing was said"
    if tokens <= tail:
        begin = "the last summary" if placed[0].id == 0 else "the beginning"
        return f"everything since {begin} is within the newest {tail:,} tokens, which stay word for word"
    if len({one.turn for one in placed if one.id}) > 1:
        return f"what is older than the newest {tail:,} tokens, which stay word for word, is too short"
    return "the newest turn always stays as it is"


def cut_before(placed: Sequence[Placed], sizes: Sequence[float], tail: float, newest: float) -> int:
    """Index at which the part begins that stays: at a turn if one fits in `tail`, else at the newest turn if it is no
    longer than `newest`, else at a step of it, never between a call and its result."""
    left = [*accumulate(reversed(sizes))][::-1]
    turns, _ = cuts_after(placed, 0)
    if fitting := [at for at in turns if left[at] <= tail]:
        return fitting[0]
    if turns and left[turns[-1]] <= newest:
        return turns[-1]
    steps = [at for at in range(1, len(placed)) if isinstance(placed[at].message, AssistantMessage)]
    return next((at for at in steps if left[at] <= tail), steps[-1] if steps else 0)


def is_within_a_turn(placed: Sequence[Placed], cut: int) -> bool:
    return 0 < cut < len(placed) and placed[cut].turn == placed[cut - 1].turn


def cut_within(placed: Sequence[Placed], sizes: Sequence[float], room: float) -> int:
    """End of a first part that fits in `room`: before a turn if there is one, else before a step; 0 for none."""
    ends = accumulate(sizes[:-1])
    fitting = [at for at, end in enumerate(ends, 1) if end <= room and placed[at - 1].id]
    turns = [at for at in fitting if placed[at].turn != placed[at - 1].turn]
    steps = [at for at in fitting if isinstance(placed[at].message, AssistantMessage)]
    return (turns or steps or [0])[-1]


def last_before(placed: Sequence[Placed], turns: int) -> int:
    """The id of the last message before the newest turns; 0 when there is none."""
    newest = list(dict.fromkeys(one.turn for one in reversed(placed)))[:turns]
    return max((one.id for one in placed if one.turn not in newest), default=0)


def last_before_step(placed: Sequence[Placed]) -> int:
    """The id of the last message before the newest answer with its results."""
    at = max((at for at, one in enumerate(placed) if isinstance(one.message, AssistantMessage)), default=0)
    return placed[at - 1].id if at else 0


def cuts_after(placed: Sequence[Placed], begin: int) -> tuple[list[int], list[int]]:
    """Find where turns begin after that index, and where steps of the newest turn do."""
    turns = [at for at in range(begin + 1, len(placed)) if placed[at].turn != placed[at - 1].turn]
    steps = range((turns or [begin])[-1] + 1, len(placed))
    return turns, [at for at in steps if isinstance(placed[at].message, AssistantMessage)]


def is_said(message: Message) -> bool:
    return isinstance(message, UserMessage) and message.origin != "runtime"


def reason(error: Exception) -> str:
    return str(error).rstrip(".")


def counted(messages: int) -> str:
    return f"{messages} message" + ("" if messages == 1 else "s")
