"""The text of PDFs, page by page, read by a child process that can be ended: PDFs of others can break any reader."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Sequence

SECONDS, MEMORY_BYTES = 20.0, 1 << 30
"""Limits for one document."""

PAGES, CHARACTERS = 2_000, 2_000_000
"""Most pages and characters of one document."""


class PdfReader:
    """Reads one PDF after the other; a child that breaks or hangs costs its document alone."""

    def __init__(self) -> None:
        self._child: subprocess.Popen[bytes] | None = None

    def pages(self, content: bytes) -> list[str]:
        """The text of each page. Raises ValueError: the end of a sentence that says why there is none."""
        child = self._child = self._child or _started()
        assert child.stdin and child.stdout
        limit = threading.Timer(SECONDS, child.kill)
        limit.start()
        try:
            child.stdin.write(len(content).to_bytes(8, "big") + content)
            child.stdin.flush()
            found: list[str] | str = json.loads(child.stdout.readline())
        except (OSError, ValueError):  # it is gone
            self.close()
            found = "is damaged, or takes too long to be read"
        finally:
            limit.cancel()
        if isinstance(found, str):
            raise ValueError(found)
        return found

    def close(self) -> None:
        child, self._child = self._child, None
        if child:
            child.kill()
            child.communicate()


def _started() -> subprocess.Popen[bytes]:
    folders = [one for one in sys.path if os.path.isabs(one)]  # noqa: PTH117
    code = f"import sys; sys.path[:0] = {folders!r}; from {__name__} import main; main()"
    command, pipe = (sys.executable, "-I", "-S", "-c", code), subprocess.PIPE
    # a session of its own, as Ctrl-C is for us
    return subprocess.Popen(
        command, cwd="/", env={}, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, start_new_session=True
    )


# --- in the child -----------------------------------------------------------------------------------------------------


def main() -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    while size := int.from_bytes(sys.stdin.buffer.read(8), "big"):
        sys.stdout.write(f"{json.dumps(_read(sys.stdin.buffer.read(size)))}\n")
        sys.stdout.flush()


def _read(content: bytes) -> Sequence[str]:
    from nanoclaw.documents.pdf import opened, words_of_page

    try:
        document = opened(content)
    except RuntimeError:
        return "is damaged, or no PDF"
    if document is None:
        return "needs a password"
    pages, left = list[str](), CHARACTERS
    for number in range(min(len(document), PAGES)):
        try:
            text = words_of_page(document, number)[:left]
        except RuntimeError:  # the other pages may be well
            text = ""
        pages.append(text)
        left -= len(text)
    return pages if any(map(str.strip, pages)) else "has no text in it: it may be a scan"
