from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanoclaw.channels.text import Spoken, progress, tool_label, tool_line
from nanoclaw.core.events import Notice, ToolFinished
from nanoclaw.core.messages import ToolCall
from nanoclaw.escapes import one_line, printable
from nanoclaw.outside_text import block


@given(st.text())
def test_printable_leaves_newline_and_tab_of_all_control_bytes(text: str) -> None:
    clean = printable(text)
    assert not any((ord(char) < 32 and char not in "\n\t") or 127 <= ord(char) < 160 for char in clean)
    assert clean == "".join(char for char in text if char in "\n\t" or char.isprintable() or char in clean)


@pytest.mark.parametrize(
    ("arguments", "label"),
    [
        ('{"lines": 3, "path": "notes/x.md"}', "exec notes/x.md"),
        ('{"command": "echo a\\necho b"}', "exec echo a echo b"),
        ('{"verbose": true, "depth": 2}', "exec 2"),
        ('{"action": "stop", "id": 3}', "exec stop 3"),
        ('{"id": 3, "text": "y", "action": "input"}', "exec input y"),
        ('{"action": "list"}', "exec list"),
        ("{}", "exec"),
        ("[1, 2]", "exec"),
        ('{"path": null}', "exec"),
        ("not json", "exec not json"),
        ("[" * 100_000, "exec " + "[" * 59 + "…"),
        ('{"text": ' + "9" * 100_000 + "}", 'exec {"text": ' + "9" * 50 + "…"),
        ('{"text": "' + "x" * 5_000_000 + '"}', "exec"),
        ('{"path": "a\\u001b[31mb"}', "exec a[31mb"),
        ("", "exec"),
    ],
)
def test_the_label_of_a_call_survives_any_arguments(arguments: str, label: str) -> None:
    assert tool_label(ToolCall("1", "exec", arguments)) == label


def test_the_line_of_a_call_says_outcome_and_time() -> None:
    call = ToolCall("1", "exec", '{"command": "make"}')
    assert tool_line(ToolFinished(call, "one\ntwo\n", False, 3.456)) == "✓ exec make · 3.5 s, 8 B"
    assert tool_line(ToolFinished(call, "é\n" * 7_000, False, 2.1, number=7)) == "✓ exec make · 2.1 s, 21 kB #7"
    assert tool_line(ToolFinished(call, "wrote 3 bytes", False, 61.2)) == "✓ exec make · wrote 3 bytes, 61 s"
    assert tool_line(ToolFinished(call, "", False, 600)) == "✓ exec make · 10 min"
    assert tool_line(ToolFinished(call, "\n", True, 0)) == "✗ exec make · failed, 0.00 s"
    assert tool_line(ToolFinished(call, "bad\n[exit status 3]", True, 0)) == "✗ exec make · bad, 0.00 s, 19 B"
    marked = block("a.example", "no such page")
    assert tool_line(ToolFinished(call, marked, True, 0)).startswith("✗ exec make · no such page, 0.00 s")
    assert tool_line(ToolFinished(call, "Edited.", False, 0, diff="@@ line 2 @@\n x\n-a\n+b\n+c")) == (
        "✓ exec make · +2 −1, 0.00 s"
    )


def test_one_line_is_bounded() -> None:
    assert one_line(" a\r\n\tb ") == "a b"
    assert len(one_line("x" * 10_000_000)) == 60


@pytest.mark.parametrize(("fraction", "bar"), [(-1.0, "····   0 % x"), (0.5, "██··  50 % x"), (7.0, "████ 100 % x")])
def test_progress_stays_in_its_bar(fraction: float, bar: str) -> None:
    assert progress(Notice("x", fraction), cells=4) == bar


def spoken(*pieces: str) -> Spoken:
    spoken = Spoken()
    for piece in pieces:
        spoken.add(piece)
    return spoken


def test_an_answer_that_has_streamed_is_not_said_again() -> None:
    assert spoken("Hello\n", "\nworld").rest_of(" Hello\n\nworld\n") == ""
    assert spoken("Hel", "\n", "Hello world").rest_of("Hello world") == ""
    assert spoken("Hello").rest_of("Hello\n\n(the step limit)") == "(the step limit)"
    assert spoken("Done.", "\n", "Done.").rest_of("Done.\n\n(nothing was done)") == "(nothing was done)"


def test_another_text_is_said_whole() -> None:
    assert spoken("I am done").rest_of("done!") == "done!"
    assert spoken().rest_of("Hi") == "Hi"
    heard = spoken("Hi")
    assert (heard.rest_of("Hi"), heard.rest_of("Hi")) == ("", "Hi")


def test_the_next_turn_and_the_next_round_begin_anew() -> None:
    heard = spoken("Let me look.")
    heard.begin_round()
    heard.add("Done.")
    heard.end_turn()
    assert heard.rest_of("Done.") == ""
    heard.add("Next")
    assert heard.rest_of("Next") == ""
