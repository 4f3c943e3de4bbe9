"""A terminal chat with canned turns, for a test to run in a pseudo-terminal: `python -m tests.channels.chatter DIR`.

What is typed chooses the turn; everything handed in is written to DIR/delivered, a line of JSON each.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

from nanoclaw.channels.terminal.chat import Terminal
from nanoclaw.core.errors import StoreError
from nanoclaw.core.events import Event, Joined, Notice, ReasoningDelta, TextDelta, ToolFinished, ToolStarted, TurnEnded
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
            commands={"/help": "what I can do", "/new": "start over", "/stop": "stop the turn"},
        )
        self.queue: asyncio.Queue[Inbound] = asyncio.Queue()
        self.dropped: list[str] = []

    async def main(self) -> None:
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
        if text == "gather two":
            self.show(TextDelta("I gather."))
            joined = [(await self.queue.get()).external_id for _ in range(2)]
            self.show(Joined(tuple(joined)))
        async for event in events_of(text):
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


async def events_of(text: str) -> AsyncIterator[Event]:
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
        yield ToolFinished(call, "a\nb\nc", False, 0.01)
        yield ToolStarted(call)
        yield ToolFinished(call, "there is no notes/x.md\nlook with list_dir", True, 0.02)
        yield TextDelta("It has three lines.")
    elif word == "hang":
        yield ReasoningDelta("secret thoughts")
        yield ToolStarted(ToolCall("1", "exec", '{"command": "sleep 60"}'))
        await asyncio.Event().wait()
    elif word == "slow":
        yield TextDelta("Wait for it")
        await asyncio.Event().wait()
    elif word == "pause":
        yield TextDelta("A moment.")
        await asyncio.sleep(float(rest))
    elif word == "warn":
        yield Notice(f"a {'long ' * 20}notice")
    elif word == "load":
        for percent in range(0, 101, 5):
            yield Notice("loading the model", percent / 100)
            await asyncio.sleep(0.02)
        yield Notice("loading the model")
        yield TextDelta("Loaded.")
    elif word == "evil":
        yield ToolStarted(call := ToolCall("1", "ex\x1b[31mec", '{"command": "\\u001b]0;owned\\u0007"}'))
        yield ToolFinished(call, "\x1b[2J\x9b31m", True, 0.0)
        yield Notice("no\x1b[2Jtice")
        yield TextDelta("be\x1b[2Jware &#27;[2J \x9b2J `\x1b[2J`\n\n```\n\x1b[2J\n```\n")
    else:
        yield TextDelta(f"You said: {text}")


if __name__ == "__main__":
    asyncio.run(Chatter(Path(sys.argv[1])).main())
