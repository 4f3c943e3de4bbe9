"""The line after a turn that tells what it did."""

from __future__ import annotations

from pathlib import Path

from nanoclaw.providers.scripted import Say
from tests.plugins.claims.test_claims import talk


def test_a_turn_that_changed_something_is_followed_by_one_line(tmp_path: Path) -> None:
    calls = (
        ("write_file", {"path": "notes/bird.txt", "content": "pelican"}),
        *[("memory_add", {"text": "There is a bird."})] * 2,  # the second finds it noted
        ("write_file", {"path": "../x", "content": "x"}),
        ("read_file", {"path": "notes/bird.txt"}),
    )
    home = talk(tmp_path, ("go", (Say(calls=calls), "Done.")), ("and?", "Nothing more."))
    assert home.receipts == ["wrote notes/bird.txt; noted 1"]


def test_a_command_that_failed_was_run_all_the_same_and_is_told_as_failed(tmp_path: Path) -> None:
    commands = tuple(("exec", {"command": command}) for command in ("true", "false", "exit 3"))
    home = talk(tmp_path, ("go", (Say(calls=commands), "Two of the three commands failed.")))
    assert home.receipts == ["ran 3 commands (2 failed)"]


def test_many_files_are_counted(tmp_path: Path) -> None:
    calls = [("append_file", {"path": f"{number}.txt", "content": "x"}) for number in (1, 2, 3, 4, 5, 6, 1)]
    calls += [("edit_file", {"path": "1.txt", "old": "y", "new": "z"})]  # fails
    go = ("go", (Say(calls=tuple(calls)), "Done."))
    home = talk(tmp_path, go, ("/undo", ()), ("/receipts", ()))
    assert ["1.txt put back as before" in home.answers[1], "added to 2.txt" in home.answers[2]] == [True, True]
    assert home.receipts == ["added to 1.txt; added to 2.txt; added to 3.txt; added to 4.txt; 2 more"]
