"""A terminal chat with canned turns, for a test to run in a pseudo-terminal; its argument is a folder DIR.

What is typed chooses the turn; everything handed in is written to DIR/delivered, a line of JSON each. A turn that
waits goes on by SIGUSR1.
"""

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

from nanoclaw.channels.terminal import chat
from nanoclaw.channels.terminal.chat import Terminal
from nanoclaw.core import events
from nanoclaw.core.errors import StoreError
from nanoclaw.core.events import Event, GoTo, Notice, TextDelta, ToolFinished, ToolProgress, ToolStarted, TurnEnded
from nanoclaw.core.messages import Address, Inbound, Outbound, ToolCall

ANSWER = """# Heading one

Some *emphasis*, **strong** words and `code`, 你好世界 🎉 with a [link](https://example.org/x).
A second line of the same paragraph that is long enough to be wrapped on a screen of eighty columns for sure.

1. first item
2. second item
   - nested one
   - nested two

| name | size | what |
|------|-----:|------|
| a.md | 12 | a note about many things |
| b.md | 3456 | another |

```python
def greet(name: str) -> str:
    return f"hello {name}, this line is long enough that it does not fit into eighty columns of a terminal"
```

The end of the answer."""


class Chatter:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.address = Address("terminal", "main")
        self.turn: asyncio.Task[None] | None = None
        self.terminal = Terminal(
            "main",
            history_file=folder / "history",
            clock=lambda: datetime.now(UTC),
            greeting="nanoclaw with canned answers, " + "and a greeting that is longer than a screen of eighty columns",
            commands={"help": ("what I can do", False), "new": ("start over", False), "stop": ("stop the turn", False)},
        )
        self.queue: asyncio.Queue[Inbound] = asyncio.Queue()
        self.dropped: list[str] = []
        self.late = list[Inbound]()
        self.signals = asyncio.Semaphore(0)

    async def main(self) -> None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, self.signals.release)
        working = asyncio.create_task(self.work())
        await self.terminal.run(self.deliver)
        working.cancel()
        print("left")

    async def deliver(self, inbound: Inbound) -> None:
        text = inbound.message.text
        with (self.folder / "delivered").open("a") as file:
            file.write(json.dumps({"text": text, "attachments": [one.path for one in inbound.attachments]}) + "\n")
        if text == "refuse":
            raise StoreError("the disk is full: free some space and say it again")
        if text == "/stop":
            while not self.queue.empty():
                self.dropped.append(self.queue.get_nowait().message.text)
            if self.turn:
                self.turn.cancel()
            else:
                await self.say("Nothing to stop.", inbound)
        elif text == "/help":
            said = "- `/help`: what I can do\n- `/stop`: stop the turn"
            if not self.turn:
                self.show(TurnEnded(said, "answered"))
            await self.say(said, inbound)
        elif text == "remind me":
            await self.say("It is set.", inbound)
        elif inbound.is_edit:
            waiting = [self.queue.get_nowait() for _ in range(self.queue.qsize())]
            for one in waiting:
                if one.external_id != inbound.external_id or not inbound.is_withdrawn:
                    self.queue.put_nowait(inbound if one.external_id == inbound.external_id else one)
        else:
            self.queue.put_nowait(inbound)

    async def work(self) -> None:
        while True:
            inbound = await self.queue.get()
            self.turn = asyncio.create_task(self.answer(inbound))
            await asyncio.wait([self.turn])
            if self.turn.cancelled():
                said = f"Stopped. Not begun: {'; '.join(self.dropped)}." if self.dropped else "Stopped."
                self.dropped.clear()
                self.show(TurnEnded(said, "cancelled"))
                await self.say(said, inbound)
            self.turn = None

    async def answer(self, inbound: Inbound) -> None:
        text, said = inbound.message.text, ""
        self.show(events.TurnBegan(inbound.external_id))
        while self.late:
            await self.say("A late answer.", self.late.pop())
        if text == "late":
            await self.signals.acquire()
            self.late.append(inbound)
            self.show(TurnEnded("A late answer.", "answered"))
            return
        if text == "gather two":
            self.show(TextDelta("I gather."))
            joined = [(await self.queue.get()).external_id for _ in range(2)]
            self.show(events.Joined(tuple(joined)))
        async for event in events_of(text, self.signals):
            if isinstance(event, TextDelta):
                said += event.text
            if isinstance(event, ToolStarted):
                said = ""
            self.show(event)
        self.show(TurnEnded(said, "answered"))
        await self.say(said, inbound)

    def show(self, event: Event) -> None:
        self.terminal.show(self.address, event)

    async def say(self, text: str, inbound: Inbound) -> None:
        await self.terminal.send(Outbound(self.address, text, reply_to=inbound.external_id))


async def events_of(text: str, signals: asyncio.Semaphore) -> AsyncIterator[Event]:
    word, _, rest = text.partition(" ")
    if word == "markdown":
        for start in range(0, len(ANSWER), 7):
            yield TextDelta(ANSWER[start : start + 7])
            await asyncio.sleep(0.01)
    elif word == "lines":
        for number in range(int(rest)):
            yield TextDelta(f"line-{number} of the answer\n")
            await asyncio.sleep(0)
    elif word == "list":
        for number in range(int(rest)):
            yield TextDelta(f"{number + 1}. item-{number}\n")
            await asyncio.sleep(0.005)
    elif word == "code":
        yield TextDelta("```python\n")
        for number in range(int(rest)):
            yield TextDelta(f"code_{number} = {number}\n")
            await asyncio.sleep(0.005)
        yield TextDelta("```\n")
    elif word == "tools":
        call = ToolCall("1", "read_file", '{"path": "notes/x.md"}')
        yield TextDelta("Let me look.")
        yield ToolStarted(call)
        yield ToolFinished(call, "a\nb\nc", False, 0.01, number=1)
        yield ToolStarted(call)
        yield ToolFinished(call, "there is no notes/x.md\nlook with list_dir", True, 0.02, number=2)
        yield TextDelta("It has three lines.")
    elif word == "many":
        for number in range(1, int(rest) + 1):
            call = ToolCall(str(number), "read_file", f'{{"path": "notes/{number}.md"}}')
            yield ToolStarted(call, number=number)
            yield ToolFinished(call, f"content {number}", False, 0.001, number=number)
        yield TextDelta("All read.")
    elif word == "diff":
        call = ToolCall("1", "edit_file", '{"path": "笔记/很长的名字很长的名字很长的名字.md", "old": "a", "new": "b"}')
        diff = "\n".join(["@@ line 8 @@", " same", "-old \x1b[2J", *(f"+new 🎉 {n} {'wide ' * 30}" for n in range(30))])
        yield ToolStarted(call, number=3)
        yield ToolFinished(call, "Edited.", False, 0.01, number=3, diff=diff)
        yield TextDelta("Changed.")
    elif word == "nest":
        outer, inner = ToolCall("o", "delegate", '{"text": "look it up"}'), ToolCall("i", "web_fetch", '{"url": "a.b"}')
        yield ToolStarted(outer, number=4)
        yield ToolStarted(inner, "o")
        yield ToolProgress(inner, "page 1 of 2", 0.5)
        await signals.acquire()
        yield ToolFinished(inner, "one\ntwo", False, 0.5, "o")
        yield ToolFinished(outer, "found it", False, 0.6, number=4)
        yield TextDelta("It is there.")
    elif word == "side":
        left, right = ToolCall("l", "exec", '{"command": "left"}'), ToolCall("r", "exec", '{"command": "right"}')
        yield ToolStarted(left, number=5)
        yield ToolStarted(right, number=6)
        yield ToolProgress(left, "compiling a\ncompiling b")
        yield ToolProgress(right, "testing")
        await signals.acquire()
        yield ToolFinished(right, "[exit status 1]", True, 0.6, number=6)
        yield TextDelta("One is gone.")
    elif word == "steps":
        for done in range(3):
            call = ToolCall(str(done), "todo", f'{{"done": [{done}]}}')
            yield ToolStarted(call, number=done + 1)
            yield events.StatusLines("todo", f"to do: {done} of 2 done\n▸ read \x1b[2J", done == 2)
            yield ToolFinished(call, f"{done} of 2 done", False, 0.01, number=done + 1)
            await signals.acquire()
        yield ToolFinished(ToolCall("9", "todo", "{}"), "there is no step 9", True, 0.01, number=4)
        yield TextDelta("All done.")
    elif word == "hang":
        yield events.ReasoningDelta("secret thoughts")
        yield ToolStarted(ToolCall("1", "exec", '{"command": "sleep 60"}'))
        await asyncio.Event().wait()
    elif word == "slow":
        yield TextDelta("Wait for it")
        await asyncio.Event().wait()
    elif word == "pause":
        yield TextDelta("A moment.")
        await signals.acquire()
    elif word == "ask":
        await signals.acquire()
        yield events.TurnPaused()
        for event in (events.Queued("behind"), events.Settled("elsewhere")):
            yield event
        await signals.acquire()
        yield events.TurnBegan("ask")
        yield TextDelta("You said yes.")
    elif word == "gone":
        yield events.StatusLines("wait", "nobody answers: trying again …")
        await signals.acquire()
        yield events.StatusLines("wait", "")
    elif word == "foot":
        yield events.StatusLines("footer", rest)
        yield TextDelta("Standing.")
    elif word == "open":
        yield GoTo("", rest)
    elif word == "go":
        yield GoTo(rest)
    elif word == "warn":
        yield Notice(f"a {'long ' * 20}notice")
    elif word == "load":
        for percent in range(0, 101, 5):
            yield Notice("loading the model", percent / 100)
            if percent == 50:
                await signals.acquire()
        yield Notice("loading the model")
        yield TextDelta("Loaded.")
    elif word == "evil":
        yield ToolStarted(call := ToolCall("1", "ex\x1b[31mec", '{"command": "\\u001b]0;owned\\u0007"}'))
        yield ToolFinished(call, "\x1b[2J\x9b31m", True, 0.0)
        yield Notice("no\x1b[2Jtice")
        yield TextDelta("be\x1b[2Jware &#27;[2J \x9b2J `\x1b[2J`\n\n```\n\x1b[2J\n```\n")
    else:
        yield TextDelta(f"You said: {text}")


def main() -> None:
    chat._AGAIN_SECONDS = 100.0  # the machine may be busy
    asyncio.run(Chatter(Path(sys.argv[1])).main())
