"""A search by ddgs, run as a program: the request is in the environment, the answer one line of JSON.

ddgs says nothing of how its engines answered, and takes a refusal for no result: so that is noted here.
"""

from __future__ import annotations

import json
import os
import re
from typing import Any
from urllib.parse import urlsplit

SECONDS = 5
"""For each engine; several are asked one after the other."""
_CHALLENGE = r"(?i)captcha|anomaly[-_]modal|anomaly\.js|unusual traffic|are you a (?:robot|human)"


def main() -> None:
    from ddgs import DDGS
    from ddgs.exceptions import DDGSException
    from ddgs.http_client import HttpClient

    asked: list[tuple[str, str]] = []
    ask = HttpClient.request

    def noted(self: Any, method: str, url: str, *more: Any, **named: Any) -> Any:
        host = urlsplit(url).hostname or ""
        try:
            answer = ask(self, method, url, *more, **named)
        except Exception as error:
            asked.append((host, " ".join(str(error.__cause__ or error).split())[:100] or type(error).__name__))
            raise
        is_refused = answer.status_code == 200 and re.search(_CHALLENGE, answer.text[:200_000])
        asked.append((host, "200 with a puzzle for people" if is_refused else str(answer.status_code)))
        return answer

    setattr(HttpClient, "request", noted)  # noqa: B010
    request, error = json.loads(os.environ["NANOCLAW_SEARCH"]), ""
    found: list[dict[str, Any]] = []
    try:
        found = DDGS(timeout=SECONDS, verify=os.environ.get("SSL_CERT_FILE") or True).text(
            request["query"], region=request["region"], timelimit=request["span"], max_results=request["count"]
        )
    except DDGSException as failed:
        error = str(failed)[:300]
    results = [(one.get("title", "")[:200], one.get("href", ""), one.get("body", "")[:300]) for one in found]
    print(json.dumps({"results": results, "asked": asked, "error": error}), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
    os._exit(0)  # engines that are still asked are not waited for
