"""The log: warnings go to stderr, everything to a rotating file, secrets to neither.

loguru and its two sinks are loaded at the first line: they cost an eighth of a start (180 M instructions), and most
runs have nothing to log.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import logging

    from loguru import Logger, Record

__all__ = ["logger", "start"]

_LINE = "nanoclaw: {message}"
_FILE_LINE = "{time:YYYY-MM-DD HH:mm:ss.SSS} {level: <7} {name}: {message}{extra[trace]}"


def start(folder: Path, redact: Callable[[str], str]) -> None:
    """From the first line on, send them to stderr (warnings) and to `folder`/nanoclaw.log (5 MB, three older kept)."""
    global _set_up
    _set_up = partial(_add_sinks, folder, redact)


class _Logger:
    """The one of loguru, ready to use."""

    def __getattr__(self, name: str) -> Any:
        global _set_up
        import loguru

        if _set_up:
            set_up, _set_up = _set_up, None
            set_up()
        return getattr(loguru.logger, name)


logger: Logger = _Logger()  # type: ignore[assignment]


def _add_sinks(folder: Path | None, redact: Callable[[str], str]) -> None:
    from loguru import logger

    def without_secrets(record: Record) -> None:
        trace = ""
        if error := record["exception"]:
            trace = "\n" + "".join(traceback.format_exception(error.type, error.value, error.traceback)).rstrip()
            record["exception"] = None  # the screen gets the sentence, the file the rest
        record["message"], record["extra"]["trace"] = redact(record["message"]), redact(trace)

    logger.remove()
    logger.configure(patcher=without_secrets)
    logger.add(_print, level="WARNING", format=_LINE)
    if folder is None:
        return
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        logger.add(_file(folder / "nanoclaw.log"), level="DEBUG", format=_FILE_LINE)
    except OSError as error:
        logger.warning("no log file in {}: {}", folder, error.strerror)


def _file(path: Path) -> logging.Handler:
    from logging.handlers import RotatingFileHandler

    class Rotating(RotatingFileHandler):
        def handleError(self, record: logging.LogRecord) -> None:
            pass  # a full disk is told of once, by what could not be saved; the screen is the person's

        def close(self) -> None:
            with suppress(OSError):  # what it could not write is not written at the end either
                super().close()

    return Rotating(path, maxBytes=5_000_000, backupCount=3, encoding="utf-8", delay=True)


def _print(line: str) -> None:
    sys.stderr.write(line)  # looked up at each line: the terminal puts its own stream there while it draws


_set_up: Callable[[], None] | None = partial(_add_sinks, None, str)
"""Work left to do before the first line; before `start` there is no file."""
