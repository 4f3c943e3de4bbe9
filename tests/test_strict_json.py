"""JSON of others is either a value that can be relied on, or a ValueError."""

import json
from typing import Any

import pytest

from nanoclaw import strict_json

GOOD: list[tuple[str | bytes, Any]] = [
    ('{"a": [1, -0.5, 1e3, true, null, "é\\n"]}', {"a": [1, -0.5, 1000.0, True, None, "é\n"]}),
    ('"\\ud83d\\ude00"', "😀"),
    ("[" * 200 + "]" * 200, None),
    (b'{"a": "\xc3\xa9"}', {"a": "é"}),
    ('"' + "[" * 1000 + '"', "[" * 1000),
]


@pytest.mark.parametrize(("text", "value"), GOOD, ids=range(len(GOOD)))
def test_what_is_json_is_read(text: str | bytes, value: Any) -> None:
    found = strict_json.read(text)
    assert json.dumps(found, ensure_ascii=False).encode()
    assert value is None or found == value


BAD: list[tuple[str | bytes, str]] = [
    ("", "Expecting value"),
    ("[" * 100_000, "too deeply"),
    ('{"a":' * 100_000 + "1" + "}" * 100_000, "too deeply"),
    ("[" * 202 + "]" * 202, "too deeply"),
    ("[" * 900 + "]" * 900, "too deeply"),
    ("9" * 100_000, "4300 digits"),
    ('{"a": 1, "a": 2}', "the same key twice"),
    ('[{"a": {"b": 1, "\\u0062": 2}}]', "the same key twice"),
    ("[NaN]", "NaN is not JSON"),
    ("-Infinity", "-Infinity is not JSON"),
    ("[1e400]", "too large"),
    ("-1e400", "too large"),
    ('"\\ud800"', "lone surrogate"),
    ('{"\\udfff": 1}', "lone surrogate"),
    ('"\ud800"', "lone surrogate"),
    (b'"\xed\xa0\x80"', "lone surrogate"),
    (b'"\xff"', "utf-8"),
    ("[1,]", ""),
    ("{'a': 1}", ""),
    ('"\x00"', "control character"),
    ("[1] x", "Extra data"),
    ("\ufeff[1]", "BOM"),
]


@pytest.mark.parametrize(("text", "reason"), BAD, ids=range(len(BAD)))
def test_what_is_none_is_a_value_error_with_a_reason(text: str | bytes, reason: str) -> None:
    with pytest.raises(ValueError) as raised:
        strict_json.read(text)
    assert reason in str(raised.value)
    assert str(raised.value).encode()
