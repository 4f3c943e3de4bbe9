"""Sentences about what was stopped, dropped, still runs or failed."""

from __future__ import annotations

from collections.abc import Iterable

from nanoclaw.core.errors import NanoclawError
from nanoclaw.core.messages import Address

NOT_NOW = "I can't do that just now."
"""For guests: only the owner is told what went wrong."""

SHORT = 60
"""Most characters of a text that is quoted as a name."""

NO_MODEL = "I can't reach the model. Your message is kept, and I answer when it is back; /stop drops it."


def short(text: str, most: int = SHORT) -> str:
    """A text on one line, cut where it is long."""
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 1] + "…"


def not_begun(dropped: Iterable[tuple[int, str]]) -> str:
    texts = [short(text) for _, text in dropped if text]
    return f" Not begun: {'; '.join(texts)}." if texts else ""


def waits_first(text: str) -> str:
    return (
        f"“{short(text)}” waits for an answer here first: nanoclaw shows it, /stop drops it, --session talks elsewhere."
    )


def sorry(error: BaseException) -> str:
    """One sentence about what went wrong."""
    if isinstance(error, NanoclawError):
        return str(error)
    return f"Something went wrong in the program ({type(error).__name__}); the log has more."


def logged(error: Exception, conversation: Address) -> str:
    """Log why a message had no answer. Returns the sentence for whoever wrote it."""
    from nanoclaw.log import logger

    logger.opt(exception=error).error("answering a message in {} failed", conversation)
    return sorry(error)
