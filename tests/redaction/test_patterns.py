"""What has the form of a secret is masked, and nothing else; known values also wrapped and spaced."""

import html
import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest

from nanoclaw.redaction import Redactor
from nanoclaw.redaction.patterns import without_patterns
from tests.examples import examples

PLAIN = examples(__file__, "without_secrets.jsonl")

HERE = Path(__file__).parent
KNOWN = "sk-canary-A1b2C3d4E5f6-Zz9+/x"
ENV = f"PORT=80\nHOST=db1\nOPENAI_API_KEY={KNOWN}\nOTHER=1234 and more words here\n"


def texts(name: str) -> list[str]:
    lines = (HERE / name).read_text(encoding="utf-8").splitlines()
    return [
        re.sub(r"(?<!\\)\\n", "\n", line.replace("·", "")).replace("\\\\n", "\\n")
        for line in lines
        if not line.startswith("# ")
    ]


@pytest.mark.parametrize("text", texts("secrets.txt"))
def test_what_has_the_form_of_a_secret_is_masked_and_what_stands_around_it_stays(text: str) -> None:
    secrets = re.findall("«([^»]*)»", text)
    shown = without_patterns(re.sub("[«»]", "", text))
    assert "[secret]" in shown
    assert not [part for secret in secrets for part in re.findall(r"[^\n]{6,}", secret) if part in shown]
    assert shown.startswith(text.partition("«")[0][:6])


def test_what_has_none_stays_as_it_is() -> None:
    harmless = [longer for text in texts("harmless.txt") for longer in (text, f"{text}\n" * 3)]
    assert [without_patterns(text) for text in harmless] == harmless


@pytest.mark.parametrize("text", (HERE / "nested.txt").read_text(encoding="utf-8").splitlines()[2:])
def test_what_is_written_with_escapes_of_escapes_or_in_a_form_is_masked_in_its_place(text: str) -> None:
    (secret,) = re.findall("«([^»]*)»", text)
    assert without_patterns(re.sub("[«»]", "", text)) == re.sub("«[^»]*»", "[secret]", text), secret


@pytest.mark.parametrize("text", PLAIN["escapes and forms without a secret stay"])
def test_escapes_and_forms_without_a_secret_stay(text: str) -> None:
    assert without_patterns(text) == text


@pytest.mark.parametrize(
    "write",
    [
        lambda value: quote(quote(quote(value, safe=""), safe=""), safe=""),
        lambda value: "".join(f"%25{ord(sign):02x}" for sign in value),
        lambda value: json.dumps(json.dumps({"a": json.dumps(value)})),
        lambda value: html.escape(json.dumps(value)),
        lambda value: "".join(f"&#{ord(sign)};" for sign in value),
        lambda value: "".join(f"\\u{ord(sign):04x}" for sign in value),
        lambda value: quote(html.escape(value), safe=""),
    ],
)
@pytest.mark.parametrize("filler", ["", "some words\n" * 400], ids=["short", "long"])
def test_a_known_value_is_masked_however_often_it_is_escaped(write: Callable[[str], str], filler: str) -> None:
    value = 'p"w/+&-Canary 77<x>'
    shown = Redactor([value])(f"{filler}before {write(value)} after\n{filler}")
    assert shown.startswith(f"{filler}before ") and shown.endswith(f" after\n{filler}")
    assert "[secret]" in shown and not re.search("Canary|43616e", shown)


def test_long_lines_and_large_texts_are_read_to_their_end() -> None:
    text = "x" * 5000 + ' api_key = "f7a9c3e1b5d8246097cfae13bd57908e" ' + "y" * 5000
    assert without_patterns(text) == text.replace("f7a9c3e1b5d8246097cfae13bd57908e", "[secret]")


@pytest.mark.parametrize(
    "command",
    [
        *("xxd -p", "xxd -i", "od -An -tx1", "base64", "base64 -w 20"),
        *("base32", "rev", "sed 's/./& /g'", "fold -w 7", "fold -w 1", "cat -A", "tr a-z A-Z"),
    ],
)
def test_a_known_value_is_masked_however_a_command_prints_it(command: str) -> None:
    if shutil.which(command.split()[0]) is None:
        pytest.skip(f"no {command.split()[0]} here")
    done = subprocess.run(command, shell=True, input=ENV.encode(), capture_output=True, check=False)
    shown = Redactor([KNOWN])(done.stdout.decode())
    assert "[secret]" in shown
    assert not re.search("sk-can|A1b2|C3d4|Zz9", shown)


def test_a_value_that_comes_later_is_hidden_from_then_on() -> None:
    redact = Redactor()
    assert redact(f"a {KNOWN}") == f"a {KNOWN}"
    redact.add(KNOWN)
    assert redact(f"a {KNOWN}") == "a [secret]"
    assert redact.begun(f"a {KNOWN[:7]}") == 7
