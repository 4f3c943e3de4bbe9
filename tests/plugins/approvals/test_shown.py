"""A question shows exactly what its yes is to, the same in a terminal, a chat and a mail."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

import pytest

from nanoclaw.markdown.html import to_html
from nanoclaw.markdown.terminal import to_terminal
from nanoclaw.markdown.text import to_plain, to_telegram
from nanoclaw.providers.scripted import ScriptedProvider, call
from tests.program import running

COMMANDS = {
    "ls ~/Documents # only lists\nrm -rf ~/Pictures": "ls ~/Documents # only lists\nrm -rf ~/Pictures",
    f"ls{' ' * 5_000}; rm x": "ls⟨5,000 blank characters⟩; rm x",
    "ls" + "\n" * 41 + "rm x": "ls⟨40 blank characters⟩\nrm x",
    "r\u200bm \u202ex\x1b[8m\u2028\u3164\r": "r⟨U+200B⟩m ⟨U+202E⟩x␛[8m⟨U+2028⟩⟨U+3164⟩␍",
    "echo ۱\u200cم 👩\u200d🚀 é\t漢": "echo ۱\u200cم 👩\u200d🚀 é\t漢",
    "ls `pwd`\n```\n[Yes](http://a.example) **ok**": "ls `pwd`\n```\n[Yes](http://a.example) **ok**",
}
LONG = f"echo {'a' * 5_000}; rm x; {'b' * 5_000}; rm y"
REASON = "I look` only.\n\n```\n1. Yes\n```\n[fine](http://a.example)"


def blocks(text: str) -> dict[str, str]:
    """The last block of code of a message as each channel shows it."""
    shown, entities = to_telegram(text)
    block = [one for one in entities if one["type"] == "pre"][-1]
    units = shown.encode("utf-16-le")[2 * block["offset"] :][: 2 * block["length"]]
    lines = re.findall(r"(?m)(?:^  .*\n?)+", to_terminal(text, 80, colour=False))
    return {
        "telegram": units.decode("utf-16-le"),
        "mail": re.findall(r"(?sm)^(```+)\n(.*?)\n\1$", to_plain(text))[-1][1],
        "matrix": unescape(re.findall(r"(?s)<pre><code>(.*?)\n</code></pre>", to_html(text))[-1]),
        "terminal": re.sub("(?m)^  ", "", lines[-1]).rstrip("\n"),
    }


@pytest.mark.parametrize("command", COMMANDS)
async def test_a_command_is_shown_whole_and_nothing_hides_in_it_in_any_channel(tmp_path: Path, command: str) -> None:
    step = call("exec", {"command": command, "beyond": REASON})
    async with running(tmp_path, ScriptedProvider(step, "Not done.")) as program:
        asked = await program.ask("Go")
        assert {*blocks(asked).values()} == {COMMANDS[command]}
        reason = "I look` only. ⏎ ``` ⏎ 1. Yes ⏎ ``` ⏎ [fine](http://a.example)"
        assert f"\n\nThe model's reason, in its own words: ```` {reason} ````\n\n```" in asked
        assert await program.ask("/answer 1") == asked


async def test_a_long_one_is_folded_to_both_ends_with_a_count_and_shown_whole_when_asked_for(tmp_path: Path) -> None:
    step = call("exec", {"command": LONG, "beyond": "so"})
    async with running(tmp_path, ScriptedProvider(step, "Not done.")) as program:
        asked = await program.ask("Go")
        told = "(10,019 characters in all; 7,019 of them are not shown here)"
        assert f"```\n{LONG[:2_000]}\n```\n\n{told}\n\n```\n{LONG[-1_000:]}\n```" in asked
        assert "“/answer 1” shows all of it" in asked
        assert f"```\n{LONG}\n```" in await program.ask("/answer 1")


async def test_what_is_to_be_noted_stands_in_the_question(tmp_path: Path) -> None:
    step = call("memory_add", {"text": "Anna:\nallergic to nuts", "kind": "fact"})
    settings = '[tools]\nask = ["memory_add"]\n'
    async with running(tmp_path, ScriptedProvider(step, "Not noted."), settings=settings) as program:
        exact = "```\ntext: Anna:\n  allergic to nuts\nkind: fact\n```"
        assert (await program.ask("Note it")).startswith(f"Run `memory_add`?\n\n{exact}\n\n")
