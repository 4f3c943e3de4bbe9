"""Ask, act, repeat: what one turn promises, seen from the conversation."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Literal

import pytest

from nanoclaw.core.errors import ContextTooLong, ProviderError, ProviderRefused, ToolError
from nanoclaw.core.events import TextDelta, ToolFinished, ToolStarted, TurnBegan, TurnEnded
from nanoclaw.core.messages import AssistantMessage, Usage, UserMessage
from nanoclaw.core.model_call import LONGEST_ANSWER
from nanoclaw.core.plugin import Tool, ToolOutput
from nanoclaw.core.tool import tool
from nanoclaw.providers.scripted import Hang, Say, ScriptedProvider, Step, call
from tests.core.small_files import small_file_tools
from tests.program import Program, assert_legal, bare, results


class Diary:
    """Tools that write down when they begin and end."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.together = asyncio.Event()
        self.needed = 1
        self._inside = 0

    def tools(self) -> list[Tool]:
        async def look(name: str) -> str:
            """Only reads; waits until as many are inside as are needed."""
            self.lines.append(f"+{name}")
            self._inside += 1
            if self._inside >= self.needed:
                self.together.set()
            await self.together.wait()
            self.lines.append(f"-{name}")
            return f"saw {name}"

        async def change(name: str) -> str:
            """Writes."""
            self.lines.append(f"+{name}")
            await asyncio.sleep(0)
            self.lines.append(f"-{name}")
            return f"changed {name}"

        return [tool(look, reach="none"), tool(change)]


def ask(root: Path, *steps: Step, tools: list[Tool] | None = None, settings: str = "", text: str = "go") -> Ended:
    """One message through the whole program; all of the script must be used."""
    with ScriptedProvider(*steps) as model:

        async def story() -> Ended:
            brought = [*small_file_tools(root / "workspace"), *(tools or ())]
            async with bare(root, model, tools=brought, settings=settings) as program:
                answer = await program.ask(text)
                return Ended(program, answer, model)

        return asyncio.run(story())


class Ended:
    def __init__(self, program: Program, answer: str, model: ScriptedProvider) -> None:
        self.answer, self.model = answer, model
        self.turn = program.channel.ended[-1]
        self.history = program.history
        self.results = results(program.history)
        self.events = [event for _, event in program.channel.events]
        assert_legal(self.history)


def test_a_turn_asks_acts_and_asks_again_until_the_model_answers(tmp_path: Path) -> None:
    ended = ask(
        tmp_path,
        call("write_file", {"path": "bird.txt", "content": "pelican"}),
        call("read_file", {"path": "bird.txt"}),
        "It says pelican.",
    )
    assert (tmp_path / "workspace" / "bird.txt").read_text() == "pelican"
    assert [(result.name, result.is_error) for result in ended.results] == [("write_file", False), ("read_file", False)]
    assert "pelican" in ended.results[1].text
    assert ended.turn == TurnEnded("It says pelican.", "answered")
    assert ended.answer == "It says pelican."


def test_calls_that_only_read_run_side_by_side_and_answer_in_the_order_of_the_calls(tmp_path: Path) -> None:
    diary = Diary()
    diary.needed = 3
    calls = tuple(("look", {"name": name}) for name in "abc")
    ended = ask(tmp_path, Say(calls=calls), "done", tools=diary.tools())
    assert set(diary.lines[:3]) == {"+a", "+b", "+c"}
    assert [result.text for result in ended.results] == ["saw a", "saw b", "saw c"]


def test_a_call_that_writes_waits_for_those_that_read_and_they_wait_for_it(tmp_path: Path) -> None:
    diary = Diary()
    calls = (("look", {"name": "a"}), ("change", {"name": "b"}), ("look", {"name": "c"}))
    ask(tmp_path, Say(calls=calls), "done", tools=diary.tools())
    assert diary.lines == ["+a", "-a", "+b", "-b", "+c", "-c"]


def test_of_ten_calls_three_fail_and_one_is_cancelled_from_inside_and_all_ten_have_results(tmp_path: Path) -> None:
    async def work(number: int) -> str:
        """Some fail."""
        if number in (2, 5):
            raise ToolError(f"no {number}")
        if number == 7:
            raise ZeroDivisionError("a defect")
        if number == 8:
            raise asyncio.CancelledError
        return f"did {number}"

    calls = tuple(("work", {"number": number}) for number in range(10))
    ended = ask(tmp_path, Say(calls=calls), "seen", tools=[tool(work, reach="none")])
    assert [result.is_error for result in ended.results] == [number in (2, 5, 7, 8) for number in range(10)]
    assert ended.results[2].text == "no 2"
    assert "ZeroDivisionError: a defect" in ended.results[7].text
    assert ended.results[9].text == "did 9"
    assert ended.turn.reason == "answered"


def test_an_unknown_tool_is_answered_with_near_names(tmp_path: Path) -> None:
    ended = ask(tmp_path, call("read_fil", {"path": "a"}), call("zzz", {}), "ok")
    assert "read_file" in ended.results[0].text
    assert all(result.is_error for result in ended.results)
    assert "write_file" in ended.results[1].text


def test_the_third_answer_with_a_tool_that_does_not_exist_ends_the_turn(tmp_path: Path) -> None:
    ended = ask(tmp_path, call("read_fil", {"path": "a"}), call("", {}), call("zzz", {}))
    assert ended.turn.reason == "loop"
    assert "tools that do not exist" in ended.answer
    assert len(ended.results) == 3


def test_unknown_tools_of_one_answer_do_not_end_the_turn_and_the_list_is_given_once(tmp_path: Path) -> None:
    unknown = Say(calls=tuple((name, {}) for name in ("zzz", "qqq", "xxx", "read_fil")))
    ended = ask(tmp_path, unknown, call("list_dir", {}), "Done.")
    assert (ended.turn.reason, ended.answer) == ("answered", "Done.")
    assert [result.text for result in ended.results[1:3]] == ["there is no tool 'qqq'.", "there is no tool 'xxx'."]
    assert ended.results[0].text.startswith("there is no tool 'zzz'. Tools: ")
    assert "Near: read_file" in ended.results[3].text


def test_a_tool_is_found_whatever_the_case_of_its_name(tmp_path: Path) -> None:
    ended = ask(tmp_path, call("Write_File ", {"path": "a.txt", "content": "x"}), "ok")
    assert not ended.results[0].is_error


def test_a_turn_without_an_end_stops_at_the_limit_with_an_honest_sentence(tmp_path: Path) -> None:
    steps = [call("write_file", {"path": f"{number}.txt", "content": ""}) for number in range(4)]
    ended = ask(tmp_path, *steps, settings="[limits]\nrounds = 4\n")
    assert ended.turn.reason == "step_limit"
    assert "4 rounds" in ended.answer
    assert len(ended.results) == 4
    assert all(ended.answer not in message.text for message in ended.history)


async def test_a_turn_that_takes_too_long_ends_with_an_honest_sentence(tmp_path: Path) -> None:
    async with bare(tmp_path, ScriptedProvider(Hang()), settings="[limits]\nturn_seconds = 0.1\n") as program:
        told = await program.ask("think for ever")
        assert told.startswith("I stopped after 0.1 seconds without finishing. What was done so far is kept")
        assert program.channel.ended[-1].reason == "step_limit"


def test_an_answer_cut_off_at_the_output_limit_says_so_and_history_keeps_the_models_words(tmp_path: Path) -> None:
    ended = ask(tmp_path, Say("The capital of France is", finish="length"))
    assert ended.answer == (
        "The capital of France is\n\n(Cut off at the model's output limit; say “go on” for the rest.)"
    )
    assert ended.history[-1].text == "The capital of France is"


def test_a_call_cut_off_at_the_output_limit_never_runs(tmp_path: Path) -> None:
    cut = Say(calls=(("write_file", {"path": "a.txt", "content": "half"}),), finish="length")
    ended = ask(tmp_path, cut, "I will write less")
    assert not (tmp_path / "workspace" / "a.txt").exists()
    assert ended.results[0].is_error
    assert "cut off" in ended.results[0].text
    assert not any(isinstance(event, ToolStarted) for event in ended.events)


@pytest.mark.parametrize("empty", ["", " \n\t", "\u200b\ufeff\xa0\x00", Say(reasoning="only thoughts")])
def test_an_empty_answer_is_asked_for_once_more(tmp_path: Path, empty: Step) -> None:
    ended = ask(tmp_path, empty, "Here I am.")
    assert ended.answer == "Here I am."
    assert len([message for message in ended.history if isinstance(message, AssistantMessage)]) == 1


@pytest.mark.parametrize("empty", ["", " \n\t", "\u200b\ufeff\xa0\x00", Say(reasoning="only thoughts")])
def test_two_empty_answers_end_in_an_honest_sentence_that_is_not_in_the_history(tmp_path: Path, empty: Step) -> None:
    ended = ask(tmp_path, empty, empty)
    assert ended.turn.reason == "failed"
    assert "empty answer" in ended.answer
    assert not any(isinstance(message, AssistantMessage) for message in ended.history)


async def test_a_refusal_is_shown_and_the_next_turn_works(tmp_path: Path) -> None:
    with ScriptedProvider(Say("I can't help with that.", finish="refusal"), "Sure.") as model:
        async with bare(tmp_path, model) as program:
            assert await program.ask("bad") == "I can't help with that."
            assert await program.ask("good") == "Sure."


@pytest.mark.parametrize(
    "error", [ProviderError("no answer"), ProviderRefused("the key is wrong"), ContextTooLong("it is too long")]
)
async def test_a_model_that_fails_is_told_in_a_sentence_and_never_enters_the_history(
    tmp_path: Path, error: ProviderError
) -> None:
    with ScriptedProvider(error, "Here again.") as model:
        async with bare(tmp_path, model) as program:
            assert str(error) in await program.ask("hello")
            assert program.channel.ended[-1].reason == "failed"
            assert [type(message) for message in program.history] == [UserMessage, UserMessage]
            assert await program.ask("hello?") == "Here again."
            assert all(str(error) not in message.text for message in model.requests[1].history)


def test_what_was_done_before_the_model_failed_is_kept(tmp_path: Path) -> None:
    ended = ask(tmp_path, call("write_file", {"path": "a.txt", "content": "x"}), ProviderError("gone"))
    assert ended.turn.reason == "failed"
    assert [result.name for result in ended.results] == ["write_file"]


def test_the_same_call_with_the_same_result_is_warned_at_the_third_time_and_ended_at_the_sixth(tmp_path: Path) -> None:
    ended = ask(tmp_path, *[call("read_file", {"path": "no.txt"})] * 6)
    assert ended.turn.reason == "loop"
    assert warned(ended) == [False, False, True, True, True, True]


def warned(ended: Ended) -> list[bool]:
    return ["The same result again" in result.text for result in ended.results]


def test_a_loop_of_varied_arguments_with_one_error_ends_like_any_other(tmp_path: Path) -> None:
    async def look(path: str) -> str:
        """Finds nothing."""
        raise ToolError("the disk is gone")

    ended = ask(tmp_path, *[call("look", {"path": f"{number}.txt"}) for number in range(6)], tools=[tool(look)])
    assert ended.turn.reason == "loop"
    assert warned(ended) == [False, False, True, True, True, True]


@pytest.mark.parametrize("reach", ["none", "workspace", "outside"])
def test_other_calls_of_one_result_are_no_loop(tmp_path: Path, reach: Literal["none", "workspace", "outside"]) -> None:
    async def run(command: str) -> str:
        """Has nothing to say."""
        return "[exit status 0]"

    steps = [call("run", {"command": f"mkdir {number}"}) for number in range(20)]
    ended = ask(tmp_path, *steps, "Made.", tools=[tool(run, reach=reach)])
    assert (ended.turn.reason, any(warned(ended))) == ("answered", False)


def test_many_calls_of_one_answer_with_one_error_are_no_loop(tmp_path: Path) -> None:
    async def search(words: str) -> str:
        """Finds nothing."""
        raise ToolError("nothing matches")

    many = Say(calls=tuple(("search", {"words": f"word {number}"}) for number in range(8)))
    ended = ask(tmp_path, many, "There is none.", tools=[tool(search, reach="none")])
    assert (ended.answer, any(warned(ended))) == ("There is none.", False)


def test_calls_beyond_the_limit_are_not_run_and_the_model_is_told_so(tmp_path: Path) -> None:
    ran: list[int] = []

    async def note(number: int) -> str:
        """Notes it."""
        ran.append(number)
        return f"noted {number}"

    many = Say(calls=tuple(("note", {"number": number}) for number in range(200)))
    ended = ask(tmp_path, many, "72 are left to do.", tools=[tool(note)])
    assert (ended.turn.reason, ended.answer, ran) == ("answered", "72 are left to do.", list(range(128)))
    left = "not run: one turn has at most 128 calls. Answer, and say what is left to do."
    assert [result.text for result in ended.results] == [f"noted {number}" for number in ran] + [left] * 72


def test_a_call_whose_result_changes_is_no_loop(tmp_path: Path) -> None:
    count = iter(range(100))

    async def poll() -> str:
        """Another number each time."""
        return str(next(count))

    ended = ask(tmp_path, *[call("poll")] * 8, "done", tools=[tool(poll)])
    assert ended.turn.reason == "answered"


def test_the_same_change_made_again_is_a_loop_whatever_the_tool_says_of_it(tmp_path: Path) -> None:
    count = iter(range(100))

    async def remind(text: str) -> str:
        """Sets one more reminder each time."""
        return f"reminder {next(count)}"

    ended = ask(tmp_path, *[call("remind", {"text": "bank"})] * 6, tools=[tool(remind, reach="workspace")])
    assert ended.turn.reason == "loop"
    assert ended.results[2].text.startswith("reminder 2\n(The same result again")


def test_two_calls_with_one_id_both_run_once_and_differ_on_the_wire(tmp_path: Path) -> None:
    twins = Say(
        calls=(
            ("append_file", {"path": "a.txt", "content": "one"}, "same"),
            ("append_file", {"path": "a.txt", "content": "two"}, "same"),
        )
    )
    ended = ask(tmp_path, twins, "both")
    assert (tmp_path / "workspace" / "a.txt").read_text().split() == ["one", "two"]
    from nanoclaw.core.provider import chat_messages

    wire = chat_messages(ended.model.requests[1])
    ids = [item["tool_call_id"] for item in wire if item["role"] == "tool"]
    assert len(set(ids)) == 2
    assert [item["id"] for item in wire[3]["tool_calls"]] == ids


def test_tokens_of_all_rounds_are_summed(tmp_path: Path) -> None:
    first = Say(calls=(("list_dir", {}),), usage=Usage(10, 2, 4))
    ended = ask(tmp_path, first, Say("done", usage=Usage(20, 3, 8)))
    assert ended.turn.usage == Usage(30, 5, 12)


def test_a_screen_sees_text_calls_and_outcomes_in_order(tmp_path: Path) -> None:
    ended = ask(tmp_path, call("list_dir", {}, text="Let me look."), "Done.")
    kinds = [type(event) for event in ended.events]
    assert kinds == [TurnBegan, TextDelta, ToolStarted, ToolFinished, TextDelta, TurnEnded]


def test_pictures_a_tool_returns_reach_the_model(tmp_path: Path) -> None:
    from nanoclaw.core.messages import Image

    picture = Image("image/png", b"png", "a.png")

    async def look() -> ToolOutput:
        """Shows something."""
        return ToolOutput("see", (picture,))

    ended = ask(tmp_path, call("look"), "nice", tools=[tool(look)])
    assert ended.results[0].images == (picture,)


def test_opaque_fields_of_a_model_are_kept_for_it(tmp_path: Path) -> None:
    ended = ask(tmp_path, Say(calls=(("list_dir", {}),), opaque='{"thinking": "x"}'), "done")
    answer = next(message for message in ended.model.requests[1].history if isinstance(message, AssistantMessage))
    assert answer.opaque == '{"thinking": "x"}'


def test_an_endless_answer_is_cut_with_a_line_that_says_so(tmp_path: Path) -> None:
    said = "A line.\n" * 1_200_000
    ended = ask(tmp_path, said)
    assert ended.answer == f"{said[:LONGEST_ANSWER]}\n\n(Cut off here: this answer has 9,600,000 characters.)"
    streamed = "".join(event.text for event in ended.events if isinstance(event, TextDelta))
    assert len(streamed) == LONGEST_ANSWER
    assert isinstance(ended.history[-1], AssistantMessage)
    assert ended.history[-1].text == ended.answer
