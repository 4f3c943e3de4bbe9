"""Tokens of the prompt with many tools, and how often the right one is found: python bench/tool_search.py [-v]."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from nanoclaw.core.messages import ModelRequest, ToolSpec
from nanoclaw.core.plugin import Tool
from nanoclaw.core.provider import chat_tools
from nanoclaw.plugins.tool_search.ranking import ranked, terms_of
from nanoclaw.providers.scripted import ScriptedProvider
from tests.plugins.tool_search.many_tools import echo, server
from tests.plugins.tool_search.test_ranking import Requests, of_others, ours, places
from tests.program import running


def main() -> None:
    print("| figure | with tool_search | without |\n|---|---|---|")
    tools = [echo(ToolSpec(one.name, one.description, dict(one.parameters))) for one in of_others()[0]]
    for many in (0, 50, 300):
        found = [asyncio.run(prompt_tokens(tools[:many], without)) for without in ((), ("tool_search",))]
        print(f"| fixed prompt with {many} tools of servers, o200k tokens | {found[0]} | {found[1]} |", flush=True)
    print("\n| requests | first | among five | plain BM25 first, among five | CPU of a search |\n|---|---|---|---|---|")
    for name, (candidates, requests) in (("ours", ours()), ("another's", of_others())):
        begun = time.process_time()
        found = places(candidates, requests)
        took = (time.process_time() - begun) / len(requests) * 1_000
        plain = plainly(candidates, requests)
        shares = " | ".join(f"{share(found, most)}" for most in (1, 5))
        print(
            f"| {len(requests)} on {len(candidates)} tools, {name} | {shares} | {share(plain, 1)}, {share(plain, 5)} "
            f"| {took:.0f} ms |"
        )
        if "-v" in sys.argv:
            for (query, said, tool), place in zip(requests, found, strict=True):
                if place != 1:
                    first = candidates[ranked(query, candidates, said)[0]].name
                    print(f"  {query!r} ({said}): {tool} is number {place}, after {first}")


async def prompt_tokens(tools: list[Tool], without: tuple[str, ...]) -> str:
    """Tokens of the first request before any word is said."""
    provider = ScriptedProvider("Hello.")
    with tempfile.TemporaryDirectory() as folder:
        async with running(Path(folder) / "home", provider, extra=[server(tools)], without=without) as program:
            await program.ask("Hi")
    return counted(provider.requests[0])


def counted(request: ModelRequest) -> str:
    schemas = json.dumps(chat_tools(request.tools), ensure_ascii=False, separators=(",", ":"))
    counter = [sys.executable, str(Path(__file__).with_name("tokens.py"))]
    texts = json.dumps([request.system.text, schemas])
    system, of_tools = json.loads(subprocess.run(counter, input=texts, capture_output=True, text=True).stdout)
    return f"{system + of_tools:,} (system prompt {system:,}, {len(request.tools)} tools {of_tools:,})"


def plainly(candidates: list, requests: Requests) -> list[int]:  # type: ignore[type-arg]
    """Places by rank_bm25 alone, of the same words."""
    from rank_bm25 import BM25Plus

    from nanoclaw.plugins.tool_search.ranking import terms

    index = BM25Plus([terms_of(one) for one in candidates])
    found = []
    for query, _, tool in requests:
        scores = index.get_scores(terms(query))
        own = next(score for one, score in zip(candidates, scores, strict=True) if one.name == tool)
        found.append(1 + sum(score >= own for score in scores) - 1)
    return found


def share(found: list[int], most: int) -> str:
    return f"{sum(place <= most for place in found)} of {len(found)}"


if __name__ == "__main__":
    main()
