"""What a conversation shows after it was loaded again, and what the page does to it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nanoclaw.core.messages import Address, Attachment, Inbound, UserMessage
from nanoclaw.providers.scripted import Hang, call
from tests.plugins.page.served import Browser, Served, serving
from tests.program import MAIN, NOON

KEY = "page:abc12345"
WRITES = call("write_file", {"path": "bird.txt", "content": "pelican"})


def words(talk: dict[str, Any]) -> list[str]:
    return [one.get("text") or one["html"] for one in talk["items"] if one["kind"] in ("said", "text")]


async def ask(served: Served, browser: Browser, text: str, **more: Any) -> None:
    await browser.say(KEY, text, **more)
    await served.app.conversations.idle()


async def act(served: Served, browser: Browser, command: str, **more: Any) -> Any:
    answer = await browser.client.post("/api/act", json={"c": KEY, "command": command, **more})
    assert answer.status_code == 200, answer.text
    await served.app.conversations.idle()
    return answer.json()


async def test_what_was_revised_or_taken_back_is_left_out_and_what_was_broken_off_says_so(tmp_path: Path) -> None:
    hang = Hang("half a")
    steps = ("Noted.", "I can note it if you wish.", "Two.", "Three.", "NO_REPLY", WRITES, hang)
    async with serving(tmp_path, *steps) as served, served.browser() as browser:
        await ask(served, browser, "The plumber came.")
        assert words(await browser.talk(KEY)) == ["The plumber came.", "<p>I can note it if you wish.</p>"]
        await ask(served, browser, "second")
        await ask(served, browser, "/help")  # a command cannot be edited, and moves nothing
        first, last = (
            one["row"] for one in (await browser.talk(KEY))["items"] if one["kind"] == "said" and "row" in one
        )
        other = {"c": KEY, "command": "edit", "row": first, "argument": "no"}
        assert (await browser.client.post("/api/act", json=other)).status_code == 409
        assert (await act(served, browser, "edit", row=last))["text"] == "second"
        await act(served, browser, "edit", row=last, argument="yes, third")
        assert words(await browser.talk(KEY))[-2:] == ["yes, third", "<p>Three.</p>"]
        await ask(served, browser, "say nothing")
        assert words(await browser.talk(KEY))[-1] == "say nothing"
        await browser.say(KEY, "write it")
        await hang.reached.wait()
        refused = await browser.client.post("/api/act", json={"c": KEY, "command": "branch"})
        assert (refused.status_code, "stop it first" in refused.text) == (409, True)
        await browser.say(KEY, "and more")
        await ask(served, browser, "/stop")
        talk = await browser.talk(KEY)
        (broken,) = (one["text"] for one in talk["items"] if one["kind"] == "broken")
        assert broken == "Interrupted, 1 tool had run: this is not complete."
        assert words(talk)[-3:-1] == ["<p>half a</p>", "and more"] and talk["live"] == []
        assert [one["html"] for one in talk["items"] if "interrupted" in one] == ["<p>half a</p>"]
        while len(notes := [one for one in (await browser.talk(KEY))["items"] if one["kind"] == "note"]) < 2:
            pass
        assert [one["text"] for one in notes] == ["(nothing to say)", "wrote bird.txt"]
        assert (await act(served, browser, "retry"))["done"] == ["wrote bird.txt"]
        rows = [one["row"] for one in talk["items"] if one["kind"] == "said" and "row" in one]
        done = await act(served, browser, "rewind", row=rows[-1], sure=True)
        assert done["text"] == "write it" and not (tmp_path / "workspace" / "bird.txt").exists()
        left = [one for one in (await browser.talk(KEY))["items"] if one["kind"] in ("broken", "note")]
        assert [one["text"] for one in left] == ["(nothing to say)"]
        assert (await browser.get("/api/talks", words="write"))["found"] == []


async def test_what_two_restarts_broke_off_says_so_and_goes_on(tmp_path: Path) -> None:
    async with serving(tmp_path, first := Hang("half a")) as served, served.browser() as browser:
        await browser.say(KEY, "write it")
        await first.reached.wait()
    async with serving(tmp_path, second := Hang("half b")):
        await second.reached.wait()
    async with serving(tmp_path) as served, served.browser() as browser:
        await served.app.conversations.idle()
        said, broken = (await browser.talk(KEY))["items"][-2:]
        assert "Shall I go on?" in said["html"] and broken["acts"] == [["Go on", "Go on."]]
        assert broken["text"] == "Interrupted: this is not complete."


async def test_a_question_is_not_dropped_by_asking_again_and_stands_where_it_was_asked(tmp_path: Path) -> None:
    risky = call("exec", {"command": "rm *.txt"})
    async with serving(tmp_path, "One.", risky, "See this.", "Kept.") as served, served.browser() as browser:
        for number in range(5):
            (tmp_path / "workspace" / f"{number}.txt").write_text("x" * 400)
        await ask(served, browser, "first")
        await ask(served, browser, "delete them")
        await ask(served, browser, "/whoami")
        assert words(await browser.talk(KEY))[2:4] == ["delete them", "<p>See this.</p>"], "the question is still open"
        row = next(one["row"] for one in (await browser.talk(KEY))["items"] if one.get("text") == "delete them")
        for command in ("retry", "edit", "rewind"):
            body = {"c": KEY, "command": command, "row": row, "sure": True}
            refused = await browser.client.post("/api/act", json=body)
            assert (refused.status_code, "Question 1 is open here" in refused.text) == (409, True), command
        async with browser.stream() as events:
            await browser.say(KEY, "/no 1")
            while "Kept." not in events.seen[-1].get("item", {}).get("html", ""):
                await events.next()
        assert len([one for one in events.seen if "won't do it" in one.get("item", {}).get("html", "")]) == 1
        assert "'state': 'refused'" in str(events.seen)
        await served.app.conversations.idle()
        talk = await browser.talk(KEY)
        _, _, asked, noted, question, _, _, no, ok, kept = words(talk)
        assert [asked, noted, no, kept] == ["delete them", "<p>See this.</p>", "/no 1", "<p>Kept.</p>"]
        assert "Shall I do exactly this?" in question and "won't do it" in ok
        shown = [one.get("state") or one.get("text") for one in talk["items"]]
        assert shown.index("/no 1") < shown.index("refused") and shown.count("done") == 1


async def test_files_that_nothing_can_be_read_of_stay_with_their_message(tmp_path: Path) -> None:
    files, hang = {"app.html": b"<script>go()</script>", "a (1).svg": b"<svg/onload=x>", "core.bin": b"\0\xff"}, Hang()
    async with serving(tmp_path, "Three files.", "One more.", hang) as served, served.browser() as browser:

        async def upload(name: str) -> str:
            kind = {"content-type": "image/svg+xml" if name.endswith("svg") else ""}
            sent = await browser.client.post("/api/files", params={"name": name}, content=files[name], headers=kind)
            return str(sent.json()["id"])

        await ask(served, browser, "", files=[await upload(one) for one in files])
        while len(items := (await browser.talk(KEY))["items"]) < 3:
            pass
        said, *remarks, answer = items
        assert said["text"] == "" and said["names"] == [*files]
        assert "core.bin" in str(remarks) and {one["what"] for one in remarks} == {"notice failure"}
        assert answer["html"] == "<p>Three files.</p>"
        assert (await browser.talk(KEY, at=str(said["row"])))["items"][0]["names"] == [*files]
        far = Inbound(MAIN, "me", "t1", UserMessage("Look", NOON), (Attachment("/gone.pdf", "gone.pdf"),), role="owner")
        await served.app.deliver(far)
        await served.app.conversations.idle()
        assert (await browser.talk("terminal:main"))["items"][0]["names"] == ["gone.pdf"]
        await browser.say(KEY, "wait")
        await hang.reached.wait()
        await browser.say(KEY, "and this", files=[await upload("core.bin")])
        await ask(served, browser, "/stop")
        assert [one["names"] for one in (await browser.talk(KEY))["items"] if "names" in one][-1] == ["core.bin"]


async def test_an_answer_in_ones_own_words_stands_before_what_came_of_it(tmp_path: Path) -> None:
    async with serving(tmp_path) as served, served.browser() as browser:
        for text in ("remind me on friday to see the dentist", "at 9"):
            await ask(served, browser, text)
        assert words(await browser.talk(KEY))[2] == "at 9"


async def test_a_conversation_is_searched_branched_saved_and_deleted(tmp_path: Path) -> None:
    async with serving(tmp_path, "One heron.", "Two.") as served, served.browser() as browser:
        await ask(served, browser, "first")
        await ask(served, browser, "second")
        (found,) = (await browser.get("/api/talks", words="heron"))["found"]
        around = await browser.talk(KEY, at=str(found["row"]))
        assert found["row"] in [one.get("row") for one in around["items"]] and not around["is_later"]
        assert (await browser.get("/api/talks", words="delete"))["found"] == []
        branch = (await act(served, browser, "branch", row=found["row"]))["opened"]
        assert branch == "page:abc12345-2"
        assert words(await browser.talk(branch)) == ["first", "<p>One heron.</p>"]
        saved = await browser.client.get("/api/export", params={"c": KEY, "format": "json"})
        assert "attachment" in saved.headers["content-disposition"] and saved.json()["messages"][-1]["text"] == "Two."
        await act(served, browser, "rename", argument="Birds")
        titles = {one["name"]: one["title"] for one in (await browser.get("/api/talks"))["talks"]}
        assert titles == {KEY: "Birds", branch: "first (from 1)"}
        await act(served, browser, "delete")
        assert [one["name"] for one in (await browser.get("/api/talks"))["talks"]] == [branch]
        assert not served.app.sessions.of(Address("page", "abc12345")).history
        assert (await browser.client.post("/api/act", json={"c": KEY, "command": "panic"})).status_code == 400
        by_hand = {"c": KEY, "id": "abcdefgh", "text": "!ls"}
        assert (await browser.client.post("/api/say", json=by_hand)).status_code == 400
