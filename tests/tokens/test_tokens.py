"""Tokens: the estimate against real counts, pictures, whole requests, and what is learned from a provider."""

import time
from io import BytesIO
from pathlib import Path

import pytest
from PIL import Image as pillow

from nanoclaw.core.messages import (
    AssistantMessage,
    Image,
    Message,
    ModelRequest,
    SystemPrompt,
    ToolCall,
    ToolResult,
    ToolSpec,
    Usage,
    UserMessage,
)
from nanoclaw.core.model_call import counted
from nanoclaw.core.provider import chat_messages, estimate_request
from nanoclaw.providers.scripted import Say, ScriptedProvider
from nanoclaw.tokens import Calibration, estimate, image_tokens
from tests.examples import examples
from tests.program import NOON, bare

COUNTED = {kind: found[0] for kind, found in examples(__file__, "token_counts.jsonl").items()}
"""Texts with their number of tokens in o200k."""


@pytest.mark.parametrize("kind", COUNTED)
def test_an_estimate_is_near_the_real_count(kind: str) -> None:
    text, counted = COUNTED[kind]
    assert estimate(text) == pytest.approx(counted, rel=0.2)


def test_nothing_is_no_token_and_anything_is_at_least_one() -> None:
    assert estimate("") == 0
    assert all(estimate(text) >= 1 for text in ("a", " ", "\n", "😀", "\ud800", "\x00", "ა"))


@pytest.mark.parametrize("sign", ["a", "A", "7", " ", "\n", "=", "\t", "😀", "中", "é", "ა", "\x1b", "\ud800"])
def test_an_endless_repetition_counts_for_something_but_never_for_more_than_its_bytes(sign: str) -> None:
    text = sign * 6_000
    assert 100 <= estimate(text) <= len(text.encode("utf-8", "surrogatepass"))


def test_ten_megabytes_are_counted_in_a_moment() -> None:
    text = COUNTED["Markdown"][0] * 20_000
    started = time.process_time()
    estimate(text)
    assert time.process_time() - started < 5  # half a second on any machine of these years


def picture(width: int, height: int, kind: str = "PNG") -> Image:
    drawn = BytesIO()
    pillow.new("RGB", (width, height)).save(drawn, kind)
    return Image(f"image/{kind.lower()}", drawn.getvalue())


@pytest.mark.parametrize("kind", ["PNG", "JPEG"])
def test_a_picture_counts_by_its_area(kind: str) -> None:
    assert image_tokens(picture(750, 500, kind).data, by_tiles=False) == 500
    assert image_tokens(picture(4000, 3000, kind).data, by_tiles=False) == 1600


def test_a_picture_counts_by_tiles_with_openai() -> None:
    assert image_tokens(picture(500, 500).data, by_tiles=True) == 85 + 170
    assert image_tokens(picture(1024, 1024).data, by_tiles=True) == 85 + 4 * 170
    assert image_tokens(picture(4096, 1024).data, by_tiles=True) == 85 + 4 * 170


@pytest.mark.parametrize("data", [b"", b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"\xff\xd8" + b"\xff\xe0\x00\x00" * 9])
def test_a_picture_that_cannot_be_measured_counts_as_a_large_one(data: bytes) -> None:
    assert image_tokens(data, by_tiles=False) == 1600


def test_a_request_counts_its_system_tools_messages_calls_and_pictures() -> None:
    tool = ToolSpec("read_file", "Read a file.", {"type": "object", "properties": {"path": {"type": "string"}}})
    kind = SystemPrompt("You are kind.")
    messages: tuple[Message, ...] = (
        UserMessage("what is in a.txt?", NOON, images=(picture(750, 500),)),
        AssistantMessage("", NOON, (ToolCall("1", "read_file", '{"path": "a.txt"}'),)),
        ToolResult("1", "read_file", "apples and pears", NOON),
    )
    sizes = [
        estimate_request(ModelRequest(SystemPrompt(""), ())),
        estimate_request(ModelRequest(kind, ())),
        estimate_request(ModelRequest(kind, (), (tool,))),
        *(estimate_request(ModelRequest(kind, messages[:count], (tool,))) for count in (1, 2, 3)),
    ]
    assert sizes == sorted(set(sizes))
    assert sizes[3] - sizes[2] > 500


def test_a_request_is_counted_near_what_its_wire_form_is() -> None:
    messages = tuple(UserMessage(text, NOON) for text, _ in COUNTED.values())
    request = ModelRequest(SystemPrompt("You are kind."), messages)
    wire = sum(estimate(str(message["content"])) for message in chat_messages(request))
    assert wire < estimate_request(request) < wire * 1.1


def test_a_model_that_never_told_its_count_is_taken_at_the_estimate() -> None:
    assert Calibration().factor("openai/gpt-5") == 1.0


def test_the_factor_follows_what_the_provider_reports() -> None:
    calibration = Calibration()
    calibration.learn("a/b", 1000, 1300)
    assert calibration.factor("a/b") == pytest.approx(1.3)
    for _ in range(30):
        calibration.learn("a/b", 1000, 900)
    assert calibration.factor("a/b") == pytest.approx(0.9, abs=0.01)
    assert calibration.factor("other/model") == 1.0


@pytest.mark.parametrize(
    ("estimated", "reported", "factor"), [(1, 10**9, 2.0), (10**9, 1, 0.5), (0, 5, 1.0), (5, 0, 1.0)]
)
def test_a_count_that_cannot_be_right_teaches_little(estimated: int, reported: int, factor: float) -> None:
    calibration = Calibration()
    calibration.learn("a/b", estimated, reported)
    assert calibration.factor("a/b") == factor


def test_what_was_learned_before_is_taken_up() -> None:
    past = {"a/b": [(100, 150), (100, 150)]}
    assert Calibration(lambda model: past.get(model, ())).factor("a/b") == pytest.approx(1.5)


REQUEST = ModelRequest(SystemPrompt("You are kind. " * 50), (UserMessage("hello", NOON),))


def test_a_call_whose_usage_was_reported_is_kept_as_it_is_and_learned_from() -> None:
    calibration = Calibration()
    answer = AssistantMessage("hi", NOON, usage=Usage(300, 2, 100))
    first = counted(calibration, REQUEST, "a/b", answer, "")
    assert (first.usage, first.is_reported) == (Usage(300, 2, 100), True)
    assert calibration.factor("a/b") == pytest.approx(300 / first.estimated)


def test_a_call_without_a_report_is_counted_with_what_was_learned() -> None:
    calibration = Calibration()
    plain = counted(calibration, REQUEST, "a/b", None, "I was saying")
    assert not plain.is_reported
    assert plain.usage.output_tokens == estimate("I was saying")
    calibration.learn("a/b", 100, 200)
    assert counted(calibration, REQUEST, "a/b", None, "").usage.input_tokens == 2 * plain.usage.input_tokens


async def test_a_program_learns_across_its_turns(tmp_path: Path) -> None:
    provider = ScriptedProvider(Say("one", usage=Usage(50_000, 1)), "two")
    async with bare(tmp_path, provider) as program:
        await program.ask("first")
        await program.ask("second")
        rows = program.rows("SELECT input_tokens, estimated, is_reported FROM usage ORDER BY id")
        (told, estimated, _), (counted, _, is_reported) = rows
        assert (told, is_reported) == (50_000, 0)
        assert estimated < counted <= 3 * estimated
