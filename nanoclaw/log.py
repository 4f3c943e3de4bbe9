"""Where log lines go: warnings to stderr, everything to a rotating file, secrets to neither."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from loguru import logger

if TYPE_CHECKING:
    from loguru import Record

_LINE = "{level}: {message}"
_FILE_LINE = "{time:YYYY-MM-DD HH:mm:ss.SSS} {level: <7} {name}: {message}{extra[trace]}"


def start(folder: Path, redact: Callable[[str], str]) -> None:
    """Send log lines to stderr (warnings) and to `folder`/nanoclaw.log (5 MB, three older ones kept)."""

    def without_secrets(record: Record) -> None:
        trace = ""
        if error := record["exception"]:
            trace = "\n" + "".join(traceback.format_exception(error.type, error.value, error.traceback)).rstrip()
            record["exception"] = None  # the screen gets the sentence, the file the rest
        record["message"], record["extra"]["trace"] = redact(record["message"]), redact(trace)

    logger.remove()
    logger.configure(patcher=without_secrets)
    logger.add(_print, level="WARNING", format=_LINE)
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        logger.add(folder / "nanoclaw.log", level="DEBUG", format=_FILE_LINE, rotation="5 MB", retention=3)
    except OSError as error:
        logger.warning("no log file in {}: {}", folder, error.strerror)


def _print(line: str) -> None:
    sys.stderr.write(line)  # looked up at each line: the terminal puts its own stream there while it draws
