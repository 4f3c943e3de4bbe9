"""Sentences about what was stopped, dropped, still runs or failed."""

from __future__ import annotations

from collections.abc import Iterable

from nanoclaw.core.errors import NanoclawError
from nanoclaw.core.messages import Address
from nanoclaw.escapes import one_line

NOT_NOW = "I can't do that just now."
"""For guests: only the owner is told what went wrong."""

NO_MODEL = "I can't reach the model. Your message is kept, and I answer when it is back; /stop drops it."


def not_begun(dropped: Iterable[tuple[int, str]]) -> str:
    texts = [one_line(text) for _, text in dropped if text]
    return f" Not begun: {'; '.join(texts)}." if texts else ""


def waits_first(text: str) -> str:
    first = f"“{one_line(text)}” waits for an answer here first"
    return f"{first}: nanoclaw shows it, /stop drops it, --session talks elsewhere."


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
