"""Front matter: what is read here and what by YAML comes to the same, and nothing makes it fall over."""

import json
from typing import Any

import pytest
import yaml
from hypothesis import assume, given
from hypothesis import strategies as st

from nanoclaw.core.errors import SkillError
from nanoclaw.plugins.skills.skills import parse, split
from tests.examples import examples

FORMS = examples(__file__, "front_matter.jsonl")

WORDS = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=80)
VALUES = st.one_of(WORDS, st.lists(WORDS, max_size=3), st.dictionaries(WORDS.filter(bool), WORDS, max_size=3))
KEYS = st.from_regex(r"key[a-z-]{0,10}", fullmatch=True)  # YAML quotes some words, such as no


def values(text: str) -> dict[str, Any]:
    return {key: entry.value for key, entry in parse(text.encode()).items()}


@given(st.dictionaries(KEYS, VALUES, min_size=1, max_size=4))
def test_whatever_a_yaml_writer_writes_is_read_as_yaml_reads_it(front: dict[str, Any]) -> None:
    text = yaml.safe_dump(front, allow_unicode=True)
    assume("*id" not in text)  # aliases are refused
    assert values(text) == yaml.load(text, yaml.BaseLoader)


@given(st.dictionaries(KEYS, VALUES, min_size=1, max_size=4))
def test_whatever_a_json_writer_writes_is_read_as_json_reads_it(front: dict[str, Any]) -> None:
    assert values("".join(f"{key}: {json.dumps(value)}\n" for key, value in front.items())) == front


@given(st.text(st.sampled_from("ab:-#{}[]\"'|>&*! \n\t,?%@`"), max_size=60))
def test_any_text_is_read_or_refused_with_a_line(text: str) -> None:
    try:
        parse(f"name: x\n{text}".encode())
    except SkillError as error:
        assert str(error).startswith("line ")


@given(st.text(st.sampled_from("ab :#-'\"\\é&*"), max_size=40))
def test_a_line_that_yaml_can_read_means_the_same_here(text: str) -> None:
    try:
        expected = yaml.load(f"key: {text}", yaml.BaseLoader)["key"]
    except (yaml.YAMLError, TypeError, KeyError):
        return
    assert values(f"key: {text}") == {"key": expected}


@given(st.binary(max_size=200))
def test_any_bytes_are_split_or_refused(content: bytes) -> None:
    try:
        block, rest = split(content)
    except SkillError as error:
        assert str(error).startswith("line 1: ")
    else:
        assert content.endswith(rest) and block in content


@pytest.mark.parametrize(("line", "value"), FORMS["these forms are understood"])
def test_these_forms_are_understood(line: str, value: object) -> None:
    assert values(f"key: {line}\nlast: x") == {"key": value, "last": "x"}
