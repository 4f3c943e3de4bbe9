"""The net in use: a whole conversation about a page, and the example of docs/web.md."""

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from nanoclaw.core.messages import ModelRequest, ToolResult
from nanoclaw.providers.scripted import Say, ScriptedProvider, call
from tests.dial import Dial
from tests.journeys.command import Home
from tests.model_server import ModelServer, call_delta, delta, events, says
from tests.net.web_server import reply
from tests.plugins.schedule.clockwork import ticking
from tests.plugins.web.site import html, site, to
from tests.program import REPOSITORY, assert_legal, results

RELEASES = """<nav><a href="/">Home</a> <a href="/buy">Buy</a></nav><article><h1>Frob 2.5</h1>
<p>Released on 5 March 2026, the second release of this year. What is new in it:</p>
<ul><li>Ferries wait for late passengers.</li><li>The manual is written anew.</li>
<li>Tickets can be sent by mail.</li></ul><h1>Frob 2.4</h1><p>Released on 4 January 2026.</p></article>"""
NOTE = "# Frob\n\nWhat I know of 2.5:\n- The manual is written anew.\n"
ASKED = (
    "Find out what changed in the last release of Frob, compare it with my note notes/frob.md, put what is missing "
    "there into frob-news.md, and remind me tomorrow at 9 to update."
)


def told(request: ModelRequest, tool: str) -> str:
    """The last thing that a tool said to the model."""
    return next(one.text for one in reversed(request.history) if isinstance(one, ToolResult) and one.name == tool)


def items(text: str) -> list[str]:
    return re.findall(r"^[ \d\t]*- (.+)$", text.partition("Frob 2.4")[0], re.MULTILINE)


def look_closer(request: ModelRequest) -> Say:
    address = re.search(r"^ +(http\S+)$", told(request, "web_search"), re.MULTILINE)
    assert address
    return Say("", (("web_fetch", {"url": address[1]}), ("read_file", {"path": "notes/frob.md"})))


def write_down(request: ModelRequest) -> Say:
    known = items(told(request, "read_file"))
    news = [one for one in items(told(request, "web_fetch")) if one not in known]
    return call("write_file", {"path": "frob-news.md", "content": "".join(f"- {one}\n" for one in news)})


def sum_up(request: ModelRequest) -> str:
    source = next(one.outside for one in request.history if isinstance(one, ToolResult) and one.name == "web_fetch")
    return f"Two things are new; they are in frob-news.md. Source: {source}"


async def test_what_changed_in_a_release_is_found_compared_written_down_and_brought_up_tomorrow(tmp_path: Path) -> None:
    dial = Dial()
    model = ScriptedProvider(
        call("web_search", {"query": "Frob last release", "since": "year"}),
        look_closer,
        write_down,
        call("cron", {"action": "add", "when": "tomorrow at 9", "text": "Update Frob"}),
        sum_up,
    )
    async with site({}) as served:
        found = {"title": "Frob: releases", "url": f"{served.url}/latest", "content": "All releases"}
        served.pages = {
            "/search": reply(json.dumps({"results": [found]}).encode(), "application/json"),
            "/latest": to("/releases"),
            "/releases": html(RELEASES, "<title>Frob: releases</title>"),
        }
        settings = f'[net]\nallow = ["{served.host}"]\n[web]\nsearch = "searxng"\nsearxng = "{served.url}"\n'
        async with ticking(tmp_path, dial, model, settings=settings) as home:
            program = home.program
            (program.workspace / "notes").mkdir()
            (program.workspace / "notes" / "frob.md").write_text(NOTE)
            answer = await program.ask(ASKED)
            assert answer.startswith(f"Two things are new; they are in frob-news.md. Source: {served.url}/releases")
            assert (program.workspace / "frob-news.md").read_text() == (
                "- Ferries wait for late passengers.\n- Tickets can be sent by mail.\n"
            )
            assert served.paths == ["/search?q=Frob+last+release&format=json&time_range=year", "/latest", "/releases"]
            marks = {one.name: one.outside for one in results(program.history)}
            assert marks["web_fetch"] == f"{served.url}/releases" and marks["web_search"] == "web search"
            assert marks["write_file"] == marks["read_file"] == ""
            assert_legal(program.history)
            await dial.pass_(hours=22)
            assert home.sent()[0].startswith("Reminder 1: Update Frob")


# --- docs/web.md -----------------------------------------------------------------------------------------------------

PAGE, CONFIG, READ = (
    re.search(rf"```{language}\n(.*?)```", (REPOSITORY / "docs" / "web.md").read_text(), re.DOTALL)[1]  # type: ignore[index]
    for language in ("html", "toml", "text")
)


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def serving(folder: Path) -> Iterator[int]:
    """What `python -m http.server` does, on a port that is free."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_the_example_of_the_docs_is_read_as_it_says(tmp_path: Path, home: Home, server: ModelServer) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "index.html").write_text(PAGE)
    with serving(tmp_path / "site") as port:
        home.configure(server.base, more=CONFIG.replace("8080", str(port)))
        arguments = json.dumps({"url": f"http://127.0.0.1:{port}/"})
        fetch = events(call_delta(0, "call_1", "web_fetch", arguments), delta("tool_calls"))
        server.script(fetch, says("Frob 2.4 is out."))
        home.run("-m", f"What is new at http://127.0.0.1:{port}/ ?")
        shown = next(one["content"] for one in server.asked[-1].json["messages"] if one["role"] == "tool")
        number = r"(?<=outside )[0-9a-f]{10}"  # another one in each process
        assert re.sub(number, "", shown) + "\n" == re.sub(number, "", READ.replace("8080", str(port)))
