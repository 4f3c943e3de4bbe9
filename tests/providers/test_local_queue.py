"""The queue before a model on this machine: who goes first, and who is told for what they wait."""

import asyncio

from nanoclaw.core.events import Event, Notice, TextDelta
from nanoclaw.providers.around import SILENT_SECONDS, LocalQueue
from tests.virtual_time import virtual_time


class Asking:
    """Requests that run until they are let go."""

    def __init__(self, *, one_at_a_time: bool) -> None:
        self.queue = LocalQueue(one_at_a_time=one_at_a_time)
        self.begun: list[str] = []
        self.told: dict[str, list[str]] = {}
        self.ends: dict[str, asyncio.Event] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}

    async def ask(self, name: str, purpose: str = "", *, streams: bool = False) -> None:
        """`name` is shown in what was begun."""
        self.ends[name], self.told[name] = asyncio.Event(), []

        def show(event: Event) -> None:
            if isinstance(event, Notice):
                self.told[name].append(event.text)

        async def run() -> None:
            async with self.queue.place(purpose, show) as listen:
                self.begun.append(name)
                if streams:
                    listen(TextDelta("hi"))
                await self.ends[name].wait()

        self.tasks[name] = asyncio.create_task(run())
        await asyncio.sleep(0)

    async def end(self, name: str) -> None:
        self.ends[name].set()
        await self.tasks[name]
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    async def stop(self, name: str) -> None:
        self.tasks[name].cancel()
        await asyncio.gather(self.tasks[name], return_exceptions=True)
        await asyncio.sleep(0)


async def test_the_model_in_the_program_takes_a_person_before_what_waited_longer() -> None:
    asking = Asking(one_at_a_time=True)
    await asking.ask("beat", "heartbeat")
    await asking.ask("title", "titles")
    await asking.ask("anna")
    await asking.ask("bert")
    assert asking.begun == ["beat"]
    assert asking.told == {
        "beat": [],
        "title": ["waits for the heartbeat's answer"],
        "anna": ["waits for the heartbeat's answer"],
        "bert": ["waits for the heartbeat's answer"],
    }
    for name in ("beat", "anna", "bert", "title"):
        await asking.end(name)
    assert asking.begun == ["beat", "anna", "bert", "title"]


async def test_one_who_gives_up_holds_nobody_back() -> None:
    asking = Asking(one_at_a_time=True)
    await asking.ask("task", "tasks")
    await asking.ask("anna")
    await asking.ask("bert")
    await asking.stop("anna")
    asking.ends["task"].set()
    await asking.tasks["task"]  # bert has his turn from this moment, and gives up before he takes it
    await asking.stop("bert")
    await asking.ask("carl")
    assert asking.begun[-1] == "carl" and asking.told["carl"] == []


async def test_a_server_gets_what_persons_and_helpers_ask_at_once_and_the_rest_after_the_persons() -> None:
    asking = Asking(one_at_a_time=False)
    for name in ("one", "two"):
        await asking.ask(name, "helpers")
    await asking.ask("anna")
    await asking.ask("bert")
    await asking.ask("beat", "heartbeat")
    assert asking.begun == ["one", "two", "anna", "bert"]
    assert asking.told["beat"] == ["waits for the answer of another conversation"]
    await asking.end("anna")
    assert "beat" not in asking.begun
    await asking.end("bert")
    assert asking.begun[-1] == "beat"
    for name in ("one", "two", "beat"):
        await asking.end(name)


@virtual_time
async def test_a_person_hears_of_anothers_request_when_the_server_stays_silent() -> None:
    asking = Asking(one_at_a_time=False)
    await asking.ask("beat", "heartbeat")
    await asking.ask("anna")
    await asking.ask("bert", streams=True)
    await asyncio.sleep(SILENT_SECONDS + 0.1)
    for name in ("beat", "anna", "bert"):
        await asking.end(name)
    assert asking.told == {"beat": [], "anna": ["waits for the heartbeat's answer"], "bert": []}


async def test_all_that_run_and_wait_are_stopped_at_once() -> None:
    asking = Asking(one_at_a_time=True)
    for name in ("anna", "bert", "carl"):
        await asking.ask(name)
    asking.tasks["anna"].cancel()
    asking.tasks["bert"].cancel()
    ended = await asyncio.gather(*(asking.tasks[name] for name in ("anna", "bert")), return_exceptions=True)
    assert [type(one) for one in ended] == [asyncio.CancelledError, asyncio.CancelledError]
    await asking.end("carl")
    assert asking.begun == ["anna", "carl"]
