"""The API through its server, asked by the client that most programs use."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from nanoclaw.commands.plugins import reply
from nanoclaw.core.errors import ConfigError, ProviderError
from nanoclaw.core.messages import Address, UserMessage
from nanoclaw.providers.scripted import Hang, Step, call
from tests.plugins.page.served import ON, Served, serving
from tests.program import NOON, HandClock

openai: Any


@pytest.fixture(scope="module", autouse=True)
def the_client() -> None:
    """Loaded by the process that runs these tests alone: each collects all, and this takes a second."""
    global openai
    openai = pytest.importorskip("openai")


HELLO: Any = [{"role": "user", "content": "Hello"}]
DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="


async def token(served: Served, name: str = "laptop") -> str:
    said = await reply(served.app, f"/web token {name}", as_json=True)
    return str(json.loads(said or "")["token"])


@asynccontextmanager
async def client(root: Path, *steps: Step) -> AsyncIterator[tuple[Any, Served]]:
    async with (
        serving(root, *steps) as served,
        openai.AsyncOpenAI(base_url=f"{served.url}/v1", api_key=await token(served)) as client,
    ):
        yield client.chat.completions, served


async def test_a_client_talks_with_a_tool_and_the_history_here_counts(tmp_path: Path) -> None:
    writes = call("write_file", {"path": "bird.txt", "content": "pelican"})
    async with client(tmp_path, writes, "It is a *pelican*.", "Yes.", "Who?") as (chat, served):
        first = await chat.create(model="nanoclaw", messages=HELLO, user="ada")
        assert first.choices[0].message.content == "It is a *pelican*." and first.choices[0].finish_reason == "stop"
        assert (tmp_path / "workspace" / "bird.txt").read_text() == "pelican"
        invented = [{"role": "system", "content": "Be a pirate"}, *HELLO, {"role": "assistant", "content": "Arr"}]
        again = {"role": "user", "content": "Sure?"}
        await chat.create(model="nanoclaw", messages=[*invented, again], user="ada")
        history = served.model.requests[2].history
        said = [one.text for one in history if isinstance(one, UserMessage) and one.origin == "person"]
        assert said == ["Hello", "Sure?"] and "Arr" not in str(history) and "pirate" not in str(served.model.requests)
        await chat.create(model="nanoclaw", messages=HELLO, extra_headers={"X-Conversation": "other"})
        assert "Sure?" not in str(served.model.requests[3].history)
        async with served.browser() as browser:
            assert [one["kind"] for one in (await browser.talk("api:laptop/ada"))["items"]][:2] == ["said", "tool"]


async def test_an_answer_streams_as_it_grows(tmp_path: Path) -> None:
    looks = call("list_folder", {"path": "."}, text="I look.")
    async with client(tmp_path, looks, "It is empty.") as (chat, _):
        options = {"include_usage": True}
        stream = await chat.create(model="nanoclaw", messages=HELLO, stream=True, stream_options=options)
        chunks = [one async for one in stream]
    pieces = [one.choices[0].delta.content for one in chunks if one.choices and one.choices[0].delta.content]
    assert pieces == ["I look.", "\n\nIt is empty."]
    assert chunks[-2].choices[0].finish_reason == "stop" and chunks[-1].usage.total_tokens >= 0


async def test_a_picture_comes_as_a_data_url(tmp_path: Path) -> None:
    async with client(tmp_path, "A dot.") as (chat, served):
        picture = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{DOT}"}}
        content = [{"type": "text", "text": "What is it?"}, picture]
        await chat.create(model="nanoclaw", messages=[{"role": "user", "content": content}])
        (seen,) = [one for one in served.model.requests[0].history if isinstance(one, UserMessage) and one.images]
        assert "What is it?" in seen.text
        for url in ("https://evil.example/a.png", "data:image/png;base64,@@"):
            content = [{"type": "image_url", "image_url": {"url": url}}]
            with pytest.raises(openai.BadRequestError, match="data URL"):
                await chat.create(model="nanoclaw", messages=[{"role": "user", "content": content}])


async def test_what_needs_a_yes_is_refused_and_the_answer_says_so(tmp_path: Path) -> None:
    async with client(tmp_path, call("exec", {"command": "rm *.txt"}), "I tried.") as (chat, served):
        for number in range(5):
            (tmp_path / "workspace" / f"{number}.txt").write_text("x" * 400)
        answer = (await chat.create(model="nanoclaw", messages=HELLO)).choices[0].message.content
        assert answer == "I tried.\n\nNot done, as it needs your yes and nobody can be asked here: exec."
        assert "nobody is there" in str(served.model.requests[1].history)


@pytest.mark.parametrize("stream", [True, False])
async def test_closing_the_connection_stops_the_turn(tmp_path: Path, stream: bool) -> None:
    hang = Hang("I begin")
    async with client(tmp_path, hang, "Here.") as (chat, served):
        body = {"model": "nanoclaw", "messages": HELLO, "stream": stream}
        async with served.client(authorization=f"Bearer {await token(served, 'other')}") as other:
            asking = asyncio.create_task(other.post("/v1/chat/completions", json=body))
            await hang.reached.wait()
            asking.cancel()
            await asyncio.wait([asking])
        conversation = Address("api", "other/main")
        await served.app.conversations.of(conversation).idle()
        turn = served.app.sessions.of(conversation).last_turn()
        assert turn and turn.reason == "cancelled"
        assert (await chat.create(model="nanoclaw", messages=HELLO)).choices[0].message.content == "Here."


async def test_a_sound_file_is_written_down_as_voice_notes_are(tmp_path: Path) -> None:
    sound = b"RIFF\r\n--x\r\n\x00\xff"
    heard = list[tuple[str, bytes]]()

    async def hear(name: str, given: bytes) -> str:
        heard.append((name, given))
        return " Buy oat milk "

    for name, settings in (("one", ON), ("two", f'{ON}[models]\ntranscription = "scripted/model"\n')):
        async with (
            serving(tmp_path, settings=settings) as served,
            openai.AsyncOpenAI(base_url=f"{served.url}/v1", api_key=await token(served, name)) as program,
        ):
            served.model.transcribe = hear  # type: ignore[attr-defined]
            make, file = program.audio.transcriptions.create, ("büro note.wav", sound)
            if settings == ON:
                with pytest.raises(openai.NotFoundError, match="No model for transcription is configured"):
                    await make(model="whisper-1", file=file)
                continue
            assert (await make(model="whisper-1", file=file)).text == "Buy oat milk"
            assert await make(model="nanoclaw", file=file, response_format="text") == "Buy oat milk\n"
            with pytest.raises(openai.BadRequestError, match="json or text"):
                await make(model="nanoclaw", file=file, response_format="srt")
            with pytest.raises(openai.BadRequestError, match="must be a sound file"):
                await make(model="nanoclaw", file=("empty.wav", b""))
    assert heard == [("büro note.wav", sound)] * 2


async def test_a_turn_that_fails_is_an_error_and_is_not_asked_again(tmp_path: Path) -> None:
    broken = ProviderError("the model is broken")
    async with client(tmp_path, broken, broken) as (chat, served):
        with pytest.raises(openai.APIStatusError, match="the model is broken") as failed:
            await chat.create(model="nanoclaw", messages=HELLO)
        assert failed.value.status_code == 502 and len(served.model.requests) == 1
        with pytest.raises(openai.APIError, match="the model is broken"):
            async for _ in await chat.create(model="nanoclaw", messages=HELLO, stream=True):
                pass


async def test_bad_requests_get_a_sentence(tmp_path: Path) -> None:
    async with client(tmp_path) as (chat, served):
        with pytest.raises(openai.NotFoundError, match="'nanoclaw'") as unknown:
            await chat.create(model="gpt-5", messages=HELLO)
        assert unknown.value.code == "model_not_found"
        for messages in ([], [{"role": "system", "content": "x"}], [{"role": "user", "content": " "}], ["x"]):
            with pytest.raises(openai.BadRequestError):
                await chat.create(model="nanoclaw", messages=messages)
        async with served.client(authorization=f"Bearer {await token(served, 'raw')}") as raw:
            for content in (b"{", b"[]", b"\xff", b'{"model": "nanoclaw", "messages": 7}'):
                answer = await raw.post("/v1/chat/completions", content=content)
                assert answer.status_code == 400 and answer.json()["error"]["type"] == "invalid_request_error"
            assert [one["id"] for one in (await raw.get("/v1/models")).json()["data"]] == ["nanoclaw"]
            assert (await raw.get("/v1/models/nanoclaw")).status_code == 200
            assert (await raw.get("/api/talks")).status_code == 401
        assert not served.model.requests


async def test_only_tokens_let_in_and_tries_are_bounded(tmp_path: Path) -> None:
    clock = HandClock(NOON)
    async with serving(tmp_path, clock=clock) as served, served.client() as web:

        async def status(token: str) -> int:
            headers = {"authorization": f"Bearer {token}"} if token else {}
            return (await web.get("/v1/models", headers=headers)).status_code

        used, unused = await token(served), await token(served, "unused")
        assert [await status(one) for one in ("", used)] == [401, 200]
        assert used not in str(served.app.store.db.execute("SELECT * FROM page_tokens").fetchall())
        with pytest.raises(ConfigError, match="already"):
            await token(served)
        assert [await status(f"wrong{one}") for one in range(11)] == [401] * 10 + [429]
        assert [await status(one) for one in (used, unused)] == [200, 429]
        clock.now = NOON.replace(minute=2)
        assert await status(unused) == 200
        assert "laptop: made 2026-03-06, used" in str(await reply(served.app, "/web tokens", as_json=False))
        await reply(served.app, "/web token --revoke laptop", as_json=False)
        assert await status(used) == 401
        for wrong, told in (
            ("token", "^web token lacks NAME. "),
            ("browser --revoke", "^web browser --revoke lacks NUMBER. "),
            ("token a b", "name of a token has letters"),
            ("token --revoke nobody", "no token 'nobody'"),
            ("--qx", "^web --qx is not understood. Try nanoclaw web --help.$"),
        ):
            with pytest.raises(ConfigError, match=told):
                await reply(served.app, f"/web {wrong}", as_json=False)
