"""Whatever a model sends, the toolbox answers with something it can act on."""

import asyncio
import json
from pathlib import Path
from typing import Annotated, Literal

import pytest

from nanoclaw.core.calls import Toolbox
from nanoclaw.core.chain import Chain
from nanoclaw.core.errors import ToolError
from nanoclaw.core.messages import CheckedCall, Image, ToolCall, ToolResult
from nanoclaw.core.plugin import Plugin, Tool, ToolOutput, Turn
from nanoclaw.core.tool import ToolContext, tool
from nanoclaw.outputs import Outputs
from nanoclaw.providers.scripted import ScriptedProvider
from nanoclaw.providers.scripted import call as step
from tests.program import MAIN, NOON, bare, results, tools_plugin

CONTEXT = ToolContext(MAIN, "me", "person")
CALLS: list[tuple[object, ...]] = []


async def echo(
    text: str,
    times: Annotated[int, "how often"] = 1,
    share: float = 0.5,
    loud: bool = False,
    kind: Literal["plain", "bold"] = "plain",
    tags: list[str] | None = None,
) -> str:
    """Say it back."""
    CALLS.append((text, times, share, loud, kind, tags))
    return text * times


async def who(context: ToolContext) -> str:
    """Say who asks."""
    return context.sender


async def breaks() -> str:
    """Break."""
    raise RuntimeError("a defect")


async def nothing() -> ToolOutput:
    """Show a picture and no text."""
    return ToolOutput("", (Image("image/png", b"x"),))


class Box:
    """A toolbox, used as a turn uses it."""

    def __init__(self, *tools: Tool) -> None:
        chain = Chain([tools_plugin(*tools)(None, None)], list)  # type: ignore[arg-type]
        self._toolbox = Toolbox(chain, lambda: NOON, str, Outputs(Path()))

    async def run(self, name: str, arguments: str) -> ToolResult:
        call = ToolCall("7", name, arguments)
        try:
            checked = self._toolbox.check(call)
        except ToolError as error:
            return self._toolbox.failed(call, str(error))
        return await self._toolbox.carry_out(checked, CONTEXT)

    def send(self, name: str, arguments: str) -> ToolResult:
        return asyncio.run(self.run(name, arguments))


@pytest.fixture
def box() -> Box:
    CALLS.clear()
    return Box(tool(echo, reach="none"), tool(who), tool(breaks), tool(nothing))


def test_a_schema_comes_from_the_annotations() -> None:
    properties = {
        "text": {"type": "string"},
        "times": {"type": "integer", "description": "how often"},
        "share": {"type": "number"},
        "loud": {"type": "boolean"},
        "kind": {"type": "string", "enum": ["plain", "bold"]},
        "tags": {"type": "array", "items": {"type": "string"}},
    }
    spec = tool(echo).spec
    assert (spec.name, spec.description) == ("echo", "Say it back.")
    assert spec.parameters == {"type": "object", "properties": properties, "required": ["text"]}


def test_a_tool_without_a_docstring_or_with_an_odd_type_fails_at_once() -> None:
    async def silent(text: str) -> str:
        return text

    async def odd(value: bytes) -> str:
        """Odd."""
        return ""

    with pytest.raises(TypeError, match="needs a docstring"):
        tool(silent)
    with pytest.raises(TypeError, match=r"odd\(value\)"):
        tool(odd)


@pytest.mark.parametrize(
    ("arguments", "call"),
    [
        ('{"text": "a"}', ("a", 1, 0.5, False, "plain", None)),
        (json.dumps('{"text": "a"}'), ("a", 1, 0.5, False, "plain", None)),
        ('{"text": "a", "times": "2", "share": "1.5", "loud": "true"}', ("a", 2, 1.5, True, "plain", None)),
        ('{"text": 5, "times": 2.0, "share": 1}', ("5", 2, 1.0, False, "plain", None)),
        ('{"text": {"a": [1]}}', ('{"a": [1]}', 1, 0.5, False, "plain", None)),
        ('{"text": "a", "tags": "one"}', ("a", 1, 0.5, False, "plain", ["one"])),
        ('{"text": "a", "tags": ["x", 1]}', ("a", 1, 0.5, False, "plain", ["x", "1"])),
        ('{"text": "a", "times": null, "unknown": null}', ("a", 1, 0.5, False, "plain", None)),
        (' {"text": "é\\n\\u00e9", "kind": "bold"}\n', ("é\né", 1, 0.5, False, "bold", None)),
    ],
)
def test_what_can_be_understood_runs(box: Box, arguments: str, call: tuple[object, ...]) -> None:
    assert not box.send("echo", arguments).is_error
    assert [call] == CALLS


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ("", "needs 'text'"),
        ("{}", "needs 'text'"),
        ('{"text": null}', "needs 'text'"),
        ("[]", "are a list"),
        ('["text"]', "are a list"),
        ("5", "are a int"),
        ('"text"', "not valid JSON"),
        ('{"text": "a"', "not valid JSON"),
        ("{'text': 'a'}", "not valid JSON"),
        ('{"text": "a"} {"text": "b"}', "not valid JSON"),
        ('{"text": "a", "text": "b"}', "the same key twice"),
        ('{"text": "a", "share": NaN}', "NaN is not JSON"),
        ('{"text": "a", "share": -Infinity}', "-Infinity is not JSON"),
        ('{"text": "a", "extra": 1}', "no argument 'extra'; it takes text, times"),
        ('{"text": "a", "times": "five"}', "must be of type integer"),
        ('{"text": "a", "times": 1.5}', "must be of type integer"),
        ('{"text": "a", "times": true}', "must be of type integer"),
        ('{"text": "a", "times": 1e999}', "a number that is too large"),
        ('{"text": "a", "share": "NaN"}', "must be of type number"),
        ('{"text": "a", "times": "\\ud800"}', "lone surrogate"),
        ('{"text": "a", "times": [1]}', "must be of type integer"),
        ('{"text": "a", "loud": "perhaps"}', "must be of type boolean"),
        ('{"text": "a", "kind": "italic"}', "must be one of plain, bold, not 'italic'"),
        ('{"text": "\\ud800"}', "lone surrogate"),
        ('{"\\ud800": 1}', "lone surrogate"),
        ('{"text": ' + "[" * 100_000 + "]" * 100_000 + "}", "nested too deeply"),
        ("[" * 100_000, "nested too deeply"),
        ('{"text": "a", "times": ' + "9" * 100_000 + "}", "not valid JSON"),
        ('{"text": "' + "x" * 5_000_000 + '"}', "send less at once"),
        ("\x00", "not valid JSON"),
        ('{"text": "\x01"}', "not valid JSON"),
    ],
)
def test_what_cannot_be_understood_does_nothing_and_says_why(box: Box, arguments: str, reason: str) -> None:
    result = box.send("echo", arguments)
    assert result.is_error
    assert reason in result.text
    assert len(result.text) < 400
    assert CALLS == []


async def test_a_result_is_what_plugins_make_of_it_and_never_empty(tmp_path: Path) -> None:
    class Secretive(Plugin):
        name = "secretive"

        async def after_tool(self, call: CheckedCall, result: ToolResult, turn: Turn) -> ToolResult:
            return result._replace(text=result.text.replace("sk-1", "[secret]"))

    steps = (step("echo", {"text": "my sk-1 key"}), step("nothing"), "done")
    tools = [tool(echo), tool(nothing)]
    with ScriptedProvider(*steps) as model:
        async with bare(tmp_path, model, plugins=[Secretive], tools=tools) as program:
            await program.ask("go")
            said, shown = results(program.history)
            assert said.text == "my [secret] key"
            assert (shown.text, shown.images) == ("(no output)", (Image("image/png", b"x"),))
