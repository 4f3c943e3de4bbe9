"""Search without a key: ddgs, in a process of its own, which can be ended and leaves its libraries with it."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nanoclaw.plugins.web.search import WebQuery, WebResult

SECONDS = 20.0
_GIVEN = ("PATH", "HOME", "SSL_CERT_FILE", "DDGS_PROXY", "HTTPS_PROXY", "ALL_PROXY", "https_proxy", "all_proxy")
"""Variables of the environment that the process gets."""

_LEXICA = ("wikipedia.org", "grokipedia.com")
"""Sites that ddgs asks besides engines: their silence says nothing about the net."""


async def results(query: WebQuery, environment: Mapping[str, str]) -> list[WebResult]:
    """Raises SearchError."""
    from nanoclaw.plugins.web.search import SearchError
    from nanoclaw.spawn import Process

    span, place = query.span, re.match("([a-z]{2})_([A-Z]{2})", environment.get("LANG", ""))
    region = f"{place[2]}-{place[1]}".lower() if place else "us-en"
    request = {"query": query.words, "count": query.most, "region": region, "span": span[0] if span else None}
    child = Path(__file__).with_name("keyless_child.py")
    try:
        ended = await Process(
            (sys.executable, "-I", str(child)),
            folder=Path("/"),
            environment={
                **{name: environment[name] for name in _GIVEN if name in environment},
                "NANOCLAW_SEARCH": json.dumps(request),
            },
        ).run(SECONDS)
    except OSError as error:
        raise SearchError(f"Nothing was searched: no process can be started ({error.strerror}).") from None
    if ended.why == "timeout":
        raise SearchError(f"ddgs gave no answer within {SECONDS:.0f} s. Try again later.")
    return _read(ended.head + ended.tail)


def _read(output: bytes) -> list[WebResult]:
    from nanoclaw.plugins.web.search import SearchError, WebResult

    line = next((one for one in reversed(output.splitlines()) if one.startswith(b'{"results"')), b"")
    try:
        said: dict[str, Any] = json.loads(line)
    except (ValueError, RecursionError):
        last = output.decode("utf-8", "replace").strip().splitlines()[-1:] or ["it said nothing"]
        raise SearchError(f"Nothing was searched: ddgs failed ({last[0][:300]}).") from None
    if found := [WebResult(*map(str, one)) for one in said["results"]]:
        return found
    engines = {str(host): str(answer) for host, answer in said["asked"] if not str(host).endswith(_LEXICA)}
    if any(answer == "200" for answer in engines.values()):
        return []
    told = "; ".join(f"{host}: {answer}" for host, answer in engines.items())[:300] or said["error"]
    if any(answer[:3].isdigit() for answer in engines.values()):
        raise SearchError(
            f"Nothing was searched: the engines refuse programs at the moment ({told}), so this says nothing about "
            'whether there are results. Wait some minutes, or set [web] search to "brave", "tavily" or "searxng".'
        )
    raise SearchError(f"Nothing was searched: no engine can be reached. Check the connection to the net ({told}).")
