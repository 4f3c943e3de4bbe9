"""What is streamed of an answer shows no secret, however it is cut."""

import pytest

from nanoclaw.plugins.redact.plugin import RedactFilter
from nanoclaw.redaction import Redactor

SECRET = "sk-canary-4711"


def streamed(text: str, size: int, *secrets: str) -> list[str]:
    passed = RedactFilter(Redactor(secrets or [SECRET]))
    return [*(passed.feed(text[start : start + size]) for start in range(0, len(text), size)), passed.end()]


@pytest.mark.parametrize("size", range(1, 20))
def test_a_secret_is_masked_wherever_the_stream_is_cut(size: int) -> None:
    text = f"the key is {SECRET}, sk-can is none, and sk-{SECRET}sk-"
    assert "".join(streamed(text, size)) == "the key is [secret], sk-can is none, and sk-[secret]sk-"


def test_nothing_is_held_back_that_cannot_be_the_beginning_of_one() -> None:
    assert streamed("hello there, a text", 6) == ["hello ", "there,", " a tex", "t", ""]


@pytest.mark.parametrize("size", range(1, 20))
def test_secrets_that_begin_alike_or_meet_are_both_masked(size: int) -> None:
    secrets = ("pass-1234", "pass-1234-long", "4-other-one")
    shown = "".join(streamed("a pass-1234-long b pass-1234 c pass-12344-other-one d", size, *secrets))
    assert shown == "a [secret] b [secret] c [secret][secret] d"
