"""`nanoclaw -m`: what goes to stdout, what to stderr."""

import asyncio
import io
import json
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from nanoclaw.channels.plain import OneQuestion, Plain
from nanoclaw.core import events
from nanoclaw.core.events import Event, Joined, Notice, TextDelta, ToolFinished, ToolStarted, TurnBegan, TurnEnded
from nanoclaw.core.messages import Address, Inbound, Outbound, ToolCall, Usage
from tests.virtual_time import passed, virtual_time

HERE = Address("terminal", "main")
CALL = ToolCall("1", "read_file", '{"path": "a.md"}')
TOOL_TURN: tuple[Event, ...] = (
    TextDelta("Let me look."),
    ToolStarted(CALL),
    ToolFinished(CALL, "a\nb", False, 0.01),
    TextDelta("It has "),
    TextDelta("two lines."),
    TurnEnded("It has two lines.", "answered", Usage(10, 5, 3)),
)


class Stream(io.StringIO):
    def __init__(self, tty: bool) -> None:
        super().__init__()
        self.tty = tty

    def isatty(self) -> bool:
        return self.tty


def now() -> datetime:
    return datetime(2026, 1, 1, tzinfo=UTC)


def ask(
    events: Sequence[Event], sent: str | None = None, *, tty: bool = False, as_json: bool = False, **options: Any
) -> tuple[str, str, Plain]:
    """stdout, stderr and the channel after one question whose turn shows the events."""
    out, err = Stream(tty), Stream(tty)
    plain = Plain(OneQuestion("hi", as_json=as_json), now, stdout=out, stderr=err, **options)

    async def deliver(inbound: Inbound) -> None:
        assert inbound.message.text == "hi"
        for event in events:
            plain.show(HERE, event)
        answer = events[-1].answer if sent is None and isinstance(events[-1], TurnEnded) else sent
        if answer is not None:
            await plain.send(Outbound(HERE, answer, reply_to=inbound.external_id))

    asyncio.run(plain.run(deliver))
    return out.getvalue(), err.getvalue(), plain


def test_a_pipe_gets_the_answer_and_nothing_else() -> None:
    assert ask(TOOL_TURN)[:2] == ("It has two lines.\n", "")


def test_a_terminal_sees_the_answer_as_it_comes_and_once() -> None:
    out, err, _ = ask(TOOL_TURN, tty=True)
    assert out == "Let me look.\nIt has two lines.\n"
    assert err == "✓ read_file a.md · 0.01 s, 3 B\n"


@virtual_time
async def test_a_person_is_told_within_a_second_what_is_waited_for() -> None:
    for tty, told in ((True, "· the model is at work\n"), (False, "")):
        plain = Plain(OneQuestion("hi"), now, stdout=Stream(tty), stderr=(err := Stream(tty)))

        async def deliver(inbound: Inbound, plain: Plain = plain) -> None:
            plain.show(HERE, TurnBegan(plain.id))
            await asyncio.sleep(1)
            plain.show(HERE, TextDelta("Hello."))
            plain.show(HERE, TurnEnded("Hello.", "answered"))
            await plain.send(Outbound(HERE, "Hello.", reply_to=plain.id))

        await asyncio.wait_for(plain.run(deliver), 10)
        assert err.getvalue() == told


def test_an_answer_that_is_not_what_streamed_is_told_too() -> None:
    events = (TextDelta("Half an ans"), TurnEnded("The connection broke.", "failed"))
    out, err, _ = ask(events, tty=True)
    assert (out, err) == ("Half an ans\n", "The connection broke.\n")


def test_a_command_is_answered_without_a_turn() -> None:
    out, _, plain = ask((), "model: x")
    assert (out, plain.reason) == ("model: x\n", "answered")


def test_what_a_tool_sends_in_the_middle_is_told_before_the_answer() -> None:
    out, err = Stream(False), Stream(False)
    plain = Plain(OneQuestion("hi"), now, stdout=out, stderr=err)

    async def deliver(inbound: Inbound) -> None:
        plain.show(HERE, ToolStarted(CALL))
        await plain.send(Outbound(HERE, "on it", files=("a.pdf",)))
        plain.show(HERE, TurnEnded("done", "answered"))
        await plain.send(Outbound(HERE, "done", reply_to=inbound.external_id))

    asyncio.run(plain.run(deliver))
    assert out.getvalue() == "on it\na.pdf\ndone\n"


@pytest.mark.parametrize("event", [events.Queued("another"), Joined(("another",))])
def test_it_ends_with_its_answer_whatever_is_told_of_other_messages_before_that(event: Event) -> None:
    out, err = Stream(False), Stream(False)
    plain = Plain(OneQuestion("hi"), now, stdout=out, stderr=err)

    async def deliver(inbound: Inbound) -> None:
        plain.show(HERE, TurnBegan(inbound.external_id))
        plain.show(HERE, TurnEnded("yes", "answered"))
        plain.show(HERE, event)
        await plain.send(Outbound(HERE, "yes", reply_to=inbound.external_id))

    asyncio.run(asyncio.wait_for(plain.run(deliver), 10))
    assert out.getvalue() == "yes\n"


@virtual_time
async def test_a_turn_that_begins_before_the_answer_of_an_earlier_one_is_out_is_not_given_up_for_it() -> None:
    out, err = Stream(False), Stream(False)
    plain = Plain(OneQuestion("hi"), now, stdout=out, stderr=err)

    async def deliver(inbound: Inbound) -> None:
        plain.show(HERE, TurnBegan("from the last run"))
        plain.show(HERE, TurnEnded("old", "answered"))
        plain.show(HERE, TurnBegan(inbound.external_id))
        await plain.send(Outbound(HERE, "old", reply_to="from the last run"))
        await asyncio.sleep(10)
        plain.show(HERE, TurnEnded("new", "answered"))
        await plain.send(Outbound(HERE, "new", reply_to=inbound.external_id))

    await plain.run(deliver)
    assert out.getvalue() == "new\n"


def test_an_answer_to_an_earlier_message_is_neither_this_answer_nor_lost() -> None:
    out, err = Stream(False), Stream(False)
    plain = Plain(OneQuestion("hi", as_json=True), now, stdout=out, stderr=err)

    async def deliver(inbound: Inbound) -> None:
        plain.show(HERE, ToolFinished(CALL, "", False, 0))
        plain.show(HERE, TurnEnded("old", "failed"))
        await plain.send(Outbound(HERE, "old", reply_to="from the last run"))
        plain.show(HERE, TurnEnded("new", "answered"))
        await plain.send(Outbound(HERE, "new", reply_to=inbound.external_id))

    asyncio.run(plain.run(deliver))
    fields = json.loads(out.getvalue())
    assert (fields["answer"], fields["reason"], fields["tools"], err.getvalue()) == ("new", "answered", [], "old\n")


def test_an_answer_to_a_question_is_over_with_the_turn_that_goes_on() -> None:
    out, err = Stream(False), Stream(False)
    plain = Plain(OneQuestion("hi"), now, stdout=out, stderr=err)

    async def deliver(inbound: Inbound) -> None:
        plain.show(HERE, TurnBegan("from the last run"))
        await plain.send(Outbound(HERE, "OK: “blue”.", reply_to=inbound.external_id))
        plain.show(HERE, TextDelta("Blue."))
        plain.show(HERE, TurnEnded("Blue.", "answered"))
        await plain.send(Outbound(HERE, "Blue.", reply_to="from the last run"))

    asyncio.run(plain.run(deliver))
    assert out.getvalue() == "OK: “blue”.\nBlue.\n"


def test_a_turn_that_asks_once_more_is_not_waited_for() -> None:
    plain = Plain(OneQuestion("hi"), now, stdout=Stream(False), stderr=Stream(False))

    async def deliver(inbound: Inbound) -> None:
        plain.show(HERE, TurnBegan("from the last run"))
        await plain.send(Outbound(HERE, "OK: “blue”.", reply_to=inbound.external_id))
        plain.show(HERE, events.TurnPaused())

    asyncio.run(plain.run(deliver))
    assert plain.is_answered


@virtual_time
async def test_a_turn_that_cannot_be_stored_is_told_all_the_same() -> None:
    out, err = Stream(False), Stream(False)
    plain = Plain(OneQuestion("hi"), now, stdout=out, stderr=err)

    async def deliver(inbound: Inbound) -> None:
        plain.show(HERE, TurnEnded("The disk is full.", "failed"))

    await plain.run(deliver)
    assert passed() == 2
    assert (out.getvalue(), err.getvalue(), plain.reason) == ("", "The disk is full.\n", "failed")


@pytest.mark.parametrize("as_json", [False, True])
def test_a_turn_with_nothing_to_say_is_over_at_once(monkeypatch: pytest.MonkeyPatch, as_json: bool) -> None:
    """Nothing comes through the outbox, and nobody waits for it."""
    monkeypatch.setattr("nanoclaw.channels.plain._ANSWER_SECONDS", 3600.0)
    out, err = Stream(False), Stream(False)
    then = datetime(2026, 1, 1, tzinfo=UTC)
    plain = Plain(OneQuestion("thanks", as_json=as_json), lambda: then, stdout=out, stderr=err)

    async def deliver(inbound: Inbound) -> None:
        plain.show(HERE, Notice("(nothing to say)"))
        plain.show(HERE, TurnEnded("", "answered"))

    asyncio.run(plain.run(deliver))
    assert err.getvalue() == "· (nothing to say)\n"
    assert plain.reason == "answered"
    assert json.loads(out.getvalue())["answer"] == "" if as_json else out.getvalue() == ""


def test_a_turn_without_words_ends() -> None:
    assert ask((TurnEnded("", "cancelled"),))[0] == ""


def test_json_of_a_failure_has_the_error() -> None:
    out, _, plain = ask((TurnEnded("No model.", "failed"),), as_json=True)
    fields = json.loads(out)
    assert (fields["answer"], fields["reason"], fields["error"]) == ("", "failed", "No model.")
    assert plain.reason == "failed"


@pytest.mark.parametrize("arguments", ["[" * 100_000, "NaN", '{"a": NaN}', "[1]", "nonsense", '{"a": "\\ud800"}'])
def test_json_survives_any_arguments(arguments: str) -> None:
    call = ToolCall("1", "exec", arguments)
    out = ask((ToolFinished(call, "", True, 0), TurnEnded("x", "answered")), as_json=True)[0]
    assert json.loads(out)["tools"][0]["is_error"] is True


def test_no_control_byte_passes() -> None:
    evil = "a\x1b[2J\x9b\rb\x07"
    call = ToolCall("1", evil, json.dumps({"path": evil}))
    events = (ToolFinished(call, evil, True, 0), Notice(evil), TextDelta(evil), TurnEnded(evil, "answered"))
    every: tuple[dict[str, Any], ...] = ({"tty": True}, {}, {"as_json": True})
    for options in every:
        out, err, _ = ask(events, **options)
        assert not set("\x1b\x9b\r\x07") & set(out + err)
    assert "\x1b" not in json.loads(out)["answer"]


def test_progress_is_a_bar_on_a_terminal_and_a_few_lines_elsewhere() -> None:
    events: list[Event] = [*(Notice("loading", part / 100) for part in range(101)), TurnEnded("ok", "answered")]
    assert ask(events)[1].splitlines() == [f"· loading {part} %" for part in (0, 25, 50, 75, 100)]
    bar = ask(events, tty=True)[1]
    assert bar.endswith("\r████████████████████ 100 % loading\n") and bar.count("\n") == 1


def test_a_notice_that_is_repeated_is_told_once() -> None:
    fractions = (None, None, 0.5, None, 1.0, 1.0, None)
    events: list[Event] = [*(Notice("reading", fraction) for fraction in fractions), TurnEnded("ok", "answered")]
    assert ask(events)[1].splitlines() == ["· reading", "· reading 50 %", "· reading 100 %"]
    bar = ask(events, tty=True)[1]
    assert bar.count("· reading\n") == 1 and bar.count("100 %") == 1
    again: list[Event] = [Notice("retrying"), ToolStarted(CALL), Notice("retrying"), TurnEnded("ok", "answered")]
    assert ask(again)[1].splitlines() == ["· retrying", "· retrying"]


PROGRAM = """
import asyncio, sys
from datetime import UTC, datetime
from nanoclaw.channels.plain import Plain, OneQuestion
from nanoclaw.core.events import TurnEnded
from nanoclaw.core.messages import Address, Outbound
heavy = {"rich", "prompt_toolkit", "loguru", "httpx", "yaml"} & set(sys.modules)
assert not heavy, heavy
plain = Plain(OneQuestion("hi"), lambda: datetime.now(UTC))
async def deliver(inbound):
    plain.show(inbound.address, TurnEnded("x" * 1_000_000 + "\\u4f60\\ud800", "answered"))
    await plain.send(Outbound(inbound.address, "x" * 1_000_000 + "\\u4f60\\ud800", reply_to=inbound.external_id))
asyncio.run(plain.run(deliver))
print(plain.write_error, file=sys.stderr)
"""


def run_program(redirection: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = f'"$0" -c "$1" {redirection}'
    return subprocess.run(
        ["/bin/sh", "-c", command, sys.executable, PROGRAM],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": ":".join(sys.path), **environment},
        timeout=100,
    )


def test_a_reader_who_leaves_is_no_error() -> None:
    done = run_program("| head -c 5")
    assert (done.stdout, done.stderr, done.returncode) == ("xxxxx", "\n", 0)


def test_closed_and_full_outputs_are_told_without_a_traceback() -> None:
    assert run_program(">&-").stderr == "it is closed\n"
    assert run_program("> /dev/full").stderr == "No space left on device\n"


def test_a_narrow_encoding_gets_question_marks() -> None:
    done = run_program("| tail -c 4", PYTHONIOENCODING="ascii")
    assert (done.stdout, done.stderr) == ("x??\n", "\n")
