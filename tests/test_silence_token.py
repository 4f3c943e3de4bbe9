"""Tokens of silence: understood however they are dressed up, and no other word is ever lost."""

from __future__ import annotations

import pytest

from nanoclaw.silence_token import spoken

SILENT = [
    "HEARTBEAT_OK",
    "NO_REPLY",
    "[SILENT]",
    "heartbeat_ok",
    "No_Reply",
    "[silent]",
    "  HEARTBEAT_OK\n\n",
    "HEARTBEAT_OK.",
    "NO_REPLY!",
    "…HEARTBEAT_OK…",
    '"HEARTBEAT_OK"',
    "'NO_REPLY'",
    "“NO_REPLY”",
    "«[SILENT]»",
    "`HEARTBEAT_OK`",
    "**HEARTBEAT_OK**",
    "*NO_REPLY*.",
    "***[SILENT]***",
    "_NO_REPLY_",
    "__[SILENT]__",
    "~~HEARTBEAT_OK~~",
    "(NO_REPLY)",
    "- HEARTBEAT_OK",
    "* NO_REPLY",
    "# HEARTBEAT_OK",
    "> NO_REPLY",
    "1. HEARTBEAT_OK",
    "```\nHEARTBEAT_OK\n```",
    "```text\nNO_REPLY\n```",
    "<p>HEARTBEAT_OK</p>",
    "<b>NO_REPLY</b>&nbsp;",
    "HEARTBEAT_OK ✅",
    "👍 HEARTBEAT_OK",
    "HEARTBEAT_OK HEARTBEAT_OK",
    "HEARTBEAT_OK\nNO_REPLY",
    "HEARTBEAT_OK\n\n---\n",
    "HEARTBEAT\\_OK",
    "**NO\\_REPLY**",
    "\\[SILENT\\]",
    "HEARTBEAT OK",
    "HEARTBEAT-OK ✅",
    "NO REPLY.",
    "Status: HEARTBEAT_OK",
    "**Status:** HEARTBEAT OK",
    "Final answer: `NO_REPLY`",
]

SPEAKING = [
    ("Mum's flight is cancelled. HEARTBEAT_OK", "Mum's flight is cancelled."),
    ("HEARTBEAT_OK Mum's flight is cancelled.", "Mum's flight is cancelled."),
    ("HEARTBEAT_OK\n\nYour 3 pm call moved to 4.", "Your 3 pm call moved to 4."),
    ("Your 3 pm call moved to 4.\n\nHEARTBEAT_OK", "Your 3 pm call moved to 4."),
    ("HEARTBEAT_OK. Disk is 95 % full.", "Disk is 95 % full."),
    ("HEARTBEAT_OK — disk is 95 % full", "disk is 95 % full"),
    ("HEARTBEAT_OK: disk is 95 % full", "disk is 95 % full"),
    ("Disk is 95 % full — HEARTBEAT_OK", "Disk is 95 % full"),
    ("Disk is 95 % full **HEARTBEAT_OK**", "Disk is 95 % full"),
    ("Disk is 95 % full (NO_REPLY)", "Disk is 95 % full"),
    ("Disk is 95 % full. `HEARTBEAT_OK`.", "Disk is 95 % full."),
    ("**Disk is 95 % full. HEARTBEAT_OK**", "**Disk is 95 % full.**"),
    ("**HEARTBEAT_OK** Disk is 95 % full.", "Disk is 95 % full."),
    ("Rain at 5.HEARTBEAT_OK", "Rain at 5."),
    ("NO_REPLY\nRain at 5.\nNO_REPLY", "Rain at 5."),
    ("HEARTBEAT_OK 5", "5"),
    ("HEARTBEAT_OK\n12. ", "12. "),
    ("Left: 3.\nHEARTBEAT_OK", "Left: 3."),
    ("妈妈的航班取消了。HEARTBEAT_OK", "妈妈的航班取消了。"),
    ("HEARTBEAT_OK é", "é"),
    ("[SILENT] The door is open.", "The door is open."),
    ("The door is open. [SILENT]", "The door is open."),
    ("Ok. HEARTBEAT_OK " + "x" * 299, "Ok. HEARTBEAT_OK " + "x" * 299),
    ("Disk is 95 % full. HEARTBEAT\\_OK", "Disk is 95 % full."),
    ("HEARTBEAT_OK " + "word " * 60, "word " * 60),
]

UNTOUCHED = [
    "Mum's flight is cancelled.",
    "",
    "   ",
    "👍",
    "OK",
    "Silent night.",
    "SILENT",
    "No reply from the bank yet.",
    "The token HEARTBEAT_OK means that all is well.",
    "The header reads “NO_REPLY”",
    "The script prints `HEARTBEAT_OK`",
    "`NO_REPLY` is the sender of that mail.",
    '"NO_REPLY" is what it said.',
    "NO_REPLY@bank.example wrote twice.",
    "Look at NO_REPLY.txt",
    "NO_REPLY.txt has grown.",
    "Set $NO_REPLY",
    "NO_REPLY=1 is set.",
    "It is in logs/NO_REPLY",
    "HEARTBEAT_OKAY",
    "MY_HEARTBEAT_OK",
    "[SILENT]er than before",
    "No reply.",
    "Heartbeat OK",
    "Anna: NO REPLY",
    "HEARTBEAT OK 5",
    "The HEARTBEAT OK light is off.",
    "Status: HEARTBEAT_OK, but the disk is full.",
    "Status: the door is open.",
]


@pytest.mark.parametrize("text", SILENT)
def test_a_token_alone_is_silence_however_it_is_dressed_up(text: str) -> None:
    assert spoken(text) == ""


@pytest.mark.parametrize(("text", "left"), SPEAKING)
def test_other_words_are_never_swallowed(text: str, left: str) -> None:
    assert spoken(text) == left


@pytest.mark.parametrize("text", UNTOUCHED)
def test_a_text_that_only_speaks_of_a_token_stays_as_it_is(text: str) -> None:
    assert spoken(text) == text


@pytest.mark.parametrize("token", ["HEARTBEAT_OK", "NO_REPLY", "[SILENT]"])
@pytest.mark.parametrize("wrap", ["{}", "**{}**", '"{}"', "`{}`.", "({})", "\n{}\n"])
@pytest.mark.parametrize("words", ["Mum called.", "Rain: 80 %!", "- a\n- b", "x", "Zahl 7", "他来了。"])
def test_every_word_survives_at_either_edge(token: str, wrap: str, words: str) -> None:
    dressed = wrap.format(token)
    for text in (f"{words} {dressed}", f"{dressed} {words}", f"{dressed}\n\n{words}\n\n{dressed}"):
        letters = [sign for sign in spoken(text).replace(token, "") if sign.isalnum()]
        assert letters == [sign for sign in words if sign.isalnum()], text
