"""httpx, imported without what it does not need here."""

from __future__ import annotations

import sys

# httpx imports its command line (click, rich, pygments) and httpcore its HTTP/2 (h2) where they happen to be installed:
# 260 M instructions of 900 at every start. Both packages have a fallback for a missing module, so these are missing
# while the two are imported, and can be imported as usual afterwards.
_UNUSED = ("httpx._main", "httpcore._sync.http2", "httpcore._async.http2")
_hidden = [name for name in _UNUSED if sys.modules.setdefault(name, None) is None]  # type: ignore[arg-type]
import httpcore  # noqa: E402, F401
import httpx as httpx  # noqa: E402

for _name in _hidden:
    sys.modules.pop(_name, None)
