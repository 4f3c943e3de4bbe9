"""httpx, imported without its command line (click, rich, pygments), which it has a fallback for."""

from __future__ import annotations

import sys

_is_hidden = sys.modules.setdefault("httpx._main", None) is None  # type: ignore[arg-type]
import httpx as httpx  # noqa: E402

if _is_hidden:
    del sys.modules["httpx._main"]
