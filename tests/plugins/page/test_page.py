"""The page through its server: a real uvicorn on a free port, a scripted model, and requests as browsers make them."""

from __future__ import annotations

from pathlib import Path

from nanoclaw.providers.scripted import call
from tests.plugins.page.served import serving

KEY = "page:abc12345"


async def test_a_message_runs_a_tool_streams_its_answer_and_is_there_after_a_reload(tmp_path: Path) -> None:
    writes = call("write_file", {"path": "bird.txt", "content": "a **pelican**\n"})
    async with serving(tmp_path, writes, "It is in *bird.txt*.") as served, served.browser() as browser:
        async with browser.stream() as events:
            await events.until("afresh")
            await browser.say(KEY, "Write the word pelican to bird.txt")
            await events.until("ended")
            kinds = [(one["t"], one.get("item", {}).get("kind")) for one in events.seen]
            tools = [one["item"] for one in events.seen if one.get("item", {}).get("kind") == "tool"]
        assert kinds[:3] == [("afresh", None), ("item", "said"), ("began", None)]
        assert [one["state"] for one in tools] == ["running", "done"] and tools[1]["diff"]
        output = await browser.get("/api/output", c=KEY, number=str(tools[1]["number"]))
        assert "+a **pelican**" in output["diff"]
        shown = (await browser.talk(KEY))["items"]
        assert [one["kind"] for one in shown] == ["said", "tool", "text"]
        assert shown[2]["html"] == "<p>It is in <em>bird.txt</em>.</p>"
    async with serving(tmp_path) as served, served.browser() as browser:
        assert [one["kind"] for one in (await browser.talk(KEY))["items"]] == ["said", "tool", "text"]
        (listed,) = (await browser.get("/api/talks"))["talks"]
        assert listed["title"] == "Write the word pelican to bird.txt"
