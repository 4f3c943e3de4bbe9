"""A scripted model that uses the browser: it finds the numbers of elements in what it was shown."""

import re
from collections.abc import Iterable
from typing import Any

from nanoclaw.core.messages import Message, ModelRequest, ToolResult
from nanoclaw.providers.scripted import Say, ScriptedProvider, Step
from tests.program import Program

LOOKS = ("open", "read", "scroll", "back", "screenshot")


def number(element: str | int, history: Iterable[Message]) -> int:
    """The number of an element such as 'button "Buy"', as it was shown last."""
    if isinstance(element, int):
        return element
    shown = [one.text for one in history if isinstance(one, ToolResult)]
    for text in reversed(shown):
        if found := re.search(rf"\[(\d+): {re.escape(element)}", text):
            return int(found[1])
    raise AssertionError(f"{element} was never shown:\n{shown[-1] if shown else ''}")


def does(action: str, *given: Any, **more: Any) -> Step:
    """One call: ("open", url), ("click", 'button "Buy"'), ("type", 'field "Name"', "Ann"), …"""

    def step(request: ModelRequest) -> Say:
        arguments: dict[str, Any] = {"action": action, **more}
        if action in LOOKS:
            arguments |= {"url": given[0]} if given else {}
        else:
            arguments |= {"element": number(given[0], request.history)} if given and given[0] is not None else {}
            arguments |= {"value": given[1]} if len(given) > 1 else {}
        return Say("", (("browse" if action in LOOKS else "browse_do", arguments),))

    return step


async def go(
    program: Program, provider: ScriptedProvider, *steps: Step, chat: str = "main", said: str = "Go on."
) -> list[ToolResult]:
    """Have the model do these one after the other; what it was told of each."""
    provider.add([*steps, "Hm."])
    await program.say(said, chat)
    answer = await program.answer()
    assert answer == "Hm.", answer
    found = [one for one in provider.requests[-1].history if isinstance(one, ToolResult)]
    return found[-len(steps) :]
