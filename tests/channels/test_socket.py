"""Terminals attached through a socket: what they see, what is delivered, and what a hostile client can't do."""

import asyncio
import json
import socket
import struct
import subprocess
import sys
from asyncio.trsock import TransportSocket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from nanoclaw import home_socket
from nanoclaw.channels import attach
from nanoclaw.channels.socket import frames, terminals
from nanoclaw.channels.socket.client import talk
from nanoclaw.channels.socket.terminals import Terminals
from nanoclaw.commands.arguments import parsed
from nanoclaw.core import events
from nanoclaw.core.channel import Deliver
from nanoclaw.core.errors import ConfigError, StoreBusy, StoreError
from nanoclaw.core.events import Event, GoTo, Notice, StatusLines, TextDelta, ToolFinished, ToolProgress, TurnEnded
from nanoclaw.core.messages import Address, Inbound, Outbound, ToolCall, Usage
from tests.examples import examples
from tests.program import REPOSITORY, FakeChannel
from tests.virtual_time import skip

LINES = examples(__file__, "command_lines.jsonl")

MAIN = Address("terminal", "main")
NOON = datetime(2026, 3, 6, 12, 0, tzinfo=UTC)
CALL = ToolCall("1", "read_file", '{"path": "x"}')
EVENTS: tuple[Event, ...] = (
    *(TextDelta("a"), events.ReasoningDelta("b"), Notice("c", 0.5), events.Receipt("d"), events.ToolStarted(CALL)),
    *(events.ToolStarted(CALL, "outer", 7), ToolProgress(CALL, "half", 0.5), ToolProgress(CALL, "on")),
    ToolFinished(CALL, "e", True, 0.5, "outer", 7, "-a\n+b"),
    *(
        ToolFinished(CALL, "e", True, 0.5),
        events.Joined(("f", "g")),
        events.TurnPaused(),
        TurnEnded("h", "loop", Usage(1, 2, 3)),
    ),
)


class FakeHost:
    def __init__(self) -> None:
        self.held: list[tuple[Outbound, datetime]] = []
        self.arrivals = 0
        self.handed_over = False
        self.open: list[str] = []

    def facts(self) -> dict[str, Any]:
        return {"version": "9", "model": "some/model"}

    def shown_since(self, address: Address, row: int) -> list[Outbound]:
        return []

    async def status(self) -> dict[str, Any]:
        return {"role": "gateway"}

    def waiting(self, serves: Callable[[Outbound], bool]) -> list[tuple[Address, datetime]]:
        return [(outbound.address, since) for outbound, since in self.held if serves(outbound)]

    def questions(self, address: Address) -> list[str]:
        return self.open if address == MAIN else []

    async def carry_out(self, command: str, *, as_json: bool) -> str:
        if command == "/refuse":
            raise StoreError("not now")
        return f"done: {command}"

    def footer(self, address: Address) -> str:
        return ""

    def words(self) -> dict[str, list[list[str]]]:
        return {}

    def as_typed(self, text: str) -> str:
        return text.partition("\n")[0].replace("/ran ", "!")

    def arrived(self) -> None:
        self.arrivals += 1

    def hand_over(self) -> None:
        self.handed_over = True


class Attached(FakeChannel):
    address = MAIN
    says: Inbound | None = None

    async def run(self, deliver: Deliver) -> None:
        if self.says:
            await deliver(self.says)
        await super().run(deliver)

    def show(self, address: Address, event: Event) -> None:
        super().show(address, event)
        if isinstance(event, GoTo) and event.chat:
            self.address = Address("terminal", event.chat)


class Place:
    """A channel that runs; `got` is what came in."""

    def __init__(self, home: Path) -> None:
        self.home, self.host = home, FakeHost()
        self.terminals = Terminals(home, self.host, lambda: NOON)
        self.got: asyncio.Queue[Inbound] = asyncio.Queue()
        self.refusal: StoreError | None = None

    async def deliver(self, inbound: Inbound) -> None:
        if self.refusal:
            raise self.refusal
        self.got.put_nowait(inbound)

    async def raw(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_unix_connection(str(self.home / home_socket.NAME), limit=home_socket.LONGEST)

    async def say(self, data: bytes) -> list[dict[str, Any]]:
        """All that is answered to some bytes."""
        reader, writer = await self.raw()
        writer.write(data)
        writer.write_eof()
        answer = await reader.read()
        writer.close()
        return [json.loads(line) for line in answer.splitlines()]

    async def connect(self, want: str = "chat", session: str = "main") -> attach.Link:
        link = await asyncio.to_thread(attach.connect, str(self.home), want, session)
        assert link
        return link

    @asynccontextmanager
    async def chat(self) -> AsyncIterator[FakeChannel]:
        """A terminal that is attached."""
        terminal, there = Attached(), self.host.arrivals
        talking = asyncio.create_task(talk(await self.connect(), terminal))
        while self.host.arrivals == there:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        yield terminal
        talking.cancel()
        with suppress(asyncio.CancelledError):
            await talking


@asynccontextmanager
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    made = Place(tmp_path)
    running = asyncio.create_task(made.terminals.run(made.deliver))
    await made.terminals.listening.wait()
    yield made
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running


def hello(want: str = "chat", **more: Any) -> bytes:
    return json.dumps({"nanoclaw": attach.VERSION, "want": want, "session": "main", **more}).encode() + b"\n"


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(100):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.001)


async def test_every_event_arrives_as_it_was(tmp_path: Path) -> None:
    async with place(tmp_path) as here, here.chat() as terminal:
        for event in EVENTS:
            here.terminals.show(MAIN, event)
        here.terminals.show(Address("terminal", "other"), Notice("not for it"))
        await here.terminals.send(Outbound(MAIN, "the end"))
        assert [event for _, event in terminal.events] == list(EVENTS)


async def test_a_message_is_delivered_when_a_terminal_has_shown_it(tmp_path: Path) -> None:
    async with place(tmp_path) as here:
        answer = Outbound(MAIN, "hi", ("a.txt",), "1")
        assert not here.terminals.serves(answer)
        async with here.chat() as terminal:
            assert here.terminals.serves(answer)
            assert await here.terminals.send(answer)
            assert terminal.sent.get_nowait() == answer
        await until(lambda: not here.terminals.serves(answer))


async def test_a_terminal_that_goes_on_with_another_conversation_leaves_this_one(tmp_path: Path) -> None:
    async with place(tmp_path) as here:
        terminal = Attached()
        talking = asyncio.create_task(talk(await here.connect(), terminal))
        await until(lambda: here.host.arrivals == 1)
        here.terminals.show(MAIN, GoTo("", "said again"))
        here.terminals.show(MAIN, GoTo("camp"))
        await talking
        assert [event for _, event in terminal.events] == [GoTo("", "said again"), GoTo("camp")]


async def test_a_terminal_that_vanishes_before_it_showed_it_has_not_got_it(tmp_path: Path) -> None:
    async with place(tmp_path) as here:
        _, writer = await here.raw()
        writer.write(hello())
        await until(lambda: here.terminals.serves(Outbound(MAIN, "")))
        sending = asyncio.create_task(here.terminals.send(Outbound(MAIN, "hi")))
        await asyncio.sleep(0)
        writer.close()
        with pytest.raises(ConnectionError):
            await sending


async def test_one_that_comes_while_a_message_is_on_its_way_gets_it_too(tmp_path: Path) -> None:
    async with place(tmp_path) as here:
        _, writer = await here.raw()
        writer.write(hello())
        await until(lambda: here.terminals.serves(Outbound(MAIN, "")))
        sending = asyncio.create_task(here.terminals.send(Outbound(MAIN, "hi")))
        async with here.chat() as terminal:
            writer.write(b'{"shown": 1}\n')
            assert await sending and terminal.sent.qsize() == 1


async def test_one_that_hangs_is_let_go_and_another_is_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = asyncio.Event()
    async with place(tmp_path) as here:
        _, writer = await here.raw()
        writer.write(hello())
        await until(lambda: len(here.terminals._lines) == 1)
        async with here.chat() as terminal:
            _, other = here.terminals._terminals
            send = other.send

            async def send_and_say(outbound: Outbound) -> str:
                identity = await send(outbound)
                shown.set()
                return identity

            monkeypatch.setattr(other, "send", send_and_say)
            sending = asyncio.create_task(here.terminals.send(Outbound(MAIN, "hi")))
            await shown.wait()
            skip(frames._SHOWN_SECONDS)
            assert await sending
            assert terminal.sent.qsize() == 1
        await until(lambda: len(here.terminals._lines) == 0)


async def test_one_that_does_not_read_is_let_go_blocks_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "_MOST_UNREAD", 100_000)
    async with place(tmp_path) as here:
        _, writer = await here.raw()
        writer.write(hello())
        await until(lambda: here.terminals.serves(Outbound(MAIN, "")))
        for _ in range(200):
            here.terminals.show(MAIN, TextDelta("x" * 10_000))
        await until(lambda: len(here.terminals._lines) == 0)
        writer.close()


async def test_what_is_said_comes_in_and_a_refusal_goes_back(tmp_path: Path) -> None:
    async with place(tmp_path) as here:
        here.refusal = StoreError("the disk is full")
        answers = await here.say(hello() + b'{"said": "hi", "id": "1"}\n')
        assert answers[1:] == [{"rejected": "1", "why": "the disk is full"}]
        here.refusal = None
        answers = await here.say(hello() + b'{"said": "hi", "id": "2", "files": [["/a.txt", "a.txt", "text/plain"]]}\n')
        assert answers[1:] == [{"accepted": "2"}]
        inbound = here.got.get_nowait()
        assert (inbound.address, inbound.sender, inbound.message.text) == (MAIN, "owner", "hi")
        assert inbound.attachments[0].path == "/a.txt" and not inbound.is_edit
        terminal = Attached()
        terminal.says = inbound._replace(attachments=(), is_edit=True)
        talking = asyncio.create_task(talk(await here.connect(), terminal))
        assert await here.got.get() == terminal.says
        talking.cancel()


async def test_another_terminal_shows_what_was_typed(tmp_path: Path) -> None:
    async with place(tmp_path) as here, here.chat() as terminal:
        await here.say(hello() + b'{"said": "/ran ls\\na.md", "id": "1"}\n')
        assert terminal.events == [(MAIN, Notice("another terminal: !ls"))]


async def test_one_that_comes_in_the_midst_of_an_answer_does_not_see_its_half(tmp_path: Path) -> None:
    async with place(tmp_path) as here:
        here.terminals.show(MAIN, TextDelta("first "))
        async with here.chat() as terminal:
            here.terminals.show(MAIN, TextDelta("second"))
            here.terminals.show(MAIN, TurnEnded("first second", "answered"))
            await here.terminals.send(Outbound(MAIN, "first second"))
            assert not any(isinstance(event, TextDelta) for _, event in terminal.events)


async def test_one_that_comes_later_sees_what_stands_there_and_what_is_asked(tmp_path: Path) -> None:
    async with place(tmp_path) as here:
        here.host.open = ["question 1 waits"]
        for lines in (
            StatusLines("plan", "plan mode"),
            StatusLines("todo", "1 of 2"),
            StatusLines("process", "1 runs"),
        ):
            here.terminals.show(MAIN, lines)
        here.terminals.show(MAIN, StatusLines("todo", "2 of 2", is_last=True))
        here.terminals.show(MAIN, StatusLines("process", ""))
        async with here.chat() as terminal:
            await until(lambda: len(terminal.events) == 2)
            assert [event for _, event in terminal.events] == [
                Notice("question 1 waits"),
                StatusLines("plan", "plan mode"),
            ]


async def asking(here: Place, text: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, str]:
    """Somebody with a question, and the id that it came in with."""
    reader, writer = await here.raw()
    writer.write(hello("answer") + json.dumps({"text": text, "ttys": {"out": False}}).encode() + b"\n")
    assert "pid" in json.loads(await reader.readline())
    return reader, writer, (await here.got.get()).external_id


async def printed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> tuple[str, int]:
    """Its output, and its exit status; it confirms what it is asked to."""
    out = ""
    async for line in reader:
        frame = json.loads(line)
        out += frame.get("out", "")
        if "confirm" in frame:
            writer.write(json.dumps({"shown": frame["confirm"]}).encode() + b"\n")
        if "bye" in frame:
            return out, frame["bye"]
    raise AssertionError("it ended without a word")


async def test_a_question_sees_its_own_turn_only(tmp_path: Path) -> None:
    async with place(tmp_path) as here:
        await here.say(hello() + b'{"said": "before", "id": "earlier"}\n')
        await here.got.get()
        here.terminals.show(MAIN, TextDelta("the answer "))
        reader, writer, own = await asking(here, "mine")
        here.terminals.show(MAIN, TurnEnded("the answer to another", "failed"))
        assert not here.terminals.serves(Outbound(MAIN, "the answer to another", reply_to="earlier"))
        assert not here.terminals.serves(Outbound(MAIN, "a reminder"))
        here.terminals.show(MAIN, TextDelta("my answer"))
        here.terminals.show(MAIN, TurnEnded("my answer", "answered"))
        printing = asyncio.create_task(printed(reader, writer))
        await here.terminals.send(Outbound(MAIN, "my answer", reply_to=own))
        assert await printing == ("my answer\n", 0)


async def test_a_question_does_not_wait_for_a_turn_that_had_nothing_to_say(tmp_path: Path) -> None:
    async with place(tmp_path) as here:
        await here.say(hello() + b'{"said": "thanks", "id": "earlier"}\n')
        await here.got.get()
        here.terminals.show(MAIN, TurnEnded("", "answered"))
        reader, writer, own = await asking(here, "mine")
        here.terminals.show(MAIN, TurnEnded("no model", "failed"))
        printing = asyncio.create_task(printed(reader, writer))
        await here.terminals.send(Outbound(MAIN, "no model", reply_to=own))
        assert (await printing)[1] == 1


@pytest.mark.parametrize(("asked", "said", "status"), LINES["a question that a stop drops has failed"])
async def test_a_question_that_a_stop_drops_has_failed_and_the_stop_itself_has_not(
    tmp_path: Path, asked: str, said: str, status: int
) -> None:
    async with place(tmp_path) as here:
        await here.say(hello() + b'{"said": "before", "id": "earlier"}\n')
        await here.got.get()
        here.terminals.show(MAIN, TextDelta("half "))
        reader, writer, _ = await asking(here, asked)
        here.terminals.show(MAIN, TurnEnded("Stopped.", "cancelled"))
        printing = asyncio.create_task(printed(reader, writer))
        await here.terminals.send(Outbound(MAIN, said, reply_to="earlier"))
        assert await printing == (f"{said}\n", status)


@pytest.mark.parametrize("is_killed", [False, True])
async def test_a_question_that_ends_before_it_is_begun_is_taken_back_and_stops_nothing(
    tmp_path: Path, is_killed: bool
) -> None:
    async with place(tmp_path) as here:
        await here.say(hello() + b'{"said": "before", "id": "earlier"}\n')
        await here.got.get()
        here.terminals.show(MAIN, events.TurnBegan("earlier"))
        reader, writer, own = await asking(here, "/undo")
        if is_killed:
            writer.close()
        else:
            writer.write(b'{"stop": true}\n')
            assert await printed(reader, writer) == ("", 130)
        taken_back = await here.got.get()
        assert (taken_back.external_id, taken_back.is_withdrawn) == (own, True)


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "one JSON object"),
        (b"[1, 2]\n", "one JSON object"),
        (b"[" * 200_000 + b"\n", "one JSON object"),
        (b"\xff\xfe\n", "one JSON object"),
        (b'{"nanoclaw": 99, "want": "chat"}\n', "which this version cannot connect to"),
        (hello("everything"), "does not know what 'everything' is"),
        (hello(session=["x"]), "'session' must be a text"),
        (hello(session="a\x1b[2J"), "characters that cannot be shown"),
        (hello() + b'{"said": 5}\n', "'said' must be a text"),
        (hello() + b'{"said": "x", "files": "/etc/passwd"}\n', "'files' must be a list"),
        (hello("answer") + b'{"text": "x", "files": [[1, 2, 3]]}\n', "'files' must be a list"),
    ],
)
async def test_nonsense_is_refused_in_a_sentence(tmp_path: Path, data: bytes, sentence: str) -> None:
    async with place(tmp_path) as here:
        assert sentence in (await here.say(data))[-1]["refused"]
        async with here.chat():
            assert await here.terminals.send(Outbound(MAIN, "still here"))
        assert here.got.empty()


async def test_a_line_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminals, "LONGEST", 100_000)
    async with place(tmp_path) as here:
        assert "at most" in (await here.say(hello() + b"x" * 300_000))[-1]["refused"]


async def test_one_that_says_nothing_is_let_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminals, "HELLO_SECONDS", 0.05)
    async with place(tmp_path) as here:
        reader, writer = await here.raw()
        assert "say hello" in json.loads(await reader.readline())["refused"]
        writer.close()


async def test_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def of_another(line: socket.socket, level: int, name: int, size: int = 0) -> bytes:
        assert name == socket.SO_PEERCRED
        return struct.pack("3i", 1, 4711, 4711)

    if not hasattr(socket, "SO_PEERCRED"):
        pytest.skip("the system does not tell who is at the other end")
    monkeypatch.setattr(TransportSocket, "getsockopt", of_another)
    async with place(tmp_path) as here:
        assert "belongs to another user" in (await here.say(hello()))[0]["refused"]


async def test_too_many_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminals, "_MOST_LINES", 1)
    async with place(tmp_path) as here, here.chat():
        assert "attached to this nanoclaw already" in (await here.say(hello()))[0]["refused"]


def test_nobody_there_is_no_link(tmp_path: Path) -> None:
    assert attach.connect(str(tmp_path), "chat") is None
    with socket.socket(socket.AF_UNIX) as gone:
        gone.bind(str(tmp_path / home_socket.NAME))  # what a killed process leaves
    assert attach.connect(str(tmp_path), "chat") is None


def test_one_that_hangs_is_told_of_by_its_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attach, "HELLO_SECONDS", 0.05)
    (tmp_path / "state.lock").write_text("4711")
    with socket.socket(socket.AF_UNIX) as deaf:
        deaf.bind(str(tmp_path / home_socket.NAME))
        deaf.listen()
        with pytest.raises(StoreBusy, match="process 4711"):
            attach.connect(str(tmp_path), "chat")


@pytest.mark.parametrize(("argv", "known"), LINES["the thin client leaves all but the common line to the parser"])
def test_the_thin_client_leaves_all_but_the_common_line_to_the_parser(argv: list[str], known: bool) -> None:
    options = attach.common_options(argv)
    assert (options is not None) is known
    if options is not None:
        assert options == vars(parsed(argv))


def test_the_thin_client_is_thin() -> None:
    """Loaded with the command, so a heavy import would cost every `nanoclaw -m`."""
    code = f"import sys; sys.path.insert(0, {str(REPOSITORY)!r}); import nanoclaw.__main__, nanoclaw.channels.attach"
    command = [sys.executable, "-I", "-S", "-c", f"{code}; print(*sys.modules)"]
    loaded = set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())
    ours = {name for name in loaded if name.startswith("nanoclaw.")}
    assert ours == {
        "nanoclaw.__main__",
        "nanoclaw.channels",
        "nanoclaw.channels.attach",
        "nanoclaw.core",
        "nanoclaw.core.errors",
        "nanoclaw.escapes",
        "nanoclaw.home_socket",
    }
    assert not {"asyncio", "argparse", "pathlib", "typing", "dataclasses", "sqlite3", "prompt_toolkit"} & loaded


async def test_an_answer_longer_than_a_line_arrives_whole_and_its_terminal_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with place(tmp_path) as here, here.chat() as terminal:
        answer = Outbound(MAIN, "é🦆" * 4_500_000, ("a.txt",), "1", "7.1")  # 81 MB as JSON
        for _ in range(2):
            assert await here.terminals.send(answer)
            assert terminal.sent.get_nowait() == answer
        assert len(here.terminals._lines) == 1


async def test_a_question_too_long_for_a_line_is_refused_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attach, "LONGEST", 10_000)
    async with place(tmp_path) as here:
        link = await here.connect()
        link.send({"said": "short", "id": "1"})
        assert (await here.got.get()).message.text == "short"
        with pytest.raises(ConfigError, match="too long"):
            link.send({"said": "x" * 20_000, "id": "2"})
        link.send({"said": "short again", "id": "3"})
        assert (await here.got.get()).message.text == "short again"
        link.socket.close()
