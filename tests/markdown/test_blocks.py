import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanoclaw.markdown.blocks import Blocks
from tests.examples import examples

BLOCKS = examples(__file__, "blocks.jsonl")


def cut(text: str, size: int = 1) -> list[str]:
    blocks = Blocks()
    done = [block for start in range(0, len(text), size) for block in blocks.feed(text[start : start + size])]
    return [block.strip("\n") for block in done + blocks.finish()]


@pytest.mark.parametrize("size", [1, 3, 1000])
@pytest.mark.parametrize("blocks", BLOCKS["text is cut between blocks only"])
def test_text_is_cut_between_blocks_only(blocks: list[str], size: int) -> None:
    assert cut("\n\n".join(blocks), size) == blocks


def test_code_is_done_with_its_closing_fence() -> None:
    blocks = Blocks()
    assert blocks.feed("text\n```sh\nls\n```\n") == ["text", "```sh\nls\n```"]
    assert blocks.tail == ""


def test_long_code_is_cut_between_lines_and_stays_code() -> None:
    blocks = Blocks()
    blocks.feed("```py\n1\n2\n3\n")
    assert blocks.spill(keep=10) == []
    assert blocks.spill(keep=3) == ["```py\n1\n2\n3\n```"]
    assert blocks.spill(keep=0) == []
    assert blocks.feed("4\n```\n") == ["```py\n4\n```"]


def test_a_long_list_is_cut_between_items_and_a_paragraph_never() -> None:
    blocks = Blocks()
    blocks.feed("1. a\n   more\n2. b\n   more\n")
    assert blocks.spill(keep=2) == ["1. a\n   more"]
    assert blocks.tail == "2. b\n   more"
    blocks = Blocks()
    blocks.feed("a\nb\nc\nd\n")
    assert blocks.spill(keep=2) == []


@given(
    st.lists(st.sampled_from(["a", "\n", "- ", "```", "1. ", "  ", "|", "~~~", "b c", "\n\n", "#"])), st.integers(1, 9)
)
def test_no_word_is_lost_or_doubled(pieces: list[str], size: int) -> None:
    text = "".join(pieces)
    kept = "".join(cut(text, size))
    assert "".join(kept.split()) == "".join(text.split())
