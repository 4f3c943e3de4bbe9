"""A text for the owner to judge: shown as it is, nothing in it hidden, and no longer than can be read."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from nanoclaw.escapes import revealed

MOST = 3_000
"""Characters of a text that is shown whole."""


def call_text(arguments: Mapping[str, object]) -> str:
    """The arguments of a call: a command as it is, others with their names, which alone begin a line."""
    texts = [one if isinstance(one, str) else json.dumps(one, ensure_ascii=False) for one in arguments.values()]
    lines = [f"{name}: {text}".replace("\n", "\n  ") for name, text in zip(arguments, texts, strict=True)]
    return texts[0] if [*arguments] == ["command"] else "\n".join(lines)


def exactly(text: str, most: int = MOST, kind: str = "") -> str:
    """A text as a code block of a `kind`, in which no Markdown is rendered; of a longer one both ends, and a count."""
    shown = revealed(text)
    if len(shown) <= most:
        return _block(shown, kind)
    left_out = f"({len(shown):,} characters in all; {len(shown) - most:,} of them are not shown here)"
    return "\n\n".join([_block(shown[: most - most // 3], kind), left_out, _block(shown[-(most // 3) :], kind)])


def is_shown_whole(text: str) -> bool:
    return len(revealed(text)) <= MOST


def as_code(text: str, limit: int = 200) -> str:
    """A text as code within a sentence, where no markup can hide: line ends are shown, and both ends of a long one."""
    line = re.sub(r"\s*\n\s*", " ⏎ ", revealed(text.strip()))
    line = line if len(line) <= limit else f"{line[: limit // 2]} … {line[-(limit // 2) :]}"
    fence = max(["", *re.findall("`+", line)], key=len) + "`"
    return f"{fence} {line} {fence}" if "`" in line else f"{fence}{line}{fence}"


def _block(shown: str, kind: str) -> str:
    fence = max(["``", *re.findall("`+", shown)], key=len) + "`"
    return f"{fence}{kind}\n{shown}\n{fence}"
