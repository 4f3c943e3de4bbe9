"""The page through its server: a real uvicorn on a free port, a scripted model, and requests as browsers make them."""

from __future__ import annotations

from pathlib import Path

from nanoclaw.core.errors import ProviderRefused
from nanoclaw.core.messages import Address, Inbound, UserMessage
from nanoclaw.providers.scripted import Hang, call
from tests.plugins.page.served import ON, serving
from tests.program import NOON

KEY = "page:abc12345"


async def test_a_message_runs_a_tool_streams_its_answer_and_is_there_after_a_reload(tmp_path: Path) -> None:
    writes = call("write_file", {"path": "bird.txt", "content": "a **pelican**\n"})
    async with serving(tmp_path, writes, "It is in *bird.txt*.") as served, served.browser() as browser:
        seen = await browser.hears(KEY, "Write the word pelican to bird.txt")
        kinds = [(one["t"], one.get("item", {}).get("kind")) for one in seen]
        tools = [one["item"] for one in seen if one.get("item", {}).get("kind") == "tool"]
        assert kinds[:3] == [("afresh", None), ("item", "said"), ("began", None)]
        assert [one["state"] for one in tools] == ["running", "done"] and tools[1]["diff"]
        output = await browser.get("/api/output", c=KEY, number=str(tools[1]["number"]))
        assert "+a **pelican**" in output["diff"]
        shown = (await browser.talk(KEY))["items"]
        assert [one["kind"] for one in shown[:3]] == ["said", "tool", "text"]
        assert shown[2]["html"] == "<p>It is in <em>bird.txt</em>.</p>"
    async with serving(tmp_path) as served, served.browser() as browser:
        assert [one["kind"] for one in (await browser.talk(KEY))["items"][:3]] == ["said", "tool", "text"]
        (listed,) = (await browser.get("/api/talks"))["talks"]
        assert listed["title"] == "Write the word pelican to bird.txt"


async def test_commands_their_replies_and_failures_are_there_after_a_reload(tmp_path: Path) -> None:
    async with serving(tmp_path, ProviderRefused("the key is wrong")) as served, served.browser() as browser:
        async with browser.stream() as events:
            await browser.say(KEY, "/rename Birds")
            while (await events.until("item"))["item"]["kind"] != "text":
                pass
            await browser.say(KEY, "Hello")
            await events.until("ended")
            while not events.seen[-1].get("instead"):
                await events.next()
        await served.app.conversations.idle()
    async with serving(tmp_path) as served, served.browser() as browser:
        shown = (await browser.talk(KEY))["items"]
    words = [one.get("text") or one["html"] for one in shown]
    assert words[0] == "/rename Birds" and "is now called" in words[1]
    assert words[2] == "Hello" and "the key is wrong" in words[3]


async def test_what_waits_says_so_and_can_be_taken_back_until_it_is_begun(tmp_path: Path) -> None:
    settings = f'{ON}[session]\nqueue = "followup"\n'
    async with serving(tmp_path, Hang("half"), settings=settings) as served, served.browser() as browser:
        async with browser.stream() as events:
            begun = await browser.say(KEY, "First")
            await events.until("text")
            waits = await browser.say(KEY, "Second")
            while not (await events.until("item"))["item"].get("waits"):
                pass
            taken = {"c": KEY, "id": waits, "withdrawn": True}
            assert (await browser.client.post("/api/say", json=taken)).status_code == 200
            assert (await events.until("gone"))["id"] == f"i{waits}"
            for id_ in (waits, begun):
                assert (await browser.client.post("/api/say", json=taken | {"id": id_})).status_code == 409
            await browser.say(KEY, "Third")
            await browser.say(KEY, "/stop")
            while "Not begun: Third." not in str(events.seen[-1]):
                await events.next()
            assert events.seen[-2]["item"]["text"] == "Third", "it stands above what says so, as after a reload"
        shown = (await browser.talk(KEY))["items"]
        assert [one["kind"] for one in shown] == ["said", "text", "broken", "said", "text"]


async def test_another_life_means_to_load_afresh_and_a_lost_connection_misses_nothing(tmp_path: Path) -> None:
    async with serving(tmp_path, "One.", "Two.") as served, served.browser() as browser:
        async with browser.stream() as events:
            await browser.say(KEY, "First")
            await events.until("ended")
        await browser.say(KEY, "Second")
        async with browser.stream(events.last) as again:
            await again.until("ended")
        texts = [one["item"].get("text") for one in again.seen if one.get("item", {}).get("kind") == "said"]
        assert texts == ["Second"]
    async with serving(tmp_path) as served, served.browser() as browser, browser.stream(again.last) as events:
        assert (await events.next())["t"] == "afresh"


async def test_a_conversation_of_the_terminal_is_gone_on_with_as_its_owner(tmp_path: Path) -> None:
    async with serving(tmp_path, "Hello to you.") as served, served.browser() as browser:
        seen = await browser.hears("terminal:main", "Hello from the page")
        shown = (await browser.talk("terminal:main"))["items"]
        assert [one["kind"] for one in shown] == ["said", "text"]
        assert {one["item"]["kind"] for one in seen if one["t"] == "item"} == {"said", "text"}
        assert served.app.sessions.of(Address("terminal", "main")).history
        assert served.app.public("access").role("page", "owner") == "owner"


async def test_files_come_in_and_go_out_and_drafts_are_kept(tmp_path: Path) -> None:
    writes = call("write_file", {"path": "bird.txt", "content": "pelican"})
    answer = "Here you are.\nMEDIA:./bird.txt"
    async with serving(tmp_path, "I see a text.", writes, answer) as served, served.browser() as browser:
        sent = await browser.client.post("/api/files", params={"name": "../note.txt"}, content=b"a heron")
        assert sent.json()["name"] == "note.txt"
        async with browser.stream() as events:
            await browser.say(KEY, "What is in it?", files=[sent.json()["id"]])
            await events.until("ended")
            assert "a heron" in str(served.model.requests[0].history)
            await browser.say(KEY, "Write bird.txt and send it")
            while not (file := events.seen[-1].get("item", {}).get("files")):
                await events.next()
        got = await browser.client.get(file[0]["url"])
        assert got.content == b"pelican" and got.headers["content-disposition"].startswith("attachment")
        assert (await browser.client.get("/files/999/0")).status_code == 404
        await browser.client.post("/api/draft", json={"c": KEY, "text": "half a thou"})
        shown = await browser.talk(KEY)
        assert shown["draft"] == "half a thou" and shown["items"][-1]["files"] == file
        assert (shown["items"][0]["text"], shown["items"][0]["names"]) == ("What is in it?", ["note.txt"])
        assert "Here you are." in str(shown["items"]) and "MEDIA" not in str(shown["items"])
        assert "rename" in await browser.get("/api/commands")


async def test_an_answer_that_is_revised_is_shown_once(tmp_path: Path) -> None:
    async with serving(tmp_path, "Noted.", "I can note it if you wish.") as served, served.browser() as browser:
        seen = await browser.hears(KEY, "The plumber came.")
        texts = {one["item"]["id"] for one in seen if one.get("item", {}).get("kind") == "text"}
        assert len(texts - {one["id"] for one in seen if one["t"] == "gone"}) == 1


async def test_what_goes_on_in_a_conversation_of_another_place_is_shown_as_it_goes_on(tmp_path: Path) -> None:
    async with serving(tmp_path, "Four.") as served, served.browser() as browser, browser.stream() as events:
        elsewhere = Inbound(Address("terminal", "main"), "me", "t1", UserMessage("two and two?", NOON), role="owner")
        await served.app.deliver(elsewhere)
        await events.until("elsewhere")
        assert {event["c"] for event in events.seen if "c" in event} == {"terminal:main"}
        assert [event["t"] for event in events.seen][-2:] == ["ended", "elsewhere"]
        said, told = (await browser.talk("terminal:main"))["items"]
        assert said["text"] == "two and two?" and "Four." in told["html"]
