"""Sources of others' text: which of them the owner trusts, what they said in a conversation, and what of it a call
repeats."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import zip_longest
from urllib.parse import urlsplit

from nanoclaw.core.errors import ConfigError
from nanoclaw.core.messages import AssistantMessage, CheckedCall, Message, ToolResult, UserMessage
from nanoclaw.outside_text import inside, own_words

_HOST = r"(?:\*\.)?[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*"


class Trusted:
    """The owner's list: hosts ("docs.python.org", "*.python.org"), "mcp:SERVER", and who hands a message on
    ("telegram:555", "email:anna@example.org")."""

    def __init__(self, entries: Sequence[str]) -> None:
        self._entries = frozenset(one.lower() if ":" not in one or one.startswith("email:") else one for one in entries)

    def with_server(self, name: str) -> Trusted:
        """The same for a call of an MCP server, which learns nothing from its own text that it does not have."""
        return Trusted((*self._entries, f"mcp:{name}"))

    def without(self, sources: Iterable[str]) -> list[str]:
        """Those that the owner does not trust."""
        return [source for source in sources if not all(map(self._has, source.split(", ")))]

    def _has(self, source: str) -> bool:
        if source.startswith("mcp:"):
            return source in self._entries
        if match := re.search(r" \(([a-z_]+:[^()\s]+)\)$", source):
            return match[1] in self._entries
        if not re.fullmatch(r"https?://[^\s\\]+", source):
            return False
        try:
            host = (urlsplit(source).hostname or "").rstrip(".")
        except ValueError:
            return False
        return host in self._entries or any(f"*.{above}" in self._entries for above in _above(host))


def server_of(call: CheckedCall) -> str:
    """The MCP server that a call is to, '' for none."""
    server, sign, _ = call.name.partition("__")
    return server if sign else str(call.arguments["server"]) if call.name == "mcp_resources" else ""


def check(entry: str) -> None:
    """Raises ConfigError for an entry that no source can be."""
    if re.fullmatch(_HOST, entry.lower()) or re.fullmatch(r"[a-z_]+:[^()\s,]+", entry):
        return
    raise ConfigError(
        f'taint.trusted: {entry!r} is not a source; write "docs.python.org", "*.python.org", "mcp:calendar", '
        '"telegram:555" or "email:anna@example.org".'
    )


def others_texts(history: Sequence[Message], trusted: Trusted, *, by_models: bool = True) -> list[tuple[str, str]]:
    """Texts of others in a conversation, each with its source; `by_models` also what a model of ours wrote after it had
    read some: a helper's task, a summary, what a task has sent."""
    found = list[tuple[str, str]]()
    for message, after in zip_longest(history, history[1:]):
        if isinstance(message, AssistantMessage) or not message.outside or not trusted.without([message.outside]):
            continue
        text = inside(message.text)
        if by_models or text or isinstance(message, ToolResult) or message.origin not in _BY_MODELS:
            found.append((message.outside, text or message.text))
        if by_models and isinstance(after, AssistantMessage) and getattr(message, "origin", "") == "runtime":
            found.append((message.outside, after.text))  # what the program sent, behind its remark
    return found


def searched(history: Sequence[Message]) -> list[str]:
    """Queries that went to the search engine."""
    done = {one.call_id for one in history if isinstance(one, ToolResult) and not one.is_error}
    calls = (call for message in history if isinstance(message, AssistantMessage) for call in message.tool_calls)
    found = list[str]()
    for call in calls:
        if call.name == "web_search" and call.id in done:
            with suppress(ValueError, KeyError, TypeError):
                found.append(str(json.loads(call.arguments)["query"]))
    return found


def own_results(history: Iterable[Message]) -> list[str]:
    """Results of tools that are nobody else's: files, notes."""
    return [one.text for one in history if isinstance(one, ToolResult) and not one.outside]


def own_texts(history: Iterable[Message]) -> str:
    """Words of the person, or of the job that they made, in a conversation."""
    return "\n".join(_own(history))


def last_said(history: Sequence[Message]) -> str:
    """The same since the assistant's last answer."""
    said = list[str]()
    for message in reversed(history):
        if isinstance(message, AssistantMessage) and not message.tool_calls and said:
            break
        said += _own([message])
    return "\n".join(reversed(said))


_BY_MODELS = ("helper", "runtime")


def _own(history: Iterable[Message]) -> Iterable[str]:
    for message in history:
        is_task = isinstance(message, UserMessage) and message.origin == "helper" and not message.outside
        if is_task or (isinstance(message, UserMessage) and message.origin in ("person", "job")):
            yield own_words(message.text)


def _above(host: str) -> Iterable[str]:
    labels = host.split(".")
    return (".".join(labels[number:]) for number in range(1, len(labels)))


RUN = 4
"""Words in a row that say the same."""

_EMPTY = """a an and are as at by for from has have her his i in is it me my of on or owner person s that the their
this to user was with you your"""
_GLUE = frozenset(_EMPTY.split())
"""Words that say nothing by themselves; no negation is among them."""


def is_said(text: str, own: str) -> bool:
    """True where the owner said each word of a text, whatever their order."""
    words = [word for word in _words(text) if word not in _GLUE]
    return bool(words) and set(words) <= set(_words(own))


def echoed(text: str, others: Iterable[tuple[str, str]], own: str) -> list[str]:
    """Sources of which a text repeats words in a row, or an address, that the owner did not say."""
    words = _words(text)
    length = min(RUN, len(words))
    own_runs = _runs(_words(own), length)
    runs = _runs(words, length) - own_runs if length else set()
    places = {one for one in _PLACE.findall(text.casefold()) if one not in own.casefold()}
    found = dict[str, None]()
    for source, said in others:
        if places & set(_PLACE.findall(said.casefold())) or (runs and runs & _runs(_words(said), length)):
            found[source] = None
    return list(found)


_PLACE = re.compile(r"(?:(?<=://)|(?<=@))[\w-]+(?:\.[\w-]+)+")


def _words(text: str) -> list[str]:
    return re.findall(r"[^\W_]+", text.casefold())


def _runs(words: list[str], length: int) -> set[tuple[str, ...]]:
    return {tuple(words[start : start + length]) for start in range(len(words) - length + 1)}
